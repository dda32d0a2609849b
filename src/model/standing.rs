//! What a sweep knows of each NIC so far: what is proved, what is in doubt, and what was tried to tell
//! causes apart.

use super::{Direction, NicId, NodeName, Pair, PciAddress, Rail};

/// What the probes of one direction of a NIC say of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nothing was measured.
    #[default]
    Unknown,
    /// At least one probe of it was not low, under a load at least that of those that were.
    Good,
    /// Every such probe of it was low.
    Suspect,
    /// A suspect that was low at least twice, at least once against a partner that is good.
    Accused,
}

/// One direction of a NIC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndStanding {
    /// What is known of it.
    pub standing: Standing,
    /// How many rounds tried to confirm it, whatever came of them.
    pub confirmations: u8,
}

/// A probe that tells causes apart: whether it was made, and what it said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trial {
    /// It was not made.
    #[default]
    Open,
    /// It was tried in so many rounds, and nothing was measured.
    Failed(u8),
    /// It was as low as under full load.
    Low,
    /// It reached what is expected.
    Full,
}

impl Trial {
    /// Whether it is worth another try.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Failed(1))
    }
}

/// What is known of a NIC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NicStanding {
    /// Its sending direction.
    pub tx: EndStanding,
    /// Its receiving direction.
    pub rx: EndStanding,
    /// With the other rails of its node idle.
    pub alone: Trial,
    /// The same, from and to host memory.
    pub host_memory: Trial,
    /// The same, one direction at a time: sending, receiving.
    pub one_way: [Trial; 2],
    /// The same with more queue pairs and larger messages.
    pub wide: Trial,
    /// Together with the NICs that share a PCIe switch with it.
    pub siblings: Trial,
}

impl NicStanding {
    /// Both directions.
    pub fn ends(&self) -> [EndStanding; 2] {
        [self.tx, self.rx]
    }

    /// What is known of one direction.
    pub fn end(&self, direction: Direction) -> EndStanding {
        match direction {
            Direction::Tx => self.tx,
            Direction::Rx => self.rx,
        }
    }

    /// What it did one way in a direction.
    pub fn one_way(&self, direction: Direction) -> Trial {
        match direction {
            Direction::Tx => self.one_way[0],
            Direction::Rx => self.one_way[1],
        }
    }

    /// The directions that it is accused of.
    pub fn accused(&self) -> Vec<Direction> {
        let accused = |way: &Direction| self.end(*way).standing == Standing::Accused;
        [Direction::Tx, Direction::Rx]
            .into_iter()
            .filter(accused)
            .collect()
    }

    /// Whether a direction that it is accused of is full by itself while the other is not: it only
    /// suffers from that one.
    pub fn is_echo(&self, direction: Direction) -> bool {
        let accused = self.accused();
        let is_low = |way: &Direction| self.one_way(*way) == Trial::Low;
        accused.contains(&direction)
            && self.one_way(direction) == Trial::Full
            && accused.iter().any(is_low)
    }

    /// Whether a direction of it is accused.
    pub fn is_accused(&self) -> bool {
        self.ends()
            .iter()
            .any(|end| end.standing == Standing::Accused)
    }
}

/// A NIC in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailStanding {
    /// The rail that it plays.
    pub rail: Rail,
    /// The NIC.
    pub nic: NicId,
    /// The root port above it, which the NICs below one PCIe switch share; `None` where it is unknown.
    pub root_port: Option<PciAddress>,
    /// Its NUMA node, where that is known.
    pub numa: Option<u32>,
    /// What its link carries, in Mb/s, where that is known.
    pub line: Option<u64>,
    /// What the link of a partner must carry to show what this one does, in Mb/s: as much, or the most
    /// that another NIC of its rail has.
    pub asks: Option<u64>,
    /// What is known of it.
    pub standing: NicStanding,
}

impl RailStanding {
    /// Whether its link carries enough to show what another NIC does.
    pub fn is_wide_enough_for(&self, other: &Self) -> bool {
        match (other.asks, self.line) {
            (Some(asked), Some(line)) => line >= asked,
            _ => true,
        }
    }

    /// Whether it is proved in both directions: a partner to measure suspects against.
    pub fn is_proved(&self) -> bool {
        self.standing
            .ends()
            .iter()
            .all(|end| end.standing == Standing::Good)
    }

    /// Whether nothing was measured of a direction of it.
    pub fn is_unknown(&self) -> bool {
        self.standing
            .ends()
            .iter()
            .any(|end| end.standing == Standing::Unknown)
    }
}

/// The NICs of a node that play a rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStanding {
    /// The node.
    pub node: NodeName,
    /// Its NICs in the order of their rails.
    pub nics: Vec<RailStanding>,
}

/// A pair whose last word is not spoken: low, or failed, though neither end is accused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// The pair.
    pub pair: Pair,
    /// In how many rounds it was tried.
    pub rounds: u8,
    /// Whether it measured something.
    pub measured: bool,
    /// The same with more queue pairs and larger messages.
    pub wide: Trial,
}
