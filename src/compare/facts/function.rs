//! What is compared of a NIC's place in the PCIe tree.

use super::{Seen, Value, seen, unknown};
use crate::model::{DeviceControl, Iommu, PciAddress, PciFunction, PcieTree};
use crate::topology::{PathClass, path_class, pcie_limit};

fn function<'t>(tree: &'t PcieTree, nic: &PciAddress) -> Result<&'t PciFunction, super::Unknown> {
    let found = tree.function(nic);
    found.ok_or_else(|| unknown(format!("the PCIe tree has no {nic}")))
}

pub(super) fn model(tree: &PcieTree, nic: &PciAddress) -> Seen {
    let function = function(tree, nic)?;
    let device = match &function.device {
        fact if fact.value().is_none() => return seen(fact, |_| Value::text("")),
        fact => fact.value().copied().unwrap_or_default(),
    };
    seen(&function.vendor, |vendor| {
        Value::text(format!("{vendor:04x}:{device:04x}"))
    })
}

/// The narrowest link up to the root, where all are known.
pub(super) fn link(tree: &PcieTree, nic: &PciAddress) -> Seen {
    let limit = pcie_limit(tree, nic).map_err(unknown)?;
    let state = limit.narrowest.current.map_err(unknown)?;
    if limit.unknown > 0 {
        return Err(unknown("a link above it is unknown, and may be narrower"));
    }
    // In Mb/s: packets of another size make no other link.
    Ok(Value::worth(
        state.to_string(),
        (limit.link_rate.0 * 1e3) as u64,
    ))
}

pub(super) fn packet_size(tree: &PcieTree, nic: &PciAddress) -> Seen {
    seen(&function(tree, nic)?.control, |control: &DeviceControl| {
        let (payload, asks) = (control.max_payload, control.max_read_request);
        Value::text(format!("MaxPayload {payload}, MaxReadRequest {asks}"))
    })
}

pub(super) fn relaxed_ordering(tree: &PcieTree, nic: &PciAddress) -> Seen {
    seen(&function(tree, nic)?.control, |control: &DeviceControl| {
        Value::text(if control.relaxed_ordering {
            "on"
        } else {
            "off"
        })
    })
}

pub(super) fn iommu(tree: &PcieTree, nic: &PciAddress) -> Seen {
    let Some(iommu) = &function(tree, nic)?.iommu else {
        return Err(unknown("it was not asked for"));
    };
    seen(iommu, |iommu| match iommu {
        Iommu::Off => Value::text("off"),
        Iommu::Identity => Value::text("pass-through"),
        Iommu::Translates { kind } => Value::text(format!("translating ({kind})")),
        Iommu::Other(kind) => Value::text(kind.clone()),
    })
}

/// How many GPUs are how near, whatever the order in which they are numbered.
pub(super) fn way_to_gpus(tree: &PcieTree, nic: &PciAddress) -> Seen {
    let gpus = tree.gpus().map(|gpu| path_class(tree, &gpu.address, nic));
    let classes: Vec<PathClass> = gpus.collect::<Result<_, _>>().map_err(unknown)?;
    if classes.is_empty() {
        return Err(unknown("the node has no GPU"));
    }
    let count = |class| classes.iter().filter(|other| **other == class).count();
    let counts = PathClass::ALL
        .into_iter()
        .map(|class| (class, count(class)));
    let some = counts.filter(|(_, count)| *count > 0);
    let words: Vec<String> = some
        .map(|(class, count)| format!("{class} to {count}"))
        .collect();
    Ok(Value::text(words.join(", ")))
}
