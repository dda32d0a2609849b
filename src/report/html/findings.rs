//! The findings of a page, what could not be told, and what became of a profile.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;

use crate::judge::Judgement;
use crate::ledger::{Covered, Ledger};
use crate::model::{Finding, Gbps, Rule, Severity, Subject};
use crate::report::cost::RULES;

/// Findings of one rule that are shown in full: what a whole cluster has would fill the page.
const IN_FULL: usize = 50;

/// Of the others of a rule so many have a line.
const IN_BRIEF: usize = 1000;

/// Of those that one reason is about, so many are named.
const MOST_NAMED: usize = 8;

/// A finding with its number, which its anchor is made of.
pub(super) struct Shown<'a> {
    pub(super) number: usize,
    pub(super) finding: &'a Finding,
}

impl Shown<'_> {
    fn class(&self) -> &'static str {
        class(self.finding.severity)
    }

    fn word(&self) -> &'static str {
        word(self.finding.severity)
    }

    /// The nodes it is about, for the filter.
    fn nodes(&self) -> String {
        match &self.finding.subject {
            Subject::Node(node) | Subject::NodeRail(node, _) | Subject::Device(node, _) => {
                node.to_string()
            }
            Subject::Nic(nic, ..) => nic.node.to_string(),
            Subject::Pair(pair) => format!("{} {}", pair.from.node, pair.to.node),
            Subject::LeafGroup(group, ..) => group.clone(),
            Subject::Rail(_) => String::new(),
        }
    }

    /// How its rates compare, where there are any.
    fn rates(&self) -> Option<Rates<'_>> {
        let finding = self.finding;
        let any = finding.measured.is_some() || finding.ratio.is_some();
        any.then(|| Rates {
            measured: finding.measured,
            expected: finding.expected,
            from: finding.expected_from.as_deref(),
            ratio: finding.ratio.map(|ratio| format!("{ratio:.2}")),
            bar: finding.ratio.map(bar),
        })
    }

    /// Whether what it rests on is seen without a click.
    fn is_open(&self) -> bool {
        matches!(self.finding.severity, Severity::Fault | Severity::NotJudged)
    }
}

struct Rates<'a> {
    measured: Option<Gbps>,
    expected: Option<Gbps>,
    from: Option<&'a str>,
    ratio: Option<String>,
    bar: Option<String>,
}

/// A part of a text.
struct Piece<'a> {
    text: &'a str,
    is_code: bool,
}

/// A text in pieces: what stands between two backticks is code.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let is_paired = text.matches('`').count().is_multiple_of(2);
    let piece = |(n, text): (usize, _)| Piece {
        text,
        is_code: !n.is_multiple_of(2),
    };
    match is_paired {
        true => text.split('`').enumerate().map(piece).collect(),
        false => vec![piece((0, text))],
    }
}

/// A share as a length of at most 100.
pub(super) fn bar(share: f64) -> String {
    format!("{:.0}", (share * 100.0).clamp(0.0, 100.0))
}

/// The class of the style sheet that has the colour of a severity.
pub(super) fn class(severity: Severity) -> &'static str {
    match severity {
        Severity::Fault => "bad",
        Severity::NotJudged => "doubt",
        Severity::Warning => "warn",
        Severity::Note => "note",
    }
}

/// A severity in words.
pub(super) fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Fault => "Fault",
        Severity::NotJudged => "Not judged",
        Severity::Warning => "Warning",
        Severity::Note => "Note",
    }
}

/// Those of one rule and severity: the first in full, the others by a line each.
struct Kind<'a> {
    full: Vec<Shown<'a>>,
    brief: Vec<Shown<'a>>,
    /// How many are not shown.
    more: usize,
}

/// The section of the findings.
#[derive(Template)]
#[template(path = "findings.html")]
pub(super) struct Findings<'a> {
    kinds: Vec<Kind<'a>>,
    total: usize,
    severities: Vec<(&'static str, &'static str, usize)>,
    rules: BTreeSet<&'static str>,
}

impl<'a> Findings<'a> {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.total
    }

    /// Of a judgement; where a run measured only what moving data costs, those that matter for it.
    pub(super) fn of(judgement: &'a Judgement, only_cost: bool) -> Self {
        let all = judgement.findings.iter().enumerate();
        let all = all.filter(|(_, finding)| !only_cost || RULES.contains(&finding.rule));
        let all: Vec<Shown<'a>> = all
            .map(|(number, finding)| Shown { number, finding })
            .collect();
        Self {
            total: all.len(),
            severities: tally(&all),
            rules: all.iter().map(|shown| shown.finding.rule.name()).collect(),
            kinds: kinds(all),
        }
    }
}

