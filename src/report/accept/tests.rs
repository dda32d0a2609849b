//! What an acceptance looks like, with a node that would steer the terminal.

use super::*;
use crate::judge::judge;
use crate::ledger::Ledger;
use crate::ledger::testing::{events, ledger};
use crate::model::{Evidence, NodeName, Rail};
use crate::report::Style;

fn result(check: &str, weight: Weight, subject: &str, outcome: CheckOutcome) -> CheckResult {
    let seen = matches!(outcome, CheckOutcome::Passed | CheckOutcome::Failed);
    CheckResult {
        check: check.into(),
        weight,
        node: Some(NodeName::from("node02")),
        rail: Some(Rail(1)),
        subject: subject.into(),
        saw: seen.then(|| "184 Gb/s".into()),
        expected: "at least 360 Gb/s".into(),
        expected_from: "profile.toml, line 12".into(),
        evidence: match outcome {
            CheckOutcome::Failed => vec![Evidence {
                saw: "184 Gb/s".into(),
                from: "probe 7, mlx5_1 of node02 → mlx5_1 of node03".into(),
            }],
            _ => Vec::new(),
        },
        outcome,
    }
}

fn why(why: &str) -> CheckOutcome {
    CheckOutcome::NotJudged { why: why.into() }
}

fn acceptance() -> Acceptance {
    let borne = CheckOutcome::Excepted {
        reason: "cable is on order".into(),
        until: "2027-03-31".into(),
        why: None,
    };
    let (must, should) = (Weight::Must, Weight::Should);
    let mut results = vec![
        result("coverage", must, "node02", CheckOutcome::Passed),
        result(
            "bandwidth",
            must,
            "mlx5_1 of node02 tx",
            CheckOutcome::Passed,
        ),
        result(
            "bandwidth",
            must,
            "mlx5_1 of evil\u{1b}[2J|name tx",
            CheckOutcome::Failed,
        ),
        result("bandwidth", must, "mlx5_1 of node03 tx", borne),
        result(
            "mtu",
            must,
            "mlx5_1 of node04",
            why("node04 was lost: no\u{202e} route"),
        ),
        result("firmware", should, "mlx5_1 of node05", CheckOutcome::Failed),
    ];
    for node in 6..20 {
        let subject = format!("mlx5_0 of node{node:02} rx");
        results.push(result("bandwidth", must, &subject, CheckOutcome::Failed));
    }
    Acceptance {
        profile: "test".into(),
        results,
    }
}

fn text_of(acceptance: &Acceptance, ledger: &Ledger, style: Style) -> String {
    let mut out = Vec::new();
    accept_text(ledger, &judge(ledger), acceptance, style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

const PLAIN: Style = Style {
    color: false,
    width: 100,
};

#[test]
fn the_text_begins_with_the_verdict_and_hides_nothing() {
    let ledger = ledger(&events(3, 1, &|_, _, _| Some(391.0)));
    let text = text_of(&acceptance(), &ledger, PLAIN);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    insta::assert_snapshot!(text);
    let color = Style {
        color: true,
        ..PLAIN
    };
    assert!(text_of(&acceptance(), &ledger, color).starts_with("\u{1b}[1;31mNOT ACCEPTED"));
    let narrow = Style { width: 60, ..PLAIN };
    let lines = text_of(&acceptance(), &ledger, narrow);
    let words = lines
        .lines()
        .take_while(|line| !line.starts_with("check "))
        .skip(1);
    assert!(
        words.clone().count() > 20 && words.into_iter().all(|line| line.chars().count() <= 62),
        "{lines}"
    );
}

#[test]
fn what_is_accepted_is_short() {
    let ledger = ledger(&events(3, 1, &|_, _, _| Some(391.0)));
    let accepted = Acceptance {
        profile: "test".into(),
        results: acceptance().results[..2].to_vec(),
    };
    let text = text_of(&accepted, &ledger, PLAIN);
    assert!(
        text.starts_with("ACCEPTED by \"test\": 2 of 2 musts hold.\n"),
        "{text}"
    );
    assert!(!text.contains("The run that it was held against"));
    let nothing = Acceptance {
        profile: "test".into(),
        results: Vec::new(),
    };
    assert!(
        text_of(&nothing, &ledger, PLAIN)
            .starts_with("COULD NOT JUDGE by \"test\": 0 of 0 musts hold")
    );
}

#[test]
fn programs_get_every_result() {
    let ledger = ledger(&events(3, 1, &|_, _, _| Some(391.0)));
    let mut out = Vec::new();
    let acceptance = acceptance();
    accept_json(&ledger, &acceptance, &mut out).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(document["must"]["failed"], 15);
    assert_eq!(
        document["results"].as_array().unwrap().len(),
        acceptance.results.len()
    );
    let back: Vec<CheckResult> = serde_json::from_value(document["results"].clone()).unwrap();
    assert_eq!(back, acceptance.results);
    let text = String::from_utf8(out).unwrap();
    let first: String = text.lines().take(60).collect::<Vec<_>>().join("\n");
    insta::with_settings!({filters => vec![(r#""linerate": "[^"]+""#, r#""linerate": "VERSION""#)]}, {
        insta::assert_snapshot!(first);
    });
}

#[test]
fn nagios_gets_a_line_and_a_code() {
    let all = acceptance();
    assert_eq!(nagios_code(&all), 2);
    let line = nagios_line(&all);
    assert!(
        !line.contains('\n') && !line.contains('\u{1b}') && line.matches('|').count() == 1,
        "{line}"
    );
    insta::assert_snapshot!(line);
    let with = |outcomes: &[usize]| Acceptance {
        profile: "test".into(),
        results: outcomes.iter().map(|at| all.results[*at].clone()).collect(),
    };
    for (results, code, word) in [
        (&[0, 1][..], 0, "LINERATE OK - "),
        (&[0, 3], 0, "LINERATE OK - "),
        (&[0, 5], 1, "LINERATE WARNING - "),
        (&[0, 2, 4], 2, "LINERATE CRITICAL - "),
        (&[0, 4], 3, "LINERATE UNKNOWN - "),
        (&[], 3, "LINERATE UNKNOWN - "),
    ] {
        assert_eq!(nagios_code(&with(results)), code, "{results:?}");
        assert!(nagios_line(&with(results)).starts_with(word), "{results:?}");
    }
}
