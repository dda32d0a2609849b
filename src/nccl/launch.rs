//! nccl-tests as a child process. Whatever it does, it ends within its time, and of what it writes so
//! much is kept as is bounded: lines that tell of GPUDirect RDMA, results, and the last of the others.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, PipeReader, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::bears;
use crate::model::{NcclTestEnd, NcclTestExit, is_treacherous};

/// The longest line that is kept, in bytes. NCCL cuts its own at 1024.
const MAX_LINE: usize = 2000;

/// What is kept of one node's tests, in bytes: 8 GPUs with 32 channels write a tenth.
pub const MAX_OF_NODE: usize = 1 << 20;

/// What is kept of tests on many nodes, in bytes: 1024 GPUs with 16 channels write half.
pub const MAX_OF_ALL: usize = 16 << 20;

/// How much is handed on at once, in bytes.
const BATCH: usize = 64 << 10;

/// Of what is neither NCCL's nor a result so many lines are kept, and so many characters of each.
const LAST: usize = 4;
const MAX_LAST: usize = 300;

/// How often it is looked at.
const TICK: Duration = Duration::from_millis(100);

/// How long it may take to end when it is told to: mpirun ends what it started elsewhere.
const GRACE: Duration = Duration::from_secs(5);

/// How long others may hold its output when it has ended.
const LINGER: Duration = Duration::from_secs(2);

/// The environment that makes NCCL tell of GPUDirect RDMA.
const TELLING: [(&str, &str); 2] = [
    ("NCCL_DEBUG", "INFO"),
    ("NCCL_DEBUG_SUBSYS", "INIT,NET,GRAPH"),
];

/// Within one node NCCL takes its NICs where it may use neither peer access nor shared memory, and from
/// 2.30 on only where it is told that it may.
const THROUGH_NICS: [(&str, &str); 3] = [
    ("NCCL_P2P_DISABLE", "1"),
    ("NCCL_SHM_DISABLE", "1"),
    ("NCCL_NET_DISABLE_INTRA", "0"),
];

/// nccl-tests to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NcclLaunch {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Whether it runs within this node, so that its GPUs have to be sent to their NICs.
    pub is_alone: bool,
    /// What has not ended after so long is ended.
    pub timeout: Duration,
}

impl NcclLaunch {
    /// Runs it to its end, or until `stop`; `say` gets lines that bear on GPUDirect RDMA, and results.
    pub fn run(&self, stop: &AtomicBool, say: &mut dyn FnMut(Vec<String>)) -> NcclTestEnd {
        let most = if self.is_alone {
            MAX_OF_NODE
        } else {
            MAX_OF_ALL
        };
        let mut kept = Kept::new(most, say);
        let how = match Running::start(self) {
            Ok(mut running) => running.follow(self.timeout, stop, &mut kept),
            Err(error) => NcclTestExit::Failed {
                why: self.not_started(&error),
            },
        };
        kept.end(how)
    }

    fn not_started(&self, error: &io::Error) -> String {
        let program = self.command.first().map_or("", String::as_str);
        match error.kind() {
            ErrorKind::NotFound if program.contains('/') => {
                format!("{program} is not installed: there is no such file")
            }
            ErrorKind::NotFound => {
                format!("{program} is not installed: it is in no folder of PATH")
            }
            _ => format!("{program} cannot be started: {error}"),
        }
    }
}

/// The child, in a process group of its own.
struct Running {
    child: Child,
    output: PipeReader,
    exit: Option<(ExitStatus, Instant)>,
    is_silent: bool,
}

impl Running {
    fn start(launch: &NcclLaunch) -> io::Result<Self> {
        let (program, arguments) = launch
            .command
            .split_first()
            .ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
        let (output, writer) = io::pipe()?;
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        command.envs(TELLING).env_remove("NCCL_DEBUG_FILE");
        if launch.is_alone {
            command.envs(THROUGH_NICS);
        }
        command.stdin(Stdio::null()).stdout(writer.try_clone()?);
        command.stderr(writer);
        Ok(Self {
            child: command.spawn()?,
            output,
            exit: None,
            is_silent: false,
        })
    }

