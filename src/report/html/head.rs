//! The head of a page: the verdict, how much it rests on, and where the rest is.

use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::acceptance::verdict as accepted;
use super::findings::counted;
use crate::judge::{CostReport, Judgement};
use crate::ledger::{Coverage, Ledger, NodeState};
use crate::model::{RunEnd, Severity, Span, Verdict};
use crate::report::Run;
use crate::report::provisos;

/// What the page looks like, and what it does.
const STYLE: &str = include_str!("../../../assets/report/report.css");
pub(super) const SCRIPT: &str = include_str!("../../../assets/report/report.js");

/// The first part of a page, up to its first section.
#[derive(Template)]
#[template(path = "head.html")]
pub(super) struct Head<'a> {
    verdict: String,
    class: &'static str,
    warnings: String,
    acceptance: Option<(&'static str, &'static str, &'a str)>,
    provisos: Vec<&'static str>,
    partial: Option<&'static str>,
    facts: Vec<(&'static str, String)>,
    contents: Vec<(&'static str, &'static str, Option<usize>)>,
}

impl<'a> Head<'a> {
    /// Of a run, with the sections that follow: their anchors, names and numbers of entries.
    pub(super) fn of(
        run: &Run<'a>,
        only_cost: bool,
        contents: Vec<(&'static str, &'static str, Option<usize>)>,
    ) -> Self {
        let Run {
            ledger,
            judgement,
            acceptance,
            ..
        } = *run;
        let (verdict, class) = match only_cost {
            true => of_cost(ledger),
            false => verdict(judgement),
        };
        Self {
            verdict,
            class,
            warnings: match count(judgement, Severity::Warning) {
                many if many == 0 || only_cost => String::new(),
                1 => "and 1 warning".to_owned(),
                many => format!("and {many} warnings"),
            },
            acceptance: acceptance.map(|acceptance| {
                let (words, class) = accepted(acceptance.verdict());
                (words, class, acceptance.profile.as_str())
            }),
            provisos: provisos(ledger).collect(),
            partial: partial(ledger),
            facts: facts(run, only_cost),
            contents,
        }
    }

    /// What the page may do: show itself. Only this style and this script count, by their digests; no
    /// connection, no form target, no base is allowed.
    fn policy(&self) -> String {
        format!(
            "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; \
             form-action 'none'",
            digest(STYLE),
            digest(SCRIPT)
        )
    }

    fn style(&self) -> &'static str {
        STYLE
    }
}

/// As a policy names it.
fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

fn count(judgement: &Judgement, severity: Severity) -> usize {
    let findings = judgement.findings.iter();
    findings
        .filter(|finding| finding.severity == severity)
        .count()
}

fn verdict(judgement: &Judgement) -> (String, &'static str) {
    match judgement.verdict {
        Verdict::AtLineRate => ("All at line rate".to_owned(), "good"),
        Verdict::Faults => match count(judgement, Severity::Fault) {
            1 => ("1 fault found".to_owned(), "bad"),
            many => (format!("{many} faults found"), "bad"),
        },
        Verdict::CouldNotJudge => ("Could not judge everything".to_owned(), "doubt"),
    }
}

/// Of a run that measured only what moving data costs.
fn of_cost(ledger: &Ledger) -> (String, &'static str) {
    match CostReport::of(ledger).is_some_and(|report| report.is_complete()) {
        true => ("Cost measured".to_owned(), "good"),
        false => ("Cost not measured everywhere".to_owned(), "doubt"),
    }
}

fn partial(ledger: &Ledger) -> Option<&'static str> {
    match ledger.end() {
        Some(RunEnd::Complete) => None,
        Some(RunEnd::Interrupted) => Some("The run was interrupted: this is a part."),
        Some(RunEnd::TimeUp) => {
            Some("The time budget was spent before everything was tried: this is a part.")
        }
        None => Some("The run has not ended: this is a part."),
    }
}

/// How much the verdict rests on.
fn facts(run: &Run<'_>, only_cost: bool) -> Vec<(&'static str, String)> {
    let ledger = run.ledger;
    let total = ledger.nodes().count();
    let is_there = |state: &NodeState| matches!(state, NodeState::Connected { .. });
    let there = ledger.nodes().filter(|(_, node)| is_there(&node.state));
    let mut facts = vec![("Nodes reached", format!("{} of {total}", there.count()))];
    if !only_cost {
        facts.push(("Measured", measured(&run.judgement.coverage)));
    }
    facts.push(("Rounds", ledger.rounds().to_string()));
    // When a simulation was computed says nothing.
    let is_simulated = ledger.settings().is_some_and(|settings| settings.simulated);
    match run.span {
        _ if is_simulated => {}
        None => facts.push(("Began", "not recorded".to_owned())),
        Some(Span { began_ms, ended_ms }) => {
            facts.push(("Began", when(began_ms)));
            facts.push(("Took", how_long(ended_ms.saturating_sub(began_ms))));
        }
    }
    let version = concat!("linerate ", env!("CARGO_PKG_VERSION"));
    facts.push(("Written by", version.to_owned()));
    facts
}

fn measured(coverage: &Coverage) -> String {
    let (measured, total) = (coverage.measured, coverage.total());
    let what = counted(coverage.of, 2);
    let share = match total {
        0 => String::new(),
        total => format!(" ({})", share(measured, total)),
    };
    format!("{measured} of {total} {what}{share}")
}

/// Percent, rounded down: only all is all.
fn share(part: usize, whole: usize) -> String {
    let tenths = part as u128 * 1000 / whole as u128;
    match tenths {
        1000 => "100 %".to_owned(),
        tenths => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// A time in UTC, to the second.
fn when(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok();
    let at = at.and_then(|at| Timestamp::from_millisecond(at).ok());
    at.map_or("unknown".to_owned(), |at| {
        at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
    })
}

fn how_long(ms: u64) -> String {
    let seconds = ms / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) => format!("{ms} ms"),
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_is_a_hundred_percent() {
        assert_eq!(share(16_383, 16_384), "99.9 %");
        assert_eq!(share(16_384, 16_384), "100 %");
        assert_eq!(share(0, 7), "0.0 %");
    }

    #[test]
    fn times_read_well() {
        assert_eq!(when(1_767_225_600_000), "2026-01-01 00:00:00 UTC");
        assert_eq!(when(u64::MAX), "unknown");
        assert_eq!(how_long(450), "450 ms");
        assert_eq!(how_long(192_000), "3 min 12 s");
        assert_eq!(how_long(7_260_000), "2 h 1 min");
    }
}
