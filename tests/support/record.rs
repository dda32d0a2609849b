//! The record of a run as tests read it: whether it is whole, and what was measured more than once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

/// The events of a record whose lines are whole and numbered without gaps.
pub struct Recorded {
    events: Vec<Value>,
}

impl Recorded {
    /// Reads a record.
    pub fn read(path: &Path) -> Recorded {
        let text = std::fs::read_to_string(path).expect("a record");
        assert!(text.ends_with('\n'), "the record ends in half a line");
        let event = |(number, line): (usize, &str)| {
            let record: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(record["seq"], number, "a gap in the record: {line}");
            record["event"].clone()
        };
        let events = text.lines().enumerate().map(event).collect();
        Recorded { events }
    }

    fn of(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let kind = kind.to_owned();
        self.events.iter().filter(move |event| event["is"] == kind)
    }

    /// The lowest rate, in Gb/s, at which this NIC sent or received.
    pub fn slowest(&self, node: &str, device: &str) -> f64 {
        let is_nic = |nic: &Value| nic["node"] == node && nic["device"] == device;
        let rounds = self.of("round_planned");
        let planned = rounds.flat_map(|round| round["pairs"].as_array().into_iter().flatten());
        let mine: BTreeSet<_> = planned
            .filter(|planned| {
                ["from", "to"]
                    .iter()
                    .any(|end| is_nic(&planned["pair"][end]))
            })
            .filter_map(|planned| planned["probe"].as_u64())
            .collect();
        self.of("probe_ended")
            .filter(|ended| ended["probe"].as_u64().is_some_and(|id| mine.contains(&id)))
            .filter_map(|ended| rate(&ended["outcome"]["measured"]["measurement"]))
            .fold(f64::INFINITY, f64::min)
    }

    /// Pairs that were measured for one purpose in several rounds, each with those rounds. A round that is
    /// planned twice under one number is one; what only loads a rail beside a probe does not count.
    pub fn measured_again(&self) -> Vec<String> {
        let mut planned = BTreeMap::new();
        for round in self.of("round_planned") {
            for pair in round["pairs"].as_array().into_iter().flatten() {
                let id = pair["probe"].as_u64().expect("a number");
                let twice = planned.insert(id, (round["round"].as_u64(), pair));
                assert!(twice.is_none(), "probe {id} was planned twice");
            }
        }
        let mut rounds: BTreeMap<String, BTreeSet<Option<u64>>> = BTreeMap::new();
        for ended in self.of("probe_ended") {
            let id = ended["probe"].as_u64().expect("a number");
            let (round, pair) = planned.get(&id).expect("a probe that was planned");
            if ended["outcome"]["measured"].is_object() && pair["purpose"] != "load" {
                rounds.entry(name(pair)).or_default().insert(*round);
            }
        }
        rounds.retain(|_, rounds| rounds.len() > 1);
        let word = |(name, rounds): (String, BTreeSet<_>)| format!("{name} in rounds {rounds:?}");
        rounds.into_iter().map(word).collect()
    }
}

/// In Gb/s.
fn rate(measurement: &Value) -> Option<f64> {
    let bits = measurement["bytes"].as_f64()? * 8.0;
    Some(bits / measurement["elapsed_us"].as_f64()? / 1e3)
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
