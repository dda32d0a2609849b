//! Moves the bytes: one thread, one connection, everything non-blocking.
//!
//! Each turn reads both of the node's streams as far as they go (unread standard error would stop
//! standard output), then writes from the binary or the outbox, then waits for either side.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::bootstrap::{Bootstrap, Encoding, Step};
use super::error::Failure;
use super::outbox::Outbox;
use super::payload::Payload;
use super::text::Tail;
use super::{Ended, Sink, Stage};

/// One of the node's two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// The connection as the pump sees it. No call blocks except [`Pipe::wait`].
pub(super) trait Pipe {
    /// Reads; `Ok(0)` at the stream's end, `WouldBlock` when there is nothing now.
    fn read(&mut self, stream: Stream, buffer: &mut [u8]) -> io::Result<usize>;
    /// Writes to the agent's standard input.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Ends the agent's standard input.
    fn finish_input(&mut self) -> io::Result<()>;
    /// How the command ended, once both streams have; `WouldBlock` while that is not known.
    fn ended(&mut self) -> io::Result<Ended>;
    /// Waits until a call may succeed, `wake` is readable, or the time is over.
    fn wait(&mut self, wake: BorrowedFd<'_>, writing: bool, limit: Duration) -> io::Result<()>;
}

/// How long the steps may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// From starting the bootstrap to its first answer.
    pub(super) bootstrap: Duration,
    /// Without progress while the binary is sent, and from its last byte to the agent's start.
    pub(super) stall: Duration,
    /// From closing the outbox to the end of the connection.
    pub(super) goodbye: Duration,
}

impl Default for Limits {
    /// Generous: home directories on a slow file server and emulated machines are real.
    fn default() -> Self {
        Limits {
            bootstrap: Duration::from_secs(60),
            stall: Duration::from_secs(60),
            goodbye: Duration::from_secs(5),
        }
    }
}

/// Reads in one turn before writing gets its turn: a flooding node cannot starve the controls.
const READS_PER_TURN: usize = 64;
/// Bytes written at once.
const CHUNK: usize = 64 * 1024;
/// Writes in one turn: at most 256 KiB between reads.
const WRITES_PER_TURN: usize = 4;
/// Sleep between looks at a child process that has closed its output and not yet ended.
const NAP: Duration = Duration::from_millis(20);
/// Longest sleep of a session in which nothing happens.
const IDLE: Duration = Duration::from_secs(60);

enum Phase<'a> {
    /// For the bootstrap's next answer.
    Waiting,
    /// The binary: a line with its length, then its bytes; `sent` counts both.
    Sending {
        head: Vec<u8>,
        body: &'a [u8],
        sent: usize,
    },
    Running,
}

/// One session from the bootstrap's start to its end.
pub(super) struct Pump<'a> {
    pipe: &'a mut dyn Pipe,
    payload: &'a Payload,
    outbox: &'a Outbox,
    sink: &'a mut dyn Sink,
    limits: Limits,
    bootstrap: Bootstrap,
    phase: Phase<'a>,
    deadline: Instant,
    closing: Option<Instant>,
    input_ended: bool,
    chunk: (Vec<u8>, usize),
    open: [bool; 2],
    stderr: Tail,
    agent_spoke: bool,
}

