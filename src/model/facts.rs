//! What is known of a node: its RDMA devices, ports, GIDs and limits.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Bytes, Counters, Fact, Gbps, Gid, GpuDirectFacts, GpuFacts, HostFacts, Identity, Interface,
    Lanes, MemlockLimit, NetdevSettings, NicId, PciAddress, PcieTree, QueuePairHolder, Rail,
    RoceDefaults, Routing, Subnet,
};

/// What a survey of one node found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// The node's own name for itself.
    pub hostname: Fact<String>,
    /// Kernel release, as `uname -r`.
    pub kernel: Fact<String>,
    /// Machine architecture, as `uname -m`.
    pub arch: Fact<String>,
    /// For how long the node is up, in seconds.
    #[serde(default)]
    pub uptime_s: Fact<u64>,
    /// RLIMIT_MEMLOCK as the agent has it.
    pub memlock: Fact<MemlockLimit>,
    /// The file that libibverbs was loaded from.
    pub libibverbs: Fact<String>,
    /// RDMA devices in the order of their names; unknown where the kernel shows none at all.
    pub rdma: Fact<Vec<RdmaDevice>>,
    /// The PCIe functions of RDMA devices and GPUs, and the bridges above them.
    #[serde(default)]
    pub pcie: Fact<PcieTree>,
    /// The network interfaces of hardware, those with RDMA and those without.
    #[serde(default)]
    pub interfaces: Fact<Vec<Interface>>,
    /// Its routes to subnets.
    #[serde(default)]
    pub routing: Routing,
    /// The library through which libfabric speaks to EFA devices; asked where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efa_provider: Option<Fact<String>>,
    /// The NUMA nodes, by number.
    #[serde(default)]
    pub numa: Fact<Vec<NumaNode>>,
    /// Processors, memory, kernel, and what the agent may do.
    #[serde(default)]
    pub host: HostFacts,
    /// What GPU drivers know of the GPUs.
    #[serde(default)]
    pub gpu: GpuFacts,
    /// What GPUDirect rests on.
    #[serde(default)]
    pub gpudirect: GpuDirectFacts,
}

impl NodeFacts {
    /// The device that a NIC is a port of. Most servers have the NIC of a rail at its place among their
    /// devices: that one is looked at first.
    pub fn device(&self, nic: &NicId, rail: Rail) -> Option<&RdmaDevice> {
        let devices = self.rdma.value()?;
        let is_it = |device: &&RdmaDevice| device.name == nic.device;
        let at_its_place = devices.get(usize::from(rail.0)).filter(is_it);
        at_its_place.or_else(|| devices.iter().find(is_it))
    }
}

/// A NUMA node, as under /sys/devices/system/node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Its number.
    pub number: u32,
    /// How far the memory of each NUMA node is, in the order of their numbers; 10 is its own (ACPI
    /// specification, System Locality Information Table).
    pub distances: Vec<u32>,
    /// Its processors, as the kernel lists them (`0-31,64-95`); empty where it has only memory.
    #[serde(default)]
    pub cpus: Fact<String>,
    /// Its memory.
    #[serde(default)]
    pub memory: Fact<Bytes>,
}

/// One RDMA device, as under /sys/class/infiniband.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RdmaDevice {
    /// Its name, such as `mlx5_0` or `rxe0`.
    pub name: String,
    /// The kernel driver of the function below it.
    pub driver: Fact<String>,
    /// Who it is, apart from its name.
    #[serde(default)]
    pub identity: Identity,
    /// Set where RDMA is done by the kernel, so that its CPU cost and port rate mean nothing.
    pub software: Option<SoftwareRdma>,
    /// Firmware version.
    pub firmware: Fact<String>,
    /// The PCI function it sits on (for rxe and siw, that of the netdev below).
    pub pci: Fact<PciAddress>,
    /// The NUMA node of that function.
    pub numa_node: Fact<u32>,
    /// Whether the device and its kernel driver register the memory of other devices by dma-buf.
    #[serde(default)]
    pub dmabuf: Fact<bool>,
    /// Whose memory an EFA's driver reaches by an interface of its own; `None` of other devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efa_peer: Option<Fact<String>>,
    /// Its ports, by number.
    pub ports: Vec<Port>,
    /// Who holds queue pairs on it, as far as this PID namespace shows.
    #[serde(default)]
    pub queue_pairs: Fact<Vec<QueuePairHolder>>,
    /// What `ports` leaves out because it could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// RDMA done in software by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SoftwareRdma {
    /// Soft-RoCE, rdma_rxe.
    Rxe,
    /// Soft-iWARP, siw.
    Siw,
}

