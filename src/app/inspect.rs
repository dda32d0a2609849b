//! `linerate inspect`: this machine's facts, without SSH.

use super::failure::Failure;
use super::output::Output;
use super::surveyor;
use crate::cli::{Format, InspectArgs};
use crate::report::inspect::text;
use crate::survey::Root;

/// Surveys and prints.
pub(super) fn run(arguments: &InspectArgs) -> Result<u8, Failure> {
    let root = match &arguments.root {
        Some(path) if !path.is_dir() => {
            return Err(Failure::usage(format!(
                "--root {}: not a directory",
                path.display()
            )));
        }
        Some(path) => Root::at(path),
        None => Root::live(),
    };
    let facts = surveyor::facts(&root);
    let mut output = Output::standard();
    match arguments.format {
        Format::Text => text(&facts, output.writer()),
        Format::Json => serde_json::to_writer_pretty(output.writer(), &facts)
            .map_err(std::io::Error::from)
            .and_then(|()| output.writer().write_all(b"\n")),
    }
    .map_err(|error| Failure::work(format!("cannot write the facts: {error}")))?;
    output.finish()?;
    Ok(0)
}
