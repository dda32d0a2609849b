//! A fast NIC on an AMD machine that may not relax the order of its writes.

use crate::judge::rules::{About, Said, plain};
use crate::judge::{NicView, NodeView};
use crate::model::{
    DeviceControl, Evidence, Fact, Finding, Gbps, PciFunction, PcieTree, Rule, Severity,
};

pub(super) const ABOUT: About = About {
    rule: Rule::RelaxedOrdering,
    means: "The NIC may not set the relaxed-ordering attribute, on a machine whose processors are AMD's. There \
            writes that keep their order wait for each other: of 200 Gb/s about 150 have been seen. On other \
            processors it seldom matters.",
    detected: "Enable Relaxed Ordering (Device Control bit 4, /sys/bus/pci/devices/*/config) of hardware NICs of \
               100 Gb/s or more whose root port is AMD's. A warning from 200 Gb/s on, else a note. A \
               comparison with and without has not been made: measure before and after. Not told without \
               root, or where a hypervisor shows its own root port.",
    remedy: REMEDY,
};

const REMEDY: &str = "Turn on relaxed ordering for the slot in the BIOS, let the card use it (mlxconfig, PCI_WR_ORDERING) \
                      and applications register memory with it (NCCL_IB_PCI_RELAXED_ORDERING).";

/// PCI-SIG's vendor id of AMD's processors.
const VENDOR_AMD: u16 = 0x1022;

/// Below, ordered writes keep up.
const FAST: Gbps = Gbps(100.0);

/// What was reported as stuck at 150 (ucx 8062).
const AFFECTED: Gbps = Gbps(200.0);

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let Some(tree) = node.pcie() else { return };
    for nic in &node.nics {
        let Some(line) = nic.line.value().copied() else {
            continue;
        };
        if nic.device.software.is_some() || line < FAST || !below_amd(tree, nic) {
            continue;
        }
        if let Some((function, Fact::Known { value, from })) = control(tree, nic)
            && !value.relaxed_ordering
        {
            let evidence = Evidence {
                saw: format!(
                    "Device Control of {}: relaxed ordering off",
                    function.address
                ),
                from: format!("{}: {from}", node.name),
            };
            said.findings.push(finding(nic, line, evidence));
        }
    }
}

fn finding(nic: &NicView<'_>, line: Gbps, evidence: Evidence) -> Finding {
    let severity = match line >= AFFECTED {
        true => Severity::Warning,
        false => Severity::Note,
    };
    let says = format!(
        "{} may not relax the order of its writes, at a line rate of {line} below an AMD root port; \
         a comparison with and without has not been made.",
        nic.in_words()
    );
    let subject = nic.subject(None);
    plain(
        Rule::RelaxedOrdering,
        severity,
        subject,
        says,
        vec![evidence],
        REMEDY,
    )
}

fn below_amd(tree: &PcieTree, nic: &NicView<'_>) -> bool {
    let chain = nic.pci().map(|pci| tree.chain(pci)).unwrap_or_default();
    let root_port = chain.last().and_then(|port| port.vendor.value());
    root_port == Some(&VENDOR_AMD)
}

/// That of the physical function: a virtual one's bits are reserved (SR-IOV specification, 3.5.4).
fn control<'a>(
    tree: &'a PcieTree,
    nic: &NicView<'_>,
) -> Option<(&'a PciFunction, &'a Fact<DeviceControl>)> {
    let function = tree.function(nic.pci()?)?;
    let function = match &function.physical_function {
        Some(physical) => tree.function(physical.value()?)?,
        None => function,
    };
    Some((function, &function.control))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{at, said};
    use super::*;
    use crate::model::NodeFacts;
    use crate::model::testing::pcie::TwoSockets;

    fn with(root_vendor: u16, relaxed_ordering: bool, line: f64) -> NodeFacts {
        let mut facts = TwoSockets::with(|tree| {
            at(tree, "0000:10:02.0").vendor = Fact::known(root_vendor, "vendor");
            let control = DeviceControl {
                max_payload: 512,
                payload_capable: None,
                max_read_request: 4096,
                relaxed_ordering,
            };
            at(tree, TwoSockets::NIC1).control = Fact::known(control, "/sys/…/config");
        });
        if let Fact::Known { value, .. } = &mut facts.rdma {
            for device in value {
                device.ports[0].rate = Fact::known(Gbps(line), "rate");
            }
        }
        facts
    }

    #[test]
    fn only_below_amd_and_only_fast_nics() {
        let said = |facts: &NodeFacts| said(Rule::RelaxedOrdering, facts);
        let found = said(&with(VENDOR_AMD, false, 200.0));
        let [finding] = &found.findings[..] else {
            panic!("{found:#?}")
        };
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.subject.to_string(), "mlx5_1 of node02");
        assert!(
            finding.says.contains("has not been made"),
            "{}",
            finding.says
        );
        assert_eq!(
            said(&with(VENDOR_AMD, false, 100.0)).findings[0].severity,
            Severity::Note
        );
        for healthy in [
            with(VENDOR_AMD, true, 200.0),
            with(VENDOR_AMD, false, 25.0),
            with(0x8086, false, 200.0),
        ] {
            assert_eq!(said(&healthy), Said::default());
        }
    }

    #[test]
    fn a_virtual_function_has_the_bits_of_its_physical_one() {
        let mut facts = with(VENDOR_AMD, false, 200.0);
        if let Fact::Known { value, .. } = &mut facts.pcie {
            let physical = at(value, TwoSockets::NIC0).address.clone();
            at(value, TwoSockets::NIC1).physical_function = Some(Fact::known(physical, "physfn"));
        }
        assert_eq!(said(Rule::RelaxedOrdering, &facts), Said::default());
    }
}
