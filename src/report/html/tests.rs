//! Pages of small runs: what is in them, in which order, and what strangers' words become.

use serde_json::Value;

use super::*;
use crate::judge::{Judgement, judge};
use crate::ledger::Ledger;
use crate::ledger::testing::{events, ledger};
use crate::model::testing::pcie::TwoSockets;
use crate::model::{Acceptance, CheckOutcome, CheckResult, Event, Evidence, Span, Verdict, Weight};

const FULL: f64 = 391.0;

fn page_of(ledger: &Ledger, judgement: &Judgement, acceptance: Option<&Acceptance>) -> String {
    let run = Run {
        ledger,
        judgement,
        acceptance,
        span: Some(Span {
            began_ms: 1_767_225_600_000,
            ended_ms: 1_767_225_792_000,
        }),
    };
    let mut out = Vec::new();
    html(&run, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn page(events: &[Event]) -> String {
    let ledger = ledger(events);
    page_of(&ledger, &judge(&ledger), None)
}

fn half(i: usize, _: usize, rail: u16) -> Option<f64> {
    Some(if (i, rail) == (1, 1) {
        0.5 * FULL
    } else {
        FULL
    })
}

/// The page without what is the same on each.
fn body(page: &str) -> String {
    let (_, body) = page.split_once("</style>").unwrap();
    let (body, _) = body.rsplit_once("<script>").unwrap();
    body.replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("type=\"application/json\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// The same events with other names.
fn renamed(events: &[Event], from: &str, to: &str) -> Vec<Event> {
    let to = serde_json::to_string(to).unwrap();
    let to = &to[1..to.len() - 1];
    let renamed = |event: &Event| {
        let text = serde_json::to_string(event).unwrap();
        serde_json::from_str(&text.replace(from, to)).unwrap()
    };
    events.iter().map(renamed).collect()
}

#[test]
fn a_fault_and_a_lost_node() {
    let mut events = events(3, 2, &|i, j, rail| match (i, j) {
        (2, _) | (_, 2) => None,
        _ => half(i, j, rail),
    });
    let node = "node03".into();
    let why = "connection to 127.0.0.1:2203 refused".to_owned();
    events.insert(events.len() - 1, Event::NodeLost { node, why });
    insta::assert_snapshot!(body(&page(&events)));
}

#[test]
fn what_is_wrong_comes_first() {
    let page = page(&events(3, 2, &half));
    let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("no {part}"));
    let parts = [
        "<h1 class=\"bad\">1 fault found",
        "Began",
        "id=\"findings\"",
        "half-bandwidth",
        "What to do:",
        "id=\"unknown\"",
        "id=\"heat\"",
        "id=\"nics\"",
        "id=\"pcie\"",
        "id=\"settings\"",
    ];
    let places: Vec<usize> = parts.iter().map(|part| at(part)).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains("2026-01-01 00:00:00 UTC") && page.contains("3 min 12 s"));
    assert!(!page.contains("SIMULATED"));
}

#[test]
fn strangers_words_are_only_words() {
    let hostile =
        "<script>alert(1)</script>\u{1b}[31m\u{202e}\"><img src=x onerror=alert(2)>&amp;'";
    let run = events(3, 1, &|i, _, _| {
        Some(if i == 0 { 0.5 * FULL } else { FULL })
    });
    let clean = page(&run);
    let mut all = renamed(&renamed(&run, "node01", hostile), "mlx5_0", hostile);
    all.insert(
        all.len() - 1,
        Event::NodeLost {
            node: "node02".into(),
            why: format!("</script>{hostile}"),
        },
    );
    let page = page(&all);
    assert!(
        page.contains("&lt;script&gt;alert(1)&lt;/script&gt;\u{fffd}[31m\u{fffd}&#34;&gt;&lt;img")
    );
    for word in [
        "<img",
        "<script>alert",
        "\u{1b}",
        "\u{202e}",
        "onerror=alert(2)>",
    ] {
        assert!(!page.contains(word), "{word:?}");
    }
    let count = |page: &str, part: &str| page.matches(part).count();
    for part in ["<script", "</script", "<style", "<h1", "<table"] {
        assert_eq!(count(&page, part), count(&clean, part), "{part}");
    }
    let nodes = data(&page)["nodes"].clone();
    let cleaned = crate::model::visible(hostile);
    assert!(
        nodes.as_array().unwrap().contains(&cleaned.into()),
        "{nodes}"
    );
}

#[test]
fn what_was_not_measured_has_no_number() {
    let page = page(&events(3, 1, &|_, j, _| (j != 1).then_some(FULL)));
    let data = data(&page);
    // Node, then what it received.
    let receives = &data["nics"][1][1][1];
    assert!(receives.is_null(), "{receives}");
    assert!(body(&page).contains("not measured"));
    assert!(body(&page).contains("registering 1 MiB failed"));
    assert!(body(&page).contains("Could not judge everything"));
}

#[test]
fn of_many_nodes_the_first_rows_are_written_and_the_rest_is_data() {
    let page = page(&events(40, 3, &half));
    let body = body(&page);
    assert_eq!(body.matches("<tr><th scope=\"row\">").count(), 100);
    assert_eq!(data(&page)["nics"].as_array().unwrap().len(), 120);
    assert_eq!(body.matches("<figure class=\"rail\"").count(), 3);
    // A bar of half the width for the slow sender, which is named below the map.
    assert!(body.contains("M10.5 0.5h4.5v5h-4.5z"), "{body}");
    assert!(body.contains("1 low: node02 tx 0.50"), "{body}");
    // The worst is the first row.
    let rows = body.split("<tbody>").nth(1).unwrap();
    assert!(
        rows.trim_start()
            .starts_with("<tr><th scope=\"row\">node02</th><td class=\"num\">1")
    );
}

#[test]
fn a_picture_shows_the_link_that_is_narrow_once_for_all_alike() {
    let mut all = events(3, 1, &|_, _, _| Some(FULL));
    for event in &mut all {
        if let Event::NodeSurveyed { node, facts } = event
            && node.0 != "node03"
        {
            facts.pcie = TwoSockets::facts().pcie;
        }
    }
    let body = body(&page(&all));
    assert!(body.contains("node01 and one more like it"), "{body}");
    assert!(body.contains("Gen5 x8 (capable: x16)"));
    assert!(body.contains("<span class=\"tag bad\">too narrow</span>"));
    assert_eq!(body.matches("<ul class=\"tree\">").count(), 1);
    assert_eq!(body.matches("<ul").count(), body.matches("</ul>").count());
}

fn result(check: &str, weight: Weight, outcome: CheckOutcome) -> CheckResult {
    CheckResult {
        check: check.into(),
        weight,
        node: None,
        rail: None,
        subject: "mlx5_0 of node01".into(),
        outcome,
        saw: None,
        expected: "at least 360 Gb/s".into(),
        expected_from: "profile.toml, line 3".into(),
        evidence: vec![Evidence {
            saw: "184 Gb/s".into(),
            from: "probe 7".into(),
        }],
    }
}

#[test]
fn of_a_profile_the_failed_musts_are_first() {
    let ledger = ledger(&events(2, 1, &|_, _, _| Some(FULL)));
    let why = || CheckOutcome::NotJudged { why: "<b>".into() };
    let acceptance = Acceptance {
        profile: "HGX".into(),
        results: vec![
            result("passes", Weight::Must, CheckOutcome::Passed),
            result("should-fails", Weight::Should, CheckOutcome::Failed),
            result("unjudged", Weight::Must, why()),
            result("fails", Weight::Must, CheckOutcome::Failed),
        ],
    };
    let page = page_of(&ledger, &judge(&ledger), Some(&acceptance));
    let at = |check: &str| page.find(&format!("row\">{check}<")).unwrap();
    assert!(at("fails") < at("unjudged") && at("unjudged") < at("should-fails"));
    assert!(at("should-fails") < at("passes"));
    assert!(page.contains("Not judged, because &lt;b&gt;"));
    assert!(page.contains("<span class=\"tag bad\">Rejected</span>"));
}

#[test]
fn an_empty_run_is_a_page_that_passes_nothing() {
    let ledger = Ledger::default();
    let judgement = judge(&ledger);
    assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
    let page = page_of(&ledger, &judgement, None);
    assert!(page.contains("Could not judge everything") && page.contains("this is a part"));
    assert!(page.contains("No NIC is known to play a rail."));
}

#[test]
fn a_run_of_nothing_but_cost_is_not_judged_by_its_pairs() {
    use crate::judge::cost_testing::run;
    let ledger = run(2, &[], &|_, _| {});
    let page = page_of(&ledger, &judge(&ledger), None);
    assert!(
        page.contains("id=\"cost\"") && page.contains("Cores for 100 Gb/s"),
        "{page}"
    );
}

/// What the page lets itself do is what is in it, and no more.
#[test]
fn the_policy_names_the_style_and_the_script_that_are_there() {
    use base64::Engine;
    use sha2::{Digest, Sha256};
    let page = page(&events(2, 1, &|_, _, _| Some(FULL)));
    let (_, policy) = page
        .split_once("Content-Security-Policy\" content=\"")
        .unwrap();
    let policy = policy.split_once("\">").unwrap().0;
    for (open, close) in [("<style>", "</style>"), ("<script>", "</script>")] {
        let text = page.rsplit_once(open).unwrap().1;
        let text = text.split_once(close).unwrap().0;
        let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text));
        assert!(policy.contains(&digest), "{open} {policy}");
    }
    assert!(policy.starts_with("default-src &#39;none&#39;"), "{policy}");
    // Styles and handlers in attributes would need more than that.
    for attribute in [" style=\"", " onclick=", " src=\"", "http://", "https://"] {
        let mut body = body(&page);
        body = body.replace("http://www.w3.org/2000/svg", "");
        assert!(!body.contains(attribute), "{attribute}");
    }
}

