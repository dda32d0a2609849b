//! An acceptance for a person: the verdict, what does not hold and how that is known, what could not be judged,
//! what is borne, then every check with its numbers.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::super::findings::{findings, paragraph};
use super::super::provisos;
use super::super::text::{Style, headline};
use super::Counts;
use crate::judge::Judgement;
use crate::ledger::Ledger;
use crate::model::{
    Acceptance, AcceptanceVerdict, CheckOutcome, CheckResult, Finding, Severity, Weight, visible,
};

/// Results of a check that are shown in full; what a whole cluster has would fill pages.
const IN_FULL: usize = 4;

/// Of the others so many are named.
const BY_NAME: usize = 24;

/// Of those that one reason is about, so many are named.
const MOST_NAMED: usize = 3;

/// Writes what became of a profile as text; where it was not accepted, with the faults that the run found.
///
/// # Errors
/// Whatever `out` reports.
pub fn accept_text(
    ledger: &Ledger,
    judgement: &Judgement,
    acceptance: &Acceptance,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    for proviso in provisos(ledger) {
        writeln!(out, "{proviso}")?;
    }
    verdict(acceptance, style, out)?;
    for weight in [Weight::Must, Weight::Should] {
        let of_weight = |result: &&CheckResult| result.weight == weight;
        let results: Vec<&CheckResult> = acceptance.results.iter().filter(of_weight).collect();
        failed(&results, weight, style, out)?;
        not_judged(&results, weight, style, out)?;
    }
    excepted(acceptance, style, out)?;
    table(acceptance, out)?;
    if acceptance.verdict() == AcceptanceVerdict::Accepted {
        return Ok(());
    }
    writeln!(out, "\nThe run that it was held against:")?;
    headline(ledger, judgement, style, out)?;
    let faults = judgement.findings.iter();
    let told: Vec<&str> = acceptance
        .results
        .iter()
        .filter_map(|result| result.saw.as_deref())
        .collect();
    let is_new = |finding: &&Finding| !told.iter().any(|told| told.ends_with(&finding.says));
    let faults = faults
        .filter(|finding| finding.severity == Severity::Fault)
        .filter(is_new);
    let faults: Vec<Finding> = faults.cloned().collect();
    findings(&faults, style, out)
}

fn verdict(acceptance: &Acceptance, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let (code, word) = match acceptance.verdict() {
        AcceptanceVerdict::Accepted => ("1;32", "ACCEPTED"),
        AcceptanceVerdict::Rejected => ("1;31", "NOT ACCEPTED"),
        AcceptanceVerdict::CouldNotJudge => ("1;33", "COULD NOT JUDGE"),
    };
    let must = Counts::weighing(acceptance, Weight::Must);
    let should = Counts::weighing(acceptance, Weight::Should);
    let mut words = format!(
        "by \"{}\": {} of {} musts hold",
        acceptance.profile,
        must.passed,
        must.total()
    );
    for (count, what) in [
        (must.failed, "failed"),
        (must.not_judged, "not judged"),
        (must.excepted, "excepted"),
    ] {
        if count > 0 {
            words.push_str(&format!(", {count} {what}"));
        }
    }
    if should.total() > 0 {
        words.push_str(&format!(
            "; {} of {} shoulds hold",
            should.passed,
            should.total()
        ));
    }
    writeln!(out, "{} {}.", style.paint(code, word), visible(&words))
}

/// By check in the order of the profile.
fn by_check<'a>(
    results: impl Iterator<Item = &'a CheckResult>,
) -> Vec<(&'a str, Vec<&'a CheckResult>)> {
    let mut all: Vec<(&str, Vec<&CheckResult>)> = Vec::new();
    for result in results {
        match all.last_mut() {
            Some((check, of_check)) if *check == result.check => of_check.push(result),
            _ => match all.iter_mut().find(|(check, _)| *check == result.check) {
                Some((_, of_check)) => of_check.push(result),
                None => all.push((&result.check, vec![result])),
            },
        }
    }
    all
}

