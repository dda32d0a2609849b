//! `linerate replay`: the reports and the exit code of a recorded run.

use std::path::Path;

use super::failure::Failure;
use super::reports::{Ran, Reports};
use super::{dashboard, live};
use crate::cli::ReplayArgs;
use crate::ledger::Ledger;
use crate::model::{Record, RunEnd};
use crate::record::{TornTail, read};

/// Reads a record, says where it ends early, and reports.
pub(super) fn run(arguments: &ReplayArgs) -> Result<u8, Failure> {
    let file = &arguments.file;
    if arguments.tui {
        dashboard::needs_terminal()?;
    }
    let (records, torn) = read(file).map_err(|error| Failure::usage(Failure::chain(&error)))?;
    let ledger = recalled(&records);
    let reports = Reports::open(&arguments.reports, Some(file))?;
    if arguments.tui {
        let reports = arguments.reports.is_asked().then_some(reports);
        return live::replay(arguments, records, reports);
    }
    if let Some(torn) = &torn {
        eprintln!("{}", cut_off(file, torn, &ledger));
    }
    reports.write(&Ran::recorded(&ledger, file))
}

/// What these events add up to.
pub(super) fn recalled(records: &[Record]) -> Ledger {
    let mut ledger = Ledger::default();
    for record in records {
        ledger.apply(&record.event);
    }
    ledger
}

/// What a last line without its line break says of a run.
pub(super) fn cut_off(file: &Path, torn: &TornTail, ledger: &Ledger) -> String {
    let what = match ledger.end() {
        Some(RunEnd::Complete) => "the run is complete, and after its end there is part of a line",
        _ => "the record ends in the middle of a line: the run was cut off",
    };
    format!(
        "{}, line {}: {what} ({} bytes, which do not count)",
        file.display(),
        torn.line,
        torn.bytes
    )
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::path::PathBuf;

    use clap::Parser;
    use proptest::prelude::*;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::judge::judge;
    use crate::ledger::testing::{events, ledger};
    use crate::model::{Event, Verdict};
    use crate::record::{RecordError, Writer};
    use crate::report::{Style, text};

    const FULL: f64 = 391.0;

    fn recorded(events: &[Event]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let mut writer = Writer::create(&path).unwrap();
        for event in events {
            writer.append(event).unwrap();
        }
        (folder, path)
    }

    fn replayed(path: &Path, more: &[&str]) -> Result<u8, Failure> {
        let words = ["linerate", "replay", path.to_str().unwrap()];
        let words = words.iter().chain(more);
        match Cli::try_parse_from(words).unwrap().command {
            Command::Replay(arguments) => run(&arguments),
            other => panic!("{other:?}"),
        }
    }

    fn report(events: &[Event]) -> String {
        let ledger = ledger(events);
        let style = Style {
            color: false,
            width: 100,
        };
        let mut out = Vec::new();
        text(&ledger, &judge(&ledger), style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_replay_is_the_run_once_more() {
        let healthy = events(3, 1, &|_, _, _| Some(FULL));
        let half = events(3, 1, &|i, _, _| {
            Some(if i == 0 { FULL / 2.0 } else { FULL })
        });
        let failed = events(3, 1, &|i, j, _| ((i, j) != (0, 1)).then_some(FULL));
        for (events, code) in [(healthy, 0), (half, 1), (failed, 3)] {
            let (folder, path) = recorded(&events);
            let out = folder.path().join("report.txt");
            let json = folder.path().join("report.json");
            let formats = format!("json={}", json.display());
            let more = ["-f", "text", "-o", out.to_str().unwrap(), "-f", &formats];
            assert_eq!(replayed(&path, &more).unwrap(), code);
            assert_eq!(fs::read_to_string(&out).unwrap(), report(&events));
            let json: serde_json::Value =
                serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
            assert_eq!(json["exit_code"], code);
        }
    }

    #[test]
    fn a_report_never_replaces_the_record() {
        let (folder, path) = recorded(&events(2, 1, &|_, _, _| Some(FULL)));
        let before = fs::read(&path).unwrap();
        let link = folder.path().join("link");
        fs::hard_link(&path, &link).unwrap();
        for place in [&path, &link] {
            let error = replayed(&path, &["-o", place.to_str().unwrap()]).unwrap_err();
            assert_eq!(error.code(), 2);
            assert!(error.to_string().contains("would overwrite the record"));
        }
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    /// Reads what is there, reports it to nobody, and gives the verdict.
    fn verdict(path: &Path) -> Result<Verdict, RecordError> {
        let (records, torn) = read(path)?;
        let ledger = recalled(&records);
        if let Some(torn) = torn {
            assert!(cut_off(path, &torn, &ledger).contains("in the middle of a line"));
        }
        let judgement = judge(&ledger);
        let style = Style {
            color: true,
            width: 60,
        };
        text(&ledger, &judgement, style, &mut std::io::sink()).unwrap();
        Ok(judgement.verdict)
    }

    fn cut(path: &Path, end: usize) {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(end as u64).unwrap();
    }

    #[test]
    fn no_cut_of_the_last_two_lines_makes_a_pass() {
        let (_folder, path) = recorded(&events(3, 1, &|_, _, _| Some(FULL)));
        assert_eq!(verdict(&path).unwrap(), Verdict::AtLineRate);
        let bytes = fs::read(&path).unwrap();
        let breaks: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
        let start = breaks[breaks.len() - 3] + 1;
        for end in (start..bytes.len()).rev() {
            cut(&path, end);
            assert_eq!(
                verdict(&path).unwrap(),
                Verdict::CouldNotJudge,
                "cut at {end}"
            );
        }
    }

    #[test]
    fn what_is_torn_after_the_end_is_said_to_be_that() {
        let events = events(2, 1, &|_, _, _| Some(FULL));
        let torn = TornTail {
            line: 9,
            offset: 900,
            bytes: 12,
        };
        let said = |events: &[Event]| cut_off(Path::new("run"), &torn, &ledger(events));
        insta::assert_snapshot!(said(&events), @"run, line 9: the run is complete, and after its end there is part of a line (12 bytes, which do not count)");
        insta::assert_snapshot!(said(&events[..4]), @"run, line 9: the record ends in the middle of a line: the run was cut off (12 bytes, which do not count)");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_record_cut_anywhere_is_read_so_far_or_refused(at in any::<prop::sample::Index>()) {
            let (_folder, path) = recorded(&events(3, 1, &|_, _, _| Some(FULL)));
            let length = fs::metadata(&path).unwrap().len() as usize;
            cut(&path, at.index(length));
            match verdict(&path) {
                Ok(verdict) => prop_assert_eq!(verdict, Verdict::CouldNotJudge),
                Err(error) => prop_assert!(matches!(error, RecordError::NoRun { .. }), "{error}"),
            }
        }

        #[test]
        fn a_record_with_another_byte_is_read_or_refused_with_its_line(
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let (_folder, path) = recorded(&events(3, 1, &|_, _, _| Some(FULL)));
            let mut bytes = fs::read(&path).unwrap();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            fs::write(&path, &bytes).unwrap();
            let read = read(&path);
            if let Err(error) = &read {
                let said = error.to_string();
                prop_assert!(
                    said.contains(", line ") || said.contains("schema") || said.contains("start of a run"),
                    "{said}"
                );
            } else {
                let (records, _) = read.unwrap();
                judge(&recalled(&records));
            }
        }
    }
}
