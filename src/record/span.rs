//! When a recorded run was.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;

use super::RecordError;
use super::reader::MAX_LINE;
use crate::model::Span;

/// Of a line no more than when it was written.
#[derive(Deserialize)]
struct Stamp {
    at_ms: u64,
}

/// When the first and the last whole line of a record were written; `None` where it has none. What the
/// lines say is not looked at, so a record of thousands of nodes takes little time.
///
/// # Errors
/// [`RecordError::Open`], [`RecordError::Read`], [`RecordError::BadLine`], [`RecordError::LongLine`].
pub fn span(path: &Path) -> Result<Option<Span>, RecordError> {
    let file = File::open(path).map_err(|source| RecordError::Open {
        path: path.to_owned(),
        source,
    })?;
    let mut source = BufReader::new(file);
    let mut span: Option<Span> = None;
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let mut limited = source.by_ref().take(MAX_LINE as u64 + 1);
        let read = limited.read_until(b'\n', &mut bytes);
        read.map_err(|source| RecordError::Read {
            path: path.to_owned(),
            line,
            source,
        })?;
        if bytes.len() > MAX_LINE {
            return Err(RecordError::LongLine {
                path: path.to_owned(),
                line,
                limit: MAX_LINE,
            });
        }
        if bytes.last() != Some(&b'\n') {
            break;
        }
        let stamp = serde_json::from_slice(&bytes).map_err(|source| RecordError::BadLine {
            path: path.to_owned(),
            line,
            begins: String::from_utf8_lossy(&bytes).chars().take(60).collect(),
            source,
        });
        let Stamp { at_ms } = stamp?;
        let began_ms = span.map_or(at_ms, |span| span.began_ms);
        span = Some(Span {
            began_ms,
            ended_ms: at_ms,
        });
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_lasts_from_its_first_line_to_its_last_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.jsonl");
        let line = |at: u64| format!("{{\"seq\":0,\"at_ms\":{at},\"event\":{{\"is\":\"x\"}}}}\n");
        let of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            span(&path)
        };
        assert_eq!(of("").unwrap(), None);
        let torn = format!("{}{}{}{{\"seq\":3,", line(1000), line(1500), line(2500));
        let whole = Span {
            began_ms: 1000,
            ended_ms: 2500,
        };
        assert_eq!(of(&torn).unwrap(), Some(whole));
        let bad = of("{\"seq\":0}\n").unwrap_err();
        assert!(matches!(bad, RecordError::BadLine { line: 1, .. }), "{bad}");
        assert!(span(&dir.path().join("missing")).is_err());
    }
}
