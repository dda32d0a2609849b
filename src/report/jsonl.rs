//! The events of a run as JSON Lines: what its record has, one document a line.

use std::io::{self, Write};

use super::quiet;
use crate::model::Record;

/// Writes the events one by one as they come.
///
/// # Errors
/// The first of `events`, and whatever `out` reports.
pub fn jsonl(
    events: impl Iterator<Item = io::Result<Record>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for event in events {
        quiet::line(out, &event?)?;
    }
    Ok(())
}
