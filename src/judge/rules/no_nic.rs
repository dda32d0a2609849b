//! A rail that has no NIC on a node.

use super::{Context, plain};
use crate::model::{Finding, Rule, Severity, Subject};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let missing = context.ledger.rail_nics().filter_map(|(rail, node, nic)| {
        let why = nic.why_unknown()?;
        Some(plain(
            Rule::NoNic,
            Severity::NotJudged,
            Subject::NodeRail(node.clone(), rail),
            format!("No NIC of {node} plays {rail}: {why}."),
            Vec::new(),
            "Check the device and its driver on the node (linerate inspect), and [rails] in the configuration.",
        ))
    });
    missing.collect()
}