impl<'a> Pump<'a> {
    /// A session whose bootstrap has just been started on `pipe`.
    pub(super) fn new(
        pipe: &'a mut dyn Pipe,
        payload: &'a Payload,
        outbox: &'a Outbox,
        sink: &'a mut dyn Sink,
        bootstrap: Bootstrap,
        limits: Limits,
    ) -> Pump<'a> {
        Pump {
            pipe,
            payload,
            outbox,
            sink,
            limits,
            bootstrap,
            phase: Phase::Waiting,
            deadline: Instant::now() + limits.bootstrap,
            closing: None,
            input_ended: false,
            chunk: (Vec::new(), 0),
            open: [true; 2],
            stderr: Tail::default(),
            agent_spoke: false,
        }
    }

    /// Carries until the command ends, the outbox closes, or something fails.
    pub(super) fn run(mut self) -> Result<Ended, Failure> {
        self.sink.stage(Stage::Bootstrapping);
        loop {
            match self.turn() {
                Ok(None) => {}
                Ok(Some(ended)) => return Ok(ended),
                // A connection that breaks after we said goodbye is no failure.
                Err(_) if self.closing.is_some() => return Ok(Ended::ClosedByUs),
                Err(failure) => return Err(failure),
            }
        }
    }

    fn turn(&mut self) -> Result<Option<Ended>, Failure> {
        self.outbox.acknowledge();
        if self.outbox.is_closed() && self.closing.is_none() {
            self.closing = Some(Instant::now() + self.limits.goodbye);
            if !self.bootstrap.is_running() {
                return Ok(Some(Ended::ClosedByUs));
            }
        }
        let drained = self.read(Stream::Stdout)? & self.read(Stream::Stderr)?;
        if let Some(ended) = self.end()? {
            return Ok(Some(ended));
        }
        let wrote_all = self.write();
        self.check_time()?;
        if self.closing.is_some_and(|end| Instant::now() >= end) {
            return Ok(Some(Ended::ClosedByUs));
        }
        let limit = if drained {
            self.patience()
        } else {
            Duration::ZERO
        };
        let waited = self.pipe.wait(self.outbox.wake_fd(), !wrote_all, limit);
        waited.map_err(|source| self.lost(source))?;
        Ok(None)
    }

    /// Reads one stream as far as it goes; false when it was cut off for fairness.
    fn read(&mut self, stream: Stream) -> Result<bool, Failure> {
        let mut buffer = [0u8; CHUNK / 2];
        for _ in 0..READS_PER_TURN {
            if !self.open[stream as usize] {
                return Ok(true);
            }
            match self.pipe.read(stream, &mut buffer) {
                Ok(0) => self.open[stream as usize] = false,
                Ok(n) => self.received(stream, &buffer[..n])?,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.lost(e)),
            }
        }
        Ok(false)
    }

    fn received(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Failure> {
        if stream == Stream::Stderr {
            self.stderr.push(bytes);
            self.sink.stderr(bytes);
        } else if self.bootstrap.is_running() {
            self.agent_spoke = true;
            self.sink.stdout(bytes);
        } else {
            self.bootstrap.feed(bytes)?;
            while let Some(step) = self.bootstrap.step() {
                self.follow(step)?;
            }
        }
        Ok(())
    }

    fn follow(&mut self, step: Step) -> Result<(), Failure> {
        self.deadline = Instant::now() + self.limits.stall;
        match step {
            Step::Have => {}
            Step::Need(_) if !matches!(self.phase, Phase::Waiting) => {
                return Err(Failure::Protocol {
                    said: "NEED, twice".to_string(),
                });
            }
            Step::Need(encoding) => {
                let body = match encoding {
                    Encoding::Gzip => self.payload.gzip(),
                    Encoding::Raw => self.payload.bytes(),
                };
                let head = format!("{}\n", body.len()).into_bytes();
                self.sink.stage(Stage::Deploying {
                    bytes: body.len() as u64,
                });
                self.phase = Phase::Sending {
                    head,
                    body,
                    sent: 0,
                };
            }
            Step::Run(first) => {
                self.phase = Phase::Running;
                self.sink.stage(Stage::Running);
                if !first.is_empty() {
                    self.agent_spoke = true;
                    self.sink.stdout(&first);
                }
            }
        }
        Ok(())
    }

    /// Writes what there is to write; true when nothing is left.
    fn write(&mut self) -> bool {
        for _ in 0..WRITES_PER_TURN {
            if self.input_ended {
                return true;
            }
            match self.write_some() {
                Ok(true) => {}
                Ok(false) => return true,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Why the other end takes no more is in what it said: reading finds out.
                Err(_) => self.input_ended = true,
            }
        }
        false
    }

    /// One write; false when there is nothing to write.
    fn write_some(&mut self) -> io::Result<bool> {
        match &mut self.phase {
            Phase::Waiting => Ok(false),
            Phase::Sending { head, body, sent } => {
                let from = sent.saturating_sub(head.len());
                let part = match head.get(*sent..) {
                    Some(rest) if !rest.is_empty() => rest,
                    _ => &body[from..body.len().min(from + CHUNK)],
                };
                if part.is_empty() {
                    return Ok(false);
                }
                *sent += self.pipe.write(part)?;
                self.deadline = Instant::now() + self.limits.stall;
                Ok(true)
            }
            Phase::Running => self.write_outbox(),
        }
    }

    fn write_outbox(&mut self) -> io::Result<bool> {
        if self.chunk.1 >= self.chunk.0.len() {
            match self.outbox.pop() {
                Some(next) => self.chunk = (next, 0),
                None if self.closing.is_some() => {
                    self.pipe.finish_input()?;
                    self.input_ended = true;
                    return Ok(false);
                }
                None => return Ok(false),
            }
        }
        let (bytes, sent) = &self.chunk;
        self.chunk.1 += self
            .pipe
            .write(&bytes[*sent..bytes.len().min(sent + CHUNK)])?;
        Ok(true)
    }

    /// The command's end, if it has come.
    fn end(&mut self) -> Result<Option<Ended>, Failure> {
        if self.open[Stream::Stdout as usize] {
            return Ok(None);
        }
        match self.pipe.ended() {
            Ok(ended) => {
                self.read(Stream::Stderr)?;
                self.judge(ended).map(Some)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(self.lost(e)),
        }
    }

    fn judge(&self, ended: Ended) -> Result<Ended, Failure> {
        if self.closing.is_some() {
            return Ok(Ended::ClosedByUs);
        }
        if !self.bootstrap.is_running() {
            let mut said = self.stderr.last_line();
            if said.is_empty() {
                said = self.bootstrap.last_words();
            }
            return Err(Failure::EndedEarly {
                how: describe(&ended),
                said,
            });
        }
        match ended {
            Ended::Exit(status) if !self.agent_spoke => {
                explain_start(status, &self.stderr).map_or(Ok(ended), Err)
            }
            _ => Ok(ended),
        }
    }

    fn check_time(&self) -> Result<(), Failure> {
        if Instant::now() < self.deadline {
            return Ok(());
        }
        match &self.phase {
            Phase::Running => Ok(()),
            Phase::Waiting => {
                let mut said = self.bootstrap.last_words();
                if said.is_empty() {
                    said = self.stderr.last_line();
                }
                Err(Failure::BootstrapSilent {
                    seconds: seconds(self.limits.bootstrap),
                    said,
                })
            }
            Phase::Sending { head, body, sent } => Err(Failure::DeployStalled {
                seconds: seconds(self.limits.stall),
                sent: sent.saturating_sub(head.len()),
                total: body.len(),
            }),
        }
    }

    /// How long to sleep at most.
    fn patience(&self) -> Duration {
        let next = if !self.open[Stream::Stdout as usize] {
            Instant::now() + NAP
        } else {
            self.closing.unwrap_or_else(|| match self.phase {
                Phase::Running => Instant::now() + IDLE,
                _ => self.deadline,
            })
        };
        next.saturating_duration_since(Instant::now())
    }

    fn lost(&self, source: io::Error) -> Failure {
        let when = match self.phase {
            Phase::Waiting => "while the bootstrap ran",
            Phase::Sending { .. } => "while the agent was copied",
            Phase::Running => "while the agent ran",
        };
        Failure::Lost { when, source }
    }
}

/// Seconds for messages, with a fraction only where it matters.
pub(super) fn seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        time.as_secs().to_string()
    } else {
        format!("{:.1}", time.as_secs_f64())
    }
}

