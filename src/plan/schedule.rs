//! Which nodes meet in which round: a schedule without a table, for any leaf groups, that brings each
//! two nodes together exactly once and neighbours below one leaf switch first.

use std::collections::HashSet;

use sha2::{Digest, Sha256};

use super::circle;
use super::rounds::shuffled;
use crate::model::NodeName;

/// Every two nodes of a run in one round each. The same for the same seed, whatever order groups and
/// their nodes are listed in.
///
/// First the inner rounds: a round-robin inside of every group, all groups at once. Then the cross
/// rounds: a round-robin of the groups, in which two groups that meet take a round for each way to
/// lay the seats of one against those of the other. Smaller groups have empty seats, and an odd number
/// of groups an empty group: who meets one has a bye.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Sorted; a node's number is its place here.
    names: Vec<NodeName>,
    /// The numbers of each group's nodes in the order of their seats, the groups in theirs.
    groups: Vec<Vec<usize>>,
    /// Seats of the largest group.
    seats: usize,
}

impl Schedule {
    /// The schedule of these leaf groups; a node of several belongs to the first.
    pub fn new(groups: &[Vec<NodeName>], seed: u64) -> Self {
        let mut seen = HashSet::new();
        let mut groups: Vec<Vec<NodeName>> = groups
            .iter()
            .map(|group| {
                let fresh = group.iter().filter(|node| seen.insert(*node));
                shuffled(&fresh.cloned().collect::<Vec<_>>(), seed)
            })
            .filter(|group| !group.is_empty())
            .collect();
        groups.sort_by_cached_key(|group| digest(group, seed));
        let mut names = groups.concat();
        names.sort();
        let number = |node: &NodeName| names.binary_search(node).ok();
        let numbers = |group: &Vec<NodeName>| group.iter().filter_map(number).collect();
        let groups: Vec<Vec<usize>> = groups.iter().map(numbers).collect();
        let seats = groups.iter().map(Vec::len).max().unwrap_or(0);
        Self {
            names,
            groups,
            seats,
        }
    }

    /// The nodes by their numbers.
    pub fn names(&self) -> &[NodeName] {
        &self.names
    }

    /// How many rounds there are.
    pub fn rounds(&self) -> usize {
        self.inner_rounds() + self.crossings() * self.seats
    }

    /// How many of them, the first ones, stay inside of groups: S − 1, where S is the size of the
    /// largest group made even. None where no group has two nodes.
    pub fn inner_rounds(&self) -> usize {
        match self.seats {
            0 | 1 => 0,
            seats => seats.next_multiple_of(2) - 1,
        }
    }

    /// The nodes that meet in a round, by their numbers, no node twice; none in a round that is not.
    pub fn round(&self, round: usize) -> Vec<(usize, usize)> {
        let inner = self.inner_rounds();
        if round < inner {
            return self.inside(round);
        }
        match round - inner {
            cross if cross < self.crossings() * self.seats => {
                self.across(cross / self.seats, cross % self.seats)
            }
            _ => Vec::new(),
        }
    }

    /// The nodes that meet, by their names, where the groups meet for the `crossing`-th time and lay
    /// their seats against each other's `shift` seats further; those of two groups in a row.
    pub fn between(&self, crossing: usize, shift: usize) -> Vec<(&NodeName, &NodeName)> {
        if crossing >= self.crossings() || self.seats == 0 {
            return Vec::new();
        }
        let pairs = self.across(crossing, shift % self.seats).into_iter();
        pairs
            .map(|(a, b)| (&self.names[a], &self.names[b]))
            .collect()
    }

    /// The nodes that meet in a round, by their names.
    pub fn meetings(&self, round: usize) -> impl Iterator<Item = (&NodeName, &NodeName)> {
        let pairs = self.round(round).into_iter();
        pairs.map(|(a, b)| (&self.names[a], &self.names[b]))
    }

