//! MSG_ZEROCOPY: the kernel sends from the caller's pages, and tells on the socket's error queue when
//! it no longer needs them (Documentation/networking/msg_zerocopy.rst).

use std::io::{Error, IoSliceMut, Result};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, send, setsockopt};
use nix::{libc, setsockopt_impl, sockopt_impl};

use crate::model::ZeroCopy;

/// SO_ZEROCOPY (include/uapi/asm-generic/socket.h), the same on x86-64 and aarch64.
const SO_ZEROCOPY: libc::c_int = 60;
/// From include/uapi/linux/errqueue.h.
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;
/// Sends between two looks at the queue: each takes memory of the socket until it is read.
const SENDS_PER_LOOK: u64 = 16;
/// How long the last notices are awaited.
const PATIENCE: Duration = Duration::from_secs(5);

sockopt_impl!(
    /// Whether MSG_ZEROCOPY is heeded.
    ZeroCopyOption,
    SetOnly,
    libc::SOL_SOCKET,
    SO_ZEROCOPY,
    bool
);

/// Sends without copy on one connection.
pub(super) struct Sender<'a> {
    stream: &'a TcpStream,
    sent: u64,
    seen: ZeroCopy,
}

impl<'a> Sender<'a> {
    /// Asks the kernel for it; Linux has it from 4.14.
    pub fn new(stream: &'a TcpStream) -> Result<Self> {
        setsockopt(stream, ZeroCopyOption, &true)?;
        Ok(Self {
            stream,
            sent: 0,
            seen: ZeroCopy {
                completed: 0,
                copied: 0,
            },
        })
    }

    /// Sends what it can of `bytes`, which stay as they are until the end of the transfer.
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize> {
        if self.sent.is_multiple_of(SENDS_PER_LOOK) {
            self.look()?;
        }
        let flags = MsgFlags::from_bits_retain(libc::MSG_ZEROCOPY) | MsgFlags::MSG_NOSIGNAL;
        loop {
            match send(self.stream.as_raw_fd(), bytes, flags) {
                Ok(count) => {
                    self.sent += 1;
                    return Ok(count);
                }
                // Too many pages are on their way for the limits of socket and process.
                Err(Errno::ENOBUFS) if self.sent > self.seen.completed => {
                    self.wait(Duration::from_millis(10))?;
                    self.look()?;
                }
                Err(Errno::ENOBUFS) => {
                    return Err(Error::other(format!(
                        "a send of {} bytes with MSG_ZEROCOPY is beyond the limit on locked memory, or \
                     net.core.optmem_max",
                        bytes.len()
                    )));
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits until the kernel has told the end of all sends; what it told.
    pub fn finish(mut self) -> Result<ZeroCopy> {
        let deadline = Instant::now() + PATIENCE;
        self.look()?;
        while self.seen.completed < self.sent && Instant::now() < deadline {
            self.wait(Duration::from_millis(10))?;
            self.look()?;
        }
        Ok(self.seen)
    }

    /// An error queue that is not empty is told as an error whatever is asked for.
    fn wait(&self, at_most: Duration) -> Result<()> {
        let millis = u16::try_from(at_most.as_millis()).unwrap_or(u16::MAX);
        let mut fds = [PollFd::new(self.stream.as_fd(), PollFlags::empty())];
        match poll(&mut fds, PollTimeout::from(millis)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Reads the notices that are there.
    fn look(&mut self) -> Result<()> {
        let mut control = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6, [u64; 8]);
        loop {
            let mut nothing: [IoSliceMut<'_>; 0] = [];
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let fd = self.stream.as_raw_fd();
            let message =
                match recvmsg::<SockaddrStorage>(fd, &mut nothing, Some(&mut control), flags) {
                    Ok(message) => message,
                    Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
                    Err(errno) => return Err(errno.into()),
                };
            for notice in message.cmsgs()? {
                if let ControlMessageOwned::Ipv4RecvErr(error, _)
                | ControlMessageOwned::Ipv6RecvErr(error, _) = notice
                {
                    count(&mut self.seen, &error);
                }
            }
        }
    }
}

/// A notice is of the sends numbered `ee_info` to `ee_data`.
fn count(seen: &mut ZeroCopy, notice: &libc::sock_extended_err) {
    if notice.ee_origin != SO_EE_ORIGIN_ZEROCOPY {
        return;
    }
    let sends = u64::from(notice.ee_data.wrapping_sub(notice.ee_info)) + 1;
    seen.completed += sends;
    if notice.ee_code & SO_EE_CODE_ZEROCOPY_COPIED != 0 {
        seen.copied += sends;
    }
}
