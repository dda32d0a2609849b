//! What of the cost of moving data was not measured, and why.

use std::collections::{BTreeMap, HashSet};

use super::{cost_probes, cost_step};
use crate::ledger::{Ledger, NodeState, Probe};
use crate::model::{NicId, Outcome, Pair, ProbeSpec, Rail};

/// What was not measured, for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostGap {
    /// How many.
    pub count: usize,
    /// Of what: probes, nodes or directions of NICs.
    pub of: &'static str,
    /// Why.
    pub why: String,
}

/// Everything that was not measured, each reason once.
pub(super) fn of(ledger: &Ledger) -> Vec<CostGap> {
    let mut gaps: BTreeMap<(&'static str, String), usize> = BTreeMap::new();
    let mut add = |of, why: String| *gaps.entry((of, why)).or_default() += 1;
    for (name, node) in ledger.nodes() {
        match &node.state {
            NodeState::Connected { .. } => {}
            NodeState::Lost { why } => add("node", format!("{name} was lost: {why}")),
            _ => add(
                "node",
                format!("{name} was not reached before the run ended"),
            ),
        }
    }
    for (probe, why) in failures(ledger) {
        let spec = probe.planned.spec.as_ref();
        let step = ledger.settings().zip(spec);
        let step = step.and_then(|(settings, spec)| cost_step(settings, spec));
        let step = step.map_or(String::new(), |step| format!("{step}: "));
        add("probe", format!("{step}{why}"));
    }
    for why in unmet(ledger) {
        add("NIC direction", why);
    }
    let gap = |((of, why), count)| CostGap { count, of, why };
    gaps.into_iter().map(gap).collect()
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
fn unmet(ledger: &Ledger) -> Vec<String> {
    let ends = cost_probes(ledger).map(|probe| &probe.planned.pair);
    let mut planned: HashSet<(Rail, &NicId, bool)> = HashSet::new();
    for Pair { from, to, rail } in ends {
        planned.extend([(*rail, from, true), (*rail, to, false)]);
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
