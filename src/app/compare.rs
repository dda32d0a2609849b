//! `linerate compare`: two recorded runs beside each other, and the exit code.

use std::path::Path;

use super::failure::Failure;
use super::output::Output;
use super::replay::cut_off;
use super::runs::{self, Recalled};
use crate::cli::{CompareArgs, PlainFormat};
use crate::compare::{Comparison, Nodes, Side, compare};
use crate::judge::{Judgement, judge};
use crate::report::compare::{ComparedRun, json, text};

/// A run that was named, read and judged.
struct Named {
    name: String,
    began: Option<String>,
    run: Recalled,
    judgement: Judgement,
}

/// Reads both, compares, reports; the exit code is that of the comparison.
pub(super) fn run(arguments: &CompareArgs) -> Result<u8, Failure> {
    let names = [&arguments.before, &arguments.after];
    let paths = [runs::resolve(names[0])?, runs::resolve(names[1])?];
    let output = match &arguments.output {
        Some(file)
            if paths
                .iter()
                .any(|path| super::reports::same_file(file, path)) =>
        {
            return Err(Failure::usage(format!(
                "the comparison would overwrite the record {}: give another name",
                file.display()
            )));
        }
        Some(file) => Output::file(file)?,
        None => Output::standard(),
    };
    let before = read(names[0], &paths[0])?;
    let after = read(names[1], &paths[1])?;
    if before.run.from_ms > after.run.from_ms {
        eprintln!("note: {} began after {}", before.name, after.name);
    }
    let nodes = match arguments.common {
        true => Nodes::Common,
        false => Nodes::All,
    };
    let found = compare(side(&before), side(&after), nodes).map_err(Failure::usage)?;
    write(arguments, &found, [&before, &after], output)?;
    Ok(found.outcome().exit_code())
}

fn read(name: &Path, path: &Path) -> Result<Named, Failure> {
    let run = runs::recall(path).map_err(|error| Failure::usage(Failure::chain(&error)))?;
    if let Some(torn) = &run.torn {
        eprintln!("{}", cut_off(path, torn, &run.ledger));
    }
    // A run by its place is another tomorrow.
    let name = match name == path {
        true => path.display().to_string(),
        false => format!("{} ({})", name.display(), path.display()),
    };
    Ok(Named {
        name,
        began: runs::in_words(run.from_ms),
        judgement: judge(&run.ledger),
        run,
    })
}

fn side(named: &Named) -> Side<'_> {
    Side {
        ledger: &named.run.ledger,
        judgement: &named.judgement,
    }
}

fn write(
    arguments: &CompareArgs,
    found: &Comparison,
    runs: [&Named; 2],
    mut output: Output,
) -> Result<(), Failure> {
    let runs = runs.map(|named| ComparedRun {
        name: &named.name,
        began: named.began.as_deref(),
        linerate: &named.run.linerate,
        ledger: &named.run.ledger,
        verdict: named.judgement.verdict,
    });
    let style = output.style(arguments.color);
    match arguments.format {
        PlainFormat::Text => text(found, runs, style, output.writer()),
        PlainFormat::Json => json(found, runs, output.writer()),
    }
    .map_err(|error| Failure::work(format!("cannot write the comparison: {error}")))?;
    output.finish()
}
