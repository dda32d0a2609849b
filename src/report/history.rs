//! The runs that are on record: when, what, and what came of it.

use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::REPORT_SCHEMA;
use super::quiet;
use super::text::Style;
use crate::model::{Bytes, Pattern, Verdict, visible};

/// A file in the folder of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// What commands take for it beside its name: `latest`, `latest~1`; none where it is no finished run.
    pub alias: Option<String>,
    /// The file.
    pub path: PathBuf,
    /// Its name without what every record's name ends with.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The run, or why it cannot be read.
    pub run: Result<ListedRun, String>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything planned was tried.
    Whole,
    /// The operator stopped it.
    Interrupted,
    /// Its time budget was spent.
    TimeUp,
    /// Its record has no end: whatever wrote it was killed.
    CutOff,
    /// It is being recorded now.
    InProgress,
}

impl Ended {
    /// As a person reads it.
    fn words(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Interrupted => "interrupted",
            Self::TimeUp => "time up",
            Self::CutOff => "cut off",
            Self::InProgress => "in progress",
        }
    }

    /// As JSON has it.
    fn name(self) -> &'static str {
        match self {
            Self::Whole => "complete",
            Self::Interrupted => "interrupted",
            Self::TimeUp => "time_up",
            Self::CutOff => "cut_off",
            Self::InProgress => "in_progress",
        }
    }
}

/// A recorded run.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedRun {
    /// When it began, as of RFC 3339, in UTC.
    pub began: String,
    /// From its first event to its last, in seconds.
    pub seconds: u64,
    /// Version of linerate that ran it.
    pub linerate: String,
    /// Which pairs it was asked for.
    pub pattern: Pattern,
    /// Whether it measured what moving data costs.
    pub cost: bool,
    /// Nodes that it was asked for.
    pub nodes: usize,
    /// Rails that were found.
    pub rails: usize,
    /// Whether nothing was measured.
    pub simulated: bool,
    /// How it ended.
    pub ended: Ended,
    /// Bytes of a torn last line, which do not count.
    pub torn_bytes: u64,
    /// Its verdict; none while it goes on.
    pub verdict: Option<Verdict>,
    /// Findings that are faults.
    pub faults: usize,
    /// Findings that are warnings.
    pub warnings: usize,
    /// All findings.
    pub findings: usize,
}

impl ListedRun {
    /// `adaptive`, `full + cost`.
    fn what(&self) -> String {
        let pattern = match &self.pattern {
            Pattern::Nothing => return "cost".to_owned(),
            Pattern::Adaptive => "adaptive",
            Pattern::Quick => "quick",
            Pattern::Full => "full",
            Pattern::Ring => "ring",
            Pattern::One { .. } => "one",
            Pattern::Pairs { .. } => "pairs",
        };
        match self.cost {
            true => format!("{pattern} + cost"),
            false => pattern.to_owned(),
        }
    }

    /// `1 fault, 2 warnings`.
    fn verdict(&self) -> String {
        let count = |count: usize, one: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            many => Some(format!("{many} {one}s")),
        };
        let word = match self.verdict {
            None => return "–".to_owned(),
            Some(Verdict::AtLineRate) => Some("at line rate".to_owned()),
            Some(Verdict::Faults) => count(self.faults, "fault"),
            Some(Verdict::CouldNotJudge) => Some("not judged".to_owned()),
        };
        let parts = [word, count(self.warnings, "warning")];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Writes the runs as a table, one a line. `left_out` are those beyond the limit.
///
/// # Errors
/// Whatever `out` reports.
pub fn text(runs: &[Listed], left_out: usize, style: Style, out: &mut dyn Write) -> io::Result<()> {
    const HEAD: [&str; 8] = [
        "run",
        "began (UTC)",
        "took",
        "what",
        "nodes x rails",
        "verdict",
        "record",
        "size",
    ];
    let read = runs
        .iter()
        .filter_map(|listed| Some((listed, listed.run.as_ref().ok()?)));
    let rows: Vec<(Option<Verdict>, [String; 8])> = read
        .map(|(listed, run)| (run.verdict, row(listed, run)))
        .collect();
    if rows.is_empty() {
        writeln!(out, "No run is on record.")?;
    } else {
        let head = HEAD.map(str::to_owned);
        let all = || rows.iter().map(|(_, row)| row).chain([&head]);
        let width = |at: usize| all().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
        line(&head, &widths, None, style, out)?;
        for (verdict, row) in &rows {
            line(row, &widths, *verdict, style, out)?;
        }
    }
    if left_out > 0 {
        writeln!(out, "and {left_out} older (--limit shows more)")?;
    }
    let unread = runs
        .iter()
        .filter_map(|listed| Some((listed, listed.run.as_ref().err()?)));
    for (at, (listed, why)) in unread.enumerate() {
        if at == 0 {
            writeln!(out, "\nNot read:")?;
        }
        let path = listed.path.display().to_string();
        // Most reasons name the file themselves.
        let said = match why.starts_with(&path) {
            true => why.clone(),
            false => format!("{path}: {why}"),
        };
        writeln!(out, "  {}", visible(&said))?;
    }
    Ok(())
}

fn row(listed: &Listed, run: &ListedRun) -> [String; 8] {
    let began = run.began.replace('T', " ");
    let began = began.trim_end_matches('Z');
    let simulated = if run.simulated { " (simulated)" } else { "" };
    let alias = listed.alias.as_deref().unwrap_or("");
    let torn = if run.torn_bytes > 0 { ", torn" } else { "" };
    [
        alias.to_owned(),
        began.to_owned(),
        took(run.seconds),
        format!("{}{simulated}", run.what()),
        format!("{} x {}", run.nodes, run.rails),
        run.verdict(),
        format!("{} ({}{torn})", listed.name, run.ended.words()),
        Bytes(listed.bytes).to_string(),
    ]
    .map(|cell| visible(&cell))
}

fn line(
    row: &[String; 8],
    widths: &[usize],
    verdict: Option<Verdict>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let code = match verdict {
        Some(Verdict::AtLineRate) => Some("32"),
        Some(Verdict::Faults) => Some("31"),
        Some(Verdict::CouldNotJudge) => Some("33"),
        None => None,
    };
    let mut text = String::new();
    for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
        let padded = match at {
            // Numbers end below each other.
            2 | 7 => format!("{cell:>width$}"),
            _ => format!("{cell:width$}"),
        };
        let between = if at == 0 { "" } else { "  " };
        let padded = match code.filter(|_| at == 5) {
            Some(code) => style.paint(code, &padded),
            None => padded,
        };
        text.push_str(between);
        text.push_str(&padded);
    }
    writeln!(out, "{}", text.trim_end())
}

