//! The settings of a run that its results are judged by; recorded with it.

use serde::{Deserialize, Serialize};

use super::{CostSettings, Gbps, NcclSettings, NodeName, ProbeSpec, SweepSettings};

/// How the NICs of a node are told to belong to rails. Patterns take `*` and `?`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum RailRule {
    /// The n-th pattern matches the RDMA device of rail n.
    Device {
        /// A pattern for each rail, in rail order.
        names: Vec<String>,
    },
    /// The n-th pattern matches the network interface of rail n.
    Netdev {
        /// A pattern for each rail, in rail order.
        names: Vec<String>,
    },
    /// Active ports in the order of their PCI addresses: the first is rail 0.
    Pci,
    /// The NIC with an address in the n-th subnet is rail n (`10.1.0.0/16`, `fd00:1::/64`).
    Subnet {
        /// A subnet for each rail, in rail order.
        subnets: Vec<String>,
    },
}

impl RailRule {
    /// How many rails it makes, where that does not depend on the nodes.
    pub fn rails(&self) -> Option<usize> {
        match self {
            Self::Device { names } | Self::Netdev { names } => Some(names.len()),
            Self::Subnet { subnets } => Some(subnets.len()),
            Self::Pci => None,
        }
    }
}

/// What is expected, and below which share of it a NIC is called what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expect {
    /// The line rate of every NIC, where the operator states it; else the port's own rate.
    pub line_rate: Option<Gbps>,
    /// Below this share of the expected rate a NIC is at half bandwidth.
    pub half_below: f64,
    /// Below this share it is degraded.
    pub degraded_below: f64,
}

/// Everything about a run that later reading of it depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSettings {
    /// The nodes, in the operator's order.
    pub nodes: Vec<NodeName>,
    /// How NICs belong to rails.
    pub rails: RailRule,
    /// What each probe does.
    pub probe: ProbeSpec,
    /// What is expected of it.
    pub expect: Expect,
    /// How it goes through its pairs.
    #[serde(default)]
    pub sweep: SweepSettings,
    /// What is measured of the cost of moving data, after the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostSettings>,
    /// How nccl-tests are started at the end, where that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl: Option<NcclSettings>,
    /// The seed of the schedule.
    pub seed: u64,
    /// Whether NICs are probed that others use.
    #[serde(default)]
    pub force: bool,
    /// Whether the nodes are simulated: nothing was measured.
    #[serde(default)]
    pub simulated: bool,
}
