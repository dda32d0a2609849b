//! Samples: a node's counters, read again and again while somebody watches.
//!
//! What the numbers of a sample mean is said once, by the layout; each sample is the numbers alone.

use serde::{Deserialize, Serialize};

use super::{Fact, SoftwareRdma};

/// What a counter counts, as far as whoever watches a port cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Bytes sent.
    TxBytes,
    /// Bytes received.
    RxBytes,
    /// Packets sent.
    TxPackets,
    /// Packets received.
    RxPackets,
    /// Errors of the link.
    Errors,
    /// Packets dropped for want of room.
    Discards,
    /// Signs that packets were lost and had to be sent again.
    Retransmissions,
    /// Pauses that the port was told to make (PFC, IEEE 802.1Qbb).
    Pauses,
    /// Ticks in which data waited for credits (InfiniBand, PortXmitWait).
    Waits,
    /// Congestion notifications sent: this end receives faster than it is fed from (RoCE).
    CnpsSent,
    /// Congestion notifications obeyed: this end was told to send slower (RoCE).
    CnpsHandled,
}

impl Quantity {
    /// Every quantity.
    pub const ALL: &'static [Self] = &[
        Self::TxBytes,
        Self::RxBytes,
        Self::TxPackets,
        Self::RxPackets,
        Self::Errors,
        Self::Discards,
        Self::Retransmissions,
        Self::Pauses,
        Self::Waits,
        Self::CnpsSent,
        Self::CnpsHandled,
    ];
}

/// What the samples of a node are made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleLayout {
    /// The ports, in the order in which samples have them.
    pub ports: Fact<Vec<PortLayout>>,
    /// Ports beyond those, which are not watched.
    #[serde(default)]
    pub left_out: u32,
}

/// What the readings of one port are made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PortLayout {
    /// RDMA device name.
    pub device: String,
    /// Port number, from 1.
    pub port: u8,
    /// Set where RDMA is done by the kernel.
    pub software: Option<SoftwareRdma>,
    /// The counters, in the order in which readings have them.
    pub series: Vec<Series>,
    /// Quantities that nothing counts, with the reason.
    pub uncounted: Vec<Uncounted>,
}

/// One counter that is read again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// What it counts; several may count to one quantity.
    pub quantity: Quantity,
    /// Its file.
    pub from: String,
    /// How many of the quantity one step stands for: 4 where data is counted in words.
    pub unit: u32,
    /// Where it stops counting, if it is no wider than the specification makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturates_at: Option<u64>,
}

/// A quantity that nothing on a port counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncounted {
    /// Which.
    pub quantity: Quantity,
    /// Why not.
    pub why: String,
}

/// All counters of a node at about one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// One reading for each port of the layout.
    pub ports: Vec<PortReading>,
}

/// The counters of one port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortReading {
    /// When, in microseconds of the node's monotonic clock.
    pub at_us: u64,
    /// What each series stood at; none where its file could not be read.
    pub values: Vec<Option<u64>>,
}
