//! What may be wrong in a scenario.

use super::{Generation, Scenario};
use crate::model::{Direction, NodeName};

/// A NIC of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The node.
    pub node: NodeName,
    /// The rail, from 0.
    pub rail: u16,
}

/// Which way between a leaf switch and the spine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Uplink {
    /// From the leaf to the spine.
    Up,
    /// From the spine to the leaf.
    Down,
}

/// Something that is wrong. Rounds count from 1; ratios are what is left, as shares of the line.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// A NIC sends or receives too little; both, without a direction.
    SlowNic {
        /// Which.
        nic: Place,
        /// Which way.
        direction: Option<Direction>,
        /// What is left.
        ratio: f64,
    },
    /// The PCIe link of a NIC trained at fewer than 16 lanes.
    NarrowPcie {
        /// Which.
        nic: Place,
        /// The lanes.
        width: u8,
    },
    /// NICs share the link above a PCIe switch: each is slow while another of them is busy.
    SharedSwitch {
        /// Whose.
        node: NodeName,
        /// The rails of the NICs, at least two.
        rails: Vec<u16>,
        /// What is left of each.
        ratio: f64,
    },
    /// A node carries less than its NICs together: each is slow while three quarters of them are busy.
    NodeLimit {
        /// Which.
        node: NodeName,
        /// What is left of each NIC.
        ratio: f64,
    },
    /// A NIC is slow while it sends and receives at once.
    HalfDuplex {
        /// Which.
        nic: Place,
        /// What is left of each direction.
        ratio: f64,
    },
    /// A NIC is slow from or to GPU memory only; both, without a direction.
    GpuPath {
        /// Which.
        nic: Place,
        /// Which way.
        direction: Option<Direction>,
        /// What is left.
        ratio: f64,
    },
    /// A NIC is slow with fewer than four queue pairs.
    OneQueuePair {
        /// Which.
        nic: Place,
        /// What is left.
        ratio: f64,
    },
    /// Some of the probes of a NIC are slow.
    FlakyNic {
        /// Which.
        nic: Place,
        /// Their share.
        share: f64,
        /// What is left of them.
        ratio: f64,
    },
    /// Nothing gets through a NIC, though its port says that it is active.
    DeadNic {
        /// Which.
        nic: Place,
    },
    /// The cables of two NICs of a node are each in the switch of the other's rail.
    SwappedCables {
        /// Whose.
        node: NodeName,
        /// The rails of the two NICs.
        rails: [u16; 2],
    },
    /// The ports of a node are of another generation: all of them, without a rail.
    SlowLine {
        /// Which.
        node: NodeName,
        /// The rail.
        rail: Option<u16>,
        /// The generation.
        generation: Generation,
    },
    /// A leaf switch has only a share of its links to the spine.
    LeafUplink {
        /// Which leaf of the rail, from 0.
        leaf: u16,
        /// The rail.
        rail: u16,
        /// Which way.
        direction: Uplink,
        /// What is left of what its nodes need to send all at once.
        ratio: f64,
    },
    /// A NIC is slow towards one other.
    SlowPath {
        /// The sender.
        from: Place,
        /// The receiving node; the rail is the sender's.
        to: NodeName,
        /// What is left.
        ratio: f64,
    },
    /// Every pair of a rail is slow.
    SlowRail {
        /// Which.
        rail: u16,
        /// What is left.
        ratio: f64,
    },
    /// The connection to a node breaks in a round; without one it is never reached.
    LostNode {
        /// Which.
        node: NodeName,
        /// When.
        round: Option<u32>,
    },
    /// A node says nothing more from a round on; without one, nothing at all.
    SilentNode {
        /// Which.
        node: NodeName,
        /// When.
        round: Option<u32>,
    },
    /// A port has no link.
    PortDown {
        /// Whose.
        nic: Place,
    },
    /// The ports of a node have another RDMA MTU.
    SmallMtu {
        /// Which.
        node: NodeName,
        /// In bytes.
        mtu: u32,
    },
    /// The NICs of a node cannot reach the memory of its GPUs.
    NoGpuDirect {
        /// Which.
        node: NodeName,
    },
}

