//! Rules that look at the facts of one node: they need no traffic, and `inspect` has them too.

mod acs;
mod arp_flux;
mod bar1_small;
pub(super) mod bond;
mod cma_zero;
mod counter_saturated;
mod cpu_governor;
mod device_access;
mod duplicate_route;
mod efa_provider;
pub(super) mod gid_index;
mod gpu_errors;
mod gpu_nic_path;
mod gpu_not_visible;
mod gpu_pcie_width;
mod gpudirect_off;
pub(super) mod hca_prefix;
mod iommu_translating;
mod layout;
mod link_flapping;
mod lossy_roce;
mod memlock;
mod mtu;
mod numa_unknown;
mod payload_size;
mod pcie_errors;
mod pcie_link;
mod peermem_name;
mod peermem_symbol;
mod port_speed;
mod quiet;
mod relaxed_ordering;
#[cfg(test)]
pub(in crate::judge) mod testing;
#[cfg(test)]
mod tests;
mod two_functions;

pub(super) use link_flapping::REMEDY as FLAPPING_REMEDY;
pub(super) use quiet::Quiet;

use super::{About, Said};
use crate::judge::NodeView;

/// A rule on the facts of one node.
pub(super) struct NodeRule {
    /// What it is about; a file may hold several kinds of finding.
    pub about: &'static [About],
    /// Looks at a node.
    pub check: fn(&NodeView<'_>, &mut Said),
    /// Whether it says something or nothing by the PCIe tree alone, and by which of its functions NICs
    /// have: nodes that have one tree are then alike.
    by_tree: bool,
}

const fn rule(about: &'static [About], check: fn(&NodeView<'_>, &mut Said)) -> NodeRule {
    NodeRule {
        about,
        check,
        by_tree: false,
    }
}

const fn by_tree(about: &'static [About], check: fn(&NodeView<'_>, &mut Said)) -> NodeRule {
    NodeRule {
        about,
        check,
        by_tree: true,
    }
}

/// All of them, in the order in which their findings are told.
pub(super) const RULES: &[NodeRule] = &[
    rule(&[pcie_link::ABOUT], pcie_link::check),
    rule(&[gpudirect_off::ABOUT], gpudirect_off::check),
    rule(&[peermem_symbol::ABOUT], peermem_symbol::check),
    rule(&[peermem_name::ABOUT], peermem_name::check),
    rule(&[bar1_small::ABOUT], bar1_small::check),
    rule(&[gpu_not_visible::ABOUT], gpu_not_visible::check),
    rule(&[gpu_errors::ABOUT], gpu_errors::check),
    rule(&[cma_zero::ABOUT], cma_zero::check),
    rule(&[device_access::ABOUT], device_access::check),
    rule(&[memlock::ABOUT], memlock::check),
    rule(&[cpu_governor::ABOUT], cpu_governor::check),
    rule(&[link_flapping::ABOUT], link_flapping::check),
    rule(&[counter_saturated::ABOUT], counter_saturated::check),
    rule(&[mtu::ABOUT], mtu::check),
    by_tree(&[pcie_errors::ABOUT], pcie_errors::check),
    by_tree(&[gpu_pcie_width::ABOUT], gpu_pcie_width::check),
    rule(&[two_functions::ABOUT], two_functions::check),
    rule(&[payload_size::ABOUT], payload_size::check),
    rule(&[relaxed_ordering::ABOUT], relaxed_ordering::check),
    by_tree(&[acs::ABOUT], acs::check),
    by_tree(&[iommu_translating::ABOUT], iommu_translating::check),
    rule(&[gpu_nic_path::ABOUT], gpu_nic_path::check),
    rule(&[numa_unknown::ABOUT], numa_unknown::check),
    rule(&[port_speed::ABOUT], port_speed::check),
    rule(&[lossy_roce::ABOUT], lossy_roce::check),
    rule(&[arp_flux::ABOUT], arp_flux::check),
    rule(&[duplicate_route::ABOUT], duplicate_route::check),
    rule(&[gid_index::ABOUT], gid_index::check),
    rule(&[hca_prefix::ABOUT], hca_prefix::check),
    rule(&[bond::ABOUT], bond::check),
    rule(&[efa_provider::ABOUT], efa_provider::check),
];
