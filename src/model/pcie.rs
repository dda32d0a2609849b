//! The PCIe tree of a node: the functions that carry RDMA or compute, and the bridges above them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Bytes, Fact, PciAddress, Shared};

/// PCI-SIG's vendor id of NVIDIA.
pub const VENDOR_NVIDIA: u16 = 0x10de;
/// PCI-SIG's vendor id of AMD's GPUs (ATI).
pub const VENDOR_AMD_GPU: u16 = 0x1002;
/// PCI-SIG's vendor id of Red Hat, which QEMU's root ports and bridges carry: made by a hypervisor.
pub const VENDOR_QEMU: u16 = 0x1b36;

/// The part of a node's PCIe tree that matters: RDMA devices' functions, GPUs, their physical
/// functions, and every bridge from them up to a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieTree {
    /// Whether a hypervisor is below this system, so that its tree may not be the real one.
    pub virtual_machine: Fact<bool>,
    /// The functions, each once, in the order of their addresses. Servers of one kind have the same: in
    /// the books of a run they are there once.
    pub functions: Shared<PciFunction>,
    /// What `functions` leaves out because it could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// What a function is to linerate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PciRole {
    /// An RDMA device sits on it, or on a virtual function of it.
    Nic,
    /// A GPU.
    Gpu,
    /// A bridge above one of these: root port, port of a switch.
    Bridge,
}

/// One PCI function, as below /sys/bus/pci/devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciFunction {
    /// Its address.
    pub address: PciAddress,
    /// What it is to linerate.
    pub role: PciRole,
    /// The bridge directly above; `None` directly below a root.
    pub parent: Option<PciAddress>,
    /// The root bus it hangs from, such as `pci0000:97`.
    pub root: Fact<String>,
    /// Vendor id.
    pub vendor: Fact<u16>,
    /// Device id.
    pub device: Fact<u16>,
    /// The kernel driver bound to it.
    pub driver: Fact<String>,
    /// The NUMA node whose memory and CPUs are nearest.
    pub numa_node: Fact<u32>,
    /// The link: of a root port or a switch's downstream port the one below it, else the one above.
    pub link: PcieLink,
    /// Device Control of the PCI Express capability.
    pub control: Fact<DeviceControl>,
    /// Access Control Services of a bridge; `Known(None)` where it has no such capability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acs: Option<Fact<Option<AcsControl>>>,
    /// How the IOMMU treats what the function reads and writes (bridges: not asked).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iommu: Option<Fact<Iommu>>,
    /// The physical function of which this is a virtual one (SR-IOV).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_function: Option<Fact<PciAddress>>,
    /// What went wrong on the link and behind it since the system started (AER).
    #[serde(default)]
    pub errors: Fact<PcieErrors>,
    /// Size of a GPU's window onto its memory: NVIDIA's BAR1, AMD's BAR0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_window: Option<Fact<Bytes>>,
}

/// The state of a PCIe link as one of its ends tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieLink {
    /// The speed it runs at.
    pub speed: Fact<LinkSpeed>,
    /// The speed that this end is capable of.
    pub max_speed: Fact<LinkSpeed>,
    /// The lanes it runs on.
    pub width: Fact<u8>,
    /// The lanes that this end has.
    pub max_width: Fact<u8>,
}

/// A speed and a width, both known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LinkState {
    /// Speed of a lane.
    pub speed: LinkSpeed,
    /// Lanes.
    pub width: u8,
}

impl fmt::Display for LinkState {
    /// `Gen5 x16`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} x{}", self.speed, self.width))
    }
}

impl PcieLink {
    /// What the link runs at, where both speed and width are known.
    pub fn current(&self) -> Option<LinkState> {
        state(&self.speed, &self.width)
    }

    /// What this end is capable of, where both speed and width are known.
    pub fn capable(&self) -> Option<LinkState> {
        state(&self.max_speed, &self.max_width)
    }

    /// A link of which nothing is known, for one reason.
    pub fn unknown(why: &str) -> Self {
        Self {
            speed: Fact::unknown(why),
            max_speed: Fact::unknown(why),
            width: Fact::unknown(why),
            max_width: Fact::unknown(why),
        }
    }
}

fn state(speed: &Fact<LinkSpeed>, width: &Fact<u8>) -> Option<LinkState> {
    Some(LinkState {
        speed: *speed.value()?,
        width: *width.value()?,
    })
}

/// The speed of a PCIe lane, by the generation that brought it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkSpeed {
    /// 2.5 GT/s.
    Gen1,
    /// 5 GT/s.
    Gen2,
    /// 8 GT/s.
    Gen3,
    /// 16 GT/s.
    Gen4,
    /// 32 GT/s.
    Gen5,
    /// 64 GT/s.
    Gen6,
}

