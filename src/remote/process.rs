//! A child process as a connection: its three pipes, its end, and its end by force.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::Ended;
use super::pump::{Pipe, Stream};

/// How long a program may take to end after its input ended or SIGTERM came.
const GRACE: Duration = Duration::from_secs(2);

/// A running child in a process group of its own.
pub(super) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts the program. A terminal's Ctrl-C does not reach it: this side ends it in order.
    pub(super) fn spawn(argv: &[String]) -> io::Result<Process> {
        let (program, arguments) = argv
            .split_first()
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let process = Process {
            child,
            stdin,
            stdout,
            stderr,
            status: None,
        };
        for fd in process.fds() {
            fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(process)
    }

    fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let stdin = self.stdin.as_ref().map(AsFd::as_fd);
        let stdout = self.stdout.as_ref().map(AsFd::as_fd);
        stdin
            .into_iter()
            .chain(stdout)
            .chain(self.stderr.as_ref().map(AsFd::as_fd))
    }

    fn look(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    fn wait_until(&mut self, deadline: Instant) -> bool {
        loop {
            // An error means there is no such child any more.
            if !matches!(self.look(), Ok(None)) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: Signal) {
        if let Ok(id) = i32::try_from(self.child.id()) {
            // It may have ended in this moment: then there is nothing to signal.
            let _ = killpg(Pid::from_raw(id), signal);
        }
    }
}

impl Pipe for Process {
    fn read(&mut self, stream: Stream, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match stream {
            Stream::Stdout => self.stdout.as_mut().map(|s| s.read(buffer)),
            Stream::Stderr => self.stderr.as_mut().map(|s| s.read(buffer)),
        };
        let n = read.unwrap_or(Ok(0))?;
        if n == 0 {
            match stream {
                Stream::Stdout => self.stdout = None,
                Stream::Stderr => self.stderr = None,
            }
        }
        Ok(n)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.stdin {
            Some(stdin) => stdin.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn finish_input(&mut self) -> io::Result<()> {
        self.stdin = None;
        Ok(())
    }

    fn ended(&mut self) -> io::Result<Ended> {
        let status = self
            .look()?
            .ok_or_else(|| io::Error::from(io::ErrorKind::WouldBlock))?;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Exit(code),
            (None, number) => Ended::Signal(signal_name(number.unwrap_or_default())),
        })
    }

    fn wait(&mut self, wake: BorrowedFd<'_>, writing: bool, limit: Duration) -> io::Result<()> {
        let read = PollFlags::POLLIN;
        let mut fds = vec![PollFd::new(wake, read)];
        fds.extend(self.stdout.iter().map(|s| PollFd::new(s.as_fd(), read)));
        fds.extend(self.stderr.iter().map(|s| PollFd::new(s.as_fd(), read)));
        if writing {
            fds.extend(
                self.stdin
                    .iter()
                    .map(|s| PollFd::new(s.as_fd(), PollFlags::POLLOUT)),
            );
        }
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, limit) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

impl Drop for Process {
    /// Ends the program in order: end of input, SIGTERM, SIGKILL, each with a moment's grace.
    fn drop(&mut self) {
        self.stdin = None;
        if matches!(self.look(), Ok(Some(_))) {
            return;
        }
        self.signal(Signal::SIGTERM);
        if !self.wait_until(Instant::now() + GRACE) {
            self.signal(Signal::SIGKILL);
            self.wait_until(Instant::now() + GRACE);
        }
    }
}

/// `KILL` for 9, as SSH names signals.
fn signal_name(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(signal) => signal.as_str().trim_start_matches("SIG").to_string(),
        Err(_) => number.to_string(),
    }
}
