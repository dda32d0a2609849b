//! The report for programs. Its shape is stable: fields are added, not changed, within one `schema`.
//! Rates (`gbps`, `measured`, `expected`) are in Gb/s, 10^9 bits per second.

use std::io::{self, Write};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::gpu_memory::gpu_memory_json;
use super::quiet;
use crate::judge::{CostReport, Judgement, expected};
use crate::ledger::{Covered, Ledger, Node, NodeState, PairState, PairSummary, Probe};
use crate::model::{
    CannotTell, Direction, Finding, NicId, NodeName, Outcome, Rail, RunEnd, Subject, Verdict,
};

/// Version of the report's shape.
pub const REPORT_SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    linerate: &'static str,
    simulated: bool,
    /// Whether a GPU was none, but host memory of a driver library for tests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stand_in_gpu: bool,
    verdict: Verdict,
    exit_code: u8,
    run: Option<RunEnd>,
    settings: Option<&'a crate::model::RunSettings>,
    coverage: Value,
    findings: Vec<Value>,
    cannot_tell: Vec<Value>,
    nodes: Nodes<'a>,
    pairs: Pairs<'a>,
    isolation: Isolation<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gpu_memory: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Value>,
}

/// Nodes and pairs are written one by one: all values of thousands of nodes would fill the memory.
struct Nodes<'a>(&'a Ledger);

impl Serialize for Nodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.nodes().map(node))
    }
}

struct Pairs<'a>(&'a Ledger);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs = self.0.pairs();
        serializer.collect_seq(pairs.iter().map(|summary| pair(self.0, summary)))
    }
}

/// The probes that tell causes apart: they measure under conditions that the pairs' do not have.
struct Isolation<'a>(&'a Ledger);

impl Serialize for Isolation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let isolating = self.0.probes();
        let isolating = isolating.filter(|probe| probe.planned.purpose.isolates());
        serializer.collect_seq(isolating.map(isolated))
    }
}

fn isolated(probe: &Probe) -> Value {
    let planned = &probe.planned;
    json!({
        "probe": planned.probe,
        "round": probe.round,
        "purpose": planned.purpose,
        "from": planned.pair.from,
        "to": planned.pair.to,
        "rail": planned.pair.rail,
        "gbps": probe.rate(),
    })
}

/// Writes the report as one JSON document.
///
/// # Errors
/// Whatever `out` reports.
pub fn json(ledger: &Ledger, judgement: &Judgement, out: &mut dyn Write) -> io::Result<()> {
    let report = Report {
        schema: REPORT_SCHEMA,
        linerate: env!("CARGO_PKG_VERSION"),
        simulated: ledger.settings().is_some_and(|s| s.simulated),
        stand_in_gpu: ledger.has_stand_in(),
        verdict: judgement.verdict,
        exit_code: judgement.verdict.exit_code(),
        run: ledger.end(),
        settings: ledger.settings(),
        coverage: coverage(judgement),
        findings: judgement.findings.iter().map(finding).collect(),
        cannot_tell: judgement.cannot_tell.iter().map(cannot_tell).collect(),
        nodes: Nodes(ledger),
        pairs: Pairs(ledger),
        isolation: Isolation(ledger),
        gpu_memory: gpu_memory_json(ledger),
        cost: CostReport::of(ledger).as_ref().map(super::cost::value),
    };
    quiet::pretty(out, &report)
}

fn coverage(judgement: &Judgement) -> Value {
    let coverage = &judgement.coverage;
    let gap =
        |gap: &crate::ledger::Gap| json!({"count": gap.count, "tried": gap.tried, "why": gap.why});
    json!({
        "of": match coverage.of {
            Covered::Pairs => "pairs",
            Covered::Ends => "nic_directions",
        },
        "total": coverage.total(),
        "measured": coverage.measured,
        "failed": coverage.failed,
        "not_run": coverage.not_run,
        "complete": coverage.is_complete(),
        "gaps": coverage.gaps.iter().map(gap).collect::<Vec<_>>(),
    })
}

/// Whom a finding is about, as fields that are there or null.
#[derive(Default, Serialize)]
pub(super) struct Who<'a> {
    pub(super) node: Option<&'a NodeName>,
    pub(super) nic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) leaf_group: Option<&'a str>,
    pub(super) port: Option<u8>,
    pub(super) rail: Option<Rail>,
    pub(super) direction: Option<Direction>,
    pub(super) from: Option<&'a NicId>,
    pub(super) to: Option<&'a NicId>,
}

impl<'a> From<&'a Subject> for Who<'a> {
    fn from(subject: &'a Subject) -> Self {
        let nobody = Self::default();
        match subject {
            Subject::Node(node) => Self {
                node: Some(node),
                ..nobody
            },
            Subject::NodeRail(node, rail) => Self {
                node: Some(node),
                rail: Some(*rail),
                ..nobody
            },
            Subject::Nic(nic, rail, direction) => Self {
                node: Some(&nic.node),
                nic: Some(&nic.device),
                port: Some(nic.port),
                rail: Some(*rail),
                direction: *direction,
                ..nobody
            },
            Subject::Pair(pair) => Self {
                from: Some(&pair.from),
                to: Some(&pair.to),
                rail: Some(pair.rail),
                ..nobody
            },
            Subject::Rail(rail) => Self {
                rail: Some(*rail),
                ..nobody
            },
            Subject::LeafGroup(group, rail, direction) => Self {
                leaf_group: Some(group),
                rail: Some(*rail),
                direction: Some(*direction),
                ..nobody
            },
            Subject::Device(node, device) => Self {
                node: Some(node),
                device: Some(device),
                ..nobody
            },
        }
    }
}

