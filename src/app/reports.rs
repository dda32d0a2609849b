//! The reports of a run, each in its form and to its place.

use super::failure::Failure;
use super::output::Output;
use crate::cli::{Color, Format, FormatArg};
use crate::judge::Judgement;
use crate::ledger::Ledger;
use crate::report::{json, text};

/// Every place that a report goes to, with its form.
pub(super) struct Reports(Vec<(Format, Output)>);

impl Reports {
    /// Opens them all, as the command line has them.
    pub(super) fn open(wanted: Result<Vec<FormatArg>, String>) -> Result<Self, Failure> {
        let open = |wanted: FormatArg| {
            let output = match &wanted.file {
                Some(path) => Output::file(path)?,
                None => Output::standard(),
            };
            Ok((wanted.format, output))
        };
        let wanted = wanted.map_err(Failure::usage)?.into_iter();
        wanted.map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Writes them all; `kept` tells, where that fails, what is not lost.
    pub(super) fn write(
        self,
        ledger: &Ledger,
        judgement: &Judgement,
        color: Color,
        kept: &str,
    ) -> Result<(), Failure> {
        for (format, mut output) in self.0 {
            let written = match format {
                Format::Text => text(ledger, judgement, output.style(color), output.writer()),
                Format::Json => json(ledger, judgement, output.writer()),
            };
            written.map_err(|error| {
                Failure::work(format!("cannot write the report: {error}; {kept}"))
            })?;
            output.finish()?;
        }
        Ok(())
    }
}
