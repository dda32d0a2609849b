//! How a comparison reads.

use serde_json::Value;

use super::*;
use crate::compare::{Nodes, Side, compare};
use crate::judge::judge;
use crate::ledger::testing::{events, ledger};
use crate::model::testing::pcie::TwoSockets;
use crate::model::*;

const FULL: f64 = 391.0;

const STYLE: Style = Style {
    color: false,
    width: 100,
};

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

fn shown(before: &[Event], after: &[Event], style: Style) -> (String, Value) {
    let ledgers = [ledger(before), ledger(after)];
    let judged = [judge(&ledgers[0]), judge(&ledgers[1])];
    let side = |at: usize| Side {
        ledger: &ledgers[at],
        judgement: &judged[at],
    };
    let found = compare(side(0), side(1), Nodes::All).unwrap();
    let run = |name, at: usize| ComparedRun {
        name,
        began: Some("2026-11-30T10:15:00Z"),
        linerate: "0.1.0",
        ledger: &ledgers[at],
        verdict: judged[at].verdict,
    };
    let runs = [run("before.jsonl", 0), run("after.jsonl", 1)];
    let mut out = Vec::new();
    text(&found, runs, style, &mut out).unwrap();
    let said = String::from_utf8(out).unwrap();
    let mut out = Vec::new();
    json(&found, runs, &mut out).unwrap();
    (said, serde_json::from_slice(&out).unwrap())
}

fn before() -> Vec<Event> {
    let events = events(8, 2, &|_, _, _| Some(FULL));
    let dead =
        |facts: &mut NodeFacts| device(facts, 0).firmware = Fact::unknown("fw_ver cannot be read");
    with(with(events, 6, &dead), 5, &|facts| {
        *facts = TwoSockets::facts()
    })
}

/// Firmware on all nodes but one, an MTU, a NIC at half, one that failed, a GPU and a node that are gone,
/// counters.
fn after() -> Vec<Event> {
    let mut after = events(7, 2, &|i, j, rail| match (i, j, rail) {
        (1, _, 1) => Some(FULL / 2.0),
        (3, _, 0) | (_, 3, 0) => None,
        _ => Some(FULL),
    });
    for node in (1..=7).filter(|node| *node != 3) {
        after = with(after, node, &|facts| {
            for at in [0, 1] {
                device(facts, at).firmware = Fact::known("28.43.1014".into(), "fw_ver");
            }
        });
    }
    after = with(after, 4, &|facts| {
        device(facts, 1).ports[0].active_mtu = Fact::known(1024, "active_mtu");
    });
    with(after, 5, &|facts| {
        *facts = TwoSockets::facts();
        let Fact::Known { value: tree, .. } = &mut facts.pcie else {
            panic!("no tree");
        };
        let gpu = tree
            .functions
            .iter()
            .position(|f| f.role == PciRole::Gpu)
            .unwrap();
        tree.functions.remove(gpu);
    })
}

#[test]
fn a_comparison_reads_well() {
    let (text, _) = shown(&before(), &after(), STYLE);
    insta::assert_snapshot!(text);
    let (back, _) = shown(&after(), &before(), STYLE);
    insta::assert_snapshot!("the_other_way_round", back);
    let same = events(3, 1, &|_, _, _| Some(FULL));
    let (same, _) = shown(&same, &same, STYLE);
    insta::assert_snapshot!("nothing_changed", same);
}

#[test]
fn a_comparison_for_programs_says_the_same() {
    let (_, mut json) = shown(&before(), &after(), STYLE);
    let fields = json.as_object_mut().unwrap();
    assert_eq!(
        fields.remove("linerate"),
        Some(env!("CARGO_PKG_VERSION").into())
    );
    insta::assert_json_snapshot!(json);
}

#[test]
fn colours_say_only_what_words_say() {
    let color = Style {
        color: true,
        ..STYLE
    };
    let (plain, _) = shown(&before(), &after(), STYLE);
    let (painted, _) = shown(&before(), &after(), color);
    assert!(painted.contains("\u{1b}[1;31mSLOWER\u{1b}[0m"), "{painted}");
    let codes = ["1;31", "1;32", "1;33", "1"];
    let bare = codes
        .iter()
        .fold(painted.replace("\u{1b}[0m", ""), |text, code| {
            text.replace(&format!("\u{1b}[{code}m"), "")
        });
    assert_eq!(bare, plain);
}

#[test]
fn what_a_node_calls_itself_steers_no_terminal() {
    let hostile = |facts: &mut NodeFacts| {
        facts.kernel = Fact::known("6.1\u{1b}[2J\u{202e}x".into(), "uname");
        device(facts, 0).firmware = Fact::known("<b>\n\nFAULT".into(), "fw_ver");
    };
    let same = events(3, 1, &|_, _, _| Some(FULL));
    let (text, json) = shown(&same, &with(same.clone(), 2, &hostile), STYLE);
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{202e}'),
        "{text}"
    );
    assert!(
        !text.lines().any(|line| line.starts_with("FAULT")),
        "{text}"
    );
    assert!(
        json["facts"]
            .as_array()
            .is_some_and(|facts| facts.len() == 2),
        "{json}"
    );
}
