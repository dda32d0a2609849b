//! An IOMMU that translates every address of NICs and GPUs.

use crate::judge::NodeView;
use crate::judge::rules::{About, Said, listed, plain};
use crate::model::{Evidence, Iommu, PciAddress, PcieTree, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::IommuTranslating,
    means: "The IOMMU translates every address that a NIC or GPU uses. Look-ups that miss cost bandwidth at \
            high rates, what NIC and GPU exchange may have to pass it, and on some platforms collective \
            operations hang.",
    detected: "The type of the IOMMU group of each NIC and GPU (/sys/kernel/iommu_groups/*/type is DMA or \
               DMA-FQ, where iommu=pt gives identity), on bare metal with hardware RDMA. A warning in nodes \
               with GPUs, else a note. Not told in a virtual machine.",
    remedy: REMEDY,
};

const REMEDY: &str = "Start the kernel with iommu=pt (with intel_iommu=on or amd_iommu=on where virtual machines need \
                      one), or turn the IOMMU off in the BIOS where nothing needs it.";

/// How many devices are listed.
const SHOWN: usize = 8;

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let Some(tree) = node.pcie() else { return };
    let hardware = node.nics.iter().any(|nic| nic.device.software.is_none());
    if !hardware || tree.virtual_machine.value() != Some(&false) {
        return;
    }
    let devices = devices(node, tree).into_iter();
    let found: Vec<_> = devices
        .filter_map(|(name, address)| Some((name, translates(tree, address)?)))
        .collect();
    if found.is_empty() {
        return;
    }
    let severity = match tree.gpus().next() {
        Some(_) => Severity::Warning,
        None => Severity::Note,
    };
    let names = listed(found.iter().map(|(name, ..)| name));
    let evidence = |(name, (kind, from)): &(String, (&str, &str))| Evidence {
        saw: format!("IOMMU group of {name}: {kind}"),
        from: format!("{}: {from}", node.name),
    };
    said.findings.push(plain(
        Rule::IommuTranslating,
        severity,
        node.subject(),
        format!(
            "The IOMMU of {} translates the addresses of {names}.",
            node.name
        ),
        found.iter().take(SHOWN).map(evidence).collect(),
        REMEDY,
    ));
}

/// NICs that count, and GPUs; a device with two ports once.
fn devices<'a>(node: &NodeView<'a>, tree: &'a PcieTree) -> Vec<(String, &'a PciAddress)> {
    let nics = node
        .nics
        .iter()
        .filter_map(|nic| Some((nic.device.name.clone(), nic.pci()?)));
    let gpus = tree.gpus().enumerate();
    let gpus = gpus.map(|(index, gpu)| (format!("GPU{index}"), &gpu.address));
    let mut all: Vec<_> = nics.chain(gpus).collect();
    all.dedup();
    all
}

/// The kernel's word for it, and the file.
fn translates<'a>(tree: &'a PcieTree, address: &PciAddress) -> Option<(&'a str, &'a str)> {
    let fact = tree.function(address)?.iommu.as_ref()?;
    match fact.value()? {
        Iommu::Translates { kind } => Some((kind, fact.source()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{at, said};
    use super::*;
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{Fact, NodeFacts, PciRole, SoftwareRdma};

    fn translating(change: impl FnOnce(&mut PcieTree)) -> NodeFacts {
        TwoSockets::with(|tree| {
            for device in [TwoSockets::NIC0, TwoSockets::GPU0] {
                let kind = "DMA-FQ".to_owned();
                let file = "/sys/kernel/iommu_groups/7/type";
                at(tree, device).iommu = Some(Fact::known(Iommu::Translates { kind }, file));
            }
            change(tree);
        })
    }

    #[test]
    fn the_devices_are_named_with_the_file() {
        let said = said(Rule::IommuTranslating, &translating(|_| {}));
        let [finding] = &said.findings[..] else {
            panic!("{said:#?}")
        };
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.says,
            "The IOMMU of node02 translates the addresses of mlx5_0, GPU0."
        );
        assert_eq!(finding.evidence[0].saw, "IOMMU group of mlx5_0: DMA-FQ");
        assert_eq!(
            finding.evidence[0].from,
            "node02: /sys/kernel/iommu_groups/7/type"
        );
    }

    #[test]
    fn without_gpus_it_is_a_note_and_in_guests_and_without_hardware_nothing() {
        let said = |facts: &NodeFacts| said(Rule::IommuTranslating, facts);
        let plain = translating(|tree| tree.functions.retain(|f| f.role != PciRole::Gpu));
        assert_eq!(said(&plain).findings[0].severity, Severity::Note);
        let guest = translating(|tree| tree.virtual_machine = Fact::known(true, "cpuinfo"));
        assert_eq!(said(&guest), Said::default());
        let mut software = translating(|_| {});
        if let Fact::Known { value, .. } = &mut software.rdma {
            for device in value {
                device.software = Some(SoftwareRdma::Rxe);
            }
        }
        assert_eq!(said(&software), Said::default());
        assert_eq!(said(&TwoSockets::facts()), Said::default());
    }
}