fn failed(
    results: &[&CheckResult],
    weight: Weight,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let failed = results
        .iter()
        .copied()
        .filter(|result| result.outcome == CheckOutcome::Failed);
    let (mark, code) = match weight {
        Weight::Must => ("FAILED", "1;31"),
        Weight::Should => ("SHOULD HOLD", "1;33"),
    };
    for (check, of_check) in by_check(failed) {
        let mark = style.paint(code, mark);
        writeln!(out, "\n{mark} {} ({})", visible(check), of_check.len())?;
        // One more by name would save nothing.
        let full = match of_check.len() {
            n if n <= IN_FULL + 1 => n,
            _ => IN_FULL,
        };
        of_check[..full]
            .iter()
            .try_for_each(|result| show(result, style, out))?;
        let others = &of_check[full..];
        if others.is_empty() {
            continue;
        }
        let shown = others.iter().take(BY_NAME).map(|result| match &result.saw {
            Some(saw) if saw.len() < 20 => format!("{} ({saw})", result.subject),
            _ => result.subject.clone(),
        });
        let more = match others.len().saturating_sub(BY_NAME) {
            0 => None,
            more => Some(format!("and {more} more (all in --format json)")),
        };
        let names: Vec<String> = shown.chain(more).collect();
        let text = format!("{} more: {}", others.len(), names.join(", "));
        paragraph(out, style, "  ", "    ", &text)?;
    }
    Ok(())
}

fn show(result: &CheckResult, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let saw = result.saw.as_deref().unwrap_or("nothing was seen");
    let text = format!(
        "{}: {saw}; expected {} ({})",
        result.subject, result.expected, result.expected_from
    );
    paragraph(out, style, "  ", "    ", &text)?;
    for evidence in &result.evidence {
        // What was seen stands above already.
        let text = match result.saw.as_ref() == Some(&evidence.saw) {
            true => evidence.from.clone(),
            false => format!("{} ({})", evidence.saw, evidence.from),
        };
        paragraph(out, style, "    - ", "      ", &text)?;
    }
    Ok(())
}

/// Each reason once, with those that it is about.
fn not_judged(
    results: &[&CheckResult],
    weight: Weight,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut groups: BTreeMap<(&str, &str), Vec<&CheckResult>> = BTreeMap::new();
    for result in results {
        if let CheckOutcome::NotJudged { why } = &result.outcome {
            groups.entry((&result.check, why)).or_default().push(result);
        }
    }
    if groups.is_empty() {
        return Ok(());
    }
    let count: usize = groups.values().map(Vec::len).sum();
    let what = match weight {
        Weight::Must => "and a must does not bear that",
        Weight::Should => "of what should hold",
    };
    writeln!(
        out,
        "\n{} ({count}), {what}:",
        style.paint("1;33", "NOT JUDGED")
    )?;
    for ((check, why), of_reason) in groups {
        let names: Vec<&str> = of_reason
            .iter()
            .map(|result| result.subject.as_str())
            .collect();
        let text = format!("{check}, {}: because {why}", named(&names));
        paragraph(out, style, "  - ", "    ", &text)?;
        let over = of_reason.iter().flat_map(|result| &result.evidence);
        let over = over.filter(|evidence| evidence.saw.starts_with("the exception ("));
        for evidence in over.take(1) {
            let text = format!("{} ({})", evidence.saw, evidence.from);
            paragraph(out, style, "      ", "      ", &text)?;
        }
    }
    Ok(())
}

fn named(names: &[&str]) -> String {
    match names.len() {
        n if n > MOST_NAMED => format!(
            "{} and {} more",
            names[..MOST_NAMED].join(", "),
            n - MOST_NAMED
        ),
        _ => names.join(", "),
    }
}

fn excepted(acceptance: &Acceptance, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&str>> = BTreeMap::new();
    for result in &acceptance.results {
        if let CheckOutcome::Excepted { reason, until, .. } = &result.outcome {
            let of_reason = groups.entry((&result.check, reason, until)).or_default();
            of_reason.push(&result.subject);
        }
    }
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nBorne for a while:")?;
    for ((check, reason, until), names) in groups {
        let text = format!("{check}, {}: until {until}, {reason}", named(&names));
        paragraph(out, style, "  - ", "    ", &text)?;
    }
    Ok(())
}

/// Every check with its numbers and its demand.
fn table(acceptance: &Acceptance, out: &mut dyn Write) -> io::Result<()> {
    let checks = by_check(acceptance.results.iter());
    let wide = checks
        .iter()
        .map(|(check, _)| check.chars().count())
        .max()
        .unwrap_or(0)
        .max(5);
    writeln!(
        out,
        "\n{:<wide$}  weight  holds  fails  unjudged  borne  demand",
        "check"
    )?;
    for (check, results) in checks {
        let counts = Counts::of(results.iter().copied());
        let first = results[0];
        let weight = match first.weight {
            Weight::Must => "must",
            Weight::Should => "should",
        };
        let demand = first.expected.split(": ").next().unwrap_or_default();
        writeln!(
            out,
            "{:<wide$}  {weight:<6}  {:>5}  {:>5}  {:>8}  {:>5}  {}",
            visible(check),
            counts.passed,
            counts.failed,
            counts.not_judged,
            counts.excepted,
            visible(demand)
        )?;
    }
    Ok(())
}