    fn follow(
        &mut self,
        timeout: Duration,
        stop: &AtomicBool,
        kept: &mut Kept<'_>,
    ) -> NcclTestExit {
        let start = Instant::now();
        let failed = |why: String| NcclTestExit::Failed { why };
        loop {
            if stop.load(Ordering::Relaxed) {
                return failed("the run was interrupted".to_owned());
            }
            if let Err(error) = self.listen(kept).and_then(|()| self.look()) {
                return failed(format!("its output cannot be read: {error}"));
            }
            match self.exit {
                Some((status, at)) if self.is_silent || at.elapsed() >= LINGER => {
                    return told(status);
                }
                None if start.elapsed() >= timeout => {
                    let seconds = timeout.as_secs();
                    return failed(format!("it had not ended after {seconds} s, and was ended"));
                }
                _ => {}
            }
        }
    }

    /// Takes in what there is, or waits a while for it.
    fn listen(&mut self, kept: &mut Kept<'_>) -> io::Result<()> {
        if self.is_silent {
            std::thread::sleep(TICK);
            return Ok(());
        }
        let mut fds = [PollFd::new(self.output.as_fd(), PollFlags::POLLIN)];
        let limit = PollTimeout::try_from(TICK).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, limit) {
            Ok(0) => {
                // Whoever looks on sees what there is.
                kept.hand_on();
                return Ok(());
            }
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let mut buffer = [0; 16 << 10];
        let length = self.output.read(&mut buffer)?;
        self.is_silent = length == 0;
        kept.take(&buffer[..length]);
        Ok(())
    }

    fn look(&mut self) -> io::Result<()> {
        if self.exit.is_none() {
            let status = self.child.try_wait()?;
            self.exit = status.map(|status| (status, Instant::now()));
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        if let Ok(id) = i32::try_from(self.child.id()) {
            // Nobody may be left in the group.
            let _ = killpg(Pid::from_raw(id), signal);
        }
    }
}

impl Drop for Running {
    /// Ends what still runs of it.
    fn drop(&mut self) {
        if self.exit.is_some() && self.is_silent {
            return;
        }
        self.signal(Signal::SIGTERM);
        let told = Instant::now();
        while self.exit.is_none() && told.elapsed() < GRACE && self.look().is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.signal(Signal::SIGKILL);
        if self.exit.is_none() {
            // Nothing is left to do where even that fails.
            let _ = self.child.wait();
        }
    }
}

fn told(status: ExitStatus) -> NcclTestExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => NcclTestExit::Exited { code },
        (None, signal) => NcclTestExit::Failed {
            why: format!("it was ended by signal {}", signal.unwrap_or_default()),
        },
    }
}

/// What is kept of its output.
struct Kept<'a> {
    say: &'a mut dyn FnMut(Vec<String>),
    /// A line that has not ended yet, no longer than [`MAX_LINE`].
    line: Vec<u8>,
    is_long: bool,
    batch: Vec<String>,
    batch_bytes: usize,
    /// Bytes that may still be kept.
    room: usize,
    last: VecDeque<String>,
    left_out: u64,
}

