//! Rules that look at the facts of one node: they need no traffic, and `inspect` has them too.

mod arp_flux;
pub(super) mod bond;
mod duplicate_route;
mod efa_provider;
pub(super) mod gid_index;
pub(super) mod hca_prefix;
mod lossy_roce;
mod mtu;
mod pcie_link;
mod port_speed;

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
        about: &[mtu::ABOUT],
        check: mtu::check,
    },
    NodeRule {
        about: &[port_speed::ABOUT],
        check: port_speed::check,
    },
    NodeRule {
        about: &[lossy_roce::ABOUT],
        check: lossy_roce::check,
    },
    NodeRule {
        about: &[arp_flux::ABOUT],
        check: arp_flux::check,
    },
    NodeRule {
        about: &[duplicate_route::ABOUT],
        check: duplicate_route::check,
    },
    NodeRule {
        about: &[gid_index::ABOUT],
        check: gid_index::check,
    },
    NodeRule {
        about: &[hca_prefix::ABOUT],
        check: hca_prefix::check,
    },
    NodeRule {
        about: &[bond::ABOUT],
        check: bond::check,
    },
    NodeRule {
        about: &[efa_provider::ABOUT],
        check: efa_provider::check,
    },
];
