//! The ways between leaf groups over simulated clusters, and cables in the wrong switch.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::adaptive_tests::{check_round, conduct, faults, half, play, scenario, slow, sweep};
use crate::config::Scenario;
use crate::judge::{Judgement, judge, standings};
use crate::ledger::testing::ledger;
use crate::model::*;

const CALM: &str = "[outliers]\nshare = 0.0\ndepth = 0.4\n";

fn fabric() -> SweepSettings {
    SweepSettings {
        fabric: true,
        ..sweep(Pattern::Adaptive)
    }
}

fn judged(scenario: &Scenario, seed: u64, sweep: SweepSettings) -> (Vec<Event>, Judgement) {
    let events = play(scenario, seed, sweep);
    let judgement = judge(&ledger(&events));
    (events, judgement)
}

fn uplink(leaf: usize, rail: u16, direction: &str, ratio: f64) -> String {
    format!(
        "[[leaf_uplink]]\nleaf = {leaf}\nrail = {rail}\ndirection = \"{direction}\"\nratio = {ratio}\n"
    )
}

fn named(leaf: usize, rail: u16, direction: &str) -> String {
    format!("leaf-uplink leaf{leaf} on rail {rail} {direction}")
}

/// The probes between leaf groups.
fn between(events: &[Event]) -> Vec<&PlannedPair> {
    let planned = events.iter().filter_map(|event| match event {
        Event::RoundPlanned { pairs, .. } => Some(pairs),
        _ => None,
    });
    let of_fabric = |planned: &&PlannedPair| planned.purpose == Purpose::Fabric;
    planned.flatten().filter(of_fabric).collect()
}

fn rules(judgement: &Judgement, rule: Rule) -> Vec<&Finding> {
    let findings = judgement.findings.iter();
    findings.filter(|finding| finding.rule == rule).collect()
}

#[test]
fn an_uplink_at_half_is_named_with_its_rail_and_direction() {
    for direction in ["up", "down"] {
        let text = format!("leaf_size = 8\n{}", uplink(2, 1, direction, 0.5));
        let scenario = scenario(32, 2, &text);
        let (events, judgement) = judged(&scenario, 3, fabric());
        assert_eq!(
            faults(&judgement),
            BTreeSet::from([named(2, 1, direction)]),
            "{:#?}",
            judgement.findings
        );
        let says = &rules(&judgement, Rule::LeafUplink)[0].says;
        let does = match direction {
            "up" => "The nodes of leaf2 send to other leaf groups on rail 1 at 0.5",
            _ => "The nodes of leaf2 receive from other leaf groups on rail 1 at 0.5",
        };
        assert!(says.starts_with(does), "{says}");
        assert!(rules(&judgement, Rule::FlowCollisions).is_empty());
        for event in &events {
            if let Event::RoundPlanned { pairs, .. } = event {
                check_round(pairs);
            }
        }
        // Without being asked nobody crosses the spine for it.
        let (events, judgement) = judged(&scenario, 3, sweep(Pattern::Adaptive));
        assert!(between(&events).is_empty());
        assert_eq!(judgement.verdict, Verdict::AtLineRate);
    }
}

#[test]
fn a_healthy_fabric_is_silent() {
    for (nodes, leaf_size) in [(8, 4), (12, 4), (24, 4), (30, 6), (9, 1)] {
        let text = format!("leaf_size = {leaf_size}\n{CALM}");
        let (events, judgement) = judged(&scenario(nodes, 2, &text), 1, fabric());
        assert_eq!(judgement.findings, [], "{nodes}");
        assert_eq!(judgement.verdict, Verdict::AtLineRate, "{nodes}");
        assert!(!between(&events).is_empty());
    }
}

#[test]
fn collisions_accuse_no_nic_and_no_leaf() {
    for (collisions, ratio) in [(0.1, 0.4), (0.3, 0.4), (0.58, 0.5), (0.82, 0.4)] {
        for seed in 0..4 {
            let text = format!(
                "leaf_size = 8\n{CALM}[ecmp]\ncollisions = {collisions}\nratio = {ratio}\n"
            );
            let (events, judgement) = judged(&scenario(48, 2, &text), seed, fabric());
            assert_eq!(faults(&judgement), BTreeSet::new(), "{collisions} {seed}");
            let told: BTreeSet<Rule> = judgement.findings.iter().map(|f| f.rule).collect();
            assert_eq!(told, BTreeSet::from([Rule::FlowCollisions]), "{collisions}");
            assert_eq!(judgement.verdict, Verdict::AtLineRate);
            let standings = standings(&ledger(&events));
            let mut nics = standings.nodes.iter().flat_map(|node| &node.nics);
            assert!(nics.all(RailStanding::is_proved));
        }
    }
}

