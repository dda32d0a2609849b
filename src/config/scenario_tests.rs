//! What a scenario file may say, and what is said about one that is wrong.

use proptest::prelude::*;

use super::*;
use crate::model::{Gbps, MemoryKind};

fn good(text: &str) -> Scenario {
    read_scenario(text, "scenario.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn bad(text: &str) -> String {
    match read_scenario(text, "scenario.toml") {
        Ok(scenario) => panic!("this was accepted: {scenario:?}"),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn an_empty_scenario_is_the_demo_without_its_faults() {
    let demo = good(DEMO);
    assert!(demo.faults.len() > 5, "{demo:?}");
    let faults = Vec::new();
    assert_eq!(good(""), Scenario { faults, ..demo });
}

/// Every key that the demo only shows is one that exists: it is read with its comments open.
#[test]
fn what_the_demo_shows_in_comments_is_right() {
    let opened: String = DEMO
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(shown) if shown.contains(" = ") || shown.starts_with('[') => format!("{shown}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let (opened, shown) = (good(&opened), good(DEMO));
    assert_eq!(opened.faults.len(), shown.faults.len() + 14);
}

#[test]
fn everything_can_be_said() {
    let scenario = good(
        r#"
nodes = 3
rails = 2
line_rate = "800 Gb/s"
mtu = 2048
noise = 0
outliers = { share = 0.1, depth = 0.9 }
[[slow_nic]]
node = "node003"
rail = 1
direction = "both"
ratio = 0.25
[[silent_node]]
node = "node002"
"#,
    );
    assert_eq!(scenario.generation.line_rate(), Gbps(800.0));
    insta::assert_debug_snapshot!(scenario);
    let names: Vec<_> = scenario.names().into_iter().map(|name| name.0).collect();
    assert_eq!(names, ["node001", "node002", "node003"]);
    let settings = scenario.settings(7).unwrap();
    assert!(settings.simulated);
    assert_eq!((settings.nodes.len(), settings.seed), (3, 7));
}

#[test]
fn every_fault_can_be_said() {
    let scenario = good(
        r#"
nodes = 8
rails = 2
memory = "gpu"
silent = 0.005
leaf_size = 4
ecmp = { collisions = 0.3, ratio = 0.4 }
[[shared_switch]]
node = "node001"
rails = [0, 1]
ratio = 0.5
[[node_limit]]
node = "node002"
ratio = 0.6
[[half_duplex]]
node = "node003"
rail = 0
ratio = 0.5
[[gpu_path]]
node = "node003"
rail = 1
ratio = 0.5
[[one_queue_pair]]
node = "node004"
rail = 1
ratio = 0.5
[[flaky_nic]]
node = "node005"
rail = 0
share = 0.3
ratio = 0.5
[[dead_nic]]
node = "node005"
rail = 1
[[swapped_cables]]
node = "node006"
rails = [1, 0]
[[slow_line]]
nodes = ["node[007-008]"]
line_rate = "200 Gb/s"
[[leaf_uplink]]
leaf = 2
rail = 1
direction = "down"
ratio = 0.5
"#,
    );
    insta::assert_debug_snapshot!(scenario);
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    let said = [
        "nodse = 3",
        "nodes = 0\nrails = 17",
        "nodes = \"3\"",
        "nodes = 100000000000000000000",
        "line_rate = \"40 Gb/s\"",
        "mtu = 1500",
        "noise = nan\n[outliers]\nshare = -0.1\ndepth = inf",
        "[outliers]\nshear = 0.1",
        "[[slow_nic]]\nnode = \"node5\"\nrail = 4\ndirection = \"up\"\nratio = 1.5",
        "[[slow_nic]]\nnode = \"node001\"",
        "[slow_nic]\nnode = \"node001\"",
        "[[slow_nic]]\nnoed = \"node001\"\n[[slow_nic]]\nratoi = 1",
        "[[narrow_pcie]]\nnode = \"node001\"\nrail = -1\nwidth = 16",
        "[[slow_path]]\nfrom = \"node001\"\nto = \"node001\"\nrail = 0\nratio = 0.5",
        "[[lost_node]]\nnode = \"node017\"\nround = 0",
        "[[shared_switch]]\nnode = \"node001\"\nrails = [0, 4, 1]\nratio = 0.5",
        "[[shared_switch]]\nnode = \"node001\"\nrails = [2, 2]\nratio = 0.5",
        "[[swapped_cables]]\nnode = \"node001\"\nrails = [0, 1, 2]",
        "[[swapped_cables]]\nnode = \"node001\"\nrails = \"0, 1\"",
        "[[flaky_nic]]\nnode = \"node001\"\nrail = 0\nshare = 0\nratio = 0.5",
        "[[gpu_path]]\nnode = \"node001\"\nrail = 0\ndirection = \"in\"\nratio = 0.5",
        "leaf_size = 8\n[[leaf_uplink]]\nleaf = 3\nrail = 0\ndirection = \"tx\"\nratio = 0",
        "[[slow_line]]\nnodes = [\"node[014-018]\", \"node[1-\"]\nline_rate = \"250 Gb/s\"",
        "[[slow_line]]\nline_rate = \"200 Gb/s\"",
        "nodes = 1024\n[[dead_nic]]\nnode = \"node005\"\nrail = 0",
        "memory = \"gpus\"\nsilent = 0.2\nleaf_size = 0\n[ecmp]\ncollisions = 2",
        "nodes = [\n",
    ]
    .map(|text| format!("{text}\n\n{}", bad(text)));
    insta::assert_snapshot!(said.join("\n\n----\n\n"));
}

#[test]
fn faults_on_what_is_not_there_are_left_out() {
    let demo = good(DEMO);
    let all = demo.faults.len();
    let (same, left_out) = demo.clone().resized(None, Some(4));
    assert_eq!((same, left_out), (demo.clone(), 0));
    let (small, left_out) = demo.resized(Some(4), Some(1));
    assert_eq!((small.nodes, small.rails), (4, 1));
    assert_eq!(left_out, all - small.faults.len());
    let mtu = 1024;
    let node = "node002".into();
    assert_eq!(small.faults, [Fault::SmallMtu { node, mtu }]);
}

#[test]
fn nodes_have_as_many_digits_as_their_number_needs() {
    let named = |nodes: u16, number: u16| {
        let scenario = good(&format!("nodes = {nodes}"));
        let name = scenario.name(number);
        assert_eq!(scenario.number(&name), Some(number));
        assert_eq!(scenario.names()[usize::from(number)], name);
        name.0
    };
    assert_eq!(named(999, 998), "node999");
    assert_eq!(named(1000, 0), "node0001");
    assert_eq!(named(16384, 16383), "node16384");
    let small = good("nodes = 20");
    for stranger in [
        "node021", "node000", "node1", "node+01", "nodes001", "node0001", "001",
    ] {
        assert_eq!(small.number(&stranger.into()), None, "{stranger}");
    }
}

#[test]
fn faults_stay_on_their_nodes_where_names_get_longer() {
    let demo = good(DEMO);
    let (large, left_out) = demo.clone().resized(Some(4096), Some(8));
    assert_eq!(left_out, 0);
    let numbers = |scenario: &Scenario| -> Vec<_> {
        let nodes = scenario.faults.iter().filter_map(Fault::node);
        nodes.map(|node| scenario.number(node).unwrap()).collect()
    };
    assert_eq!(numbers(&large), numbers(&demo));
    let (same, left_out) = large.resized(Some(16), Some(4));
    assert_eq!((same, left_out), (demo, 0));
}

#[test]
fn leafs_are_groups_of_the_run() {
    assert_eq!(good("").settings(1).unwrap().sweep.groups, []);
    let scenario = good("nodes = 5\nleaf_size = 2\nmemory = \"gpu\"");
    let settings = scenario.settings(1).unwrap();
    let groups: Vec<_> = settings.sweep.groups.iter().collect();
    let sizes: Vec<_> = groups.iter().map(|group| group.nodes.len()).collect();
    assert_eq!((sizes, scenario.leafs()), (vec![2, 2, 1], 3));
    assert_eq!(groups[2].nodes, [scenario.name(4)]);
    assert_eq!(settings.probe.memory, MemoryKind::Gpu);
    let small = good(
        "nodes = 16\nleaf_size = 4\n[[leaf_uplink]]\nleaf = 4\nrail = 0\ndirection = \"down\"\nratio = 0.5",
    );
    assert_eq!(small.resized(Some(12), None).1, 1);
}

proptest! {
    #[test]
    fn any_text_is_a_scenario_or_has_problems(
        text in "(?s).{0,80}|(nodes|slow_nic|rail|node|mtu|=|\\[\\[|\\]\\]|\"|,|node001|3|0\\.5|\n){0,24}"
    ) {
        if let Err(errors) = read_scenario(&text, "x") {
            prop_assert!(!errors.problems.is_empty());
        }
    }
}
