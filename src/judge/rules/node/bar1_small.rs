//! A window onto a GPU's memory that is smaller than what applications register at once.

use super::Said;
use crate::judge::rules::{About, in_a_row, plain};
use crate::judge::{GpuKind, NodeView, gpu_kind};
use crate::model::{Bytes, Evidence, Fact, PciFunction, Rule, Severity, VENDOR_NVIDIA};

pub(super) const ABOUT: About = About {
    rule: Rule::Bar1Small,
    means: "NICs reach a GPU's memory through a window in the address space (NVIDIA: BAR1), which is no larger \
            than 256 MiB here. Registering more than that at once fails, and with it large messages or whole jobs.",
    detected: "The size of the region in /sys/bus/pci/devices/ADDRESS/resource, of accelerators in a node with \
               fabric NICs. A warning, as small registrations work. Workstation boards have a small window while \
               displays are on, and are not meant.",
    remedy: REMEDY,
};

const REMEDY: &str = "Switch on \"Above 4G Decoding\" and \"Resizable BAR\" in the BIOS; boards that can drive displays \
                      need their compute mode (NVIDIA's displaymodeselector). A Tesla T4 has no larger window.";

/// What a registration of NCCL's buffers or of perftest's larger sizes does not fit in.
const SMALL: Bytes = Bytes(256 << 20);

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let Some(tree) = node.pcie() else {
        return;
    };
    if node.nics.is_empty() {
        return;
    }
    let small: Vec<_> = tree.gpus().enumerate().filter_map(small).collect();
    let Some((_, gpu, size, from)) = small.first() else {
        return;
    };
    let names: Vec<_> = small
        .iter()
        .map(|(index, ..)| format!("GPU{index}"))
        .collect();
    said.findings.push(plain(
        Rule::Bar1Small,
        Severity::Warning,
        node.device(in_a_row(names.iter().map(String::as_str))),
        format!(
            "NICs reach the memory of {} of {} through a window of {size}: larger registrations fail.",
            in_a_row(names.iter().map(String::as_str)),
            node.name
        ),
        vec![Evidence {
            saw: format!("the window of {} is {size}", gpu.address),
            from: format!("{}: {from}", node.name),
        }],
        REMEDY,
    ));
}

/// An accelerator with a small window: its number, itself, the size and where it is from.
fn small((index, gpu): (usize, &PciFunction)) -> Option<(usize, &PciFunction, Bytes, &str)> {
    let Some(Fact::Known { value, from }) = &gpu.memory_window else {
        return None;
    };
    let meant = gpu.vendor.value() == Some(&VENDOR_NVIDIA) && gpu_kind(gpu) == GpuKind::Accelerator;
    (meant && *value <= SMALL).then_some((index, gpu, *value, from.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::rules::node::testing::only;
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{Finding, NodeFacts};

    fn with_window(window: Fact<Bytes>, device: u16) -> NodeFacts {
        let mut facts = TwoSockets::facts();
        if let Fact::Known { value, .. } = &mut facts.pcie {
            let gpus = value.functions.iter_mut();
            let gpu = gpus.filter(|f| f.memory_window.is_some()).last().unwrap();
            gpu.memory_window = Some(window);
            gpu.device = Fact::known(device, "device");
        }
        facts
    }

    fn of(facts: &NodeFacts) -> Option<Finding> {
        only(facts, Rule::Bar1Small)
    }

    #[test]
    fn a_small_window_of_an_accelerator_is_a_warning() {
        let small = || Fact::known(Bytes(256 << 20), "resource");
        let finding = of(&with_window(small(), 0x1eb8)).unwrap();
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.says,
            "NICs reach the memory of GPU2 of node017 through a window of 256 MiB: larger registrations fail."
        );
        // A workstation board that drives displays.
        assert!(of(&with_window(small(), 0x2bb1)).is_none());
        let mut no_nics = with_window(small(), 0x1eb8);
        no_nics.rdma = Fact::known(vec![], "/sys/class/infiniband");
        assert!(of(&no_nics).is_none());
    }

    #[test]
    fn a_large_or_unknown_window_is_none() {
        assert!(of(&TwoSockets::facts()).is_none());
        assert!(
            of(&with_window(
                Fact::unknown("the region has no address"),
                0x2330
            ))
            .is_none()
        );
    }
}
