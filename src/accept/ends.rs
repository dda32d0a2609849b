//! What each NIC was seen to move each way, of probes that count: between two machines, with every byte that
//! landed compared and right.

use std::collections::HashMap;

use crate::judge::{Observation, Observed};
use crate::ledger::{Ledger, Probe};
use crate::model::{Direction, NicId, NodeFacts, NodeName, Outcome, Rail, RdmaDevice};

/// A direction of a NIC.
type End = (NicId, Direction);

/// The places of the observations of each end, and why others of it do not count.
#[derive(Debug, Default)]
pub(super) struct Ends {
    counted: HashMap<End, Vec<usize>>,
    refused: HashMap<End, String>,
    /// Why nobody planned anything for a rail of a node, each way.
    skipped: HashMap<(NodeName, Rail, Direction), String>,
}

impl Ends {
    pub(super) fn of(ledger: &Ledger, observed: &Observed<'_>) -> Self {
        let mut ends = Self::default();
        for (at, seen) in observed.usual.iter().enumerate() {
            let why = why_not(ledger, seen);
            let pair = seen.pair;
            for (nic, direction) in [(&pair.from, Direction::Tx), (&pair.to, Direction::Rx)] {
                let end = (nic.clone(), direction);
                match &why {
                    None => ends.counted.entry(end).or_default().push(at),
                    Some(why) => ends.refuse(end, why),
                }
            }
        }
        ends.without_rate(ledger);
        ends
    }

    fn refuse(&mut self, end: End, why: &str) {
        self.refused.entry(end).or_insert_with(|| why.to_owned());
    }

    /// Why probes gave no rate, and pairs were not probed.
    fn without_rate(&mut self, ledger: &Ledger) {
        let usual = ledger
            .in_brief()
            .filter(|(brief, _)| brief.purpose.is_usual());
        for (_, probe) in usual.filter(|(brief, _)| brief.rate.is_none()) {
            let why = match &probe.outcome {
                Some(Outcome::Failed { stage, why, .. }) => format!("{stage}: {why}"),
                Some(Outcome::NotRun { why }) => why.clone(),
                Some(Outcome::Measured { .. }) => "its transfer took no time".to_owned(),
                None => "its probe did not end".to_owned(),
            };
            let pair = &probe.planned.pair;
            self.refuse((pair.from.clone(), Direction::Tx), &why);
            self.refuse((pair.to.clone(), Direction::Rx), &why);
        }
        for skipped in ledger.skipped() {
            for (node, way) in [(&skipped.from, Direction::Tx), (&skipped.to, Direction::Rx)] {
                let place = (node.clone(), skipped.rail, way);
                self.skipped
                    .entry(place)
                    .or_insert_with(|| skipped.why.clone());
            }
        }
    }

    /// The observations of an end that count.
    pub(super) fn seen<'r, 'a>(
        &self,
        observed: &'r Observed<'a>,
        nic: &NicId,
        direction: Direction,
    ) -> Vec<&'r Observation<'a>> {
        let places = self.counted.get(&(nic.clone(), direction));
        let places = places.map_or(&[][..], Vec::as_slice);
        places
            .iter()
            .filter_map(|at| observed.usual.get(*at))
            .collect()
    }

    /// Why a rail of a node was in no probe that way, where somebody said.
    pub(super) fn why_skipped(&self, node: &NodeName, rail: Rail, way: Direction) -> Option<&str> {
        self.skipped
            .get(&(node.clone(), rail, way))
            .map(String::as_str)
    }

    /// Why probes of an end do not count, where there are some.
    pub(super) fn why_none(&self, nic: &NicId, direction: Direction) -> Option<&str> {
        self.refused
            .get(&(nic.clone(), direction))
            .map(String::as_str)
    }
}

/// Why what was seen counts for nothing, if so.
pub(super) fn why_not(ledger: &Ledger, seen: &Observation<'_>) -> Option<String> {
    not_right(seen.probe).or_else(|| one_machine(ledger, &seen.pair.from, &seen.pair.to))
}

/// Nobody compared what landed, or it was not what was sent.
fn not_right(probe: &Probe) -> Option<String> {
    let Some(Outcome::Measured { verified, .. }) = &probe.outcome else {
        return Some("nothing was measured".to_owned());
    };
    let id = probe.planned.probe;
    match verified.value() {
        None => {
            let why = verified.why_unknown().unwrap_or_default();
            Some(format!("what landed was not compared ({id}): {why}"))
        }
        Some(seen) if seen.bytes_wrong > 0 => Some(format!(
            "{} bytes that landed are not those that were sent ({id})",
            seen.bytes_wrong
        )),
        Some(seen) if seen.bytes_checked == 0 => {
            Some(format!("no byte of what landed was compared ({id})"))
        }
        Some(_) => None,
    }
}

/// Two names of one machine: what one sends to the other does not cross the fabric.
fn one_machine(ledger: &Ledger, from: &NicId, to: &NicId) -> Option<String> {
    let guid = |nic| {
        ledger
            .device(nic)
            .and_then(|device: &RdmaDevice| device.identity.node_guid.value())
    };
    let same = match (guid(from), guid(to)) {
        (Some(one), Some(other)) => one == other,
        // Cards that do not say who they are: then the machines do.
        _ => {
            let facts = |nic: &NicId| {
                ledger
                    .get_node(&nic.node)
                    .and_then(|node| node.facts.as_ref())
            };
            let name = |facts: Option<&'_ NodeFacts>| {
                facts.and_then(|facts| facts.hostname.value().cloned())
            };
            let (one, other) = (name(facts(from)), name(facts(to)));
            one.is_some() && one == other
        }
    };
    let why = || {
        format!(
            "{from} and {to} are in one machine: what moved between them did not cross the fabric"
        )
    };
    (same || from.node == to.node).then(why)
}
