//! Two runs beside each other for a person: what is worse first, then what is better, what only changed,
//! and what could not be compared.

mod json;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::io::{self, Write};

pub use json::json;

use super::findings::paragraph;
use super::text::{SIMULATED, Style};
use crate::compare::{
    Comparison, FactGroup, FindingChange, Gap, LEAST_CHANGE, Outcome, PairChange, Presence,
    RateGroup, Scope, Trend, Turn, Way,
};
use crate::judge::Sample;
use crate::ledger::Ledger;
use crate::model::{Gbps, Rule, Severity, Subject, Verdict};

/// One of the runs.
#[derive(Clone, Copy)]
pub struct ComparedRun<'a> {
    /// What the operator called it, such as a file or `latest`.
    pub name: &'a str,
    /// When it began, in words; `None` where its record does not tell.
    pub began: Option<&'a str>,
    /// The version of linerate that ran it.
    pub linerate: &'a str,
    /// Its events added up.
    pub ledger: &'a Ledger,
    /// Its verdict.
    pub verdict: Verdict,
}

/// Of changes of one kind, so many are shown.
const SHOWN: usize = 24;

/// Writes the comparison as text.
///
/// # Errors
/// Whatever `out` reports.
pub fn text(
    found: &Comparison,
    runs: [ComparedRun<'_>; 2],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let simulated = |run: &ComparedRun<'_>| run.ledger.settings().is_some_and(|s| s.simulated);
    if runs.iter().all(simulated) {
        writeln!(out, "{SIMULATED}")?;
    }
    headline(found, style, out)?;
    for (which, run) in ["before", "after"].into_iter().zip(&runs) {
        let began = run
            .began
            .map_or(String::new(), |began| format!(", begun {began}"));
        let text = format!("{which}: {}{began}, linerate {}", run.name, run.linerate);
        paragraph(out, style, "  ", "    ", &text)?;
    }
    for trend in [Trend::Worse, Trend::Better, Trend::Other] {
        of_trend(found, trend, style, out)?;
    }
    counted(found, style, out)?;
    settings(found, style, out)?;
    gaps(&found.gaps, style, out)?;
    neither(found, style, out)?;
    spread(found, style, out)
}

fn headline(found: &Comparison, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let (worse, better) = (found.regressions(), found.improvements());
    let (code, words) = match (found.outcome(), worse) {
        (Outcome::NoRegression, _) => ("1;32", "NO REGRESSION".to_owned()),
        (Outcome::CouldNotCompare, _) => ("1;33", "COULD NOT COMPARE EVERYTHING".to_owned()),
        (Outcome::Regressions, 1) => ("1;31", "1 REGRESSION".to_owned()),
        (Outcome::Regressions, many) => ("1;31", format!("{many} REGRESSIONS")),
    };
    let better = match better {
        0 => String::new(),
        1 => ", 1 improvement".to_owned(),
        many => format!(", {many} improvements"),
    };
    let c = &found.compared;
    writeln!(
        out,
        "{}{better}: {} of {} nodes, {} of {} NIC directions and {} facts compared.",
        style.paint(code, &words),
        c.nodes,
        c.of_nodes,
        c.ends,
        c.of_ends,
        c.facts
    )
}

/// Everything that went one way, rates first.
fn of_trend(found: &Comparison, trend: Trend, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = Vec::new();
    let rates = found
        .rates
        .groups
        .iter()
        .filter(|group| group.trend() == trend);
    lines.extend(rates.map(|group| rate(group, found)));
    let pairs = found
        .rates
        .pairs
        .iter()
        .filter(|pair| pair.trend() == trend);
    lines.extend(pairs.map(|change| pair(change, found)));
    let things = found.presence.iter().filter(|thing| thing.trend() == trend);
    lines.extend(presence(things));
    let facts = found.facts.iter().filter(|group| group.trend == trend);
    lines.extend(facts.map(fact));
    // What is told already stands below what tells it.
    let findings = found
        .findings
        .iter()
        .filter(|f| f.trend() == trend && !f.is_told);
    lines.extend(of_findings(findings));
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let more = lines.len().saturating_sub(SHOWN);
    for line in lines.iter().take(SHOWN) {
        line.write(trend, style, out)?;
    }
    match more {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more (all in --format json)"),
    }
}

/// A change, with what it rests on.
struct Line {
    mark: &'static str,
    says: String,
    evidence: Vec<String>,
}

impl Line {
    fn write(&self, trend: Trend, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let code = match trend {
            Trend::Worse => "1;31",
            Trend::Better => "1;32",
            Trend::Other => "1",
        };
        let mut text = Vec::new();
        paragraph(
            &mut text,
            style,
            "",
            "  ",
            &format!("{} {}", self.mark, self.says),
        )?;
        // Painted when it is wrapped: colours have no width.
        let text = String::from_utf8_lossy(&text);
        let rest = text.strip_prefix(self.mark).unwrap_or(&text);
        write!(out, "{}{rest}", style.paint(code, self.mark))?;
        let mut evidence = self.evidence.iter();
        evidence.try_for_each(|text| paragraph(out, style, "    - ", "      ", text))
    }
}

fn rate(group: &RateGroup, found: &Comparison) -> Line {
    let mark = match group.trend() {
        Trend::Worse => "SLOWER",
        _ => "FASTER",
    };
    let mut evidence = words::samples(group);
    let told = found.findings.iter().filter(|change| change.is_told);
    let whole = group.scope == Scope::Cluster;
    let is_of =
        |change: &&FindingChange| whole || words::is_of(&group.changes, &change.finding.subject);
    evidence.extend(told_with(told.filter(is_of).collect()));
    let (before, after) = (group.before, group.after);
    Line {
        mark,
        says: format!("{}: {}", words::scope(group), from_to(before, after)),
        evidence,
    }
}

/// Findings that came or went with a change: of many only how many of each rule.
fn told_with(told: Vec<&FindingChange>) -> Vec<String> {
    const IN_FULL: usize = 2;
    let how = |turn| match turn {
        Turn::Came => "is found now",
        Turn::Went => "is found no more",
    };
    if told.len() <= IN_FULL {
        let sentence = |change: &&FindingChange| {
            let finding = &change.finding;
            format!("{} {}: {}", finding.rule, how(change.turn), finding.says)
        };
        return told.iter().map(sentence).collect();
    }
    let mut rules: BTreeMap<(Rule, Turn), usize> = BTreeMap::new();
    for change in told {
        *rules.entry((change.finding.rule, change.turn)).or_default() += 1;
    }
    let rules = rules.into_iter();
    rules
        .map(|((rule, turn), count)| format!("{rule} {} {count} times", how(turn)))
        .collect()
}

fn pair(change: &PairChange, found: &Comparison) -> Line {
    let mark = match change.trend() {
        Trend::Worse => "SLOWER",
        _ => "FASTER",
    };
    let (before, after) = (change.before.median(), change.after.median());
    let told = found.findings.iter().filter(|told| told.is_told);
    let of_it = told.filter(|told| told.finding.subject == Subject::Pair(change.pair.clone()));
    let mut evidence = vec![format!(
        "which of the two it is cannot be told: {} before and {} after",
        probes(&change.before),
        probes(&change.after)
    )];
    evidence.extend(told_with(of_it.collect()));
    Line {
        mark,
        says: format!("{}: {}", change.pair, from_to(before, after)),
        evidence,
    }
}

fn probes(sample: &Sample) -> String {
    match sample.probes {
        1 => "1 probe".to_owned(),
        many => format!("{many} probes"),
    }
}

/// `195 Gb/s, 391 Gb/s before (−50.1 %)`.
fn from_to(before: Gbps, after: Gbps) -> String {
    let change = after.share_of(before).map_or(0.0, |share| share - 1.0);
    format!("{after}, {before} before ({})", percent(change))
}

/// A share as a change, with its sign.
fn percent(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    format!("{sign}{:.1} %", share.abs() * 100.0)
}

/// Things that came or went, those for one reason together.
fn presence<'a>(things: impl Iterator<Item = &'a Presence>) -> Vec<Line> {
    let mut groups: BTreeMap<(Way, u8, Option<&str>), Vec<&Presence>> = BTreeMap::new();
    for told in things {
        let key = (told.way, words::kind(&told.thing), told.why.as_deref());
        groups.entry(key).or_default().push(told);
    }
    let line = |((way, _, why), told): ((Way, u8, Option<&str>), Vec<&Presence>)| {
        let mark = match way {
            Way::Gone => "GONE",
            Way::New => "NEW",
        };
        Line {
            mark,
            says: words::things(&told),
            evidence: why.map(str::to_owned).into_iter().collect(),
        }
    };
    groups.into_iter().map(line).collect()
}

