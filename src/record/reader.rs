//! Reads a record back, event by event, and tells a torn end from a changed middle.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::model::{Event, Record, RunEnd, SCHEMA};

use super::RecordError;
use super::lines::{bad_line, read_line};

/// A last line without its line break: its writer ended while writing it. It counts as not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The line, from 1.
    pub line: u64,
    /// Where in the file it begins, which is the length of what is whole.
    pub offset: u64,
    /// How many bytes of it there are.
    pub bytes: u64,
}

/// All events of a record, at least one, and its torn tail where it has one.
///
/// # Errors
/// The first of `Reader::next`'s, [`RecordError::Open`], or [`RecordError::NoRun`] where there is not
/// one whole line.
pub fn read(path: &Path) -> Result<(Vec<Record>, Option<TornTail>), RecordError> {
    let file = File::open(path).map_err(|source| RecordError::Open {
        path: path.to_owned(),
        source,
    })?;
    let mut reader = Reader::new(BufReader::new(file), path);
    Ok((reader.whole_run()?, reader.torn))
}

/// Gives the events of a record one by one; ends after its last or after an error.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    path: PathBuf,
    lines: u64,
    offset: u64,
    torn: Option<TornTail>,
    run_end: Option<RunEnd>,
    ended: bool,
}

/// As much of a line as any schema will have, to tell a newer schema from nonsense.
#[derive(Deserialize)]
struct Start {
    event: StartEvent,
}

#[derive(Deserialize)]
struct StartEvent {
    is: String,
    schema: u32,
    linerate: String,
}

impl<R: BufRead> Reader<R> {
    /// Reads from `source`, which messages call `path`.
    pub fn new(source: R, path: &Path) -> Self {
        Self {
            source,
            path: path.to_owned(),
            lines: 0,
            offset: 0,
            torn: None,
            run_end: None,
            ended: false,
        }
    }

    /// The torn tail; known once there are no more events.
    pub fn torn(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// All events, at least one.
    pub(super) fn whole_run(&mut self) -> Result<Vec<Record>, RecordError> {
        let records: Vec<Record> = self.by_ref().collect::<Result<_, _>>()?;
        match records.is_empty() {
            true => Err(RecordError::NoRun {
                path: self.path.clone(),
            }),
            false => Ok(records),
        }
    }

    /// How many bytes of whole lines were read.
    pub(super) fn whole_bytes(&self) -> u64 {
        self.offset
    }

    fn read_next(&mut self) -> Result<Option<Record>, RecordError> {
        let number = self.lines + 1;
        let line = read_line(&mut self.source, &self.path, number)?;
        if line.last() != Some(&b'\n') {
            self.torn = (!line.is_empty()).then_some(TornTail {
                line: number,
                offset: self.offset,
                bytes: line.len() as u64,
            });
            return Ok(None);
        }
        let record = self.record(&line)?;
        self.follow(&record.event)?;
        self.lines = number;
        self.offset += line.len() as u64;
        Ok(Some(record))
    }

    fn record(&self, line: &[u8]) -> Result<Record, RecordError> {
        if self.lines == 0 {
            self.refuse_newer(line)?;
        }
        let record: Record = serde_json::from_slice(line)
            .map_err(|source| bad_line(&self.path, self.lines + 1, line, source))?;
        if record.seq != self.lines {
            return Err(RecordError::OutOfOrder {
                path: self.path.clone(),
                line: self.lines + 1,
                expected: self.lines,
                got: record.seq,
            });
        }
        if self.lines == 0 && !matches!(record.event, Event::RunStarted { .. }) {
            let path = self.path.clone();
            return Err(RecordError::NoRun { path });
        }
        Ok(record)
    }

    /// A run begins once and ends once, unless it is resumed after an interruption.
    fn follow(&mut self, event: &Event) -> Result<(), RecordError> {
        let what = match (event, self.run_end) {
            (Event::RunStarted { .. }, _) if self.lines > 0 => "a run begins in another",
            (Event::RunResumed { .. }, Some(RunEnd::Complete)) => "a complete run goes on",
            (Event::RunResumed { .. }, _) => {
                self.run_end = None;
                return Ok(());
            }
            (_, Some(_)) => "something happens after the end of the run",
            (Event::RunFinished { end }, None) => {
                self.run_end = Some(*end);
                return Ok(());
            }
            _ => return Ok(()),
        };
        Err(RecordError::Misplaced {
            path: self.path.clone(),
            line: self.lines + 1,
            what,
        })
    }

    fn refuse_newer(&self, line: &[u8]) -> Result<(), RecordError> {
        match serde_json::from_slice::<Start>(line) {
            Ok(Start { event }) if event.is == "run_started" && event.schema > SCHEMA => {
                Err(RecordError::Newer {
                    path: self.path.clone(),
                    schema: event.schema,
                    known: SCHEMA,
                    linerate: event.linerate,
                })
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read_next().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}
