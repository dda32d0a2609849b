//! The client's side in tests: an agent that is a script, a sink that remembers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use linerate::remote::{
    Carrier, Ended, Outbox, OutboxSender, Payload, RemoteError, Sink, Stage, Target,
};

/// What a sink was told.
#[derive(Debug)]
pub enum Heard {
    Stage(Stage),
    Out(Vec<u8>),
    Err(Vec<u8>),
}

struct Ear(Sender<Heard>);

impl Sink for Ear {
    fn stage(&mut self, stage: Stage) {
        let _ = self.0.send(Heard::Stage(stage));
    }
    fn stdout(&mut self, bytes: &[u8]) {
        let _ = self.0.send(Heard::Out(bytes.to_vec()));
    }
    fn stderr(&mut self, bytes: &[u8]) {
        let _ = self.0.send(Heard::Err(bytes.to_vec()));
    }
}

/// A session under way on a thread of its own.
pub struct Session {
    pub outbox: OutboxSender,
    heard: Receiver<Heard>,
    thread: std::thread::JoinHandle<Result<Ended, RemoteError>>,
    pub stages: Vec<Stage>,
    pub out: Vec<u8>,
    pub err: Vec<u8>,
}

impl Session {
    /// Starts carrying.
    pub fn start(carrier: impl Carrier + 'static, target: Target, payload: Payload) -> Session {
        let (outbox, inbox) = Outbox::bounded(8 << 20).unwrap();
        let (sender, heard) = channel();
        let thread =
            std::thread::spawn(move || carrier.carry(&target, &payload, inbox, &mut Ear(sender)));
        Session {
            outbox,
            heard,
            thread,
            stages: vec![],
            out: vec![],
            err: vec![],
        }
    }

    /// Listens until `done`, for at most 30 s.
    pub fn until(&mut self, what: &str, done: impl Fn(&Session) -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !done(self) {
            match self
                .heard
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                Ok(heard) => self.take(heard),
                Err(e) => panic!("waiting for {what}: {e}; {}", self.summary()),
            }
        }
    }

    /// Waits for the agent to run.
    pub fn until_running(&mut self) {
        self.until("the agent", |s| s.stages.contains(&Stage::Running));
    }

    /// Waits for standard output to contain `text`.
    pub fn until_out(&mut self, text: &str) {
        self.until(text, |s| String::from_utf8_lossy(&s.out).contains(text));
    }

    /// Waits for the end of the session; the outbox is closed by nobody but the test.
    pub fn end(mut self) -> (Result<Ended, RemoteError>, Told) {
        let result = self.thread.join().expect("carry does not panic");
        while let Ok(heard) = self.heard.try_recv() {
            match heard {
                Heard::Stage(stage) => self.stages.push(stage),
                Heard::Out(bytes) => self.out.extend(bytes),
                Heard::Err(bytes) => self.err.extend(bytes),
            }
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            result,
            Told {
                stages: self.stages,
                out: text(&self.out),
                err: text(&self.err),
            },
        )
    }

    fn take(&mut self, heard: Heard) {
        match heard {
            Heard::Stage(stage) => self.stages.push(stage),
            Heard::Out(bytes) => self.out.extend(bytes),
            Heard::Err(bytes) => self.err.extend(bytes),
        }
    }

    fn summary(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!(
            "{:?} out {:?} err {:?}",
            self.stages,
            text(&self.out),
            text(&self.err)
        )
    }
}

/// What a finished session left.
pub struct Told {
    pub stages: Vec<Stage>,
    pub out: String,
    pub err: String,
}

/// A payload that is a shell script.
pub fn script(dir: &Path, body: &str) -> Payload {
    let path = dir.join("agent.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    Payload::from_file(&path, &["agent"]).unwrap()
}

/// A target named node07.
pub fn target(host: &str, port: u16, user: &str) -> Target {
    Target {
        node: "node07".into(),
        host: host.into(),
        port,
        user: user.into(),
    }
}

/// Replaces what differs from run to run in a message.
pub fn redact(message: &str, words: &[(&str, &str)]) -> String {
    let words: BTreeMap<_, _> = words.iter().copied().collect();
    let mut message = message.to_string();
    for (word, name) in words.iter().rev() {
        message = message.replace(word, name);
    }
    let mut out = String::new();
    let mut rest = message.as_str();
    while let Some(at) = rest.find("SHA256:") {
        out.push_str(&rest[..at]);
        out.push_str("SHA256:…");
        rest = rest[at + 7..]
            .trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "+/".contains(c));
    }
    out + rest
}