#[test]
fn an_uplink_is_named_beside_collisions() {
    let text = format!(
        "leaf_size = 16\n{CALM}[ecmp]\ncollisions = 0.2\nratio = 0.5\n{}",
        uplink(3, 0, "up", 0.4)
    );
    for seed in 0..3 {
        let (_, judgement) = judged(&scenario(96, 1, &text), seed, fabric());
        assert_eq!(
            faults(&judgement),
            BTreeSet::from([named(3, 0, "up")]),
            "{:#?}",
            judgement.findings
        );
    }
}

#[test]
fn a_bad_nic_sits_out() {
    let text = format!(
        "leaf_size = 6\n{}{}[[dead_nic]]\nnode = \"node010\"\nrail = 0\n",
        slow(3, 1, "tx"),
        uplink(1, 0, "down", 0.5)
    );
    let (events, judgement) = judged(&scenario(24, 2, &text), 2, fabric());
    let expected = BTreeSet::from([half(3, 1, "tx"), named(1, 0, "down")]);
    assert_eq!(faults(&judgement), expected);
    let nics: HashSet<String> = between(&events)
        .iter()
        .flat_map(|planned| [planned.pair.from.to_string(), planned.pair.to.to_string()])
        .collect();
    assert_eq!(nics.len(), 24 * 2 - 2);
    assert!(!nics.contains("mlx5_1 of node003") && !nics.contains("mlx5_0 of node010"));
}

#[test]
fn two_groups_cannot_tell_which_of_them() {
    let text = format!("leaf_size = 8\n{CALM}{}", uplink(1, 0, "up", 0.5));
    let (_, judgement) = judged(&scenario(16, 2, &text), 1, fabric());
    assert_eq!(faults(&judgement), BTreeSet::new());
    let told = rules(&judgement, Rule::FlowCollisions);
    assert_eq!(told.len(), 1, "{:#?}", judgement.findings);
    assert_eq!(told[0].severity, Severity::Warning);
    assert!(
        told[0].says.contains("leaf1 sends at 0.5"),
        "{}",
        told[0].says
    );
    assert!(told[0].says.contains("leaf2 receives at 0.5"));
}

#[test]
fn an_uplink_is_named_one_way_at_a_time_and_with_half_of_the_nodes() {
    let text = format!("leaf_size = 8\n{}", uplink(3, 1, "down", 0.5));
    let scenario = scenario(48, 2, &text);
    for sweep in [
        SweepSettings {
            both_ways: false,
            ..fabric()
        },
        SweepSettings {
            max_load: 0.5,
            ..fabric()
        },
    ] {
        let (events, judgement) = judged(&scenario, 1, sweep);
        let expected = BTreeSet::from([named(3, 1, "down")]);
        assert_eq!(faults(&judgement), expected, "{:#?}", judgement.findings);
        assert!(!between(&events).is_empty());
    }
}

