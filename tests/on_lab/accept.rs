//! The lab's acceptance profile, held against runs: most of them other cases made anyway, and no node is
//! asked again.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::running::{LINERATE, Report};

/// The profile that comes with linerate.
pub const PROFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/configs/profiles/lab.toml");

/// What becomes of the lab's profile, and the exit code.
fn held(report: &Report) -> (Value, Option<i32>) {
    held_against(Path::new(PROFILE), &report.record)
}

fn held_against(profile: &Path, record: &Path) -> (Value, Option<i32>) {
    let output = Command::new(LINERATE)
        .arg("accept")
        .arg(profile)
        .arg("--from")
        .arg(record)
        .args(["--format", "json"])
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let document =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (document, output.status.code())
}

/// The results that came out so, each as its check and subject.
fn came_out(document: &Value, is: &str) -> Vec<String> {
    let results = document["results"].as_array().into_iter().flatten();
    let mine = results.filter(|result| result["outcome"]["is"] == is);
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    mine.map(|result| format!("{} {}", word(&result["check"]), word(&result["subject"])))
        .collect()
}

/// Asserts that what was measured for the profile is accepted.
pub fn accepts(accepted: &Report) {
    accepted.ends_with(0);
    let document = &accepted.json;
    assert_eq!(document["verdict"], "accepted", "{document:#}");
    for is in ["failed", "not_judged"] {
        assert_eq!(came_out(document, is), Vec::<String>::new());
    }
}

/// Asserts that a run is rejected, and that the check of the bandwidth names exactly these.
pub fn rejects(report: &Report, ends: &[&str]) {
    let (document, code) = held(report);
    assert_eq!(code, Some(1), "{document:#}");
    assert_eq!(document["verdict"], "rejected");
    let failed = came_out(&document, "failed");
    let named: Vec<&str> = failed
        .iter()
        .filter_map(|line| line.strip_prefix("bandwidth "))
        .collect();
    assert_eq!(named, ends, "{failed:#?}");
}

/// Asserts that a run is rejected by each of these checks, of whom is named with it.
pub fn rejects_by(report: &Report, checks: &[(&str, &str)]) {
    rejects_each(Path::new(PROFILE), &report.record, checks);
}

/// Asserts that a run of which something is missing is not accepted, and that these were not judged.
pub fn cannot_judge(report: &Report, nodes: &[&str]) {
    let (document, code) = held(report);
    assert_ne!(code, Some(0), "{document:#}");
    let checks: Vec<_> = nodes.iter().map(|node| ("coverage", *node)).collect();
    names(&document, "not_judged", &checks);
}

/// Makes a profile of a healthy run, which the run itself passes.
pub fn made_of(report: &Report, profile: &Path) {
    let output = Command::new(LINERATE)
        .arg("accept")
        .arg(profile)
        .args(["--init", "--from"])
        .arg(&report.record)
        .output()
        .expect("the binary starts");
    assert!(output.status.success(), "{output:?}");
    let (document, code) = held_against(profile, &report.record);
    assert_eq!(code, Some(0), "{document:#}");
}

/// Asserts that a recorded run is rejected by each of these checks, of whom is named with it.
pub fn rejects_each(profile: &Path, record: &Path, checks: &[(&str, &str)]) {
    let (document, code) = held_against(profile, record);
    assert_eq!(code, Some(1), "{document:#}");
    names(&document, "failed", checks);
}

/// Asserts that each of these checks came out so, of whom is named with it.
pub fn names(document: &Value, is: &str, checks: &[(&str, &str)]) {
    let lines = came_out(document, is);
    for (check, whom) in checks {
        let of_check = |line: &&String| line.split(' ').next() == Some(check);
        let mut found = lines.iter().filter(of_check);
        let is_named = found.any(|line| line.contains(whom));
        assert!(is_named, "{check} of {whom}: {lines:#?}");
    }
}
