//! A probe: what is asked for, what both ends exchange, and what came of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Bytes, CpuUse, Fact, Gbps, Gid, Grown, MemoryUsed, NodeName, PciAddress, PingPong,
    Registration, TcpAddress, TcpFacts,
};

/// How a probe moves its data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// RDMA write over reliable connected queue pairs.
    #[default]
    RdmaWrite,
    /// The same with immediate data, of which the target learns by a completion.
    RdmaWriteImm,
    /// RDMA read: the initiator fetches, so that data flows from the target.
    RdmaRead,
    /// Send and receive: the target posts a buffer for each message.
    RdmaSend,
    /// RDMA write of data that is copied into registered memory first: kernel bypass with a copy.
    RdmaWriteCopied,
    /// TCP sockets, data copied into and out of the kernel.
    Tcp,
    /// TCP sockets with MSG_ZEROCOPY at the sender: the kernel's path without its copy there.
    TcpZeroCopy,
}

impl ProbeKind {
    /// Whether the data goes through the kernel's TCP.
    pub fn is_tcp(self) -> bool {
        matches!(self, Self::Tcp | Self::TcpZeroCopy)
    }
}

/// What a probe finds out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// How much arrives in a time, with as much in flight as is allowed.
    #[default]
    Rate,
    /// How long one message takes, to and fro, one at a time.
    PingPong,
}

impl Measure {
    fn is_rate(&self) -> bool {
        *self == Self::Rate
    }
}

/// Where the data lies at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// The host's main memory, in pages of the usual size.
    Host,
    /// The host's main memory, in huge pages.
    HostHuge,
    /// The memory of the GPU nearest to the NIC, which the NIC reads and writes itself.
    Gpu,
    /// The same, copied by way of host memory, and the NIC at work on that: what GPUDirect RDMA saves.
    GpuStaged,
}

impl MemoryKind {
    /// Whether a GPU is needed for it.
    pub fn is_gpu(self) -> bool {
        matches!(self, Self::Gpu | Self::GpuStaged)
    }
}

/// How the initiator learns that work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// Busy-poll the completion queue: most bandwidth, one core spent.
    Poll,
    /// Sleep until the completion channel has an event: CPU cost is that of the work.
    Event,
}

/// What a bandwidth probe does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSpec {
    /// How data is moved.
    pub kind: ProbeKind,
    /// Size of one message.
    pub message_size: Bytes,
    /// Work requests in flight on each queue pair.
    pub depth: u32,
    /// Queue pairs, or TCP connections, that share the load.
    pub queue_pairs: u32,
    /// How long data is sent, in milliseconds, warm-up included.
    pub duration_ms: u32,
    /// How completions are learned of.
    pub completion: Completion,
    /// Where the data lies.
    pub memory: MemoryKind,
    /// Ends the transfer before its time, once it is plain which side of the expected rate it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at: Option<StopAt>,
    /// What is found out.
    #[serde(default, skip_serializing_if = "Measure::is_rate")]
    pub measure: Measure,
    /// Whether CPU time is accounted for: what the host spends while idle is measured before, and each
    /// thread of the probe keeps to a core.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub account: bool,
}

/// What a transfer that may end early is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopAt {
    /// The rate that is expected at most, in megabits per second (10^6 bits/s).
    pub ceiling_mbps: u64,
}

impl StopAt {
    /// This ceiling, rounded to 1 Mb/s; `None` where it is below that, or no rate.
    pub fn ceiling(rate: Gbps) -> Option<Self> {
        let ceiling_mbps = (rate.0 * 1e3).round() as u64;
        let is_rate = rate.is_positive() && ceiling_mbps > 0;
        is_rate.then_some(Self { ceiling_mbps })
    }
}

/// The end of a probe that a node plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Posts the work requests: the sender of an RDMA write.
    Initiator,
    /// Owns the memory that is written to.
    Target,
}

/// The local port and address that an end of a probe uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalPort {
    /// RDMA device name.
    pub device: String,
    /// Port number, from 1.
    pub port: u8,
    /// Index into the port's GID table.
    pub gid_index: u32,
    /// The GPU whose memory is meant, where it is a GPU's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<PciAddress>,
}

/// A queue pair as its peer needs to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePairAddress {
    /// Queue pair number, 24 bits.
    pub number: u32,
    /// First packet sequence number that it sends, 24 bits.
    pub psn: u32,
}

/// Registered memory that a peer may write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteMemory {
    /// Virtual address of its first byte at the owner.
    pub address: u64,
    /// Its remote key.
    pub rkey: u32,
    /// Its length in bytes.
    pub length: u64,
}

/// What an end tells its peer, through the controller, so that the peer can connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// The GID that the queue pairs use.
    pub gid: Gid,
    /// Path MTU in bytes that the port can carry; the smaller of both ends is used.
    pub mtu: u32,
    /// The queue pairs, in order: the n-th of one end talks to the n-th of the other.
    pub queue_pairs: Vec<QueuePairAddress>,
    /// The memory behind them.
    pub memory: RemoteMemory,
    /// Time that registering the memory took, in microseconds.
    pub registration_us: u64,
    /// Where TCP connections are awaited, or come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpAddress>,
    /// RDMA reads that a queue pair answers at a time; 0 where it answers none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reads: u8,
}

fn is_zero(number: &u8) -> bool {
    *number == 0
}

