//! The run in one word, with everything it rests on.

use super::cabling::far;
use super::culprit::{culprits, setup};
use super::fabric::fabric;
use super::rules::{self, Context, Said};
use super::standing::stand;
use super::{NodeView, localise, nccl_told, observe};
use crate::ledger::{Coverage, Ledger};
use crate::model::{CannotTell, Finding, NodeFacts, NodeName, RunEnd, Severity, Verdict};

/// What is to be said of a run.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// Findings, the worst first.
    pub findings: Vec<Finding>,
    /// What a rule would have looked at and could not: neither found nor passed.
    pub cannot_tell: Vec<CannotTell>,
    /// What was measured, and what was not.
    pub coverage: Coverage,
    /// The run in one word.
    pub verdict: Verdict,
}

/// Judges a run as far as it has come. The same ledger gives the same judgement.
pub fn judge(ledger: &Ledger) -> Judgement {
    let coverage = ledger.coverage();
    let Some(settings) = ledger.settings() else {
        return Judgement {
            findings: Vec::new(),
            cannot_tell: Vec::new(),
            coverage,
            verdict: Verdict::CouldNotJudge,
        };
    };
    let observed = observe(ledger);
    let localised = localise(&observed, settings);
    let standings = stand(ledger, &observed, &localised, settings);
    let context = Context {
        ledger,
        expect: &settings.expect,
        observed: &observed,
        culprits: culprits(&standings, setup(settings)),
        standings,
        fabric: fabric(&observed, &localised, settings),
        far: far(ledger, settings),
        nccl: nccl_told(ledger),
        localised,
    };
    let Said {
        findings,
        cannot_tell,
    } = rules::of_run(&context);
    let all_told = context.nccl.iter().all(|told| told.gaps.is_empty());
    let verdict = verdict(ledger, &findings, coverage.is_complete() && all_told);
    Judgement {
        findings,
        cannot_tell,
        coverage,
        verdict,
    }
}

/// What the facts of one node say, without a run: every active port counts.
pub fn inspect(node: &NodeName, facts: &NodeFacts) -> Said {
    rules::of_node_alone(&NodeView::alone(node, facts))
}

