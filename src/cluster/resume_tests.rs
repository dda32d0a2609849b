//! A run that is cut off anywhere and resumed ends as if it had not been, and measures nothing twice.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};

use super::tests::{FULL, Fake, Kind, LIMITS, run, settings};
use super::{ConductError, Conductor};
use crate::judge::{Judgement, judge};
use crate::ledger::NodeState;
use crate::ledger::testing::ledger;
use crate::model::*;

type Rate = fn(usize, usize) -> f64;

/// The events so far, and those of the rest of the run, which `stop` may end early.
fn resumed(kinds: &[Kind], rate: Rate, so_far: &[Event]) -> Vec<Event> {
    let mut events = so_far.to_vec();
    let stop = AtomicBool::new(false);
    let mut emit = |event: Event| -> Result<(), Infallible> {
        events.push(event);
        Ok(())
    };
    Conductor::new(
        Fake::new(kinds, rate),
        settings(kinds.len()),
        LIMITS,
        &stop,
        &mut emit,
    )
    .after(ledger(so_far))
    .run()
    .unwrap();
    events
}

/// How often each pair of the pattern was tried: what follows up chooses its partners by what is known.
fn tries(events: &[Event]) -> BTreeMap<(Pair, Purpose), usize> {
    let mut tries: BTreeMap<(Pair, Purpose), usize> = BTreeMap::new();
    for probe in ledger(events).probes().filter(|probe| probe.was_tried()) {
        let planned = &probe.planned;
        let times = tries
            .entry((planned.pair.clone(), planned.purpose))
            .or_default();
        *times += 1;
    }
    tries.retain(|(_, purpose), _| purpose.is_pattern());
    tries
}

/// What is said of a run, without the numbers of probes.
fn said(judgement: &Judgement) -> Vec<String> {
    let findings = judgement.findings.iter().map(|finding| {
        format!(
            "{:?} {:?} {:?} {} {:?} {:?}",
            finding.rule,
            finding.severity,
            finding.subject,
            finding.says,
            finding.measured,
            finding.expected
        )
    });
    let cannot_tell = judgement.cannot_tell.iter().map(|e| format!("{e:?}"));
    findings.chain(cannot_tell).collect()
}

fn assert_same(whole: &[Event], cut: &[Event], what: &str) {
    let (expected, got) = (judge(&ledger(whole)), judge(&ledger(cut)));
    assert_eq!(got.verdict, expected.verdict, "{what}");
    assert_eq!(said(&got), said(&expected), "{what}");
    assert_eq!(got.coverage, expected.coverage, "{what}");
    assert_eq!(tries(cut), tries(whole), "{what}");
    let mut probes = HashSet::new();
    let mut rounds = HashSet::new();
    for event in cut {
        if let Event::RoundPlanned { round, pairs } = event {
            let of_pattern = pairs.iter().any(|planned| planned.purpose.is_pattern());
            let is_new = rounds.insert(*round);
            assert!(is_new || !of_pattern, "{what}: round {round} again");
            for planned in pairs {
                assert!(probes.insert(planned.probe), "{what}: {planned:?} again");
            }
        }
    }
}

const CLUSTERS: [(&str, &[Kind], Rate); 5] = [
    ("healthy", &[Kind::Well; 3], |_, _| FULL),
    ("half sender", &[Kind::Well; 3], |from, _| {
        if from == 0 { FULL / 2.0 } else { FULL }
    }),
    ("slow path", &[Kind::Well; 4], |from, to| {
        if (from, to) == (0, 2) {
            0.4 * FULL
        } else {
            FULL
        }
    }),
    (
        "no memlock",
        &[Kind::Well, Kind::NoMemlock, Kind::Well],
        |_, _| FULL,
    ),
    (
        "refused",
        &[Kind::Well, Kind::Refused, Kind::Well, Kind::Well],
        |_, _| FULL,
    ),
];

#[test]
fn a_run_cut_after_any_event_ends_as_if_it_had_not_been() {
    for (name, kinds, rate) in CLUSTERS {
        let (.., whole) = run(kinds, rate);
        for end in 1..whole.len() {
            let cut = &whole[..end];
            assert_ne!(judge(&ledger(cut)).verdict, Verdict::AtLineRate);
            let again = resumed(kinds, rate, cut);
            assert_same(&whole, &again, &format!("{name}, cut after {end} events"));
        }
    }
}

#[test]
fn a_run_may_be_cut_more_than_once() {
    let (_, kinds, rate) = CLUSTERS[1];
    let (.., whole) = run(kinds, rate);
    for first in (1..whole.len()).step_by(6) {
        let once = resumed(kinds, rate, &whole[..first]);
        for second in (first + 1..once.len()).step_by(5) {
            let cut = &once[..second];
            assert_ne!(judge(&ledger(cut)).verdict, Verdict::AtLineRate);
            let twice = resumed(kinds, rate, cut);
            assert_same(&whole, &twice, &format!("cut after {first} and {second}"));
        }
    }
}

/// Ends at a `stop` after so many probes.
fn interrupted(kinds: &[Kind], rate: Rate, probes: usize) -> Vec<Event> {
    let (mut events, mut ended) = (Vec::new(), 0);
    let stop = AtomicBool::new(false);
    let mut emit = |event: Event| -> Result<(), Infallible> {
        ended += usize::from(matches!(event, Event::ProbeEnded { .. }));
        if ended == probes {
            stop.store(true, Ordering::Relaxed);
        }
        events.push(event);
        Ok(())
    };
    let fleet = Fake::new(kinds, rate);
    Conductor::new(fleet, settings(kinds.len()), LIMITS, &stop, &mut emit)
        .run()
        .unwrap();
    events
}