#[test]
fn what_is_never_loaded_is_said_not_to_be_measured() {
    // The first leaf has eight nodes, the other two: its links are never full.
    let text = format!("leaf_size = 8\n{CALM}");
    let (_, judgement) = judged(&scenario(10, 1, &text), 1, fabric());
    let told = rules(&judgement, Rule::LeafUplink);
    assert_eq!(told.len(), 1, "{:#?}", judgement.findings);
    assert_eq!(told[0].severity, Severity::NotJudged);
    assert!(told[0].says.contains("leaf1") && !told[0].says.contains("leaf2"));
    assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn planted_uplinks_are_named_and_no_others(
        leafs in 3usize..8,
        size in 3usize..9,
        rails in 1u16..3,
        picks in proptest::collection::btree_set((1usize..8, 0u16..3, any::<bool>()), 0..3),
        seed in 0u64..1000,
    ) {
        let mut bad = BTreeSet::new();
        let picks: Vec<_> = picks.into_iter()
            .filter(|(leaf, rail, _)| *leaf <= leafs && *rail < rails && bad.insert(*leaf))
            .take(leafs / 3)
            .collect();
        let way = |up: bool| if up { "up" } else { "down" };
        let text: String = picks.iter().map(|(leaf, rail, up)| uplink(*leaf, *rail, way(*up), 0.5)).collect();
        let scenario = scenario(leafs * size, rails, &format!("leaf_size = {size}\n{text}"));
        let (_, judgement) = judged(&scenario, seed, fabric());
        let expected: BTreeSet<String> = picks.iter().map(|(leaf, rail, up)| named(*leaf, *rail, way(*up))).collect();
        prop_assert_eq!(faults(&judgement), expected);
    }

    #[test]
    fn groups_of_any_size_accuse_nobody(
        nodes in 4usize..50,
        size in 2usize..12,
        collisions in 0.0f64..0.8,
        seed in 0u64..1000,
    ) {
        // A node without a neighbour is measured over the spine, where collisions are.
        let nodes = if nodes % size == 1 { nodes - 1 } else { nodes };
        let text = format!("leaf_size = {size}\n[ecmp]\ncollisions = {collisions:.2}\nratio = 0.5\n");
        let (_, judgement) = judged(&scenario(nodes, 1, &text), seed, fabric());
        // A path between two may well be slow.
        let mut accused = faults(&judgement);
        accused.retain(|fault| !fault.starts_with("slow-path"));
        prop_assert_eq!(accused, BTreeSet::new());
    }
}

fn swapped(node: usize, rails: [u16; 2]) -> String {
    format!("[[swapped_cables]]\nnode = \"node{node:03}\"\nrails = {rails:?}\n")
}

#[test]
fn swapped_cables_are_named_with_their_true_rails() {
    for (leaf, pattern) in [
        ("leaf_size = 8\n", Pattern::Adaptive),
        ("leaf_size = 8\n", Pattern::Quick),
        ("", Pattern::Adaptive),
    ] {
        let text = format!("{leaf}{CALM}{}{}", swapped(7, [1, 3]), swapped(20, [0, 1]));
        let (_, judgement) = judged(&scenario(24, 4, &text), 5, sweep(pattern));
        let told = rules(&judgement, Rule::WrongRail);
        assert_eq!(
            judgement.findings.len(),
            2,
            "{leaf}: {:#?}",
            judgement.findings
        );
        let says: BTreeSet<&str> = told.iter().map(|finding| finding.says.as_str()).collect();
        for start in [
            "mlx5_1 and mlx5_3 of node007 are cabled into each other's rail: mlx5_1 (rail 1) is 2.0",
            "mlx5_0 and mlx5_1 of node020 are cabled into each other's rail: mlx5_0 (rail 0) is 2.0",
        ] {
            assert!(says.iter().any(|says| says.starts_with(start)), "{says:#?}");
        }
        assert!(
            says.iter()
                .all(|says| says.contains("µs from its own, and mlx5_")),
            "{says:#?}"
        );
        assert_eq!(told[0].severity, Severity::Warning);
    }
}

#[test]
fn a_cable_that_nobody_has_the_place_of_is_told_by_itself() {
    // The cables of rails 0 and 2 changed places, that of rail 1 is in the switch of rail 0.
    let text = format!(
        "leaf_size = 8\n{CALM}{}{}",
        swapped(7, [0, 1]),
        swapped(7, [2, 0])
    );
    let (_, judgement) = judged(&scenario(24, 4, &text), 5, sweep(Pattern::Adaptive));
    let told = rules(&judgement, Rule::WrongRail);
    let says: BTreeSet<&str> = told.iter().map(|finding| finding.says.as_str()).collect();
    assert_eq!(says.len(), 2, "{says:#?}");
    for start in [
        "mlx5_0 and mlx5_2 of node007 are cabled into each other's rail",
        "The cable of mlx5_1 of node007 (rail 1) is in the switch of rail 0: ",
    ] {
        assert!(says.iter().any(|says| says.starts_with(start)), "{says:#?}");
    }
}

#[test]
fn where_leaf_groups_are_not_known_a_far_node_is_no_wrong_cable() {
    for leaf_size in [4, 8, 12] {
        for seed in 0..4 {
            let scenario = scenario(24, 3, &format!("leaf_size = {leaf_size}\n{CALM}"));
            let mut settings = scenario.settings(seed).unwrap();
            settings.sweep = sweep(Pattern::Adaptive);
            let judgement = judge(&ledger(&conduct(&scenario, settings)));
            assert_eq!(judgement.findings, [], "{leaf_size} {seed}");
        }
    }
}
