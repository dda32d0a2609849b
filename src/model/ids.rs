//! Names of things: nodes, NICs, rails, PCI functions, probes.

use std::fmt;

use arcstr::ArcStr;
use serde::{Deserialize, Serialize};

/// A node as the operator calls it. Copies share the text: a run of thousands of nodes has hundreds of
/// thousands of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeName(pub ArcStr);

impl From<&str> for NodeName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for NodeName {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The index of a rail: NICs of one rail sit at the same place on each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rail(pub u16);

impl fmt::Display for Rail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rail {}", self.0)
    }
}

/// One port of one RDMA device of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NicId {
    /// The node it sits in.
    pub node: NodeName,
    /// The RDMA device's name, as under /sys/class/infiniband.
    pub device: ArcStr,
    /// The port's number, from 1.
    pub port: u8,
}

impl fmt::Display for NicId {
    /// `mlx5_3 of node017`; the port only where it is not the first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            1 => write!(f, "{} of {}", self.device, self.node),
            port => write!(f, "{} port {port} of {}", self.device, self.node),
        }
    }
}

/// An ordered pair of NICs: `from` sends, `to` receives.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pair {
    /// The sender.
    pub from: NicId,
    /// The receiver.
    pub to: NicId,
    /// The rail both are on.
    pub rail: Rail,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {} on {}", self.from, self.to, self.rail)
    }
}

/// A PCI function's address, `0000:97:00.1`; the domain may have more than four digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PciAddress(pub String);

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One probe within a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProbeId(pub u64);

impl fmt::Display for ProbeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "probe {}", self.0)
    }
}