impl Fault {
    /// The node that has it; `None` where no single node does.
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Self::SlowNic { nic, .. }
            | Self::NarrowPcie { nic, .. }
            | Self::HalfDuplex { nic, .. }
            | Self::GpuPath { nic, .. }
            | Self::OneQueuePair { nic, .. }
            | Self::FlakyNic { nic, .. }
            | Self::DeadNic { nic }
            | Self::PortDown { nic }
            | Self::SlowPath { from: nic, .. } => Some(&nic.node),
            Self::SharedSwitch { node, .. }
            | Self::NodeLimit { node, .. }
            | Self::SwappedCables { node, .. }
            | Self::SlowLine { node, .. }
            | Self::LostNode { node, .. }
            | Self::SilentNode { node, .. }
            | Self::SmallMtu { node, .. }
            | Self::NoGpuDirect { node } => Some(node),
            Self::LeafUplink { .. } | Self::SlowRail { .. } => None,
        }
    }

    /// The names of all nodes that it is about.
    pub(super) fn nodes_mut(&mut self) -> Vec<&mut NodeName> {
        match self {
            Self::SlowPath { from, to, .. } => vec![&mut from.node, to],
            Self::SlowNic { nic, .. }
            | Self::NarrowPcie { nic, .. }
            | Self::HalfDuplex { nic, .. }
            | Self::GpuPath { nic, .. }
            | Self::OneQueuePair { nic, .. }
            | Self::FlakyNic { nic, .. }
            | Self::DeadNic { nic }
            | Self::PortDown { nic } => vec![&mut nic.node],
            Self::SharedSwitch { node, .. }
            | Self::NodeLimit { node, .. }
            | Self::SwappedCables { node, .. }
            | Self::SlowLine { node, .. }
            | Self::LostNode { node, .. }
            | Self::SilentNode { node, .. }
            | Self::SmallMtu { node, .. }
            | Self::NoGpuDirect { node } => vec![node],
            Self::LeafUplink { .. } | Self::SlowRail { .. } => Vec::new(),
        }
    }

    /// The rails that it names; none for all of its node's.
    pub fn rails(&self) -> Vec<u16> {
        match self {
            Self::SlowNic { nic, .. }
            | Self::NarrowPcie { nic, .. }
            | Self::HalfDuplex { nic, .. }
            | Self::GpuPath { nic, .. }
            | Self::OneQueuePair { nic, .. }
            | Self::FlakyNic { nic, .. }
            | Self::DeadNic { nic }
            | Self::PortDown { nic }
            | Self::SlowPath { from: nic, .. } => vec![nic.rail],
            Self::SharedSwitch { rails, .. } => rails.clone(),
            Self::SwappedCables { rails, .. } => rails.to_vec(),
            Self::SlowLine { rail, .. } => rail.iter().copied().collect(),
            Self::LeafUplink { rail, .. } | Self::SlowRail { rail, .. } => vec![*rail],
            Self::NodeLimit { .. }
            | Self::LostNode { .. }
            | Self::SilentNode { .. }
            | Self::SmallMtu { .. }
            | Self::NoGpuDirect { .. } => Vec::new(),
        }
    }

    /// Whether all that it is about is there.
    pub(super) fn is_within(&self, scenario: &Scenario) -> bool {
        let there = |node: &NodeName| scenario.number(node).is_some();
        let other = match self {
            Self::SlowPath { to, .. } => there(to),
            Self::LeafUplink { leaf, .. } => *leaf < scenario.leafs(),
            _ => true,
        };
        let rails = self.rails();
        other && self.node().is_none_or(there) && rails.iter().all(|rail| *rail < scenario.rails)
    }
}
