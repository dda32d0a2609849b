//! Rules that look at the facts of one node: they need no traffic, and `inspect` has them too.

mod acs;
mod gpu_nic_path;
mod gpu_pcie_width;
mod iommu_translating;
mod layout;
mod numa_unknown;
mod payload_size;
mod pcie_errors;
mod pcie_link;
mod relaxed_ordering;
#[cfg(test)]
mod testing;
mod two_functions;

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
        about: &[two_functions::ABOUT],
        check: two_functions::check,
    },
    NodeRule {
        about: &[payload_size::ABOUT],
        check: payload_size::check,
    },
    NodeRule {
        about: &[relaxed_ordering::ABOUT],
        check: relaxed_ordering::check,
    },
    NodeRule {
        about: &[acs::ABOUT],
        check: acs::check,
    },
    NodeRule {
        about: &[iommu_translating::ABOUT],
        check: iommu_translating::check,
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
