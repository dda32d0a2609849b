//! Metrics for the textfile collector of Prometheus' node_exporter: valid in Prometheus' text format, which
//! it reads, and in OpenMetrics. Units are the base units of their conventions: bytes and seconds.
//!
//! What is not known has no sample, and never a zero.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::Run;
use super::ends::{End, Ends, Is};
use super::json::{Who, state};
use crate::ledger::Covered;
use crate::model::{
    Acceptance, AcceptanceVerdict, CheckOutcome, Finding, Gbps, RunEnd, Severity, Span, Verdict,
    Weight, is_treacherous,
};

/// Bytes in a second at 1 Gb/s.
const BYTES: f64 = 1e9 / 8.0;

type Labels = Vec<(&'static str, String)>;

/// Writes the report as metrics.
///
/// # Errors
/// Whatever `out` reports.
pub fn openmetrics(run: &Run<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut metrics = Metrics { out };
    of_run(run, &mut metrics)?;
    if let Some(acceptance) = run.acceptance {
        of_profile(acceptance, &mut metrics)?;
    }
    of_coverage(run, &mut metrics)?;
    of_findings(run, &mut metrics)?;
    of_nodes(run, &mut metrics)?;
    let ends = Ends::of(run).all;
    of_nics(&ends, &mut metrics)?;
    writeln!(metrics.out, "# EOF")
}

struct Metrics<'o> {
    out: &'o mut dyn Write,
}

impl Metrics<'_> {
    /// Writes a family of gauges, where it has a sample. The unit is the end of its name.
    fn gauges(
        &mut self,
        name: &str,
        unit: Option<&str>,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, f64)>,
    ) -> io::Result<()> {
        let samples = samples.into_iter().filter(|(_, value)| value.is_finite());
        let mut samples = samples.peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} gauge")?;
        if let Some(unit) = unit {
            writeln!(self.out, "# UNIT {name} {unit}")?;
        }
        for (labels, value) in samples {
            write!(self.out, "{name}")?;
            for (at, (label, text)) in labels.iter().enumerate() {
                let before = if at == 0 { '{' } else { ',' };
                write!(self.out, "{before}{label}=\"{}\"", escaped(text))?;
            }
            let close = if labels.is_empty() { "" } else { "}" };
            writeln!(self.out, "{close} {value}")?;
        }
        Ok(())
    }

    /// One gauge.
    fn gauge(&mut self, name: &str, help: &str, labels: Labels, value: f64) -> io::Result<()> {
        self.gauges(name, None, help, [(labels, value)])
    }

    /// One for each of some states, 1 for that which is.
    fn states(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        states: &[(&str, bool)],
    ) -> io::Result<()> {
        let sample = |(state, is): &(&str, bool)| (vec![(label, (*state).to_owned())], one(*is));
        self.gauges(name, None, help, states.iter().map(sample))
    }
}

fn one(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}

fn of_run(run: &Run<'_>, metrics: &mut Metrics<'_>) -> io::Result<()> {
    let simulated = run.ledger.settings().is_some_and(|s| s.simulated);
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    metrics.gauge(
        "linerate_build_info",
        "The linerate that wrote this.",
        version,
        1.0,
    )?;
    metrics.gauge(
        "linerate_run_simulated",
        "Whether nothing was measured: nodes and rates are those of a scenario.",
        Vec::new(),
        one(simulated),
    )?;
    metrics.gauge(
        "linerate_run_stand_in_gpu",
        "Whether a driver library for tests stood in for GPUs.",
        Vec::new(),
        one(run.ledger.has_stand_in()),
    )?;
    let complete = one(run.ledger.end() == Some(RunEnd::Complete));
    let help = "Whether the run tried everything that it was to measure.";
    metrics.gauge("linerate_run_complete", help, Vec::new(), complete)?;
    if let Some(span) = run.span {
        of_span(span, metrics)?;
    }
    let verdict = run.judgement.verdict;
    let states = [
        ("at_line_rate", Verdict::AtLineRate),
        ("faults", Verdict::Faults),
        ("could_not_judge", Verdict::CouldNotJudge),
    ];
    let states = states.map(|(name, state)| (name, state == verdict));
    metrics.states(
        "linerate_verdict",
        "The run in one word.",
        "verdict",
        &states,
    )
}

