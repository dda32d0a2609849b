//! The report for a merge request, a ticket or a wiki: Markdown as GitHub and GitLab render it.

use std::io::{self, Write};

use super::ends::{End, Ends, Is};
use super::findings::{Named, in_full, kinds, mark, named, reasons};
use super::gpu_memory::gpu_lines;
use super::text::{Style, counted, headline};
use super::{Run, provisos};
use crate::ledger::Ledger;
use crate::model::{
    Acceptance, AcceptanceVerdict, CheckOutcome, CheckResult, Finding, Gbps, Weight, visible,
};

/// Rows of a rail's table; of more NICs only those that are not at line rate have one, and so many.
const MAX_ROWS: usize = 32;

/// Results of a profile that have a row.
const MAX_RESULTS: usize = 200;

/// Writes the report as Markdown.
///
/// # Errors
/// Whatever `out` reports.
pub fn markdown(run: &Run<'_>, out: &mut dyn Write) -> io::Result<()> {
    let command = if run.acceptance.is_some() {
        "accept"
    } else {
        "report"
    };
    writeln!(out, "## linerate {command}\n")?;
    for proviso in provisos(run.ledger) {
        writeln!(out, "> {}\n", escaped(proviso))?;
    }
    if let Some(acceptance) = run.acceptance {
        accepted(acceptance, out)?;
    }
    verdict(run, out)?;
    findings(&run.judgement.findings, out)?;
    rates(run, out)?;
    gpu_memory(run.ledger, out)?;
    open(run, out)?;
    let settings = run.ledger.settings();
    match settings {
        Some(settings) => writeln!(out, "\nSeed of the schedule: {}", settings.seed),
        None => Ok(()),
    }
}

fn verdict(run: &Run<'_>, out: &mut dyn Write) -> io::Result<()> {
    let style = Style {
        color: false,
        width: usize::MAX,
    };
    let mut head = Vec::new();
    headline(run.ledger, run.judgement, style, &mut head)?;
    let head = String::from_utf8_lossy(&head);
    let (word, more) = head.split_once(": ").unwrap_or((&head, ""));
    writeln!(
        out,
        "**{}**: {}",
        escaped(word),
        escaped(&more.replace('\n', " "))
    )?;
    let Some(span) = run.span else { return Ok(()) };
    let began = i64::try_from(span.began_ms).ok();
    let began = began.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let Some(began) = began else { return Ok(()) };
    let seconds = span.ended_ms.saturating_sub(span.began_ms) / 1000;
    let began = began.strftime("%Y-%m-%d %H:%M:%S UTC");
    writeln!(out, "\nThe run began at {began} and took {seconds} s.")
}

fn findings(all: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    if all.is_empty() {
        return writeln!(out, "\n### Findings\n\nNone.");
    }
    writeln!(out, "\n### Findings")?;
    for of_kind in kinds(all) {
        let (full, others) = in_full(&of_kind);
        full.iter().try_for_each(|finding| show(finding, out))?;
        let Some(first) = others.first() else {
            continue;
        };
        let (mark, _) = mark(first.severity);
        writeln!(out, "\n#### {mark} {}: {} more\n", first.rule, others.len())?;
        match named(others) {
            Named::Each(lines) => {
                let mut lines = lines.iter();
                lines.try_for_each(|line| writeln!(out, "- {}", escaped(line)))?;
            }
            Named::Together(names) => writeln!(out, "{}", escaped(&names.join(", ")))?,
        }
    }
    Ok(())
}

fn show(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let (mark, _) = mark(finding.severity);
    let who = escaped(&finding.subject.to_string());
    writeln!(out, "\n#### {mark} {}: {who}\n", finding.rule)?;
    writeln!(out, "{}", escaped(&finding.says))?;
    let measured = finding.measured.is_some() && finding.expected.is_some();
    if measured || !finding.evidence.is_empty() {
        writeln!(out)?;
    }
    if let (Some(measured), Some(expected), Some(from)) =
        (finding.measured, finding.expected, &finding.expected_from)
    {
        let from = escaped(from);
        writeln!(
            out,
            "- measured **{measured}**, expected **{expected}**: {from}"
        )?;
    }
    for evidence in &finding.evidence {
        let text = format!("{} ({})", evidence.saw, evidence.from);
        writeln!(out, "- {}", escaped(&text))?;
    }
    writeln!(out, "\n**What to do:** {}", escaped(&finding.remedy))
}

