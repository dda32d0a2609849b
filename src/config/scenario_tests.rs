//! What a scenario file may say, and what is said about one that is wrong.

use proptest::prelude::*;

use super::*;
use crate::model::Gbps;

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
    assert_eq!(opened.faults.len(), shown.faults.len() + 2);
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
