//! Findings: what is wrong, with whom, how that is known, and what to do.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Gbps, NicId, NodeName, Rail};

/// Each rule once: its doc comment, its variant and the name that JSON and `linerate explain` know.
macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The kind of a finding. Its name in JSON is stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Rule {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $variant,)+
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name used in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

rules! {
    /// A NIC moves about half of what is expected, or less, with every partner.
    HalfBandwidth = "half-bandwidth",
    /// A NIC moves clearly less than expected with every partner.
    DegradedBandwidth = "degraded-bandwidth",
    /// A pair is slow, and which of its ends is the cause cannot be told.
    SlowPair = "slow-pair",
    /// Two NICs that are each good with others are slow with each other.
    SlowPath = "slow-path",
    /// One queue pair does not reach what several do.
    OneQueuePair = "one-queue-pair",
    /// NICs that share a PCIe root port are low only together.
    SharedPcie = "shared-pcie",
    /// Most NICs of a node are low only together.
    NodeLimit = "node-limit",
    /// What was low once was not when it was measured again.
    CameAndWent = "came-and-went",
    /// What the nodes of a leaf group send to other groups, or receive from them, is too little.
    LeafUplink = "leaf-uplink",
    /// Flows between leaf groups are slow one by one, by no fault of a NIC or a group.
    FlowCollisions = "flow-collisions",
    /// The cable of a NIC is in the switch of another rail.
    WrongRail = "wrong-rail",
    /// Every NIC of a rail is below what is expected.
    RailBelowExpected = "rail-below-expected",
    /// No line rate is known, so that only deviants can be told.
    LineRateUnknown = "line-rate-unknown",
    /// More was measured than the link can carry: facts or path are not what they seem.
    AboveExpected = "above-expected",
    /// TCP is far below what RDMA reaches on the same NICs: it is TCP's limit, and not the network's.
    TcpLimit = "tcp-limit",
    /// The bytes that landed are not those that were sent.
    CorruptData = "corrupt-data",
    /// A probe between two nodes that answer could not be made to work.
    ProbeFailed = "probe-failed",
    /// A node could not be reached, or was lost.
    NodeLost = "node-lost",
    /// A rail has no usable NIC on a node.
    NoNic = "no-nic",
    /// A NIC's port carries no traffic.
    PortDown = "port-down",
    /// The PCIe links above a NIC run below what they are capable of, or carry less than its line.
    PcieLink = "pcie-link",
    /// A port's RDMA packets are smaller than they could be.
    Mtu = "mtu",
    /// A PCIe function on the way of a NIC or GPU counted errors.
    PcieErrors = "pcie-errors",
    /// A GPU's link has fewer lanes than both of its ends are capable of.
    GpuPcieWidth = "gpu-pcie-width",
    /// The ports of one card together have more line than the slot carries.
    TwoFunctions = "two-functions",
    /// A NIC's PCIe packets or read requests are small.
    PayloadSize = "payload-size",
    /// A fast NIC below an AMD root port may not relax the order of its writes.
    RelaxedOrdering = "relaxed-ordering",
    /// Switches send what a NIC and a GPU exchange up to the root.
    Acs = "acs",
    /// The IOMMU translates the addresses of NICs and GPUs.
    IommuTranslating = "iommu-translating",
    /// A NIC sits on another socket than the GPUs that it should serve.
    GpuNicPath = "gpu-nic-path",
    /// Firmware does not say which NUMA node a NIC or GPU is on.
    NumaUnknown = "numa-unknown",
    /// A node has something other than most of its siblings.
    DiffersFromSiblings = "differs-from-siblings",
    /// No NIC of a node with GPUs can reach their memory directly.
    GpuDirectOff = "gpudirect-off",
    /// Only newer NCCL finds the peer memory module where it is.
    PeermemName = "peermem-name",
    /// The peer memory module was built against another ib_core.
    PeermemSymbol = "peermem-symbol",
    /// The window onto a GPU's memory is smaller than what is registered at once.
    Bar1Small = "bar1-small",
    /// The PCIe tree shows a GPU that its driver does not list.
    GpuNotVisible = "gpu-not-visible",
    /// The driver logged errors of a GPU that are not an application's.
    GpuErrors = "gpu-errors",
    /// A GPU's memory is copied from or to the host far below what its link carries.
    GpuCopySlow = "gpu-copy-slow",
    /// The kernel has no contiguous memory for the driver of a GPU that pins from it.
    CmaZero = "cma-zero",
    /// The agent cannot open the RDMA devices that the kernel has.
    DeviceAccess = "device-access",
    /// The agent may lock less memory than RDMA has to register.
    Memlock = "memlock",
    /// A port's link runs slower than those of the same board beside it.
    PortSpeed = "port-speed",
    /// Nothing keeps a port's RoCE packets from being dropped.
    LossyRoce = "lossy-roce",
    /// RDMA interfaces of a node are in one subnet and answer for each other.
    ArpFlux = "arp-flux",
    /// Two equal routes lead to one subnet through different interfaces.
    DuplicateRoute = "duplicate-route",
    /// A port has no good RoCEv2 GID, or its index is not the same everywhere.
    GidIndex = "gid-index",
    /// The name of an RDMA device begins with that of another.
    HcaPrefix = "hca-prefix",
    /// An RDMA device sits on a bond.
    Bond = "bond",
    /// An EFA device has no library to be used through.
    EfaProvider = "efa-provider",
    /// The processors may not run at full frequency.
    CpuGovernor = "cpu-governor",
    /// A link was lost again and again.
    LinkFlapping = "link-flapping",
    /// An error counter stands at its end and counts no more.
    CounterSaturated = "counter-saturated",
    /// NCCL goes without GPUDirect RDMA by its own word, or its data came out wrong.
    NcclTests = "nccl-tests",
    /// Packets were lost on RoCE while probes ran.
    RoceLoss = "roce-loss",
}