fn fact(group: &FactGroup) -> Line {
    let mark = match group.trend {
        Trend::Worse => "WORSE",
        Trend::Better => "BETTER",
        Trend::Other => "CHANGED",
    };
    Line {
        mark,
        says: words::fact(group),
        evidence: Vec::new(),
    }
}

/// Findings one by one; what many nodes have alike by the first, and the number of the others.
fn of_findings<'a>(findings: impl Iterator<Item = &'a FindingChange>) -> Vec<Line> {
    let mut kinds: Vec<Vec<&FindingChange>> = Vec::new();
    for change in findings {
        let same = |kind: &&mut Vec<&FindingChange>| {
            let first = &kind[0];
            first.turn == change.turn && first.finding.rule == change.finding.rule
        };
        match kinds.iter_mut().find(same) {
            Some(kind) => kind.push(change),
            None => kinds.push(vec![change]),
        }
    }
    kinds.iter().map(|kind| of_kind(kind)).collect()
}

fn of_kind(kind: &[&FindingChange]) -> Line {
    let finding = &kind[0].finding;
    let severity = match finding.severity {
        Severity::Fault => "fault",
        Severity::Warning => "warning",
        Severity::NotJudged => "not judged",
        Severity::Note => "note",
    };
    let more = match kind.len() - 1 {
        0 => String::new(),
        more => {
            let subjects = kind[1..]
                .iter()
                .map(|change| change.finding.subject.to_string());
            let subjects = words::some(subjects.collect(), ", ");
            format!(" (and {more} more like it: {subjects})")
        }
    };
    let mark = match kind[0].turn {
        Turn::Came => "FOUND",
        Turn::Went => "NO LONGER FOUND",
    };
    Line {
        mark,
        says: format!("{} ({severity}): {}{more}", finding.rule, finding.says),
        evidence: Vec::new(),
    }
}