/// How many there are of each severity: class, word and number.
fn tally(all: &[Shown<'_>]) -> Vec<(&'static str, &'static str, usize)> {
    let severities = [
        Severity::Fault,
        Severity::NotJudged,
        Severity::Warning,
        Severity::Note,
    ];
    let count = |severity| {
        let mine = all
            .iter()
            .filter(|shown| shown.finding.severity == severity);
        (class(severity), word(severity), mine.count())
    };
    let tally = severities.map(count).into_iter();
    tally.filter(|(.., count)| *count > 0).collect()
}

/// Those of one rule and severity together, in the order of the first of each.
fn kinds(all: Vec<Shown<'_>>) -> Vec<Kind<'_>> {
    let mut kinds: Vec<((Severity, Rule), Vec<Shown<'_>>)> = Vec::new();
    for shown in all {
        let kind = (shown.finding.severity, shown.finding.rule);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, of_kind)) => of_kind.push(shown),
            None => kinds.push((kind, vec![shown])),
        }
    }
    kinds.into_iter().map(|(_, all)| Kind::of(all)).collect()
}

impl<'a> Kind<'a> {
    fn of(mut full: Vec<Shown<'a>>) -> Self {
        let mut brief = full.split_off(full.len().min(IN_FULL));
        let more = brief.len().saturating_sub(IN_BRIEF);
        brief.truncate(IN_BRIEF);
        Self { full, brief, more }
    }
}

/// A reason, and whom it keeps from being judged.
struct Reason<'a> {
    rule: Rule,
    why: &'a str,
    who: Vec<String>,
    more: usize,
}

/// What was not measured, for one reason.
struct Lack<'a> {
    count: usize,
    what: &'static str,
    how: &'static str,
    why: &'a str,
}

/// The section of what could not be told.
#[derive(Template)]
#[template(path = "unknown.html")]
pub(super) struct Unknown<'a> {
    lacks: Vec<Lack<'a>>,
    reasons: Vec<Reason<'a>>,
    checks: usize,
    /// Devices that are software RDMA.
    software: String,
}

impl<'a> Unknown<'a> {
    /// Of a run.
    pub(super) fn of(ledger: &Ledger, judgement: &'a Judgement, only_cost: bool) -> Self {
        let mut groups: BTreeMap<(Rule, &str), Vec<&Subject>> = BTreeMap::new();
        for entry in &judgement.cannot_tell {
            let group = groups.entry((entry.rule, &entry.why)).or_default();
            group.push(&entry.subject);
        }
        let reason = |((rule, why), who): ((Rule, &'a str), Vec<&Subject>)| Reason {
            rule,
            why,
            more: who.len().saturating_sub(MOST_NAMED),
            who: who
                .iter()
                .take(MOST_NAMED)
                .map(ToString::to_string)
                .collect(),
        };
        let coverage = &judgement.coverage;
        let gaps = coverage.gaps.iter().filter(|_| !only_cost);
        let lack = |gap: &'a crate::ledger::Gap| Lack {
            count: gap.count,
            what: counted(coverage.of, gap.count),
            how: if gap.tried { "failed" } else { "not run" },
            why: &gap.why,
        };
        Self {
            lacks: gaps.map(lack).collect(),
            reasons: groups.into_iter().map(reason).collect(),
            checks: judgement.cannot_tell.len(),
            software: software(ledger),
        }
    }

    /// How many entries it has.
    pub(super) fn count(&self) -> usize {
        self.lacks.len() + self.reasons.len()
    }
}

/// The devices that are software RDMA, by name.
fn software(ledger: &Ledger) -> String {
    let nodes = ledger.nodes();
    let devices = nodes.filter_map(|(_, node)| node.facts.as_ref()?.rdma.value());
    let software = devices.flatten().filter(|device| device.software.is_some());
    let names: BTreeSet<&str> = software.map(|device| device.name.as_str()).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_two_backticks_is_code() {
        let read = |text: &'static str| {
            let pieces = pieces(text).into_iter();
            pieces
                .map(|piece| (piece.text, piece.is_code))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            read("ask `ibv_devinfo` first"),
            [("ask ", false), ("ibv_devinfo", true), (" first", false)]
        );
        assert_eq!(read("a ` alone"), [("a ` alone", false)]);
    }
}