fn rates(run: &Run<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut ends = Ends::of(run).all;
    if ends.is_empty() {
        return Ok(());
    }
    ends.sort_by_key(|end| end.rail);
    writeln!(out, "\n### Rates\n")?;
    writeln!(out, "The best that each NIC reached with any partner.")?;
    for rail in ends.chunk_by(|a, b| a.rail == b.rail) {
        let slots: Vec<&[End<'_>]> = rail.chunks(2).collect();
        let odd = |slot: &&&[End<'_>]| slot.iter().any(|end| !matches!(end.is, Is::AtLineRate));
        let shown: Vec<&&[End<'_>]> = match slots.len() {
            few if few <= MAX_ROWS => slots.iter().collect(),
            _ => slots.iter().filter(odd).take(MAX_ROWS).collect(),
        };
        let not = slots.iter().filter(odd).count();
        let well = slots.len() - not;
        let count = slots.len();
        writeln!(
            out,
            "\n#### {}: {well} of {count} NICs at line rate\n",
            rail[0].rail
        )?;
        if shown.is_empty() {
            continue;
        }
        writeln!(out, "| node | NIC | tx | rx | expected | at line rate |")?;
        writeln!(out, "|---|---|--:|--:|--:|---|")?;
        shown.iter().try_for_each(|slot| row(slot, out))?;
        if slots.len() > MAX_ROWS && not > shown.len() {
            let more = not - shown.len();
            writeln!(
                out,
                "\n{more} more are not, or cannot be judged (all in csv-nodes)."
            )?;
        }
    }
    Ok(())
}

fn row(slot: &[End<'_>], out: &mut dyn Write) -> io::Result<()> {
    let [tx, rx] = slot else { return Ok(()) };
    let rate = |rate: Option<Gbps>| rate.map_or_else(String::new, |rate| rate.to_string());
    let expected = match (tx.expected(), rx.expected()) {
        (Some(tx), Some(rx)) if tx != rx => format!("{tx} / {rx}"),
        (one, other) => rate(one.or(other)),
    };
    let nic = tx.nic.map_or_else(String::new, |nic| match nic.port {
        1 => nic.device.to_string(),
        port => format!("{} port {port}", nic.device),
    });
    let is = match (word(tx), word(rx)) {
        (tx, rx) if tx == rx => tx,
        (tx, rx) => format!("tx: {tx}; rx: {rx}"),
    };
    writeln!(
        out,
        "| {} | {} | {} | {} | {expected} | {is} |",
        escaped(&tx.node.0),
        escaped(&nic),
        rate(tx.rate),
        rate(rx.rate),
    )
}

fn word(end: &End<'_>) -> String {
    match &end.is {
        Is::AtLineRate => "yes".to_owned(),
        Is::Low(finding) => format!("**no** ({})", finding.rule),
        Is::NotJudged(_, Some(finding)) => format!("**not judged** ({})", finding.rule),
        Is::NotJudged(why, None) => format!("**not judged**: {}", escaped(why)),
    }
}

/// What came of the memory of GPUs, where it was to be probed.
fn gpu_memory(ledger: &Ledger, out: &mut dyn Write) -> io::Result<()> {
    let (lines, more) = gpu_lines(ledger);
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n### GPU memory\n")?;
    writeln!(
        out,
        "| NICs | GPU memory | GPU | refused before | copies to it | copies from it |"
    )?;
    writeln!(out, "|---|---|---|---|--:|--:|")?;
    for line in &lines {
        let [to, from] = line.copies.clone().unwrap_or_default();
        writeln!(
            out,
            "| {} | {} | {} | {} | {to} | {from} |",
            escaped(&line.nics),
            escaped(&line.verdict),
            escaped(&line.model),
            escaped(&line.refused.join("; ")),
        )?;
    }
    match more {
        0 => Ok(()),
        more => writeln!(out, "\n{more} more (all in --format json)."),
    }
}

/// What was not measured, and what could not be told.
fn open(run: &Run<'_>, out: &mut dyn Write) -> io::Result<()> {
    let coverage = &run.judgement.coverage;
    if !coverage.gaps.is_empty() {
        writeln!(out, "\n### Not measured\n")?;
    }
    for gap in &coverage.gaps {
        let tried = if gap.tried { "failed" } else { "not run" };
        let what = counted(coverage.of, gap.count);
        writeln!(out, "- {} {what} {tried}: {}", gap.count, escaped(&gap.why))?;
    }
    let cannot_tell = &run.judgement.cannot_tell;
    if !cannot_tell.is_empty() {
        writeln!(out, "\n### Cannot tell\n")?;
    }
    let mut reasons = reasons(cannot_tell).into_iter();
    reasons.try_for_each(|reason| writeln!(out, "- {}", escaped(&reason)))
}

/// The verdict on a profile, and each demand that does not hold or could not be judged.
fn accepted(acceptance: &Acceptance, out: &mut dyn Write) -> io::Result<()> {
    let verdict = match acceptance.verdict() {
        AcceptanceVerdict::Accepted => "ACCEPTED",
        AcceptanceVerdict::Rejected => "NOT ACCEPTED",
        AcceptanceVerdict::CouldNotJudge => "COULD NOT JUDGE EVERYTHING",
    };
    let results = &acceptance.results;
    let passed = |r: &CheckResult| r.outcome == CheckOutcome::Passed;
    let profile = escaped(&acceptance.profile);
    let hold = results.iter().filter(|r| passed(r)).count();
    writeln!(
        out,
        "**{verdict}** by the profile {profile}: {hold} of {} checks hold.\n",
        results.len()
    )?;
    let mut rows: Vec<&CheckResult> = results.iter().filter(|r| !passed(r)).collect();
    rows.sort_by_key(|result| rank(result));
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "| check | weight | subject | outcome | seen | expected |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for result in rows.iter().take(MAX_RESULTS) {
        let weight = match result.weight {
            Weight::Must => "must",
            Weight::Should => "should",
        };
        let outcome = match &result.outcome {
            CheckOutcome::Passed => "holds".to_owned(),
            CheckOutcome::Failed => "**does not hold**".to_owned(),
            CheckOutcome::NotJudged { why } => format!("**not judged**: {}", escaped(why)),
            CheckOutcome::Excepted { reason, until, why } => {
                let why = why.as_ref().map(|why| format!("; not judged: {why}"));
                let text = format!(
                    "excepted until {until}: {reason}{}",
                    why.unwrap_or_default()
                );
                escaped(&text)
            }
        };
        writeln!(
            out,
            "| {} | {weight} | {} | {outcome} | {} | {} ({}) |",
            escaped(&result.check),
            escaped(&result.subject),
            escaped(result.saw.as_deref().unwrap_or_default()),
            escaped(&result.expected),
            escaped(&result.expected_from),
        )?;
    }
    match rows.len().saturating_sub(MAX_RESULTS) {
        0 => writeln!(out),
        more => writeln!(out, "\n{more} more (all in --format json).\n"),
    }
}

/// The worst first.
fn rank(result: &CheckResult) -> u8 {
    match (&result.outcome, result.weight) {
        (CheckOutcome::Failed, Weight::Must) => 0,
        (CheckOutcome::NotJudged { .. }, Weight::Must) => 1,
        (CheckOutcome::Failed, Weight::Should) => 2,
        (CheckOutcome::NotJudged { .. }, Weight::Should) => 3,
        _ => 4,
    }
}

/// A stranger's text as text: nothing of it is markup, a link, HTML or the name of a person who would be
/// notified.
fn escaped(text: &str) -> String {
    let text = visible(text.trim());
    let mut safe = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let in_word = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric());
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            // Sites make links and mentions of what is left as text: in an element of its own it is not.
            '@' => safe.push_str("<span>@</span>"),
            ':' if rest.peek() == Some(&'/') => safe.push_str("<span>:</span>"),
            '.' if after_www(&safe) => safe.push_str("<span>.</span>"),
            '_' if in_word(before.as_ref()) && in_word(rest.peek()) => safe.push(c),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '#' | '!' => {
                safe.push('\\');
                safe.push(c);
            }
            // At the beginning of a line it would make a list or a heading.
            '+' | '-' | '=' if before.is_none() => {
                safe.push('\\');
                safe.push(c);
            }
            '.' | ')' if !safe.is_empty() && safe.chars().all(|c| c.is_ascii_digit()) => {
                safe.push('\\');
                safe.push(c);
            }
            c => safe.push(c),
        }
        before = Some(c);
    }
    safe
}

fn after_www(text: &str) -> bool {
    let last = text.len().checked_sub(3).and_then(|from| text.get(from..));
    last.is_some_and(|last| last.eq_ignore_ascii_case("www"))
}
