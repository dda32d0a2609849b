//! Whole runs over simulated clusters: what is planted is named, and nothing else is.

use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use super::SimulatedFleet;
use crate::cluster::{Conductor, Limits};
use crate::config::{DEMO, Fault, Scenario, read_scenario};
use crate::judge::{Judgement, judge};
use crate::ledger::Ledger;
use crate::model::*;
use crate::report::{Style, json, text};

/// Eight nodes with two rails, noise and outliers as in the demo, and nothing wrong.
fn scenario(more: &str) -> Scenario {
    let text = format!("nodes = 8\nrails = 2\n{more}");
    read_scenario(&text, "test").unwrap_or_else(|errors| panic!("{errors}"))
}

/// Every pair.
fn play_in(scenario: &Scenario, seed: u64, arrange: fn(&mut Vec<NodeName>)) -> Ledger {
    play_pattern(scenario, seed, Pattern::Full, arrange)
}

fn play_pattern(
    scenario: &Scenario,
    seed: u64,
    pattern: Pattern,
    arrange: fn(&mut Vec<NodeName>),
) -> Ledger {
    let mut settings = scenario.settings(seed).unwrap();
    settings.sweep.pattern = pattern;
    arrange(&mut settings.nodes);
    let fleet = SimulatedFleet::new(scenario, &settings.nodes, seed);
    let stop = AtomicBool::new(false);
    let mut ledger = Ledger::default();
    let mut emit = |event: Event| -> Result<(), Infallible> {
        ledger.apply(&event);
        Ok(())
    };
    Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit)
        .run()
        .unwrap();
    ledger
}

fn play(scenario: &Scenario) -> Judgement {
    judge(&play_in(scenario, 1, |_| {}))
}

/// What bears on the verdict, and warnings, as `rule subject`.
fn named(judgement: &Judgement) -> Vec<String> {
    let told = judgement
        .findings
        .iter()
        .filter(|finding| finding.severity != Severity::Note);
    let mut named: Vec<String> = told
        .map(|finding| format!("{} {}", finding.rule, finding.subject))
        .collect();
    named.sort();
    named
}

/// The only things that a planted fault leads to.
fn only(planted: &str, named_as: &[&str], verdict: Verdict) -> Judgement {
    let judgement = play(&scenario(planted));
    assert_eq!(
        named(&judgement),
        named_as,
        "{planted}\n{:#?}",
        judgement.findings
    );
    assert_eq!(judgement.verdict, verdict, "{planted}");
    judgement
}

#[test]
fn a_healthy_cluster_has_nothing_to_tell() {
    for rate in ["100 Gb/s", "200 Gb/s", "400 Gb/s", "800 Gb/s"] {
        for rails in [1, 2, 3, 4, 8, 16] {
            let text =
                format!("nodes = 4\nrails = {rails}\nline_rate = \"{rate}\"\noutliers.share = 0");
            let judgement = play(&read_scenario(&text, "test").unwrap());
            assert_eq!(
                judgement.verdict,
                Verdict::AtLineRate,
                "{text}: {:#?}",
                judgement.findings
            );
            assert_eq!(judgement.findings, [], "{text}");
            assert_eq!(judgement.cannot_tell, [], "{text}");
        }
    }
}

#[test]
fn probes_that_something_came_between_accuse_nobody() {
    let mut low = 0;
    for seed in 1..6 {
        let scenario = scenario("noise = 0.03\n[outliers]\nshare = 0.02\ndepth = 0.6");
        let ledger = play_in(&scenario, seed, |_| {});
        let probes = ledger.probes().filter_map(|probe| probe.rate());
        low += probes.filter(|rate| rate.0 < 300.0).count();
        let judgement = judge(&ledger);
        let rules = judgement.findings.iter().map(|finding| finding.rule);
        let told: Vec<Rule> = rules.filter(|rule| *rule != Rule::CameAndWent).collect();
        assert_eq!(told, [], "seed {seed}");
        assert_eq!(judgement.verdict, Verdict::AtLineRate, "seed {seed}");
    }
    assert!(low > 4, "only {low} outliers");
}

#[test]
fn a_slow_nic_is_named_with_its_direction() {
    use Verdict::Faults;
    let nic = |direction, ratio| {
        format!(
            "[[slow_nic]]\nnode = \"node003\"\nrail = 1\ndirection = \"{direction}\"\nratio = {ratio}"
        )
    };
    let (tx, rx) = ("mlx5_1 of node003 tx", "mlx5_1 of node003 rx");
    only(&nic("tx", 0.5), &[&format!("half-bandwidth {tx}")], Faults);
    only(&nic("rx", 0.5), &[&format!("half-bandwidth {rx}")], Faults);
    let both = [
        format!("half-bandwidth {rx}"),
        format!("half-bandwidth {tx}"),
    ];
    only(&nic("both", 0.5), &both.each_ref().map(|s| &**s), Faults);
    only(
        &nic("tx", 0.75),
        &[&format!("degraded-bandwidth {tx}")],
        Faults,
    );
}

#[test]
fn a_narrow_pcie_link_is_named_as_the_cause() {
    let judgement = only(
        "[[narrow_pcie]]\nnode = \"node002\"\nrail = 0\nwidth = 8",
        &[
            "half-bandwidth mlx5_0 of node002 rx",
            "half-bandwidth mlx5_0 of node002 tx",
        ],
        Verdict::Faults,
    );
    let faults = judgement.findings.iter();
    for finding in faults.filter(|finding| finding.severity == Severity::Fault) {
        let cause = "Its PCIe link trained at Gen5 x8 (capable: Gen5 x16) at 0000:12:00.0";
        assert!(finding.says.contains(cause), "{}", finding.says);
    }
}

