//! The report for a person: the verdict, what is wrong and how that is known, then the numbers.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::cost::cost;
use super::findings::{cannot_tell, findings, paragraph};
use super::gpu_memory::gpu_memory_text;
use super::nccl_tests::nccl_tests_text;
use super::provisos;
use super::rates::rates;
use crate::judge::Judgement;
use crate::ledger::{Covered, Ledger, NodeState};
use crate::model::{RunEnd, Severity, Verdict};

/// The first line of a report on nodes that are not there.
pub(super) const SIMULATED: &str =
    "SIMULATED: nothing was measured; nodes, facts and rates are those of a scenario.";

/// How the text may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether to use ANSI colours. They only repeat what the words say.
    pub color: bool,
    /// Columns of the screen or page.
    pub width: usize,
}

impl Style {
    pub(super) fn paint(self, code: &str, text: &str) -> String {
        if self.color {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Writes the report as text.
///
/// # Errors
/// Whatever `out` reports.
pub fn text(
    ledger: &Ledger,
    judgement: &Judgement,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    for proviso in provisos(ledger) {
        paragraph(out, style, "", "", proviso)?;
    }
    headline(ledger, judgement, style, out)?;
    findings(&judgement.findings, style, out)?;
    rates(ledger, style, out)?;
    gpu_memory_text(ledger, style, out)?;
    nccl_tests_text(ledger, style, out)?;
    cost(ledger, style, out)?;
    coverage(ledger, judgement, style, out)?;
    cannot_tell(&judgement.cannot_tell, style, out)?;
    match ledger.settings() {
        Some(settings) => writeln!(out, "\nSeed of the schedule: {}", settings.seed),
        None => Ok(()),
    }
}

/// Writes the verdict and how much it rests on, a line or two.
///
/// # Errors
/// Whatever `out` reports.
pub fn headline(
    ledger: &Ledger,
    judgement: &Judgement,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let count = |severity| {
        let findings = judgement.findings.iter();
        findings.filter(|f| f.severity == severity).count()
    };
    let faults = count(Severity::Fault);
    let warnings = match count(Severity::Warning) {
        0 => String::new(),
        1 => ", 1 warning".to_owned(),
        many => format!(", {many} warnings"),
    };
    let (code, text) = match judgement.verdict {
        Verdict::AtLineRate => ("1;32", "ALL AT LINE RATE".to_owned()),
        Verdict::Faults if faults == 1 => ("1;31", "1 FAULT FOUND".to_owned()),
        Verdict::Faults => ("1;31", format!("{faults} FAULTS FOUND")),
        Verdict::CouldNotJudge => ("1;33", "COULD NOT JUDGE EVERYTHING".to_owned()),
    };
    let total = ledger.nodes().count();
    let reached = ledger
        .nodes()
        .filter(|(_, n)| matches!(n.state, NodeState::Connected { .. }))
        .count();
    let coverage = &judgement.coverage;
    let said = format!(
        "{text}{warnings}: {reached} of {total} nodes, {} of {} {} measured in {}.",
        coverage.measured,
        coverage.total(),
        counted(coverage.of, 2),
        match ledger.rounds() {
            1 => "1 round".to_owned(),
            many => format!("{many} rounds"),
        }
    );
    painted(&said, &text, code, style, out)?;
    let part = match ledger.end() {
        Some(RunEnd::Complete) => return Ok(()),
        Some(RunEnd::Interrupted) => "The run was interrupted: what follows is a part.",
        Some(RunEnd::TimeUp) => {
            "The time budget was spent before everything was tried: what follows is a part."
        }
        None => "The run has not ended: what follows is a part.",
    };
    paragraph(out, style, "", "", part)
}

/// A paragraph that begins with words in colour.
fn painted(
    said: &str,
    begins: &str,
    code: &str,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut lines = Vec::new();
    paragraph(&mut lines, style, "", "", said)?;
    let lines = String::from_utf8_lossy(&lines);
    match lines.strip_prefix(begins) {
        Some(rest) => write!(out, "{}{rest}", style.paint(code, begins)),
        None => write!(out, "{lines}"),
    }
}

/// What coverage counts, in words.
pub(super) fn counted(of: Covered, count: usize) -> &'static str {
    match (of, count) {
        (Covered::Pairs, 1) => "pair",
        (Covered::Pairs, _) => "pairs",
        (Covered::Ends, 1) => "NIC direction",
        (Covered::Ends, _) => "NIC directions",
    }
}

fn coverage(
    ledger: &Ledger,
    judgement: &Judgement,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let coverage = &judgement.coverage;
    if coverage.total() == 0 {
        writeln!(out)?;
        let said = "Nothing was measured: a pair needs two nodes that were reached and have a NIC.";
        paragraph(out, style, "", "", said)?;
    }
    if !coverage.gaps.is_empty() {
        writeln!(
            out,
            "\nNot measured: {} failed, {} not run.",
            coverage.failed, coverage.not_run
        )?;
        for gap in &coverage.gaps {
            let tried = if gap.tried { "failed" } else { "not run" };
            let what = counted(coverage.of, gap.count);
            let text = format!("{} {what} {tried}: {}", gap.count, gap.why);
            paragraph(out, style, "  - ", "    ", &text)?;
        }
    }
    let software: BTreeSet<&str> = ledger
        .nodes()
        .filter_map(|(_, node)| node.facts.as_ref()?.rdma.value())
        .flatten()
        .filter(|device| device.software.is_some())
        .map(|device| device.name.as_str())
        .collect();
    if !software.is_empty() {
        let names: Vec<&str> = software.into_iter().collect();
        let text = format!(
            "{} are software RDMA: their CPU cost and the rate of their ports mean nothing.",
            names.join(", ")
        );
        writeln!(out)?;
        paragraph(out, style, "Note: ", "  ", &text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::ledger::testing::{events, ledger};
    use crate::model::Event;

    const FULL: f64 = 391.0;

    fn shown(events: &[Event]) -> String {
        let ledger = ledger(events);
        let mut out = Vec::new();
        let style = Style {
            color: false,
            width: 100,
        };
        text(&ledger, &judge(&ledger), style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_fault_reads_well() {
        let rate = |i, _, rail| {
            Some(if (i, rail) == (1, 1) {
                0.5 * FULL
            } else {
                FULL
            })
        };
        insta::assert_snapshot!(shown(&events(3, 2, &rate)));
    }

    #[test]
    fn a_healthy_cluster_reads_well() {
        insta::assert_snapshot!(shown(&events(3, 1, &|_, _, _| Some(FULL))));
    }

    #[test]
    fn gaps_are_shown_with_their_reasons() {
        let mut events = events(4, 1, &|i, j, _| (i != 3 && j != 3).then_some(FULL));
        let why = "connection to 127.0.0.1:2204 refused".to_owned();
        events.insert(
            events.len() - 1,
            Event::NodeLost {
                node: "node04".into(),
                why,
            },
        );
        insta::assert_snapshot!(shown(&events));
    }

    #[test]
    fn many_nodes_are_summed_up() {
        let rate = |i, j, _| Some(if i == 3 || j == 7 { 0.5 * FULL } else { FULL });
        insta::assert_snapshot!(shown(&events(10, 1, &rate)));
    }

    #[test]
    fn an_empty_run_says_that_it_is_one() {
        insta::assert_snapshot!(shown(&[]));
    }
}
