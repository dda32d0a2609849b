//! What holds of every adaptive sweep, whatever is wrong with the cluster.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use proptest::prelude::*;

use super::adaptive_tests::{adaptive, conduct, faults, half, play, rounds, scenario, slow, sweep};
use super::{FaultKind, plant};
use crate::config::{Fault, Place, Scenario};
use crate::judge::{Judgement, judge, standings};
use crate::ledger::Ledger;
use crate::ledger::testing::ledger;
use crate::model::*;

/// A finding that must be there: its rule, its subject, and what its sentence says.
type Expected = BTreeMap<(Rule, String), &'static str>;

fn nic_of(place: &Place) -> String {
    format!("mlx5_{} of {}", place.rail, place.node)
}

/// What is to be found of a fault.
fn expected(fault: &Fault) -> Expected {
    let both = |nic: &Place, says| -> Expected {
        let half = |way| {
            (
                (Rule::HalfBandwidth, format!("{} {way}", nic_of(nic))),
                says,
            )
        };
        ["tx", "rx"].map(half).into()
    };
    match fault {
        Fault::SlowNic {
            nic,
            direction: Some(direction),
            ..
        } => {
            let name = format!("{} {direction}", nic_of(nic));
            [((Rule::HalfBandwidth, name), "the cause is in the NIC")].into()
        }
        Fault::SlowNic { nic, .. } => both(nic, "the cause is in the NIC"),
        Fault::NarrowPcie { nic, .. } => both(nic, "Its PCIe link trained at Gen5 x8"),
        Fault::HalfDuplex { nic, .. } => {
            both(nic, "it is low only while it sends and receives at once")
        }
        Fault::GpuPath { nic, .. } => both(nic, "the cause is on the way to GPU memory"),
        Fault::OneQueuePair { nic, .. } => {
            let warn = |way| {
                let name = format!("{} {way}", nic_of(nic));
                ((Rule::OneQueuePair, name), "with 4 queue pairs")
            };
            ["tx", "rx"].map(warn).into()
        }
        Fault::SharedSwitch { node, .. } => {
            let subject = (Rule::SharedPcie, node.to_string());
            [(subject, "They share the root port")].into()
        }
        Fault::NodeLimit { node, .. } => {
            let subject = (Rule::NodeLimit, node.to_string());
            [(subject, "What they share on the node is the limit")].into()
        }
        other => panic!("nothing is known of {other:?}"),
    }
}

/// Findings that accuse somebody, and what they say.
fn accusing(judgement: &Judgement) -> BTreeMap<(Rule, String), &str> {
    let findings = judgement.findings.iter();
    let accuse = findings.filter(|finding| {
        finding.severity == Severity::Fault || finding.rule == Rule::OneQueuePair
    });
    accuse
        .map(|finding| {
            let subject = (finding.rule, finding.subject.to_string());
            (subject, finding.says.as_str())
        })
        .collect()
}

/// Plants faults of a kind, plays, and holds what is found against what was planted.
fn check(kind: FaultKind, count: usize, nodes: usize, rails: u16, seed: u64) -> Result<(), String> {
    let mut scenario = scenario(nodes, rails, "");
    plant(&mut scenario, &[kind], count, seed);
    let (_, judgement) = adaptive(&scenario, seed);
    check_found(&scenario, &judgement).map_err(|why| format!("{kind:?}, seed {seed}: {why}"))
}

fn check_found(scenario: &Scenario, judgement: &Judgement) -> Result<(), String> {
    let found = accusing(judgement);
    let expected: Expected = scenario.faults.iter().flat_map(expected).collect();
    if found.keys().ne(expected.keys()) {
        let planted: Vec<_> = expected.keys().collect();
        return Err(format!("planted {planted:?}, found {found:#?}"));
    }
    let wrong = |subject: &(Rule, String), says: &str| !found[subject].contains(says);
    let mut wrong = expected
        .iter()
        .filter(|(subject, says)| wrong(subject, says));
    match wrong.next() {
        Some((subject, _)) => Err(found[subject].to_owned()),
        None => Ok(()),
    }
}