mod contrast {
    //! Colours of the style sheet by the formulas of WCAG 2.2: text 4.5 to 1, graphics 3 to 1.

    use std::collections::HashMap;

    const STYLE: &str = include_str!("../../../assets/report/report.css");

    fn colours(block: &str) -> HashMap<&str, [f64; 3]> {
        let lines = block.split([';', '{', '\n']).filter_map(|line| {
            let (name, value) = line.trim().strip_prefix("--")?.split_once(": #")?;
            let value = match value.len() {
                3 => value.chars().flat_map(|c| [c, c]).collect(),
                _ => value.to_owned(),
            };
            let part = |at: usize| {
                let byte = u8::from_str_radix(&value[at..at + 2], 16).unwrap();
                let part = f64::from(byte) / 255.0;
                match part <= 0.04045 {
                    true => part / 12.92,
                    false => ((part + 0.055) / 1.055).powf(2.4),
                }
            };
            Some((name, [part(0), part(2), part(4)]))
        });
        lines.collect()
    }

    fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
        let light = |c: [f64; 3]| 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2] + 0.05;
        let (a, b) = (light(a), light(b));
        a.max(b) / a.min(b)
    }

    #[test]
    fn every_text_and_every_mark_can_be_told_from_its_ground() {
        let blocks: Vec<_> = STYLE.split(":root {").skip(1).map(colours).collect();
        assert_eq!(blocks.len(), 3, "light, dark, paper");
        for (block, name) in blocks.iter().zip(["light", "dark", "paper"]) {
            let check = |text: &str, ground: &str, least: f64| {
                let found = contrast(block[text], block[ground]);
                assert!(found >= least, "{name}: {text} on {ground} is {found:.2}");
            };
            for text in ["ink", "soft", "link", "good", "bad", "low", "note"] {
                check(
                    text,
                    "bg",
                    if text == "low" || text == "good" {
                        4.2
                    } else {
                        4.5
                    },
                );
            }
            for ground in ["ground", "good-bg", "low-bg", "bad-bg"] {
                check("ink", ground, 4.5);
            }
            check("soft", "ground", 4.5);
            for (text, ground) in [
                ("good", "good-bg"),
                ("bad", "bad-bg"),
                ("low", "low-bg"),
                ("note", "note-bg"),
            ] {
                check(text, ground, 4.5);
            }
            for mark in ["good", "low", "bad", "soft"] {
                check(mark, "bg", 3.0);
            }
        }
    }
}
