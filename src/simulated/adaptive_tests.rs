//! The adaptive sweep over simulated clusters: what is planted is named in a few rounds, whatever else
//! comes in between, and nobody else is.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::SimulatedFleet;
use crate::cluster::{Conductor, Limits};
use crate::config::{Scenario, read_scenario};
use crate::judge::{Judgement, judge};
use crate::ledger::testing::ledger;
use crate::model::*;

pub(super) fn scenario(nodes: usize, rails: u16, more: &str) -> Scenario {
    let text = format!("nodes = {nodes}\nrails = {rails}\n{more}");
    read_scenario(&text, "test").unwrap_or_else(|errors| panic!("{text}: {errors}"))
}

pub(super) fn sweep(pattern: Pattern) -> SweepSettings {
    SweepSettings {
        pattern,
        both_ways: true,
        ..SweepSettings::default()
    }
}

/// The events of a run over a scenario, with its leaf groups.
pub(super) fn play(scenario: &Scenario, seed: u64, sweep: SweepSettings) -> Vec<Event> {
    let mut settings = scenario.settings(seed).unwrap();
    settings.sweep = SweepSettings {
        groups: settings.sweep.groups,
        ..sweep
    };
    conduct(scenario, settings)
}

/// The events of a run with these settings.
pub(super) fn conduct(scenario: &Scenario, settings: RunSettings) -> Vec<Event> {
    let seed = settings.seed;
    let fleet = SimulatedFleet::new(scenario, &settings.nodes, seed);
    let stop = AtomicBool::new(false);
    let mut events = Vec::new();
    let mut emit = |event: Event| -> Result<(), Infallible> {
        events.push(event);
        Ok(())
    };
    Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit)
        .run()
        .unwrap();
    events
}

pub(super) fn adaptive(scenario: &Scenario, seed: u64) -> (Vec<Event>, Judgement) {
    let events = play(scenario, seed, sweep(Pattern::Adaptive));
    let judgement = judge(&ledger(&events));
    (events, judgement)
}

/// The rounds that were played; one that was played twice is one.
pub(super) fn rounds(events: &[Event]) -> usize {
    let rounds = events.iter().filter_map(|event| match event {
        Event::RoundPlanned { round, .. } => Some(*round),
        _ => None,
    });
    rounds.collect::<BTreeSet<_>>().len()
}

/// Faults, as `rule subject`.
pub(super) fn faults(judgement: &Judgement) -> BTreeSet<String> {
    let faults = judgement.findings.iter();
    let faults = faults.filter(|finding| finding.severity == Severity::Fault);
    faults
        .map(|finding| format!("{} {}", finding.rule, finding.subject))
        .collect()
}

pub(super) fn slow(node: usize, rail: u16, direction: &str) -> String {
    format!(
        "[[slow_nic]]\nnode = \"node{node:03}\"\nrail = {rail}\ndirection = \"{direction}\"\nratio = 0.5\n"
    )
}

pub(super) fn half(node: usize, rail: u16, direction: &str) -> String {
    format!("half-bandwidth mlx5_{rail} of node{node:03} {direction}")
}

#[test]
fn every_nic_of_a_healthy_cluster_is_measured_in_two_rounds() {
    for (nodes, expected) in [(2, 1), (3, 3), (4, 3), (5, 2), (40, 2)] {
        let calm = "[outliers]\nshare = 0.0\ndepth = 0.4";
        let (events, judgement) = adaptive(&scenario(nodes, 4, calm), 1);
        assert_eq!(
            judgement.verdict,
            Verdict::AtLineRate,
            "{nodes}: {judgement:#?}"
        );
        assert_eq!(judgement.findings, [], "{nodes}");
        assert_eq!(rounds(&events), expected, "{nodes} nodes");
        assert_eq!(judgement.coverage.measured, nodes * 4 * 2);
    }
}

#[test]
fn a_slow_direction_is_named_in_three_rounds_and_its_cause_in_five() {
    let scenario = scenario(40, 4, &slow(7, 2, "tx"));
    let (events, judgement) = adaptive(&scenario, 3);
    assert_eq!(faults(&judgement), BTreeSet::from([half(7, 2, "tx")]));
    let says = &judgement.findings[0].says;
    assert!(says.contains("the cause is in the NIC"), "{says}");
    // Two matchings, the confirmation, then alone, one way, and with more queue pairs.
    assert_eq!(rounds(&events), 6, "{judgement:#?}");
}

#[test]
fn where_both_partners_of_a_nic_are_bad_it_is_cleared() {
    // Every node but two of a rail receives badly: whoever they meet, they look bad at sending.
    let bad: String = (3..=8).map(|node| slow(node, 0, "rx")).collect();
    for seed in 0..10 {
        let (_, judgement) = adaptive(&scenario(8, 1, &bad), seed);
        let expected: BTreeSet<String> = (3..=8).map(|node| half(node, 0, "rx")).collect();
        assert_eq!(faults(&judgement), expected, "seed {seed}: {judgement:#?}");
    }
}

