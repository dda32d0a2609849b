//! Findings: what is wrong, with whom, how that is known, and what to do.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Gbps, NicId, NodeName, Rail};

/// The kind of a finding. Its name in JSON is stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// A NIC moves about half of what is expected, or less, with every partner.
    HalfBandwidth,
    /// A NIC moves clearly less than expected with every partner.
    DegradedBandwidth,
    /// A pair is slow, and which of its ends is the cause cannot be told.
    SlowPair,
    /// Two NICs that are each good with others are slow with each other.
    SlowPath,
    /// Every NIC of a rail is below what is expected.
    RailBelowExpected,
    /// No line rate is known, so that only deviants can be told.
    LineRateUnknown,
    /// More was measured than the link can carry: facts or path are not what they seem.
    AboveExpected,
    /// The bytes that landed are not those that were sent.
    CorruptData,
    /// A probe between two nodes that answer could not be made to work.
    ProbeFailed,
    /// A node could not be reached, or was lost.
    NodeLost,
    /// A rail has no usable NIC on a node.
    NoNic,
    /// A NIC's port carries no traffic.
    PortDown,
    /// The PCIe links above a NIC run below what they are capable of, or carry less than its line.
    PcieLink,
}

impl Rule {
    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::HalfBandwidth => "half-bandwidth",
            Self::DegradedBandwidth => "degraded-bandwidth",
            Self::SlowPair => "slow-pair",
            Self::SlowPath => "slow-path",
            Self::RailBelowExpected => "rail-below-expected",
            Self::LineRateUnknown => "line-rate-unknown",
            Self::AboveExpected => "above-expected",
            Self::CorruptData => "corrupt-data",
            Self::ProbeFailed => "probe-failed",
            Self::NodeLost => "node-lost",
            Self::NoNic => "no-nic",
            Self::PortDown => "port-down",
            Self::PcieLink => "pcie-link",
        }
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