/// Bytes completed in one window of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// When it began, in microseconds from the first post.
    pub start_us: u64,
    /// How long it was, in microseconds.
    pub length_us: u64,
    /// Bytes whose completion was seen in it.
    pub bytes: u64,
}

/// Why a transfer ended when it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferEnd {
    /// Its time was up; where it might have ended early, nothing was plain before.
    #[default]
    TimeUp,
    /// Early: its rate is above 0.80 of the ceiling, five standard errors away from it.
    Good,
    /// Early: its rate is below 0.93 of the ceiling, and not plainly above 0.80 of it.
    Bad,
}

impl TransferEnd {
    /// Whether the transfer ended before its time.
    pub fn is_early(&self) -> bool {
        *self != Self::TimeUp
    }

    fn is_time_up(&self) -> bool {
        !self.is_early()
    }
}

/// How long small RDMA writes took, made one at a time before the transfer, from posting one to
/// seeing its completion: the data's way there, and that of the acknowledgement back. Other probes
/// of the round may have moved data meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// The shortest, in nanoseconds.
    pub min_ns: u64,
    /// The median, in nanoseconds.
    pub median_ns: u64,
    /// How many writes.
    pub samples: u32,
    /// How completions were learned of: that of an event has a wake-up in it.
    pub completion: Completion,
}

/// What the initiator of a transfer measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Bytes completed between the end of the warm-up and the last completion.
    pub bytes: u64,
    /// The time between those two, in microseconds.
    pub elapsed_us: u64,
    /// When that time began, in microseconds since this end was told to run. Older agents do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_us: Option<u64>,
    /// All bytes completed, warm-up included.
    pub total_bytes: u64,
    /// Windows of the whole transfer, in order.
    pub windows: Vec<Window>,
    /// CPU spent by this end.
    pub cpu: CpuUse,
    /// Path MTU in bytes that was used.
    pub mtu: u32,
    /// Counters of errors and congestion of the sending port that went up meanwhile.
    #[serde(default)]
    pub counters: Fact<Vec<Grown>>,
    /// Counters of frames that paused the sending port's link (PFC, IEEE 802.1Qbb; IEEE 802.3x), or with
    /// which it paused its neighbour, that went up since the queue pairs were connected.
    #[serde(default)]
    pub pauses: Fact<Vec<Grown>>,
    /// The latency before the transfer.
    #[serde(default)]
    pub latency: Fact<Latency>,
    /// Why it ended when it did.
    #[serde(default, skip_serializing_if = "TransferEnd::is_time_up")]
    pub end: TransferEnd,
    /// How long messages took, where that was to be found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ping_pong: Option<PingPong>,
    /// What registering this end's memory took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// What is known of the TCP connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Box<TcpFacts>>,
    /// Of an RDMA read: what the initiator found of what it fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<Checked>,
    /// Where this end's data lay, and how the NIC came to it. Older agents do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Box<MemoryUsed>>,
}

impl Measurement {
    /// The rate after warm-up; `None` where no time passed.
    pub fn rate(&self) -> Option<Gbps> {
        Gbps::from_transfer(self.bytes, self.elapsed_us)
    }
}

/// Bytes that were compared with what must have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// How many.
    pub bytes: u64,
    /// How many of them differ.
    pub wrong: u64,
}

/// What was found of the bytes that landed: by the target, of an RDMA read by the initiator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// Bytes compared with what must have been sent.
    pub bytes_checked: u64,
    /// How many of them differ.
    pub bytes_wrong: u64,
    /// Counters of errors and congestion of the receiving port that went up since the queue pairs
    /// were connected.
    #[serde(default)]
    pub counters: Fact<Vec<Grown>>,
    /// The same of frames that paused its link, or with which it paused its neighbour.
    #[serde(default)]
    pub pauses: Fact<Vec<Grown>>,
    /// CPU spent by the target: from the first message to the last where it takes part, as with
    /// TCP, send and write with immediate; else from the connection to the end of the transfer.
    #[serde(default)]
    pub cpu: Fact<CpuUse>,
    /// Where the target's data lay, and how the NIC came to it. Older agents do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Box<MemoryUsed>>,
}

/// The step of a probe in which something went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeStage {
    /// Opening the device, registering memory, making queue pairs.
    Prepare,
    /// Taking the queue pairs to ready to send.
    Connect,
    /// Moving data.
    Run,
    /// Comparing what landed with what was sent.
    Verify,
    /// Letting go of everything.
    Release,
}

impl fmt::Display for ProbeStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Prepare => "prepare",
            Self::Connect => "connect",
            Self::Run => "run",
            Self::Verify => "verify",
            Self::Release => "release",
        })
    }
}

/// What came of a planned probe. There is no fourth possibility, and none of them is a zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Data moved.
    Measured {
        /// How fast, at what cost.
        measurement: Measurement,
        /// Whether what landed was what was sent.
        verified: Fact<Verification>,
    },
    /// It was tried and went wrong.
    Failed {
        /// In which step.
        stage: ProbeStage,
        /// The node that reported it, where one did.
        node: Option<NodeName>,
        /// What it reported.
        why: String,
    },
    /// It was not tried.
    NotRun {
        /// Why not.
        why: String,
    },
}

/// Why a probe failed whose node was lost under it; what happened to the node is told once, of the node.
pub const NODE_LOST: &str = "the node was lost";
