//! One run of the real binary, under way and at its end.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::table;

/// No run of these cases takes so long.
const TOO_LONG: Duration = Duration::from_secs(240);

/// The program under test.
pub const LINERATE: &str = env!("CARGO_BIN_EXE_linerate");

/// A run under way. It is killed when this is dropped.
pub struct Running {
    case: &'static str,
    child: Child,
    json: PathBuf,
    record: PathBuf,
    text: Option<std::thread::JoinHandle<String>>,
    said: Option<std::thread::JoinHandle<String>>,
}

impl Running {
    pub fn start(
        case: &'static str,
        config: &Path,
        nodes: &[&str],
        json: PathBuf,
        record: PathBuf,
    ) -> Running {
        Running::new(case, "report", config, nodes, json, record)
    }

    /// Measures what moving data costs.
    pub fn cost(
        case: &'static str,
        config: &Path,
        more: &[&str],
        json: PathBuf,
        record: PathBuf,
    ) -> Running {
        Running::new(case, "cost", config, more, json, record)
    }

    /// Measures what an acceptance profile is about, and judges.
    pub fn accept(
        case: &'static str,
        config: &Path,
        profile: &str,
        json: PathBuf,
        record: PathBuf,
    ) -> Running {
        Running::new(case, "accept", config, &[profile], json, record)
    }

    /// The report on a run that is over.
    pub fn replay(case: &'static str, json: PathBuf, record: &Path) -> Running {
        let mut command = Command::new(LINERATE);
        command
            .arg("replay")
            .arg(record)
            .args(["--format", "text", "--format"])
            .arg(format!("json={}", json.display()));
        Running::spawn(case, &mut command, json, record.to_owned())
    }

    fn new(
        case: &'static str,
        word: &str,
        config: &Path,
        more: &[&str],
        json: PathBuf,
        record: PathBuf,
    ) -> Running {
        let mut command = Command::new(LINERATE);
        command
            .arg(word)
            .arg("--config")
            .arg(config)
            .args(["--format", "text", "--format"])
            .arg(format!("json={}", json.display()))
            .arg("--record")
            .arg(&record)
            .args(more);
        Running::spawn(case, &mut command, json, record)
    }

    /// Goes on with the run of a record.
    pub fn resume(case: &'static str, config: &Path, json: PathBuf, record: &Path) -> Running {
        let mut command = Command::new(LINERATE);
        command
            .arg("report")
            .arg("--config")
            .arg(config)
            .args(["--format", "text", "--format"])
            .arg(format!("json={}", json.display()))
            .arg("--resume")
            .arg(record);
        Running::spawn(case, &mut command, json, record.to_owned())
    }

    /// Where it is recorded.
    pub fn record(&self) -> &Path {
        &self.record
    }

    /// How many events of a kind the record has by now.
    pub fn count(&self, kind: &str) -> usize {
        let record = std::fs::read_to_string(&self.record).unwrap_or_default();
        record.matches(&format!("\"is\":\"{kind}\"")).count()
    }

    /// A command that leads to a report, its pipes read as it goes.
    pub fn spawn(
        case: &'static str,
        command: &mut Command,
        json: PathBuf,
        record: PathBuf,
    ) -> Running {
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let text = child.stdout.take().map(reader);
        let said = child.stderr.take().map(reader);
        Running {
            case,
            child,
            json,
            record,
            text,
            said,
        }
    }

