//! Findings for a person, and what could not be told: the same words in every text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::text::Style;
use crate::model::{CannotTell, Finding, Rule, Severity, visible};

/// Columns of prose where the screen has more: the eye loses longer lines.
const PROSE: usize = 120;

/// Of those that one reason is about, so many are named.
const MOST_NAMED: usize = 3;

/// Findings of a rule that are shown in full; what a whole cluster has would fill pages.
const IN_FULL: usize = 4;

/// Of the others so many are named.
const BY_NAME: usize = 48;

/// Writes findings, the worst first; of one kind the first few in full and the others by name.
pub(super) fn findings(all: &[Finding], style: Style, out: &mut dyn Write) -> io::Result<()> {
    kinds(all)
        .iter()
        .try_for_each(|of_kind| one_kind(of_kind, style, out))
}

/// Findings of one severity and rule together, in the order of the first of each.
pub(super) fn kinds(all: &[Finding]) -> Vec<Vec<&Finding>> {
    let mut kinds: Vec<((Severity, Rule), Vec<&Finding>)> = Vec::new();
    for finding in all {
        let kind = (finding.severity, finding.rule);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, of_kind)) => of_kind.push(finding),
            None => kinds.push((kind, vec![finding])),
        }
    }
    kinds.into_iter().map(|(_, of_kind)| of_kind).collect()
}

/// Those of a kind that are shown in full, and those that are named only.
pub(super) fn in_full<'k, 'f>(
    of_kind: &'k [&'f Finding],
) -> (&'k [&'f Finding], &'k [&'f Finding]) {
    // One more by name would save nothing.
    of_kind.split_at(match of_kind.len() {
        n if n <= IN_FULL + 1 => n,
        _ => IN_FULL,
    })
}

fn one_kind(of_kind: &[&Finding], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let (full, others) = in_full(of_kind);
    for finding in full {
        writeln!(out)?;
        show(finding, style, out)?;
    }
    if others.is_empty() {
        return Ok(());
    }
    let (mark, code) = mark(of_kind[0].severity);
    let what = format!("{} {}", style.paint(code, mark), of_kind[0].rule);
    writeln!(out, "\n{what}, {} more like these:", others.len())?;
    others_of_kind(others, style, out)
}

fn others_of_kind(others: &[&Finding], style: Style, out: &mut dyn Write) -> io::Result<()> {
    match named(others) {
        Named::Each(lines) => {
            let mut lines = lines.iter();
            lines.try_for_each(|line| paragraph(out, style, "  - ", "    ", line))
        }
        Named::Together(names) => paragraph(out, style, "  ", "  ", &names.join(", ")),
    }
}

/// Findings that are named only.
pub(super) enum Named {
    /// Those that cannot be judged, each with its reason.
    Each(Vec<String>),
    /// Others share theirs with those that are shown.
    Together(Vec<String>),
}

pub(super) fn named(others: &[&Finding]) -> Named {
    let shown = others.iter().take(BY_NAME);
    let more = match others.len().saturating_sub(BY_NAME) {
        0 => None,
        more => Some(format!("and {more} more (all in --format json)")),
    };
    match others.iter().all(|f| f.severity == Severity::NotJudged) {
        true => Named::Each(shown.map(|f| f.says.clone()).chain(more).collect()),
        false => Named::Together(shown.map(|f| by_name(f)).chain(more).collect()),
    }
}

/// `mlx5_1 of node02 tx (0.50)`.
fn by_name(finding: &Finding) -> String {
    match finding.ratio {
        Some(ratio) => format!("{} ({ratio:.2})", finding.subject),
        None => finding.subject.to_string(),
    }
}

/// What a severity is called, and the code of its colour.
pub(super) fn mark(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Fault => ("FAULT", "1;31"),
        Severity::NotJudged => ("NOT JUDGED", "1;33"),
        Severity::Warning => ("WARNING", "1;33"),
        Severity::Note => ("NOTE", "1"),
    }
}

fn show(finding: &Finding, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let (mark, code) = mark(finding.severity);
    writeln!(out, "{} {}", style.paint(code, mark), finding.rule)?;
    paragraph(out, style, "  ", "  ", &finding.says)?;
    if let (Some(measured), Some(expected), Some(from)) =
        (finding.measured, finding.expected, &finding.expected_from)
    {
        let text = format!("measured {measured}, expected {expected}: {from}");
        paragraph(out, style, "  ", "  ", &text)?;
    }
    for evidence in &finding.evidence {
        paragraph(
            out,
            style,
            "    - ",
            "      ",
            &format!("{} ({})", evidence.saw, evidence.from),
        )?;
    }
    paragraph(out, style, "  What to do: ", "    ", &finding.remedy)
}