/// `42 s`, `3 min 20 s`, `2 h 5 min`.
fn took(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Writes the runs as one JSON document.
///
/// # Errors
/// Whatever `out` reports.
pub fn json(runs: &[Listed], left_out: usize, out: &mut dyn Write) -> io::Result<()> {
    let document = json!({
        "schema": REPORT_SCHEMA,
        "linerate": env!("CARGO_PKG_VERSION"),
        "runs": runs.iter().map(value).collect::<Vec<_>>(),
        "left_out": left_out,
    });
    quiet::pretty(out, &document)
}

fn value(listed: &Listed) -> Value {
    let mut value = json!({
        "alias": listed.alias,
        "name": listed.name,
        "path": listed.path.to_string_lossy(),
        "bytes": listed.bytes,
    });
    let more = match &listed.run {
        Err(why) => json!({"state": "unreadable", "why": why}),
        Ok(run) => json!({
            "state": run.ended.name(),
            "began": run.began,
            "seconds": run.seconds,
            "linerate": run.linerate,
            "pattern": run.pattern,
            "cost": run.cost,
            "nodes": run.nodes,
            "rails": run.rails,
            "simulated": run.simulated,
            "torn_bytes": run.torn_bytes,
            "verdict": run.verdict,
            "faults": run.faults,
            "warnings": run.warnings,
            "findings": run.findings,
        }),
    };
    if let (Value::Object(fields), Value::Object(more)) = (&mut value, more) {
        fields.extend(more);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(verdict: Option<Verdict>, ended: Ended) -> ListedRun {
        ListedRun {
            began: "2026-11-30T10:15:00Z".into(),
            seconds: 3725,
            linerate: "0.1.0".into(),
            pattern: Pattern::Adaptive,
            cost: false,
            nodes: 128,
            rails: 8,
            simulated: false,
            ended,
            torn_bytes: 0,
            verdict,
            faults: 1,
            warnings: 2,
            findings: 4,
        }
    }

    fn listed(alias: Option<&str>, run: Result<ListedRun, String>) -> Listed {
        Listed {
            alias: alias.map(str::to_owned),
            path: "/runs/a.jsonl".into(),
            name: "a".into(),
            bytes: 3 << 20,
            run,
        }
    }

    fn runs() -> Vec<Listed> {
        let cut = ListedRun {
            pattern: Pattern::Nothing,
            cost: true,
            simulated: true,
            seconds: 9,
            torn_bytes: 12,
            warnings: 0,
            ..run(Some(Verdict::CouldNotJudge), Ended::CutOff)
        };
        vec![
            listed(None, Ok(run(None, Ended::InProgress))),
            listed(Some("latest"), Ok(run(Some(Verdict::Faults), Ended::Whole))),
            listed(Some("latest~1"), Ok(cut)),
            listed(None, Err("a \u{1b}[31mfolder".into())),
            listed(None, Err("/runs/a.jsonl, line 1: no event".into())),
        ]
    }

    const STYLE: Style = Style {
        color: false,
        width: 100,
    };

    #[test]
    fn a_history_reads_well() {
        let mut out = Vec::new();
        text(&runs(), 7, STYLE, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
        let mut out = Vec::new();
        text(&[], 0, STYLE, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "No run is on record.\n");
    }

    #[test]
    fn a_history_for_programs_says_the_same() {
        let mut out = Vec::new();
        json(&runs(), 7, &mut out).unwrap();
        let value: Value = serde_json::from_slice(&out).unwrap();
        let states = value["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["state"].clone());
        let states: Vec<Value> = states.collect();
        assert_eq!(
            states,
            [
                "in_progress",
                "complete",
                "cut_off",
                "unreadable",
                "unreadable"
            ]
        );
        assert_eq!(value["runs"][0]["verdict"], Value::Null);
        assert_eq!(value["runs"][1]["faults"], 1);
    }
}
