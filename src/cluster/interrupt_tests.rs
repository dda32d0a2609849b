//! Runs that are interrupted in each step of a probe: they end at once, let go of everything, and
//! what they measured before stays.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::tests::{FULL, Fake, Kind, LIMITS, settings};
use super::{Conductor, Fleet, FromNode};
use crate::judge::judge;
use crate::ledger::testing::ledger;
use crate::model::{Event, Outcome, RunEnd, Verdict};
use crate::wire::ToAgent;

type Said = fn(&ToAgent) -> bool;

/// A fleet whose operator interrupts when a message is said for the n-th time; it is not answered.
struct Interrupted<'a> {
    fleet: Fake,
    stop: &'a AtomicBool,
    when: Said,
    left: usize,
    prepared: usize,
    released: usize,
}

impl Fleet for Interrupted<'_> {
    fn is_real_time(&self) -> bool {
        false
    }

    fn send(&mut self, node: usize, message: &ToAgent) {
        match message {
            ToAgent::Prepare { .. } => self.prepared += 1,
            ToAgent::Release { .. } => self.released += 1,
            _ => {}
        }
        if (self.when)(message) {
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                self.stop.store(true, Ordering::Relaxed);
                return;
            }
        }
        self.fleet.send(node, message);
    }

    fn next(&mut self, timeout: Duration) -> Option<(usize, FromNode)> {
        self.fleet.next(timeout)
    }

    fn close(&mut self) {
        assert_eq!(self.prepared, self.released, "an end was not let go");
        self.fleet.close();
    }
}

/// The events of a run of four nodes that is interrupted at the `nth` such message.
fn interrupted(kind: Kind, when: Said, nth: usize) -> Vec<Event> {
    let stop = AtomicBool::new(false);
    let mut events = Vec::new();
    let mut emit = |event: Event| -> Result<(), Infallible> {
        events.push(event);
        Ok(())
    };
    let fleet = Interrupted {
        fleet: Fake::new(&[Kind::Well, Kind::Well, Kind::Well, kind], |_, _| FULL),
        stop: &stop,
        when,
        left: nth,
        prepared: 0,
        released: 0,
    };
    let began = Instant::now();
    Conductor::new(fleet, settings(4), LIMITS, &stop, &mut emit)
        .run()
        .unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "a deadline was waited for"
    );
    events
}

#[test]
fn a_run_ends_in_whatever_step_it_is_interrupted() {
    let steps: [(&str, Said); 4] = [
        ("prepare", |m| matches!(m, ToAgent::Prepare { .. })),
        ("connect", |m| matches!(m, ToAgent::Connect { .. })),
        ("run", |m| matches!(m, ToAgent::Run { .. })),
        ("verify", |m| matches!(m, ToAgent::Verify { .. })),
    ];
    for (step, when) in steps {
        // The first of the first round, and one of a later round.
        for nth in [1, 14] {
            let events = interrupted(Kind::Well, when, nth);
            let ledger = ledger(&events);
            assert_eq!(ledger.end(), Some(RunEnd::Interrupted), "{step} {nth}");
            assert!(ledger.probes().all(|probe| probe.outcome.is_some()));
            let failed = |event: &Event| {
                let Event::ProbeEnded { outcome, .. } = event else {
                    return false;
                };
                matches!(outcome, Outcome::Failed { .. })
            };
            assert!(!events.iter().any(failed), "{step} {nth}");
            let judgement = judge(&ledger);
            assert_eq!(judgement.verdict, Verdict::CouldNotJudge, "{step} {nth}");
            let measured = judgement.coverage.measured;
            assert_eq!(measured > 0, nth > 1, "{step} {nth}: {measured}");
            assert_eq!(judgement.findings, [], "{step} {nth}");
        }
    }
}

#[test]
fn a_run_ends_while_nodes_are_on_their_way() {
    let events = interrupted(Kind::Mute, |m| matches!(m, ToAgent::Survey), 2);
    let ledger = ledger(&events);
    assert_eq!(ledger.end(), Some(RunEnd::Interrupted));
    assert_eq!(ledger.probes().count(), 0);
}
