//! The HTML report of the built binary in a real browser: it is whole by itself, what nodes call
//! themselves is text, tables sort and filter, every width and paper will do.
//!
//! Without Chromium nothing is looked at, loudly; `LINERATE_LAB=require` makes that a failure.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose page or browser cannot be made must fail"
)]

#[path = "support/browser.rs"]
mod browser;

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use browser::Browser;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_linerate");

/// Its scenario may have faults, which are none of the page's.
fn linerate(arguments: &[&str]) {
    let output = Command::new(BINARY).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{arguments:?}: {said}"
    );
}

/// Whether there is a browser to look with.
fn can_look() -> bool {
    if browser::is_here() {
        return true;
    }
    let required = std::env::var("LINERATE_LAB").is_ok_and(|value| value == "require");
    assert!(!required, "chromium is missing (package chromium)");
    eprintln!("SKIPPED: chromium is missing (package chromium): no page is looked at");
    false
}

fn demo(folder: &Path, nodes: &str, rails: &str) -> PathBuf {
    let page = folder.join(format!("{nodes}x{rails}.html"));
    let format = format!("html={}", page.display());
    linerate(&[
        "demo", "--nodes", nodes, "--rails", rails, "--format", &format,
    ]);
    page
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_page_is_whole_by_itself_and_works_at_every_width_and_on_paper() {
    if !can_look() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::start();
    for (nodes, rails) in [("4", "4"), ("80", "4")] {
        browser.open(&demo(folder.path(), nodes, rails));
        for width in [390, 1024, 1600] {
            for dark in [false, true] {
                browser.look(width, dark);
                let widest = browser.evaluate("document.documentElement.scrollWidth");
                assert!(number(&widest) <= u64::from(width), "{widest} at {width}");
                let ground = browser.evaluate("getComputedStyle(document.body).backgroundColor");
                assert_eq!(ground == "rgb(255, 255, 255)", !dark, "{ground}");
            }
        }
        let complaints = browser.complaints();
        assert!(complaints.is_empty(), "{complaints:#?}");
        assert_eq!(browser.requests(), 1);

        let pdf = browser.ask("Page.printToPDF", json!({"printBackground": true}));
        let pdf = pdf["data"].as_str().unwrap();
        let pdf = base64::engine::general_purpose::STANDARD
            .decode(pdf)
            .unwrap();
        assert!(
            pdf.starts_with(b"%PDF-") && pdf.len() > 20_000,
            "{}",
            pdf.len()
        );
    }
}

#[test]
fn tables_sort_and_filter_and_the_map_tells_its_numbers() {
    if !can_look() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::start();
    browser.open(&demo(folder.path(), "80", "4"));
    browser.look(1024, false);
    let rows = "document.querySelectorAll('#nic-table tbody tr').length";
    assert_eq!(browser.evaluate(rows), 100);

    // By the keyboard alone.
    let press = |browser: &mut Browser, key: &str| {
        for kind in ["keyDown", "keyUp"] {
            let text = if key == "Enter" { "\r" } else { "" };
            let event = json!({"type": kind, "key": key, "code": key, "text": text});
            browser.ask("Input.dispatchKeyEvent", event);
        }
    };
    let first = "document.querySelector('#nic-table tbody tr').innerText.split('\\t')";
    browser.evaluate("document.querySelector('th[data-key=node] button').focus()");
    press(&mut browser, "Enter");
    let sorted = "document.querySelector('th[data-key=node]').ariaSort";
    assert_eq!(browser.evaluate(sorted), "ascending");
    assert_eq!(browser.evaluate(first)[0], "node001");
    press(&mut browser, "Enter");
    assert_eq!(browser.evaluate(sorted), "descending");
    assert_eq!(browser.evaluate(first)[0], "node080");

    let type_in = |browser: &mut Browser, form: &str, name: &str, value: &str| {
        browser.evaluate(&format!(
            "(() => {{ const form = document.getElementById('{form}');
               form.elements['{name}'].value = '{value}';
               form.dispatchEvent(new Event('input')); }})()"
        ));
    };
    type_in(&mut browser, "nic-filter", "text", "NODE007");
    assert_eq!(browser.evaluate(rows), 4);
    type_in(&mut browser, "nic-filter", "rail", "2");
    assert_eq!(browser.evaluate(rows), 1);
    browser.evaluate("document.querySelector('#nic-filter button').click()");
    browser.evaluate("new Promise((done) => setTimeout(done, 50))");
    assert_eq!(
        browser.evaluate("document.getElementById('nic-count').value"),
        "320 of 320 shown"
    );

    let shown = "document.querySelectorAll('.finding:not([hidden])').length";
    let all = number(&browser.evaluate(shown));
    type_in(&mut browser, "finding-filter", "severity", "bad");
    let faults = number(&browser.evaluate(shown));
    assert!(0 < faults && faults < all, "{faults} of {all}");
    type_in(&mut browser, "finding-filter", "text", "no text has this");
    assert_eq!(browser.evaluate(shown), 0);

    browser.evaluate("document.querySelector('.map').focus()");
    press(&mut browser, "ArrowRight");
    let here = browser.evaluate("document.querySelector('.rail output').value");
    let here = here.as_str().unwrap();
    assert!(
        here.starts_with("node002 · ") && here.contains(" · tx "),
        "{here}"
    );
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn what_nodes_call_themselves_is_text() {
    if !can_look() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("run.jsonl");
    let record = record.to_str().unwrap();
    let json = folder.path().join("report.json");
    let json = json.to_str().unwrap();
    linerate(&[
        "demo", "--nodes", "4", "--rails", "2", "--record", record, "-f", "json", "-o", json,
    ]);
    let names = [
        ("node001", "<script>alert(1)</script>"),
        ("node002", "\"><img src=x onerror=alert(2)>"),
        ("node003", "\u{1b}[31m\u{202e}evil"),
        ("node004", "</script><script>alert(3)</script>"),
        ("mlx5_0", "'><svg onload=alert(4)>"),
    ];
    let mut text = std::fs::read_to_string(record).unwrap();
    for (from, to) in names {
        let to = serde_json::to_string(to).unwrap();
        text = text.replace(from, &to[1..to.len() - 1]);
    }
    std::fs::write(record, text).unwrap();
    let page = folder.path().join("page.html");
    let format = format!("html={}", page.display());
    linerate(&["replay", record, "--format", &format]);

    let mut browser = Browser::start();
    browser.open(&page);
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:#?}");
    for (elements, count) in [
        ("img", 0),
        ("script", 2),
        ("svg[onload]", 0),
        ("[onerror]", 0),
    ] {
        let found = browser.evaluate(&format!("document.querySelectorAll('{elements}').length"));
        assert_eq!(found, count, "{elements}");
    }
    let text = browser.evaluate("document.body.innerText");
    let text = text.as_str().unwrap();
    for word in [
        "<script>alert(1)</script>",
        "\"><img src=x",
        "\u{fffd}[31m\u{fffd}evil",
        "'><svg onload",
    ] {
        assert!(text.contains(word), "{word}");
    }
    // Also of the rows that the script makes.
    browser.evaluate("document.querySelector('th[data-key=node] button').click()");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('img').length"),
        0
    );
    assert!(!browser.did("Page.javascriptDialogOpening"));
}

#[test]
fn without_a_script_there_is_all_that_matters() {
    if !can_look() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let page = demo(folder.path(), "80", "4");
    let mut browser = Browser::start();
    browser.ask(
        "Emulation.setScriptExecutionDisabled",
        json!({"value": true}),
    );
    browser.open(&page);
    let shown = browser.evaluate(
        "[...document.querySelectorAll('.finding .says')].every((e) => e.checkVisibility())",
    );
    assert_eq!(shown, true);
    let rows = browser.evaluate("document.querySelectorAll('#nic-table tbody tr').length");
    assert_eq!(rows, 100);
    let controls = browser.evaluate(
        "[...document.querySelectorAll('form, button')].some((e) => e.checkVisibility())",
    );
    assert_eq!(controls, false, "controls that do nothing");
}
