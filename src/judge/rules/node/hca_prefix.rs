//! Names of RDMA devices that begin with the name of another one.

use std::collections::BTreeMap;

use super::Said;
use crate::judge::NodeView;
use crate::judge::rules::{About, names, plain};
use crate::model::{Evidence, Finding, NodeName, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::HcaPrefix,
    means: "A node has so many RDMA devices that the name of one begins with that of another, as mlx5_10 does \
            with mlx5_1. NCCL_IB_HCA and UCX match by the beginning: mlx5_1 also takes mlx5_10, which may be \
            a storage NIC or one of another rail.",
    detected: "The names below /sys/class/infiniband: a NIC that counts, and another device of hardware whose \
               name is that name with more digits. In a run only where the other one plays no rail; told once.",
    remedy: "Write NCCL_IB_HCA with an equals sign before the list, =mlx5_1:1,=mlx5_2:1, so that names match whole.",
};

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    // In a run every node would say the same: `across` says it once.
    if node.nics.iter().all(|nic| nic.rail.is_none()) {
        let pairs = pairs(node);
        let nodes = [node.name];
        said.findings.extend(finding(&pairs, &nodes));
    }
}

/// The nodes of a run, those with the same names together.
pub(in crate::judge::rules) fn across(nodes: &[NodeView<'_>], said: &mut Said) {
    let mut alike: BTreeMap<Vec<(String, String)>, Vec<&NodeName>> = BTreeMap::new();
    for node in nodes {
        alike.entry(pairs(node)).or_default().push(node.name);
    }
    let findings = alike
        .iter()
        .filter_map(|(pairs, nodes)| finding(pairs, nodes));
    said.findings.extend(findings);
}

/// More pairs than any node has; what a node says of itself is not to be trusted.
const MAX_PAIRS: usize = 64;

/// A NIC that counts, and one that its name would take along.
fn pairs(node: &NodeView<'_>) -> Vec<(String, String)> {
    let devices = node.facts.rdma.value().map_or(&[][..], Vec::as_slice);
    let hardware = || devices.iter().filter(|device| device.software.is_none());
    let plays = |name: &str| {
        let mut nics = node.nics.iter();
        nics.any(|nic| nic.rail.is_some() && nic.id.device == name)
    };
    let mut pairs: Vec<_> = node
        .nics
        .iter()
        .filter(|nic| nic.device.software.is_none())
        .flat_map(|nic| {
            let takes = move |other: &str| takes_along(&nic.id.device, other);
            let others = hardware().map(|device| &device.name);
            let others = others.filter(move |name| takes(name) && !plays(name));
            others.map(|other| (nic.id.device.to_string(), other.clone()))
        })
        .take(MAX_PAIRS)
        .collect();
    pairs.sort();
    pairs.dedup();
    pairs
}

/// mlx5_1 takes mlx5_10 along.
fn takes_along(name: &str, other: &str) -> bool {
    let more = other.strip_prefix(name).unwrap_or_default();
    let ends_in_digit = name.ends_with(|c: char| c.is_ascii_digit());
    ends_in_digit && !more.is_empty() && more.bytes().all(|byte| byte.is_ascii_digit())
}

fn finding(pairs: &[(String, String)], nodes: &[&NodeName]) -> Option<Finding> {
    const TOLD: usize = 4;
    let (name, other) = pairs.first()?;
    let first = nodes.first()?;
    let evidence = pairs.iter().take(TOLD).map(|(name, other)| Evidence {
        saw: format!("{name} and {other}"),
        from: "/sys/class/infiniband".into(),
    });
    Some(plain(
        Rule::HcaPrefix,
        Severity::Note,
        crate::model::Subject::Node((*first).clone()),
        format!(
            "NCCL_IB_HCA={name} also takes {other} on {}: names match by their beginning.",
            names(nodes.iter().copied())
        ),
        evidence.collect(),
        format!(
            "Write NCCL_IB_HCA with an equals sign before the list (={name}), so that names match whole."
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{inspect, judge};
    use crate::ledger::testing::{events, ledger};
    use crate::model::testing::{facts, port};
    use crate::model::{Event, Fact, NodeFacts};

    fn with(count: usize) -> NodeFacts {
        let names: Vec<_> = (0..count).map(|n| format!("mlx5_{n}")).collect();
        let devices = names.iter().map(|name| (&**name, "0000:01:00.0", port()));
        facts(devices.collect())
    }

    fn told(facts: &NodeFacts) -> Vec<Finding> {
        let mut said = inspect(&NodeName::from("node01"), facts);
        said.findings.retain(|f| f.rule == Rule::HcaPrefix);
        said.findings
    }

    #[test]
    fn a_node_with_mlx5_10_is_noted() {
        let found = told(&with(12));
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].says,
            "NCCL_IB_HCA=mlx5_1 also takes mlx5_10 on node01: names match by their beginning."
        );
        assert_eq!(found[0].evidence.len(), 2);
        assert!(told(&with(10)).is_empty());
        assert!(!takes_along("mlx5_bond_", "mlx5_bond_0") && !takes_along("mlx5_1", "mlx5_1"));
    }

    #[test]
    fn a_run_says_it_once_and_only_of_what_plays_no_rail() {
        let told = |more: &str| {
            let mut events = events(3, 2, &|_, _, _| Some(391.0));
            for event in &mut events {
                if let Event::NodeSurveyed { facts, .. } = event
                    && let Fact::Known { value, .. } = &mut facts.rdma
                {
                    let mut another = value[0].clone();
                    another.name = more.into();
                    value.push(another);
                }
            }
            judge(&ledger(&events)).findings
        };
        let found = told("mlx5_10");
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].says.contains("on node01, node02, node03:"));
        assert!(told("mlx5_2").is_empty());
        // All of them play rails: taking one along is what is wanted.
        let all = judge(&ledger(&events(2, 11, &|_, _, _| Some(391.0))));
        assert!(all.findings.is_empty(), "{:#?}", all.findings);
    }
}
