//! A profile of a healthy cluster as it is now: what was seen, with a margin where that is measured.
//!
//! Each check is held against the run that it is made from: one that would not pass there is written as a
//! comment that says why.

mod gpus;

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};

use jiff::civil::Date;

use super::bandwidth::median;
use super::run::Run;
use super::{accept, ends};
use crate::config::{Select, read_profile};
use crate::judge::{Judgement, NicView, NodeView};
use crate::ledger::Ledger;
use crate::model::{
    Acceptance, CheckOutcome, CostStep, Direction, Fact, Gbps, LinkState, MemlockLimit, Severity,
    Verdict, visible,
};
use crate::topology::links_on_path;

/// Of what was measured, so much is demanded: two runs differ by chance.
const MARGIN: f64 = 0.97;

/// Latency and CPU time may be so much more than what was measured.
const MORE: f64 = 1.25;

/// The most values of one kind that are worth a list.
const MOST_VALUES: usize = 8;

/// Why no profile is made of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHealthy {
    /// The run found faults.
    #[error("the run found {0} faults, and a profile of it would demand no better")]
    Faults(usize),
    /// Not everything could be judged.
    #[error("not everything of the run could be judged, so what the cluster is like is not known")]
    NotJudged,
}

/// A check that is proposed.
struct Proposed {
    name: &'static str,
    text: String,
    /// What was seen.
    saw: String,
}

/// The text of a profile that this run passes; `run_name` is what its comments call the run.
///
/// # Errors
/// [`NotHealthy`], unless `whatever` is asked for.
pub fn init(
    ledger: &Ledger,
    judgement: &Judgement,
    run_name: &str,
    today: Date,
    whatever: bool,
) -> Result<String, NotHealthy> {
    let faults = judgement
        .findings
        .iter()
        .filter(|f| f.severity == Severity::Fault)
        .count();
    match judgement.verdict {
        _ if whatever => {}
        Verdict::AtLineRate => {}
        Verdict::Faults => return Err(NotHealthy::Faults(faults)),
        Verdict::CouldNotJudge => return Err(NotHealthy::NotJudged),
    }
    let run = Run::of(ledger, judgement);
    let all = proposed(&run);
    let name = format!("as of {today}");
    let whole: String = all
        .iter()
        .map(|check| format!("{}\n", check.text))
        .collect();
    let profile = read_profile(&format!("profile = \"{name}\"\n{whole}"), "profile");
    // What is written here is a profile: the tests hold that.
    let held = profile.map(|profile| accept(&profile, ledger, judgement, None, today));
    let mut text = head(&run, &name, run_name, whatever);
    for check in &all {
        let why_not = match &held {
            Ok(held) => why_not(held, check.name),
            Err(errors) => errors
                .problems
                .first()
                .map(|problem| problem.message.clone()),
        };
        write_check(&mut text, check, why_not);
    }
    Ok(text)
}

fn head(run: &Run<'_>, name: &str, run_name: &str, whatever: bool) -> String {
    let nodes = run.nodes(&Select::default()).len();
    let mut text = format!(
        "# Made by `linerate accept --init` of {nodes} nodes, from {}. Each check says what was seen. Of what was\n\
         # measured, {:.0}% is demanded; of latency and CPU time {:.0}% is borne.\n",
        visible(run_name),
        MARGIN * 100.0,
        MORE * 100.0
    );
    if run.settings.is_some_and(|settings| settings.simulated) {
        text.push_str("# SIMULATED: nothing was measured; this is what a scenario is like.\n");
    }
    if whatever && run.judgement.verdict != Verdict::AtLineRate {
        text.push_str("# NOT HEALTHY: the run found faults, or could not judge everything.\n");
    }
    let _ = writeln!(text, "\nprofile = \"{name}\"");
    text
}

