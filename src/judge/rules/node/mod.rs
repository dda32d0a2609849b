//! Rules that look at the facts of one node: they need no traffic, and `inspect` has them too.

mod gpu_nic_path;
mod gpu_pcie_width;
mod numa_unknown;
mod pcie_errors;
mod pcie_link;
#[cfg(test)]
mod testing;

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
        about: &[pcie_errors::ABOUT],
        check: pcie_errors::check,
    },
    NodeRule {
        about: &[gpu_pcie_width::ABOUT],
        check: gpu_pcie_width::check,
    },
    NodeRule {
        about: &[gpu_nic_path::ABOUT],
        check: gpu_nic_path::check,
    },
    NodeRule {
        about: &[numa_unknown::ABOUT],
        check: numa_unknown::check,
    },
];
