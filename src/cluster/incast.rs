//! The rounds in which several NICs send to one.

use std::collections::{BTreeSet, HashSet};

use super::planning::{Rails, Usable, busiest};
use crate::ledger::{Ledger, NodeState};
use crate::model::{NicId, NodeName, Pair, ProbeSpec, Purpose, Rail, RunSettings};
use crate::plan::{Burst, FEWEST, burst_specs, bursts};

/// Bursts that were not tried yet, a way and a rail after the other, each round with what its probes do.
pub(super) fn rounds(
    ledger: &Ledger,
    settings: &RunSettings,
    rails: &Rails,
    usable: &Usable<'_>,
) -> Vec<(Vec<Pair>, ProbeSpec)> {
    let specs = settings.cost.as_ref();
    let specs = specs.map_or(Vec::new(), |cost| burst_specs(cost, &settings.probe));
    let numbers: BTreeSet<Rail> = rails.values().flatten().map(|(rail, _)| *rail).collect();
    let mut rounds = Vec::new();
    for (_, spec) in specs {
        let tried = tried(ledger, &spec);
        for rail in &numbers {
            let taking = Taking {
                nics: free(ledger, settings, (rails, *rail), usable),
                rail: *rail,
                usable,
                tried: &tried,
            };
            rounds.extend(taking.rounds(settings, &spec));
        }
    }
    rounds
}

/// The NICs of a rail that can take part now, in the order of the run's nodes.
fn free(
    ledger: &Ledger,
    settings: &RunSettings,
    (rails, rail): (&Rails, Rail),
    usable: &Usable<'_>,
) -> Vec<NicId> {
    let nic = |node: &NodeName| {
        let known = ledger.get_node(node)?;
        let is_there = matches!(known.state, NodeState::Connected { .. });
        let (_, nic) = rails.get(node)?.iter().find(|(other, _)| *other == rail)?;
        (is_there && usable.is_free(nic)).then(|| nic.clone())
    };
    settings.nodes.iter().filter_map(nic).collect()
}

/// What bursts of a rail are made of.
struct Taking<'a> {
    nics: Vec<NicId>,
    rail: Rail,
    usable: &'a Usable<'a>,
    tried: &'a HashSet<&'a Pair>,
}

impl Taking<'_> {
    fn rounds(&self, settings: &RunSettings, spec: &ProbeSpec) -> Vec<(Vec<Pair>, ProbeSpec)> {
        let nodes: Vec<NodeName> = self.nics.iter().map(|nic| nic.node.clone()).collect();
        let most = 2 * busiest(nodes.len(), &settings.sweep);
        let rounds = bursts(&nodes, &settings.sweep.groups, most).into_iter();
        let pairs = rounds.map(|round| round.iter().flat_map(|burst| self.pairs(burst)).collect());
        let open = pairs.filter(|pairs: &Vec<Pair>| !pairs.is_empty());
        open.map(|pairs| (pairs, spec.clone())).collect()
    }

    /// None where all of them were tried. One that was cut off is no burst: it is made again, all of it.
    fn pairs(&self, burst: &Burst) -> Vec<Pair> {
        let nic = |node: &NodeName| self.nics.iter().find(|nic| nic.node == *node).cloned();
        let pair = |from: &NodeName| {
            Some(Pair {
                from: nic(from)?,
                to: nic(&burst.to)?,
                rail: self.rail,
            })
        };
        let mut pairs: Vec<Pair> = burst.from.iter().filter_map(pair).collect();
        pairs.retain(|pair| self.usable.in_the_way(pair).is_none());
        let is_done = pairs.iter().all(|pair| self.tried.contains(pair));
        match is_done || pairs.len() + 1 < FEWEST {
            true => Vec::new(),
            false => pairs,
        }
    }
}

/// The pairs of bursts that were tried.
fn tried<'a>(ledger: &'a Ledger, spec: &ProbeSpec) -> HashSet<&'a Pair> {
    let tried = ledger.probes().filter(|probe| probe.was_tried());
    let of_burst = tried.filter(|probe| {
        let planned = &probe.planned;
        planned.purpose == Purpose::Cost && planned.spec.as_ref() == Some(spec)
    });
    of_burst.map(|probe| &probe.planned.pair).collect()
}
