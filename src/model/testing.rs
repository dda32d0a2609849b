//! Small facts for tests of the other rooms.

pub mod pcie;

use super::*;

/// A GID table entry.
pub fn gid(index: u32, gid: &str, kind: GidType, prefix_len: u8) -> GidEntry {
    GidEntry {
        index,
        gid: gid.parse().expect("a GID"),
        kind: Fact::known(kind, "test"),
        netdev: Fact::known("eth1".into(), "test"),
        prefix_len: Fact::known(prefix_len, "test"),
    }
}

/// An active 400 Gb/s Ethernet port without GIDs.
pub fn port() -> Port {
    Port {
        number: 1,
        state: Fact::known(PortState::Active, "test"),
        physical_state: Fact::known("LinkUp".into(), "test"),
        link_layer: Fact::known(LinkLayer::Ethernet, "test"),
        rate: Fact::known(Gbps(400.0), "/sys/class/infiniband/mlx5_0/ports/1/rate"),
        active_mtu: Fact::known(4096, "test"),
        lid: Fact::unknown("Ethernet"),
        netdev: Fact::unknown("test"),
        gids: Vec::new(),
        ..Port::default()
    }
}

/// A node with these devices: name, PCI address, its only port.
pub fn facts(devices: Vec<(&str, &str, Port)>) -> NodeFacts {
    let device = |(name, pci, port): (&str, &str, Port)| RdmaDevice {
        name: name.into(),
        driver: Fact::known("mlx5_core".into(), "test"),
        software: None,
        firmware: Fact::known("28.39.1002".into(), "test"),
        pci: Fact::known(PciAddress(pci.into()), "test"),
        numa_node: Fact::known(0, "test"),
        dmabuf: Fact::known(true, "test"),
        efa_peer: None,
        ports: vec![port],
        ..RdmaDevice::default()
    };
    NodeFacts {
        hostname: Fact::known("host".into(), "test"),
        kernel: Fact::known("6.1.0".into(), "test"),
        arch: Fact::known("x86_64".into(), "test"),
        uptime_s: Fact::known(864_000, "test"),
        memlock: Fact::known(MemlockLimit::Unlimited, "test"),
        libibverbs: Fact::known("libibverbs.so.1".into(), "test"),
        rdma: Fact::known(devices.into_iter().map(device).collect(), "test"),
        pcie: Fact::unknown("test"),
        ..NodeFacts::default()
    }
}
