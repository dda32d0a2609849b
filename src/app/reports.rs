//! Writes a run as the reports that were asked for, live or recorded, and gives its exit code.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::failure::Failure;
use super::output::Output;
use crate::cli::{Color, Format, FormatArg, ReportsArgs};
use crate::judge::{CostReport, Judgement, judge};
use crate::ledger::Ledger;
use crate::model::{Acceptance, Pattern, Span};
use crate::record::{Lines, span};
use crate::report::{
    Run, Style, accept_json, accept_text, cost_json, cost_text, csv_nodes, csv_pairs, html, json,
    jsonl, junit, markdown, openmetrics, tap, text,
};

/// A run that is over, as its reports need it.
pub(super) struct Ran<'a> {
    ledger: &'a Ledger,
    judgement: Judgement,
    /// What became of the profile that it was held against, where there was one.
    pub(super) acceptance: Option<Acceptance>,
    record: Option<&'a Path>,
    /// How it is kept, as a clause that errors end with.
    kept: String,
}

impl<'a> Ran<'a> {
    /// A run that is kept in this record, whole or cut off.
    pub(super) fn recorded(ledger: &'a Ledger, record: &'a Path) -> Self {
        Self {
            record: Some(record),
            ..Self::unrecorded(ledger, kept(record))
        }
    }

    /// A run that is on no record; how to have it again, as a clause.
    pub(super) fn unrecorded(ledger: &'a Ledger, kept: impl Into<String>) -> Self {
        Self {
            ledger,
            judgement: judge(ledger),
            acceptance: None,
            record: None,
            kept: kept.into(),
        }
    }

    /// The same, to be had again otherwise than by its record.
    pub(super) fn kept_as(self, kept: String) -> Self {
        Self { kept, ..self }
    }

    /// All that is known of it.
    pub(super) fn ledger(&self) -> &'a Ledger {
        self.ledger
    }

    /// What is to be said of it.
    pub(super) fn judgement(&self) -> &Judgement {
        &self.judgement
    }

    /// That of the profile's verdict, or else of the run's; of a run that measured only what moving data
    /// costs 0 where it measured all of it, else 3.
    pub(super) fn exit_code(&self) -> u8 {
        if let Some(acceptance) = &self.acceptance {
            return acceptance.verdict().exit_code();
        }
        if !is_only_cost(self.ledger) {
            return self.judgement.verdict.exit_code();
        }
        match CostReport::of(self.ledger).is_some_and(|report| report.is_complete()) {
            true => 0,
            false => 3,
        }
    }

    /// The same for the room that writes.
    fn run(&self, span: Option<Span>) -> Run<'_> {
        Run {
            ledger: self.ledger,
            judgement: &self.judgement,
            acceptance: self.acceptance.as_ref(),
            span,
        }
    }

    /// Its events as JSON, read from its record one by one.
    fn lines(&self) -> io::Result<impl Iterator<Item = io::Result<String>>> {
        let path = self
            .record
            .ok_or_else(|| io::Error::other("the run was not recorded, so its events are gone"))?;
        let lines = Lines::open(path).map_err(io::Error::other)?;
        Ok(lines.map(|line| Ok(line.map_err(io::Error::other)?.json)))
    }
}

/// Every place that a report goes to, with its form.
pub(super) struct Reports {
    outputs: Vec<(Format, Output)>,
    color: Color,
}

impl Reports {
    /// Opens every place before the work: one that cannot be written to must not cost the work's
    /// results. None may be the `record`, which a report would replace.
    pub(super) fn open(arguments: &ReportsArgs, record: Option<&Path>) -> Result<Self, Failure> {
        let open = |wanted: FormatArg| {
            let output = match (&wanted.file, record) {
                (Some(path), Some(record)) if same_file(path, record) => {
                    return Err(Failure::usage(format!(
                        "the report would overwrite the record {}: give another name",
                        record.display()
                    )));
                }
                (Some(path), _) => Output::file(path)?,
                (None, _) => Output::standard(),
            };
            Ok((wanted.format, output))
        };
        let wanted = arguments.outputs().map_err(Failure::usage)?;
        Ok(Self {
            outputs: wanted.into_iter().map(open).collect::<Result<_, _>>()?,
            color: arguments.color,
        })
    }