fn of_span(span: Span, metrics: &mut Metrics<'_>) -> io::Result<()> {
    let seconds = |ms: u64| ms as f64 / 1e3;
    metrics.gauges(
        "linerate_run_timestamp_seconds",
        Some("seconds"),
        "When the run ended, in seconds since 1970-01-01 UTC.",
        [(Vec::new(), seconds(span.ended_ms))],
    )?;
    metrics.gauges(
        "linerate_run_duration_seconds",
        Some("seconds"),
        "How long the run took.",
        [(
            Vec::new(),
            seconds(span.ended_ms.saturating_sub(span.began_ms)),
        )],
    )
}

fn of_coverage(run: &Run<'_>, metrics: &mut Metrics<'_>) -> io::Result<()> {
    let coverage = &run.judgement.coverage;
    let (name, help) = match coverage.of {
        Covered::Pairs => (
            "linerate_coverage_pairs",
            "Pairs of NICs that the run was to measure, by what became of them.",
        ),
        Covered::Ends => (
            "linerate_coverage_nic_directions",
            "Directions of NICs that the run was to measure, by what became of them.",
        ),
    };
    let counts = [
        ("measured", coverage.measured),
        ("failed", coverage.failed),
        ("not_run", coverage.not_run),
    ];
    let sample = |(state, count): (&str, usize)| (vec![("state", state.to_owned())], count as f64);
    metrics.gauges(name, None, help, counts.map(sample))
}

fn of_findings(run: &Run<'_>, metrics: &mut Metrics<'_>) -> io::Result<()> {
    let severities = [
        ("fault", Severity::Fault),
        ("not_judged", Severity::NotJudged),
        ("warning", Severity::Warning),
        ("note", Severity::Note),
    ];
    let findings = &run.judgement.findings;
    let count = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let sums = severities.map(|(name, severity)| {
        let labels = vec![("severity", name.to_owned())];
        (labels, count(severity) as f64)
    });
    let help = "Findings by severity; only faults, and what was not judged, change the verdict.";
    metrics.gauges("linerate_findings", None, help, sums)?;
    let mut each: BTreeMap<Labels, f64> = BTreeMap::new();
    for finding in findings {
        let known = severities.iter().find(|(_, s)| *s == finding.severity);
        let severity = known.map_or("", |(name, _)| name);
        *each.entry(labels_of(finding, severity)).or_default() += 1.0;
    }
    let help = "Findings, by rule and by whom they are about.";
    metrics.gauges("linerate_finding", None, help, each)?;
    let mut open: BTreeMap<Labels, f64> = BTreeMap::new();
    for entry in &run.judgement.cannot_tell {
        let labels = vec![("rule", entry.rule.to_string())];
        *open.entry(labels).or_default() += 1.0;
    }
    let help = "Checks that lacked their facts: neither found nor passed.";
    metrics.gauges("linerate_cannot_tell", None, help, open)
}

fn labels_of(finding: &Finding, severity: &str) -> Labels {
    let mut labels = vec![
        ("rule", finding.rule.to_string()),
        ("severity", severity.to_owned()),
        ("subject", finding.subject.to_string()),
    ];
    let who = Who::from(&finding.subject);
    let more = [
        ("node", who.node.map(ToString::to_string)),
        ("nic", who.nic.map(str::to_owned)),
        ("device", who.device.map(str::to_owned)),
        ("leaf_group", who.leaf_group.map(str::to_owned)),
        ("rail", who.rail.map(|rail| rail.0.to_string())),
        ("direction", who.direction.map(|way| way.to_string())),
    ];
    let more = more
        .into_iter()
        .filter_map(|(label, text)| Some((label, text?)));
    labels.extend(more);
    labels
}

fn of_nodes(run: &Run<'_>, metrics: &mut Metrics<'_>) -> io::Result<()> {
    let nodes = run.ledger.nodes().map(|(name, node)| {
        let reached = state(&node.state) == "connected";
        (vec![("node", name.to_string())], one(reached))
    });
    let help = "Whether the node was reached and still answered at the end of the run.";
    metrics.gauges("linerate_node_reached", None, help, nodes)
}