    /// How often groups meet each other, all at once, each time with other partners.
    pub fn crossings(&self) -> usize {
        match self.groups.len() {
            0 | 1 => 0,
            groups => groups.next_multiple_of(2) - 1,
        }
    }

    fn inside(&self, round: usize) -> Vec<(usize, usize)> {
        let seats = self.inner_rounds() + 1;
        let mut pairs = Vec::with_capacity(self.names.len() / 2);
        for group in &self.groups {
            for (seat, &node) in group.iter().enumerate() {
                let partner = circle(seats, round, seat);
                if seat < partner
                    && let Some(&other) = group.get(partner)
                {
                    pairs.push((node, other));
                }
            }
        }
        pairs
    }

    /// Seat p of a group meets seat p + `shift` of the group that it meets in `crossing`.
    fn across(&self, crossing: usize, shift: usize) -> Vec<(usize, usize)> {
        let players = self.crossings() + 1;
        let mut pairs = Vec::with_capacity(self.names.len() / 2);
        for (player, group) in self.groups.iter().enumerate() {
            let partner = circle(players, crossing, player);
            let others = self.groups.get(partner).filter(|_| player < partner);
            let Some(others) = others else { continue };
            for (seat, &node) in group.iter().enumerate() {
                if let Some(&other) = others.get((seat + shift) % self.seats) {
                    pairs.push((node, other));
                }
            }
        }
        pairs
    }
}

