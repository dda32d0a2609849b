//! An SSH channel as a connection, non-blocking.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ssh2::{BlockDirections, Channel};

use super::Link;
use crate::remote::Ended;
use crate::remote::pump::{Pipe, Stream};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    ReadStdout,
    ReadStderr,
    Write,
    Eof,
    Close,
}

/// The channel that the bootstrap and then the agent runs in.
pub(super) struct SshPipe {
    channel: Channel,
    link: Link,
    /// The call that is half-way through sending a packet. libssh2 wants that very call repeated
    /// before any other (a read also sends: it opens the window), so the others wait.
    sending: Option<Call>,
    write_blocked: bool,
}

impl SshPipe {
    /// Takes over a channel with a started command.
    pub(super) fn new(link: Link, channel: Channel) -> SshPipe {
        link.session.set_blocking(false);
        SshPipe {
            channel,
            link,
            sending: None,
            write_blocked: false,
        }
    }

    fn call<T>(
        &mut self,
        call: Call,
        work: impl FnOnce(&mut Channel) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.sending.is_some_and(|other| other != call) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.sending = None;
        let result = work(&mut self.channel);
        if matches!(&result, Err(e) if e.kind() == io::ErrorKind::WouldBlock) && self.is_sending() {
            self.sending = Some(call);
        }
        result
    }

    fn is_sending(&self) -> bool {
        let blocked = self.link.session.block_directions();
        matches!(blocked, BlockDirections::Outbound | BlockDirections::Both)
    }
}

impl Pipe for SshPipe {
    fn read(&mut self, stream: Stream, buffer: &mut [u8]) -> io::Result<usize> {
        match stream {
            Stream::Stdout => self.call(Call::ReadStdout, |c| c.read(buffer)),
            Stream::Stderr => self.call(Call::ReadStderr, |c| c.stderr().read(buffer)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.call(Call::Write, |c| c.write(bytes));
        self.write_blocked = written.is_err();
        written
    }

    fn finish_input(&mut self) -> io::Result<()> {
        self.call(Call::Eof, |c| c.send_eof().map_err(io::Error::from))
    }

    /// libssh2 reports status 0 for a command killed by a signal and for one whose server died, so
    /// the status is believed only after the channel was closed in order and no signal is named.
    fn ended(&mut self) -> io::Result<Ended> {
        self.call(Call::Close, |c| c.wait_close().map_err(io::Error::from))?;
        if let Some(signal) = self.channel.exit_signal()?.exit_signal {
            return Ok(Ended::Signal(signal));
        }
        Ok(Ended::Exit(self.channel.exit_status()?))
    }

    fn wait(&mut self, wake: BorrowedFd<'_>, writing: bool, limit: Duration) -> io::Result<()> {
        let mut events = PollFlags::POLLIN;
        // A write that waits for the node's window waits for input, not for room in the socket.
        if self.sending.is_some() || (writing && !self.write_blocked) {
            events |= PollFlags::POLLOUT;
        }
        let mut fds = [
            PollFd::new(wake, PollFlags::POLLIN),
            PollFd::new(self.link.socket.as_fd(), events),
        ];
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, limit) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}
