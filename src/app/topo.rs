//! `linerate inspect --topo`: the matrix that nvidia-smi printed on another machine.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::failure::Failure;
use super::output::Output;
use crate::cli::{InspectArgs, PlainFormat};
use crate::report::inspect::{topo_json, topo_text};
use crate::topology::{MAX_TEXT, read};

/// Reads and prints. Bad text is bad usage; a matrix is no finding, whatever it shows.
pub(super) fn run(path: &Path, arguments: &InspectArgs) -> Result<u8, Failure> {
    let is_standard = path == Path::new("-");
    let name = match is_standard {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    };
    let wrong = |error: io::Error| Failure::usage(format!("cannot read {name}: {error}"));
    let text = match is_standard {
        true => bounded(io::stdin().lock()),
        false => File::open(path).and_then(bounded),
    };
    let matrix =
        read(&text.map_err(wrong)?).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    let mut output = Output::standard();
    match arguments.format {
        PlainFormat::Text => topo_text(&matrix, output.writer()),
        PlainFormat::Json => topo_json(&matrix, output.writer()),
    }
    .map_err(|error| Failure::work(format!("cannot write the matrix: {error}")))?;
    output.finish()?;
    Ok(0)
}

/// The whole text, or enough of it to be refused as too long.
fn bounded(from: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_TEXT).unwrap_or(u64::MAX);
    from.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
