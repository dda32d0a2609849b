//! The record of a run: its events, one JSON document a line, in a file that only grows.
//!
//! ```text
//! {"seq":0,"at_ms":1796033700000,"event":{"is":"run_started","schema":1,…}}
//! {"seq":1,"at_ms":1796033700210,"event":{"is":"node_stage",…}}
//! ```
//!
//! Each line is written whole, with its line break, so that only the last can be torn; a line is in
//! the record when its line break is.

mod error;
mod lines;
mod reader;
mod resume;
mod runs;
mod writer;

use std::path::{Path, PathBuf};

use jiff::Timestamp;

pub use error::RecordError;
pub use lines::{Line, Lines, span};
pub use reader::{Reader, TornTail, read};
pub use resume::Unfinished;
pub use runs::{Found, Head, list, remove, runs_folder, to_remove};
pub use writer::Writer;

/// Where a run that starts `now` in this process is recorded, when nobody says otherwise:
/// `STATE/linerate/runs/2026-11-30T10-15-00Z-PID.jsonl`, in UTC, with no colon (which other file
/// systems and `scp` take amiss).
///
/// `state_dir` is `$XDG_STATE_HOME`, else `~/.local/state` (XDG Base Directory Specification 0.8).
pub fn default_path(state_dir: &Path, now: Timestamp) -> PathBuf {
    let started = now.strftime("%Y-%m-%dT%H-%M-%SZ");
    let file = format!("{started}-{}.jsonl", std::process::id());
    runs_folder(state_dir).join(file)
}

#[cfg(test)]
mod tests;
