//! The patterns that are not all pairs: a ring, one node with all others, pairs that were named.

use std::collections::HashSet;

use crate::model::{NodeName, Pattern};

/// Two nodes that meet, each once as sender and once as receiver.
pub type Meeting = (NodeName, NodeName);

/// The rounds of a pattern that names its pairs, among nodes in the operator's order; no node is twice
/// in a round. `None` for a pattern whose rounds are those of a [`super::Schedule`].
///
/// A pair with a node that is not among these is left out: what was asked for and is not there, the
/// caller knows. Nobody meets himself, and no two meet twice.
pub fn named_rounds(pattern: &Pattern, nodes: &[NodeName]) -> Option<Vec<Vec<Meeting>>> {
    let meetings = match pattern {
        Pattern::Adaptive | Pattern::Quick | Pattern::Full => return None,
        Pattern::Ring => ring(nodes),
        Pattern::One { node } => nodes
            .iter()
            .map(|other| (node.clone(), other.clone()))
            .collect(),
        Pattern::Pairs { pairs } => pairs.clone(),
        Pattern::Nothing => Vec::new(),
    };
    let there: HashSet<&NodeName> = nodes.iter().collect();
    let mut met = HashSet::new();
    let fresh = |(a, b): &Meeting| {
        let once = (a.min(b).clone(), a.max(b).clone());
        a != b && there.contains(a) && there.contains(b) && met.insert(once)
    };
    Some(pack(meetings.into_iter().filter(fresh)))
}

/// Each node with the next, the last with the first: every other pair, the pairs between these, and
/// of an odd ring the one that is left. Packed in this order they take two rounds, or three.
fn ring(nodes: &[NodeName]) -> Vec<Meeting> {
    let next = nodes.iter().cycle().skip(1);
    let all: Vec<Meeting> = nodes.iter().cloned().zip(next.cloned()).collect();
    let every_other = |first: usize| all.iter().skip(first).step_by(2).cloned();
    every_other(0).chain(every_other(1)).collect()
}

/// Each pair in the first round that has neither of its nodes yet.
fn pack(meetings: impl Iterator<Item = Meeting>) -> Vec<Vec<Meeting>> {
    let mut rounds: Vec<(Vec<Meeting>, HashSet<NodeName>)> = Vec::new();
    for (a, b) in meetings {
        let free = |busy: &HashSet<NodeName>| !busy.contains(&a) && !busy.contains(&b);
        let place = rounds.iter().position(|(_, busy)| free(busy));
        let place = place.unwrap_or_else(|| {
            rounds.push(Default::default());
            rounds.len() - 1
        });
        let (round, busy) = &mut rounds[place];
        busy.extend([a.clone(), b.clone()]);
        round.push((a, b));
    }
    rounds.into_iter().map(|(round, _)| round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes(n: usize) -> Vec<NodeName> {
        (0..n).map(|i| NodeName::from(format!("n{i:02}"))).collect()
    }

    fn rounds(pattern: &Pattern, nodes: &[NodeName]) -> Vec<Vec<Meeting>> {
        named_rounds(pattern, nodes).unwrap()
    }

    fn shown(rounds: &[Vec<Meeting>]) -> String {
        let round = |round: &Vec<Meeting>| -> String {
            let pairs: Vec<String> = round.iter().map(|(a, b)| format!("{a}:{b}")).collect();
            pairs.join(" ")
        };
        rounds.iter().map(round).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_ring_takes_two_rounds_or_three() {
        for (n, wanted) in [
            (0, ""),
            (1, ""),
            (2, "n00:n01"),
            (3, "n00:n01 | n02:n00 | n01:n02"),
            (4, "n00:n01 n02:n03 | n01:n02 n03:n00"),
            (5, "n00:n01 n02:n03 | n04:n00 n01:n02 | n03:n04"),
            (6, "n00:n01 n02:n03 n04:n05 | n01:n02 n03:n04 n05:n00"),
        ] {
            assert_eq!(shown(&rounds(&Pattern::Ring, &nodes(n))), wanted, "{n}");
        }
    }

    #[test]
    fn a_ring_is_in_the_order_of_the_operator() {
        let order = ["c", "a", "b", "d"].map(NodeName::from);
        assert_eq!(shown(&rounds(&Pattern::Ring, &order)), "c:a b:d | a:b d:c");
    }

    #[test]
    fn one_node_meets_all_others_one_by_one() {
        let node = NodeName::from("n01");
        let one = Pattern::One { node };
        assert_eq!(shown(&rounds(&one, &nodes(3))), "n01:n00 | n01:n02");
        let node = NodeName::from("n07");
        let absent = Pattern::One { node };
        assert_eq!(shown(&rounds(&absent, &nodes(3))), "");
    }

    #[test]
    fn named_pairs_meet_once() {
        let pair = |a: &str, b: &str| (NodeName::from(a), NodeName::from(b));
        let pairs = vec![
            pair("n00", "n01"),
            pair("n01", "n00"),
            pair("n02", "n02"),
            pair("n01", "n02"),
            pair("n02", "n03"),
            pair("n02", "n09"),
        ];
        let pattern = Pattern::Pairs { pairs };
        let wanted = "n00:n01 n02:n03 | n01:n02";
        assert_eq!(shown(&rounds(&pattern, &nodes(4))), wanted);
    }

    #[test]
    fn all_pairs_are_no_business_of_this() {
        for pattern in [Pattern::Adaptive, Pattern::Quick, Pattern::Full] {
            assert_eq!(named_rounds(&pattern, &nodes(4)), None);
        }
    }

    proptest! {
        #[test]
        fn a_ring_has_each_node_twice_and_once_in_a_round(n in 3usize..40) {
            let rounds = rounds(&Pattern::Ring, &nodes(n));
            prop_assert_eq!(rounds.len(), 2 + n % 2);
            for round in &rounds {
                let busy: HashSet<_> = round.iter().flat_map(|(a, b)| [a, b]).collect();
                prop_assert_eq!(busy.len(), 2 * round.len());
            }
            for node in nodes(n) {
                let times = rounds.iter().flatten().filter(|(a, b)| *a == node || *b == node);
                prop_assert_eq!(times.count(), 2);
            }
        }
    }
}
