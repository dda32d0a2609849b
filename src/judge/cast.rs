//! The NICs of a run by small numbers: thousands of them are judged many times, and comparing their
//! names would be most of the work.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::expected::line_rate_on;
use crate::ledger::{Ledger, Probe};
use crate::model::{Fact, Gbps, LinkLayer, NicId, NodeFacts, NodeName, Rail};

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
    /// A number of that: NICs have one that carry the same by the same source.
    pub line_number: usize,
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
    /// By the ledger's number of a NIC.
    planned: Vec<Option<usize>>,
    /// Those that the ledger has no number of.
    others: HashMap<&'a NicId, usize>,
    nodes: HashMap<&'a NodeName, (usize, Option<&'a NodeFacts>)>,
    ledger: Option<&'a Ledger>,
}

impl<'a> Cast<'a> {
    /// The NICs of a run: those that play a rail, then any that was probed and does not any more.
    pub(super) fn of(ledger: &'a Ledger) -> Self {
        let mut cast = Self {
            ledger: Some(ledger),
            planned: vec![None; ledger.numbered()],
            ..Self::default()
        };
        for (rail, _, nic) in ledger.rail_nics() {
            let Some(nic) = nic.value() else { continue };
            match ledger.number(nic) {
                Some(number) => cast.add_planned(ledger, number, nic, rail),
                None => cast.add_other(ledger, nic, rail),
            }
        }
        // Those that do not play a rail any more; mostly there is none.
        let any_more = cast.planned.iter().any(Option::is_none);
        for probe in ledger.probes().filter(|_| any_more) {
            let pair = &probe.planned.pair;
            for (number, nic) in probe.ends.into_iter().zip([&pair.from, &pair.to]) {
                cast.add_planned(ledger, number, nic, pair.rail);
            }
        }
        cast.ask();
        cast.number_lines();
        cast
    }

    fn number_lines(&mut self) {
        let mut numbers: HashMap<(Option<u64>, &str), usize> = HashMap::new();
        let lines = self.parts.iter().map(|part| match &part.line {
            Fact::Known { value, from } => (Some(value.0.to_bits()), from.as_str()),
            Fact::Unknown { why } => (None, why.as_str()),
        });
        let mut number = |line| {
            let next = numbers.len();
            *numbers.entry(line).or_insert(next)
        };
        let numbers: Vec<usize> = lines.map(&mut number).collect();
        for (part, number) in self.parts.iter_mut().zip(numbers) {
            part.line_number = number;
        }
    }

    fn add_planned(&mut self, ledger: &'a Ledger, number: usize, nic: &'a NicId, rail: Rail) {
        if self.planned[number].is_none() {
            self.planned[number] = Some(self.parts.len());
            self.add(ledger, nic, rail);
        }
    }

    fn add_other(&mut self, ledger: &'a Ledger, nic: &'a NicId, rail: Rail) {
        if let Entry::Vacant(vacant) = self.others.entry(nic) {
            vacant.insert(self.parts.len());
            self.add(ledger, nic, rail);
        }
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
        let next = self.nodes.len();
        let node = self.nodes.entry(&nic.node);
        let new = || {
            (
                next,
                ledger.get_node(&nic.node).and_then(|n| n.facts.as_ref()),
            )
        };
        let (node, facts) = *node.or_insert_with(new);
        let devices = facts.and_then(|facts| facts.rdma.value());
        let device = devices.and_then(|all| all.iter().find(|d| d.name == nic.device.as_str()));
        let port = device.and_then(|d| d.ports.iter().find(|port| port.number == nic.port));
        self.parts.push(Part {
            nic,
            rail,
            node,
            line: line_rate_on(ledger, nic, device.zip(port)),
            line_number: 0,
            asks: None,
            layer: port.and_then(|port| port.link_layer.value().copied()),
        });
    }

    /// The number of a NIC.
    pub fn number(&self, nic: &NicId) -> Option<usize> {
        match self.ledger?.number(nic) {
            Some(number) => self.planned[number],
            None => self.others.get(nic).copied(),
        }
    }

    /// The numbers of a probe's NICs: every one that was planned for has one.
    pub fn ends(&self, probe: &Probe) -> Option<[usize; 2]> {
        let [from, to] = probe.ends;
        Some([*self.planned.get(from)?, *self.planned.get(to)?]).and_then(|[a, b]| Some([a?, b?]))
    }

    /// How many nodes they are of.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }
}
