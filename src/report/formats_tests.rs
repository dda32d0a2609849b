//! Every form of one small run that has it all: names that mean something elsewhere, a node that was lost,
//! a pair that failed, a fault; and what a profile says of it.

use std::io::{self, Write};

use proptest::prelude::*;

use super::*;
use crate::judge::judge;
use crate::ledger::testing::{events, ledger};
use crate::model::{
    CheckOutcome, CheckResult, Event, Evidence, Rail, RunEnd, Severity, Verdict, Weight,
};

const FULL: f64 = 391.0;

/// Names that would be markup, a terminal escape, a formula, a mention, a directive, a line of their own.
pub(super) const HOSTILE: [&str; 2] = [
    "<b>node\u{1b}[31m|`x](http://evil)",
    "=cmd()\"'\n@all # TODO \\",
];

/// The events with other names in them.
fn renamed(events: &[Event]) -> Vec<Event> {
    let mut text = serde_json::to_string(events).unwrap();
    for (name, hostile) in ["node01", "node02"].iter().zip(HOSTILE) {
        let hostile = serde_json::to_string(hostile).unwrap();
        text = text.replace(name, hostile.trim_matches('"').trim_start_matches('"'));
    }
    serde_json::from_str(&text).unwrap()
}

/// Five nodes: the first sends at half, the fifth was lost, and a probe of the second and third failed.
fn hostile() -> Ledger {
    let rate = |i: usize, j: usize, _| match (i, j) {
        (4, _) | (_, 4) | (1, 2) => None,
        (0, _) => Some(0.5 * FULL),
        _ => Some(FULL),
    };
    let mut all = events(5, 1, &rate);
    let lost = Event::NodeLost {
        node: "node05".into(),
        why: "no route to host".into(),
    };
    all.insert(all.len() - 1, lost);
    ledger(&renamed(&all))
}

fn acceptance() -> Acceptance {
    let result =
        |check: &str, weight, node: Option<&str>, outcome, saw: Option<&str>| CheckResult {
            check: check.into(),
            weight,
            node: node.map(Into::into),
            rail: node.map(|_| Rail(0)),
            subject: node.map_or("the cluster".into(), |node| format!("mlx5_0 of {node} tx")),
            outcome,
            saw: saw.map(Into::into),
            expected: "at least 360 Gb/s".into(),
            expected_from: "hgx.toml, line 12".into(),
            evidence: vec![Evidence {
                saw: "195 Gb/s".into(),
                from: "probe 3".into(),
            }],
        };
    let why = || "the node was lost".to_owned();
    let excepted = CheckOutcome::Excepted {
        reason: "on loan".into(),
        until: "2027-01-31".into(),
        why: None,
    };
    Acceptance {
        profile: "<HGX> \"H100\"".into(),
        results: vec![
            result("nodes", Weight::Must, None, CheckOutcome::Passed, Some("4")),
            result(
                "rate",
                Weight::Must,
                Some(HOSTILE[0]),
                CheckOutcome::Failed,
                Some("195 Gb/s"),
            ),
            result(
                "rate",
                Weight::Must,
                Some("node05"),
                CheckOutcome::NotJudged { why: why() },
                None,
            ),
            result(
                "rate",
                Weight::Must,
                Some("node03"),
                excepted,
                Some("1 Gb/s"),
            ),
            result(
                "latency",
                Weight::Should,
                Some("node03"),
                CheckOutcome::Failed,
                Some("9 us"),
            ),
            result(
                "latency",
                Weight::Should,
                None,
                CheckOutcome::NotJudged { why: why() },
                None,
            ),
        ],
    }
}