fn describe(ended: &Ended) -> String {
    match ended {
        Ended::Exit(status) => format!("exit status {status}"),
        Ended::Signal(name) => format!("killed by SIG{name}"),
        Ended::ClosedByUs => "closed".to_string(),
    }
}

/// Why a binary that never said a word did not start: what the shell and the dynamic linker
/// (ld.so) print, and the shell's statuses 126 (not executable) and 127 (not found).
fn explain_start(status: i32, stderr: &Tail) -> Option<Failure> {
    for line in stderr.lines() {
        if let Some((_, rest)) = line.split_once("error while loading shared libraries: ") {
            let library = rest.split(':').next().unwrap_or(rest).to_string();
            return Some(Failure::MissingLibrary { library });
        }
        if line.contains(": version `") && line.contains("not found") {
            return Some(Failure::OldLibrary { said: line });
        }
    }
    matches!(status, 126 | 127).then(|| Failure::CannotRun {
        status,
        said: stderr.last_line(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(status: i32, stderr: &str) -> Option<String> {
        let mut tail = Tail::default();
        tail.push(stderr.as_bytes());
        explain_start(status, &tail).map(|failure| failure.to_string())
    }

    #[test]
    fn the_dynamic_linkers_words_are_explained() {
        let ld_so = "/x/linerate-ab: error while loading shared libraries: libssl.so.3: cannot open shared object file: No such file or directory\n";
        assert_eq!(
            explained(127, ld_so).unwrap(),
            "the agent needs libssl.so.3, which the node does not have. Install the package with it on the node, or use a statically linked linerate"
        );
        let old = "/x/linerate: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by /x/linerate)\n";
        assert!(
            explained(1, old)
                .unwrap()
                .starts_with("the node's C library is too old")
        );
        assert!(
            explained(126, "sh: Permission denied")
                .unwrap()
                .contains("(status 126): sh: P")
        );
        assert_eq!(explained(1, "an error of the agent's own"), None);
    }

    #[test]
    fn seconds_read_well() {
        assert_eq!(seconds(Duration::from_secs(30)), "30");
        assert_eq!(seconds(Duration::from_millis(1500)), "1.5");
    }
}
