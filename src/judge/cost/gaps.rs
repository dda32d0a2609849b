//! What of the cost of moving data was not measured, and why.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{burst_step, cost_probes, cost_step};
use crate::ledger::{Ledger, NodeState, Probe};
use crate::model::{
    CostStep, NO_HUGE_PAGES, NicId, Outcome, Pair, ProbeSpec, ProbeStage, Rail, RunEnd,
};
use crate::plan::{burst_specs, cost_probes as cost_probes_of};

/// What was not measured, for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostGap {
    /// How many.
    pub count: usize,
    /// Of what: probes, nodes or directions of NICs.
    pub of: &'static str,
    /// Why.
    pub why: String,
    /// Whether a finding tells it as well: `node-lost`.
    pub is_finding: bool,
}

/// What was not measured, each reason once.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// What keeps a run from being complete.
    pub missing: Vec<CostGap>,
    /// What hosts may do without, and nobody asked for by name.
    pub unavailable: Vec<CostGap>,
}

/// Everything that was not measured.
pub(super) fn of(ledger: &Ledger) -> Gaps {
    let mut count = Count::default();
    count.nodes(ledger);
    count.probes(ledger);
    for why in unmet(ledger) {
        count.add("NIC direction", why);
    }
    count.bursts(ledger);
    Gaps {
        missing: listed(count.missing),
        unavailable: listed(count.unavailable),
    }
}

/// How often there was what was not measured, by what it is, why, and whether a finding tells it.
type Counted = BTreeMap<(&'static str, String, bool), usize>;

#[derive(Default)]
struct Count {
    missing: Counted,
    unavailable: Counted,
}

impl Count {
    fn add(&mut self, of: &'static str, why: String) {
        *self.missing.entry((of, why, false)).or_default() += 1;
    }

    /// What hosts may do without, where `is_asked_for` says whether it was asked for all the same.
    fn add_or_not(&mut self, of: &'static str, why: String, is_asked_for: bool) {
        match is_asked_for {
            true => self.add(of, why),
            false => *self.unavailable.entry((of, why, false)).or_default() += 1,
        }
    }

    fn nodes(&mut self, ledger: &Ledger) {
        for (name, node) in ledger.nodes() {
            match &node.state {
                NodeState::Connected { .. } => {}
                NodeState::Lost { why } => {
                    let why = format!("{name} was lost: {why}");
                    *self.missing.entry(("node", why, true)).or_default() += 1;
                }
                _ => self.add(
                    "node",
                    format!("{name} was not reached before the run ended"),
                ),
            }
        }
    }

    fn probes(&mut self, ledger: &Ledger) {
        for (probe, why) in failures(ledger) {
            let step = step_of(ledger, probe);
            let named = step.map_or(String::new(), |step| format!("{step}: "));
            let is_gap = !step.is_some_and(|step| is_unavailable(ledger, step, probe));
            self.add_or_not("probe", format!("{named}{why}"), is_gap);
        }
    }

    fn bursts(&mut self, ledger: &Ledger) {
        let is_over = ledger.end() == Some(RunEnd::Complete);
        for step in without_burst(ledger) {
            let why = match is_over {
                true => {
                    "many to one takes three nodes of a rail whose NICs can be probed at one time"
                }
                false => "many to one: the run ended before that",
            };
            let is_gap = !is_over || is_asked_for(ledger, step);
            self.add_or_not("burst", why.to_owned(), is_gap);
        }
    }
}

fn listed(counted: Counted) -> Vec<CostGap> {
    let gap = |((of, why, is_finding), count)| CostGap {
        count,
        of,
        why,
        is_finding,
    };
    counted.into_iter().map(gap).collect()
}

fn step_of(ledger: &Ledger, probe: &Probe) -> Option<CostStep> {
    cost_step(ledger.settings()?, probe.planned.spec.as_ref()?)
}

/// Whether a step was asked for by its name.
fn is_asked_for(ledger: &Ledger, step: CostStep) -> bool {
    let settings = ledger.settings();
    let cost = settings.and_then(|settings| settings.cost.as_ref());
    cost.is_some_and(|cost| cost.only.contains(&step))
}

/// The ways by which many were to send to one, for each rail on which no burst was planned.
fn without_burst(ledger: &Ledger) -> Vec<CostStep> {
    let Some((cost, settings)) = ledger
        .settings()
        .and_then(|settings| Some((settings.cost.as_ref()?, settings)))
    else {
        return Vec::new();
    };
    let rails: BTreeSet<Rail> = ledger.rail_nics().map(|(rail, ..)| rail).collect();
    let mut planned: HashSet<(CostStep, Rail)> = HashSet::new();
    for probe in cost_probes(ledger) {
        let step = burst_step(ledger, probe);
        planned.extend(step.map(|step| (step, probe.planned.pair.rail)));
    }
    let steps = burst_specs(cost, &settings.probe).into_iter();
    let all = steps.flat_map(|(step, _)| rails.iter().map(move |rail| (step, *rail)));
    let open = all.filter(|one| !planned.contains(one));
    open.map(|(step, _)| step).collect()
}

/// Whether a probe failed for want of something that hosts may do without, and its step was not asked
/// for by name.
fn is_unavailable(ledger: &Ledger, step: CostStep, probe: &Probe) -> bool {
    if is_asked_for(ledger, step) {
        return false;
    }
    match &probe.outcome {
        Some(Outcome::Failed { stage, why, .. }) => {
            step == CostStep::WriteHuge
                && *stage == ProbeStage::Prepare
                && why.contains(NO_HUGE_PAGES)
        }
        _ => false,
    }
}

type Key<'a> = (&'a Pair, &'a Option<ProbeSpec>);

/// Probes that gave nothing, and were not made once more with success.
fn failures(ledger: &Ledger) -> Vec<(&Probe, String)> {
    let key = |probe: &'_ Probe| -> String {
        let (pair, spec): Key<'_> = (&probe.planned.pair, &probe.planned.spec);
        format!("{pair} {spec:?}")
    };
    let measured = cost_probes(ledger).filter(|probe| probe.rate().is_some() || told(probe));
    let measured: HashSet<String> = measured.map(key).collect();
    let open = cost_probes(ledger).filter_map(|probe| {
        let why = match &probe.outcome {
            Some(Outcome::Measured { .. }) if told(probe) || probe.rate().is_some() => None,
            Some(Outcome::Measured { .. }) => Some("its transfer took no time".to_owned()),
            Some(Outcome::Failed { stage, why, node }) => {
                let at = node.as_ref().map(|node| format!("{node}: "));
                Some(format!("{}{stage}: {why}", at.unwrap_or_default()))
            }
            Some(Outcome::NotRun { why }) => Some(why.clone()),
            None => Some("the run was cut off before it ended".to_owned()),
        };
        Some((probe, why?))
    });
    let open = open.filter(|(probe, _)| !measured.contains(&key(probe)));
    open.collect()
}

