//! The report for programs. Its shape is stable: fields are added, not changed, within one `schema`.
//! Rates (`gbps`, `measured`, `expected`) are in Gb/s, 10^9 bits per second.

use std::io::{self, Write};

use arcstr::ArcStr;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::gpu_memory::{GpuFields, gpu_fields};
use super::nccl_tests::nccl_tests_json;
use super::quiet;
use crate::judge::{CostReport, Judgement, expected};
use crate::ledger::{Covered, Ledger, Node, NodeState, PairState, PairSummary, Probe};
use crate::model::{
    CannotTell, CpuUse, Direction, Evidence, Fact, Finding, Gbps, Grown, MemoryUsed, NicId,
    NodeFacts, NodeName, Outcome, ProbeId, ProbeStage, Purpose, Rail, Rule, RunEnd, RunSettings,
    Severity, Subject, Verdict, Verification,
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
    settings: Option<&'a RunSettings>,
    coverage: CoverageFields<'a>,
    findings: Vec<FindingFields<'a>>,
    cannot_tell: Vec<CannotTellFields<'a>>,
    nodes: Vec<NodeFields<'a>>,
    pairs: Pairs<'a>,
    isolation: Vec<IsolatedFields<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gpu_memory: Vec<GpuFields<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nccl_tests: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Value>,
}

/// Writes the report as one JSON document.
///
/// # Errors
/// Whatever `out` reports.
pub fn json(ledger: &Ledger, judgement: &Judgement, out: &mut dyn Write) -> io::Result<()> {
    let isolating = ledger.probes();
    let isolating = isolating.filter(|probe| probe.planned.purpose.isolates());
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
        nodes: ledger.nodes().map(node).collect(),
        pairs: Pairs(ledger),
        isolation: isolating.map(isolated).collect(),
        gpu_memory: gpu_fields(ledger).map(|(_, fields)| fields).collect(),
        nccl_tests: nccl_tests_json(ledger),
        cost: CostReport::of(ledger).as_ref().map(super::cost::value),
    };
    quiet::pretty(out, &report)
}

#[derive(Serialize)]
struct CoverageFields<'a> {
    of: &'static str,
    total: usize,
    measured: usize,
    failed: usize,
    not_run: usize,
    complete: bool,
    gaps: Vec<GapFields<'a>>,
}

#[derive(Serialize)]
struct GapFields<'a> {
    count: usize,
    tried: bool,
    why: &'a str,
}

fn coverage(judgement: &Judgement) -> CoverageFields<'_> {
    let coverage = &judgement.coverage;
    let gaps = coverage.gaps.iter().map(|gap| GapFields {
        count: gap.count,
        tried: gap.tried,
        why: &gap.why,
    });
    CoverageFields {
        of: match coverage.of {
            Covered::Pairs => "pairs",
            Covered::Ends => "nic_directions",
        },
        total: coverage.total(),
        measured: coverage.measured,
        failed: coverage.failed,
        not_run: coverage.not_run,
        complete: coverage.is_complete(),
        gaps: gaps.collect(),
    }
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

/// A finding, with whom it is about.
#[derive(Serialize)]
pub(super) struct FindingFields<'a> {
    #[serde(flatten)]
    who: Who<'a>,
    rule: Rule,
    severity: Severity,
    says: &'a str,
    measured: Option<Gbps>,
    expected: Option<Gbps>,
    expected_from: Option<&'a str>,
    ratio: Option<f64>,
    evidence: &'a [Evidence],
    remedy: &'a str,
}

pub(super) fn finding(finding: &Finding) -> FindingFields<'_> {
    FindingFields {
        who: Who::from(&finding.subject),
        rule: finding.rule,
        severity: finding.severity,
        says: &finding.says,
        measured: finding.measured,
        expected: finding.expected,
        expected_from: finding.expected_from.as_deref(),
        ratio: finding.ratio,
        evidence: &finding.evidence,
        remedy: &finding.remedy,
    }
}

/// What a rule would have looked at and could not.
#[derive(Serialize)]
pub(super) struct CannotTellFields<'a> {
    #[serde(flatten)]
    who: Who<'a>,
    rule: Rule,
    why: &'a str,
}

pub(super) fn cannot_tell(entry: &CannotTell) -> CannotTellFields<'_> {
    CannotTellFields {
        who: Who::from(&entry.subject),
        rule: entry.rule,
        why: &entry.why,
    }
}

