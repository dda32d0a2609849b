//! Rules that look at the facts of one node: they need no traffic, and `inspect` has them too.

mod counter_saturated;
mod link_flapping;
mod pcie_link;

pub(super) use link_flapping::REMEDY as FLAPPING_REMEDY;

use super::{About, Said};
use crate::judge::NodeView;

/// A rule on the facts of one node.
pub(super) struct NodeRule {
    /// What it is about; a file may hold several kinds of finding.
    pub about: &'static [About],
    /// Looks at a node.
    pub check: fn(&NodeView<'_>, &mut Said),
}

/// All of them, in the order in which their findings are told.
pub(super) const RULES: &[NodeRule] = &[
    NodeRule {
        about: &[pcie_link::ABOUT],
        check: pcie_link::check,
    },
    NodeRule {
        about: &[link_flapping::ABOUT],
        check: link_flapping::check,
    },
    NodeRule {
        about: &[counter_saturated::ABOUT],
        check: counter_saturated::check,
    },
];
