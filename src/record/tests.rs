//! A record comes back as it was written, and every way in which it may not is told apart.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::*;

use super::writer::{Appender, Sink};
use super::*;
use crate::model::{
    Bytes, Completion, Event, Expect, Fact, Gbps, Measure, MemoryKind, NicId, NodeName, Outcome,
    ProbeId, ProbeKind, ProbeSpec, Rail, RailNic, RailRule, Record, RunEnd, RunSettings, SCHEMA,
    SweepSettings,
};

fn started() -> Event {
    Event::RunStarted {
        schema: SCHEMA,
        linerate: "0.1.0".into(),
        settings: RunSettings {
            nodes: vec!["node01".into(), "node02".into()],
            rails: RailRule::Pci,
            probe: ProbeSpec {
                kind: ProbeKind::RdmaWrite,
                message_size: Bytes(65536),
                depth: 16,
                queue_pairs: 1,
                duration_ms: 1000,
                completion: Completion::Event,
                memory: MemoryKind::Host,
                stop_at: None,
                measure: Measure::Rate,
                account: false,
            },
            expect: Expect {
                line_rate: Some(Gbps(0.064)),
                half_below: 0.65,
                degraded_below: 0.85,
            },
            sweep: SweepSettings::default(),
            cost: None,
            nccl: None,
            seed: 7,
            force: false,
            simulated: false,
        },
    }
}

fn events() -> Vec<Event> {
    let nic = |node: &str| NicId {
        node: node.into(),
        device: "rxe0".into(),
        port: 1,
    };
    vec![
        started(),
        Event::NodeStage {
            node: "node01".into(),
            stage: "authentifié\n\u{1b}".into(),
        },
        Event::RailsResolved {
            nics: vec![
                RailNic {
                    node: "node01".into(),
                    rail: Rail(0),
                    nic: Fact::known(nic("node01"), "pci order"),
                },
                RailNic {
                    node: "node02".into(),
                    rail: Rail(0),
                    nic: Fact::unknown("no RDMA device"),
                },
            ],
        },
        Event::ProbeEnded {
            probe: ProbeId(0),
            outcome: Outcome::NotRun {
                why: "node02 was lost".into(),
            },
        },
        Event::RunFinished {
            end: RunEnd::Complete,
        },
    ]
}

fn write(path: &Path) -> Vec<Record> {
    let mut writer = Writer::create(path).unwrap();
    let records = events()
        .iter()
        .map(|event| writer.append(event).unwrap())
        .collect();
    writer.sync().unwrap();
    records
}

/// The path in messages replaced, so that snapshots do not depend on the folder.
fn said(error: &RecordError, path: &Path) -> String {
    error
        .to_string()
        .replace(&path.display().to_string(), "RECORD")
}

#[test]
fn a_record_comes_back_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/linerate/runs/run.jsonl");
    let written = write(&path);
    assert!(written[0].at_ms > 1_700_000_000_000, "{}", written[0].at_ms);
    assert_eq!(read(&path).unwrap(), (written, None));
    assert_eq!(
        fs::read(&path)
            .unwrap()
            .iter()
            .filter(|b| **b == b'\n')
            .count(),
        5
    );
}

#[test]
fn records_are_their_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/runs/run.jsonl");
    write(&path);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&folder.path().join("state/runs")), 0o700);
    assert_eq!(mode(&folder.path().join("state")), 0o700);
}

#[test]
fn nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    fs::write(&path, "precious").unwrap();
    let error = Writer::create(&path).unwrap_err();
    insta::assert_snapshot!(said(&error, &path), @"RECORD exists already, and a record is never overwritten: give another name");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    // Nor by way of a link that leads nowhere yet.
    let link = folder.path().join("link.jsonl");
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).unwrap();
    assert!(matches!(
        Writer::create(&link),
        Err(RecordError::Exists { .. })
    ));
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let error = Writer::create(Path::new("/dev/null/runs/run.jsonl")).unwrap_err();
    insta::assert_snapshot!(error, @"the folder /dev/null/runs cannot be made: Not a directory (os error 20)");
}

impl Sink for Vec<u8> {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.truncate(length as usize);
        Ok(())
    }
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_says_what_is_safe() {
    let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
    let mut appender = Appender::new(full, Path::new("/state/run.jsonl"));
    let error = appender.append(&started(), 0).unwrap_err();
    insta::assert_snapshot!(error, @"the disk is full (No space left on device (os error 28)): /state/run.jsonl has the run's first 0 events (0 bytes), which are safe; what came after them is not recorded");
}

/// A disk with room for so many bytes, which a write fills before it fails.
struct Small {
    kept: Vec<u8>,
    room: usize,
    can_cut: bool,
}

