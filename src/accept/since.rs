//! What has become worse since an earlier run: what is there, links, and counters of link errors. Rates are not
//! compared here: two runs differ by chance.

use std::collections::BTreeMap;

use super::run::Run;
use super::told::{Is, Told, Who};
use super::{Before, outcome};
use crate::judge::{NicView, NodeView};
use crate::model::{
    CheckResult, CounterStep, Fact, Gbps, Lanes, NodeFacts, NodeName, Rail, Weight, counts_errors,
};
use crate::topology::pcie_limit;

/// Everything that can be compared, by node and rail.
pub(super) fn since(run: &Run<'_>, before: Before<'_>) -> Vec<CheckResult> {
    let views = NodeView::of_run(before.ledger);
    let then: BTreeMap<&NodeName, &NodeView<'_>> =
        views.iter().map(|view| (view.name, view)).collect();
    let mut all = Vec::new();
    let mut push = |check: &str, told: Told| all.push(result(check, told, before.name));
    // Who was there is there still.
    for (name, view) in &then {
        match run.view(name) {
            None => push("since-nodes", gone(run, name)),
            Some(now) => nodes(now, view)
                .into_iter()
                .for_each(|(check, told)| push(check, told)),
        }
    }
    for (name, view) in &then {
        let Some(now) = run.view(name) else { continue };
        for nic in &view.nics {
            nics(now, view, nic)
                .into_iter()
                .for_each(|(check, told)| push(check, told));
        }
    }
    if then.is_empty() {
        let why = format!("no node was surveyed in {}", before.name);
        push("since-nodes", Told::unknown(Who::cluster(), why));
    }
    all.sort_by(|a, b| (&a.check, &a.node, a.rail).cmp(&(&b.check, &b.node, b.rail)));
    all
}

fn result(check: &str, told: Told, before: &str) -> CheckResult {
    CheckResult {
        check: check.to_owned(),
        weight: told.weight.unwrap_or(Weight::Must),
        node: told.who.node,
        rail: told.who.rail,
        subject: told.who.words,
        outcome: outcome(told.is),
        saw: told.saw,
        expected: told
            .expected
            .unwrap_or_else(|| "not worse than before".to_owned()),
        expected_from: before.to_owned(),
        evidence: told.evidence,
    }
}

/// A node of the earlier run that was left out on purpose is not a failure, and no pass.
fn gone(run: &Run<'_>, node: &NodeName) -> Told {
    let asked = run
        .settings
        .is_some_and(|settings| settings.nodes.contains(node));
    let why = match asked {
        true => run.why_not_surveyed(node),
        false => format!("{node} is not among the nodes of this run"),
    };
    Told {
        weight: (!asked).then_some(Weight::Should),
        ..Told::unknown(Who::node(node), why)
    }
}

/// What may not be less than before; where it was not known before, nothing can be said.
fn at_least<T: PartialOrd>(
    who: Who,
    [then, now]: [&Fact<T>; 2],
    say: impl Fn(&T) -> String,
) -> Option<Told> {
    let was = then.value()?;
    let told = Told::fact(who, now, |now| now >= was, &say);
    Some(told.expected(format!("{} or more, as before", say(was))))
}

fn nodes(now: &NodeView<'_>, then: &NodeView<'_>) -> Vec<(&'static str, Told)> {
    let who = || Who::node(now.name);
    let gpus = |view: &NodeView<'_>| {
        let facts = &view.facts.pcie;
        facts.clone().map(|tree| tree.gpus().count())
    };
    let devices = |view: &NodeView<'_>| view.facts.rdma.clone().map(|devices| devices.len());
    let count = |say: &'static str| move |count: &usize| format!("{count} {say}");
    let pairs = [
        (
            "since-gpus",
            at_least(who(), [&gpus(then), &gpus(now)], count("GPUs")),
        ),
        (
            "since-nics",
            at_least(
                who(),
                [&devices(then), &devices(now)],
                count("RDMA devices"),
            ),
        ),
    ];
    pairs
        .into_iter()
        .filter_map(|(check, told)| Some((check, told?)))
        .collect()
}

