//! A cable that is in the switch of another rail: latency tells.

use std::collections::BTreeMap;

use super::{About, Context, listed, plain};
use crate::judge::cabling::{Cable, Far};
use crate::ledger::Probe;
use crate::model::{Evidence, Finding, NodeName, Rail, Rule, Severity, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::WrongRail,
    means: "The cable of a NIC is in the switch of another rail. It reaches its line while nobody else needs \
            the spine; with all nodes busy its traffic crosses the spine, where that of its rail stays below \
            one leaf switch.",
    detected: "Small writes before each transfer: the NIC's shortest latency to neighbours below the same leaf \
               is above 1.2 times its rail's median and far out of its spread. Measured to the NICs of one such \
               neighbour rail by rail, it is near to another rail's and not to its own. Cannot be told where no \
               route leads from one rail to another, where the median is above 20 µs, of software RDMA, or of \
               fewer than four NICs.",
    remedy: "Follow the cable from the NIC to the port of the switch, and swap it with that of the NIC whose \
             place it has; then run again.",
};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let far = &context.far;
    let mut findings = Vec::new();
    let mut nodes: BTreeMap<&NodeName, Vec<(&Far<'_>, Rail)>> = BTreeMap::new();
    for far in far {
        match far.cable() {
            Cable::In(rail) => {
                let mine = nodes.entry(&far.stray.nic.node).or_default();
                mine.push((far, rail));
            }
            Cable::Nowhere | Cable::Untold if is_settled(context, far) => {
                findings.push(untold(far));
            }
            _ => {}
        }
    }
    for mut cables in nodes.into_values() {
        while let Some((far, rail)) = cables.pop() {
            let other = cables
                .iter()
                .position(|(other, to)| other.stray.rail == rail && *to == far.stray.rail);
            match other.map(|at| cables.remove(at).0) {
                Some(other) => findings.push(swapped(other, far)),
                None => findings.push(moved(far, rail)),
            }
        }
    }
    findings
}

/// Whether its cable was looked for, and the leaf groups are known by which it has neighbours.
fn is_settled(context: &Context<'_>, far: &Far<'_>) -> bool {
    let settings = context.ledger.settings();
    let grouped = settings.is_some_and(|settings| !settings.sweep.groups.is_empty());
    grouped && !far.stray.tried.is_empty()
}

fn swapped(one: &Far<'_>, other: &Far<'_>) -> Finding {
    let nic = &one.stray.nic;
    let says = format!(
        "{} and {} of {} are cabled into each other's rail: {}, and {}.",
        nic.device,
        other.stray.nic.device,
        nic.node,
        latencies(one, other.stray.rail),
        latencies(other, one.stray.rail)
    );
    let evidence = [evidence(one), evidence(other)].concat();
    finding(Severity::Warning, one, says, evidence)
}

fn moved(far: &Far<'_>, rail: Rail) -> Finding {
    let says = format!(
        "The cable of {} ({}) is in the switch of {rail}: {}.",
        far.stray.nic,
        far.stray.rail,
        latencies(far, rail)
    );
    finding(Severity::Warning, far, says, evidence(far))
}

/// `mlx5_2 (rail 2) is 1.98 µs from rail 3 of node004 and 3.41 µs from its own`
fn latencies(far: &Far<'_>, rail: Rail) -> String {
    let us = |rail: Rail| {
        let ns = far.to.get(&rail).map(|(ns, _)| *ns);
        ns.map_or("unknown".to_owned(), us)
    };
    let helper = far.stray.helper.as_ref().map_or("", |node| node.0.as_str());
    format!(
        "{} ({}) is {} from {rail} of {helper} and {} from its own",
        far.stray.nic.device,
        far.stray.rail,
        us(rail),
        us(far.stray.rail)
    )
}

fn untold(far: &Far<'_>) -> Finding {
    let own = far.stray.rail;
    let others: Vec<String> = far
        .to
        .keys()
        .filter(|rail| **rail != own)
        .map(Rail::to_string)
        .collect();
    let why = match others.as_slice() {
        [] => "No route leads from it to another rail, so which switch its cable is in cannot be told."
            .to_owned(),
        others => format!(
            "It is not nearer to {}: its cable may be in the switch of another leaf.",
            listed(others)
        ),
    };
    let says = format!(
        "NIC {} ({own}) is {} from its nearest neighbour below the same leaf, its rail's median is {}. {why}",
        far.stray.nic,
        us(far.best.0),
        us(far.median as u64)
    );
    finding(Severity::Note, far, says, evidence(far))
}

fn finding(severity: Severity, far: &Far<'_>, says: String, evidence: Vec<Evidence>) -> Finding {
    let subject = Subject::Nic(far.stray.nic.clone(), far.stray.rail, None);
    plain(
        Rule::WrongRail,
        severity,
        subject,
        says,
        evidence,
        ABOUT.remedy,
    )
}

/// The latency to its nearest neighbour, and rail by rail.
fn evidence(far: &Far<'_>) -> Vec<Evidence> {
    let of = |(ns, probe): (u64, &Probe)| {
        let (from, to) = (&probe.planned.pair.from, &probe.planned.pair.to);
        Evidence {
            saw: format!("{from} → {to}: {} at the least", us(ns)),
            from: format!("{}, small RDMA writes one at a time", probe.planned.probe),
        }
    };
    let rails = far.to.values().copied();
    std::iter::once(far.best).chain(rails).map(of).collect()
}

fn us(ns: u64) -> String {
    format!("{:.2} µs", ns as f64 / 1e3)
}
