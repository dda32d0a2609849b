//! A node that was not reached, or stopped answering.

use super::{About, Context, plain};
use crate::ledger::{Node, NodeState};
use crate::model::{Finding, NodeName, Rule, Severity, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::NodeLost,
    means: "The node was not reached, or its agent stopped answering, so nothing of it was measured. It is not accused of anything, and the run is no pass.",
    detected: "The SSH connection, the start of the agent, or its heartbeat failed; the message says at which step and what was seen.",
    remedy: "Put right what the message names, then run again; or leave the node out.",
};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    context.ledger.nodes().filter_map(finding).collect()
}

fn finding((name, node): (&NodeName, &Node)) -> Option<Finding> {
    let (first, later) = node.losses.split_first()?;
    let (severity, says) = match (&node.state, later.last()) {
        (NodeState::Connected { .. }, _) => {
            let says = format!("{name} was lost and came back: {first}");
            (Severity::Warning, says)
        }
        (_, Some(again)) => {
            let says = format!("{name} was lost: {first}; asked whether it is back: {again}");
            (Severity::NotJudged, says)
        }
        (_, None) => (
            Severity::NotJudged,
            format!("{name} was not measured: {first}"),
        ),
    };
    let subject = Subject::Node(name.clone());
    let remedy = "Put right what the message names, then run again; or leave the node out.";
    Some(plain(
        Rule::NodeLost,
        severity,
        subject,
        says,
        Vec::new(),
        remedy,
    ))
}
