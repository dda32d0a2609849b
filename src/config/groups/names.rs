//! Finds a node of the cluster by the name that another file has for it.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use crate::model::{LeafGroup, NodeName};

/// The nodes of a cluster by their names.
pub(super) struct Names<'a> {
    /// In the operator's order.
    pub nodes: &'a [NodeName],
    exact: HashSet<&'a str>,
    /// By the first label in lower case; `None` where several nodes share it.
    short: HashMap<String, Option<&'a NodeName>>,
}

impl<'a> Names<'a> {
    pub(super) fn new(nodes: &'a [NodeName]) -> Self {
        let mut short: HashMap<String, Option<&NodeName>> = HashMap::new();
        for node in nodes {
            if let Some(label) = label(&node.0) {
                let one = short.entry(label).or_insert(Some(node));
                *one = one.filter(|first| *first == node);
            }
        }
        Self {
            nodes,
            exact: nodes.iter().map(|node| node.0.as_str()).collect(),
            short,
        }
    }

    /// The node of this name: the very name, else that with or without its domain, or in other case,
    /// where only one node can be meant.
    pub(super) fn find(&self, name: &str) -> Option<NodeName> {
        if self.exact.contains(name) {
            return Some(name.into());
        }
        let node = (*self.short.get(&label(name)?)?)?;
        let bare = !name.contains('.') || !node.0.contains('.');
        (bare || node.0.eq_ignore_ascii_case(name)).then(|| node.clone())
    }

    /// The groups with only nodes of the cluster, by the cluster's names, less those without any.
    pub(super) fn adopt(&self, mut groups: Vec<LeafGroup>) -> Vec<LeafGroup> {
        for group in &mut groups {
            let found = group.nodes.iter().filter_map(|node| self.find(&node.0));
            group.nodes = found.collect();
        }
        groups.retain(|group| !group.nodes.is_empty());
        groups
    }
}

/// The first label of a host name; an address has none.
fn label(name: &str) -> Option<String> {
    let named = name.parse::<IpAddr>().is_err();
    let first = name.split('.').next().filter(|label| !label.is_empty());
    first
        .filter(|_| named)
        .map(|label| label.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_found_with_and_without_its_domain() {
        let nodes = ["n1", "n2.hpc", "n3.a", "n3.b", "10.0.0.1", "10.0.0.2", "N4"];
        let nodes = nodes.map(NodeName::from);
        let names = Names::new(&nodes);
        for (name, found) in [
            ("n1", Some("n1")),
            ("n1.hpc", Some("n1")),
            ("N1", Some("n1")),
            ("n2", Some("n2.hpc")),
            ("n2.other", None),
            ("N2.HPC", Some("n2.hpc")),
            ("n3", None),
            ("n3.b", Some("n3.b")),
            ("10.0.0.1", Some("10.0.0.1")),
            ("10", None),
            ("10.0.0.3", None),
            ("n4", Some("N4")),
            ("", None),
            (".", None),
        ] {
            assert_eq!(names.find(name), found.map(NodeName::from), "{name}");
        }
    }
}
