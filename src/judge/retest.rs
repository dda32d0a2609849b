//! What to measure once more before anyone is accused: low pairs and failed ones.

use std::collections::HashSet;

use super::{Localised, Observation, localise, observe};
use crate::ledger::{Ledger, NodeState, PairState};
use crate::model::Pair;

/// Pairs whose last word is not spoken: measured low, or failed although both nodes still answer.
pub fn retests(ledger: &Ledger) -> Vec<Pair> {
    let Some(settings) = ledger.settings() else {
        return Vec::new();
    };
    let observations = observe(ledger);
    let localised = localise(&observations, &settings.expect);
    let low: HashSet<&Pair> = low_observations(&localised).map(|seen| seen.pair).collect();
    let alive = |pair: &Pair| {
        [&pair.from, &pair.to]
            .into_iter()
            .all(|nic| answers(ledger, nic))
    };
    let again = ledger
        .pairs()
        .into_iter()
        .filter(|summary| match summary.state() {
            PairState::Measured { .. } => low.contains(summary.pair),
            PairState::Failed { .. } => true,
            PairState::NotRun { .. } => false,
        });
    again
        .map(|summary| summary.pair.clone())
        .filter(alive)
        .collect()
}

fn low_observations<'a>(found: &'a Localised<'a>) -> impl Iterator<Item = &'a Observation<'a>> {
    let accused = found.accused.values().flatten();
    accused.chain(&found.ambiguous).chain(&found.paths).copied()
}

fn answers(ledger: &Ledger, nic: &crate::model::NicId) -> bool {
    let node = ledger.get_node(&nic.node);
    node.is_some_and(|node| matches!(node.state, NodeState::Connected { .. }))
}