impl<'a> Kept<'a> {
    fn new(room: usize, say: &'a mut dyn FnMut(Vec<String>)) -> Self {
        Self {
            say,
            line: Vec::new(),
            is_long: false,
            batch: Vec::new(),
            batch_bytes: 0,
            room,
            last: VecDeque::new(),
            left_out: 0,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_ended) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = MAX_LINE - self.line.len();
            self.is_long |= text.len() > room;
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if is_ended {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let text = plain(&self.line);
        let (is_long, size) = (self.is_long, text.len() + 1);
        self.line.clear();
        self.is_long = false;
        if !bears(&text) {
            if !text.trim().is_empty() {
                self.last.push_back(text.chars().take(MAX_LAST).collect());
                self.last.drain(..self.last.len().saturating_sub(LAST));
            }
            return;
        }
        if is_long || size > self.room {
            self.left_out += 1;
            return;
        }
        self.room -= size;
        self.batch_bytes += size;
        self.batch.push(text);
        if self.batch_bytes >= BATCH {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        self.batch_bytes = 0;
        if !self.batch.is_empty() {
            (self.say)(std::mem::take(&mut self.batch));
        }
    }

    fn end(mut self, how: NcclTestExit) -> NcclTestEnd {
        self.end_line();
        self.hand_on();
        NcclTestEnd {
            how,
            last: self.last.into(),
            left_out: self.left_out,
        }
    }
}

/// A line without colours and whatever else steers a terminal.
fn plain(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut plain = anstream::adapter::strip_str(&text).to_string();
    plain.retain(|c| c == '\t' || !is_treacherous(c));
    plain.replace('\t', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: &str =
        "n1:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA";

    fn run(script: &str, timeout: Duration, stop: bool) -> (NcclTestEnd, Vec<String>) {
        let mut lines = Vec::new();
        let launch = NcclLaunch {
            command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            is_alone: true,
            timeout,
        };
        let end = launch.run(&AtomicBool::new(stop), &mut |more| lines.extend(more));
        (end, lines)
    }

    fn well(script: &str) -> (NcclTestEnd, Vec<String>) {
        run(script, Duration::from_secs(60), false)
    }

    #[test]
    fn lines_that_bear_are_kept_and_the_last_of_the_others() {
        let script = format!(
            "for i in 1 2 3 4 5 6; do echo noise $i >&2; done; printf '\\033[36m{CHANNEL}\\033[0m\\n'; \
             echo \"$NCCL_DEBUG $NCCL_P2P_DISABLE $NCCL_SHM_DISABLE $NCCL_DEBUG_FILE.\"; \
             printf '# Avg bus bandwidth    : 85.1'; exit 3"
        );
        let (end, lines) = well(&script);
        assert_eq!(lines, [CHANNEL, "# Avg bus bandwidth    : 85.1"]);
        assert_eq!(end.how, NcclTestExit::Exited { code: 3 });
        assert_eq!(end.last, ["noise 4", "noise 5", "noise 6", "INFO 1 1 ."]);
        assert_eq!(end.left_out, 0);
    }

    #[test]
    fn what_is_not_installed_is_said_to_be_that() {
        let why = |program: &str| {
            let launch = NcclLaunch {
                command: vec![program.to_owned()],
                is_alone: true,
                timeout: Duration::from_secs(1),
            };
            match launch.run(&AtomicBool::new(false), &mut |_| {}).how {
                NcclTestExit::Failed { why } => why,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            why("no_such_perf"),
            "no_such_perf is not installed: it is in no folder of PATH"
        );
        assert_eq!(
            why("/opt/no_such_perf"),
            "/opt/no_such_perf is not installed: there is no such file"
        );
        assert!(why("/etc/passwd").starts_with("/etc/passwd cannot be started: "));
    }

    #[test]
    fn what_does_not_end_is_ended_with_all_that_it_started() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let script = format!("sleep 600 & echo $! >{}; wait", file.path().display());
        let (end, _) = run(&script, Duration::from_secs(1), false);
        assert_eq!(
            end.how,
            NcclTestExit::Failed {
                why: "it had not ended after 1 s, and was ended".into()
            }
        );
        let child: i32 = std::fs::read_to_string(file.path())
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // A zombie may be left for whoever takes it over.
        let stat = || std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let is_gone = || stat().is_empty() || stat().contains(") Z");
        for _ in 0..500 {
            if !is_gone() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        assert!(is_gone(), "{}", stat());
        let (end, _) = run("sleep 600", Duration::from_secs(60), true);
        let why = "the run was interrupted".to_owned();
        assert_eq!(end.how, NcclTestExit::Failed { why });
    }

    #[test]
    fn what_never_stops_writing_is_kept_in_bounds() {
        let line = CHANNEL.repeat(40);
        let script =
            format!("yes '{CHANNEL}' | head -n 40000; echo '{line}'; head -c 3000000 /dev/zero");
        let (end, lines) = well(&script);
        let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
        assert!(bytes <= MAX_OF_NODE && bytes > MAX_OF_NODE - 200, "{bytes}");
        assert_eq!(end.left_out + lines.len() as u64, 40_001);
        assert_eq!(end.how, NcclTestExit::Exited { code: 0 });
    }
}
