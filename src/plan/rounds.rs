//! Rounds: pairs that run at the same time, no NIC in two of them.

use std::collections::HashSet;

use sha2::{Digest, Sha256};

use super::Schedule;
use crate::model::{NicId, NodeName, Pair};

/// Pairs that run at the same time.
pub type PlannedRound = Vec<Pair>;

/// The nodes in an order that depends on the seed and their names only, not on the order in which
/// they were listed. Stable over versions: it is that of SHA-256(seed ‖ name).
pub fn shuffled(nodes: &[NodeName], seed: u64) -> Vec<NodeName> {
    let mut nodes = nodes.to_vec();
    nodes.sort_by_cached_key(|node| {
        let digest = Sha256::new()
            .chain_update(seed.to_be_bytes())
            .chain_update(&node.0);
        (digest.finalize(), node.clone())
    });
    nodes.dedup();
    nodes
}

/// Every ordered pair of nodes exactly once, on all rails that both have, all rails at once:
/// two rounds, one for each direction, for each round of a round-robin among the nodes.
///
/// `pairs_of` gives the pairs, at most one for each rail, of a sending and a receiving node.
pub fn all_pairs(
    nodes: &[NodeName],
    seed: u64,
    pairs_of: &dyn Fn(&NodeName, &NodeName) -> Vec<Pair>,
) -> Vec<PlannedRound> {
    let schedule = Schedule::new(&[nodes.to_vec()], seed);
    let mut rounds = Vec::new();
    for round in 0..schedule.rounds() {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        for (a, b) in schedule.meetings(round) {
            there.extend(pairs_of(a, b));
            back.extend(pairs_of(b, a));
        }
        rounds.extend([there, back].into_iter().filter(|pairs| !pairs.is_empty()));
    }
    rounds
}

/// Any pairs in as few rounds as taking them in order gives, no NIC twice in a round.
pub fn pack(pairs: Vec<Pair>) -> Vec<PlannedRound> {
    let mut rounds: Vec<(PlannedRound, HashSet<NicId>)> = Vec::new();
    for pair in pairs {
        let free = |busy: &HashSet<NicId>| !busy.contains(&pair.from) && !busy.contains(&pair.to);
        let place = rounds
            .iter()
            .position(|(_, busy)| free(busy))
            .unwrap_or_else(|| {
                rounds.push(Default::default());
                rounds.len() - 1
            });
        let (round, busy) = &mut rounds[place];
        busy.extend([pair.from.clone(), pair.to.clone()]);
        round.push(pair);
    }
    rounds.into_iter().map(|(round, _)| round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Rail;
    use proptest::prelude::*;

    fn nodes(n: usize) -> Vec<NodeName> {
        (0..n).map(|i| NodeName::from(format!("n{i:03}"))).collect()
    }

    fn nic(node: &NodeName, rail: u16) -> NicId {
        NicId {
            node: node.clone(),
            device: format!("mlx5_{rail}").into(),
            port: 1,
        }
    }

    fn on_rails(rails: u16) -> impl Fn(&NodeName, &NodeName) -> Vec<Pair> {
        move |from, to| {
            let pair = |rail| Pair {
                from: nic(from, rail),
                to: nic(to, rail),
                rail: Rail(rail),
            };
            (0..rails).map(pair).collect()
        }
    }

    fn check_no_nic_twice(rounds: &[PlannedRound]) {
        for round in rounds {
            let mut busy = HashSet::new();
            for pair in round {
                assert!(
                    busy.insert(&pair.from) && busy.insert(&pair.to),
                    "{pair} again in a round"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn each_ordered_pair_once_and_no_nic_twice_in_a_round(n in 0usize..30, rails in 1u16..5, seed: u64) {
            let rounds = all_pairs(&nodes(n), seed, &on_rails(rails));
            check_no_nic_twice(&rounds);
            let all: Vec<_> = rounds.iter().flatten().collect();
            let unique: HashSet<_> = all.iter().collect();
            prop_assert_eq!(unique.len(), all.len());
            prop_assert_eq!(all.len(), n * n.saturating_sub(1) * usize::from(rails));
            prop_assert!(rounds.len() <= 2 * n.next_multiple_of(2).saturating_sub(1));
        }

        #[test]
        fn the_plan_does_not_depend_on_the_order_of_the_list(n in 2usize..20, seed: u64) {
            let forward = nodes(n);
            let backward: Vec<_> = forward.iter().rev().cloned().collect();
            prop_assert_eq!(
                all_pairs(&forward, seed, &on_rails(1)),
                all_pairs(&backward, seed, &on_rails(1))
            );
        }

        #[test]
        fn packing_keeps_every_pair(picks in proptest::collection::vec((0usize..8, 0usize..8, 0u16..2), 0..60)) {
            let nodes = nodes(8);
            let pairs: Vec<_> = picks.into_iter().filter(|(a, b, _)| a != b)
                .map(|(a, b, rail)| Pair { from: nic(&nodes[a], rail), to: nic(&nodes[b], rail), rail: Rail(rail) })
                .collect();
            let rounds = pack(pairs.clone());
            check_no_nic_twice(&rounds);
            let mut packed: Vec<_> = rounds.into_iter().flatten().collect();
            let mut pairs = pairs;
            packed.sort();
            pairs.sort();
            prop_assert_eq!(packed, pairs);
        }
    }

    #[test]
    fn another_seed_is_another_order() {
        assert_ne!(shuffled(&nodes(16), 1), shuffled(&nodes(16), 2));
    }
}
