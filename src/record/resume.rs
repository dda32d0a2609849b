//! Opens the record of a run that was cut off, to go on with it.

use std::fs::{File, OpenOptions};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use crate::model::Record;

use super::writer::lock;
use super::{Reader, RecordError, TornTail, Writer};

/// A record that is read and locked, and not changed yet.
#[derive(Debug)]
pub struct Unfinished {
    file: File,
    path: PathBuf,
    records: Vec<Record>,
    torn: Option<TornTail>,
    whole_bytes: u64,
}

impl Unfinished {
    /// Reads a record that no other process writes to.
    ///
    /// # Errors
    /// [`RecordError::Open`], [`RecordError::NoFile`], [`RecordError::Busy`], and those of
    /// [`super::read`].
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let failed = |source| RecordError::Open {
            path: path.to_owned(),
            source,
        };
        // Before it is opened: opening a pipe waits for its other end.
        if !path.metadata().map_err(failed)?.is_file() {
            return Err(RecordError::NoFile {
                path: path.to_owned(),
            });
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).open(path).map_err(failed)?;
        lock(&file, path)?;
        let mut reader = Reader::new(BufReader::new(&file), path);
        let records = reader.whole_run()?;
        let (torn, whole_bytes) = (reader.torn().cloned(), reader.whole_bytes());
        Ok(Self {
            file,
            path: path.to_owned(),
            records,
            torn,
            whole_bytes,
        })
    }

    /// Its whole events, at least one.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The line in whose middle it ends, if it does.
    pub fn torn(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// Cuts a torn line off, and gives the writer of what follows.
    ///
    /// # Errors
    /// [`RecordError::Append`] where it cannot be cut.
    pub fn go_on(self) -> Result<Writer, RecordError> {
        let events = self.records.len() as u64;
        Writer::after(self.file, &self.path, events, self.whole_bytes)
    }
}