/// The rules that lacked their facts, each reason once with the number of those it is about.
pub(super) fn cannot_tell(
    entries: &[CannotTell],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let checks = if entries.len() == 1 {
        "check"
    } else {
        "checks"
    };
    writeln!(out, "\nCannot tell ({} {checks}):", entries.len())?;
    let mut reasons = reasons(entries).into_iter();
    reasons.try_for_each(|text| paragraph(out, style, "  - ", "    ", &text))
}

/// Each reason why rules cannot tell, with the first of those it is about.
pub(super) fn reasons(entries: &[CannotTell]) -> Vec<String> {
    let mut groups: BTreeMap<(Rule, &str), Vec<String>> = BTreeMap::new();
    for entry in entries {
        let who = entry.subject.to_string();
        groups
            .entry((entry.rule, &entry.why))
            .or_default()
            .push(who);
    }
    let reason = |((rule, why), who): ((Rule, &str), Vec<String>)| {
        let shown = match who.len() {
            n if n > MOST_NAMED => format!(
                "{} and {} more",
                who[..MOST_NAMED].join(", "),
                n - MOST_NAMED
            ),
            _ => who.join(", "),
        };
        format!("{rule}, {shown}: because {why}")
    };
    groups.into_iter().map(reason).collect()
}

/// Writes words wrapped to the width, the first line behind `first`, the others behind `rest`.
pub(super) fn paragraph(
    out: &mut dyn Write,
    style: Style,
    first: &str,
    rest: &str,
    text: &str,
) -> io::Result<()> {
    let width = style.width.min(PROSE);
    let mut line = first.to_owned();
    let mut empty = true;
    // Findings quote what a copy of a node, or a record, says: it may hold anything.
    for word in text.split_whitespace().map(visible) {
        let columns = line.chars().count() + usize::from(!empty) + word.chars().count();
        if !empty && columns > width {
            writeln!(out, "{line}")?;
            line = rest.to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(&word);
        empty = false;
    }
    writeln!(out, "{line}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::ledger::testing::{events, ledger};
    use crate::model::{Event, NodeName};

    const FULL: f64 = 391.0;

    fn shown(nodes: usize) -> String {
        // A third of the senders are at half.
        let rate = |i: usize, _, _| {
            Some(if i.is_multiple_of(3) {
                0.5 * FULL
            } else {
                FULL
            })
        };
        let judgement = judge(&ledger(&events(nodes, 1, &rate)));
        let style = Style {
            color: false,
            width: 100,
        };
        let mut out = Vec::new();
        findings(&judgement.findings, style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_many_nics_have_is_shown_in_full_for_the_first_and_by_name_for_all() {
        let text = shown(20);
        assert_eq!(text.matches("What to do").count(), IN_FULL);
        assert!(
            text.contains("FAULT half-bandwidth, 3 more like these:"),
            "{text}"
        );
        for node in (1..=20).step_by(3) {
            assert!(
                text.contains(&format!("mlx5_0 of node{node:02}")),
                "{node}: {text}"
            );
        }
        assert!(text.ends_with("tx (0.50)\n"), "{text}");
        // Five are not worth a list of one.
        assert_eq!(shown(15).matches("What to do").count(), 5);
    }

    #[test]
    fn nothing_that_is_quoted_steers_the_terminal() {
        let style = Style {
            color: false,
            width: 100,
        };
        let mut out = Vec::new();
        paragraph(&mut out, style, "", "", "a\u{1b}[2Jb \u{202e}c").unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "a\u{fffd}[2Jb \u{fffd}c\n");
    }

    #[test]
    fn each_node_that_was_not_reached_keeps_its_reason() {
        let mut all = events(9, 1, &|_, _, _| None);
        all.retain(|event| !matches!(event, Event::NodeConnected { .. }));
        for node in 1..=9 {
            let node = NodeName::from(format!("node{node:02}"));
            let why = format!("refused by {node}");
            all.push(Event::NodeLost { node, why });
        }
        let mut findings_of = judge(&ledger(&all)).findings;
        findings_of.retain(|finding| finding.rule == Rule::NodeLost);
        let style = Style {
            color: false,
            width: 100,
        };
        let mut out = Vec::new();
        findings(&findings_of, style, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for node in 1..=9 {
            assert!(
                text.contains(&format!("refused by node{node:02}")),
                "{text}"
            );
        }
    }
}