    /// The same for a run that measures only what moving data costs, which not every form can hold.
    pub(super) fn open_of_cost(
        arguments: &ReportsArgs,
        record: Option<&Path>,
    ) -> Result<Self, Failure> {
        let reports = Self::open(arguments, record)?;
        reports.can_hold_cost()?;
        Ok(reports)
    }

    fn can_hold_cost(&self) -> Result<(), Failure> {
        let others = self.outputs.iter().find(|(format, _)| !format.holds_cost());
        match others {
            None => Ok(()),
            Some((format, _)) => Err(Failure::usage(format!(
                "what moving data costs is not written as {format}: ask for {}",
                Format::names(Format::holds_cost)
            ))),
        }
    }

    /// Whether one of them has the events of the run, which only a record keeps.
    pub(super) fn need_record(&self) -> bool {
        self.outputs
            .iter()
            .any(|(format, _)| *format == Format::Jsonl)
    }

    /// Writes the run everywhere; its exit code. Where a report cannot be written, the error ends with how
    /// the run is kept.
    pub(super) fn write(self, ran: &Ran<'_>) -> Result<u8, Failure> {
        if is_only_cost(ran.ledger) {
            self.can_hold_cost()?;
        }
        // A record that cannot be read has no time; what reads its events says why.
        let timed = self.outputs.iter().any(|(format, _)| !format.holds_cost());
        let record = ran.record.filter(|_| timed);
        let span = record.and_then(|record| span(record).ok().flatten());
        for (format, mut output) in self.outputs {
            let style = output.style(self.color);
            write_one(format, ran, span, style, output.writer()).map_err(|error| {
                Failure::work(format!("cannot write the report: {error}; {}", ran.kept))
            })?;
            output.finish()?;
        }
        Ok(ran.exit_code())
    }
}

/// Writes one form of a run.
fn write_one(
    format: Format,
    ran: &Ran<'_>,
    span: Option<Span>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let run = ran.run(span);
    let Run {
        ledger, judgement, ..
    } = run;
    if let Some(acceptance) = run.acceptance {
        match format {
            Format::Text => return accept_text(ledger, judgement, acceptance, style, out),
            Format::Json => return accept_json(ledger, acceptance, out),
            _ => {}
        }
    }
    match format {
        Format::Text if is_only_cost(ledger) => cost_text(ledger, judgement, style, out),
        Format::Text => text(ledger, judgement, style, out),
        Format::Json if is_only_cost(ledger) => cost_json(ledger, judgement, out),
        Format::Json => json(ledger, judgement, out),
        Format::Jsonl => jsonl(ran.lines()?, out),
        Format::Html => html(&run, out),
        Format::Markdown => markdown(&run, out),
        Format::CsvPairs => csv_pairs(&run, out),
        Format::CsvNodes => csv_nodes(&run, out),
        Format::Junit => junit(&run, out),
        Format::Tap => tap(&run, out),
        Format::Openmetrics => openmetrics(&run, out),
    }
}

/// Whether a run was asked for nothing but what moving data costs.
pub(super) fn is_only_cost(ledger: &Ledger) -> bool {
    let settings = ledger.settings();
    settings.is_some_and(|s| s.cost.is_some() && s.sweep.pattern == Pattern::Nothing)
}

/// Where a run is kept, as a clause.
pub(super) fn kept(record: &Path) -> String {
    format!("the run is kept in {}", record.display())
}

/// Whether two names mean one file, also where neither exists yet.
pub(super) fn same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let meta = path.metadata().ok()?;
        Some((meta.dev(), meta.ino()))
    };
    one == other || identity(one).is_some_and(|id| identity(other) == Some(id))
}
