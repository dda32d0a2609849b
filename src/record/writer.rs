//! Writes a record: each event is in the file, by one `write`, before anyone else sees it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::model::{Event, Record};

use super::RecordError;

/// What a record is written to: a file, or in tests something that fails on purpose.
pub(super) trait Sink: Write {
    /// Cuts what was written back to `length` bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;
    /// Waits until all of it is on the disk.
    fn settle(&mut self) -> io::Result<()>;
}

impl Sink for File {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn settle(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Appends events to the record of one run.
#[derive(Debug)]
pub struct Writer {
    inner: Appender<File>,
}

impl Writer {
    /// Makes a record that did not exist, readable and writable for its owner alone (it names
    /// hosts, users and addresses); folders that are missing are made with mode 0700.
    ///
    /// # Errors
    /// [`RecordError::Exists`], [`RecordError::CreateFolder`], [`RecordError::Create`].
    pub fn create(path: &Path) -> Result<Self, RecordError> {
        if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|source| RecordError::CreateFolder {
                path: folder.to_owned(),
                source,
            })?;
        }
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600);
        let file = options.open(path).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => RecordError::Exists {
                path: path.to_owned(),
            },
            _ => RecordError::Create {
                path: path.to_owned(),
                source,
            },
        })?;
        lock(&file, path)?;
        let inner = Appender::new(file, path);
        Ok(Self { inner })
    }

    /// Goes on after so many whole events, which are all that the locked `file` has.
    pub(super) fn after(
        file: File,
        path: &Path,
        events: u64,
        bytes: u64,
    ) -> Result<Self, RecordError> {
        let mut inner = Appender::new(file, path);
        (inner.events, inner.bytes) = (events, bytes);
        inner
            .sink
            .cut(bytes)
            .map_err(|source| inner.failed(source))?;
        Ok(Self { inner })
    }

    /// Appends an event with the next number and the present time, and gives it back as recorded.
    ///
    /// # Errors
    /// [`RecordError::DiskFull`], [`RecordError::Append`]: what was recorded before stays whole, and
    /// a later event may succeed. [`RecordError::Torn`] where that could not be kept.
    pub fn append(&mut self, event: &Event) -> Result<Record, RecordError> {
        let now = Timestamp::now().as_millisecond();
        let at_ms = u64::try_from(now).map_err(|_| RecordError::Clock)?;
        self.inner.append(event, at_ms)
    }

    /// Waits until everything appended is on the disk: once, at the end of a run. Until then it is
    /// safe from the end of this process, not from that of the machine.
    ///
    /// # Errors
    /// [`RecordError::DiskFull`], [`RecordError::Append`].
    pub fn sync(&mut self) -> Result<(), RecordError> {
        let settled = self.inner.sink.settle();
        settled.map_err(|source| self.inner.failed(source))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }
}

/// How often a lock that another holds is asked for again, and after how long: whoever was killed
/// lets go of it a moment later, and a process that is being started holds what its parent holds.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Keeps other runs from this record until the file is closed, however this process ends.
pub(super) fn lock(file: &File, path: &Path) -> Result<(), RecordError> {
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            // Some network file systems have no locks: the run is worth more than the guard.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(()),
        }
    }
    Err(RecordError::Busy {
        path: path.to_owned(),
    })
}

/// The writer over any sink.
#[derive(Debug)]
pub(super) struct Appender<S> {
    pub(super) sink: S,
    path: PathBuf,
    events: u64,
    bytes: u64,
    torn: bool,
}

impl<S: Sink> Appender<S> {
    pub(super) fn new(sink: S, path: &Path) -> Self {
        Self {
            sink,
            path: path.to_owned(),
            events: 0,
            bytes: 0,
            torn: false,
        }
    }

    pub(super) fn append(&mut self, event: &Event, at_ms: u64) -> Result<Record, RecordError> {
        if self.torn {
            let path = self.path.clone();
            return Err(RecordError::Torn { path });
        }
        let record = Record {
            seq: self.events,
            at_ms,
            event: event.clone(),
        };
        let mut line =
            serde_json::to_vec(&record).map_err(|source| RecordError::Encode { source })?;
        line.push(b'\n');
        // One write where the kernel takes it whole, which it does but for a full disk or a signal.
        if let Err(source) = self.sink.write_all(&line) {
            self.torn = self.sink.cut(self.bytes).is_err();
            return Err(self.failed(source));
        }
        self.events += 1;
        self.bytes += line.len() as u64;
        Ok(record)
    }

    fn failed(&self, source: io::Error) -> RecordError {
        let (path, events, bytes) = (self.path.clone(), self.events, self.bytes);
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => RecordError::DiskFull {
                path,
                events,
                bytes,
                source,
            },
            _ => RecordError::Append {
                path,
                events,
                bytes,
                source,
            },
        }
    }
}
