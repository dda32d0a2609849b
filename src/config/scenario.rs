//! A checked scenario: a cluster that is simulated, and what is wrong with it.

use crate::model::{Direction, Gbps, NodeName, RailRule, RunSettings};

use super::{ConfigErrors, Operator, read};

/// A cluster to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// How many nodes, `node001` and on.
    pub nodes: u16,
    /// How many rails: NICs on each node, `mlx5_0` and on.
    pub rails: u16,
    /// What every port's link is.
    pub generation: Generation,
    /// RDMA MTU of every port in bytes.
    pub mtu: u32,
    /// Standard deviation of a probe's rate, as a share of it.
    pub noise: f64,
    /// Probes that something came in between.
    pub outliers: Outliers,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

/// A generation of InfiniBand with four lanes (InfiniBand Trade Association, Link/Speed table).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// 100 Gb/s.
    Edr,
    /// 200 Gb/s.
    Hdr,
    /// 400 Gb/s.
    Ndr,
    /// 800 Gb/s.
    Xdr,
}

impl Generation {
    /// What a port of four lanes carries.
    pub fn line_rate(self) -> Gbps {
        Gbps(match self {
            Self::Edr => 100.0,
            Self::Hdr => 200.0,
            Self::Ndr => 400.0,
            Self::Xdr => 800.0,
        })
    }
}

/// Probes that something came in between by chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outliers {
    /// Their share of all probes.
    pub share: f64,
    /// The share of the rate that it takes.
    pub depth: f64,
}

/// A NIC of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The node.
    pub node: NodeName,
    /// The rail, from 0.
    pub rail: u16,
}

/// Something that is wrong. Rounds count from 1; ratios are shares of the line.
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
    /// Whether all that it is about is among these nodes and rails.
    fn is_within(&self, names: &[NodeName], rails: u16) -> bool {
        let node = |name: &NodeName| names.contains(name);
        let nic = |nic: &Place| node(&nic.node) && nic.rail < rails;
        match self {
            Self::SlowNic { nic: place, .. }
            | Self::NarrowPcie { nic: place, .. }
            | Self::PortDown { nic: place } => nic(place),
            Self::SlowPath { from, to, .. } => nic(from) && node(to),
            Self::SlowRail { rail, .. } => *rail < rails,
            Self::LostNode { node: name, .. }
            | Self::SilentNode { node: name, .. }
            | Self::SmallMtu { node: name, .. }
            | Self::NoGpuDirect { node: name } => node(name),
        }
    }
}

impl Scenario {
    /// The names of its nodes. They do not depend on how many there are.
    pub fn names(&self) -> Vec<NodeName> {
        (1..=self.nodes)
            .map(|number| NodeName(format!("node{number:03}")))
            .collect()
    }

    /// The RDMA device that plays a rail.
    pub fn device(rail: u16) -> String {
        format!("mlx5_{rail}")
    }

    /// The same with other numbers of nodes and rails; says how many faults are left out because
    /// they are about what is not there then.
    pub fn resized(mut self, nodes: Option<u16>, rails: Option<u16>) -> (Self, usize) {
        self.nodes = nodes.unwrap_or(self.nodes);
        self.rails = rails.unwrap_or(self.rails);
        let (names, rails, before) = (self.names(), self.rails, self.faults.len());
        self.faults.retain(|fault| fault.is_within(&names, rails));
        let left_out = before - self.faults.len();
        (self, left_out)
    }

    /// The settings of a run over it: those of a cluster file without a word on probes.
    ///
    /// # Errors
    /// None but a mistake in the built-in defaults.
    pub fn settings(&self, seed: u64) -> Result<RunSettings, ConfigErrors> {
        let names = self.names();
        let nodes = toml::Value::from(names.iter().map(|node| node.0.clone()).collect::<Vec<_>>());
        // Nobody logs in anywhere.
        let nobody = Operator {
            user: Some("nobody".to_owned()),
            home: Some("/".into()),
        };
        let cluster = read(&format!("nodes = {nodes}\n"), "scenario", &nobody)?;
        Ok(RunSettings {
            rails: RailRule::Device {
                names: (0..self.rails).map(Self::device).collect(),
            },
            simulated: true,
            ..cluster.settings(seed)
        })
    }
}
