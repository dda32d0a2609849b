//! The events of a run as JSON Lines: what its record has, one document a line.

use std::io::{self, Write};

use super::quiet;

/// Writes the lines one by one as they come: each is a document as the record has it, without its line
/// break.
///
/// # Errors
/// The first of `lines`, and whatever `out` reports.
pub fn jsonl(
    lines: impl Iterator<Item = io::Result<String>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for line in lines {
        quiet::copy(out, &line?)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}