#[test]
fn a_slow_path_accuses_neither_end() {
    only(
        "[[slow_path]]\nfrom = \"node002\"\nto = \"node005\"\nrail = 1\nratio = 0.6",
        &["slow-path mlx5_1 of node002 → mlx5_1 of node005 on rail 1"],
        Verdict::Faults,
    );
}

#[test]
fn a_slow_rail_is_named_as_one() {
    only(
        "[[slow_rail]]\nrail = 1\nratio = 0.7",
        &["rail-below-expected rail 1"],
        Verdict::Faults,
    );
}

#[test]
fn a_port_without_a_link_is_named() {
    only(
        "[[port_down]]\nnode = \"node004\"\nrail = 0",
        &["port-down mlx5_0 of node004"],
        Verdict::Faults,
    );
}

#[test]
fn nodes_that_are_lost_or_silent_are_not_judged_and_nobody_else_is_accused() {
    for (fault, says) in [
        ("lost_node", "the connection broke"),
        ("silent_node", "nothing was heard of it for 30 s"),
    ] {
        let text = format!("[[{fault}]]\nnode = \"node006\"\nround = 3");
        let judgement = only(&text, &["node-lost node006"], Verdict::CouldNotJudge);
        assert!(judgement.findings[0].says.contains(says), "{judgement:#?}");
        // The others among each other, and what came before.
        assert!(judgement.coverage.measured > 2 * 7 * 6, "{text}");
        let text = format!("[[{fault}]]\nnode = \"node006\"");
        let judgement = only(&text, &["node-lost node006"], Verdict::CouldNotJudge);
        assert_eq!(judgement.coverage.measured, 2 * 7 * 6, "{text}");
    }
}

#[test]
fn a_small_mtu_is_named_on_each_nic_of_the_node() {
    only(
        "[[small_mtu]]\nnode = \"node007\"\nmtu = 1024",
        &["mtu mlx5_0 of node007", "mtu mlx5_1 of node007"],
        Verdict::AtLineRate,
    );
}

#[test]
fn gpus_out_of_reach_are_named() {
    only(
        "[[no_gpudirect]]\nnode = \"node008\"",
        &["gpudirect-off node008"],
        Verdict::Faults,
    );
}

#[test]
fn two_nodes_and_one_are_simulated_as_well() {
    let two = read_scenario("nodes = 2", "test").unwrap();
    assert_eq!(play(&two).verdict, Verdict::AtLineRate);
    let one = read_scenario("nodes = 1", "test").unwrap();
    assert_eq!(play(&one).verdict, Verdict::CouldNotJudge);
}

/// A report without its settings, which list the nodes as the operator did.
fn report(scenario: &Scenario, seed: u64, arrange: fn(&mut Vec<NodeName>)) -> serde_json::Value {
    let ledger = play_pattern(scenario, seed, Pattern::Adaptive, arrange);
    let mut out = Vec::new();
    json(&ledger, &judge(&ledger), &mut out).unwrap();
    let mut report: serde_json::Value = serde_json::from_slice(&out).unwrap();
    report["settings"].take();
    report
}

#[test]
fn the_same_seed_gives_the_same_report_whatever_the_order() {
    let scenario = read_scenario(DEMO, "demo").unwrap();
    let (scenario, _) = scenario.resized(Some(9), Some(3));
    let first = report(&scenario, 5, |_| {});
    assert_eq!(first["simulated"], true);
    assert!(first == report(&scenario, 5, |_| {}));
    assert!(first == report(&scenario, 5, |nodes| nodes.reverse()));
    assert!(first == report(&scenario, 5, |nodes| nodes.rotate_left(4)));
    assert!(first != report(&scenario, 6, |_| {}));
}

#[test]
fn nothing_exceeds_what_its_links_carry() {
    let ledger = play_in(&read_scenario(DEMO, "demo").unwrap(), 3, |_| {});
    let rates: Vec<Gbps> = ledger.probes().filter_map(|probe| probe.rate()).collect();
    assert!(rates.len() > 900, "{}", rates.len());
    assert!(rates.iter().all(|rate| rate.0 < 400.0 * 0.9937));
}

#[test]
fn the_demo_names_what_it_plants() {
    let scenario = read_scenario(DEMO, "demo").unwrap();
    let ledger = play_pattern(&scenario, 1, Pattern::Adaptive, |_| {});
    let judgement = judge(&ledger);
    let mut out = Vec::new();
    let style = Style {
        color: false,
        width: 100,
    };
    text(&ledger, &judgement, style, &mut out).unwrap();
    let shown = String::from_utf8(out).unwrap();
    assert!(shown.starts_with("SIMULATED: "), "{shown}");
    insta::assert_snapshot!(shown);
    let planted = |fault: &Fault| match (fault, fault.node(), fault.rails().as_slice()) {
        (Fault::SlowPath { from, .. }, ..) => format!("{}", from.node),
        (_, Some(node), [rail]) => format!("mlx5_{rail} of {node}"),
        (_, Some(node), _) => format!("{node}"),
        (_, None, rails) => format!("rail {rails:?}"),
    };
    let named = named(&judgement);
    // A few rounds need not meet one pair of many, and end before a node is lost.
    let shows = |fault: &&Fault| !matches!(fault, Fault::SlowPath { .. } | Fault::LostNode { .. });
    for fault in scenario.faults.iter().filter(shows) {
        let who = planted(fault);
        assert!(
            named.iter().any(|name| name.contains(&who)),
            "{who}: {named:#?}"
        );
    }
}
