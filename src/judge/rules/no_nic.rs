//! Rails that have no NIC on a node.

use std::collections::BTreeMap;

use super::{About, Context, plain};
use crate::model::{Finding, NodeName, Rail, Rule, Severity, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::NoNic,
    means: "A rail has no NIC on this node: the device is missing, its port is down, or the rules of [rails] match nothing there.",
    detected: "The RDMA devices under /sys/class/infiniband, held against [rails] of the cluster file.",
    remedy: "Check the device and its driver on the node (linerate inspect), and [rails] in the configuration.",
};

/// Rails of a node that lack a NIC for one reason are one finding: a node without any RDMA device is.
pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut groups: BTreeMap<(&NodeName, &str), Vec<Rail>> = BTreeMap::new();
    for (rail, node, nic) in context.ledger.rail_nics() {
        if let Some(why) = nic.why_unknown() {
            groups.entry((node, why)).or_default().push(rail);
        }
    }
    let finding = |((node, why), rails): ((&NodeName, &str), Vec<Rail>)| {
        let subject = match rails.as_slice() {
            [rail] => Subject::NodeRail(node.clone(), *rail),
            _ => Subject::Node(node.clone()),
        };
        let rails: Vec<String> = rails.iter().map(Rail::to_string).collect();
        plain(
            Rule::NoNic,
            Severity::NotJudged,
            subject,
            format!("No NIC of {node} plays {}: {why}.", rails.join(", ")),
            Vec::new(),
            "Check the device and its driver on the node (linerate inspect), and [rails] in the configuration.",
        )
    };
    groups.into_iter().map(finding).collect()
}
