//! The NICs of a run by small numbers: thousands of them are judged many times, and comparing their
//! names would be most of the work.

use std::collections::HashMap;
use std::ptr;

use super::expected::line_rate_on;
use crate::ledger::{Brief, Ledger};
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
    nodes: Nodes<'a>,
    ledger: Option<&'a Ledger>,
}

/// The nodes of NICs, numbered in the order in which they come up.
#[derive(Debug, Default)]
struct Nodes<'a> {
    all: Vec<&'a NodeName>,
    numbers: HashMap<&'a NodeName, usize>,
    /// Rails have their nodes in one order: mostly the next is asked for.
    next: usize,
}

impl<'a> Nodes<'a> {
    fn number(&mut self, name: &'a NodeName) -> usize {
        let is_next = self.all.get(self.next).is_some_and(|next| *next == name);
        let number = match is_next {
            true => self.next,
            false => *self.numbers.entry(name).or_insert_with(|| {
                self.all.push(name);
                self.all.len() - 1
            }),
        };
        self.next = number + 1;
        number
    }
}

impl<'a> Cast<'a> {
    /// The NICs of a run: those that play a rail, then any that was probed and does not any more.
    pub(super) fn of(ledger: &'a Ledger) -> Self {
        let mut cast = Self {
            ledger: Some(ledger),
            planned: vec![None; ledger.numbered()],
            ..Self::default()
        };
        for (rail, nic, number) in ledger.players() {
            cast.add(ledger, number, nic, rail);
        }
        // Those that do not play a rail any more; mostly there is none.
        let any_more = cast.planned.iter().any(Option::is_none);
        for probe in ledger.probes().filter(|_| any_more) {
            let pair = &probe.planned.pair;
            for (number, nic) in probe.ends.into_iter().zip([&pair.from, &pair.to]) {
                cast.add(ledger, number, nic, pair.rail);
            }
        }
        cast.ask();
        cast.number_lines();
        cast
    }

    fn number_lines(&mut self) {
        type Line<'l> = (Option<u64>, &'l str);
        let mut numbers: HashMap<Line<'_>, usize> = HashMap::new();
        let mut last: Option<(Line<'_>, usize)> = None;
        let mut of_parts = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let line = match &part.line {
                Fact::Known { value, from } => (Some(value.0.to_bits()), from.as_str()),
                Fact::Unknown { why } => (None, why.as_str()),
            };
            let next = numbers.len();
            let number = match last {
                // Most are as the one before, down to the place of the text.
                Some((before, number)) if before.0 == line.0 && ptr::eq(before.1, line.1) => number,
                _ => *numbers.entry(line).or_insert(next),
            };
            last = Some((line, number));
            of_parts.push(number);
        }
        for (part, number) in self.parts.iter_mut().zip(of_parts) {
            part.line_number = number;
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

    /// A NIC of this number, unless it is there.
    fn add(&mut self, ledger: &'a Ledger, number: usize, nic: &'a NicId, rail: Rail) {
        if self.planned[number].is_some() {
            return;
        }
        self.planned[number] = Some(self.parts.len());
        let node = self.nodes.number(&nic.node);
        let port = ledger.port(number);
        self.parts.push(Part {
            nic,
            rail,
            node,
            line: line_rate_on(ledger, nic, port),
            line_number: 0,
            asks: None,
            layer: port.and_then(|port| port.layer),
        });
    }

    /// The number of a NIC.
    pub fn number(&self, nic: &NicId) -> Option<usize> {
        self.planned[self.ledger?.number(nic)?]
    }

    /// The numbers of a probe's NICs: every one that was planned for has one.
    pub fn ends(&self, brief: &Brief) -> Option<[usize; 2]> {
        let number = |number: u32| self.planned.get(number as usize).copied().flatten();
        let [from, to] = brief.ends.map(number);
        Some([from?, to?])
    }

    /// How many nodes they are of.
    pub fn nodes(&self) -> usize {
        self.nodes.all.len()
    }
}
