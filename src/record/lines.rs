//! The lines of a record as they are, and when it was.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::Error;

use super::RecordError;
use crate::model::Span;

/// The most bytes of a line. The longest real one is a round of thousands of nodes: 4096 with 8 rails,
/// both directions, are 32768 probes of about 300 bytes each, more where names are long.
pub(super) const MAX_LINE: usize = 64 << 20;

/// Reads a line with its line break, which is missing where the source ends without one.
pub(super) fn read_line(
    source: &mut impl BufRead,
    path: &Path,
    number: u64,
) -> Result<Vec<u8>, RecordError> {
    let mut line = Vec::new();
    let mut limited = source.take(MAX_LINE as u64 + 1);
    let read = limited.read_until(b'\n', &mut line);
    read.map_err(|source| RecordError::Read {
        path: path.to_owned(),
        line: number,
        source,
    })?;
    if line.len() > MAX_LINE {
        return Err(RecordError::LongLine {
            path: path.to_owned(),
            line: number,
            limit: MAX_LINE,
        });
    }
    Ok(line)
}

/// That a whole line is no event.
pub(super) fn bad_line(
    path: &Path,
    number: u64,
    line: &[u8],
    source: serde_json::Error,
) -> RecordError {
    RecordError::BadLine {
        path: path.to_owned(),
        line: number,
        begins: String::from_utf8_lossy(line).chars().take(60).collect(),
        source,
    }
}

/// A whole line of a record: an event as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When it was written, in milliseconds since 1970-01-01 UTC by the controller's clock.
    pub at_ms: u64,
    /// The JSON, without the line break.
    pub json: String,
}

/// Gives the whole lines of a record one by one. That they are JSON is seen to, and no more: so a record
/// of thousands of nodes takes little time. Ends after the last or after an error.
#[derive(Debug)]
pub struct Lines {
    source: BufReader<File>,
    path: PathBuf,
    read: u64,
    ended: bool,
}

/// Of a line no more than when it was written.
#[derive(Deserialize)]
struct Stamp {
    at_ms: u64,
}

impl Lines {
    /// Those of a file.
    ///
    /// # Errors
    /// [`RecordError::Open`].
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let file = File::open(path).map_err(|source| RecordError::Open {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            source: BufReader::new(file),
            path: path.to_owned(),
            read: 0,
            ended: false,
        })
    }

    fn read_next(&mut self) -> Result<Option<Line>, RecordError> {
        self.read += 1;
        let mut line = read_line(&mut self.source, &self.path, self.read)?;
        if line.pop() != Some(b'\n') {
            return Ok(None);
        }
        let bad = |line: &[u8], source| bad_line(&self.path, self.read, line, source);
        let json = String::from_utf8(line)
            .map_err(|error| bad(error.as_bytes(), Error::custom(error.utf8_error())))?;
        let stamp: Stamp =
            serde_json::from_str(&json).map_err(|source| bad(json.as_bytes(), source))?;
        let at_ms = stamp.at_ms;
        Ok(Some(Line { at_ms, json }))
    }
}

impl Iterator for Lines {
    type Item = Result<Line, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read_next().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// When the first and the last whole line of a record were written; `None` where it has none.
///
/// # Errors
/// Those of [`Lines`].
pub fn span(path: &Path) -> Result<Option<Span>, RecordError> {
    let mut span: Option<Span> = None;
    for line in Lines::open(path)? {
        let ended_ms = line?.at_ms;
        let began_ms = span.map_or(ended_ms, |span| span.began_ms);
        span = Some(Span { began_ms, ended_ms });
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn line(at: u64) -> String {
        format!("{{\"seq\":0,\"at_ms\":{at},\"event\":{{\"is\":\"x\"}}}}\n")
    }

    #[test]
    fn a_run_lasts_from_its_first_line_to_its_last_whole_one() {
        let of = |text: &str| span(file(text.as_bytes()).path());
        assert_eq!(of("").unwrap(), None);
        let torn = format!("{}{}{}{{\"seq\":3,", line(1000), line(1500), line(2500));
        let whole = Span {
            began_ms: 1000,
            ended_ms: 2500,
        };
        assert_eq!(of(&torn).unwrap(), Some(whole));
        let bad = of("{\"seq\":0}\n").unwrap_err();
        assert!(matches!(bad, RecordError::BadLine { line: 1, .. }), "{bad}");
        assert!(span(Path::new("/no/such/record")).is_err());
    }

    #[test]
    fn lines_are_as_they_were_written_and_end_with_the_first_that_is_none() {
        let whole = [line(1), line(2)].concat();
        let read = |end: &[u8]| {
            let file = file(&[whole.as_bytes(), end].concat());
            Lines::open(file.path()).unwrap().collect::<Vec<_>>()
        };
        // A character that is cut in two is part of a torn line.
        for torn in [&b""[..], b"{", "\"ä".as_bytes().split_last().unwrap().1] {
            let lines: Vec<Line> = read(torn).into_iter().collect::<Result<_, _>>().unwrap();
            let again: String = lines.iter().map(|line| line.json.clone() + "\n").collect();
            assert_eq!(again, whole);
        }
        for bad in [&b"{]\n"[..], b"{\"at_ms\":3,\"x\":\"\xff\"}\n"] {
            let mut lines = read(&[bad, line(4).as_bytes()].concat());
            let last = lines.pop().unwrap().unwrap_err();
            assert!(
                matches!(last, RecordError::BadLine { line: 3, .. }),
                "{last}"
            );
            assert_eq!(lines.len(), 2);
        }
    }
}
