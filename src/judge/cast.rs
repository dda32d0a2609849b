//! The NICs of a run by small numbers: thousands of them are judged many times, and comparing their
//! names would be most of the work.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::expected::line_rate;
use crate::ledger::Ledger;
use crate::model::{Fact, Gbps, LinkLayer, NicId, NodeName, Rail};

/// A NIC that was probed, or plays a rail.
#[derive(Debug)]
pub struct Part<'a> {
    /// The NIC.
    pub nic: &'a NicId,
    /// The rail that it plays.
    pub rail: Rail,
    /// Its node, by number: nodes are numbered in the order in which they come up.
    pub node: usize,
    /// What its link carries.
    pub line: Fact<Gbps>,
    /// What the link of a partner must carry to show what this one does: as much, or the most that
    /// another NIC of its rail has. Between links of two speeds the slower one bounds.
    pub asks: Option<Gbps>,
    /// What its link speaks.
    pub layer: Option<LinkLayer>,
}

/// All of them, in the order of rails and nodes.
#[derive(Debug, Default)]
pub struct Cast<'a> {
    /// The NICs, by number.
    pub parts: Vec<Part<'a>>,
    numbers: HashMap<&'a NicId, usize>,
    nodes: HashMap<&'a NodeName, usize>,
}

impl<'a> Cast<'a> {
    /// The NICs of a run: those that play a rail, then any that was probed and does not any more.
    pub(super) fn of(ledger: &'a Ledger) -> Self {
        let mut cast = Self::default();
        for (rail, _, nic) in ledger.rail_nics() {
            if let Some(nic) = nic.value() {
                cast.add(ledger, nic, rail);
            }
        }
        for probe in ledger.probes() {
            let pair = &probe.planned.pair;
            cast.add(ledger, &pair.from, pair.rail);
            cast.add(ledger, &pair.to, pair.rail);
        }
        cast.ask();
        cast
    }

    fn ask(&mut self) {
        // The two fastest links of each rail.
        let mut fastest: HashMap<Rail, [Option<Gbps>; 2]> = HashMap::new();
        for part in &self.parts {
            let Some(line) = part.line.value().copied() else {
                continue;
            };
            let [first, second] = fastest.entry(part.rail).or_default();
            if first.is_none_or(|first| line > first) {
                (*first, *second) = (Some(line), *first);
            } else if second.is_none_or(|second| line > second) {
                *second = Some(line);
            }
        }
        for part in &mut self.parts {
            let [first, second] = fastest.get(&part.rail).copied().unwrap_or_default();
            let Some(own) = part.line.value().copied() else {
                continue;
            };
            let others = if first == Some(own) { second } else { first };
            part.asks = others.map(|others| if others < own { others } else { own });
        }
    }

    /// Whether the link at the other end of a pair lets one end show what it carries.
    pub(super) fn is_shown(&self, number: usize, partner: usize) -> bool {
        let (part, other) = (&self.parts[number], &self.parts[partner]);
        match (part.asks, other.line.value()) {
            (Some(asks), Some(line)) => *line >= asks,
            _ => true,
        }
    }

    fn add(&mut self, ledger: &'a Ledger, nic: &'a NicId, rail: Rail) {
        let Entry::Vacant(vacant) = self.numbers.entry(nic) else {
            return;
        };
        vacant.insert(self.parts.len());
        let next = self.nodes.len();
        let node = *self.nodes.entry(&nic.node).or_insert(next);
        let device = ledger.device(nic);
        let port = device.and_then(|d| d.ports.iter().find(|port| port.number == nic.port));
        self.parts.push(Part {
            nic,
            rail,
            node,
            line: line_rate(ledger, nic),
            asks: None,
            layer: port.and_then(|port| port.link_layer.value().copied()),
        });
    }

    /// The number of a NIC.
    pub fn number(&self, nic: &NicId) -> Option<usize> {
        self.numbers.get(nic).copied()
    }

    /// How many nodes they are of.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }
}