fn of_nics(ends: &[End<'_>], metrics: &mut Metrics<'_>) -> io::Result<()> {
    let bytes = |rate: Gbps| rate.0 * BYTES;
    let rates = ends
        .iter()
        .filter_map(|end| Some((labels(end), bytes(end.rate?))));
    metrics.gauges(
        "linerate_nic_bandwidth_bytes_per_second",
        Some("bytes_per_second"),
        "The best that was measured of a direction of a NIC. Times 8 it is in bits per second.",
        rates,
    )?;
    let expected = ends
        .iter()
        .filter_map(|end| Some((labels(end), bytes(end.expected()?))));
    metrics.gauges(
        "linerate_nic_expected_bandwidth_bytes_per_second",
        Some("bytes_per_second"),
        "What was expected of that: the line rate less what headers take.",
        expected,
    )?;
    let judged = ends.iter().map(|end| {
        let judged = !matches!(end.is, Is::NotJudged(..));
        (labels(end), one(judged))
    });
    let help = "Whether it could be told if a direction of a NIC is at line rate.";
    metrics.gauges("linerate_nic_judged", None, help, judged)?;
    let at_line_rate = ends.iter().filter_map(|end| match end.is {
        Is::AtLineRate => Some((labels(end), 1.0)),
        Is::Low(_) => Some((labels(end), 0.0)),
        Is::NotJudged(..) => None,
    });
    let help = "Whether a direction of a NIC is at line rate; no sample where that cannot be told.";
    metrics.gauges("linerate_nic_at_line_rate", None, help, at_line_rate)
}

fn labels(end: &End<'_>) -> Labels {
    let mut labels = vec![
        ("node", end.node.to_string()),
        ("rail", end.rail.0.to_string()),
        ("direction", end.direction.to_string()),
    ];
    if let Some(nic) = end.nic {
        labels.push(("nic", nic.device.to_string()));
        labels.push(("port", nic.port.to_string()));
    }
    labels
}

fn of_profile(acceptance: &Acceptance, metrics: &mut Metrics<'_>) -> io::Result<()> {
    let verdict = acceptance.verdict();
    let states = [
        ("accepted", AcceptanceVerdict::Accepted),
        ("rejected", AcceptanceVerdict::Rejected),
        ("could_not_judge", AcceptanceVerdict::CouldNotJudge),
    ];
    let states = states.map(|(name, state)| {
        let labels = vec![
            ("profile", acceptance.profile.clone()),
            ("verdict", name.to_owned()),
        ];
        (labels, one(state == verdict))
    });
    let help = "What became of the profile, in one word.";
    metrics.gauges("linerate_acceptance_verdict", None, help, states)?;
    let mut counts: BTreeMap<Labels, f64> = BTreeMap::new();
    for result in &acceptance.results {
        let weight = match result.weight {
            Weight::Must => "must",
            Weight::Should => "should",
        };
        let outcome = match result.outcome {
            CheckOutcome::Passed => "passed",
            CheckOutcome::Failed => "failed",
            CheckOutcome::NotJudged { .. } => "not_judged",
            CheckOutcome::Excepted { .. } => "excepted",
        };
        let mut labels = vec![
            ("check", result.check.clone()),
            ("weight", weight.to_owned()),
            ("outcome", outcome.to_owned()),
        ];
        labels.extend(result.node.as_ref().map(|node| ("node", node.to_string())));
        *counts.entry(labels).or_default() += 1.0;
    }
    let help = "Checks of the profile by node and by what became of them.";
    metrics.gauges("linerate_acceptance_checks", None, help, counts)
}

/// A stranger's text as the value of a label. What would steer a terminal is written out, so that two
/// names never become one.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => safe.push_str("\\\""),
            // Twice: once for the format, once so that nothing else reads like what is written out.
            '\\' => safe.push_str("\\\\\\\\"),
            c if is_treacherous(c) => {
                safe.push('\\');
                safe.extend(c.escape_unicode());
            }
            c => safe.push(c),
        }
    }
    safe
}
