//! Writes a run as the reports that were asked for, live or recorded, and gives its exit code.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::failure::Failure;
use super::output::Output;
use crate::cli::{Color, Format, FormatArg, ReportsArgs};
use crate::judge::{CostReport, Judgement, judge};
use crate::ledger::Ledger;
use crate::model::Pattern;
use crate::report::{cost_json, cost_text, json, text};

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

    /// Judges the run and writes it everywhere; the verdict's exit code, or of a run that measured only
    /// what moving data costs, whether it measured all of it. Where a report cannot be written, the error
    /// ends with how the run is `kept`.
    pub(super) fn write(self, ledger: &Ledger, kept: &str) -> Result<u8, Failure> {
        let judgement = judge(ledger);
        let only_cost = is_only_cost(ledger);
        for (format, mut output) in self.outputs {
            let style = output.style(self.color);
            let written = match (format, only_cost) {
                (Format::Text, false) => text(ledger, &judgement, style, output.writer()),
                (Format::Text, true) => cost_text(ledger, &judgement, style, output.writer()),
                (Format::Json, false) => json(ledger, &judgement, output.writer()),
                (Format::Json, true) => cost_json(ledger, &judgement, output.writer()),
            };
            written.map_err(|error| {
                Failure::work(format!("cannot write the report: {error}; {kept}"))
            })?;
            output.finish()?;
        }
        Ok(exit_code(ledger, &judgement))
    }
}

/// Whether a run was asked for nothing but what moving data costs.
fn is_only_cost(ledger: &Ledger) -> bool {
    let settings = ledger.settings();
    settings.is_some_and(|s| s.cost.is_some() && s.sweep.pattern == Pattern::Nothing)
}

/// That of the verdict; of a run that measured only what moving data costs 0 where it measured all of it,
/// else 3.
pub(super) fn exit_code(ledger: &Ledger, judgement: &Judgement) -> u8 {
    if !is_only_cost(ledger) {
        return judgement.verdict.exit_code();
    }
    match CostReport::of(ledger).is_some_and(|report| report.is_complete()) {
        true => 0,
        false => 3,
    }
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
