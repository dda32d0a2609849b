//! Faults that are not half bandwidth of a NIC: whether they are told, by which rules, and who is accused
//! beside.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use linerate::cluster::{Conductor, Limits};
use linerate::config::{Scenario, read_scenario};
use linerate::judge::judge;
use linerate::ledger::Ledger;
use linerate::model::{Event, Finding, NodeName, Severity, Subject};
use linerate::simulated::{FaultKind, SimulatedFleet, plant};

use super::{RAILS, settings};

/// Each planted at a place that the seed picks.
const KINDS: [FaultKind; 7] = [
    FaultKind::FlakyNic,
    FaultKind::DeadNic,
    FaultKind::SwappedCables,
    FaultKind::SlowPath,
    FaultKind::PortDown,
    FaultKind::LostNode,
    FaultKind::SilentNode,
];

/// Those that are of no place, or need words of their own; `NODE` is one that the seed picks.
const WRITTEN: [(&str, &str); 6] = [
    (
        "LeafUplink",
        "[[leaf_uplink]]\nleaf = 1\nrail = 1\ndirection = \"up\"\nratio = 0.5",
    ),
    ("SlowRail", "[[slow_rail]]\nrail = 1\nratio = 0.5"),
    (
        "SlowLine",
        "[[slow_line]]\nnodes = [\"NODE\"]\nline_rate = \"200 Gb/s\"",
    ),
    ("SmallMtu", "[[small_mtu]]\nnode = \"NODE\"\nmtu = 1024"),
    ("NoGpuDirect", "[[no_gpudirect]]\nnode = \"NODE\""),
    ("Collisions", "[ecmp]\ncollisions = 0.3\nratio = 0.5"),
];

/// What came of one run.
#[derive(Default)]
struct Told {
    rules: BTreeSet<&'static str>,
    rounds: u32,
    /// Faults that are said of places where nothing is planted.
    falsely: usize,
}

/// The words of a scenario of so many nodes, with a leaf switch for each eighth of them.
fn words(nodes: u16) -> String {
    let leaf = (nodes / 8).max(4);
    format!("nodes = {nodes}\nrails = {RAILS}\nleaf_size = {leaf}\n")
}

fn node(nodes: u16, seed: u64) -> NodeName {
    let plain = read_scenario(&words(nodes), "benchmark").unwrap();
    let number = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    plain.name((number % u64::from(nodes)) as u16)
}

/// Runs it, and sorts what is said to what was planted in these nodes, or in no node at all.
fn run(scenario: &Scenario, places: &BTreeSet<NodeName>, fabric: bool, seed: u64) -> Told {
    let mut settings = settings(scenario, seed);
    settings.sweep.fabric = fabric;
    let fleet = SimulatedFleet::new(scenario, &settings.nodes, seed);
    let mut ledger = Ledger::default();
    let mut emit = |event: Event| -> Result<(), Infallible> {
        ledger.apply(&event);
        Ok(())
    };
    let stop = AtomicBool::new(false);
    Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit)
        .run()
        .unwrap();
    let mut told = Told {
        rounds: ledger.next_round(),
        ..Told::default()
    };
    for finding in &judge(&ledger).findings {
        if is_of(finding, places) {
            told.rules.insert(finding.rule.name());
        } else if finding.severity == Severity::Fault {
            told.falsely += 1;
            if std::env::var_os("SWEEP_SHOW").is_some() {
                eprintln!("seed {seed}: {} {}", finding.rule, finding.says);
            }
        }
    }
    told
}

/// Whether a finding is about these nodes; of no nodes, whether it is about more than one.
fn is_of(finding: &Finding, places: &BTreeSet<NodeName>) -> bool {
    let is_there = |node: &NodeName| places.contains(node);
    match &finding.subject {
        Subject::Node(node) | Subject::NodeRail(node, _) | Subject::Device(node, _) => {
            is_there(node)
        }
        Subject::Nic(nic, ..) => is_there(&nic.node),
        Subject::Pair(pair) => is_there(&pair.from.node) || is_there(&pair.to.node),
        Subject::Rail(_) | Subject::LeafGroup(..) => places.is_empty(),
    }
}

fn print(nodes: u16, name: &str, time: Duration, run: &dyn Fn(u64) -> Told) {
    let begin = Instant::now();
    let (mut told, mut falsely, mut most, mut runs) = (0, 0, 0, 0);
    let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
    while runs == 0 || begin.elapsed() < time {
        runs += 1;
        let one = run(runs);
        told += usize::from(!one.rules.is_empty());
        falsely += one.falsely;
        most = most.max(one.rounds);
        for rule in one.rules {
            *rules.entry(rule).or_default() += 1;
        }
    }
    let rules: Vec<String> = rules
        .iter()
        .map(|(rule, n)| format!("{rule} {n}"))
        .collect();
    println!(
        "{nodes:>6}  {name:<14}  {:>9}  {most:>6}  {falsely:>7}  {}",
        format!("{told} of {runs}"),
        rules.join(", "),
    );
}

/// The table of them, at one size.
pub fn table(nodes: u16, time: Duration) {
    println!(
        "{:>6}  {:<14}  {:>9}  {:>6}  {:>7}  by which rules, in how many runs",
        "nodes", "planted", "told", "rounds", "falsely"
    );
    let time = time / (KINDS.len() + WRITTEN.len()) as u32;
    for kind in KINDS {
        print(nodes, &format!("{kind:?}"), time, &|seed| {
            let mut scenario = read_scenario(&words(nodes), "benchmark").unwrap();
            assert_eq!(plant(&mut scenario, &[kind], 1, seed), 1);
            let places = scenario.faults.iter().filter_map(|fault| fault.node());
            let places = places.cloned().collect();
            run(&scenario, &places, false, seed)
        });
    }
    for (name, text) in WRITTEN {
        print(nodes, name, time, &|seed| {
            let node = node(nodes, seed);
            let text = text.replace("NODE", &node.0);
            let scenario = read_scenario(&(words(nodes) + &text), "benchmark").unwrap();
            let places = scenario.faults.iter().filter_map(|fault| fault.node());
            let places = places.cloned().collect();
            run(&scenario, &places, true, seed)
        });
    }
}
