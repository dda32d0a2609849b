//! Counters that must not grow while the run is under way.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::run::Run;
use super::told::{Is, Told, Who, listed};
use crate::config::Select;
use crate::judge::{NicView, is_burst};
use crate::model::{Fact, Grown, NicId, Outcome, counts_errors};

/// What the probes of a NIC say of its counters.
#[derive(Default)]
struct Seen {
    /// By how much each grew; none where that is not known.
    grown: BTreeMap<String, Option<u64>>,
    /// Readings that were made.
    read: usize,
    /// Readings that were not, with a reason.
    unread: usize,
    why: String,
}

impl Seen {
    fn add(&mut self, counters: &Fact<Vec<Grown>>) {
        let grown = match counters {
            Fact::Known { value, .. } => value,
            Fact::Unknown { why } => {
                self.unread += 1;
                self.why = why.to_string();
                return;
            }
        };
        self.read += 1;
        for Grown { name, by } in grown {
            let sum = self.grown.entry(name.clone()).or_insert(Some(0));
            *sum = sum.zip(*by).map(|(sum, by)| sum.saturating_add(by));
        }
    }
}

pub(super) fn counters(run: &Run<'_>, select: &Select, names: &BTreeSet<String>) -> Vec<Told> {
    let mut all: HashMap<&NicId, Seen> = HashMap::new();
    for probe in run.ledger.probes() {
        let pair = &probe.planned.pair;
        // Many that send to one are meant to fill it: what gets lost then counts only where it is named.
        if names.is_empty() && is_burst(run.ledger, probe) {
            continue;
        }
        let Some(Outcome::Measured {
            measurement,
            verified,
        }) = &probe.outcome
        else {
            continue;
        };
        all.entry(&pair.from)
            .or_default()
            .add(&measurement.counters);
        let unknown = || Fact::unknown(verified.why_unknown().unwrap_or_default());
        let received = verified
            .value()
            .map_or_else(unknown, |seen| seen.counters.clone());
        all.entry(&pair.to).or_default().add(&received);
    }
    run.each_nic(select, |_, nic, who| {
        vec![of_nic(nic, all.get(&nic.id), names, who)]
    })
}

fn of_nic(nic: &NicView<'_>, seen: Option<&Seen>, names: &BTreeSet<String>, who: Who) -> Told {
    let Some(seen) = seen.filter(|seen| seen.read + seen.unread > 0) else {
        return Told::unknown(who, "no probe of it was measured");
    };
    let counts = |name: &str| match names.is_empty() {
        true => counts_errors(name),
        false => names.contains(name),
    };
    let grown: Vec<_> = seen.grown.iter().filter(|(name, _)| counts(name)).collect();
    let surely: Vec<String> = grown
        .iter()
        .filter_map(|(name, by)| by.filter(|by| *by > 0).map(|by| format!("{name} by {by}")))
        .collect();
    if !surely.is_empty() {
        let saw = format!("grown: {}", listed(surely));
        return Told::seen(who, false, saw).from(format!(
            "counters of {}, before and after each probe",
            nic.id
        ));
    }
    let mut told = Told::seen(who, true, format!("none grew in {} readings", seen.read));
    if let Some((name, _)) = grown.iter().find(|(_, by)| by.is_none()) {
        told.is = Is::Unknown(format!(
            "{name} was reset, or has reached its end and counts no more"
        ));
    } else if let Some(why) = why_unread(nic, seen, names) {
        told.is = Is::Unknown(why);
    }
    told
}

fn why_unread(nic: &NicView<'_>, seen: &Seen, names: &BTreeSet<String>) -> Option<String> {
    if seen.unread > 0 {
        let all = seen.read + seen.unread;
        return Some(format!(
            "{} of {all} readings failed: {}",
            seen.unread, seen.why
        ));
    }
    // A counter that is not there cannot grow.
    let sets = [&nic.port.counters, &nic.port.hw_counters];
    let missing = names.iter().find(|name| {
        !sets
            .iter()
            .any(|set| set.value().is_some_and(|set| set.get(name).is_some()))
    });
    missing.map(|name| format!("{} has no counter {name} that could be read", nic.id))
}
