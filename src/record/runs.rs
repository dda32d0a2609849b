//! The folder that runs are recorded in: what is there, whatever it is, and what of it need not be kept.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::{Reader, RecordError};
use crate::model::{Event, Retention, RunSettings};

/// The folder that runs are recorded in when nobody says otherwise; `state_dir` as of
/// [`super::default_path`].
pub fn runs_folder(state_dir: &Path) -> PathBuf {
    state_dir.join("linerate").join("runs")
}

/// Something in the folder of runs.
#[derive(Debug)]
pub struct Found {
    /// Its path.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last written, in milliseconds since 1970-01-01 UTC.
    pub written_ms: u64,
    /// What it begins with, or why it is no record that can be read.
    pub head: Result<Head, String>,
    /// Its device and inode.
    identity: (u64, u64),
}

/// The beginning of a recorded run.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// When it began, in milliseconds since 1970-01-01 UTC.
    pub started_ms: u64,
    /// What was asked for.
    pub settings: RunSettings,
    /// Whether another process records to it now.
    pub in_progress: bool,
}

impl Found {
    /// Its name without what every record's name ends with.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_suffix(".jsonl").unwrap_or(&name).to_owned()
    }

    /// Whether linerate gave it its name: another may be of a person's own making.
    fn has_given_name(&self) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str());
        name.is_some_and(is_given_name)
    }
}

/// Whether a name is one that [`super::default_path`] makes.
fn is_given_name(name: &str) -> bool {
    let parts = || {
        let rest = name.strip_suffix(".jsonl")?;
        let (time, process) = rest.rsplit_once('-')?;
        let digits = !process.is_empty() && process.bytes().all(|b| b.is_ascii_digit());
        let time = jiff::fmt::strtime::parse("%Y-%m-%dT%H-%M-%SZ", time);
        Some(digits && time.is_ok())
    };
    parts().unwrap_or(false)
}

/// Everything in a folder of runs, the newest run first, then what is none by name. A folder that is not
/// there is empty.
///
/// # Errors
/// Where the folder cannot be listed.
pub fn list(folder: &Path) -> io::Result<Vec<Found>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        match look(&path) {
            // It went away meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(one) => found.push(one),
        }
    }
    found.sort_by(|a, b| {
        let began = |found: &Found| found.head.as_ref().ok().map(|head| head.started_ms);
        began(b).cmp(&began(a)).then_with(|| b.path.cmp(&a.path))
    });
    Ok(found)
}

fn look(path: &Path) -> io::Result<Found> {
    let meta = fs::symlink_metadata(path)?;
    let written = meta
        .mtime()
        .saturating_mul(1000)
        .saturating_add(meta.mtime_nsec() / 1_000_000);
    let kind = meta.file_type();
    let head = match (kind.is_file(), kind.is_dir(), kind.is_symlink()) {
        (true, ..) => head(path),
        (_, true, _) => Err("a folder".to_owned()),
        (_, _, true) => Err("a link, which is not followed".to_owned()),
        _ => Err("no file".to_owned()),
    };
    Ok(Found {
        path: path.to_owned(),
        bytes: meta.len(),
        written_ms: u64::try_from(written).unwrap_or(0),
        head,
        identity: (meta.dev(), meta.ino()),
    })
}

/// Opens a file that was one a moment ago: a pipe in its place would be waited for.
fn open(path: &Path) -> io::Result<File> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn head(path: &Path) -> Result<Head, String> {
    let file = open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    let in_progress = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    let mut reader = Reader::new(BufReader::new(file), path);
    let first = match reader.next() {
        Some(Ok(record)) => record,
        Some(Err(error)) => return Err(error.to_string()),
        None => return Err(RecordError::NoRun { path: path.into() }.to_string()),
    };
    match first.event {
        Event::RunStarted { settings, .. } => Ok(Head {
            started_ms: first.at_ms,
            settings,
            in_progress,
        }),
        _ => Err(RecordError::NoRun { path: path.into() }.to_string()),
    }
}

/// A day, in milliseconds.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Those of the runs that need not be kept, of what [`list`] found. Only records that linerate named and
/// that begin as one does are counted and removed, none that is being written to, and never the newest.
pub fn to_remove(found: &[Found], keep: Retention, now: Timestamp) -> Vec<&Found> {
    let now_ms = u64::try_from(now.as_millisecond()).unwrap_or(0);
    let ours = found
        .iter()
        .filter(|found| found.head.is_ok() && found.has_given_name());
    let too_many = |at: usize| keep.keep_runs.is_some_and(|most| at >= most as usize);
    let too_old = |found: &Found| {
        let most = keep.keep_days.map(|days| u64::from(days) * DAY_MS);
        most.is_some_and(|most| now_ms.saturating_sub(found.written_ms) > most)
    };
    let due = ours.enumerate().skip(1);
    let due = due.filter(|(at, found)| too_many(*at) || too_old(found));
    let due = due.map(|(_, found)| found);
    due.filter(|found| found.head.as_ref().is_ok_and(|head| !head.in_progress))
        .collect()
}

