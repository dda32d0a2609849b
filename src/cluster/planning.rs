//! What a run has still to probe, from all that is known of it: a run that was resumed is planned as
//! one that was never cut off, less what was tried.

use std::collections::HashMap;

use crate::judge::retests;
use crate::ledger::{Ledger, NodeState};
use crate::model::{NicId, NodeFacts, NodeName, Pair, Port, Rail, RailNic, RailRule, Role, Route};
use crate::plan::{NoRoute, PlannedRound, all_pairs, in_use, resolve_rails, route};

/// Rounds to play, and pairs that belong to none.
pub(super) struct Plan {
    /// In the order of the schedule, none of them empty.
    pub(super) rounds: Vec<PlannedRound>,
    /// Pairs without a route, or with a NIC in use, with the reason.
    pub(super) skipped: Vec<(Pair, String)>,
}

type Rails = HashMap<NodeName, Vec<(Rail, NicId)>>;

/// Matches the NICs of all nodes that are there to rails.
pub(super) fn rail_nics(ledger: &Ledger, rule: &RailRule) -> Vec<RailNic> {
    let surveyed: Vec<(NodeName, &NodeFacts)> = ledger
        .nodes()
        .filter(|(_, node)| matches!(node.state, NodeState::Connected { .. }))
        .filter_map(|(name, node)| Some((name.clone(), node.facts.as_ref()?)))
        .collect();
    resolve_rails(rule, &surveyed)
}

/// Every pair of these NICs that was not tried yet, in the rounds that the seed gives.
pub(super) fn rounds(ledger: &Ledger, nics: &[RailNic], seed: u64) -> Plan {
    let mut rails = Rails::new();
    for entry in nics {
        if let Some(nic) = entry.nic.value() {
            rails
                .entry(entry.node.clone())
                .or_default()
                .push((entry.rail, nic.clone()));
        }
    }
    let nodes: Vec<NodeName> = rails.keys().cloned().collect();
    let tries = tries(ledger);
    let mut skipped = Vec::new();
    let mut rounds = all_pairs(&nodes, seed, &|from, to| pairs(&rails, from, to));
    for round in &mut rounds {
        round.retain(|pair| !tries.contains_key(pair));
        round.retain(|pair| match in_the_way(ledger, pair) {
            None => true,
            Some(why) => {
                skipped.push((pair.clone(), why));
                false
            }
        });
    }
    rounds.retain(|round| !round.is_empty());
    Plan { rounds, skipped }
}

/// Why a pair cannot be probed, or would disturb somebody's work.
fn in_the_way(ledger: &Ledger, pair: &Pair) -> Option<String> {
    let force = ledger.settings().is_some_and(|settings| settings.force);
    let used = |nic: &NicId| in_use(ledger.get_node(&nic.node)?.facts.as_ref()?, nic);
    let mut ends = [&pair.from, &pair.to].into_iter();
    let in_use = (!force).then(|| ends.find_map(used)).flatten();
    in_use.or_else(|| route_of(ledger, pair).err())
}

/// Pairs to be measured again for the `time`-th time, from 1, less those that were before the run
/// was cut off.
pub(super) fn doubtful(ledger: &Ledger, time: usize) -> Vec<Pair> {
    let tries = tries(ledger);
    let mut doubtful = retests(ledger);
    doubtful.retain(|pair| tries.get(pair).is_some_and(|tries| *tries <= time));
    doubtful
}

/// How often each pair was tried that was tried at all.
fn tries(ledger: &Ledger) -> HashMap<Pair, usize> {
    let pairs = ledger.pairs();
    let tries = pairs
        .iter()
        .map(|summary| (summary.pair.clone(), summary.tries()));
    tries.filter(|(_, tries)| *tries > 0).collect()
}

/// The addresses that a pair uses, or why there are none.
pub(super) fn route_of(ledger: &Ledger, pair: &Pair) -> Result<Route, String> {
    match (port(ledger, &pair.from), port(ledger, &pair.to)) {
        (Some(from), Some(to)) => route(from, to).map_err(|why| no_route(pair, &why)),
        _ => Err(format!("{pair}: a port was not surveyed")),
    }
}

fn port<'a>(ledger: &'a Ledger, nic: &NicId) -> Option<&'a Port> {
    let ports = &ledger.device(nic)?.ports;
    ports.iter().find(|port| port.number == nic.port)
}

/// The pairs, one for each rail that both nodes have, from one node to another.
fn pairs(rails: &Rails, from: &NodeName, to: &NodeName) -> Vec<Pair> {
    let (Some(mine), Some(theirs)) = (rails.get(from), rails.get(to)) else {
        return Vec::new();
    };
    let pair = |(rail, nic): &(Rail, NicId)| {
        let (_, other) = theirs.iter().find(|(other, _)| other == rail)?;
        Some(Pair {
            from: nic.clone(),
            to: other.clone(),
            rail: *rail,
        })
    };
    mine.iter().filter_map(pair).collect()
}

/// A port that is down is named, not each of the pairs that miss it: they all miss it for one reason.
fn no_route(pair: &Pair, why: &NoRoute) -> String {
    match why {
        NoRoute::PortNotActive {
            role,
            state,
            physical,
        } => {
            let nic = match role {
                Role::Initiator => &pair.from,
                Role::Target => &pair.to,
            };
            format!("the port of {nic} is {state}{physical}, not ACTIVE")
        }
        other => format!("{pair}: {other}"),
    }
}
