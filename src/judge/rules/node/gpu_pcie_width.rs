//! A GPU whose link has fewer lanes than it could have.

use crate::judge::NodeView;
use crate::judge::rules::{About, Said, plain};
use crate::model::{
    Evidence, LinkSpeed, LinkState, PciAddress, PciRole, PcieTree, Rule, Severity, VENDOR_AMD_GPU,
};
use crate::topology::{LinkOnPath, links_on_path};

pub(super) const ABOUT: About = About {
    rule: Rule::GpuPcieWidth,
    means: "A GPU's PCIe link has fewer lanes than both of its ends are capable of. Copies to and from the \
            host, and GPUDirect, move no more than those lanes carry.",
    detected: "current_link_width and max_link_width of the GPU and the port above it, in nodes that have \
               NICs. Speed is not looked at, for an idle GPU slows its link down; up to generation 5 the \
               lanes stay. Not told where the port above is a hypervisor's.",
    remedy: REMEDY,
};

const REMEDY: &str = "Reseat the GPU or its riser, look at the BIOS setting of the slot (bifurcation), and clean the \
                      contacts; the kernel log has \"available PCIe bandwidth, limited by\" from the start.";

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let Some(tree) = node.pcie().filter(|_| !node.nics.is_empty()) else {
        return;
    };
    for (index, gpu) in tree.gpus().enumerate() {
        let links = own_links(tree, &gpu.address);
        let Some(link) = links.iter().find(|link| is_narrow(link)) else {
            continue;
        };
        let name = format!("GPU{index}");
        let (now, can) = lanes(link);
        let at = link.above.as_ref().unwrap_or(&link.below);
        said.findings.push(plain(
            Rule::GpuPcieWidth,
            Severity::Warning,
            node.device(name.clone()),
            format!(
                "{name} of {} has {now} of the {can} PCIe lanes that both ends of its link at {at} are \
                 capable of.",
                node.name
            ),
            vec![Evidence {
                saw: format!("link of {} has {now} lanes, capability {can}", link.below),
                from: format!(
                    "{}: /sys/bus/pci/devices/{}/current_link_width",
                    node.name, link.below
                ),
            }],
            REMEDY,
        ));
    }
}

/// The link above the GPU, and those of the switch that AMD puts on the card.
fn own_links(tree: &PcieTree, gpu: &PciAddress) -> Vec<LinkOnPath> {
    let on_card = |link: &LinkOnPath| {
        tree.function(&link.below).is_some_and(|below| {
            below.role == PciRole::Gpu || below.vendor.value() == Some(&VENDOR_AMD_GPU)
        })
    };
    links_on_path(tree, gpu)
        .into_iter()
        .take_while(on_card)
        .collect()
}

/// How many it has, and could have.
fn lanes(link: &LinkOnPath) -> (u8, u8) {
    let width = |state: Option<LinkState>| state.map_or(0, |state| state.width);
    (width(link.current.clone().ok()), width(link.capable()))
}

/// Generation 6 may put lanes to sleep (L0p); what the slot has must be known.
fn is_narrow(link: &LinkOnPath) -> bool {
    let can_sleep = link
        .capable()
        .is_some_and(|can| can.speed > LinkSpeed::Gen5);
    link.is_narrowed() && link.above_capable.is_some() && !can_sleep
}

#[cfg(test)]
mod tests {
    use super::super::testing::{at, said};
    use super::*;
    use crate::model::testing::pcie::{TwoSockets, link};
    use crate::model::{Fact, VENDOR_QEMU};

    const PORT: &str = "0000:12:01.0";

    fn with(now: (LinkSpeed, u8), can: (LinkSpeed, u8), port: u16) -> Said {
        let facts = TwoSockets::with(|tree| {
            for end in [TwoSockets::GPU0, PORT] {
                at(tree, end).link = link(now, can);
            }
            at(tree, PORT).vendor = Fact::known(port, "vendor");
        });
        said(Rule::GpuPcieWidth, &facts)
    }

    #[test]
    fn lanes_that_are_missing_are_told_and_a_speed_is_not() {
        let full = (LinkSpeed::Gen5, 16);
        let said = with((LinkSpeed::Gen1, 8), full, 0x1000);
        assert_eq!(said.findings.len(), 1, "{said:#?}");
        assert_eq!(
            said.findings[0].says,
            "GPU0 of node02 has 8 of the 16 PCIe lanes that both ends of its link at 0000:12:01.0 are \
             capable of."
        );
        assert_eq!(said.findings[0].severity, Severity::Warning);
        assert_eq!(with((LinkSpeed::Gen1, 16), full, 0x1000), Said::default());
        assert_eq!(
            with((LinkSpeed::Gen5, 8), (LinkSpeed::Gen5, 8), 0x1000),
            Said::default()
        );
    }

    #[test]
    fn lanes_that_sleep_and_ports_that_are_made_up_prove_nothing() {
        let (now, six) = ((LinkSpeed::Gen6, 8), (LinkSpeed::Gen6, 16));
        assert_eq!(with(now, six, 0x1000), Said::default());
        let (now, five) = ((LinkSpeed::Gen5, 8), (LinkSpeed::Gen5, 16));
        assert_eq!(with(now, five, VENDOR_QEMU), Said::default());
    }

    #[test]
    fn a_machine_without_nics_is_left_alone() {
        let mut facts = TwoSockets::with(|tree| {
            at(tree, TwoSockets::GPU0).link = link((LinkSpeed::Gen5, 8), (LinkSpeed::Gen5, 16));
        });
        assert_eq!(said(Rule::GpuPcieWidth, &facts).findings.len(), 1);
        facts.rdma = Fact::unknown("no RDMA driver is loaded");
        assert_eq!(said(Rule::GpuPcieWidth, &facts), Said::default());
    }
}