/// Why a check does not pass the run that it is made from.
fn why_not(held: &Acceptance, name: &str) -> Option<String> {
    let mine = held.results.iter().filter(|result| result.check == name);
    let mut bad = mine.filter(|result| result.outcome != CheckOutcome::Passed);
    let bad = bad.next()?;
    Some(match &bad.outcome {
        CheckOutcome::NotJudged { why } => format!("{}: {why}", bad.subject),
        _ => format!(
            "{}: {}",
            bad.subject,
            bad.saw.as_deref().unwrap_or_default()
        ),
    })
}

fn write_check(text: &mut String, check: &Proposed, why_not: Option<String>) {
    let line = |what: &str| visible(what.replace('\n', " ").trim_end_matches('.'));
    text.push('\n');
    if !check.saw.is_empty() {
        let _ = writeln!(text, "# Seen: {}.", line(&check.saw));
    }
    let Some(why) = why_not else {
        text.push_str(&check.text);
        return;
    };
    let _ = writeln!(
        text,
        "# Left out, for the run does not pass it: {}.",
        line(&why)
    );
    for of_check in check.text.lines() {
        let _ = writeln!(text, "# {of_check}");
    }
}

fn check(name: &'static str, of: &str, demand: impl Display, saw: impl Into<String>) -> Proposed {
    Proposed {
        name,
        text: format!("[check.{name}]\nof = \"{of}\"\n{demand}\n"),
        saw: saw.into(),
    }
}

fn proposed(run: &Run<'_>) -> Vec<Proposed> {
    let mut all = vec![check("coverage", "coverage", "at_least = \"100%\"", "")];
    let everybody = Select::default();
    let views: Vec<&NodeView<'_>> = run
        .nodes(&everybody)
        .into_iter()
        .filter_map(|node| run.view(node))
        .collect();
    let nics: Vec<(&NodeView<'_>, &NicView<'_>)> = run
        .places(&everybody)
        .into_iter()
        .filter_map(Result::ok)
        .collect();
    let nodes = views.len();
    all.push(check(
        "nodes",
        "nodes",
        format!("at_least = {nodes}"),
        format!("{nodes} nodes"),
    ));
    of_nodes(&views, &mut all);
    of_nics(run, &nics, &mut all);
    gpus::of_gpus(&views, &nics, &mut all);
    measured(run, &nics, &mut all);
    let untold = run.judgement.cannot_tell.len();
    let (more, saw) = match untold {
        0 => ("", "none".to_owned()),
        many => (
            "\ncannot_tell = \"borne\"",
            format!("none, and {many} that could not be told"),
        ),
    };
    all.push(check(
        "faults",
        "findings",
        format!("severity = [\"fault\"]{more}"),
        saw,
    ));
    all
}

/// Values in quotes, as a list of the file.
fn quoted(values: &BTreeSet<String>) -> String {
    let texts: Vec<String> = values
        .iter()
        .map(|value| toml::Value::from(value.as_str()).to_string())
        .collect();
    format!("[{}]", texts.join(", "))
}

/// All values of a fact, where each is known.
fn known<'f, T: 'f>(facts: impl Iterator<Item = &'f Fact<T>>) -> Option<Vec<&'f T>> {
    let all: Option<Vec<&T>> = facts.map(Fact::value).collect();
    all.filter(|all| !all.is_empty())
}

fn counted(name: &'static str, of: &str, counts: &[u64], all: &mut Vec<Proposed>) {
    let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) else {
        return;
    };
    if *most == 0 {
        return;
    }
    all.push(match least == most {
        true => check(
            name,
            of,
            format!("is = {least}"),
            format!("{least} everywhere"),
        ),
        false => check(
            name,
            of,
            format!("at_least = {least}"),
            format!("{least} to {most}"),
        ),
    });
}

fn listed(name: &'static str, of: &str, values: Option<Vec<&String>>, all: &mut Vec<Proposed>) {
    let Some(values) = values else { return };
    let values: BTreeSet<String> = values.into_iter().map(|value| visible(value)).collect();
    if values.len() > MOST_VALUES {
        return all.push(check(
            name,
            of,
            "same = true",
            format!("{} of them", values.len()),
        ));
    }
    let demand = format!("one_of = {}", quoted(&values));
    let saw = values.into_iter().collect::<Vec<_>>().join(", ");
    all.push(check(name, of, demand, saw));
}

