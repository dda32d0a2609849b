//! Runs and profiles for the tests of acceptance.

use jiff::civil::{Date, date};

use super::{Before, accept};
use crate::config::{Profile, read_profile};
use crate::judge::judge;
use crate::ledger::Ledger;
use crate::ledger::testing::{events, ledger};
use crate::model::testing::pcie::TwoSockets;
use crate::model::*;

/// What a NIC at line rate measures here: 400 Gb/s times the payload share at MTU 4096.
pub(super) const FULL: f64 = 391.0;

/// The day on which these tests judge.
pub(super) const TODAY: Date = date(2026, 12, 1);

/// A whole run at line rate, its nodes with names of their own.
pub(super) fn healthy(nodes: usize, rails: u16) -> Vec<Event> {
    at(nodes, rails, &|_, _, _| Some(FULL))
}

/// The same at other rates.
pub(super) fn at(
    nodes: usize,
    rails: u16,
    rate: &dyn Fn(usize, usize, u16) -> Option<f64>,
) -> Vec<Event> {
    let mut events = events(nodes, rails, rate);
    facts_of(&mut events, &|node, facts| {
        facts.hostname = Fact::known(node.to_string(), "uname")
    });
    outcomes(&mut events, &|outcome| {
        if let Outcome::Measured {
            measurement,
            verified: Fact::Known { value, .. },
        } = outcome
        {
            measurement.counters = Fact::known(Vec::new(), "counters");
            value.counters = Fact::known(Vec::new(), "counters");
        }
    });
    events
}

/// Two sockets with GPUs on each node, and its NICs on five rails.
pub(super) fn servers(nodes: usize) -> Vec<Event> {
    let mut events = healthy(nodes, 5);
    facts_of(&mut events, &|node, facts| {
        *facts = NodeFacts {
            hostname: Fact::known(node.to_string(), "uname"),
            rdma: facts.rdma.clone(),
            ..TwoSockets::facts()
        };
        let places = TwoSockets::facts();
        let places = places.rdma.value().expect("devices");
        if let Fact::Known { value, .. } = &mut facts.rdma {
            for (device, place) in value.iter_mut().zip(places) {
                device.pci = place.pci.clone();
                device.numa_node = place.numa_node.clone();
            }
        }
    });
    events
}

/// Changes what the surveys found.
pub(super) fn facts_of(events: &mut [Event], change: &dyn Fn(&NodeName, &mut NodeFacts)) {
    for event in events {
        if let Event::NodeSurveyed { node, facts } = event {
            change(node, facts);
        }
    }
}

/// The same of one node.
pub(super) fn facts_at(events: &mut [Event], name: &str, change: &dyn Fn(&mut NodeFacts)) {
    facts_of(events, &|node, facts| {
        if node.0 == name {
            change(facts);
        }
    });
}

/// The first port of each device of a node.
pub(super) fn ports_at(events: &mut [Event], name: &str, change: &dyn Fn(&mut Port)) {
    facts_at(events, name, &|facts| {
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value
                .iter_mut()
                .for_each(|device| change(&mut device.ports[0]));
        }
    });
}

/// Changes what came of the probes.
pub(super) fn outcomes(events: &mut [Event], change: &dyn Fn(&mut Outcome)) {
    for event in events {
        if let Event::ProbeEnded { outcome, .. } = event {
            change(outcome);
        }
    }
}

pub(super) fn profile(text: &str) -> Profile {
    let text = format!("profile = \"test\"\n{text}");
    read_profile(&text, "profile.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// A profile with one check.
pub(super) fn one(text: &str) -> Profile {
    profile(&format!("[check.it]\n{text}\n"))
}

pub(super) fn held(profile: &Profile, events: &[Event]) -> Acceptance {
    on(profile, &ledger(events), None)
}

pub(super) fn on(profile: &Profile, ledger: &Ledger, before: Option<Before<'_>>) -> Acceptance {
    accept(profile, ledger, &judge(ledger), before, TODAY)
}

/// What a check of a profile says, each line `outcome subject: what was seen, or why not`.
pub(super) fn said(acceptance: &Acceptance, check: &str) -> Vec<String> {
    let mine = acceptance
        .results
        .iter()
        .filter(|result| result.check == check);
    mine.map(line).collect()
}

fn line(result: &CheckResult) -> String {
    let saw = result.saw.as_deref().unwrap_or_default();
    match &result.outcome {
        CheckOutcome::Passed => format!("holds {}: {saw}", result.subject),
        CheckOutcome::Failed => format!("fails {}: {saw}", result.subject),
        CheckOutcome::NotJudged { why } => format!("unknown {}: {why}", result.subject),
        CheckOutcome::Excepted { reason, .. } => format!("borne {}: {reason}", result.subject),
    }
}

/// What a check alone says of a run.
pub(super) fn says(text: &str, events: &[Event]) -> Vec<String> {
    said(&held(&one(text), events), "it")
}

/// That all of it holds.
pub(super) fn holds(text: &str, events: &[Event]) {
    let said = says(text, events);
    assert!(
        !said.is_empty() && said.iter().all(|line| line.starts_with("holds ")),
        "{text}: {said:#?}"
    );
}

/// That it does not hold of exactly these.
pub(super) fn fails(text: &str, events: &[Event], whom: &[&str]) {
    is("fails ", text, events, whom);
}

/// That it is not judged of exactly these, and nothing of it fails.
pub(super) fn unknown(text: &str, events: &[Event], whom: &[&str]) {
    is("unknown ", text, events, whom);
    let said = says(text, events);
    assert!(
        !said.iter().any(|line| line.starts_with("fails ")),
        "{said:#?}"
    );
}

fn is(word: &str, text: &str, events: &[Event], whom: &[&str]) {
    let said = says(text, events);
    let found: Vec<&str> = said
        .iter()
        .filter_map(|line| line.strip_prefix(word))
        .map(|line| line.split(": ").next().unwrap_or_default())
        .collect();
    assert_eq!(found, whom, "{text}: {said:#?}");
}
