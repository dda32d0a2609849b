//! PCIe trees for tests of the other rooms.

use super::super::*;
use super::{facts, port};

/// A function's address.
pub fn address(text: &str) -> PciAddress {
    PciAddress(text.into())
}

/// A link running at the first, capable of the second.
pub fn link(current: (LinkSpeed, u8), capable: (LinkSpeed, u8)) -> PcieLink {
    PcieLink {
        speed: Fact::known(current.0, "current_link_speed"),
        width: Fact::known(current.1, "current_link_width"),
        max_speed: Fact::known(capable.0, "max_link_speed"),
        max_width: Fact::known(capable.1, "max_link_width"),
    }
}

/// Device Control with this MaxPayload.
pub fn control(max_payload: u16) -> Fact<DeviceControl> {
    let control = DeviceControl {
        max_payload,
        payload_capable: Some(512),
        max_read_request: 512,
        relaxed_ordering: true,
    };
    Fact::known(control, "config")
}

/// NUMA nodes from 0 with these distances.
pub fn numa(distances: &[&[u32]]) -> Fact<Vec<NumaNode>> {
    let node = |(number, distances): (usize, &&[u32])| NumaNode {
        number: number as u32,
        distances: distances.to_vec(),
        ..NumaNode::default()
    };
    let nodes = distances.iter().enumerate().map(node);
    Fact::known(nodes.collect(), "/sys/devices/system/node")
}

const FULL: (LinkSpeed, u8) = (LinkSpeed::Gen5, 16);

/// A function at Gen5 x16.
fn function(at: &str, role: PciRole, parent: Option<&str>, root: &str, numa: u32) -> PciFunction {
    let (vendor, device) = match role {
        PciRole::Nic => (0x15b3, 0x1021),
        PciRole::Gpu => (VENDOR_NVIDIA, 0x2330),
        PciRole::Bridge => (0x1000, 0xc030),
    };
    let is = |wanted| role == wanted;
    PciFunction {
        address: address(at),
        role,
        parent: parent.map(address),
        root: Fact::known(root.into(), "sys/devices"),
        vendor: Fact::known(vendor, "vendor"),
        device: Fact::known(device, "device"),
        driver: Fact::known("driver".into(), "driver"),
        numa_node: Fact::known(numa, "numa_node"),
        link: link(FULL, FULL),
        control: control(256),
        acs: is(PciRole::Bridge).then(|| Fact::known(None, "config")),
        iommu: (!is(PciRole::Bridge)).then(|| Fact::known(Iommu::Identity, "type")),
        physical_function: None,
        errors: Fact::known(PcieErrors::default(), "aer_dev_correctable"),
        memory_window: is(PciRole::Gpu).then(|| Fact::known(Bytes(128 << 30), "resource")),
    }
}

fn tree(functions: Vec<PciFunction>) -> PcieTree {
    PcieTree {
        virtual_machine: Fact::known(false, "/proc/cpuinfo"),
        functions: functions.into(),
        unread: vec![],
    }
}

/// Devices right on the root bus pci0000:00.
pub fn flat(addresses: &[&str]) -> PcieTree {
    let on_root = |at: &&str| function(at, PciRole::Nic, None, "pci0000:00", 0);
    tree(addresses.iter().map(on_root).collect())
}

/// A server with two sockets: on the first, a switch with a NIC, a GPU and below another switch a
/// second GPU; a NIC on a root port; on another root bus a card with two functions. On the second
/// a switch with a NIC, whose link trained at x8, and an idle GPU.
pub struct TwoSockets;

impl TwoSockets {
    /// Below the first switch.
    pub const NIC0: &str = "0000:13:00.0";
    /// Below the first switch.
    pub const GPU0: &str = "0000:14:00.0";
    /// Below the switch below the first switch.
    pub const GPU1: &str = "0000:17:00.0";
    /// On a root port of the first root bus.
    pub const NIC1: &str = "0000:18:00.0";
    /// On another root bus of socket 0.
    pub const NIC2: &str = "0000:41:00.0";
    /// The second function of its card.
    pub const NIC3: &str = "0000:41:00.1";
    /// Socket 1, trained at x8.
    pub const NIC4: &str = "0000:c4:00.0";
    /// Below its switch, idle.
    pub const GPU2: &str = "0000:c5:00.0";

    /// The tree alone.
    pub fn tree() -> PcieTree {
        use PciRole::{Bridge, Gpu, Nic};
        let rows = [
            ("0000:10:01.0", Bridge, ""),
            ("0000:10:02.0", Bridge, ""),
            ("0000:11:00.0", Bridge, "0000:10:01.0"),
            ("0000:12:00.0", Bridge, "0000:11:00.0"),
            ("0000:12:01.0", Bridge, "0000:11:00.0"),
            ("0000:12:02.0", Bridge, "0000:11:00.0"),
            (Self::NIC0, Nic, "0000:12:00.0"),
            (Self::GPU0, Gpu, "0000:12:01.0"),
            ("0000:15:00.0", Bridge, "0000:12:02.0"),
            ("0000:16:00.0", Bridge, "0000:15:00.0"),
            (Self::GPU1, Gpu, "0000:16:00.0"),
            (Self::NIC1, Nic, "0000:10:02.0"),
            ("0000:40:01.0", Bridge, ""),
            (Self::NIC2, Nic, "0000:40:01.0"),
            (Self::NIC3, Nic, "0000:40:01.0"),
            ("0000:c0:01.0", Bridge, ""),
            ("0000:c1:00.0", Bridge, "0000:c0:01.0"),
            ("0000:c2:00.0", Bridge, "0000:c1:00.0"),
            ("0000:c2:01.0", Bridge, "0000:c1:00.0"),
            (Self::NIC4, Nic, "0000:c2:00.0"),
            (Self::GPU2, Gpu, "0000:c2:01.0"),
        ];
        let mut tree = tree(
            rows.iter()
                .map(|(at, role, parent)| {
                    let (root, numa) = match &at[5..6] {
                        "1" => ("pci0000:10", 0),
                        "4" => ("pci0000:40", 0),
                        _ => ("pci0000:c0", 1),
                    };
                    let parent = (!parent.is_empty()).then_some(*parent);
                    function(at, *role, parent, root, numa)
                })
                .collect(),
        );
        for function in &mut tree.functions {
            match &*function.address.0 {
                Self::NIC4 | "0000:c2:00.0" => function.link = link((LinkSpeed::Gen5, 8), FULL),
                Self::GPU2 | "0000:c2:01.0" => function.link = link((LinkSpeed::Gen1, 16), FULL),
                _ => {}
            }
        }
        tree
    }

    /// The same node, with its tree changed.
    pub fn with(change: impl FnOnce(&mut PcieTree)) -> NodeFacts {
        let mut facts = Self::facts();
        if let Fact::Known { value, .. } = &mut facts.pcie {
            change(value);
        }
        facts
    }

    /// A node with that tree and `mlx5_0` to `mlx5_4` on its NICs.
    pub fn facts() -> NodeFacts {
        let mut facts = facts(vec![
            ("mlx5_0", Self::NIC0, port()),
            ("mlx5_1", Self::NIC1, port()),
            ("mlx5_2", Self::NIC2, port()),
            ("mlx5_3", Self::NIC3, port()),
            ("mlx5_4", Self::NIC4, port()),
        ]);
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value[4].numa_node = Fact::known(1, "test");
        }
        facts.pcie = Fact::known(Self::tree(), "/sys/bus/pci/devices");
        facts.numa = numa(&[&[10, 21], &[21, 10]]);
        facts
    }
}
