//! A GPU in the PCIe tree that its driver does not list: fallen off the bus, or never taken.

use super::Said;
use crate::judge::NodeView;
use crate::judge::rules::{About, plain};
use crate::model::{Evidence, PciFunction, Rule, Severity, VENDOR_NVIDIA};

pub(super) const ABOUT: About = About {
    rule: Rule::GpuNotVisible,
    means: "The PCIe tree shows a GPU that NVIDIA's driver does not list: it has fallen off the bus, does not start, \
            or was never taken by the driver. Jobs find one GPU less, and its NIC has nobody to serve.",
    detected: "The GPUs of /sys/bus/pci/devices beside those that the NVIDIA Management Library lists. GPUs that were \
               given to a virtual machine (vfio-pci), and containers that were given some of the GPUs, are not meant. \
               Cannot be told where the driver is loaded and its library does not answer.",
    remedy: REMEDY,
};

const REMEDY: &str = "Look at the kernel's log for \"NVRM: Xid\" (79: fallen off the bus) and for RmInitAdapter, then \
                      reset or reboot; a GPU that does not return wants reseating or replacement.";

/// More GPUs than sit in a node, which may send any number.
const MAX_GPUS: usize = 64;

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let Some(tree) = node.pcie() else {
        return;
    };
    let facts = node.facts;
    let gpus: Vec<_> = tree
        .gpus()
        .enumerate()
        .filter(|(_, gpu)| is_ours(gpu))
        .take(MAX_GPUS)
        .collect();
    // The makers of containers hide GPUs on purpose.
    let in_container = !matches!(facts.host.container.value(), Some(None));
    if gpus.is_empty() || in_container {
        return;
    }
    let nvml = match (facts.gpu.nvml.value(), facts.gpu.nvml.why_unknown()) {
        (Some(nvml), _) => nvml,
        // Without a driver nobody expects its library to answer.
        (None, Some(why)) if facts.gpu.nvidia.value().is_some() => {
            return said.cannot_tell(Rule::GpuNotVisible, node.subject(), why);
        }
        (None, _) => return,
    };
    for (index, gpu) in gpus {
        if nvml.gpu(&gpu.address).is_none() {
            let listed = nvml.gpus.len();
            let unread = nvml.unread.iter().map(|why| format!("; {why}"));
            said.findings.push(plain(
                Rule::GpuNotVisible,
                Severity::Warning,
                node.device(format!("GPU{index}")),
                format!(
                    "GPU{index} of {} ({}) is on the PCIe bus, and NVIDIA's driver does not list it.",
                    node.name, gpu.address
                ),
                vec![Evidence {
                    saw: format!("{listed} GPUs are listed{}", unread.collect::<String>()),
                    from: format!("{}: {}", node.name, facts.gpu.nvml.source().unwrap_or_default()),
                }],
                REMEDY,
            ));
        }
    }
}

/// Whether NVIDIA's driver should have the GPU: it is a whole one, and not given to another.
fn is_ours(gpu: &PciFunction) -> bool {
    let driver = gpu.driver.value().map(String::as_str);
    let given_away = driver.is_some_and(|driver| driver != "nvidia");
    gpu.vendor.value() == Some(&VENDOR_NVIDIA) && gpu.physical_function.is_none() && !given_away
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::rules::node::testing::{all, only, without_gpudirect};
    use crate::model::testing::pcie::{TwoSockets, address};
    use crate::model::{Fact, NodeFacts, Nvml, NvmlGpu};

    fn listing(addresses: &[&str]) -> NodeFacts {
        let mut facts = without_gpudirect();
        if let Fact::Known { value, .. } = &mut facts.pcie {
            for gpu in value
                .functions
                .iter_mut()
                .filter(|f| f.memory_window.is_some())
            {
                gpu.driver = Fact::known("nvidia".into(), "driver");
            }
        }
        let gpu = |at: &&str| NvmlGpu {
            address: address(at),
            name: Fact::default(),
            uuid: Fact::default(),
            memory: Fact::default(),
            bar1: Fact::default(),
            pcie_generation: Fact::default(),
            pcie_width: Fact::default(),
            busy_percent: Fact::default(),
        };
        let nvml = Nvml {
            gpus: addresses.iter().map(gpu).collect(),
            ..Nvml::default()
        };
        facts.gpu.nvml = Fact::known(nvml, "libnvidia-ml.so.1");
        facts.host.container = Fact::known(None, "no mark");
        facts
    }

    #[test]
    fn who_is_on_the_bus_and_not_listed_is_named() {
        let facts = listing(&[TwoSockets::GPU0, TwoSockets::GPU2]);
        let finding = only(&facts, Rule::GpuNotVisible).unwrap();
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.says,
            "GPU1 of node017 (0000:17:00.0) is on the PCIe bus, and NVIDIA's driver does not list it."
        );
    }

    #[test]
    fn all_listed_given_away_or_hidden_on_purpose_is_no_finding() {
        let whole = listing(&[TwoSockets::GPU0, TwoSockets::GPU1, TwoSockets::GPU2]);
        assert!(only(&whole, Rule::GpuNotVisible).is_none());
        let mut pod = listing(&[TwoSockets::GPU0]);
        pod.host.container = Fact::known(Some("kubernetes".into()), "/proc/1/cgroup");
        assert!(only(&pod, Rule::GpuNotVisible).is_none());
        let mut given = listing(&[TwoSockets::GPU0]);
        if let Fact::Known { value, .. } = &mut given.pcie {
            for gpu in value
                .functions
                .iter_mut()
                .filter(|f| f.address.0 != TwoSockets::GPU0)
            {
                gpu.driver = Fact::known("vfio-pci".into(), "driver");
            }
        }
        assert!(only(&given, Rule::GpuNotVisible).is_none());
    }

    #[test]
    fn a_library_that_does_not_answer_is_told_where_the_driver_is() {
        let mut facts = listing(&[]);
        facts.gpu.nvml = Fact::unknown("libnvidia-ml.so.1 is not installed");
        let told = |facts: &NodeFacts| {
            let told = all(facts).cannot_tell;
            told.iter().any(|c| c.rule == Rule::GpuNotVisible)
        };
        assert!(told(&facts));
        facts.gpu.nvidia = Fact::unknown("the driver is not loaded");
        assert!(!told(&facts));
    }
}