const KINDS: [FaultKind; 9] = [
    FaultKind::SlowSender,
    FaultKind::SlowReceiver,
    FaultKind::SlowNic,
    FaultKind::NarrowPcie,
    FaultKind::SharedSwitch,
    FaultKind::NodeLimit,
    FaultKind::HalfDuplex,
    FaultKind::GpuPath,
    FaultKind::OneQueuePair,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn every_kind_of_fault_is_named_with_its_cause(
        kind in proptest::sample::select(&KINDS[..]),
        nodes in 4usize..65,
        rails in proptest::sample::select(&[4u16, 8][..]),
        count in 1usize..4,
        seed in 0u64..1000,
    ) {
        let count = count.min(nodes / 4);
        check(kind, count, nodes, rails, seed).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn every_kind_of_fault_is_named_among_hundreds_of_nodes() {
    for (seed, kind) in (0..).zip([
        FaultKind::SharedSwitch,
        FaultKind::NodeLimit,
        FaultKind::HalfDuplex,
    ]) {
        check(kind, 6, 256, 4, seed).unwrap();
    }
}

#[test]
fn faults_of_all_kinds_at_once_are_named_and_nobody_else() {
    // With 48 the confirmation of a NIC that had met two bad ones is disturbed in both its halves.
    for seed in [0, 3, 7, 11, 17, 23, 31, 48] {
        let nodes = 8 + (seed as usize * 7) % 50;
        let mut scenario = scenario(nodes, 4, "");
        plant(&mut scenario, &KINDS, (nodes / 5).max(1), seed);
        let (_, judgement) = adaptive(&scenario, seed);
        check_found(&scenario, &judgement).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn a_nic_that_nothing_gets_through_is_no_fault_of_its_partners() {
    for seed in 0..6 {
        let mut scenario = scenario(12, 4, "[outliers]\nshare = 0.0\ndepth = 0.4\n");
        plant(&mut scenario, &[FaultKind::DeadNic], 2, seed);
        let (_, judgement) = adaptive(&scenario, seed);
        assert_eq!(accusing(&judgement), BTreeMap::new(), "seed {seed}");
        assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
        let dead = scenario.faults.iter().filter_map(Fault::node);
        let dead: BTreeSet<String> = dead.map(NodeName::to_string).collect();
        for node in &dead {
            let told = judgement.findings.iter();
            let mut told = told.filter(|finding| finding.rule == Rule::ProbeFailed);
            assert!(told.any(|finding| finding.says.contains(node)), "{node}");
        }
        // Every NIC but those two was measured both ways.
        assert_eq!(
            judgement.coverage.failed,
            2 * 2,
            "{:#?}",
            judgement.findings
        );
        assert_eq!(judgement.coverage.measured, (12 * 4 - 2) * 2);
    }
}

#[test]
fn silence_in_a_round_is_not_death() {
    for seed in 0..6 {
        let text = "silent = 0.03\n[outliers]\nshare = 0.0\ndepth = 0.4\n";
        let (_, judgement) = adaptive(&scenario(40, 2, text), seed);
        // That probes failed for it is worth a note.
        let is_noted =
            |told: &Finding| told.rule == Rule::CameAndWent && told.says.contains("failed");
        let others: Vec<_> = judgement
            .findings
            .iter()
            .filter(|told| !is_noted(told))
            .collect();
        assert!(others.is_empty(), "seed {seed}: {others:#?}");
        assert_eq!(judgement.verdict, Verdict::AtLineRate);
    }
}

#[test]
fn a_bad_receiver_accuses_no_sender() {
    for nodes in [4, 5, 8, 13] {
        for seed in 0..4 {
            let bad = 1 + seed as usize % nodes;
            let (_, judgement) = adaptive(&scenario(nodes, 2, &slow(bad, 1, "rx")), seed);
            assert_eq!(faults(&judgement), BTreeSet::from([half(bad, 1, "rx")]));
        }
    }
}

#[test]
fn nodes_of_two_generations_accuse_nobody() {
    let old = "[[slow_line]]\nnodes = [\"node[001-011]\"]\nline_rate = \"200 Gb/s\"\n";
    for seed in 0..5 {
        let (_, judgement) = adaptive(&scenario(24, 2, old), seed);
        assert_eq!(faults(&judgement), BTreeSet::new(), "seed {seed}");
        // And hide nobody, of either kind.
        let bad = format!("{old}{}{}", slow(3, 1, "tx"), slow(20, 0, "rx"));
        let (_, judgement) = adaptive(&scenario(24, 2, &bad), seed);
        let expected = BTreeSet::from([half(3, 1, "tx"), half(20, 0, "rx")]);
        assert_eq!(faults(&judgement), expected, "seed {seed}");
    }
}

/// The probes of each round without their order and numbers.
fn plan(events: &[Event]) -> Vec<(u32, BTreeSet<(Pair, Purpose)>)> {
    let planned = events.iter().filter_map(|event| match event {
        Event::RoundPlanned { round, pairs } => Some((*round, pairs)),
        _ => None,
    });
    let pairs = |pairs: &Vec<PlannedPair>| -> BTreeSet<(Pair, Purpose)> {
        let pairs = pairs.iter();
        pairs.map(|p| (p.pair.clone(), p.purpose)).collect()
    };
    planned
        .map(|(round, planned)| (round, pairs(planned)))
        .collect()
}

#[test]
fn the_order_of_the_nodes_changes_neither_plan_nor_verdict() {
    let kinds = [
        FaultKind::SlowSender,
        FaultKind::SharedSwitch,
        FaultKind::SlowPath,
        FaultKind::HalfDuplex,
    ];
    for (seed, leaf) in [(3, ""), (4, "leaf_size = 6")] {
        let mut scenario = scenario(24, 4, leaf);
        plant(&mut scenario, &kinds, 4, seed);
        let settings = |seed| RunSettings {
            sweep: SweepSettings {
                fabric: true,
                groups: scenario.settings(seed).unwrap().sweep.groups,
                ..sweep(Pattern::Adaptive)
            },
            ..scenario.settings(seed).unwrap()
        };
        let straight = conduct(&scenario, settings(seed));
        let mut turned = settings(seed);
        turned.nodes.reverse();
        turned.nodes.swap(2, 11);
        let turned = conduct(&scenario, turned);
        assert_eq!(plan(&straight), plan(&turned));
        let findings = |events: &[Event]| judge(&ledger(events)).findings;
        assert_eq!(findings(&straight), findings(&turned));
        let other = conduct(&scenario, settings(seed + 1));
        assert_ne!(plan(&straight)[0], plan(&other)[0]);
    }
}

/// The nodes that a round measures, and those that it measures them against, by what was known
/// before it.
fn parts<'e>(before: &Ledger, pairs: &'e [PlannedPair]) -> [HashSet<&'e NodeName>; 2] {
    let known = standings(before);
    let nics = known.nodes.iter().flat_map(|node| &node.nics);
    let nics: BTreeMap<&NicId, NicStanding> = nics.map(|nic| (&nic.nic, nic.standing)).collect();
    let mut parts = [HashSet::new(), HashSet::new()];
    for planned in pairs {
        let Pair { from, to, .. } = &planned.pair;
        let good = |end: EndStanding| end.standing == Standing::Good;
        match (good(nics[from].tx), good(nics[to].rx)) {
            (true, false) => {
                parts[0].insert(&to.node);
                parts[1].insert(&from.node);
            }
            (false, true) => {
                parts[0].insert(&from.node);
                parts[1].insert(&to.node);
            }
            _ => {}
        }
    }
    parts
}

#[test]
fn nobody_is_measured_and_measured_against_at_once() {
    for seed in 0..3 {
        let mut scenario = scenario(16, 4, "");
        plant(&mut scenario, &KINDS[..7], 5, seed);
        let events = play(&scenario, seed, sweep(Pattern::Adaptive));
        let mut before = Ledger::default();
        let mut rounds_seen = HashSet::new();
        let mut checked = 0;
        for event in &events {
            if let Event::RoundPlanned { round, pairs } = event
                && rounds_seen.insert(*round)
                && pairs.iter().any(|planned| !planned.purpose.is_pattern())
            {
                let [tested, helping] = parts(&before, pairs);
                let both: Vec<_> = tested.intersection(&helping).collect();
                assert!(both.is_empty(), "seed {seed}, round {round}: {both:?}");
                checked += tested.len();
            }
            before.apply(event);
        }
        assert!(checked > 0 && rounds(&events) > 3);
    }
}

#[test]
fn what_scales_every_rate_changes_no_standing() {
    // Of ports that state no rate; nobody can tell a share of the line.
    let scaled = |scale: f64| {
        let rate = |i: usize, j: usize, rail: u16| {
            let bad = (i, rail) == (2, 0) || (j, rail) == (4, 1);
            Some(391.0 * scale * if bad { 0.5 } else { 1.0 - 0.002 * j as f64 })
        };
        let mut events = crate::ledger::testing::events(6, 2, &rate);
        for event in &mut events {
            if let Event::NodeSurveyed { facts, .. } = event
                && let Fact::Known { value, .. } = &mut facts.rdma
            {
                let ports = value.iter_mut().flat_map(|device| &mut device.ports);
                ports.for_each(|port| port.rate = Fact::unknown("test"));
            }
        }
        standings(&ledger(&events))
    };
    let whole = scaled(1.0);
    let accused = |standings: &crate::judge::Standings| {
        let nics = standings.nodes.iter().flat_map(|node| &node.nics);
        nics.filter(|nic| nic.standing.is_accused()).count()
    };
    assert_eq!(accused(&whole), 2);
    for scale in [1e-4, 0.03, 0.5, 1.7, 20.0] {
        assert_eq!(scaled(scale), whole, "{scale}");
    }
}

/// Two NICs below one switch are low together; the confirmation reaches one of them only.
#[test]
fn a_nic_that_is_full_while_its_sibling_idles_is_not_cleared() {
    let full = 391.0;
    let nic = |node: usize, rail: u16| NicId {
        node: NodeName(format!("node{node:02}").into()),
        device: format!("mlx5_{rail}").into(),
        port: 1,
    };
    let low = |i: usize, j: usize, _| Some(if i == 0 || j == 0 { 0.5 } else { 1.0 } * full);
    let mut events = crate::ledger::testing::events(4, 2, &low);
    // The rounds of the pattern load both rails.
    for event in &mut events {
        if let Event::RoundPlanned { round, .. } = event {
            *round /= 2;
        }
    }
    let end = events.pop().unwrap();
    let pair = Pair {
        from: nic(1, 0),
        to: nic(2, 0),
        rail: Rail(0),
    };
    let mut alone = crate::ledger::testing::probed(ProbeId(900), pair, Some(full));
    if let Event::RoundPlanned { pairs, .. } = &mut alone[0] {
        pairs[0].purpose = Purpose::Confirm;
    }
    events.extend(alone);
    events.push(end);
    let standings = standings(&ledger(&events));
    let node = &standings.nodes[0];
    assert_ne!(node.nics[0].standing.tx.standing, Standing::Good);
    let others = standings.nodes[1..].iter().flat_map(|node| &node.nics);
    assert!(others.into_iter().all(RailStanding::is_proved));
}
