//! Holds a report of linerate against the faults of the lab: exactly those must be named.

use std::fmt;
use std::path::Path;

use serde_json::Value;

use crate::fault::{Direction, Fault, Harm};
use crate::guest::GuestHarm;
use crate::machine::MachineHarm;

/// What a report must be to pass: in words, for the end of a demo.
///
/// # Errors
/// What it names too much or too little, or why it cannot be read.
pub fn judge(faults: &[Fault], report: &Path, exit_code: Option<u8>) -> Result<String, String> {
    let text = std::fs::read_to_string(report)
        .map_err(|error| format!("cannot read {}: {error}", report.display()))?;
    let report: Value = serde_json::from_str(&text)
        .map_err(|error| format!("{} is no JSON: {error}", report.display()))?;
    let named = Named::all(&report)?;
    let wanted: Vec<Vec<Pattern>> = faults.iter().flat_map(wanted).collect();
    let in_guest = faults.iter().filter(|fault| fault.is_in_guest());
    let allowed: Vec<Pattern> = in_guest.map(also_allowed).collect();
    let is_named = |patterns: &&Vec<Pattern>| {
        let fits = |named| patterns.iter().any(|pattern| pattern.fits(named));
        named.iter().any(fits)
    };
    let (met, missed): (Vec<_>, Vec<_>) = wanted.iter().partition(is_named);
    let is_extra = |named: &&Named| {
        let mut patterns = wanted.iter().flatten().chain(&allowed);
        !named.is_note && !patterns.any(|pattern| pattern.fits(named))
    };
    let list = |names: Vec<String>| names.join("; ");
    let missed = list(missed.iter().map(|patterns| any_of(patterns)).collect());
    let extra = list(
        named
            .iter()
            .filter(is_extra)
            .map(ToString::to_string)
            .collect(),
    );
    match (missed.is_empty(), extra.is_empty()) {
        (true, true) => {}
        (false, true) => return Err(format!("not named: {missed}")),
        (true, false) => return Err(format!("named though healthy: {extra}")),
        (false, false) => {
            return Err(format!(
                "not named: {missed}; named though healthy: {extra}"
            ));
        }
    }
    let expected = exit_code_of(&named);
    if let Some(code) = exit_code.filter(|code| *code != expected) {
        return Err(format!(
            "linerate ended with exit code {code}, not {expected}"
        ));
    }
    Ok(match met.is_empty() {
        true => "nothing is wrong here, and nothing was named".to_owned(),
        false => {
            let met = met.iter().map(|patterns| {
                let fits = |named: &&Named| patterns.iter().any(|pattern| pattern.fits(named));
                named
                    .iter()
                    .find(fits)
                    .map(ToString::to_string)
                    .unwrap_or_default()
            });
            format!(
                "exactly the planted fault was named: {}",
                list(met.collect())
            )
        }
    })
}

/// A finding of a report.
struct Named {
    rule: String,
    node: String,
    nic: Option<String>,
    direction: Option<String>,
    severity: String,
    /// Worth knowing, but no complaint.
    is_note: bool,
}

impl Named {
    /// Every finding, those that only say what could not be judged as well.
    fn all(report: &Value) -> Result<Vec<Named>, String> {
        let findings = report["findings"].as_array();
        let findings = findings.ok_or("the report has no list of findings")?;
        let word = |finding: &Value, field: &str| finding[field].as_str().map(str::to_owned);
        let named = |finding: &Value| Named {
            rule: word(finding, "rule").unwrap_or_else(|| "?".to_owned()),
            node: word(finding, "node").unwrap_or_else(|| "?".to_owned()),
            nic: word(finding, "nic"),
            direction: word(finding, "direction"),
            severity: word(finding, "severity").unwrap_or_default(),
            is_note: finding["severity"] == "note",
        };
        Ok(findings.iter().map(named).collect())
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.rule, self.node)?;
        let more = [&self.nic, &self.direction];
        more.into_iter()
            .flatten()
            .try_for_each(|word| write!(f, " {word}"))
    }
}

/// The exit code that belongs to these findings.
fn exit_code_of(named: &[Named]) -> u8 {
    let has = |severity: &str| named.iter().any(|named| named.severity == severity);
    match (has("fault"), has("not_judged")) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 0,
    }
}

/// What a finding must say, and may say where a field is `None`.
#[derive(Clone)]
struct Pattern {
    rule: &'static str,
    node: String,
    nic: Option<String>,
    direction: Option<&'static str>,
}

impl Pattern {
    fn fits(&self, named: &Named) -> bool {
        let same = |wanted: Option<&str>, there: &Option<String>| {
            wanted.is_none_or(|wanted| there.as_deref() == Some(wanted))
        };
        self.rule == named.rule
            && self.node == named.node
            && same(self.nic.as_deref(), &named.nic)
            && same(self.direction, &named.direction)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.rule, self.node)?;
        let more = [self.nic.as_deref(), self.direction];
        more.into_iter()
            .flatten()
            .try_for_each(|word| write!(f, " {word}"))
    }
}

