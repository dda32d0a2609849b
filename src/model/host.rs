//! What is known of a node apart from its devices: processors, memory, kernel, and what the agent may do there.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Bytes, Fact};

/// The host that the devices sit in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// The processor, in its maker's words.
    pub cpu: Fact<String>,
    /// How many logical processors are online.
    pub cpus_online: Fact<u32>,
    /// Frequency scaling; unknown where the kernel scales none.
    pub scaling: Fact<FrequencyScaling>,
    /// The kernel's clock source, such as `tsc`.
    pub clock_source: Fact<String>,
    /// The container that the agent runs in, in one word; `Known(None)` where it runs in none.
    pub container: Fact<Option<String>>,
    /// The kernel's arguments that bear on PCIe, the IOMMU and pinned memory, not the others.
    pub kernel_arguments: Fact<Vec<String>>,
    /// The loaded modules that RDMA and GPUs rest on, by name.
    pub modules: Fact<Vec<KernelModule>>,
    /// The lines of the kernel's log that rules know.
    pub kernel_log: Fact<Vec<KernelLogLine>>,
    /// The effective user id of the agent.
    pub user: Fact<u32>,
    /// Whether the agent is exempt from RLIMIT_MEMLOCK (CAP_IPC_LOCK in the first user namespace).
    pub memlock_exempt: Fact<bool>,
    /// The character devices that user space reaches RDMA devices by, each with what it is for.
    pub verbs_access: Fact<Vec<VerbsNode>>,
    /// Whether the RDMA connection manager can be reached: /dev/infiniband/rdma_cm.
    pub rdma_cm: Fact<Access>,
    /// Memory that contiguous allocations may take (CmaTotal); some GPUs' drivers pin from it.
    pub cma_total: Fact<Bytes>,
}

/// What sets the processors' frequency.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequencyScaling {
    /// The driver, such as `intel_pstate` or `acpi-cpufreq`.
    pub driver: Fact<String>,
    /// How many processors each governor has.
    pub governors: BTreeMap<String, u32>,
    /// How many could not be read.
    #[serde(default)]
    pub unread: u32,
}

/// A loaded kernel module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelModule {
    /// Its name, with underscores.
    pub name: String,
    /// Its version; modules of the kernel itself state none.
    pub version: Fact<String>,
}

/// A line of the kernel's log that a rule knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLogLine {
    /// What it says.
    pub kind: KernelLogKind,
    /// The line, shortened.
    pub text: String,
}

/// The lines of the kernel's log that rules know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelLogKind {
    /// A peer memory module was built against another ib_core than the one that is loaded.
    PeerSymbolMismatch,
    /// nvidia-peermem or nv_peer_mem reports an error that is not known to be harmless.
    PeermemError,
    /// A PCIe link carries less than the device below is capable of.
    PcieLimited,
    /// The NVIDIA driver reports an error of a GPU.
    Xid,
    /// A cable or transceiver of an mlx5 port was plugged, unplugged or found faulty.
    PortModule,
}

/// The character device of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbsNode {
    /// The RDMA device.
    pub device: String,
    /// The character device, such as /dev/infiniband/uverbs0.
    pub path: String,
    /// Whether the agent can open it.
    pub access: Access,
}

/// Whether a device can be opened for reading and writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// It opens.
    Usable,
    /// There is no such file.
    Absent,
    /// Opening is refused (EACCES, EPERM).
    Denied,
    /// Opening fails otherwise, with the system's words.
    Fails(String),
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usable => f.pad("usable"),
            Self::Absent => f.pad("absent"),
            Self::Denied => f.pad("refused"),
            Self::Fails(why) => f.pad(why),
        }
    }
}

impl HostFacts {
    /// A loaded module by name.
    pub fn module(&self, name: &str) -> Option<&KernelModule> {
        let modules = self.modules.value()?;
        modules.iter().find(|module| module.name == name)
    }

    /// The lines of one kind in the kernel's log; none where the log could not be read.
    pub fn logged(&self, kind: KernelLogKind) -> impl Iterator<Item = &KernelLogLine> {
        let lines = self.kernel_log.value().map_or(&[][..], Vec::as_slice);
        lines.iter().filter(move |line| line.kind == kind)
    }
}