    /// Waits until the record has a number of events of a kind, such as `probe_started`.
    pub fn until(&mut self, kind: &str, times: usize) {
        let end = Instant::now() + TOO_LONG;
        loop {
            if self.count(kind) >= times {
                return;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!(
                    "the run ended ({status}) before {times} {kind}: {}",
                    self.words()
                );
            }
            assert!(Instant::now() < end, "no {kind} within {TOO_LONG:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(id), signal).expect("it lives");
    }

    /// Sends it a signal, unless it has ended by itself.
    pub fn signal_if_alive(&mut self, signal: Signal) {
        if self.child.try_wait().expect("a child").is_none() {
            self.signal(signal);
        }
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + TOO_LONG;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(
                Instant::now() < end,
                "the run does not end within {TOO_LONG:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for its end and reads what it wrote.
    pub fn finish(mut self) -> Report {
        let status = self.wait();
        let (text, said) = (join(self.text.take()), join(self.said.take()));
        let json = std::fs::read_to_string(&self.json).unwrap_or_default();
        let report = Report {
            status,
            text,
            said,
            json: serde_json::from_str(&json).unwrap_or_default(),
            file: self.json.clone(),
            record: self.record.clone(),
        };
        table::found(&report);
        if std::env::var_os("LINERATE_LAB_SHOW").is_some() {
            println!("--- {}\n{report}---", self.case);
        }
        report
    }

    fn words(&mut self) -> String {
        format!("{}{}", join(self.text.take()), join(self.said.take()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reader(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn join(reader: Option<std::thread::JoinHandle<String>>) -> String {
    reader
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default()
}

/// What a run left.
pub struct Report {
    pub status: ExitStatus,
    /// Standard output: the report for a person.
    pub text: String,
    /// Standard error.
    pub said: String,
    /// The report for programs; null where none was written.
    pub json: Value,
    /// Its file.
    pub file: PathBuf,
    /// The record of the run.
    pub record: PathBuf,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            status, text, said, ..
        } = self;
        writeln!(f, "{status}\n{text}{said}")
    }
}

impl Report {
    /// Asserts the exit code, and that the report states the same.
    pub fn ends_with(&self, code: i32) {
        assert_eq!(self.status.code(), Some(code), "{self}");
        assert_eq!(self.json["exit_code"], code, "{self}");
    }

    /// The findings, each as its rule, whom it is about, and the direction where it has one.
    pub fn findings(&self) -> Vec<String> {
        self.named(&|_| true)
    }

    /// Those of them that complain: not those that are only worth knowing.
    pub fn complaints(&self) -> Vec<String> {
        self.named(&|finding| finding["severity"] != "note")
    }

    fn named(&self, is_meant: &dyn Fn(&Value) -> bool) -> Vec<String> {
        let word = |finding: &Value, field: &str| finding[field].as_str().map(str::to_owned);
        let name = |finding: &Value| {
            let fields = ["rule", "node", "nic", "direction"];
            let words: Vec<String> = fields
                .iter()
                .filter_map(|field| word(finding, field))
                .collect();
            words.join(" ")
        };
        let findings = self.json["findings"].as_array().into_iter().flatten();
        let mut names: Vec<String> = findings.filter(|f| is_meant(f)).map(name).collect();
        names.sort();
        names
    }

    /// Asserts that these are the findings, and no others.
    pub fn finds(&self, names: &[&str]) {
        self.has_list();
        assert_eq!(self.findings(), names, "{self}");
    }

    /// Asserts that these are the complaints, whatever else is worth knowing.
    pub fn complains(&self, names: &[&str]) {
        self.has_list();
        assert_eq!(self.complaints(), names, "{self}");
    }

    fn has_list(&self) {
        let has_list = self.json["findings"].is_array();
        assert!(has_list, "no list of findings: {self}");
    }

    /// Asserts that every pair among these nodes, on so many rails, has a rate.
    pub fn measured(&self, nodes: &[&str], rails: usize) {
        let end = |pair: &Value, end: &str| {
            nodes.contains(&pair[end]["node"].as_str().unwrap_or_default())
        };
        let pairs = self.json["pairs"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let measured = pairs
            .iter()
            .filter(|pair| end(pair, "from") && end(pair, "to") && pair["state"] == "measured");
        let wanted = nodes.len() * (nodes.len() - 1) * rails;
        assert_eq!(
            measured.count(),
            wanted,
            "pairs measured among {nodes:?}: {self}"
        );
    }

    /// Asserts that the text for a person contains this, however its lines are broken.
    pub fn shows(&self, words: &str) {
        let flat = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(words), "not shown: {words}\n{self}");
    }
}