impl Write for Small {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room - self.kept.len());
        if taken == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        self.kept.extend(&bytes[..taken]);
        Ok(taken)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Small {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        if !self.can_cut {
            return Err(ErrorKind::Unsupported.into());
        }
        self.kept.truncate(length as usize);
        Ok(())
    }
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn half_a_line_is_taken_back_and_the_record_goes_on() {
    let first = {
        let mut all = Appender::new(Vec::new(), Path::new(""));
        all.append(&started(), 1).unwrap();
        all.sink.len()
    };
    let small = |can_cut| Small {
        kept: Vec::new(),
        room: first + 20,
        can_cut,
    };
    let mut appender = Appender::new(small(true), Path::new("run"));
    appender.append(&started(), 1).unwrap();
    let error = appender.append(&events()[1], 2).unwrap_err();
    assert!(
        matches!(error, RecordError::DiskFull { events: 1, bytes, .. } if bytes == first as u64),
        "{error}"
    );
    assert_eq!(appender.sink.kept.len(), first);
    appender.sink.room = 10_000;
    assert_eq!(appender.append(&events()[1], 3).unwrap().seq, 1);

    // Where it cannot be taken back, nothing is written after it.
    let mut appender = Appender::new(small(false), Path::new("run"));
    appender.append(&started(), 1).unwrap();
    appender.append(&events()[1], 2).unwrap_err();
    appender.sink.room = 10_000;
    let error = appender.append(&events()[1], 3).unwrap_err();
    assert!(matches!(error, RecordError::Torn { .. }), "{error}");
    let mut reader = Reader::new(&*appender.sink.kept, Path::new("run"));
    assert_eq!(reader.by_ref().filter_map(Result::ok).count(), 1);
    assert_eq!(reader.torn().map(|torn| torn.offset), Some(first as u64));
}

#[test]
fn what_is_no_record_is_told_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    write(&path);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let newer = lines[0]
        .replace("\"schema\":1", "\"schema\":2")
        .replace("0.1.0", "0.9.0\\u001b[31m")
        .replace("half_below", "quarter_below");
    let messages: Vec<String> = [
        format!("{}\n{}\n", lines[0], lines[2]),
        format!("{}\n{}\n", lines[0], lines[0]),
        format!("{}\n\u{1b}[2Jnonsense\n", lines[0]),
        format!(
            "{}\n{{\"seq\":1,\"at_ms\":0,\"event\":{{\"is\":\"moved\"}}}}\n",
            lines[0]
        ),
        format!("{newer}\n"),
        format!("{}\n", lines[1].replace("\"seq\":1", "\"seq\":0")),
        "\n".to_owned(),
        "x".repeat(lines::MAX_LINE + 1),
    ]
    .iter()
    .map(|text| {
        fs::write(&path, text).unwrap();
        said(&read(&path).unwrap_err(), &path)
    })
    .collect();
    insta::assert_snapshot!(messages.join("\n"));
    fs::remove_file(&path).unwrap();
    insta::assert_snapshot!(said(&read(&path).unwrap_err(), &path), @"the record RECORD cannot be opened: No such file or directory (os error 2)");
}

#[test]
fn a_run_begins_once_and_ends_once() {
    let finished = |end| Event::RunFinished { end };
    let resumed = || Event::RunResumed {
        linerate: "0.1.0".into(),
    };
    let stage = || events()[1].clone();
    let result = |after_start: Vec<Event>| {
        let mut appender = Appender::new(Vec::new(), Path::new("run"));
        for event in std::iter::once(started()).chain(after_start) {
            appender.append(&event, 5).unwrap();
        }
        let all: Result<Vec<Record>, RecordError> =
            Reader::new(&*appender.sink, Path::new("run")).collect();
        all.map_or_else(
            |error| error.to_string(),
            |all| format!("{} events", all.len()),
        )
    };
    let (complete, interrupted) = (RunEnd::Complete, RunEnd::Interrupted);
    let said = [
        vec![
            resumed(),
            resumed(),
            finished(interrupted),
            resumed(),
            finished(complete),
        ],
        vec![started()],
        vec![finished(interrupted), stage()],
        vec![finished(complete), finished(complete)],
        vec![finished(complete), resumed()],
    ]
    .map(result);
    insta::assert_snapshot!(said.join("\n"), @r"
    6 events
    run, line 2: a run begins in another: the record was changed
    run, line 3: something happens after the end of the run: the record was changed
    run, line 3: something happens after the end of the run: the record was changed
    run, line 3: a complete run goes on: the record was changed
    ");
}

#[test]
fn runs_are_named_by_their_start() {
    let now = "2026-11-30T10:15:00.5Z".parse().unwrap();
    let expected = format!(
        "/s/linerate/runs/2026-11-30T10-15-00Z-{}.jsonl",
        std::process::id()
    );
    assert_eq!(default_path(Path::new("/s"), now), Path::new(&expected));
}

#[test]
fn a_record_torn_at_any_byte_keeps_what_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let written = write(&path);
    let bytes = fs::read(&path).unwrap();
    for end in 0..bytes.len() {
        let mut reader = Reader::new(&bytes[..end], &path);
        let records: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
        let whole = bytes[..end].iter().filter(|b| **b == b'\n').count();
        assert_eq!(records, written[..whole], "cut at {end}");
        let start = bytes[..end]
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        let torn = (start < end).then_some(TornTail {
            line: whole as u64 + 1,
            offset: start as u64,
            bytes: (end - start) as u64,
        });
        assert_eq!(reader.torn(), torn.as_ref(), "cut at {end}");
    }
    // A file system that lost the last blocks leaves zeroes.
    File::options()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(&[0; 512])
        .unwrap();
    let (records, torn) = read(&path).unwrap();
    assert_eq!((records, torn.unwrap().bytes), (written, 512));
}