type Writes = fn(&Run<'_>, &mut dyn Write) -> io::Result<()>;

const FORMATS: [(&str, Writes); 6] = [
    ("markdown", markdown),
    ("csv_pairs", csv_pairs),
    ("csv_nodes", csv_nodes),
    ("junit", junit),
    ("tap", tap),
    ("openmetrics", openmetrics),
];

fn written(write: Writes, ledger: &Ledger, acceptance: Option<&Acceptance>) -> String {
    let judgement = judge(ledger);
    let run = Run {
        ledger,
        judgement: &judgement,
        acceptance,
        span: Some(Span {
            began_ms: 1_796_033_700_000,
            ended_ms: 1_796_033_712_500,
        }),
    };
    let mut out = Vec::new();
    write(&run, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_format_of_a_run_with_hostile_names() {
    let ledger = hostile();
    for (name, write) in FORMATS {
        insta::assert_snapshot!(name, written(write, &ledger, None));
    }
}

#[test]
fn every_format_of_what_a_profile_says() {
    let (ledger, acceptance) = (hostile(), acceptance());
    for (name, write) in FORMATS {
        if name.starts_with("csv") {
            continue;
        }
        let text = written(write, &ledger, Some(&acceptance));
        insta::assert_snapshot!(format!("accept_{name}"), text);
    }
}

#[test]
fn nothing_steers_a_terminal() {
    let ledger = hostile();
    for (name, write) in FORMATS {
        for accepted in [None, Some(&acceptance())] {
            let text = written(write, &ledger, accepted);
            let bad = text
                .chars()
                .find(|c| *c != '\n' && crate::model::is_treacherous(*c));
            assert_eq!(bad, None, "{name}: {text}");
        }
    }
}

#[test]
fn an_empty_run_is_well_formed_and_no_pass() {
    let empty = Ledger::default();
    let xml = written(junit, &empty, None);
    let document = roxmltree::Document::parse(&xml).unwrap();
    assert_eq!(
        document.root_element().attribute("errors"),
        Some("2"),
        "{xml}"
    );
    assert!(written(tap, &empty, None).contains("not ok 1 - "));
    let metrics = written(openmetrics, &empty, None);
    assert!(metrics.contains("linerate_verdict{verdict=\"could_not_judge\"} 1\n"));
    assert!(metrics.ends_with("\n# EOF\n"));
    assert_eq!(written(csv_pairs, &empty, None).lines().count(), 1);
    let nothing = Acceptance {
        profile: "empty".into(),
        results: Vec::new(),
    };
    assert!(written(tap, &empty, Some(&nothing)).contains("not ok 1 - cluster: profile empty"));
}

/// The document itself is put together elsewhere; its results are as the schema has them.
#[test]
fn results_of_a_profile_are_what_the_schema_says() {
    let schema = include_str!("../../assets/schema/acceptance.schema.json");
    let schema = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let acceptance = acceptance();
    let counts = serde_json::json!({"passed": 1, "failed": 1, "not_judged": 1, "excepted": 1});
    let mut document = serde_json::json!({
        "schema": 1,
        "linerate": "0.1.0",
        "kind": "acceptance",
        "simulated": false,
        "stand_in_gpu": false,
        "profile": acceptance.profile,
        "verdict": acceptance.verdict(),
        "exit_code": acceptance.verdict().exit_code(),
        "run": RunEnd::Complete,
        "must": counts,
        "should": counts,
        "results": acceptance.results,
    });
    let wrong: Vec<String> = validator
        .iter_errors(&document)
        .map(|e| e.to_string())
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    document["exit_code"] = 0.into();
    assert!(!validator.is_valid(&document));
}

/// What xml's reader finds of failures and errors.
fn counted(xml: &str) -> [usize; 3] {
    let document = roxmltree::Document::parse(xml).unwrap();
    ["testcase", "failure", "error"].map(|tag| {
        document
            .descendants()
            .filter(|n| n.has_tag_name(tag))
            .count()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A CI job that reads the cases comes to what the exit code says.
    #[test]
    fn cases_agree_with_the_verdict(
        nodes in 2usize..6,
        rails in 1u16..3,
        low in proptest::collection::btree_set((0usize..6, 0usize..6, 0u16..3), 0..5),
        failed in proptest::collection::btree_set((0usize..6, 0usize..6, 0u16..3), 0..3),
        lost in proptest::option::of(0usize..6),
        cut in any::<bool>(),
        unknown in any::<bool>(),
    ) {
        let rate = |i: usize, j: usize, rail: u16| {
            let slow = low.iter().any(|(n, m, r)| *r == rail && *n == i && (*m == j || *m == i));
            let bad = failed.contains(&(i, j, rail));
            (!bad).then_some(FULL * if slow { 0.5 } else { 1.0 })
        };
        let mut all = events(nodes, rails, &rate);
        if let Some(node) = lost.filter(|node| *node < nodes) {
            let why = "it was lost".into();
            let node = format!("node{:02}", node + 1).into();
            all.insert(all.len() - 1, Event::NodeLost { node, why });
        }
        if cut {
            all.pop();
        }
        if unknown {
            let text = serde_json::to_string(&all).unwrap();
            all = serde_json::from_str(&text.replace("\"rate\":{\"value\":400.0", "\"rate\":{\"value\":0.0")).unwrap();
        }
        let ledger = ledger(&all);
        let judgement = judge(&ledger);
        let [cases, failures, errors] = counted(&written(junit, &ledger, None));
        prop_assert!(cases > 0);
        match judgement.verdict {
            Verdict::AtLineRate => prop_assert_eq!((failures, errors), (0, 0)),
            Verdict::Faults => prop_assert!(failures > 0),
            Verdict::CouldNotJudge => prop_assert!(failures == 0 && errors > 0),
        }
        let count = |severity| judgement.findings.iter().filter(|f| f.severity == severity).count();
        prop_assert_eq!(count(Severity::Fault) > 0, failures > 0);
        let tap = written(tap, &ledger, None);
        let plan = format!("1..{cases}");
        prop_assert!(tap.lines().any(|line| line == plan));
        let bad = tap.lines().filter(|line| line.starts_with("not ok")).count();
        prop_assert_eq!(bad, failures + errors);
        let interrupted = ledger.end() != Some(RunEnd::Complete);
        prop_assert_eq!(interrupted, cut);
    }
}
