//! What runs at one time: the flows of a round, and which NICs and links are busy with them.

use std::collections::HashMap;

use crate::model::MemoryKind;

/// A NIC by its numbers: node and rail, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Nic {
    pub(super) node: u16,
    pub(super) rail: u16,
}

/// A transfer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    pub(super) from: Nic,
    pub(super) to: Nic,
    pub(super) queue_pairs: u32,
    pub(super) memory: MemoryKind,
    /// Path MTU in bytes.
    pub(super) mtu: u32,
}

/// One leaf switch: which of its rail, and the rail.
pub(super) type Leaf = (u16, u16);

/// The flows of a round as the NICs and leaf switches see them.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// For each node, a bit for each rail that sends, and for each that receives.
    nodes: HashMap<u16, [u16; 2]>,
    /// Flows into a NIC beyond the first.
    more: HashMap<Nic, u32>,
    /// Flows from each leaf switch to the spine.
    pub(super) up: HashMap<Leaf, u32>,
    /// Flows from the spine to each leaf switch.
    pub(super) down: HashMap<Leaf, u32>,
}

impl Load {
    /// Adds a flow, with the leaf switches that it leaves and enters where it crosses the spine.
    pub(super) fn add(&mut self, flow: &Flow, spine: Option<(Leaf, Leaf)>) {
        self.nodes.entry(flow.from.node).or_default()[0] |= bit(flow.from.rail);
        let receives = &mut self.nodes.entry(flow.to.node).or_default()[1];
        if *receives & bit(flow.to.rail) != 0 {
            *self.more.entry(flow.to).or_default() += 1;
        }
        *receives |= bit(flow.to.rail);
        if let Some((from, to)) = spine {
            *self.up.entry(from).or_default() += 1;
            *self.down.entry(to).or_default() += 1;
        }
    }

    /// How many of these rails of a node are busy.
    pub(super) fn busy(&self, node: u16, rails: &[u16]) -> usize {
        let [sends, receives] = self.of(node);
        let busy = |rail: &&u16| (sends | receives) & bit(**rail) != 0;
        rails.iter().filter(busy).count()
    }

    /// How many flows there are into a NIC, that of whoever asks included.
    pub(super) fn flows_into(&self, nic: Nic) -> u32 {
        1 + self.more.get(&nic).copied().unwrap_or(0)
    }

    /// Whether a NIC sends and receives.
    pub(super) fn both_ways(&self, nic: Nic) -> bool {
        let [sends, receives] = self.of(nic.node);
        sends & receives & bit(nic.rail) != 0
    }

    fn of(&self, node: u16) -> [u16; 2] {
        self.nodes.get(&node).copied().unwrap_or_default()
    }
}

/// A node has at most 16 rails.
fn bit(rail: u16) -> u16 {
    1u16.checked_shl(rail.into()).unwrap_or(0)
}
