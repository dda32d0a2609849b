//! How a run chooses what to probe, and what each of its probes is for.

use serde::{Deserialize, Serialize};

use super::{Direction, NicId, NodeName, Pair, Rail};

/// Which pairs a run measures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Pattern {
    /// A few matchings in the strictest set-up; then only what they left in doubt is taken apart.
    Adaptive,
    /// The same with a single matching.
    Quick,
    /// Every ordered pair of nodes, then what is in doubt.
    #[default]
    Full,
    /// Each node with the next in the operator's order, the last with the first.
    Ring,
    /// One node with all others.
    One {
        /// The node.
        node: NodeName,
    },
    /// These pairs of nodes.
    Pairs {
        /// Each in both directions.
        pairs: Vec<(NodeName, NodeName)>,
    },
    /// None: only what moving data costs is measured.
    Nothing,
}

/// Nodes below the same leaf switches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafGroup {
    /// As the operator, or the fabric, calls it.
    pub name: String,
    /// Its nodes; of several groups that name a node the first counts.
    pub nodes: Vec<NodeName>,
}

/// How a run goes through its pairs. The default is what every run did before this was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepSettings {
    /// Which pairs.
    pub pattern: Pattern,
    /// Rounds of the first phase of [`Pattern::Adaptive`], in each of which every node has another partner.
    pub matchings: u32,
    /// Whether both directions of a pair are loaded at once.
    pub both_ways: bool,
    /// Whether all rails of a node are loaded at once, or one after another.
    pub rails_together: bool,
    /// Whether the paths between leaf groups are measured as well.
    pub fabric: bool,
    /// Which nodes are below the same leaf switches; nodes of no group form one of their own.
    pub groups: Vec<LeafGroup>,
    /// Only these rails; empty is all.
    pub only_rails: Vec<Rail>,
    /// The share of the nodes, above 0 and up to 1, that carry traffic at one time at most.
    pub max_load: f64,
    /// No round begins after so many seconds of the run.
    pub time_budget_s: Option<u64>,
}

impl Default for SweepSettings {
    fn default() -> Self {
        Self {
            pattern: Pattern::default(),
            matchings: 2,
            both_ways: false,
            rails_together: true,
            fabric: false,
            groups: Vec::new(),
            only_rails: Vec::new(),
            max_load: 1.0,
            time_budget_s: None,
        }
    }
}

/// Why a probe is made, and with it what is loaded beside it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// It belongs to the pattern: every rail of both nodes is loaded.
    #[default]
    Pattern,
    /// A suspect against a proved partner, every rail of its node loaded.
    Confirm,
    /// Loads a rail beside a probe that needs it loaded.
    Load,
    /// A low pair whose ends are both good with others, once more.
    Again,
    /// A confirmed NIC while the other rails of its node are idle.
    Alone,
    /// The same, from and to host memory.
    HostMemory,
    /// The same, one direction at a time.
    OneWay,
    /// The same with more queue pairs and larger messages.
    Wide,
    /// A confirmed NIC together with those that share a PCIe switch with it.
    Siblings,
    /// A path between leaf groups under full load.
    Fabric,
    /// To a NIC of another rail: its latency tells which rail a cable is in.
    Cabling,
    /// What moving data costs, one way of moving it after another: nothing else runs on both nodes.
    Cost,
}

impl Purpose {
    /// Whether it belongs to the pattern.
    pub fn is_pattern(&self) -> bool {
        *self == Self::Pattern
    }

    /// Whether what it measures counts for and against its NICs. Between leaf groups many flows of
    /// healthy NICs share a link.
    pub fn is_usual(self) -> bool {
        !self.isolates() && !matches!(self, Self::Fabric | Self::Cost)
    }

    /// Whether it takes a fault apart, under conditions that the other probes do not have: what it
    /// measures tells causes apart and neither accuses nor clears.
    pub fn isolates(self) -> bool {
        use Purpose::{Alone, Cabling, HostMemory, OneWay, Siblings, Wide};
        matches!(
            self,
            Alone | HostMemory | OneWay | Wide | Siblings | Cabling
        )
    }
}

/// One direction of one NIC.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct End {
    /// The rail.
    pub rail: Rail,
    /// The NIC.
    pub nic: NicId,
    /// The direction.
    pub direction: Direction,
}

impl End {
    /// The sending end of a pair.
    pub fn sender(pair: &Pair) -> Self {
        Self {
            rail: pair.rail,
            nic: pair.from.clone(),
            direction: Direction::Tx,
        }
    }

    /// The receiving end of a pair.
    pub fn receiver(pair: &Pair) -> Self {
        Self {
            rail: pair.rail,
            nic: pair.to.clone(),
            direction: Direction::Rx,
        }
    }

    /// The other end of a pair that this end takes part in.
    pub fn partner(&self, pair: &Pair) -> Self {
        match self.direction {
            Direction::Tx => Self::receiver(pair),
            Direction::Rx => Self::sender(pair),
        }
    }
}
