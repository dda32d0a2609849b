//! Whether GPUDirect RDMA is used: of a direction, of a rank, of a whole log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::channel::Direction;
use super::reading::{NcclLog, Rank, Use};

/// How data goes between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GdrState {
    /// All of it between GPU and NIC.
    Gdrdma,
    /// Some channels with GPUDirect RDMA and some without.
    Partial,
    /// By RDMA, through host memory.
    Off,
    /// By sockets.
    Sockets,
    /// No line says.
    Unknown,
}

impl GdrState {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gdrdma => "gdrdma",
            Self::Partial => "partial",
            Self::Off => "off",
            Self::Sockets => "sockets",
            Self::Unknown => "unknown",
        }
    }

    /// That of both together.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, known) | (known, Self::Unknown) => known,
            (one, another) if one == another => one,
            _ => Self::Partial,
        }
    }
}

impl fmt::Display for GdrState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Gdrdma => "GDRDMA",
            Self::Partial => "partial",
            Self::Off => "off",
            Self::Sockets => "sockets",
            Self::Unknown => "unknown",
        })
    }
}

impl Use {
    /// How its channels go.
    pub fn state(&self) -> GdrState {
        match (self.sockets, self.direct, self.staged) {
            (true, ..) => GdrState::Sockets,
            (_, 0, 0) => GdrState::Unknown,
            (_, _, 0) => GdrState::Gdrdma,
            (_, 0, _) => GdrState::Off,
            _ => GdrState::Partial,
        }
    }
}

impl Rank {
    /// How it sends or receives; unknown where it does so with no other node.
    pub fn state(&self, direction: Direction) -> GdrState {
        let of = self.uses.iter().filter(|used| used.direction == direction);
        of.map(Use::state).fold(GdrState::Unknown, GdrState::and)
    }
}

/// What a log says of GPUDirect RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// By the lines of the channels between nodes.
    Channels(GdrState),
    /// There are no such lines; by what NCCL says before it makes channels.
    Said(GdrState, Ground),
    /// All channels are within one node.
    OneNode,
    /// It cannot be told.
    Unknown(Missing),
}

/// On what a verdict without channel lines rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// Every network in use is sockets, or there is no other.
    Network,
    /// NCCL says of every device that it has no GPUDirect RDMA.
    Devices,
    /// NCCL says of every pair of GPU and device that they are too far.
    Pairs,
    /// `GDR 0` when the rings of several nodes were connected.
    Rings,
}

/// Why it cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// There is no line of NCCL or RCCL that bears on it.
    Lines,
    /// There are such lines, but none of a channel between nodes.
    Channels,
    /// All lines of channels between nodes are torn.
    Torn,
}

impl Verdict {
    /// In one word.
    pub fn state(self) -> Option<GdrState> {
        match self {
            Self::Channels(state) | Self::Said(state, _) => Some(state),
            Self::OneNode => None,
            Self::Unknown(_) => Some(GdrState::Unknown),
        }
    }

    /// 0 where GPUDirect RDMA is used or there is nothing between nodes, 1 where it is not used or
    /// only in part, 3 where it cannot be told.
    pub fn exit_code(self) -> u8 {
        match self.state() {
            None | Some(GdrState::Gdrdma) => 0,
            Some(GdrState::Unknown) => 3,
            Some(GdrState::Partial | GdrState::Off | GdrState::Sockets) => 1,
        }
    }
}

impl NcclLog {
    /// What the whole log says.
    pub fn verdict(&self) -> Verdict {
        let uses = self.ranks.iter().flat_map(|rank| &rank.uses);
        let state = uses.map(Use::state).fold(GdrState::Unknown, GdrState::and);
        if state != GdrState::Unknown {
            return Verdict::Channels(state);
        }
        match self.is_one_node() {
            Some(true) => Verdict::OneNode,
            several => self.said(several == Some(false)),
        }
    }

    /// Without channels between nodes.
    fn said(&self, several: bool) -> Verdict {
        if self.only_sockets() {
            return Verdict::Said(GdrState::Sockets, Ground::Network);
        }
        let mut hcas = self.processes.iter().flat_map(|process| &process.hcas);
        if let Some(first) = hcas.next()
            && !first.enabled
            && hcas.all(|hca| !hca.enabled)
        {
            return Verdict::Said(GdrState::Off, Ground::Devices);
        }
        let mut pairs = self.processes.iter().flat_map(|process| &process.pairs);
        if let Some(first) = pairs.next()
            && !first.enabled
            && pairs.all(|pair| !pair.enabled)
        {
            return Verdict::Said(GdrState::Off, Ground::Pairs);
        }
        if several && self.processes.iter().any(|process| process.rings_without) {
            return Verdict::Said(GdrState::Off, Ground::Rings);
        }
        Verdict::Unknown(match (self.left_out.torn, self.messages) {
            (_, 0) => Missing::Lines,
            (0, _) => Missing::Channels,
            _ => Missing::Torn,
        })
    }

    /// Whether sockets are the only network, in each process that says anything of networks.
    fn only_sockets(&self) -> bool {
        let networks = self.processes.iter().filter_map(|process| {
            let named = process.network.as_deref().map(|name| name == "Socket");
            named.or_else(|| (process.lacks.library || process.lacks.device).then_some(true))
        });
        let mut any = false;
        networks.inspect(|_| any = true).all(|sockets| sockets) && any
    }

    /// Whether all ranks of each communicator are on one node; `None` where that is not said.
    pub fn is_one_node(&self) -> Option<bool> {
        let nodes = || self.ranks.iter().filter_map(|rank| rank.nodes);
        if nodes().any(|nodes| nodes > 1) {
            return Some(false);
        }
        let mut communicators: BTreeMap<_, (BTreeSet<_>, BTreeSet<u32>)> = BTreeMap::new();
        for rank in self.ranks.iter().filter(|rank| rank.nodes.is_none()) {
            // A line that is not of a communicator may be of any.
            let ranks = rank.ranks?;
            let host = self.processes[rank.process].host.as_deref()?;
            let place = communicators.entry((rank.id, ranks)).or_default();
            place.0.insert(host);
            place.1.insert(rank.rank);
        }
        let is_whole = communicators.iter().all(|((_, ranks), (hosts, seen))| {
            hosts.len() == 1 && seen.len() >= usize::try_from(*ranks).unwrap_or(usize::MAX)
        });
        let is_any = nodes().next().is_some() || !communicators.is_empty();
        (is_any && is_whole).then_some(true)
    }
}