#[test]
fn an_interrupted_run_goes_on_too() {
    let (_, kinds, rate) = CLUSTERS[1];
    let (.., whole) = run(kinds, rate);
    for probes in [1, 5, 12, 15, 19] {
        let part = interrupted(kinds, rate, probes);
        let end = ledger(&part).end();
        assert_eq!(end, Some(RunEnd::Interrupted), "after {probes}");
        let again = resumed(kinds, rate, &part);
        assert_same(
            &whole,
            &again,
            &format!("interrupted after {probes} probes"),
        );
    }
}

#[test]
fn a_node_that_is_back_is_measured() {
    let kinds = [Kind::Well, Kind::DiesInProbe, Kind::Well, Kind::Refused];
    let (.., whole) = run(&kinds, |_, _| FULL);
    let again = resumed(&[Kind::Well; 4], |_, _| FULL, &whole[..whole.len() - 1]);
    let judgement = judge(&ledger(&again));
    assert_eq!(judgement.verdict, Verdict::AtLineRate, "{judgement:#?}");
    assert_eq!(judgement.coverage.measured, 24);
    let now = tries(&again);
    for (tried, before) in tries(&whole) {
        let (pair, purpose) = &tried;
        let failed = [&pair.from, &pair.to]
            .iter()
            .any(|nic| nic.node.0 == "node02");
        assert!(
            now[&tried] == before || failed,
            "{pair} again ({purpose:?})"
        );
    }
}

#[test]
fn a_node_that_does_not_come_back_is_lost_and_keeps_its_rates() {
    let (.., whole) = run(&[Kind::Well; 3], |_, _| FULL);
    let cut = &whole[..whole.len() - 8];
    let kinds = [Kind::Well, Kind::Refused, Kind::Well];
    let again = resumed(&kinds, |_, _| FULL, cut);
    let judgement = judge(&ledger(&again));
    assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
    assert!(judgement.findings.iter().any(|f| f.rule == Rule::NodeLost));
    let before = judge(&ledger(cut)).coverage.measured;
    assert!(judgement.coverage.measured >= before && before > 0);
    let gaps: Vec<&str> = judgement.coverage.gaps.iter().map(|g| &*g.why).collect();
    assert_eq!(gaps, ["node02 was lost"]);
}

#[test]
fn a_run_that_goes_on_has_not_ended_and_reached_nobody_yet() {
    let (_, kinds, rate) = CLUSTERS[1];
    let mut events = interrupted(kinds, rate, 5);
    events.push(Event::RunResumed {
        linerate: "0.1.0".into(),
    });
    let ledger = ledger(&events);
    assert_eq!(ledger.end(), None);
    assert!(
        ledger
            .nodes()
            .all(|(_, node)| node.state == NodeState::Waiting)
    );
    // Not "interrupted": that is over.
    let gaps = ledger.coverage().gaps;
    assert!(!gaps.is_empty());
    for gap in gaps {
        assert!(
            gap.why.ends_with("was not reached before the run ended"),
            "{gap:?}"
        );
    }
}

#[test]
fn what_another_nic_measured_in_a_rails_place_does_not_count() {
    let (.., whole) = run(&[Kind::Well; 3], |_, _| FULL);
    let mut events = whole[..whole.len() - 1].to_vec();
    events.push(Event::RunResumed {
        linerate: "0.1.0".into(),
    });
    let mut nics: Vec<RailNic> = whole
        .iter()
        .find_map(|event| match event {
            Event::RailsResolved { nics } => Some(nics.clone()),
            _ => None,
        })
        .unwrap();
    let resolved = |nics: &[RailNic]| {
        let nics = nics.to_vec();
        let events = [&events[..], &[Event::RailsResolved { nics }]].concat();
        ledger(&events).pairs().len()
    };
    assert_eq!(resolved(&nics), 12);
    // One that is gone was measured all the same.
    nics[0].nic = Fact::unknown("no such device");
    assert_eq!(resolved(&nics), 12);
    // Another one: the four pairs on its rail that its node is in are to be measured.
    nics[0].nic = Fact::known(
        NicId {
            node: nics[0].node.clone(),
            device: "mlx5_9".into(),
            port: 1,
        },
        "test",
    );
    assert_eq!(resolved(&nics), 8);
}

#[test]
fn when_nothing_can_be_kept_nothing_more_is_probed_of_a_resumed_run() {
    let (.., whole) = run(&[Kind::Well; 3], |_, _| FULL);
    let mut left = 12;
    let stop = AtomicBool::new(false);
    let mut emit = |_: Event| -> Result<(), std::io::Error> {
        left -= 1;
        match left {
            0 => Err(std::io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    };
    let fleet = Fake::new(&[Kind::Well; 3], |_, _| FULL);
    let error = Conductor::new(fleet, settings(3), LIMITS, &stop, &mut emit)
        .after(ledger(&whole[..whole.len() / 2]))
        .run()
        .unwrap_err();
    assert!(matches!(error, ConductError::Emit(_)), "{error}");
    assert_eq!(left, 0);
}
