//! Recorded runs by their names, and what is in them.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::report::state_directory;
use crate::ledger::Ledger;
use crate::model::Event;
use crate::record::{Found, Reader, RecordError, TornTail, list, runs_folder};

/// The name of the newest run; with `~N` after it, of the one N before.
const LATEST: &str = "latest";

/// The folder that runs are recorded in.
pub(super) fn folder() -> Result<PathBuf, Failure> {
    Ok(runs_folder(&state_directory()?))
}

/// Everything in it, the newest run first.
pub(super) fn found() -> Result<Vec<Found>, Failure> {
    let folder = folder()?;
    list(&folder)
        .map_err(|error| Failure::work(format!("cannot list {}: {error}", folder.display())))
}

/// The runs that have a place among the latest: those that nobody records to now.
pub(super) fn finished(found: &[Found]) -> impl Iterator<Item = &Found> {
    let is_over = |found: &&Found| found.head.as_ref().is_ok_and(|head| !head.in_progress);
    found.iter().filter(is_over)
}

/// What a run is called by its place among the latest, 0 the newest.
pub(super) fn alias(place: usize) -> String {
    match place {
        0 => LATEST.to_owned(),
        place => format!("{LATEST}~{place}"),
    }
}

/// The record that was named: `latest`, `latest~N`, a file, or a recorded run by the beginning of its
/// name.
pub(super) fn resolve(name: &Path) -> Result<PathBuf, Failure> {
    let text = name.to_string_lossy();
    if let Some(place) = place(&text) {
        return latest(&found()?, &text, place?);
    }
    if name.exists() || text.contains('/') {
        return Ok(name.to_owned());
    }
    by_name(&found()?, &text)
}

/// The place that `latest~N` names; `None` where the name is another.
fn place(text: &str) -> Option<Result<usize, Failure>> {
    let rest = text.strip_prefix(LATEST)?;
    if rest.is_empty() {
        return Some(Ok(0));
    }
    let number = rest.strip_prefix('~')?;
    let wrong = |_| {
        Failure::usage(format!(
            "`{text}`: after `{LATEST}~` stands a number, as in {LATEST}~1"
        ))
    };
    Some(number.parse().map_err(wrong))
}

fn latest(found: &[Found], text: &str, place: usize) -> Result<PathBuf, Failure> {
    match finished(found).nth(place) {
        Some(found) => Ok(found.path.clone()),
        None => {
            let runs = match finished(found).count() {
                0 => "no run that is over is".to_owned(),
                1 => "only 1 run that is over is".to_owned(),
                many => format!("only {many} runs that are over are"),
            };
            let folder = folder()?;
            Err(Failure::usage(format!(
                "there is no `{text}`: {runs} in {}",
                folder.display()
            )))
        }
    }
}

fn by_name(found: &[Found], text: &str) -> Result<PathBuf, Failure> {
    let stem = text.strip_suffix(".jsonl").unwrap_or(text);
    let mine = |found: &&Found| !stem.is_empty() && found.name().starts_with(stem);
    let matches: Vec<&Found> = found.iter().filter(mine).collect();
    let exact = matches.iter().find(|found| found.name() == stem);
    match (exact, &matches[..]) {
        (Some(one), _) => Ok(one.path.clone()),
        (None, [one]) => Ok(one.path.clone()),
        (None, []) => Err(Failure::usage(format!(
            "there is no file and no recorded run `{text}`: `linerate history` lists the runs"
        ))),
        (None, many) => Err(Failure::usage(format!(
            "`{text}` is the beginning of {} recorded runs: {}, {}, …",
            many.len(),
            many[0].name(),
            many[1].name()
        ))),
    }
}

/// A recorded run.
pub(super) struct Recalled {
    /// Its events added up.
    pub(super) ledger: Ledger,
    /// Version of linerate that began it.
    pub(super) linerate: String,
    /// When its first and its last event happened, in milliseconds since 1970-01-01 UTC.
    pub(super) from_ms: u64,
    pub(super) to_ms: u64,
    /// Its torn tail, where it has one.
    pub(super) torn: Option<TornTail>,
}

/// Reads a record event by event: all of them at once would fill the memory.
pub(super) fn recall(path: &Path) -> Result<Recalled, RecordError> {
    let file = File::open(path).map_err(|source| RecordError::Open {
        path: path.to_owned(),
        source,
    })?;
    let mut reader = Reader::new(BufReader::new(file), path);
    let mut ledger = Ledger::default();
    let mut linerate = String::new();
    let mut times: Option<(u64, u64)> = None;
    for record in reader.by_ref() {
        let record = record?;
        let (first, _) = times.unwrap_or((record.at_ms, record.at_ms));
        times = Some((first, record.at_ms));
        if let Event::RunStarted { linerate: by, .. } = &record.event {
            linerate.clone_from(by);
        }
        ledger.apply(&record.event);
    }
    let Some((from_ms, to_ms)) = times else {
        return Err(RecordError::NoRun {
            path: path.to_owned(),
        });
    };
    Ok(Recalled {
        ledger,
        linerate,
        from_ms,
        to_ms,
        torn: reader.torn().cloned(),
    })
}

/// A time of a record as of RFC 3339, to the second; `None` where no clock shows it.
pub(super) fn in_words(at_ms: u64) -> Option<String> {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(at_ms).ok()?).ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}