fn nics(now: &NodeView<'_>, then: &NodeView<'_>, was: &NicView<'_>) -> Vec<(&'static str, Told)> {
    let rail = was.rail.unwrap_or(Rail(0));
    let who = || Who::nic(&was.id, rail);
    let Some(is) = now.nics.iter().find(|nic| nic.rail == was.rail) else {
        let why = format!("no NIC of {} plays {rail} any more", now.name);
        return vec![("since-nics", Told::unknown(who(), why))];
    };
    if is.id != was.id {
        let why = format!("another NIC plays {rail} now: {}", is.id);
        return vec![("since-nics", Told::unknown(who(), why))];
    }
    let lanes = |lanes: &Fact<Lanes>| lanes.clone().map(|lanes| lanes.count);
    let link = [lanes(&was.port.lanes), lanes(&is.port.lanes)];
    let mut told: Vec<(&'static str, Option<Told>)> = vec![
        (
            "since-link",
            at_least(who(), [&link[0], &link[1]], |lanes| format!("{lanes}X")),
        ),
        (
            "since-mtu",
            at_least(
                who(),
                [&was.port.active_mtu, &is.port.active_mtu],
                u32::to_string,
            ),
        ),
        (
            "since-pcie",
            pcie(who(), carried(then, was), carried(now, is), is),
        ),
        (
            "since-counters",
            counters(who(), [then.facts, now.facts], [was, is]),
        ),
    ];
    if is.device.software.is_none() {
        let rates = [&was.port.rate, &is.port.rate];
        told.push(("since-link", at_least(who(), rates, Gbps::to_string)));
    }
    told.into_iter()
        .filter_map(|(check, told)| Some((check, told?)))
        .collect()
}

/// What the narrowest PCIe link above a NIC carries.
fn carried(view: &NodeView<'_>, nic: &NicView<'_>) -> Result<Gbps, String> {
    let why = || view.facts.pcie.why_unknown().unwrap_or_default().to_owned();
    let tree = view.pcie().ok_or_else(why)?;
    let address = nic.pci().ok_or("its PCI function is unknown")?;
    pcie_limit(tree, address).map(|limit| limit.link_rate)
}

fn pcie(
    who: Who,
    was: Result<Gbps, String>,
    now: Result<Gbps, String>,
    nic: &NicView<'_>,
) -> Option<Told> {
    let was = was.ok()?;
    let told = match now {
        Ok(now) => Told::seen(who, now >= was, format!("PCIe carries {now}")),
        Err(why) => Told::unknown(who, why),
    };
    let from = format!("/sys/bus/pci/devices, the links above {}", nic.id);
    Some(
        told.expected(format!("{was} or more, as before"))
            .from(from),
    )
}

/// Errors of the link that its port counted since.
fn counters(who: Who, facts: [&NodeFacts; 2], nics: [&NicView<'_>; 2]) -> Option<Told> {
    let was = nics[0].port.counters.value()?;
    let restarted = match facts.map(|facts| facts.uptime_s.value().copied()) {
        [Some(then), Some(now)] => now < then,
        _ => false,
    };
    let expected = "no errors of its link since then";
    let now = match &nics[1].port.counters {
        Fact::Known { value, .. } => value,
        Fact::Unknown { why } => return Some(Told::unknown(who, why.as_str()).expected(expected)),
    };
    if restarted {
        let why = "the node was started anew since then, and its counters began at zero";
        return Some(Told::unknown(who, why).expected(expected));
    }
    let (mut grown, mut unknown) = (Vec::new(), None);
    for old in was
        .values
        .iter()
        .filter(|counter| counts_errors(&counter.name))
    {
        let Some(new) = now.get(&old.name) else {
            unknown = Some(format!("{} is not there any more", old.name));
            continue;
        };
        match CounterStep::between(old.value, new.value, new.saturates_at, false) {
            CounterStep::By(0) => {}
            CounterStep::By(more) => grown.push(format!("{} by {more}", old.name)),
            CounterStep::Ended if old.value == new.value => {
                unknown = Some(format!(
                    "{} has reached its end and counts no more",
                    old.name
                ));
            }
            CounterStep::Ended => grown.push(format!("{} to its end", old.name)),
            CounterStep::Reset => unknown = Some(format!("{} was reset", old.name)),
        }
    }
    let told = match (grown.is_empty(), unknown) {
        (false, _) => Told::seen(who, false, format!("grown: {}", grown.join(", "))),
        (true, Some(why)) => Told {
            is: Is::Unknown(why),
            ..Told::seen(who, true, "none grew")
        },
        (true, None) => Told::seen(who, true, "none grew"),
    };
    let from = format!(
        "/sys/class/infiniband/{}/ports/{}/counters",
        nics[1].id.device, nics[1].id.port
    );
    Some(told.expected(expected).from(from))
}