#[derive(Serialize)]
struct NodeFields<'a> {
    name: &'a NodeName,
    state: &'static str,
    why: Option<&'a str>,
    facts: Option<&'a NodeFacts>,
}

fn node<'a>((name, node): (&'a NodeName, &'a Node)) -> NodeFields<'a> {
    NodeFields {
        name,
        state: state(&node.state),
        why: match &node.state {
            NodeState::Lost { why } => Some(why),
            _ => None,
        },
        facts: node.facts.as_ref(),
    }
}

/// How far a node has come, in a word.
pub(super) fn state(state: &NodeState) -> &'static str {
    match state {
        NodeState::Connected { .. } => "connected",
        NodeState::Lost { .. } => "lost",
        NodeState::Waiting | NodeState::Connecting(_) => "not_reached",
    }
}

/// Pairs, each made as it is written.
struct Pairs<'a>(&'a Ledger);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs = self.0.pairs();
        serializer.collect_seq(pairs.iter().map(|summary| pair(self.0, summary)))
    }
}

#[derive(Serialize)]
struct PairFields<'a> {
    from: &'a NicId,
    to: &'a NicId,
    rail: Rail,
    probes: usize,
    #[serde(flatten)]
    state: StateFields<'a>,
}

#[derive(Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum StateFields<'a> {
    Measured {
        gbps: Gbps,
        expected: Option<Gbps>,
        expected_from: Option<ArcStr>,
        expected_unknown: Option<ArcStr>,
        ratio: Option<f64>,
        mtu: Option<u32>,
        bytes: Option<u64>,
        elapsed_us: Option<u64>,
        cpu: Option<&'a CpuUse>,
        counters: Option<&'a Fact<Vec<Grown>>>,
        verified: Option<&'a Fact<Verification>>,
        memory: Option<&'a MemoryUsed>,
    },
    Failed {
        stage: ProbeStage,
        node: Option<&'a NodeName>,
        why: &'a str,
    },
    NotRun {
        why: &'a str,
    },
}

fn pair<'a>(ledger: &Ledger, summary: &PairSummary<'a>) -> PairFields<'a> {
    PairFields {
        from: &summary.pair.from,
        to: &summary.pair.to,
        rail: summary.pair.rail,
        probes: summary.attempts.len(),
        state: match summary.state() {
            PairState::Measured { probe, rate } => measured(ledger, probe, rate),
            PairState::Failed { stage, node, why } => StateFields::Failed { stage, node, why },
            PairState::NotRun { why } => StateFields::NotRun { why },
        },
    }
}

fn measured<'a>(ledger: &Ledger, probe: &'a Probe, rate: Gbps) -> StateFields<'a> {
    let (expected, expected_from, expected_unknown) = match expected(ledger, probe) {
        Fact::Known { value, from } => (Some(value), Some(from), None),
        Fact::Unknown { why } => (None, None, Some(why)),
    };
    let verified = match &probe.outcome {
        Some(Outcome::Measured { verified, .. }) => Some(verified),
        _ => None,
    };
    let measurement = probe.measurement();
    StateFields::Measured {
        gbps: rate,
        expected,
        expected_from,
        expected_unknown,
        ratio: expected.and_then(|expected| rate.share_of(expected)),
        mtu: measurement.map(|m| m.mtu),
        bytes: measurement.map(|m| m.bytes),
        elapsed_us: measurement.map(|m| m.elapsed_us),
        cpu: measurement.map(|m| &m.cpu),
        counters: measurement.map(|m| &m.counters),
        verified,
        memory: measurement.and_then(|m| m.memory.as_deref()),
    }
}

/// A probe that tells causes apart: it measures under conditions that the pairs' do not have.
#[derive(Serialize)]
struct IsolatedFields<'a> {
    probe: ProbeId,
    round: u32,
    purpose: Purpose,
    from: &'a NicId,
    to: &'a NicId,
    rail: Rail,
    gbps: Option<Gbps>,
}

fn isolated(probe: &Probe) -> IsolatedFields<'_> {
    let planned = &probe.planned;
    IsolatedFields {
        probe: planned.probe,
        round: probe.round,
        purpose: planned.purpose,
        from: &planned.pair.from,
        to: &planned.pair.to,
        rail: planned.pair.rail,
        gbps: probe.rate(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
