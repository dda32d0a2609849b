//! What one NIC lets through, and what the NICs of a node share.

use super::load::{Flow, Load, Nic};
use super::pcie;
use crate::config::Generation;
use crate::model::{Direction, Gbps};

/// With so many queue pairs a NIC that is slow with one is at its line.
const ENOUGH_QUEUE_PAIRS: u32 = 4;

/// A NIC. Ratios are shares of its line; of two, the first is of what it sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) generation: Generation,
    /// What the PCIe links above it carry.
    pub(super) pcie: [Gbps; 2],
    pub(super) ways: [f64; 2],
    /// From and to GPU memory.
    pub(super) gpu: [f64; 2],
    /// While it sends and receives.
    pub(super) both_ways: f64,
    /// With few queue pairs.
    pub(super) narrow: f64,
    /// The share of its probes that are slow, and what is left of those.
    pub(super) flaky: (f64, f64),
    /// Whether nothing gets through.
    pub(super) dead: bool,
}

impl Limits {
    /// A healthy NIC below a link of so many lanes.
    pub(super) fn new(generation: Generation, lanes: u8) -> Self {
        Self {
            generation,
            pcie: pcie::carries(generation, lanes),
            ways: [1.0; 2],
            gpu: [1.0; 2],
            both_ways: 1.0,
            narrow: 1.0,
            flaky: (0.0, 1.0),
            dead: false,
        }
    }

    /// The share of the line that it has for a flow in a direction.
    pub(super) fn lets_through(&self, way: Direction, flow: &Flow, both_ways: bool) -> f64 {
        let of = |ways: [f64; 2]| match way {
            Direction::Tx => ways[0],
            Direction::Rx => ways[1],
        };
        let mut share = of(self.ways);
        if flow.memory.is_gpu() {
            share = share.min(of(self.gpu));
        }
        if both_ways {
            share = share.min(self.both_ways);
        }
        if flow.queue_pairs < ENOUGH_QUEUE_PAIRS {
            share = share.min(self.narrow);
        }
        share
    }
}

/// Something that NICs of a node have in common, and that is too little where many of them are busy.
#[derive(Debug)]
pub(super) struct Shared {
    rails: Vec<u16>,
    /// How many of them must be busy.
    at_least: usize,
    ratio: f64,
}

impl Shared {
    /// The link above a PCIe switch.
    pub(super) fn switch(rails: Vec<u16>, ratio: f64) -> Self {
        Self {
            rails,
            at_least: 2,
            ratio,
        }
    }

    /// The whole node, with these rails: its memory, or its IOMMU.
    pub(super) fn node(rails: Vec<u16>, ratio: f64) -> Self {
        Self {
            at_least: (rails.len() * 3).div_ceil(4),
            rails,
            ratio,
        }
    }

    /// The share of its line that a NIC of the node has.
    pub(super) fn lets_through(&self, nic: Nic, load: &Load) -> f64 {
        let full = || load.busy(nic.node, &self.rails) >= self.at_least;
        match self.rails.contains(&nic.rail) && full() {
            true => self.ratio,
            false => 1.0,
        }
    }
}