/// Removes a record, unless another is in its place by now or a process records to it.
///
/// # Errors
/// Why it was left.
pub fn remove(found: &Found) -> Result<(), String> {
    let path = found.path.display();
    let failed = |error: io::Error| format!("{path}: {error}");
    let file = open(&found.path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if (meta.dev(), meta.ino()) != found.identity || !meta.is_file() {
        return Err(format!("{path}: another file has its place by now"));
    }
    match file.try_lock() {
        Ok(()) => fs::remove_file(&found.path).map_err(failed),
        Err(TryLockError::WouldBlock) => Err(format!("{path}: a run is recorded to it")),
        Err(TryLockError::Error(error)) => Err(format!(
            "{path}: whether a run is recorded to it cannot be told: {error}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;
    use crate::ledger::testing::events;
    use crate::record::Writer;

    /// A run that is kept open, as one in progress is.
    fn begin(folder: &Path, name: &str) -> Writer {
        let mut writer = Writer::create(&folder.join(name)).unwrap();
        for event in events(2, 1, &|_, _, _| Some(391.0)) {
            writer.append(&event).unwrap();
        }
        writer
    }

    fn record(folder: &Path, name: &str) {
        drop(begin(folder, name));
        // Each begins later than the one before.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }

    fn names(found: &[&Found]) -> Vec<String> {
        found.iter().map(|found| found.name()).collect()
    }

    const NAMES: [&str; 4] = [
        "2026-11-27T10-15-00Z-11.jsonl",
        "2026-11-28T10-15-00Z-4711.jsonl",
        "2026-11-29T10-15-00Z-9.jsonl",
        "2026-11-30T10-15-00Z-1234567.jsonl",
    ];

    #[test]
    fn names_that_linerate_gives_are_told_from_others() {
        assert!(NAMES.iter().all(|name| is_given_name(name)));
        let path = super::super::default_path(Path::new("/state"), Timestamp::now());
        assert!(is_given_name(path.file_name().unwrap().to_str().unwrap()));
        assert_eq!(path.parent().unwrap(), runs_folder(Path::new("/state")));
        for other in [
            "baseline.jsonl",
            "2026-11-30T10-15-00Z-.jsonl",
            "2026-11-30T10-15-00Z-12.json",
            "2026-11-30T10-15-00Z-12a.jsonl",
            "2026-13-30T10-15-00Z-12.jsonl",
            "before 2026-11-30T10-15-00Z-12.jsonl",
            ".jsonl",
            "",
        ] {
            assert!(!is_given_name(other), "{other}");
        }
    }

    #[test]
    fn whatever_is_in_the_folder_is_listed_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        record(folder, NAMES[0]);
        let open = begin(folder, NAMES[1]);
        fs::write(folder.join("notes.txt"), "no record").unwrap();
        fs::write(folder.join("empty.jsonl"), "").unwrap();
        fs::create_dir(folder.join("older")).unwrap();
        symlink(folder.join(NAMES[0]), folder.join("link.jsonl")).unwrap();
        mkfifo(&folder.join("pipe.jsonl"), Mode::S_IRWXU).unwrap();
        let found = list(folder).unwrap();
        let said = found.iter().map(|found| match &found.head {
            Ok(head) => format!(
                "{}: {} nodes, in progress: {}",
                found.name(),
                head.settings.nodes.len(),
                head.in_progress
            ),
            Err(why) => format!("{}: {why}", found.name()),
        });
        let said: Vec<String> = said
            .map(|line| line.replace(folder.to_str().unwrap(), "RUNS"))
            .collect();
        insta::assert_snapshot!(said.join("\n"));
        drop(open);
        assert_eq!(list(&folder.join("nowhere")).unwrap().len(), 0);
        assert!(list(&folder.join("notes.txt")).is_err());
    }

    #[test]
    fn only_runs_of_linerates_own_are_removed_and_never_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for name in NAMES {
            record(folder, name);
        }
        // The newest of all by its events, under a name of somebody's own.
        record(folder, "baseline.jsonl");
        fs::write(folder.join("2020-01-01T00-00-00Z-1.jsonl"), "no record").unwrap();
        let found = list(folder).unwrap();
        let now = Timestamp::now();
        let due = |keep_runs, keep_days, now| {
            let keep = Retention {
                keep_runs,
                keep_days,
            };
            names(&to_remove(&found, keep, now))
        };
        let stems = NAMES.map(|name| name.trim_end_matches(".jsonl"));
        assert_eq!(due(None, None, now), Vec::<String>::new());
        assert_eq!(due(Some(4), Some(1), now), Vec::<String>::new());
        assert_eq!(due(Some(2), None, now), [stems[1], stems[0]]);
        assert_eq!(due(Some(0), None, now), [stems[2], stems[1], stems[0]]);
        let later = now + jiff::SignedDuration::from_hours(49);
        assert_eq!(due(None, Some(3), later), Vec::<String>::new());
        assert_eq!(due(None, Some(2), later), [stems[2], stems[1], stems[0]]);
        // A clock that went back removes nothing.
        let earlier = now - jiff::SignedDuration::from_hours(49);
        assert_eq!(due(None, Some(1), earlier), Vec::<String>::new());
    }

    #[test]
    fn what_is_being_written_to_stays() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let open = begin(folder, NAMES[0]);
        std::thread::sleep(std::time::Duration::from_millis(2));
        record(folder, NAMES[1]);
        record(folder, NAMES[2]);
        let keep = Retention {
            keep_runs: Some(1),
            keep_days: None,
        };
        let found = list(folder).unwrap();
        assert_eq!(names(&to_remove(&found, keep, Timestamp::now())).len(), 1);
        let busy = found.last().unwrap();
        assert!(
            remove(busy)
                .unwrap_err()
                .ends_with("a run is recorded to it")
        );
        drop(open);
        // Another file of that name is another run.
        fs::rename(folder.join(NAMES[1]), folder.join(NAMES[0])).unwrap();
        assert!(
            remove(busy)
                .unwrap_err()
                .contains("another file has its place")
        );
        let found = list(folder).unwrap();
        assert_eq!(found.len(), 2);
        remove(&found[1]).unwrap();
        assert_eq!(
            names(&list(folder).unwrap().iter().collect::<Vec<_>>()).len(),
            1
        );
    }
}