#[test]
fn two_nodes_say_either_or_and_three_tell() {
    let (_, judgement) = adaptive(&scenario(2, 1, &slow(1, 0, "tx")), 1);
    let rules: Vec<Rule> = judgement.findings.iter().map(|f| f.rule).collect();
    assert_eq!(rules, [Rule::SlowPair], "{judgement:#?}");
    for direction in ["tx", "rx"] {
        let (_, judgement) = adaptive(&scenario(3, 1, &slow(1, 0, direction)), 1);
        assert_eq!(faults(&judgement), BTreeSet::from([half(1, 0, direction)]));
    }
    let (_, judgement) = adaptive(&scenario(1, 1, ""), 1);
    assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
}

#[test]
fn a_rail_or_a_cluster_at_half_is_told_as_one() {
    let (_, judgement) = adaptive(&scenario(12, 2, "[[slow_rail]]\nrail = 1\nratio = 0.5"), 1);
    assert_eq!(
        faults(&judgement),
        BTreeSet::from(["rail-below-expected rail 1".to_owned()])
    );
}

#[test]
fn half_of_a_rail_is_named_one_by_one() {
    let bad: String = (1..=12).map(|node| slow(node, 0, "tx")).collect();
    let (_, judgement) = adaptive(&scenario(24, 2, &bad), 5);
    let expected: BTreeSet<String> = (1..=12).map(|node| half(node, 0, "tx")).collect();
    assert_eq!(faults(&judgement), expected);
}

#[test]
fn neighbours_with_one_fault_are_all_named() {
    let bad: String = (10..14).map(|node| slow(node, 1, "rx")).collect();
    let (_, judgement) = adaptive(&scenario(32, 2, &bad), 2);
    let expected: BTreeSet<String> = (10..14).map(|node| half(node, 1, "rx")).collect();
    assert_eq!(faults(&judgement), expected);
}

#[test]
fn a_lost_or_silent_node_accuses_nobody() {
    for fault in ["lost_node", "silent_node"] {
        for round in 1..3 {
            let text = format!("[[{fault}]]\nnode = \"node006\"\nround = {round}\n");
            let (_, judgement) = adaptive(&scenario(12, 2, &(text + &slow(3, 1, "tx"))), 4);
            let expected = BTreeSet::from([half(3, 1, "tx")]);
            assert_eq!(
                faults(&judgement),
                expected,
                "{fault} in {round}: {judgement:#?}"
            );
            let rules: BTreeSet<Rule> = judgement.findings.iter().map(|f| f.rule).collect();
            assert!(
                rules.contains(&Rule::NodeLost),
                "{fault} in {round}: {judgement:#?}"
            );
        }
    }
}

/// No NIC sends twice or receives twice in a round, no node is there with two others unless it is the
/// one that is measured, and nobody is measured against itself.
pub(super) fn check_round(pairs: &[PlannedPair]) {
    let mut sends = HashSet::new();
    let mut receives = HashSet::new();
    let mut partners: HashMap<&NicId, &NicId> = HashMap::new();
    for planned in pairs {
        let Pair { from, to, .. } = &planned.pair;
        assert_ne!(from.node, to.node);
        assert!(sends.insert(from), "{from} sends twice");
        assert!(receives.insert(to), "{to} receives twice");
        for (nic, other) in [(from, to), (to, from)] {
            let partner = partners.entry(nic).or_insert(other);
            assert_eq!(*partner, other, "{nic} has two partners");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_planted_is_named_and_nobody_else_is(
        nodes in 6usize..40,
        rails in 1u16..5,
        picks in proptest::collection::btree_set((1usize..40, 0u16..5, 0usize..3), 0..6),
        seed in 0u64..1000,
    ) {
        let ways = ["tx", "rx", "both"];
        let mut places = HashSet::new();
        let picks: Vec<_> = picks.into_iter()
            .filter(|(node, rail, _)| *node <= nodes && *rail < rails && places.insert((*node, *rail)))
            .take(nodes / 3)
            .collect();
        let bad: String = picks.iter().map(|(node, rail, way)| slow(*node, *rail, ways[*way])).collect();
        let (events, judgement) = adaptive(&scenario(nodes, rails, &bad), seed);
        let mut expected = BTreeSet::new();
        for (node, rail, way) in picks {
            let ways: &[&str] = match ways[way] { "both" => &["tx", "rx"], one => &[one] };
            expected.extend(ways.iter().map(|way| half(node, rail, way)));
        }
        prop_assert_eq!(faults(&judgement), expected);
        for event in &events {
            if let Event::RoundPlanned { pairs, .. } = event {
                check_round(pairs);
            }
        }
    }
}
