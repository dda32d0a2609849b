//! Who meets in a many-to-one burst: several nodes send to one at once, as in a shuffle or a gather.

use super::leaves::leaves;
use crate::model::{LeafGroup, NodeName};

/// Senders of a burst at the most: two fill one receiver twice over, and more make it no clearer.
pub const MOST_SENDERS: usize = 4;

/// The fewest nodes that make many of one: two that send and one that receives.
pub const FEWEST: usize = 3;

/// A burst: one node receives what others send at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Burst {
    /// Who receives.
    pub to: NodeName,
    /// Who sends: at least two.
    pub from: Vec<NodeName>,
}

/// One burst in each leaf group, whose switch has then one port to fill from several; groups that are
/// too small for one share it. In rounds in which no more than `most` nodes carry traffic.
pub fn bursts(nodes: &[NodeName], groups: &[LeafGroup], most: usize) -> Vec<Vec<Burst>> {
    let (large, small): (Vec<_>, Vec<_>) = leaves(nodes, groups)
        .groups
        .into_iter()
        .partition(|group| group.len() >= FEWEST);
    let together = small.concat();
    let mut rounds: Vec<Vec<Burst>> = Vec::new();
    let mut busy = most;
    for group in large.into_iter().chain([together]) {
        let Some(burst) = burst(&group, most) else {
            continue;
        };
        let takes = 1 + burst.from.len();
        busy += takes;
        match rounds.last_mut().filter(|_| busy <= most) {
            Some(round) => round.push(burst),
            None => {
                busy = takes;
                rounds.push(vec![burst]);
            }
        }
    }
    rounds
}

fn burst(group: &[NodeName], most: usize) -> Option<Burst> {
    let (to, others) = group.split_first()?;
    let from = others.iter().take(MOST_SENDERS.min(most.saturating_sub(1)));
    let from: Vec<NodeName> = from.cloned().collect();
    let to = to.clone();
    (from.len() + 1 >= FEWEST).then_some(Burst { to, from })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn nodes(n: usize) -> Vec<NodeName> {
        (0..n).map(|i| NodeName::from(format!("n{i:02}"))).collect()
    }

    fn shown(rounds: &[Vec<Burst>]) -> Vec<String> {
        let burst = |burst: &Burst| {
            let from: Vec<&str> = burst.from.iter().map(|node| node.0.as_str()).collect();
            format!("{}>{}", from.join("+"), burst.to)
        };
        let round = |round: &Vec<Burst>| round.iter().map(burst).collect::<Vec<_>>().join(" ");
        rounds.iter().map(round).collect()
    }

    #[test]
    fn each_leaf_has_a_burst_and_small_ones_share_one() {
        let all = nodes(10);
        let group = |name: &str, nodes: &[NodeName]| LeafGroup {
            name: name.into(),
            nodes: nodes.to_vec(),
        };
        let groups = [
            group("a", &all[..6]),
            group("b", &all[6..8]),
            group("c", &all[8..]),
        ];
        assert_eq!(
            shown(&bursts(&all, &groups, 10)),
            ["n01+n02+n03+n04>n00 n07+n08+n09>n06"]
        );
        // No more may carry traffic at one time.
        assert_eq!(
            shown(&bursts(&all, &groups, 4)),
            ["n01+n02+n03>n00", "n07+n08+n09>n06"]
        );
        for too_few in [bursts(&all, &groups, 2), bursts(&all[..2], &[], 10)] {
            assert_eq!(too_few, Vec::<Vec<Burst>>::new());
        }
    }

    proptest! {
        #[test]
        fn no_node_is_in_two_bursts_and_no_round_is_too_busy(
            n in 0usize..60, size in 1usize..9, most in 0usize..70,
        ) {
            let all = nodes(n);
            let group = |(at, nodes): (usize, &[NodeName])| LeafGroup {
                name: at.to_string(),
                nodes: nodes.to_vec(),
            };
            let groups: Vec<LeafGroup> = all.chunks(size).enumerate().map(group).collect();
            let rounds = bursts(&all, &groups, most);
            prop_assert_eq!(rounds.is_empty(), n < FEWEST || most < FEWEST);
            let mut seen = HashSet::new();
            for round in &rounds {
                let ends = || round.iter().flat_map(|burst| burst.from.iter().chain([&burst.to]));
                prop_assert!(ends().count() <= most);
                prop_assert!(round.iter().all(|b| (2..=MOST_SENDERS).contains(&b.from.len())));
                prop_assert!(ends().all(|node| seen.insert(node)));
            }
        }
    }
}