/// Whether a probe told a latency.
fn told(probe: &Probe) -> bool {
    probe.measurement().is_some_and(|m| m.ping_pong.is_some())
}

/// Directions of NICs for which no probe was planned, with the reason.
///
/// Where nothing is measured both ways, a NIC has to take part at either end.
fn unmet(ledger: &Ledger) -> Vec<String> {
    let Some(settings) = ledger.settings() else {
        return Vec::new();
    };
    let wanted = settings.cost.as_ref();
    let wanted = wanted.map_or(Vec::new(), |cost| cost_probes_of(cost, &settings.probe));
    if wanted.is_empty() {
        return Vec::new();
    }
    let one_way = wanted.iter().all(|probe| !probe.both_ways);
    let of_pairs = cost_probes(ledger).filter(|probe| burst_step(ledger, probe).is_none());
    let ends = of_pairs.map(|probe| &probe.planned.pair);
    let mut planned: HashSet<(Rail, &NicId, bool)> = HashSet::new();
    for Pair { from, to, rail } in ends {
        planned.extend([(*rail, from, true), (*rail, to, false)]);
        if one_way {
            planned.extend([(*rail, from, false), (*rail, to, true)]);
        }
    }
    let mut unmet = Vec::new();
    for (rail, node, nic) in ledger.rail_nics() {
        let Some(nic) = nic.value() else { continue };
        for initiates in [true, false] {
            if planned.contains(&(rail, nic, initiates)) {
                continue;
            }
            let is_mine = |skipped: &&crate::ledger::Skipped| {
                let end = if initiates {
                    &skipped.from
                } else {
                    &skipped.to
                };
                skipped.rail == rail && end == node
            };
            let skipped = ledger.skipped().iter().find(is_mine);
            unmet.push(match skipped {
                Some(skipped) => skipped.why.clone(),
                None => format!("{nic} met no neighbour on {rail}"),
            });
        }
    }
    unmet
}