/// One port of an RDMA device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Its number, from 1.
    pub number: u8,
    /// Logical state.
    pub state: Fact<PortState>,
    /// Physical state, the kernel's word (`LinkUp`, `Polling`, `Disabled`).
    pub physical_state: Fact<String>,
    /// InfiniBand or Ethernet.
    pub link_layer: Fact<LinkLayer>,
    /// Signalling rate; what software RDMA claims here is not a measurement.
    pub rate: Fact<Gbps>,
    /// The lanes of its link.
    #[serde(default)]
    pub lanes: Fact<Lanes>,
    /// Path MTU in bytes that the port runs at now.
    pub active_mtu: Fact<u32>,
    /// Local identifier (InfiniBand only).
    pub lid: Fact<u16>,
    /// What its subnet manager has set (InfiniBand only).
    #[serde(default)]
    pub subnet: Subnet,
    /// What it sends RoCE with by default (Ethernet only).
    #[serde(default)]
    pub roce: RoceDefaults,
    /// The network interface behind the port.
    pub netdev: Fact<Netdev>,
    /// The GID table, empty slots left out.
    pub gids: Vec<GidEntry>,
    /// The port's counters, from `counters` and, on older kernels, `counters_ext`.
    /// Data is counted in words of 4 bytes.
    #[serde(default)]
    pub counters: Fact<Counters>,
    /// What the port carried while its node was surveyed.
    #[serde(default)]
    pub traffic: Fact<Traffic>,
    /// The driver's own counters of the port, from `hw_counters`.
    #[serde(default)]
    pub hw_counters: Fact<Counters>,
    /// What `gids` leaves out because it could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// What a port carries, headers and all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Sent.
    pub tx: Gbps,
    /// Received.
    pub rx: Gbps,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Netdev {
    /// Its name.
    pub name: String,
    /// Its MTU in bytes.
    pub mtu: Fact<u32>,
    /// The kernel's operational state (`up`, `down`, `unknown`).
    pub operstate: Fact<String>,
    /// Its link, addresses and what keeps its traffic from being dropped.
    #[serde(default)]
    pub settings: NetdevSettings,
    /// Its counters, from `statistics`, and how often its carrier came or went.
    #[serde(default)]
    pub counters: Fact<Counters>,
}

/// An entry of a port's GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GidEntry {
    /// The index that verbs know it by.
    pub index: u32,
    /// The GID.
    pub gid: Gid,
    /// What packets under this GID look like.
    pub kind: Fact<GidType>,
    /// The network interface it belongs to (RoCE).
    pub netdev: Fact<String>,
    /// Length of the subnet's prefix on that interface, in bits (RoCEv2).
    pub prefix_len: Fact<u8>,
}

impl GidEntry {
    /// Index, type, address and interface, in words: those of a table.
    pub fn columns(&self, link_layer: Option<&LinkLayer>) -> [String; 4] {
        let kind = match (self.kind.value(), link_layer) {
            (Some(GidType::RoceV2), _) => "RoCEv2",
            (Some(GidType::IbOrRoceV1), Some(LinkLayer::InfiniBand)) => "IB",
            (Some(GidType::IbOrRoceV1), Some(LinkLayer::Ethernet)) => "RoCEv1",
            (Some(GidType::IbOrRoceV1), None) => "IB/RoCEv1",
            (None, _) => "?",
        };
        let address = match (self.kind.value(), self.prefix_len.value()) {
            (Some(GidType::RoceV2), Some(len)) => format!("{}/{len}", self.gid.ip()),
            (Some(GidType::RoceV2), None) => self.gid.ip().to_string(),
            _ => self.gid.to_string(),
        };
        let netdev = match (self.netdev.value(), link_layer) {
            (Some(name), _) => name.as_str(),
            (None, Some(LinkLayer::InfiniBand)) => "",
            (None, _) => "?",
        };
        [
            format!("GID {}", self.index),
            kind.to_owned(),
            address,
            netdev.to_owned(),
        ]
    }
}

/// The type of a GID table entry, from gid_attrs/types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GidType {
    /// InfiniBand, and RoCE version 1 (`IB/RoCE v1`): the link layer tells which.
    IbOrRoceV1,
    /// RoCE version 2, over UDP/IP.
    RoceV2,
}

/// Logical state of a port (InfiniBand Architecture Specification, PortInfo:PortState).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortState {
    /// No link.
    Down,
    /// Link up, not yet configured: on InfiniBand, no subnet manager has seen it.
    Init,
    /// Configured, not yet active.
    Armed,
    /// Carries traffic.
    Active,
    /// Active, with the link in error recovery.
    ActiveDefer,
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Down => "DOWN",
            Self::Init => "INIT",
            Self::Armed => "ARMED",
            Self::Active => "ACTIVE",
            Self::ActiveDefer => "ACTIVE_DEFER",
        })
    }
}

/// What the port's link speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE or iWARP.
    Ethernet,
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::pcie::TwoSockets;
    use super::super::testing::{facts, port};
    use super::*;

    #[test]
    fn a_device_is_found_at_the_place_of_its_rail_and_elsewhere() {
        let device = |name| (name, "0000:01:00.0", port());
        let facts = facts(vec![device("mlx5_1"), device("mlx5_0"), device("mlx5_2")]);
        for (name, found) in [("mlx5_0", true), ("mlx5_2", true), ("mlx5_3", false)] {
            let nic = NicId {
                node: "node01".into(),
                device: name.into(),
                port: 1,
            };
            for rail in [0, 1, 2, 7] {
                let device = facts.device(&nic, Rail(rail));
                assert_eq!(
                    device.map(|device| device.name.as_str()),
                    found.then_some(name)
                );
            }
        }
    }

    #[test]
    fn a_pcie_tree_survives_the_wire_and_older_events_are_read_without() {
        let facts = TwoSockets::facts();
        let mut json = serde_json::to_value(&facts).unwrap();
        assert_eq!(
            serde_json::from_value::<NodeFacts>(json.clone()).unwrap(),
            facts
        );
        json.as_object_mut().unwrap().remove("pcie");
        let older: NodeFacts = serde_json::from_value(json).unwrap();
        assert!(older.pcie.why_unknown().is_some());
        assert_eq!(older.rdma, facts.rdma);
    }
}
