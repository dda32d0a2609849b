//! A node that was not reached, or stopped answering.

use super::{About, Context, plain};
use crate::ledger::NodeState;
use crate::model::{Finding, Rule, Severity, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::NodeLost,
    means: "The node was not reached, or its agent stopped answering, so nothing of it was measured. It is not accused of anything, and the run is no pass.",
    detected: "The SSH connection, the start of the agent, or its heartbeat failed; the message says at which step and what was seen.",
    remedy: "Put right what the message names, then run again; or leave the node out.",
};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let lost = context
        .ledger
        .nodes()
        .filter_map(|(name, node)| match &node.state {
            NodeState::Lost { why } => Some((name, why)),
            _ => None,
        });
    let finding = |(name, why): (&crate::model::NodeName, &String)| {
        plain(
            Rule::NodeLost,
            Severity::NotJudged,
            Subject::Node(name.clone()),
            format!("{name} was not measured: {why}"),
            Vec::new(),
            "Put right what the message names, then run again; or leave the node out.",
        )
    };
    lost.map(finding).collect()
}
