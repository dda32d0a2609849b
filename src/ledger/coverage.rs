//! What was measured of all that there is to measure, and why the rest was not.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Ledger, NodeState, PairState};
use crate::model::{NodeName, Rail};

/// Counts of ordered pairs of nodes, on each rail.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Coverage {
    /// Pairs with a measured rate.
    pub measured: usize,
    /// Pairs whose probes all went wrong.
    pub failed: usize,
    /// Pairs that were not tried.
    pub not_run: usize,
    /// The failed and the untried ones, with the reason.
    pub gaps: Vec<Gap>,
}

/// Pairs that were not measured, for one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Gap {
    /// How many pairs.
    pub pairs: usize,
    /// Whether they were tried.
    pub tried: bool,
    /// Why.
    pub why: String,
}

impl Coverage {
    /// All pairs there are.
    pub fn total(&self) -> usize {
        self.measured + self.failed + self.not_run
    }

    /// Whether every pair was measured, and there was at least one.
    pub fn is_complete(&self) -> bool {
        self.measured > 0 && self.failed == 0 && self.not_run == 0
    }
}

enum Seen<'a> {
    Measured,
    Failed(String),
    NotRun(&'a str),
}

impl Ledger {
    /// What was measured of every ordered pair of the run's nodes on every rail.
    pub fn coverage(&self) -> Coverage {
        let nodes = self
            .settings
            .as_ref()
            .map(|s| s.nodes.as_slice())
            .unwrap_or_default();
        let rails: BTreeSet<Rail> = self.rail_nics().map(|(rail, ..)| rail).collect();
        let seen = self.seen();
        let mut coverage = Coverage::default();
        let mut gaps: BTreeMap<(bool, String), usize> = BTreeMap::new();
        for rail in rails {
            for from in nodes {
                for to in nodes.iter().filter(|to| *to != from) {
                    match seen.get(&(rail, from, to)) {
                        Some(Seen::Measured) => coverage.measured += 1,
                        Some(Seen::Failed(why)) => {
                            coverage.failed += 1;
                            *gaps.entry((true, why.clone())).or_default() += 1;
                        }
                        Some(Seen::NotRun(why)) => {
                            coverage.not_run += 1;
                            *gaps.entry((false, (*why).to_owned())).or_default() += 1;
                        }
                        None => {
                            coverage.not_run += 1;
                            *gaps
                                .entry((false, self.why_unplanned(rail, from, to)))
                                .or_default() += 1;
                        }
                    }
                }
            }
        }
        let gap = |((tried, why), pairs)| Gap { pairs, tried, why };
        coverage.gaps = gaps.into_iter().map(gap).collect();
        coverage
    }

    fn seen(&self) -> HashMap<(Rail, &NodeName, &NodeName), Seen<'_>> {
        let skipped = self
            .skipped
            .iter()
            .map(|s| ((s.rail, &s.from, &s.to), Seen::NotRun(&s.why)));
        let mut seen: HashMap<_, _> = skipped.collect();
        for summary in self.pairs() {
            let state = match summary.state() {
                PairState::Measured { .. } => Seen::Measured,
                PairState::Failed { stage, node, why } => {
                    let at = node.map(|node| format!("{node}: ")).unwrap_or_default();
                    Seen::Failed(format!("{at}{stage}: {why}"))
                }
                PairState::NotRun { why } => Seen::NotRun(why),
            };
            let pair = summary.pair;
            seen.insert((pair.rail, &pair.from.node, &pair.to.node), state);
        }
        seen
    }

    /// Why a pair never came into a plan: one of its nodes, or its NIC there, was not to be had.
    fn why_unplanned(&self, rail: Rail, from: &NodeName, to: &NodeName) -> String {
        for node in [from, to] {
            match self.nodes.get(node).map(|n| &n.state) {
                Some(NodeState::Lost { .. }) => return format!("{node} was lost"),
                Some(NodeState::Connected { .. }) => {}
                _ => return format!("{node} was not reached before the run ended"),
            }
        }
        for node in [from, to] {
            if let Some(why) = self
                .rails
                .get(&(rail, node.clone()))
                .and_then(|nic| nic.why_unknown())
            {
                return why.to_owned();
            }
        }
        "the run ended before this pair was planned".to_owned()
    }
}
