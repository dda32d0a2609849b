//! Rules that look at the facts of one node: they need no traffic, and `inspect` has them too.

mod bar1_small;
mod cma_zero;
mod cpu_governor;
mod device_access;
mod gpu_errors;
mod gpu_not_visible;
mod gpudirect_off;
mod memlock;
mod pcie_link;
mod peermem_name;
mod peermem_symbol;
#[cfg(test)]
pub(in crate::judge) mod testing;

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
        about: &[gpudirect_off::ABOUT],
        check: gpudirect_off::check,
    },
    NodeRule {
        about: &[peermem_symbol::ABOUT],
        check: peermem_symbol::check,
    },
    NodeRule {
        about: &[peermem_name::ABOUT],
        check: peermem_name::check,
    },
    NodeRule {
        about: &[bar1_small::ABOUT],
        check: bar1_small::check,
    },
    NodeRule {
        about: &[gpu_not_visible::ABOUT],
        check: gpu_not_visible::check,
    },
    NodeRule {
        about: &[gpu_errors::ABOUT],
        check: gpu_errors::check,
    },
    NodeRule {
        about: &[cma_zero::ABOUT],
        check: cma_zero::check,
    },
    NodeRule {
        about: &[device_access::ABOUT],
        check: device_access::check,
    },
    NodeRule {
        about: &[memlock::ABOUT],
        check: memlock::check,
    },
    NodeRule {
        about: &[cpu_governor::ABOUT],
        check: cpu_governor::check,
    },
];
