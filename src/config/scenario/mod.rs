//! A checked scenario: a cluster that is simulated, and what is wrong with it.

mod faults;

pub use faults::{Fault, Place, Uplink};

use crate::model::{CostSettings, Gbps, LeafGroup, MemoryKind, NodeName, RailRule, RunSettings};

use super::{Cluster, ConfigErrors, Operator, read};

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
    /// The memory that probes use.
    pub memory: MemoryKind,
    /// Standard deviation of a probe's rate, as a share of it.
    pub noise: f64,
    /// Probes that something came in between.
    pub outliers: Outliers,
    /// The share of the nodes that answer nothing in a round, and are back in the next.
    pub silent: f64,
    /// How many nodes are below one leaf switch of each rail, in the order of their names; without it
    /// all of them.
    pub leaf_size: Option<u16>,
    /// Flows that meet on one link between leafs.
    pub ecmp: Ecmp,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

/// A generation of InfiniBand with four lanes (InfiniBand Trade Association, Link/Speed table).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// Flows that static routing puts on one link between leafs (equal-cost multi-path).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ecmp {
    /// The share of them, where every node of a leaf sends to other leafs at once.
    pub collisions: f64,
    /// What is left of the rate of one.
    pub ratio: f64,
}

/// The fewest digits of a node's number.
const MIN_DIGITS: usize = 3;

impl Scenario {
    /// The names of its nodes: `node001` and on, with more digits where three are too few.
    pub fn names(&self) -> Vec<NodeName> {
        (0..self.nodes).map(|number| self.name(number)).collect()
    }

    /// The name of a node by its number, from 0.
    pub fn name(&self, number: u16) -> NodeName {
        let (number, digits) = (u32::from(number) + 1, self.digits());
        NodeName::from(format!("node{number:0digits$}"))
    }

    /// The number of a node by its name, from 0; `None` where there is no such node.
    pub fn number(&self, node: &NodeName) -> Option<u16> {
        let digits = node.0.strip_prefix("node")?;
        let number = (digits.len() == self.digits()).then(|| number_in(digits))??;
        (number < self.nodes).then_some(number)
    }

    fn digits(&self) -> usize {
        self.nodes.to_string().len().max(MIN_DIGITS)
    }

    /// The leaf switches that a node is below, from 0: one of each rail.
    pub fn leaf(&self, number: u16) -> u16 {
        self.leaf_size.map_or(0, |size| number / size.max(1))
    }

    /// How many leafs a rail has.
    pub fn leafs(&self) -> u16 {
        self.leaf(self.nodes.saturating_sub(1)) + 1
    }

    /// The RDMA device that plays a rail.
    pub fn device(rail: u16) -> String {
        format!("mlx5_{rail}")
    }

    /// The same with other numbers of nodes and rails; says how many faults are left out because
    /// they are about what is not there then. Nodes keep their numbers, and may get more digits.
    pub fn resized(mut self, nodes: Option<u16>, rails: Option<u16>) -> (Self, usize) {
        self.nodes = nodes.unwrap_or(self.nodes);
        self.rails = rails.unwrap_or(self.rails);
        let mut faults = std::mem::take(&mut self.faults);
        let before = faults.len();
        for name in faults.iter_mut().flat_map(Fault::nodes_mut) {
            let number = name.0.strip_prefix("node").and_then(number_in);
            if let Some(number) = number {
                *name = self.name(number);
            }
        }
        faults.retain(|fault| fault.is_within(&self));
        let left_out = before - faults.len();
        (Self { faults, ..self }, left_out)
    }

    /// The settings of a run over it: those of a cluster file without a word on probes.
    ///
    /// # Errors
    /// None but a mistake in the built-in defaults.
    pub fn settings(&self, seed: u64) -> Result<RunSettings, ConfigErrors> {
        let cluster = self.cluster()?;
        let mut settings = cluster.settings(seed);
        settings.nodes = self.names();
        settings.rails = RailRule::Device {
            names: (0..self.rails).map(Self::device).collect(),
        };
        settings.probe.memory = self.memory;
        settings.sweep.groups = self.groups();
        settings.simulated = true;
        Ok(settings)
    }

    /// How the cost of moving data is measured over it, where that is asked for.
    ///
    /// # Errors
    /// As [`Scenario::settings`].
    pub fn cost(&self) -> Result<CostSettings, ConfigErrors> {
        self.cluster().map(|cluster| cluster.cost)
    }

    /// A cluster file that names one of its nodes.
    fn cluster(&self) -> Result<Cluster, ConfigErrors> {
        // Nobody logs in anywhere.
        let nobody = Operator {
            user: Some("nobody".to_owned()),
            home: Some("/".into()),
        };
        let any = self.name(0);
        read(&format!("nodes = [\"{any}\"]\n"), "scenario", &nobody)
    }

    /// The nodes of each leaf; none where all are below one.
    fn groups(&self) -> Vec<LeafGroup> {
        let names = self.names();
        let Some(size) = self.leaf_size.map(usize::from).filter(|size| *size > 0) else {
            return Vec::new();
        };
        let leafs = (1..).zip(names.chunks(size));
        let group = |(number, nodes): (u32, &[NodeName])| LeafGroup {
            name: format!("leaf{number}"),
            nodes: nodes.to_vec(),
        };
        leafs.map(group).collect()
    }
}

/// A node's number, from 0, of its digits.
fn number_in(digits: &str) -> Option<u16> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u16 = plain.then(|| digits.parse().ok())??;
    number.checked_sub(1)
}
