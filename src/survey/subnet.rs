//! What a subnet manager has set on an InfiniBand port, and what a port sends RoCE with.

use std::path::Path;

use super::root::{ReadError, Root};
use super::{nic_parse, parse};
use crate::model::{Fact, LinkLayer, RoceDefaults, Subnet};

/// The most partitions read of a port; mlx5 has slots for 128.
const MAX_PARTITIONS: usize = 128;

/// Of the port whose directory is `dir`.
pub(super) fn subnet(root: &Root, dir: &Path, layer: Option<LinkLayer>) -> Subnet {
    if layer == Some(LinkLayer::Ethernet) {
        let none = "an Ethernet port has no subnet manager";
        return Subnet {
            manager_lid: Fact::unknown(none),
            lid_mask_bits: Fact::unknown(none),
            partitions: Fact::unknown(none),
        };
    }
    Subnet {
        manager_lid: root.fact(&dir.join("sm_lid"), parse::lid),
        lid_mask_bits: root.fact(&dir.join("lid_mask_count"), nic_parse::small),
        partitions: partitions(root, &dir.join("pkeys")),
    }
}

fn partitions(root: &Root, dir: &Path) -> Fact<Vec<u16>> {
    let names = match root.list(dir) {
        Ok(names) => names,
        Err(error) => return Fact::unknown(error.to_string()),
    };
    let mut slots: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    slots.sort_unstable();
    let mut keys = Vec::new();
    for slot in slots.into_iter().take(MAX_PARTITIONS) {
        match root.fact(&dir.join(slot.to_string()), nic_parse::pkey) {
            Fact::Known { value: 0, .. } => {}
            Fact::Known { value, .. } => keys.push(value),
            Fact::Unknown { why } => return Fact::unknown(why),
        }
    }
    Fact::known(keys, dir.display().to_string())
}

/// Of port `number` of a device of hardware.
pub(super) fn roce(root: &Root, device: &Path, number: u8) -> RoceDefaults {
    let name = device.file_name().unwrap_or_default();
    let rdma_cm = root
        .path("sys/kernel/config/rdma_cm")
        .join(name)
        .join("ports")
        .join(number.to_string());
    let class = device.join(format!("tc/{number}/traffic_class"));
    let traffic_class = match root.read(&class) {
        Err(ReadError::Empty(_)) => Fact::unknown(format!("{} sets none", class.display())),
        Err(error) if error.is_absent() => Fact::unknown(format!(
            "{} does not exist: only MLNX_OFED and DOCA have it",
            class.display()
        )),
        _ => root.fact(&class, nic_parse::traffic_class),
    };
    RoceDefaults {
        traffic_class,
        tos: root.fact(&rdma_cm.join("default_roce_tos"), nic_parse::small),
        gid_type: root.fact(&rdma_cm.join("default_roce_mode"), parse::word),
    }
}