impl LinkSpeed {
    /// All, slowest first.
    pub const ALL: [Self; 6] = [
        Self::Gen1,
        Self::Gen2,
        Self::Gen3,
        Self::Gen4,
        Self::Gen5,
        Self::Gen6,
    ];

    /// Transfers in GT/s: bits on the wire for each lane (PCI Express Base Specification).
    pub fn gigatransfers(self) -> f64 {
        match self {
            Self::Gen1 => 2.5,
            Self::Gen2 => 5.0,
            Self::Gen3 => 8.0,
            Self::Gen4 => 16.0,
            Self::Gen5 => 32.0,
            Self::Gen6 => 64.0,
        }
    }
}

impl fmt::Display for LinkSpeed {
    /// `Gen5`, as operators call 32 GT/s.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Gen1 => "Gen1",
            Self::Gen2 => "Gen2",
            Self::Gen3 => "Gen3",
            Self::Gen4 => "Gen4",
            Self::Gen5 => "Gen5",
            Self::Gen6 => "Gen6",
        })
    }
}

/// Device Control of a function's PCI Express capability (PCI Express Base Specification, 7.5.3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceControl {
    /// Max_Payload_Size in bytes: the most that one packet it sends carries.
    pub max_payload: u16,
    /// Max_Payload_Size Supported in bytes, of Device Capabilities; `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_capable: Option<u16>,
    /// Max_Read_Request_Size in bytes: the most that one of its reads asks for.
    pub max_read_request: u16,
    /// Whether it may set the relaxed-ordering attribute.
    pub relaxed_ordering: bool,
}

/// ACS Control of a bridge (PCI Express Base Specification, 7.7.11.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcsControl {
    /// Source Validation.
    pub source_validation: bool,
    /// Translation Blocking.
    pub translation_blocking: bool,
    /// P2P Request Redirect: peer requests go up to the root.
    pub request_redirect: bool,
    /// P2P Completion Redirect: peer completions go up to the root.
    pub completion_redirect: bool,
    /// Upstream Forwarding: what comes from below for below is sent up to the root.
    pub upstream_forwarding: bool,
    /// P2P Egress Control.
    pub egress_control: bool,
    /// Direct Translated P2P.
    pub direct_translated: bool,
}

impl AcsControl {
    /// Whether it sends traffic between two devices below up to the root.
    pub fn redirects_peers(self) -> bool {
        self.request_redirect || self.completion_redirect
    }
}

/// Errors that a function counted (Advanced Error Reporting), by the kernel's names, such as
/// `BadTLP`. Counters at zero are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieErrors {
    /// Errors that hardware put right, such as a packet that was sent again.
    pub correctable: BTreeMap<String, u64>,
    /// Errors that lost a transaction.
    pub nonfatal: BTreeMap<String, u64>,
    /// Errors after which the link is not to be trusted.
    pub fatal: BTreeMap<String, u64>,
    /// Messages that a root port got from below: `correctable`, `nonfatal`, `fatal`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub received: BTreeMap<String, u64>,
}

/// The default domain of an IOMMU group, from /sys/kernel/iommu_groups/N/type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Iommu {
    /// No IOMMU is in the function's way: it has no group.
    Off,
    /// In the way, addresses unchanged (`iommu=pt`).
    Identity,
    /// Translates every address; `DMA-FQ` invalidates lazily.
    Translates {
        /// The kernel's word, `DMA` or `DMA-FQ`.
        kind: String,
    },
    /// Another of the kernel's words, such as `blocked`.
    Other(String),
}

impl PcieTree {
    /// The function at an address.
    pub fn function(&self, address: &PciAddress) -> Option<&PciFunction> {
        let sorted = self.functions.binary_search_by(|f| f.address.cmp(address));
        match sorted {
            Ok(at) => self.functions.get(at),
            // What a node sends may be in any order.
            Err(_) => self.functions.iter().find(|f| f.address == *address),
        }
    }

    /// The function itself and every bridge above it, root port last.
    pub fn chain(&self, address: &PciAddress) -> Vec<&PciFunction> {
        let mut chain = Vec::new();
        let mut next = self.function(address);
        while let Some(function) = next {
            // What a node sends may go round in circles.
            if chain.len() == MAX_DEPTH {
                break;
            }
            chain.push(function);
            next = function.parent.as_ref().and_then(|a| self.function(a));
        }
        chain
    }

    /// The GPUs in the order of their addresses, which is how nvidia-smi numbers them.
    pub fn gpus(&self) -> impl Iterator<Item = &PciFunction> {
        self.functions.iter().filter(|f| f.role == PciRole::Gpu)
    }
}

/// More hops than any machine has: switches below switches make a dozen.
const MAX_DEPTH: usize = 32;

impl PciFunction {
    /// Whether a hypervisor made it, so that its link is an invention.
    pub fn is_emulated_bridge(&self) -> bool {
        self.role == PciRole::Bridge && self.vendor.value() == Some(&VENDOR_QEMU)
    }
}
