//! The GPU whose memory a NIC is probed with: the nearest, and of several equally near each NIC its own.

use std::cmp::Reverse;

use super::gpudirect::way;
use crate::model::{
    NodeFacts, PciAddress, PciFunction, PcieTree, RdmaDevice, VENDOR_AMD_GPU, VENDOR_NVIDIA,
};
use crate::topology::{PathClass, path_class};

/// More GPUs and RDMA devices than sit in a node: a node may send any number.
const MAX_GPUS: usize = 64;
const MAX_NICS: usize = 256;

/// The GPU of an RDMA device, by the PCIe tree. Where the tree does not tell how near they are, as in
/// most virtual machines, they count as equally far.
///
/// # Errors
/// Why there is none that can be probed.
pub fn gpu_of_nic(facts: &NodeFacts, device: &str) -> Result<PciAddress, String> {
    let Some(tree) = facts.pcie.value() else {
        let why = facts.pcie.why_unknown().unwrap_or_default();
        return Err(format!("the node's PCIe tree is unknown: {why}"));
    };
    let nics = facts.rdma.value().map_or(&[][..], Vec::as_slice);
    let nics = &nics[..nics.len().min(MAX_NICS)];
    let Some(nic) = nics.iter().find(|nic| nic.name == device) else {
        return Err("its survey does not list it".to_owned());
    };
    let near = nearest(tree, nic);
    let rank = nics
        .iter()
        .take_while(|other| other.name != device)
        .filter(|other| nearest(tree, other) == near)
        .count();
    let gpu = match near.len() {
        0 => return Err(without(tree)),
        many => near[rank % many],
    };
    if gpu.vendor.value() == Some(&VENDOR_AMD_GPU) {
        return Err(of_amd(facts, gpu, nic));
    }
    Ok(gpu.address.clone())
}

/// The GPUs that no other is nearer than, in the order of their addresses.
fn nearest<'a>(tree: &'a PcieTree, nic: &RdmaDevice) -> Vec<&'a PciFunction> {
    let class = |gpu: &PciFunction| -> Reverse<Option<Reverse<PathClass>>> {
        let class = nic
            .pci
            .value()
            .and_then(|nic| path_class(tree, &gpu.address, nic).ok());
        // What is known is nearer than what is not.
        Reverse(class.map(Reverse))
    };
    let gpus: Vec<_> = tree
        .gpus()
        .filter(|gpu| can_be_asked(gpu))
        .take(MAX_GPUS)
        .collect();
    let best = gpus.iter().map(|gpu| class(gpu)).min();
    gpus.into_iter()
        .filter(|gpu| Some(class(gpu)) == best)
        .collect()
}

/// Of a maker whose GPUs compute, and not given to a virtual machine.
fn can_be_asked(gpu: &PciFunction) -> bool {
    let maker = gpu.vendor.value();
    let is_given_away = gpu
        .driver
        .value()
        .is_some_and(|driver| driver == "vfio-pci");
    matches!(maker, Some(&VENDOR_NVIDIA | &VENDOR_AMD_GPU)) && !is_given_away
}

fn without(tree: &PcieTree) -> String {
    match tree.gpus().count() {
        0 => "the node has no GPU".to_owned(),
        _ => "no GPU of the node is NVIDIA's, or they are all given to virtual machines".to_owned(),
    }
}

/// What the survey tells has to do: the GPU's memory is not allocated.
fn of_amd(facts: &NodeFacts, gpu: &PciFunction, nic: &RdmaDevice) -> String {
    let by_facts = match way(facts, gpu, nic) {
        Ok(way) => format!("by the survey its way is {way}"),
        Err(why) => format!("the survey does not tell its way: {why}"),
    };
    format!(
        "memory of AMD GPUs cannot be probed yet, and the nearest, {}, is one; {by_facts}",
        gpu.address
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{Fact, NodeFacts};

    fn of(facts: &NodeFacts, nic: &str) -> Result<String, String> {
        gpu_of_nic(facts, nic).map(|address| address.0.to_string())
    }

    fn gpus(facts: &mut NodeFacts, change: impl Fn(&mut PciFunction)) {
        if let Fact::Known { value, .. } = &mut facts.pcie {
            let gpus = value.functions.iter_mut();
            gpus.filter(|f| f.memory_window.is_some()).for_each(change);
        }
    }

    #[test]
    fn each_nic_has_the_gpu_below_its_switch() {
        let facts = TwoSockets::facts();
        assert_eq!(of(&facts, "mlx5_0"), Ok(TwoSockets::GPU0.to_owned()));
        assert_eq!(of(&facts, "mlx5_4"), Ok(TwoSockets::GPU2.to_owned()));
        assert_eq!(
            of(&facts, "mlx5_9"),
            Err("its survey does not list it".to_owned())
        );
    }

    #[test]
    fn nics_that_are_as_near_to_several_take_turns() {
        let facts = TwoSockets::facts();
        let mut all: Vec<_> = facts
            .rdma
            .value()
            .unwrap()
            .iter()
            .map(|nic| of(&facts, &nic.name))
            .collect();
        // Whoever is near to none alone still has one.
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        all.sort();
        all.dedup();
        assert!(all.len() > 1, "{all:?}");
    }

    #[test]
    fn what_cannot_be_probed_is_said() {
        let mut facts = TwoSockets::facts();
        gpus(&mut facts, |gpu| {
            gpu.vendor = Fact::known(VENDOR_AMD_GPU, "vendor")
        });
        let why = of(&facts, "mlx5_0").unwrap_err();
        assert!(
            why.starts_with("memory of AMD GPUs cannot be probed yet, and the nearest, 0000:"),
            "{why}"
        );
        assert!(
            why.contains("; by the survey its way is none: ")
                || why.contains("; the survey does not tell"),
            "{why}"
        );
        gpus(&mut facts, |gpu| {
            gpu.driver = Fact::known("vfio-pci".into(), "driver")
        });
        assert!(
            of(&facts, "mlx5_0")
                .unwrap_err()
                .contains("given to virtual machines")
        );
        if let Fact::Known { value, .. } = &mut facts.pcie {
            value.functions.retain(|f| f.memory_window.is_none());
        }
        assert_eq!(of(&facts, "mlx5_0"), Err("the node has no GPU".to_owned()));
        facts.pcie = Fact::unknown("no /sys");
        assert!(of(&facts, "mlx5_0").unwrap_err().contains("no /sys"));
    }
}