fn of_nodes(views: &[&NodeView<'_>], all: &mut Vec<Proposed>) {
    let counts: Vec<u64> = views.iter().map(|view| view.nics.len() as u64).collect();
    counted("nics", "nics", &counts, all);
    listed(
        "kernel",
        "kernel",
        known(views.iter().map(|view| &view.facts.kernel)),
        all,
    );
    let Some(limits) = known(views.iter().map(|view| &view.facts.memlock)) else {
        return;
    };
    let bytes = limits.iter().filter_map(|limit| match limit {
        MemlockLimit::Bytes(bytes) => Some(*bytes),
        MemlockLimit::Unlimited => None,
    });
    all.push(match bytes.min() {
        None => check(
            "memlock",
            "memlock",
            "is = \"unlimited\"",
            "unlimited everywhere",
        ),
        Some(least) => {
            let demand = format!("at_least = \"{} B\"", least.0);
            check("memlock", "memlock", demand, format!("{least} or more"))
        }
    });
}

fn of_nics(run: &Run<'_>, nics: &[(&NodeView<'_>, &NicView<'_>)], all: &mut Vec<Proposed>) {
    let ports = || nics.iter().map(|(_, nic)| nic.port);
    let devices = || nics.iter().map(|(_, nic)| nic.device);
    listed(
        "firmware",
        "firmware",
        known(devices().map(|device| &device.firmware)),
        all,
    );
    let layers: BTreeSet<String> = ports()
        .filter_map(|port| port.link_layer.value())
        .map(ToString::to_string)
        .collect();
    if let Some(layer) = layers.first().filter(|_| layers.len() == 1) {
        all.push(check(
            "link-layer",
            "link-layer",
            format!("is = \"{layer}\""),
            format!("{layer} everywhere"),
        ));
    }
    let hardware = devices().all(|device| device.software.is_none());
    if let Some(rates) = known(ports().map(|port| &port.rate)).filter(|_| hardware) {
        let least = rates.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some(least) = least {
            let demand = format!("at_least = \"{} Gb/s\"", least.0);
            all.push(check(
                "link-rate",
                "link-rate",
                demand,
                format!("{least} or more"),
            ));
        }
    }
    if let Some(mtus) = known(ports().map(|port| &port.active_mtu)) {
        let mtus: Vec<u64> = mtus.into_iter().map(|mtu| u64::from(*mtu)).collect();
        counted("mtu", "mtu", &mtus, all);
    }
    if layers.len() == 1 {
        all.extend(gid(run, nics));
    }
    all.extend(pcie(nics));
}

/// The type of the GIDs that were used, where it is one.
fn gid(run: &Run<'_>, nics: &[(&NodeView<'_>, &NicView<'_>)]) -> Option<Proposed> {
    let planned = &run.ledger.probes().next()?.planned;
    let (_, nic) = nics.iter().find(|(_, nic)| nic.id == planned.pair.from)?;
    let index = planned.route.from.gid_index;
    let gid = nic.port.gids.iter().find(|gid| gid.index == index)?;
    let [_, word, ..] = gid.columns(nic.port.link_layer.value());
    let word = match word.as_str() {
        "RoCEv2" => "RoCE v2",
        "RoCEv1" => "RoCE v1",
        "IB" => "IB",
        _ => return None,
    };
    Some(check(
        "gid-type",
        "gid-type",
        format!("is = \"{word}\""),
        format!("{word} was used"),
    ))
}

/// The slowest and narrowest link, where all are known.
fn pcie(nics: &[(&NodeView<'_>, &NicView<'_>)]) -> Option<Proposed> {
    let mut least: Option<LinkState> = None;
    for (view, nic) in nics {
        for link in links_on_path(view.pcie()?, nic.pci()?) {
            let state = link.current.ok()?;
            let known = least.get_or_insert(state);
            known.speed = known.speed.min(state.speed);
            known.width = known.width.min(state.width);
        }
    }
    let least = least?;
    Some(check(
        "pcie",
        "pcie",
        format!("at_least = \"{least}\""),
        format!("{least} or more on every hop"),
    ))
}

/// Three digits, rounded down: what is demanded is never more than the margin leaves.
fn down(value: f64) -> f64 {
    let scale = 10f64.powf(2.0 - value.log10().floor());
    (value * scale).floor() / scale
}

fn up(value: f64) -> f64 {
    let scale = 10f64.powf(2.0 - value.log10().floor());
    (value * scale).ceil() / scale
}

fn measured(run: &Run<'_>, nics: &[(&NodeView<'_>, &NicView<'_>)], all: &mut Vec<Proposed>) {
    let best = |nic: &NicView<'_>, way| {
        let seen = run.ends.seen(&run.observed, &nic.id, way).into_iter();
        seen.map(|seen| seen.rate.0).max_by(f64::total_cmp)
    };
    let ways = [Direction::Tx, Direction::Rx];
    let rates: Vec<f64> = nics
        .iter()
        .flat_map(|(_, nic)| ways.map(|way| best(nic, way)))
        .flatten()
        .collect();
    let pairs = run.observed.best_of_pairs().into_iter();
    let pairs = pairs
        .filter(|seen| ends::why_not(run.ledger, seen).is_none())
        .map(|seen| seen.rate.0);
    let slowest = rates.iter().copied().chain(pairs).min_by(f64::total_cmp);
    if let (Some(least), Some((_, middle))) = (slowest.filter(|least| *least > 0.0), median(rates))
    {
        let least_of = least * MARGIN;
        let demand = match least_of >= 1.0 {
            true => format!("at_least = \"{} Gb/s\"", down(least_of)),
            false => format!("at_least = \"{} Mb/s\"", down(least_of * 1e3)),
        };
        let saw = format!("{} or more, {} in the middle", Gbps(least), Gbps(middle));
        all.push(check("bandwidth", "bandwidth", demand, saw));
        all.push(check(
            "even",
            "bandwidth",
            "at_least = \"90% of median\"",
            "",
        ));
    }
    all.push(check("counters", "counters", "", "none grew").without_empty_line());
    let Some(cost) = &run.cost else { return };
    let latency = cost.pairs.iter().flat_map(|pair| &pair.latency);
    let writes = latency.filter(|latency| latency.step == CostStep::LatencyWrite);
    let smallest = writes.clone().map(|latency| latency.told.bytes).min();
    let slow = writes
        .filter(|latency| Some(latency.told.bytes) == smallest)
        .map(|latency| latency.told.median_ns)
        .max();
    if let Some(slow) = slow {
        let most = (slow as f64 * MORE).ceil();
        let demand = format!("at_most = \"{most} ns\"\npercentile = \"median\"");
        all.push(check(
            "latency",
            "latency",
            demand,
            format!("{:.2} µs at most", slow as f64 / 1e3),
        ));
    }
    let steps = cost
        .pairs
        .iter()
        .filter_map(|pair| pair.step(CostStep::Write));
    let spent = steps.flat_map(|step| step.ends.iter().flatten());
    let cores = spent.filter_map(|end| end.cores_for(Gbps(100.0)));
    if let Some(most) = cores.max_by(f64::total_cmp).filter(|most| *most > 0.0) {
        let demand = format!("at_most = \"{} cores\"", up((most * MORE).max(0.1)));
        all.push(check(
            "cpu",
            "cpu",
            demand,
            format!("{most:.2} cores at most for 100 Gb/s by RDMA writes"),
        ));
    }
}

impl Proposed {
    fn without_empty_line(mut self) -> Self {
        self.text = self.text.replace("\n\n", "\n");
        self
    }
}