fn counted(found: &Comparison, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if found.counters.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nCounters of errors that went up from survey to survey:"
    )?;
    let mut lines = words::counters(&found.counters);
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    for line in &lines {
        paragraph(out, style, "  - ", "    ", line)?;
    }
    match more {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more (all in --format json)"),
    }
}

fn settings(found: &Comparison, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if found.settings.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nAsked for otherwise:")?;
    for change in found.settings.iter().take(SHOWN) {
        let word = |value: &Option<String>| value.as_ref().map_or("not stated", |v| v).to_owned();
        let (before, after) = (word(&change.before), word(&change.after));
        let shown = [before, after].map(|value| words::short(&value));
        let text = format!("{}: {} → {}", change.name, shown[0], shown[1]);
        paragraph(out, style, "  - ", "    ", &text)?;
    }
    Ok(())
}

/// What could not be compared, each reason once with those it is about; what matters first.
fn gaps(all: &[Gap], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut groups: BTreeMap<(bool, &str, &str), Vec<&Gap>> = BTreeMap::new();
    for gap in all {
        let key = (!gap.matters, gap.what.as_str(), gap.why.as_str());
        groups.entry(key).or_default().push(gap);
    }
    for (matters, heading) in [
        (true, "Cannot compare, and something may be worse there:"),
        (false, "Cannot compare:"),
    ] {
        let mine = groups.iter().filter(|((other, ..), _)| *other != matters);
        let mut lines: Vec<String> = mine
            .map(|((_, what, why), gaps)| words::gap(what, why, gaps))
            .collect();
        if lines.is_empty() {
            continue;
        }
        let more = lines.len().saturating_sub(SHOWN);
        lines.truncate(SHOWN);
        writeln!(out, "\n{heading}")?;
        for line in &lines {
            paragraph(out, style, "  - ", "    ", line)?;
        }
        if more > 0 {
            writeln!(out, "  and {more} more (all in --format json)")?;
        }
    }
    Ok(())
}

fn neither(found: &Comparison, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if found.known_to_neither.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = found.known_to_neither.keys().copied().collect();
    writeln!(out)?;
    let text = format!("{}.", names.join(", "));
    paragraph(
        out,
        style,
        "Known to neither run of some nodes or NICs: ",
        "  ",
        &text,
    )
}

/// What the cluster did as a whole, and from where on a change counts.
fn spread(found: &Comparison, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let rates = &found.rates;
    if rates.compared == 0 {
        return Ok(());
    }
    let share = |d: f64| d.exp() - 1.0;
    let spread = &rates.spread;
    let from = 1.0 - (-spread.counts_from).exp();
    let text = format!(
        "as a whole {}; a single one counts from {:.1} % on: {:.1} times their spread of {:.2} %, and at least \
         {:.0} %.",
        percent(share(spread.middle)),
        from * 100.0,
        spread.factor,
        share(spread.deviation) * 100.0,
        LEAST_CHANGE * 100.0
    );
    writeln!(out)?;
    paragraph(out, style, "Rates: ", "  ", &text)
}
