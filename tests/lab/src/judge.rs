//! Holds a report of linerate against the faults of the lab: exactly those must be named.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::fault::{Direction, Fault};

/// What a report must be to pass: in words, for the end of a demo.
///
/// # Errors
/// What it names too much or too little, or why it cannot be read.
pub fn judge(faults: &[Fault], report: &Path, exit_code: Option<u8>) -> Result<String, String> {
    let text = std::fs::read_to_string(report)
        .map_err(|error| format!("cannot read {}: {error}", report.display()))?;
    let report: Value = serde_json::from_str(&text)
        .map_err(|error| format!("{} is no JSON: {error}", report.display()))?;
    let planted: BTreeSet<String> = faults.iter().flat_map(planted).collect();
    let named = named(&report);
    let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join("; ");
    let missed: BTreeSet<String> = planted.difference(&named).cloned().collect();
    let extra: BTreeSet<String> = named.difference(&planted).cloned().collect();
    match (missed.is_empty(), extra.is_empty()) {
        (true, true) => {}
        (false, true) => return Err(format!("not named: {}", list(&missed))),
        (true, false) => return Err(format!("named though healthy: {}", list(&extra))),
        (false, false) => {
            return Err(format!(
                "not named: {}; named though healthy: {}",
                list(&missed),
                list(&extra)
            ));
        }
    }
    let expected = u8::from(!planted.is_empty());
    if let Some(code) = exit_code.filter(|code| *code != expected) {
        return Err(format!(
            "linerate ended with exit code {code}, not {expected}"
        ));
    }
    Ok(match planted.is_empty() {
        true => "nothing is wrong here, and nothing was named".to_owned(),
        false => format!("exactly the planted fault was named: {}", list(&planted)),
    })
}

/// A fault as the findings that it must give, one for each direction.
fn planted(fault: &Fault) -> Vec<String> {
    let one = |direction: &str| {
        format!(
            "half-bandwidth {} rxe{} {direction}",
            fault.node, fault.rail
        )
    };
    match fault.direction {
        Direction::Tx => vec![one("tx")],
        Direction::Rx => vec![one("rx")],
        Direction::Both => vec![one("rx"), one("tx")],
    }
}

/// Every finding of a report, those that only say what could not be judged as well.
fn named(report: &Value) -> BTreeSet<String> {
    let Some(findings) = report["findings"].as_array() else {
        return BTreeSet::from(["no list of findings".to_owned()]);
    };
    let word = |finding: &Value, field: &str| finding[field].as_str().unwrap_or("?").to_owned();
    let name = |finding: &Value| {
        let fields = ["rule", "node", "nic", "direction"];
        fields.map(|field| word(finding, field)).join(" ")
    };
    findings.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judged(faults: &[&str], findings: Value, exit_code: u8) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        std::fs::write(&path, json!({ "findings": findings }).to_string()).unwrap();
        let faults: Vec<Fault> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        judge(&faults, &path, Some(exit_code))
    }

    fn half(node: &str, nic: &str, direction: &str) -> Value {
        json!({"rule": "half-bandwidth", "node": node, "nic": nic, "direction": direction})
    }

    #[test]
    fn exactly_the_planted_fault_will_do() {
        let fault = ["half:node02:1:tx"];
        assert!(judged(&fault, json!([half("node02", "rxe1", "tx")]), 1).is_ok());
        for (findings, code) in [
            (json!([]), 0),
            (json!([half("node02", "rxe1", "rx")]), 1),
            (
                json!([half("node02", "rxe1", "tx"), half("node01", "rxe1", "tx")]),
                1,
            ),
            (json!([half("node02", "rxe1", "tx")]), 3),
            (json!(null), 1),
        ] {
            assert!(
                judged(&fault, findings.clone(), code).is_err(),
                "{findings} {code}"
            );
        }
    }

    #[test]
    fn a_healthy_lab_has_nothing_to_name() {
        assert!(judged(&[], json!([]), 0).is_ok());
        assert!(judged(&[], json!([{"rule": "node-lost", "node": "node01"}]), 3).is_err());
    }
}
