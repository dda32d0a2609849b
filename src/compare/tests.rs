//! Whole comparisons.

use proptest::prelude::*;

use super::Outcome;
use super::*;
use crate::judge::judge;
use crate::ledger::testing::{events, ledger, probed};
use crate::model::testing::pcie::TwoSockets;
use crate::model::*;

const FULL: f64 = 391.0;

fn held(before: &[Event], after: &[Event], nodes: Nodes) -> Result<Comparison, Refusal> {
    let ledgers = [ledger(before), ledger(after)];
    let judged = [judge(&ledgers[0]), judge(&ledgers[1])];
    let side = |at: usize| Side {
        ledger: &ledgers[at],
        judgement: &judged[at],
    };
    compare(side(0), side(1), nodes)
}

fn between(before: &[Event], after: &[Event]) -> Comparison {
    held(before, after, Nodes::All).unwrap()
}

fn healthy(nodes: usize, rails: u16) -> Vec<Event> {
    events(nodes, rails, &|_, _, _| Some(FULL))
}

/// Changes the facts of a node, from 1.
fn with(mut events: Vec<Event>, number: usize, change: &dyn Fn(&mut NodeFacts)) -> Vec<Event> {
    let name = NodeName::from(format!("node{number:02}"));
    for event in &mut events {
        if let Event::NodeSurveyed { node, facts } = event
            && *node == name
        {
            change(facts);
        }
    }
    events
}

fn device(facts: &mut NodeFacts, at: usize) -> &mut RdmaDevice {
    let Fact::Known { value, .. } = &mut facts.rdma else {
        panic!("no devices");
    };
    &mut value[at]
}

fn asked(mut events: Vec<Event>, change: &dyn Fn(&mut RunSettings)) -> Vec<Event> {
    if let Event::RunStarted { settings, .. } = &mut events[0] {
        change(settings);
    }
    events
}

/// What is told of rates, in a word each.
fn told(found: &Comparison) -> Vec<String> {
    let groups = found.rates.groups.iter();
    let word =
        |group: &RateGroup| format!("{:?} {:?} {:.2}", group.trend(), group.scope, group.ratio());
    groups.map(word).collect()
}

fn is_quiet(found: &Comparison) -> bool {
    let changes = [
        found.rates.groups.len(),
        found.rates.pairs.len(),
        found.presence.len(),
        found.facts.len(),
        found.counters.len(),
        found.findings.len(),
        found.settings.len(),
    ];
    changes == [0; 7]
}

#[test]
fn a_run_is_as_itself() {
    let half = events(4, 2, &|i, _, _| {
        Some(if i == 1 { FULL / 2.0 } else { FULL })
    });
    for events in [healthy(2, 1), healthy(4, 2), half] {
        let found = between(&events, &events);
        assert!(is_quiet(&found), "{found:#?}");
        assert_eq!(found.gaps, []);
        assert_eq!(found.outcome(), Outcome::NoRegression);
        assert_eq!(found.compared.ends, found.compared.of_ends);
        assert!(found.compared.facts > 0);
    }
}

#[test]
fn a_nic_that_sends_at_half_is_one_regression_and_its_finding_is_no_second() {
    let slow = events(4, 2, &|i, _, rail| {
        Some(if (i, rail) == (1, 1) {
            FULL / 2.0
        } else {
            FULL
        })
    });
    let found = between(&healthy(4, 2), &slow);
    assert_eq!(found.regressions(), 1, "{found:#?}");
    let [group] = &found.rates.groups[..] else {
        panic!("{:#?}", found.rates.groups);
    };
    assert!(
        matches!(&group.scope, Scope::End(end) if end.direction == Direction::Tx && end.nic.to_string() == "mlx5_1 of node02")
    );
    assert!((group.ratio() - 0.5).abs() < 0.01);
    assert!(
        found.findings.iter().all(|change| change.is_told),
        "{:#?}",
        found.findings
    );
    assert_eq!(found.findings.len(), 1);
    assert_eq!(found.outcome(), Outcome::Regressions);
    let back = between(&slow, &healthy(4, 2));
    assert_eq!(
        (back.regressions(), back.improvements()),
        (0, 1),
        "{back:#?}"
    );
    assert_eq!(back.outcome(), Outcome::NoRegression);
}