/// Orders groups by seed and names: SHA-256(seed ‖ each name and a NUL). Their nodes come in an order
/// that depends on these alone, too.
fn digest(group: &[NodeName], seed: u64) -> impl Ord + use<> {
    let digest = group
        .iter()
        .fold(Sha256::new_with_prefix(seed.to_be_bytes()), |all, node| {
            all.chain_update(&node.0).chain_update([0])
        });
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Groups of these sizes, their nodes numbered through.
    fn groups(sizes: &[usize]) -> Vec<Vec<NodeName>> {
        let mut numbers = 0..;
        let mut group = |size: &usize| {
            let numbers = numbers.by_ref().take(*size);
            numbers
                .map(|n| NodeName::from(format!("n{n:04}")))
                .collect()
        };
        sizes.iter().map(&mut group).collect()
    }

    fn group_of(groups: &[Vec<NodeName>]) -> HashMap<&NodeName, usize> {
        let each = groups.iter().enumerate();
        each.flat_map(|(n, group)| group.iter().map(move |node| (node, n)))
            .collect()
    }

    /// Each round's pairs by name.
    fn played(schedule: &Schedule) -> Vec<Vec<(NodeName, NodeName)>> {
        let round = |round| schedule.meetings(round);
        (0..schedule.rounds())
            .map(|n| round(n).map(|(a, b)| (a.clone(), b.clone())).collect())
            .collect()
    }

    fn sizes() -> impl Strategy<Value = Vec<usize>> {
        proptest::collection::vec(0usize..12, 0..7)
    }

    proptest! {
        #[test]
        fn each_two_nodes_meet_once_and_nobody_is_twice_in_a_round(sizes in sizes(), seed: u64) {
            let schedule = Schedule::new(&groups(&sizes), seed);
            let mut met = HashSet::new();
            for round in 0..schedule.rounds() {
                let mut busy = HashSet::new();
                for (a, b) in schedule.round(round) {
                    prop_assert!(busy.insert(a) && busy.insert(b), "{} or {} twice in {}", a, b, round);
                    prop_assert!(met.insert((a.min(b), a.max(b))), "{} and {} again", a, b);
                }
            }
            let nodes: usize = sizes.iter().sum();
            prop_assert_eq!(schedule.names().len(), nodes);
            prop_assert_eq!(met.len(), nodes * nodes.saturating_sub(1) / 2);
            prop_assert_eq!(schedule.round(schedule.rounds()), []);
            prop_assert_eq!(schedule.round(usize::MAX), []);
        }

        #[test]
        fn inner_rounds_stay_in_groups_and_cross_rounds_never_do(sizes in sizes(), seed: u64) {
            let groups = groups(&sizes);
            let (home, schedule) = (group_of(&groups), Schedule::new(&groups, seed));
            for (round, pairs) in played(&schedule).iter().enumerate() {
                for (a, b) in pairs {
                    prop_assert_eq!(home[a] == home[b], round < schedule.inner_rounds());
                }
            }
        }

        #[test]
        fn the_order_of_nodes_and_groups_is_none(sizes in sizes(), seed: u64) {
            let mut turned = groups(&sizes);
            let straight = Schedule::new(&turned, seed);
            turned.reverse();
            turned.iter_mut().for_each(|group| group.reverse());
            prop_assert_eq!(played(&Schedule::new(&turned, seed)), played(&straight));
        }

        #[test]
        fn equal_even_groups_take_as_few_rounds_as_can_be(half in 1usize..8, count in 0usize..4, seed: u64) {
            // One group, or an even number of them.
            let count = if count == 0 { 1 } else { 2 * count };
            let nodes = 2 * half * count;
            let schedule = Schedule::new(&groups(&vec![2 * half; count]), seed);
            prop_assert_eq!(schedule.rounds(), nodes - 1);
            for round in 0..schedule.rounds() {
                prop_assert_eq!(schedule.round(round).len(), nodes / 2);
            }
        }

        #[test]
        fn the_first_rounds_give_every_node_another_partner_each(half in 1usize..10, count in 1usize..5, seed: u64) {
            let schedule = Schedule::new(&groups(&vec![2 * half; count]), seed);
            prop_assert_eq!(schedule.inner_rounds(), 2 * half - 1);
            let mut partners: HashMap<usize, HashSet<usize>> = HashMap::new();
            for k in 1..=schedule.inner_rounds() {
                for (a, b) in schedule.round(k - 1) {
                    partners.entry(a).or_default().insert(b);
                    partners.entry(b).or_default().insert(a);
                }
                prop_assert!(partners.values().all(|met| met.len() == k));
                prop_assert_eq!(partners.len(), schedule.names().len());
            }
        }
    }

    #[test]
    fn another_seed_is_another_schedule() {
        let groups = groups(&[8, 8, 8, 8]);
        let [one, two] = [1, 2].map(|seed| Schedule::new(&groups, seed));
        assert_ne!(one.round(0), two.round(0));
        // The groups change places as well: which two meet first differs for some seed.
        let home = group_of(&groups);
        let first = |seed| -> HashSet<_> {
            let schedule = Schedule::new(&groups, seed);
            let pairs = &played(&schedule)[schedule.inner_rounds()];
            let ends = pairs.iter().map(|(a, b)| (home[a], home[b]));
            ends.map(|(a, b)| (a.min(b), a.max(b))).collect()
        };
        assert!((2..20).any(|seed| first(seed) != first(1)));
    }

    #[test]
    fn a_node_of_two_groups_belongs_to_the_first() {
        let [a, b, c] = ["a", "b", "c"].map(NodeName::from);
        let twice = [vec![a.clone(), b.clone()], vec![b, c]];
        let schedule = Schedule::new(&twice, 7);
        assert_eq!(schedule.inner_rounds(), 1);
        // a and b are numbers 0 and 1.
        let pairs = schedule.round(0);
        assert!(pairs == [(0, 1)] || pairs == [(1, 0)], "{pairs:?}");
    }

    #[test]
    fn thousands_of_nodes_are_no_burden() {
        let schedule = Schedule::new(&groups(&[32; 128]), 9);
        assert_eq!((schedule.inner_rounds(), schedule.rounds()), (31, 4095));
        let met: HashSet<_> = (0..16).flat_map(|round| schedule.round(round)).collect();
        assert_eq!(met.len(), 16 * 2048);
    }

    #[test]
    fn groups_of_one_meet_at_once() {
        let schedule = Schedule::new(&groups(&[1, 1, 1, 1]), 3);
        assert_eq!((schedule.inner_rounds(), schedule.rounds()), (0, 3));
    }
}