#[test]
fn a_record_torn_at_any_byte_goes_on_after_what_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let written = write(&path);
    let bytes = fs::read(&path).unwrap();
    for end in 0..bytes.len() {
        fs::write(&path, &bytes[..end]).unwrap();
        let whole = bytes[..end].iter().filter(|b| **b == b'\n').count();
        let unfinished = match Unfinished::open(&path) {
            Ok(unfinished) => unfinished,
            Err(error) => {
                assert!(
                    whole == 0 && matches!(error, RecordError::NoRun { .. }),
                    "{error}"
                );
                continue;
            }
        };
        assert_eq!(unfinished.records(), &written[..whole]);
        // Looked at only, it is as it was.
        assert_eq!(fs::metadata(&path).unwrap().len(), end as u64);
        let mut writer = unfinished.go_on().unwrap();
        let more = writer.append(&events()[1]).unwrap();
        assert_eq!(more.seq, whole as u64);
        drop(writer);
        let (records, torn) = read(&path).unwrap();
        assert_eq!(
            (&records[..whole], &records[whole..]),
            (&written[..whole], &[more][..])
        );
        assert_eq!(torn, None);
    }
}

#[test]
fn a_record_takes_one_run_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let mut writer = Writer::create(&path).unwrap();
    writer.append(&started()).unwrap();
    let busy = Unfinished::open(&path).unwrap_err();
    insta::assert_snapshot!(said(&busy, &path), @"another linerate writes to RECORD now: a record takes one run at a time");
    // Who only reads does not mind.
    assert_eq!(read(&path).unwrap().0.len(), 1);
    drop(writer);
    let first = Unfinished::open(&path).unwrap();
    assert!(matches!(
        Unfinished::open(&path),
        Err(RecordError::Busy { .. })
    ));
    let writer = first.go_on().unwrap();
    assert!(matches!(
        Unfinished::open(&path),
        Err(RecordError::Busy { .. })
    ));
    drop(writer);
    Unfinished::open(&path).unwrap();
}

#[test]
fn only_a_file_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let error = Unfinished::open(folder.path()).unwrap_err();
    insta::assert_snapshot!(said(&error, folder.path()), @"RECORD is no file: a run can go on only in the file that it was recorded in");
    // A pipe with nobody at its other end would hang whoever opens it.
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(
        Unfinished::open(&pipe),
        Err(RecordError::NoFile { .. })
    ));
    let missing = Unfinished::open(&folder.path().join("missing"));
    assert!(matches!(missing, Err(RecordError::Open { .. })));
    // What is no record is left as it is.
    let foreign = folder.path().join("foreign");
    fs::write(&foreign, "precious\nwithout an end").unwrap();
    assert!(matches!(
        Unfinished::open(&foreign),
        Err(RecordError::BadLine { line: 1, .. })
    ));
    assert_eq!(
        fs::read_to_string(&foreign).unwrap(),
        "precious\nwithout an end"
    );
}

proptest! {
    #[test]
    fn what_nodes_are_called_comes_back(node in any::<String>(), why in any::<String>(), cut in 0usize..400) {
        let events = [started(), Event::NodeLost { node: NodeName::from(node), why }];
        let mut appender = Appender::new(Vec::new(), Path::new("run"));
        let written: Vec<Record> =
            events.iter().map(|event| appender.append(event, 5).unwrap()).collect();
        let bytes = &appender.sink;
        let whole: Result<Vec<Record>, RecordError> = Reader::new(&**bytes, Path::new("run")).collect();
        prop_assert_eq!(whole.unwrap(), written.clone());
        let end = bytes.len().saturating_sub(1 + cut);
        let torn: Result<Vec<Record>, RecordError> = Reader::new(&bytes[..end], Path::new("run")).collect();
        let torn = torn.unwrap();
        prop_assert!(torn.len() < written.len() && written.starts_with(&torn));
    }

    #[test]
    fn numbers_come_back_to_the_last_digit(rate in 1e-9..1e9f64) {
        let Event::RunStarted { schema, linerate, mut settings } = started() else { unreachable!() };
        settings.expect.line_rate = Some(Gbps(rate));
        let mut appender = Appender::new(Vec::new(), Path::new("run"));
        let written = appender.append(&Event::RunStarted { schema, linerate, settings }, 5).unwrap();
        let back = Reader::new(&*appender.sink, Path::new("run")).next().unwrap().unwrap();
        prop_assert_eq!(back, written);
    }

    #[test]
    fn junk_is_an_error_or_torn(junk in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut reader = Reader::new(&*junk, Path::new("run"));
        let records: Vec<_> = reader.by_ref().collect();
        prop_assert!(records.iter().all(Result::is_err));
    }
}