#[test]
fn what_a_rail_a_node_or_all_did_is_told_once() {
    let but = |is: &'static dyn Fn(usize, usize, u16) -> bool| {
        let events = events(6, 4, &move |i, j, rail| {
            Some(if is(i, j, rail) { 0.8 * FULL } else { FULL })
        });
        told(&between(&healthy(6, 4), &events))
    };
    assert_eq!(but(&|_, _, rail| rail == 2), ["Worse Rail(Rail(2)) 0.80"]);
    assert_eq!(but(&|_, _, _| true), ["Worse Cluster 0.80"]);
    let node = but(&|i, j, _| i == 3 || j == 3);
    assert_eq!(node, [r#"Worse Node(NodeName("node04")) 0.80"#]);
    let nic = but(&|i, j, rail| rail == 1 && (i == 3 || j == 3));
    assert_eq!(nic.len(), 1);
    assert!(nic[0].starts_with("Worse Nic(Rail(1), NicId"), "{nic:?}");
}

#[test]
fn where_two_nodes_cannot_tell_the_end_the_pair_is_named() {
    let mut slow = events(2, 1, &|i, _, _| {
        Some(if i == 0 { FULL / 2.0 } else { FULL })
    });
    // It was measured once more, as a sweep does.
    let end = slow.pop().unwrap();
    let pair = slow.iter().find_map(|event| match event {
        Event::RoundPlanned { pairs, .. } => Some(pairs[0].pair.clone()),
        _ => None,
    });
    slow.extend(probed(ProbeId(99), pair.unwrap(), Some(FULL / 2.0)));
    slow.push(end);
    let found = between(&healthy(2, 1), &slow);
    assert_eq!(found.rates.pairs.len(), 1, "{found:#?}");
    assert_eq!(
        found.rates.pairs[0].pair.to_string(),
        "mlx5_0 of node01 → mlx5_0 of node02 on rail 0"
    );
    assert_eq!(
        found.regressions(),
        1,
        "the finding is of the same pair: {:#?}",
        found.findings
    );
}

#[test]
fn one_slow_probe_is_no_proof() {
    // Of three nodes an end has two probes: the slow one is not the faster of them.
    let once = events(3, 1, &|i, j, _| {
        Some(if (i, j) == (0, 1) { 0.9 * FULL } else { FULL })
    });
    let found = between(&healthy(3, 1), &once);
    assert_eq!(told(&found), Vec::<String>::new());
    assert_eq!(found.outcome(), Outcome::NoRegression);
    // Of two nodes it has one: nobody can tell.
    let only = events(2, 1, &|i, _, _| {
        Some(if i == 0 { 0.9 * FULL } else { FULL })
    });
    let found = between(&healthy(2, 1), &only);
    assert_eq!(told(&found), Vec::<String>::new());
    assert_eq!(found.outcome(), Outcome::CouldNotCompare);
    assert!(
        found.gaps[0].why.contains("only one probe"),
        "{:#?}",
        found.gaps
    );
}

#[test]
fn facts_that_changed_are_told_together_and_who_stayed_is_named() {
    let mut after = healthy(8, 2);
    for node in 1..=7 {
        after = with(after, node, &|facts| {
            for at in [0, 1] {
                device(facts, at).firmware = Fact::known("28.43.1014".into(), "fw_ver");
            }
        });
    }
    after = with(after, 3, &|facts| {
        device(facts, 1).ports[0].active_mtu = Fact::known(1024, "active_mtu");
    });
    let found = between(&healthy(8, 2), &after);
    let firmware = found
        .facts
        .iter()
        .find(|group| group.what == "firmware")
        .unwrap();
    assert_eq!((firmware.places.len(), firmware.of), (14, 16));
    assert_eq!(firmware.trend, Trend::Other);
    let stays: Vec<_> = firmware
        .stays
        .values()
        .flatten()
        .filter_map(Place::node)
        .collect();
    assert_eq!(stays, [&NodeName::from("node08"); 2]);
    let mtu = found
        .facts
        .iter()
        .find(|group| group.what == "RDMA MTU")
        .unwrap();
    assert_eq!((mtu.trend, mtu.places.len()), (Trend::Worse, 1));
    assert_eq!(mtu.values, Some(["4096".into(), "1024".into()]));
    // The rules find the MTU, and that two firmwares are about: neither is told as a second regression.
    assert_eq!(found.regressions(), 1, "{:#?}", found.findings);
}

#[test]
fn a_narrower_slot_is_worse_and_a_lost_gpu_is_gone() {
    let before = with(healthy(3, 1), 2, &|facts| *facts = TwoSockets::facts());
    let gone = |facts: &mut NodeFacts| {
        let Fact::Known { value: tree, .. } = &mut facts.pcie else {
            panic!("no tree");
        };
        let gpu = tree
            .functions
            .iter()
            .position(|f| f.role == PciRole::Gpu)
            .unwrap();
        tree.functions.remove(gpu);
    };
    let after = with(before.clone(), 2, &gone);
    let found = between(&before, &after);
    let things: Vec<_> = found
        .presence
        .iter()
        .map(|told| (told.way, told.trend()))
        .collect();
    assert_eq!(things, [(Way::Gone, Trend::Worse)]);
    assert!(
        matches!(&found.presence[0].thing, Thing::Gpu(node, _) if *node == NodeName::from("node02"))
    );
    let unread = |facts: &mut NodeFacts| {
        gone(facts);
        if let Fact::Known { value: tree, .. } = &mut facts.pcie {
            tree.unread.push("0000:0f:00.0: cannot be read".into());
        }
    };
    let found = between(&before, &with(before.clone(), 2, &unread));
    assert_eq!(found.presence, []);
    assert_eq!(
        found.outcome(),
        Outcome::CouldNotCompare,
        "it may be the one that is not read"
    );
}

#[test]
fn a_fact_that_is_unknown_now_is_no_equal_one() {
    let unknown = |facts: &mut NodeFacts| {
        device(facts, 0).ports[0].active_mtu = Fact::unknown("active_mtu cannot be read");
        device(facts, 0).firmware = Fact::unknown("fw_ver cannot be read");
    };
    let found = between(&healthy(3, 1), &with(healthy(3, 1), 1, &unknown));
    let said: Vec<_> = found
        .gaps
        .iter()
        .map(|gap| (gap.what.as_str(), gap.matters))
        .collect();
    assert!(
        said.contains(&("RDMA MTU", true)) && said.contains(&("firmware", false)),
        "{said:?}"
    );
    assert_eq!(found.outcome(), Outcome::CouldNotCompare);
    // An older linerate that did not look makes nothing worse.
    let older = |facts: &mut NodeFacts| device(facts, 0).ports[0].active_mtu = Fact::default();
    let found = between(&healthy(3, 1), &with(healthy(3, 1), 1, &older));
    assert!(
        found
            .gaps
            .iter()
            .any(|gap| gap.what == "RDMA MTU" && !gap.matters),
        "{:#?}",
        found.gaps
    );
}

#[test]
fn what_was_not_measured_cannot_be_compared() {
    let dead = events(4, 1, &|i, j, _| (i != 3 && j != 3).then_some(FULL));
    let found = between(&healthy(4, 1), &dead);
    assert_eq!(found.outcome(), Outcome::CouldNotCompare, "{found:#?}");
    let rates = found.gaps.iter().filter(|gap| gap.what == "rate").count();
    assert_eq!(
        (rates, found.compared.ends, found.compared.of_ends),
        (2, 6, 8)
    );
    let mut lost = healthy(4, 1);
    lost.retain(|event| !matches!(event, Event::NodeSurveyed { node, .. } if *node == NodeName::from("node04")));
    let found = between(&healthy(4, 1), &lost);
    assert!(
        found
            .gaps
            .iter()
            .any(|gap| gap.what == "node" && gap.matters)
    );
    assert_eq!(found.outcome(), Outcome::CouldNotCompare);
}

#[test]
fn nodes_that_only_one_was_asked_for_are_left_out_if_that_is_meant() {
    let found = between(&healthy(4, 1), &healthy(3, 1));
    assert_eq!(found.outcome(), Outcome::CouldNotCompare);
    assert_eq!(found.presence.len(), 1);
    assert_eq!((found.compared.nodes, found.compared.of_nodes), (3, 4));
    let found = held(&healthy(4, 1), &healthy(3, 1), Nodes::Common).unwrap();
    assert_eq!(found.outcome(), Outcome::NoRegression, "{found:#?}");
    assert_eq!((found.compared.nodes, found.compared.of_nodes), (3, 3));
    let other = asked(healthy(2, 1), &|settings| {
        settings.nodes = vec!["x".into(), "y".into()]
    });
    assert_eq!(
        held(&healthy(2, 1), &other, Nodes::All)
            .unwrap()
            .compared
            .nodes,
        2
    );
}

#[test]
fn runs_that_move_data_in_other_ways_have_no_rates_in_common() {
    let changes: [&dyn Fn(&mut RunSettings); 4] = [
        &|settings| settings.probe.memory = MemoryKind::Gpu,
        &|settings| settings.probe.message_size = Bytes(4096),
        &|settings| settings.probe.queue_pairs = 4,
        &|settings| settings.sweep.both_ways = true,
    ];
    let half = events(4, 1, &|_, _, _| Some(FULL / 2.0));
    for change in changes {
        let found = between(&healthy(4, 1), &asked(half.clone(), change));
        assert_eq!((found.rates.compared, told(&found).len()), (0, 0));
        assert!(
            found
                .gaps
                .iter()
                .any(|gap| gap.what == "rates" && gap.matters)
        );
        assert_eq!(found.settings.len(), 1);
    }
    let other = |settings: &mut RunSettings| {
        settings.probe.duration_ms = 500;
        settings.sweep.matchings = 5;
        settings.seed = 9;
    };
    let found = between(&healthy(4, 1), &asked(half, &other));
    assert_eq!(told(&found), ["Worse Cluster 0.50"]);
    assert_eq!(
        found.settings.len(),
        2,
        "a seed is none of what was asked for"
    );
}

#[test]
fn what_is_simulated_is_not_held_against_what_was_measured() {
    let simulated = asked(healthy(2, 1), &|settings| settings.simulated = true);
    let refused = held(&healthy(2, 1), &simulated, Nodes::All);
    assert_eq!(refused, Err(Refusal::Simulated));
    assert!(held(&simulated, &simulated, Nodes::All).is_ok());
    assert_eq!(held(&[], &simulated, Nodes::All), Err(Refusal::NoRun));
}

#[test]
fn other_expectations_make_no_regression() {
    // 0.9 is well, until less than 0.95 is degraded.
    let slow = events(4, 1, &|i, _, _| {
        Some(if i == 1 { 0.9 * FULL } else { FULL })
    });
    let strict = asked(slow.clone(), &|settings| {
        settings.expect.degraded_below = 0.95
    });
    let found = between(&slow, &strict);
    assert_eq!(
        (found.regressions(), found.findings.len()),
        (0, 0),
        "{:#?}",
        found.findings
    );
    assert!(
        found
            .gaps
            .iter()
            .any(|gap| gap.why.contains("different expectations"))
    );
    assert_eq!(found.settings[0].name, "expect.degraded_below");
}

#[test]
fn counters_that_went_up_are_counted_and_reset_ones_are_not() {
    let count = |events: Vec<Event>, value: u64, uptime: u64| {
        with(events, 1, &move |facts| {
            facts.uptime_s = Fact::known(uptime, "/proc/uptime");
            let counter = Counter {
                name: "symbol_error".into(),
                value,
                saturates_at: saturates_at("symbol_error"),
            };
            let counters = Counters {
                values: vec![counter],
                unread: Vec::new(),
            };
            device(facts, 0).ports[0].counters = Fact::known(counters, "counters");
        })
    };
    let at = |value, uptime| count(healthy(3, 1), value, uptime);
    let counted = |before: &[Event], after: &[Event]| {
        let (changes, gaps) = counters(&ledger(before), &ledger(after));
        (
            changes
                .iter()
                .map(|change| change.counted)
                .collect::<Vec<_>>(),
            gaps.len(),
        )
    };
    assert_eq!(counted(&at(3, 10), &at(3, 20)), (vec![], 0));
    assert_eq!(counted(&at(3, 10), &at(8, 20)), (vec![Counted::By(5)], 0));
    assert_eq!(
        counted(&at(3, 10), &at(65_535, 20)),
        (vec![Counted::ToItsEnd], 0)
    );
    assert_eq!(counted(&at(8, 10), &at(3, 20)), (vec![], 1));
    assert_eq!(counted(&at(8, 10), &at(0, 20)), (vec![], 1));
    // Restarted meanwhile: it counts from zero, so 8 are not 5 more.
    assert_eq!(counted(&at(3, 30), &at(8, 20)), (vec![], 1));
    let found = between(&at(3, 10), &at(8, 20));
    assert_eq!(
        found.outcome(),
        Outcome::NoRegression,
        "errors are counted in any long run"
    );
}

#[test]
fn the_order_of_nodes_is_none() {
    let slow = events(5, 2, &|i, _, rail| {
        Some(if (i, rail) == (1, 1) {
            FULL / 2.0
        } else {
            FULL
        })
    });
    let reversed = asked(slow.clone(), &|settings| settings.nodes.reverse());
    assert_eq!(
        between(&healthy(5, 2), &slow),
        between(&healthy(5, 2), &reversed)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn swapped_runs_mirror_each_other(shares in prop::collection::vec(0.3f64..1.0, 4), which in 0usize..4) {
        let run = |shares: &[f64]| {
            let shares = shares.to_vec();
            events(4, 1, &move |i, _, _| Some(FULL * shares[i]))
        };
        let mut others = shares.clone();
        others[which] = 1.0;
        let (one, other) = (run(&shares), run(&others));
        let there = between(&one, &other);
        let back = between(&other, &one);
        let mirrored = |found: &Comparison, trend: Trend| {
            let groups = found.rates.groups.iter().filter(|group| group.trend() == trend);
            groups.map(|group| group.scope.clone()).collect::<BTreeSet<_>>()
        };
        for (trend, mirror) in [(Trend::Worse, Trend::Better), (Trend::Better, Trend::Worse)] {
            prop_assert_eq!(mirrored(&there, trend), mirrored(&back, mirror));
        }
        prop_assert!(is_quiet(&between(&one, &one)));
    }

    #[test]
    fn a_run_cut_off_anywhere_is_compared_and_never_passes_for_a_whole_one(cut in any::<prop::sample::Index>()) {
        let whole = healthy(3, 2);
        let part = &whole[..=cut.index(whole.len() - 1)];
        let found = between(&whole, part);
        let measured = found.compared.ends == found.compared.of_ends && found.compared.nodes == 3;
        let outcome = found.outcome();
        prop_assert!(measured || outcome != Outcome::NoRegression, "{:#?}", found.gaps);
        prop_assert_eq!(between(part, part).regressions(), 0);
    }
}
