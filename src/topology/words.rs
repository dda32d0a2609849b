//! A node's PCIe tree in words: the same on every face.

use std::collections::BTreeMap;

use super::{Affinity, LinkOnPath, PayloadSize, PcieLimit};
use crate::model::{AcsControl, Fact, Iommu, LinkState, PciFunction, PcieErrors};

/// `NVIDIA Corporation GH100 [H100 SXM5 80GB]` by the PCI ID Repository, else `10de:2330`.
pub fn model(function: &PciFunction) -> String {
    let (vendor, device) = match (&function.vendor, &function.device) {
        (Fact::Known { value: vendor, .. }, Fact::Known { value: device, .. }) => (vendor, device),
        (Fact::Unknown { why }, _) | (_, Fact::Unknown { why }) => {
            return format!("unknown: {why}");
        }
    };
    named(*vendor, *device)
}

/// Vendor and device by the PCI ID Repository, else their ids.
pub fn named(vendor: u16, device: u16) -> String {
    match pci_ids::Device::from_vid_pid(vendor, device) {
        Some(known) => format!("{} {}", known.vendor().name(), known.name()),
        None => format!("{vendor:04x}:{device:04x}"),
    }
}

/// `fatal DLP 1, correctable BadTLP 12`
pub fn errors_text(errors: &PcieErrors) -> Option<String> {
    let kinds = [
        ("fatal", &errors.fatal),
        ("non-fatal", &errors.nonfatal),
        ("correctable", &errors.correctable),
        ("messages from below:", &errors.received),
    ];
    let text = |(kind, counters): (&str, &BTreeMap<String, u64>)| {
        let counters: Vec<_> = counters
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        (!counters.is_empty()).then(|| format!("{kind} {}", counters.join(", ")))
    };
    let texts: Vec<_> = kinds.into_iter().filter_map(text).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// `Gen5 x8 (capable: x16)`.
pub fn link_text(link: &LinkOnPath) -> String {
    let Ok(now) = &link.current else {
        return "unknown".to_owned();
    };
    let capable = link.capable().unwrap_or(*now);
    if link.is_narrowed() || link.is_slowed() {
        let more = beyond(*now, capable);
        // Link power management: only a GPU at work shows what it trained to.
        return match link.is_degraded() {
            false => format!("{now} (capable: {more}; GPUs slow down when idle)"),
            true => format!("{now} (capable: {more})"),
        };
    }
    for (end, of) in [("device", link.below_capable), ("port", link.above_capable)] {
        if let Some(of) = of.filter(|of| of.width > capable.width || of.speed > capable.speed) {
            return format!("{now} (the {end} is capable of {})", beyond(*now, of));
        }
    }
    now.to_string()
}

/// What of `capable` is more than `now`: `x16`, `Gen5`, `Gen5 x16`.
fn beyond(now: LinkState, capable: LinkState) -> String {
    match (capable.speed > now.speed, capable.width > now.width) {
        (true, false) => capable.speed.to_string(),
        (false, true) => format!("x{}", capable.width),
        _ => capable.to_string(),
    }
}

/// What an IOMMU does to the addresses of a device.
pub fn iommu_text(iommu: &Iommu) -> String {
    match iommu {
        Iommu::Off => "IOMMU off".to_owned(),
        Iommu::Identity => "IOMMU passes addresses through".to_owned(),
        Iommu::Translates { kind } => format!("IOMMU translates ({kind})"),
        Iommu::Other(kind) => format!("IOMMU {kind}"),
    }
}

/// The bridges that send peer traffic up to the root, or why that is unknown; `None` without any bridge.
pub fn acs_text(chain: &[&PciFunction]) -> Option<String> {
    let bridges = || {
        let of = |function: &&PciFunction| Some((function.address.clone(), function.acs.clone()?));
        chain.iter().filter_map(of)
    };
    bridges().next()?;
    let redirecting: Vec<_> = bridges()
        .filter(|(_, acs)| {
            let control = acs.value().copied().flatten();
            control.is_some_and(AcsControl::redirects_peers)
        })
        .map(|(address, _)| address.to_string())
        .collect();
    if !redirecting.is_empty() {
        let bridges = redirecting.join(", ");
        return Some(format!("sends peer traffic up to the root at {bridges}"));
    }
    let unknown = bridges().find_map(|(_, acs)| acs.why_unknown().map(str::to_owned));
    Some(match unknown {
        Some(why) => format!("unknown: {why}"),
        None => "redirects nothing".to_owned(),
    })
}

/// What a NIC's links let it receive and send, and which of them is the narrowest.
pub fn limit_text(limit: &PcieLimit) -> String {
    let payload = match limit.payload {
        PayloadSize::Read(bytes) => format!("MaxPayload {bytes}"),
        PayloadSize::Assumed(bytes) => format!("MaxPayload unknown, {bytes} assumed"),
    };
    let link = match &limit.narrowest.current {
        Ok(state) => state.to_string(),
        Err(why) => why.clone(),
    };
    let unknown = match limit.unknown {
        0 => String::new(),
        1 => ", at most: one link is unknown".to_owned(),
        count => format!(", at most: {count} links are unknown"),
    };
    format!(
        "receives {}, sends {} ({link} at {}, {payload}{unknown})",
        limit.receive, limit.send, limit.narrowest.below
    )
}

/// The NICs nearest to a GPU, by its place in the matrix.
pub fn nearest_text(affinity: &Affinity, gpu: usize) -> String {
    let Some(nearest) = affinity.nearest(gpu) else {
        let nic = affinity.endpoints.iter().position(|end| !end.is_gpu);
        return match nic.and_then(|nic| affinity.classes[gpu][nic].as_ref().err()) {
            Some(why) => format!("unknown: {why}"),
            None => "none: no RDMA device on PCIe".to_owned(),
        };
    };
    let name = |nic: &usize| affinity.endpoints[*nic].name.as_str();
    let names: Vec<_> = nearest.nics.iter().map(name).collect();
    let more = match nearest.unknown {
        0 => String::new(),
        1 => "; 1 NIC of unknown path may be nearer".to_owned(),
        unknown => format!("; {unknown} NICs of unknown path may be nearer"),
    };
    format!("{} ({}){more}", names.join(", "), nearest.class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_say_what_more_is_possible_and_of_whom() {
        use crate::model::LinkSpeed::{Gen4, Gen5};
        let state = |speed, width| LinkState { speed, width };
        assert_eq!(beyond(state(Gen5, 8), state(Gen5, 16)), "x16");
        assert_eq!(beyond(state(Gen4, 16), state(Gen5, 16)), "Gen5");
        assert_eq!(beyond(state(Gen4, 8), state(Gen5, 16)), "Gen5 x16");
    }
}
