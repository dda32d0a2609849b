//! What can go wrong with a record, in the operator's words.

use std::io;
use std::path::PathBuf;

/// One variant for each operation.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The folder for records could not be made.
    #[error("the folder {} cannot be made: {source}", .path.display())]
    CreateFolder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// There is a file of that name already.
    #[error("{} exists already, and a record is never overwritten: give another name", .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be made.
    #[error("the record {} cannot be made: {source}", .path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Another process writes to it.
    #[error("another linerate writes to {} now: a record takes one run at a time", .path.display())]
    Busy {
        /// The record.
        path: PathBuf,
    },
    /// A folder, a pipe, a device.
    #[error("{} is no file: a run can go on only in the file that it was recorded in", .path.display())]
    NoFile {
        /// What was named.
        path: PathBuf,
    },
    /// The clock shows a time before 1970.
    #[error("this machine's clock shows a time before 1970: set it, records bear the time")]
    Clock,
    /// An event is no JSON.
    #[error("an event cannot be written as JSON: {source}")]
    Encode {
        /// The reason.
        source: serde_json::Error,
    },
    /// No space is left, or none of the user's quota.
    #[error(
        "the disk is full ({source}): {} has the run's first {events} events ({bytes} bytes), which \
         are safe; what came after them is not recorded", .path.display()
    )]
    DiskFull {
        /// The record.
        path: PathBuf,
        /// Whole events in it.
        events: u64,
        /// Their bytes.
        bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// An event could not be appended.
    #[error(
        "{} cannot be written to ({source}): it has the run's first {events} events ({bytes} bytes); \
         what came after them is not recorded", .path.display()
    )]
    Append {
        /// The record.
        path: PathBuf,
        /// Whole events in it.
        events: u64,
        /// Their bytes.
        bytes: u64,
        /// The reason.
        source: io::Error,
    },
    /// An earlier failure left half a line that could not be taken back.
    #[error(
        "{} ends in a torn line since an earlier failure: nothing more is recorded", .path.display()
    )]
    Torn {
        /// The record.
        path: PathBuf,
    },
    /// The file could not be opened.
    #[error("the record {} cannot be opened: {source}", .path.display())]
    Open {
        /// The record.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file could not be read on.
    #[error("{}, line {line}: cannot be read: {source}", .path.display())]
    Read {
        /// The record.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The reason.
        source: io::Error,
    },
    /// A line is longer than any event.
    #[error(
        "{}, line {line}: longer than {limit} bytes, which no event is: is this a record?",
        .path.display()
    )]
    LongLine {
        /// The record.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The most bytes that a line may have.
        limit: usize,
    },
    /// A whole line is no event.
    #[error("{}, line {line}: no event: {} (it begins {begins:?})", .path.display(), reason(source))]
    BadLine {
        /// The record.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Its first characters.
        begins: String,
        /// The reason.
        source: serde_json::Error,
    },
    /// Lines are missing, doubled or moved.
    #[error(
        "{}, line {line}: event {got} where event {expected} was due: the record was changed",
        .path.display()
    )]
    OutOfOrder {
        /// The record.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The number that was due.
        expected: u64,
        /// The number that is there.
        got: u64,
    },
    /// An event that cannot be there.
    #[error("{}, line {line}: {what}: the record was changed", .path.display())]
    Misplaced {
        /// The record.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// It was written by a version that says things this one cannot know.
    #[error(
        "{} was recorded by linerate {linerate:?} in schema {schema}; this linerate reads up to \
         schema {known}: use that version or a newer one", .path.display()
    )]
    Newer {
        /// The record.
        path: PathBuf,
        /// Its schema.
        schema: u32,
        /// The newest schema that this version reads.
        known: u32,
        /// The version that wrote it.
        linerate: String,
    },
    /// It does not begin as a run does, or has not one whole line.
    #[error("{} does not begin with the start of a run: it is no record, or part of one", .path.display())]
    NoRun {
        /// The file.
        path: PathBuf,
    },
}

/// What the JSON reader says, without its own place, which counts lines within the line.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
