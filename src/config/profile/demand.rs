//! What a check demands.

use std::collections::BTreeSet;

use crate::model::{
    Bytes, CostStep, Direction, Gbps, GidType, LinkLayer, LinkSpeed, MemlockLimit, MemoryKind,
    Rule, Severity,
};
use crate::topology::PathClass;

/// What must hold.
#[derive(Debug, Clone, PartialEq)]
pub enum Demand {
    /// A number of things, or of bytes.
    Count(CountOf, Bounds<u64>),
    /// A word that something states: a model, a version.
    Text(TextOf, TextDemand),
    /// The signalling rate of a port's link.
    LinkRate(Bounds<Gbps>),
    /// What a port's link speaks.
    LinkLayer(LinkLayer),
    /// The type of the GIDs that probes used; InfiniBand's and RoCE v1's are told apart by the link layer.
    GidType(GidType, LinkLayer),
    /// Every PCIe link from a NIC up to its root.
    Pcie(PcieDemand),
    /// The NUMA node of a NIC.
    Numa(NumaDemand),
    /// The most that lies between a NIC and its nearest GPU, and between a GPU and its nearest NIC.
    GpuPath(PathClass),
    /// How a NIC reaches the memory of its node's GPUs: by any of these.
    GpuDirect(Vec<GpuDirectWay>),
    /// The memory that may be locked, at least.
    Memlock(MemlockLimit),
    /// What a NIC moves while all that the run loads at once is loaded.
    Bandwidth(BandwidthDemand),
    /// How long a message takes.
    Latency(LatencyDemand),
    /// CPU time of moving data by RDMA.
    Cpu(CpuDemand),
    /// The most between the fastest and the slowest NIC of a rail, as a share of the rail's median.
    Spread(f64),
    /// The least that a NIC reaches with all rails loaded, as a share of what it reaches alone.
    RailsTogether(f64),
    /// Counters that must not grow during the run: these, or all of errors.
    Counters(BTreeSet<String>),
    /// No finding of some kind.
    Findings(FindingsDemand),
    /// The share of the NICs, each way, that must have been measured.
    Coverage(f64),
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountOf {
    /// Nodes that were surveyed.
    Nodes,
    /// NICs of a node that play a rail.
    Nics,
    /// GPUs of a node.
    Gpus,
    /// RDMA MTU of a port in bytes.
    Mtu,
    /// Lanes of a port's link.
    LinkWidth,
}

/// At least, at most, or both; one of them is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds<T> {
    /// The least that will do.
    pub least: Option<T>,
    /// The most that will do.
    pub most: Option<T>,
}

impl<T: PartialOrd> Bounds<T> {
    /// Whether a value is within.
    pub fn holds(&self, value: &T) -> bool {
        self.least.as_ref().is_none_or(|least| value >= least)
            && self.most.as_ref().is_none_or(|most| value <= most)
    }
}

/// A word that a node or NIC states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextOf {
    /// The kernel's release.
    Kernel,
    /// Version of a kernel module.
    Module(String),
    /// Version of the GPUs' driver.
    GpuDriver,
    /// Model of each GPU.
    GpuModel,
    /// The maker's name of a NIC's board (the PSID), else of its chip.
    NicModel,
    /// A NIC's kernel driver, with its version where it states one.
    NicDriver,
    /// A NIC's firmware.
    Firmware,
}

/// What a word must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextDemand {
    /// One of these, with `*` for anything and `?` for a character.
    OneOf(Vec<String>),
    /// A version that is not older.
    AtLeast(String),
    /// The same on all that are alike.
    Same,
}

/// What PCIe links must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PcieDemand {
    /// As fast and wide as both of its ends are capable of.
    Capable,
    /// At least so fast, and so wide, where that is said.
    AtLeast {
        /// The speed of a lane.
        speed: Option<LinkSpeed>,
        /// The lanes.
        width: Option<u8>,
    },
}

/// Which NUMA node a NIC must be on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumaDemand {
    /// That of its nearest GPU.
    AsGpu,
    /// The one with this number.
    Is(u32),
}

/// A way to the memory of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuDirectWay {
    /// A peer memory client, such as nvidia-peermem.
    Peermem,
    /// dma-buf.
    Dmabuf,
}

/// A rate, by itself or as a share of something.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// So much.
    Rate(Gbps),
    /// A share of what the links of a pair can carry.
    OfCeiling(f64),
    /// A share of what the median NIC of the cluster moves.
    OfMedian(f64),
}

/// What a NIC must move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BandwidthDemand {
    /// At least so much.
    pub least: Amount,
    /// Which way.
    pub ways: Ways,
    /// From and to which memory; none is whichever the run used.
    pub memory: Option<Memory>,
}

/// Which directions a demand is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ways {
    /// Each for itself.
    Each,
    /// One of them.
    One(Direction),
    /// Both at once, added up.
    Sum,
}

impl Ways {
    /// The directions, one for each result.
    pub fn directions(self) -> &'static [Direction] {
        match self {
            Self::Each | Self::Sum => &[Direction::Tx, Direction::Rx],
            Self::One(Direction::Tx) => &[Direction::Tx],
            Self::One(Direction::Rx) => &[Direction::Rx],
        }
    }
}

/// Where the data lies, roughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Main memory of the host.
    Host,
    /// Memory of GPUs.
    Gpu,
}

impl Memory {
    /// Whether a probe's memory is that.
    pub fn is(self, kind: MemoryKind) -> bool {
        let host = matches!(kind, MemoryKind::Host | MemoryKind::HostHuge);
        host == (self == Self::Host)
    }
}

/// How long a message may take, half of the way to and fro.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyDemand {
    /// At most so long, in nanoseconds.
    pub most_ns: u64,
    /// Which of all.
    pub percentile: Percentile,
    /// Of messages of this size; none is the smallest that was measured.
    pub message: Option<Bytes>,
    /// By which way: TCP, RDMA writes or sends.
    pub step: CostStep,
}

/// Which of many latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percentile {
    /// The shortest.
    Min,
    /// Half of them take at most that.
    Median,
    /// 99 of 100.
    P99,
    /// 999 of 1000.
    P999,
    /// The longest.
    Max,
}

/// The cores that 100 Gb/s may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuDemand {
    /// At most so many.
    pub most_cores: f64,
    /// By which way of moving data.
    pub step: CostStep,
    /// At which end.
    pub ends: CpuEnds,
}

/// The ends whose CPU time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuEnds {
    /// Each for itself.
    Each,
    /// The initiator.
    Sender,
    /// The target.
    Receiver,
}

/// Findings that there must be none of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingsDemand {
    /// Of these rules; empty is any.
    pub rules: Vec<Rule>,
    /// Of these severities; empty is any.
    pub severities: Vec<Severity>,
    /// What becomes of what a rule could not tell.
    pub cannot_tell: CannotTellIs,
}

/// What becomes of what a rule could not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CannotTellIs {
    /// The check is not judged.
    NotJudged,
    /// It is borne.
    Borne,
}

impl Demand {
    /// The way of moving data whose cost has to be measured for it.
    pub fn cost_step(&self) -> Option<CostStep> {
        match self {
            Self::Latency(demand) => Some(demand.step),
            Self::Cpu(demand) => Some(demand.step),
            Self::RailsTogether(_) => Some(CostStep::WritePoll),
            _ => None,
        }
    }
}
