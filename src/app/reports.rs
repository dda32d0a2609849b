//! Writes a run as the reports that were asked for, live or recorded, and gives its exit code.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::failure::Failure;
use super::output::Output;
use crate::cli::{Color, Format, FormatArg, ReportsArgs};
use crate::judge::judge;
use crate::ledger::Ledger;
use crate::report::{json, text};

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

    /// Judges the run and writes it everywhere; the verdict's exit code. Where a report cannot be
    /// written, the error ends with how the run is `kept`.
    pub(super) fn write(self, ledger: &Ledger, kept: &str) -> Result<u8, Failure> {
        let judgement = judge(ledger);
        for (format, mut output) in self.outputs {
            let written = match format {
                Format::Text => text(
                    ledger,
                    &judgement,
                    output.style(self.color),
                    output.writer(),
                ),
                Format::Json => json(ledger, &judgement, output.writer()),
            };
            written.map_err(|error| {
                Failure::work(format!("cannot write the report: {error}; {kept}"))
            })?;
            output.finish()?;
        }
        Ok(judgement.verdict.exit_code())
    }
}

/// Where a run is kept, as a clause.
pub(super) fn kept(record: &Path) -> String {
    format!("the run is kept in {}", record.display())
}

/// Whether two names mean one file, also where neither exists yet.
fn same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let meta = path.metadata().ok()?;
        Some((meta.dev(), meta.ino()))
    };
    one == other || identity(one).is_some_and(|id| identity(other) == Some(id))
}
