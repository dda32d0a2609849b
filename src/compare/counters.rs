//! Counters of errors that went up between two surveys. They count since a port came up, so one that is
//! lower says that it was reset, and nothing of what was counted meanwhile.

use std::collections::BTreeSet;

use super::{Gap, Place, surveyed_by_both};
use crate::judge::{NicView, NodeView};
use crate::ledger::Ledger;
use crate::model::{Counter, CounterStep, Counters, Fact, NicId, NodeFacts, NodeName, Rail};

/// How far a counter went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// By so much.
    By(u64),
    /// To its end, where it counts no more: by how much is not known.
    ToItsEnd,
}

/// A counter of errors that went up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CounterChange {
    /// The counter's name.
    pub name: String,
    /// The rail of the NIC.
    pub rail: Rail,
    /// The NIC, as the second run calls it.
    pub nic: NicId,
    /// How far.
    pub counted: Counted,
    /// What it stands at now.
    pub now: u64,
}

/// Counters of errors of the NICs that play rails in both runs, and those that cannot be compared. No
/// rates are needed for it.
pub fn counters(before: &Ledger, after: &Ledger) -> (Vec<CounterChange>, Vec<Gap>) {
    let ledgers = [before, after];
    let mut gaps = Vec::new();
    let changes = of(ledgers, &surveyed_by_both(ledgers), &mut gaps);
    (changes, gaps)
}

pub(super) fn of(
    ledgers: [&Ledger; 2],
    nodes: &BTreeSet<NodeName>,
    gaps: &mut Vec<Gap>,
) -> Vec<CounterChange> {
    let [before, after] = ledgers.map(NodeView::of_run);
    let mut changes = Vec::new();
    let mut before = before.iter().peekable();
    for view in after.iter().filter(|view| nodes.contains(view.name)) {
        // Both are in the order of names.
        while before.next_if(|then| then.name < view.name).is_some() {}
        let Some(then) = before.peek().filter(|then| then.name == view.name) else {
            continue;
        };
        let was_restarted = was_restarted(then.facts, view.facts);
        for nic in &view.nics {
            let same = then.nics.iter().find(|then| then.rail == nic.rail);
            if let Some(then) = same {
                of_nic(then, nic, was_restarted, &mut changes, gaps);
            }
        }
    }
    changes.sort();
    changes
}

/// A node that is up for less long than it was then was restarted, and counts from zero.
fn was_restarted(then: &NodeFacts, now: &NodeFacts) -> bool {
    let times = then.uptime_s.value().zip(now.uptime_s.value());
    times.is_some_and(|(then, now)| now < then)
}

fn of_nic(
    then: &NicView<'_>,
    now: &NicView<'_>,
    was_restarted: bool,
    changes: &mut Vec<CounterChange>,
    gaps: &mut Vec<Gap>,
) {
    let Some(rail) = now.rail else {
        return;
    };
    let sets: [(&Fact<Counters>, &Fact<Counters>, bool); 2] = [
        (&then.port.counters, &now.port.counters, true),
        (&then.port.hw_counters, &now.port.hw_counters, false),
    ];
    for (then, after, is_of_port) in sets {
        let why = match (then, after) {
            // Neither run has them: mostly no such counters exist.
            (Fact::Unknown { .. }, Fact::Unknown { .. }) => continue,
            (Fact::Known { .. }, Fact::Unknown { why }) => format!("unknown after: {why}"),
            (Fact::Unknown { why }, Fact::Known { .. }) => format!("unknown before: {why}"),
            (Fact::Known { .. }, Fact::Known { .. }) if was_restarted => {
                "the node was restarted meanwhile, and counts from zero".into()
            }
            (Fact::Known { value: then, .. }, Fact::Known { value: after, .. }) => {
                if !of_set(then, after, is_of_port, (rail, &now.id), changes) {
                    continue;
                }
                "some were reset meanwhile".into()
            }
        };
        gaps.push(Gap {
            what: "counters".into(),
            place: Place::Nic(rail, now.id.clone()),
            why,
            matters: false,
        });
    }
}

/// Tells which went up, and returns whether any was reset.
fn of_set(
    then: &Counters,
    now: &Counters,
    is_of_port: bool,
    (rail, nic): (Rail, &NicId),
    changes: &mut Vec<CounterChange>,
) -> bool {
    let mut was_reset = false;
    for counter in now.errors() {
        match step(then, counter, is_of_port) {
            Some(Ok(counted)) => changes.push(CounterChange {
                name: counter.name.clone(),
                rail,
                nic: nic.clone(),
                counted,
                now: counter.value,
            }),
            Some(Err(())) => was_reset = true,
            None => {}
        }
    }
    let was_higher = |counter: &Counter| {
        let now = now.get(&counter.name);
        now.is_some_and(|now| now.value < counter.value)
    };
    was_reset || then.errors().any(was_higher)
}

/// How far a counter went; `Err` where it was reset, `None` where it stood still or was not read before.
fn step(then: &Counters, now: &Counter, is_of_port: bool) -> Option<Result<Counted, ()>> {
    let before = then.get(&now.name)?.value;
    let wraps = !is_of_port;
    match CounterStep::between(before, now.value, now.saturates_at, wraps) {
        CounterStep::By(0) => None,
        CounterStep::By(more) => Some(Ok(Counted::By(more))),
        // It stood there before: it counts no more, and says nothing.
        CounterStep::Ended if before == now.value => None,
        CounterStep::Ended => Some(Ok(Counted::ToItsEnd)),
        CounterStep::Reset => Some(Err(())),
    }
}
