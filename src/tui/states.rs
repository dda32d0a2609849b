//! What a node's facts come to in a cell of the grid: GPUDirect, and its worst PCIe link.

use crate::judge::{GpuWay, gpu_pairs};
use crate::model::NodeFacts;
use crate::topology::links_on_path;

/// GPUDirect RDMA of a node in a word; nothing where no GPU is meant for it.
pub(super) fn gpudirect(facts: &NodeFacts) -> &'static str {
    let mut worst = "";
    for pair in gpu_pairs(facts) {
        let word = match pair.way {
            Ok(GpuWay::None { .. }) => return "off",
            Ok(GpuWay::Peermem(_)) => "peermem",
            Ok(GpuWay::Dmabuf) => "dma-buf",
            Err(_) => "?",
        };
        if worst.is_empty() || word == "?" {
            worst = word;
        }
    }
    worst
}

/// The link above a NIC that is the most below what it is capable of; else the narrowest.
pub(super) fn narrowest(facts: &NodeFacts) -> String {
    const MOST_FUNCTIONS: usize = 2048;
    const MOST_NICS: usize = 64;
    let Some(tree) = facts.pcie.value() else {
        return String::new();
    };
    let devices = facts.rdma.value().map_or(&[][..], Vec::as_slice);
    if tree.functions.len() > MOST_FUNCTIONS {
        return "?".to_owned();
    }
    let addresses = devices.iter().take(MOST_NICS).filter_map(|d| d.pci.value());
    let links = addresses.flat_map(|address| links_on_path(tree, address));
    let known = links.filter_map(|link| {
        let now = link.current.clone().ok()?;
        Some((!link.is_degraded(), now.speed, now.width, link.capable()))
    });
    let worst = known.min_by_key(|(well, speed, width, _)| (*well, *speed, *width));
    match worst {
        None => "?".to_owned(),
        Some((false, speed, width, Some(can))) if can.speed == speed => {
            format!("{speed} x{width} of x{}", can.width)
        }
        Some((false, speed, width, Some(can))) => {
            format!("{speed} x{width} of {} x{}", can.speed, can.width)
        }
        Some((_, speed, width, _)) => format!("{speed} x{width}"),
    }
}
