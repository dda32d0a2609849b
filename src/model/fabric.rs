//! What a sweep knows of the ways between leaf groups, and of NICs that are far from their neighbours.

use super::{Direction, NicId, NodeName, Rail, Standing};

/// One way between a leaf group and all others, on a rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeafEnd {
    /// The group, by its place in the run's settings.
    pub group: usize,
    /// The rail.
    pub rail: Rail,
    /// What its nodes send to other groups (up), or receive from them (down).
    pub direction: Direction,
}

impl LeafEnd {
    /// The way of another group that flows of this one go on.
    pub fn of_partner(self, group: usize) -> Self {
        let direction = match self.direction {
            Direction::Tx => Direction::Rx,
            Direction::Rx => Direction::Tx,
        };
        Self {
            group,
            rail: self.rail,
            direction,
        }
    }
}

/// What is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafStanding {
    /// Which.
    pub end: LeafEnd,
    /// Whether its flows reach what its nodes reach among themselves.
    pub standing: Standing,
    /// The rounds between leaf groups that its group had a part in, counted from 0.
    pub tried: Vec<usize>,
}

/// How the ways between leaf groups stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FabricStanding {
    /// How many rounds were played between leaf groups.
    pub rounds: usize,
    /// The ways, in order.
    pub ends: Vec<LeafStanding>,
}

impl FabricStanding {
    /// What is known of a way.
    pub fn of(&self, end: LeafEnd) -> Standing {
        let found = self.ends.binary_search_by_key(&end, |known| known.end);
        found.map_or(Standing::Unknown, |at| self.ends[at].standing)
    }
}

/// A NIC that is farther from its neighbours than they are from each other, by latency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Which.
    pub nic: NicId,
    /// The rail that it plays.
    pub rail: Rail,
    /// The node whose NICs its latency was measured to, rail by rail.
    pub helper: Option<NodeName>,
    /// The rails that this was tried for.
    pub tried: Vec<Rail>,
}
