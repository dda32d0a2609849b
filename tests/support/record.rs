//! The record of a run as tests read it: whether it is whole, and what was measured more than once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

/// The probes of a record whose lines are whole and numbered without gaps.
pub struct Recorded {
    pub probes: Vec<Probe>,
}

/// A probe that came to an end.
pub struct Probe {
    /// The number of its round.
    pub round: u64,
    /// As it was planned.
    pub planned: Value,
    /// What came of it.
    pub outcome: Value,
}

impl Recorded {
    /// Reads a record.
    pub fn read(path: &Path) -> Recorded {
        let text = std::fs::read_to_string(path).expect("a record");
        assert!(text.ends_with('\n'), "the record ends in half a line");
        let (mut planned, mut probes) = (BTreeMap::new(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            let record: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(record["seq"], number, "a gap in the record: {line}");
            let event = &record["event"];
            match event["is"].as_str() {
                Some("round_planned") => plan(event, &mut planned),
                Some("probe_ended") => {
                    let (round, planned) = planned[&number_of(event, "probe")].clone();
                    let outcome = event["outcome"].clone();
                    probes.push(Probe {
                        round,
                        planned,
                        outcome,
                    });
                }
                _ => {}
            }
        }
        Recorded { probes }
    }

    /// Pairs that were measured for one purpose in several rounds, each with those rounds. A round that is
    /// planned twice under one number is one; what only loads a rail beside a probe does not count.
    pub fn measured_again(&self) -> Vec<String> {
        let mut rounds: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for probe in &self.probes {
            if probe.outcome["measured"].is_object() && probe.planned["purpose"] != "load" {
                let name = name(&probe.planned);
                rounds.entry(name).or_default().insert(probe.round);
            }
        }
        rounds.retain(|_, rounds| rounds.len() > 1);
        let word = |(name, rounds): (String, BTreeSet<_>)| format!("{name} in rounds {rounds:?}");
        rounds.into_iter().map(word).collect()
    }
}

fn plan(event: &Value, planned: &mut BTreeMap<u64, (u64, Value)>) {
    for pair in event["pairs"].as_array().into_iter().flatten() {
        let id = number_of(pair, "probe");
        let twice = planned.insert(id, (number_of(event, "round"), pair.clone()));
        assert!(twice.is_none(), "probe {id} was planned twice");
    }
}

fn number_of(value: &Value, field: &str) -> u64 {
    value[field]
        .as_u64()
        .unwrap_or_else(|| panic!("no {field}: {value}"))
}

/// `node01 rxe0 to node02 rxe0 for pattern`.
fn name(planned: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let end = |end: &str| {
        let nic = &planned["pair"][end];
        format!("{} {}", word(&nic["node"]), word(&nic["device"]))
    };
    let purpose = planned["purpose"].as_str().unwrap_or("pattern");
    format!("{} to {} for {purpose}", end("from"), end("to"))
}
