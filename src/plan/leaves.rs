//! The nodes of a run by their leaf groups.

use std::collections::{HashMap, HashSet};

use crate::model::{LeafGroup, NodeName};

/// The nodes of a run, each in exactly one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaves {
    /// The groups that have nodes of the run, with only these; last those of no group, as one.
    pub groups: Vec<Vec<NodeName>>,
    /// The nodes that no group names, where groups were given: something to tell the operator.
    pub ungrouped: Vec<NodeName>,
}

/// Sorts nodes by the groups that name them, of several the first. Without groups all nodes are one.
pub fn leaves(nodes: &[NodeName], groups: &[LeafGroup]) -> Leaves {
    let home = group_numbers(groups);
    let mut sorted = vec![Vec::new(); groups.len() + 1];
    let mut seen = HashSet::new();
    for node in nodes.iter().filter(|node| seen.insert(*node)) {
        let place = home.get(node).copied().unwrap_or(groups.len());
        sorted[place].push(node.clone());
    }
    let ungrouped = match groups {
        [] => Vec::new(),
        _ => sorted.last().cloned().unwrap_or_default(),
    };
    sorted.retain(|group| !group.is_empty());
    Leaves {
        groups: sorted,
        ungrouped,
    }
}

/// The place of the group that each node is in, in the order of the settings.
pub fn group_numbers(groups: &[LeafGroup]) -> HashMap<&NodeName, usize> {
    let mut numbers = HashMap::new();
    for (number, group) in groups.iter().enumerate() {
        for node in &group.nodes {
            numbers.entry(node).or_insert(number);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<NodeName> {
        list.split_whitespace().map(NodeName::from).collect()
    }

    fn group(name: &str, list: &str) -> LeafGroup {
        LeafGroup {
            name: name.to_owned(),
            nodes: names(list),
        }
    }

    #[test]
    fn each_node_is_in_one_group() {
        let groups = [
            group("leaf1", "b a gone"),
            group("leaf2", "c b"),
            group("leaf3", "elsewhere"),
        ];
        let found = leaves(&names("a b c d e"), &groups);
        let wanted = ["a b", "c", "d e"].map(names).to_vec();
        assert_eq!(found.groups, wanted);
        assert_eq!(found.ungrouped, names("d e"));
    }

    #[test]
    fn without_groups_all_are_one_and_nobody_is_told() {
        let found = leaves(&names("a b"), &[]);
        assert_eq!(
            (found.groups, found.ungrouped),
            (vec![names("a b")], vec![])
        );
        assert_eq!(leaves(&[], &[]).groups, Vec::<Vec<NodeName>>::new());
    }
}