impl std::str::FromStr for Rule {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let known = Self::ALL.iter().find(|rule| rule.name() == name);
        known.copied().ok_or(())
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a finding does to the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A fault: something does not run at line rate.
    Fault,
    /// Something could not be judged.
    NotJudged,
    /// Costs bandwidth under some loads, or is a fault in waiting; does not change the verdict.
    Warning,
    /// Worth knowing; does not change the verdict.
    Note,
}

/// Which way data flows at a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the NIC into the fabric.
    Tx,
    /// From the fabric into the NIC.
    Rx,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tx => "tx",
            Self::Rx => "rx",
        })
    }
}

/// Whom a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A whole node.
    Node(NodeName),
    /// One rail of a node, where no NIC could be named.
    NodeRail(NodeName, Rail),
    /// One NIC, in one direction where that is known.
    Nic(NicId, Rail, Option<Direction>),
    /// A sender and a receiver together.
    Pair(super::Pair),
    /// A whole rail.
    Rail(Rail),
    /// What the nodes of a leaf group, by its name, send to other groups on a rail (tx), or receive
    /// from them (rx).
    LeafGroup(String, Rail, Direction),
    /// A device of a node that plays no rail: a GPU, or a NIC that was looked at by itself.
    Device(NodeName, String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "{node}"),
            Self::NodeRail(node, rail) => write!(f, "{rail} of {node}"),
            Self::Nic(nic, _, None) => write!(f, "{nic}"),
            Self::Nic(nic, _, Some(direction)) => write!(f, "{nic} {direction}"),
            Self::Pair(pair) => write!(f, "{pair}"),
            Self::Rail(rail) => write!(f, "{rail}"),
            Self::LeafGroup(group, rail, direction) => {
                let way = match direction {
                    Direction::Tx => "up",
                    Direction::Rx => "down",
                };
                write!(f, "{group} on {rail} {way}")
            }
            Self::Device(node, device) => write!(f, "{device} of {node}"),
        }
    }
}

/// One observation that a finding rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What was seen.
    pub saw: String,
    /// Where: a file, a probe, a library call.
    pub from: String,
}

/// Something that an operator should know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind.
    pub rule: Rule,
    /// What it does to the verdict.
    pub severity: Severity,
    /// Whom it is about.
    pub subject: Subject,
    /// The sentence that an operator would say.
    pub says: String,
    /// The rate that was measured.
    pub measured: Option<Gbps>,
    /// The rate that was expected.
    pub expected: Option<Gbps>,
    /// Where the expectation is from.
    pub expected_from: Option<String>,
    /// The share of `expected` that was measured or, where nothing was, is possible at most.
    pub ratio: Option<f64>,
    /// What the finding rests on.
    pub evidence: Vec<Evidence>,
    /// What to do about it.
    pub remedy: String,
}

/// Something that a rule would have looked at and could not: neither found nor passed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CannotTell {
    /// The rule.
    pub rule: Rule,
    /// Whom it would have been about.
    pub subject: Subject,
    /// Why it cannot be told, to follow "because".
    pub why: String,
}

/// The run in one word. Its number is the process's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every planned pair was measured, and every NIC is at line rate.
    AtLineRate,
    /// At least one fault is proved.
    Faults,
    /// No fault was seen, but not everything could be judged.
    CouldNotJudge,
}

impl Verdict {
    /// The exit code that says this: 0, 1 or 3 (2 is bad usage or configuration).
    pub fn exit_code(self) -> u8 {
        match self {
            Self::AtLineRate => 0,
            Self::Faults => 1,
            Self::CouldNotJudge => 3,
        }
    }
}