fn any_of(patterns: &[Pattern]) -> String {
    let names: Vec<_> = patterns.iter().map(ToString::to_string).collect();
    names.join(" or ")
}

/// The findings that a fault must give: of each list one or more.
fn wanted(fault: &Fault) -> Vec<Vec<Pattern>> {
    let pattern = |rule| Pattern {
        rule,
        node: fault.node.clone(),
        nic: None,
        direction: None,
    };
    let of_nic = |rule, rail: usize| Pattern {
        nic: Some(format!("rxe{rail}")),
        ..pattern(rule)
    };
    let half = |rail, direction| {
        vec![Pattern {
            direction: Some(direction),
            ..of_nic("half-bandwidth", rail)
        }]
    };
    match fault.harm {
        // What passes by itself is no fault of anybody's.
        _ if fault.lasts().is_some() => Vec::new(),
        Harm::Link(link) => match link.direction {
            Direction::Tx => vec![half(link.rail, "tx")],
            Direction::Rx => vec![half(link.rail, "rx")],
            Direction::Both => vec![half(link.rail, "rx"), half(link.rail, "tx")],
        },
        Harm::Machine(MachineHarm::Shared(_)) => vec![vec![pattern("node-limit")]],
        Harm::Machine(MachineHarm::Pause(_)) => Vec::new(),
        Harm::Guest(GuestHarm::Mtu { rail, .. }) => vec![vec![of_nic("mtu", rail)]],
        Harm::Guest(GuestHarm::Narrow { rail, .. }) => vec![vec![of_nic("pcie-link", rail)]],
        Harm::Guest(GuestHarm::Far { .. }) => vec![vec![pattern("gpu-nic-path")]],
        // With the limit alone, or with the registrations that failed for it.
        Harm::Guest(GuestHarm::Memlock { .. }) => {
            vec![vec![pattern("memlock"), pattern("probe-failed")]]
        }
        Harm::Guest(GuestHarm::NoPeermem) => vec![vec![pattern("gpudirect-off")]],
    }
}

/// What a fault inside a guest may give besides: the node is not like its siblings.
fn also_allowed(fault: &Fault) -> Pattern {
    Pattern {
        rule: "differs-from-siblings",
        node: fault.node.clone(),
        nic: None,
        direction: None,
    }
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
        json!({
            "rule": "half-bandwidth", "severity": "fault",
            "node": node, "nic": nic, "direction": direction,
        })
    }

    fn of_node(rule: &str, severity: &str, node: &str) -> Value {
        json!({"rule": rule, "severity": severity, "node": node, "nic": null})
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
        assert!(
            judged(
                &[],
                json!([of_node("node-lost", "not_judged", "node01")]),
                3
            )
            .is_err()
        );
    }

    #[test]
    fn what_is_wrong_in_a_guest_is_named_by_its_rule() {
        let mut mtu = half("node02", "rxe1", "tx");
        (mtu["rule"], mtu["direction"]) = ("mtu".into(), Value::Null);
        let mut link = mtu.clone();
        (link["rule"], link["severity"]) = ("pcie-link".into(), "note".into());
        let siblings = of_node("differs-from-siblings", "warning", "node02");
        let failed = of_node("probe-failed", "not_judged", "node02");
        let memlock = of_node("memlock", "fault", "node02");
        let path = of_node("gpu-nic-path", "warning", "node02");
        let off = of_node("gpudirect-off", "fault", "node02");
        for (fault, findings, code) in [
            ("mtu:node02:1:1500", json!([mtu, siblings]), 1),
            ("narrow:node02:1:x8", json!([link, siblings]), 0),
            ("memlock:node02:65536", json!([failed]), 3),
            ("memlock:node02:65536", json!([memlock, failed]), 1),
            ("far:node02:0", json!([path]), 0),
            ("no-peermem:node02", json!([off, siblings]), 1),
        ] {
            let told = judged(&[fault], findings, code);
            assert!(told.is_ok(), "{fault}: {told:?}");
        }
        // Another NIC, another node, and a sibling's difference alone.
        for (fault, findings, code) in [
            ("mtu:node02:0:1500", json!([mtu]), 1),
            ("no-peermem:node01", json!([off]), 1),
            ("far:node02:0", json!([siblings]), 0),
            ("far:node02:0", json!([path, memlock]), 1),
        ] {
            assert!(judged(&[fault], findings, code).is_err(), "{fault}");
        }
    }

    #[test]
    fn what_has_passed_is_not_to_be_named() {
        for fault in ["transient:node02:1:tx:2s", "pause:node02:10s"] {
            assert!(judged(&[fault], json!([]), 0).is_ok(), "{fault}");
            let named = json!([half("node02", "rxe1", "tx")]);
            assert!(judged(&[fault], named, 1).is_err(), "{fault}");
        }
    }

    #[test]
    fn notes_are_no_complaints() {
        let note = of_node("pcie-link", "note", "node01");
        assert!(judged(&[], json!([note]), 0).is_ok());
    }
}
