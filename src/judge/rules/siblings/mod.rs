//! Rules that compare the nodes of a run with each other: who differs from the majority.

mod compare;
mod differs;
mod properties;
#[cfg(test)]
mod tests;

use super::{About, Said, node};
use crate::judge::NodeView;

/// A rule on the facts of all nodes.
pub(super) struct SiblingRule {
    /// What it is about.
    pub about: &'static [About],
    /// Looks at all nodes.
    pub check: fn(&[NodeView<'_>], &mut Said),
}

/// All of them, in the order in which their findings are told.
pub(super) const RULES: &[SiblingRule] = &[
    SiblingRule {
        about: &[differs::ABOUT],
        check: differs::check,
    },
    // Each described where its like for one node is.
    SiblingRule {
        about: &[],
        check: node::gid_index::across,
    },
    SiblingRule {
        about: &[],
        check: node::hca_prefix::across,
    },
    SiblingRule {
        about: &[],
        check: node::bond::across,
    },
];