/// A proved fault stays proved whatever else could not be judged; without one, only a whole run
/// over everything says that all is well.
fn verdict(ledger: &Ledger, findings: &[Finding], is_whole: bool) -> Verdict {
    let any = |severity| findings.iter().any(|finding| finding.severity == severity);
    let whole = is_whole && ledger.end() == Some(RunEnd::Complete);
    match (any(Severity::Fault), any(Severity::NotJudged) || !whole) {
        (true, _) => Verdict::Faults,
        (false, true) => Verdict::CouldNotJudge,
        (false, false) => Verdict::AtLineRate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::standings;
    use crate::ledger::testing::{events, ledger, probed};
    use crate::model::{Direction, Event, Fact, Outcome, Pair, ProbeId, Rail, Rule, Subject};
    use proptest::prelude::*;

    /// What a NIC at line rate measures here: 400 Gb/s times the payload share at MTU 4096.
    const FULL: f64 = 391.0;

    fn judged(
        nodes: usize,
        rails: u16,
        rate: &dyn Fn(usize, usize, u16) -> Option<f64>,
    ) -> Judgement {
        judge(&ledger(&events(nodes, rails, rate)))
    }

    fn named(judgement: &Judgement) -> Vec<(Rule, String, Option<Direction>)> {
        let subject = |finding: &Finding| match &finding.subject {
            Subject::Nic(nic, _, direction) => (finding.rule, nic.to_string(), *direction),
            other => (finding.rule, format!("{other:?}"), None),
        };
        judgement.findings.iter().map(subject).collect()
    }

    #[test]
    fn a_half_sender_is_named_with_its_evidence() {
        let judgement = judged(3, 2, &|i, _, rail| {
            Some(if (i, rail) == (1, 1) {
                0.5 * FULL
            } else {
                FULL
            })
        });
        assert_eq!(
            named(&judgement),
            [(
                Rule::HalfBandwidth,
                "mlx5_1 of node02".into(),
                Some(Direction::Tx)
            )]
        );
        assert_eq!(judgement.verdict, Verdict::Faults);
        let finding = &judgement.findings[0];
        assert_eq!(
            finding.says,
            "NIC mlx5_1 of node02 (rail 1) sends at 0.50 of expected to 2 of 2 partners (node01, node03), \
             who receive at 1.00 or more from others."
        );
        assert_eq!(finding.evidence.len(), 4);
        assert!(
            finding
                .expected_from
                .as_ref()
                .unwrap()
                .starts_with("line rate 400 Gb/s (/sys/")
        );
    }

    #[test]
    fn two_nodes_cannot_tell_which_end() {
        let judgement = judged(2, 1, &|i, _, _| {
            Some(if i == 0 { 0.5 * FULL } else { FULL })
        });
        assert_eq!(judgement.findings.len(), 1);
        assert_eq!(judgement.findings[0].rule, Rule::SlowPair);
        assert!(
            judgement.findings[0]
                .says
                .contains("which of them cannot be told")
        );
    }

    #[test]
    fn where_no_line_rate_is_known_nobody_speaks_of_one() {
        // A port that states a rate of nothing states none: the pair is not called dead for it.
        let mut events = events(2, 1, &|i, _, _| Some(if i == 0 { 0.5 } else { 1.0 } * FULL));
        for event in &mut events {
            if let Event::NodeSurveyed { facts, .. } = event
                && let Fact::Known { value, .. } = &mut facts.rdma
            {
                value[0].ports[0].rate = Fact::known(crate::model::Gbps(0.0), "rate");
            }
        }
        let judgement = judge(&ledger(&events));
        let rules: Vec<_> = judgement.findings.iter().map(|f| f.rule).collect();
        assert_eq!(rules, [Rule::LineRateUnknown, Rule::SlowPair]);
        let slow = &judgement.findings[1];
        assert!(
            slow.says.contains("at 0.50 of what its rail's best reach"),
            "{}",
            slow.says
        );
        assert!(slow.expected.is_none() && !slow.says.contains("expected"));
    }

    #[test]
    fn a_slow_path_accuses_neither_end() {
        let judgement = judged(4, 1, &|i, j, _| {
            Some(if (i, j) == (0, 2) { 0.4 * FULL } else { FULL })
        });
        assert_eq!(
            judgement
                .findings
                .iter()
                .map(|f| f.rule)
                .collect::<Vec<_>>(),
            [Rule::SlowPath]
        );
    }

    #[test]
    fn a_whole_rail_at_half_is_not_normalised_away() {
        let judgement = judged(4, 2, &|_, _, rail| {
            Some(if rail == 0 { 0.5 * FULL } else { FULL })
        });
        assert_eq!(
            named(&judgement),
            [(Rule::RailBelowExpected, "Rail(Rail(0))".into(), None)]
        );
        let all = judged(4, 2, &|_, _, _| Some(0.5 * FULL));
        assert_eq!(all.findings.len(), 2, "{:#?}", all.findings);
    }

    #[test]
    fn a_bad_nic_on_a_slow_rail_is_still_named() {
        let judgement = judged(5, 1, &|i, _, _| {
            Some(if i == 2 { 0.25 * FULL } else { 0.6 * FULL })
        });
        assert_eq!(
            named(&judgement),
            [
                (
                    Rule::HalfBandwidth,
                    "mlx5_0 of node03".into(),
                    Some(Direction::Tx)
                ),
                (Rule::RailBelowExpected, "Rail(Rail(0))".into(), None)
            ]
        );
    }

    #[test]
    fn three_quarters_is_degraded_not_well() {
        let judgement = judged(4, 1, &|_, j, _| {
            Some(if j == 3 { 0.75 * FULL } else { FULL })
        });
        assert_eq!(
            named(&judgement),
            [(
                Rule::DegradedBandwidth,
                "mlx5_0 of node04".into(),
                Some(Direction::Rx)
            )]
        );
    }

    #[test]
    fn a_failed_pair_is_not_a_pass_and_not_a_zero() {
        let judgement = judged(3, 1, &|i, j, _| {
            if (i, j) == (0, 1) { None } else { Some(FULL) }
        });
        assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
        assert_eq!(judgement.coverage.failed, 1);
        assert_eq!(judgement.findings[0].rule, Rule::ProbeFailed);
        assert!(judgement.findings[0].measured.is_none());
    }

    #[test]
    fn a_run_that_was_cut_off_is_not_a_pass() {
        let mut events = events(3, 1, &|_, _, _| Some(FULL));
        assert_eq!(judge(&ledger(&events)).verdict, Verdict::AtLineRate);
        events.pop();
        assert_eq!(judge(&ledger(&events)).verdict, Verdict::CouldNotJudge);
        assert_eq!(judge(&Ledger::default()).verdict, Verdict::CouldNotJudge);
    }

    #[test]
    fn a_lost_node_leaves_the_others_judged() {
        let mut events = events(4, 1, &|i, j, _| (i != 3 && j != 3).then_some(FULL));
        let lost = Event::NodeLost {
            node: "node04".into(),
            why: "refused".into(),
        };
        events.insert(events.len() - 1, lost);
        let judgement = judge(&ledger(&events));
        assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
        assert_eq!(judgement.coverage.measured, 6);
        assert!(judgement.findings.iter().any(|f| f.rule == Rule::NodeLost));
    }

    #[test]
    fn the_better_of_two_probes_counts() {
        let mut events = events(3, 1, &|i, j, _| {
            Some(if (i, j) == (0, 1) { 0.3 * FULL } else { FULL })
        });
        let before = ledger(&events);
        let again = standings(&before).doubts;
        assert_eq!(again.len(), 1);
        let end = events.pop().unwrap();
        events.extend(probed(ProbeId(99), again[0].pair.clone(), Some(FULL)));
        events.push(end);
        let judgement = judge(&ledger(&events));
        assert_eq!(judgement.verdict, Verdict::AtLineRate);
        let rules: Vec<Rule> = judgement.findings.iter().map(|f| f.rule).collect();
        assert_eq!(rules, [Rule::CameAndWent], "what came and went is noted");
    }

    #[test]
    fn what_failed_once_is_noted() {
        let noted = |why: &str| {
            let mut events = events(3, 1, &|i, j, _| ((i, j) != (0, 1)).then_some(FULL));
            let mut pair = None;
            for event in &mut events {
                match event {
                    Event::RoundPlanned { pairs, .. } => pair = pair.or(pairs.first().cloned()),
                    Event::ProbeEnded {
                        outcome: Outcome::Failed { why: told, .. },
                        ..
                    } => *told = why.to_owned(),
                    _ => {}
                }
            }
            let end = events.pop().unwrap();
            events.extend(probed(ProbeId(99), pair.unwrap().pair, Some(FULL)));
            events.push(end);
            let judgement = judge(&ledger(&events));
            assert_eq!(judgement.verdict, Verdict::AtLineRate);
            let says = judgement.findings.into_iter().map(|finding| {
                assert_eq!(finding.rule, Rule::CameAndWent);
                (finding.says, finding.evidence[0].saw.clone())
            });
            says.collect::<Vec<_>>()
        };
        let pair = "mlx5_0 of node01 → mlx5_0 of node02 on rail 0";
        let says = format!("{pair} failed in one round and was measured in another.");
        assert_eq!(noted("no answer"), [(says, format!("{pair}: no answer"))]);
        assert_eq!(noted(crate::model::NODE_LOST), [], "told of the node");
    }

    #[test]
    fn wrong_bytes_are_a_fault_at_any_speed() {
        let mut events = events(3, 1, &|_, _, _| Some(FULL));
        let wrong = crate::model::Verification {
            bytes_checked: 100,
            bytes_wrong: 1,
            counters: Fact::default(),
            pauses: Fact::default(),
            cpu: Fact::default(),
            memory: None,
        };
        let ended = events.iter_mut().find_map(|event| match event {
            Event::ProbeEnded {
                outcome: Outcome::Measured { verified, .. },
                ..
            } => Some(verified),
            _ => None,
        });
        *ended.unwrap() = Fact::known(wrong, "target");
        let judgement = judge(&ledger(&events));
        assert_eq!(judgement.verdict, Verdict::Faults);
        assert_eq!(judgement.findings[0].rule, Rule::CorruptData);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_planted_direction_is_named_and_no_other(
            nodes in 4usize..14,
            rails in 1u16..4,
            picks in proptest::collection::btree_set((0usize..14, 0u16..4, any::<bool>()), 0..4),
            noise in 0.97f64..1.0,
        ) {
            // Up to a third of a rail's senders or receivers: beyond that partners run out.
            let bad: Vec<_> = picks.into_iter()
                .filter(|(node, rail, _)| *node < nodes && *rail < rails)
                .take(nodes / 3)
                .collect();
            let rate = |i: usize, j: usize, rail: u16| {
                let hit = bad.contains(&(i, rail, true)) || bad.contains(&(j, rail, false));
                let wobble = if (i * 7 + j * 3).is_multiple_of(5) { noise } else { 1.0 };
                Some(FULL * wobble * if hit { 0.52 } else { 1.0 })
            };
            let judgement = judged(nodes, rails, &rate);
            let mut got = named(&judgement);
            got.sort();
            let mut expected: Vec<_> = bad.iter().map(|(node, rail, tx)| (
                Rule::HalfBandwidth,
                format!("mlx5_{rail} of node{:02}", node + 1),
                Some(if *tx { Direction::Tx } else { Direction::Rx }),
            )).collect();
            expected.sort();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn scaling_every_rate_changes_no_accusation(scale in 0.05f64..0.8) {
            let rate = |i: usize, _: usize, _: u16| Some(if i == 1 { 0.5 } else { 1.0 } * scale * FULL);
            let judgement = judged(6, 1, &rate);
            let accused: Vec<_> = judgement.findings.iter()
                .filter(|f| matches!(f.subject, Subject::Nic(..))).map(|f| f.subject.clone()).collect();
            let nic = Pair { from: crate::model::NicId { node: "node02".into(), device: "mlx5_0".into(), port: 1 },
                to: crate::model::NicId { node: "node01".into(), device: "mlx5_0".into(), port: 1 }, rail: Rail(0) }.from;
            prop_assert_eq!(accused, vec![Subject::Nic(nic, Rail(0), Some(Direction::Tx))]);
        }
    }
}