pub(super) fn finding(finding: &Finding) -> Value {
    let value = json!({
        "rule": finding.rule,
        "severity": finding.severity,
        "says": finding.says,
        "measured": finding.measured,
        "expected": finding.expected,
        "expected_from": finding.expected_from,
        "ratio": finding.ratio,
        "evidence": finding.evidence,
        "remedy": finding.remedy,
    });
    with_subject(value, &finding.subject)
}

/// What a rule would have looked at and could not.
pub(super) fn cannot_tell(entry: &CannotTell) -> Value {
    let value = json!({"rule": entry.rule, "why": entry.why});
    with_subject(value, &entry.subject)
}

fn with_subject(mut value: Value, subject: &Subject) -> Value {
    let who = serde_json::to_value(Who::from(subject));
    if let (Value::Object(fields), Ok(Value::Object(who))) = (&mut value, who) {
        fields.extend(who);
    }
    value
}

fn node((name, node): (&NodeName, &Node)) -> Value {
    let why = match &node.state {
        NodeState::Lost { why } => Some(why),
        _ => None,
    };
    json!({"name": name, "state": state(&node.state), "why": why, "facts": node.facts})
}

/// How far a node has come, in a word.
pub(super) fn state(state: &NodeState) -> &'static str {
    match state {
        NodeState::Connected { .. } => "connected",
        NodeState::Lost { .. } => "lost",
        NodeState::Waiting | NodeState::Connecting(_) => "not_reached",
    }
}

fn pair(ledger: &Ledger, summary: &PairSummary<'_>) -> Value {
    let pair = summary.pair;
    let mut value = json!({
        "from": pair.from,
        "to": pair.to,
        "rail": pair.rail,
        "probes": summary.attempts.len(),
    });
    let more = match summary.state() {
        PairState::Measured { probe, rate } => {
            let expected = expected(ledger, probe);
            let (verified, measurement) = match &probe.outcome {
                Some(Outcome::Measured {
                    verified,
                    measurement,
                }) => (Some(verified), Some(measurement)),
                _ => (None, None),
            };
            json!({
                "state": "measured",
                "gbps": rate,
                "expected": expected.value(),
                "expected_from": expected.source(),
                "expected_unknown": expected.why_unknown(),
                "ratio": expected.value().and_then(|expected| rate.share_of(*expected)),
                "mtu": measurement.map(|m| m.mtu),
                "bytes": measurement.map(|m| m.bytes),
                "elapsed_us": measurement.map(|m| m.elapsed_us),
                "cpu": measurement.map(|m| &m.cpu),
                "counters": measurement.map(|m| &m.counters),
                "verified": verified,
                "memory": measurement.and_then(|m| m.memory.as_ref()),
            })
        }
        PairState::Failed { stage, node, why } => {
            json!({"state": "failed", "stage": stage, "node": node, "why": why})
        }
        PairState::NotRun { why } => json!({"state": "not_run", "why": why}),
    };
    if let (Value::Object(fields), Value::Object(more)) = (&mut value, more) {
        fields.extend(more);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::ledger::testing::{events, ledger};

    fn report(rate: &dyn Fn(usize, usize, u16) -> Option<f64>) -> Value {
        let ledger = ledger(&events(3, 2, rate));
        let mut out = Vec::new();
        json(&ledger, &judge(&ledger), &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_finding_names_node_nic_rail_and_direction_in_fields() {
        let report = report(&|i, _, rail| Some(if (i, rail) == (1, 1) { 195.5 } else { 391.0 }));
        insta::assert_json_snapshot!(report["findings"]);
        assert_eq!(
            (&report["verdict"], &report["exit_code"]),
            (&json!("faults"), &json!(1))
        );
        assert_eq!(report["coverage"]["complete"], json!(true));
    }

    #[test]
    fn a_pair_without_a_rate_has_none() {
        let report = report(&|i, j, _| ((i, j) != (0, 1)).then_some(391.0));
        let pairs = report["pairs"].as_array().unwrap();
        let failed: Vec<_> = pairs
            .iter()
            .filter(|pair| pair["state"] == "failed")
            .collect();
        assert_eq!(failed.len(), 2);
        assert!(
            failed
                .iter()
                .all(|pair| pair.get("gbps").is_none() && pair["why"].is_string())
        );
        let measured = pairs
            .iter()
            .find(|pair| pair["state"] == "measured")
            .unwrap();
        assert!(
            (measured["ratio"].as_f64().unwrap() - 0.997).abs() < 0.001,
            "{measured}"
        );
    }
}
