//! The TCP connection and the server's first words.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt::TcpUserTimeout};
use ssh2::Session;

use super::Stop;
use crate::remote::Target;
use crate::remote::error::Failure;
use crate::remote::pump::seconds;
use crate::remote::text::clean;

/// Unacknowledged data older than this breaks the connection (TCP_USER_TIMEOUT, in milliseconds):
/// libssh2's keepalive never notices a half-open one.
const USER_TIMEOUT_MS: u32 = 15_000;

/// What a server said first, cleaned.
pub(super) struct Greeted(String);

/// Connects to the first address of the target that accepts, and how to call that address.
pub(super) fn open(target: &Target, limit: Duration) -> Result<(TcpStream, String), Failure> {
    let resolved = (target.host.as_str(), target.port).to_socket_addrs();
    let addresses: Vec<SocketAddr> = resolved
        .map_err(|source| Failure::Resolve {
            host: target.host.clone(),
            source,
        })?
        .collect();
    let mut failure = None;
    for address in addresses {
        let name = match target.host.parse::<IpAddr>() {
            Ok(_) => address.to_string(),
            Err(_) => format!("{} ({address})", target.host),
        };
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return prepare(stream).map(|stream| (stream, name)),
            Err(e) => failure = Some(explain_connect(e, name, limit)),
        }
    }
    Err(failure.unwrap_or_else(|| Failure::Resolve {
        host: target.host.clone(),
        source: io::Error::other("no address"),
    }))
}

fn prepare(stream: TcpStream) -> Result<TcpStream, Failure> {
    let set = stream.set_nodelay(true).and_then(|()| {
        setsockopt(&stream, TcpUserTimeout, &USER_TIMEOUT_MS).map_err(io::Error::from)
    });
    set.map(|()| stream)
        .map_err(|source| Failure::Local { source })
}

fn explain_connect(source: io::Error, address: String, limit: Duration) -> Failure {
    match source.kind() {
        io::ErrorKind::ConnectionRefused => Failure::Refused { address },
        io::ErrorKind::TimedOut => Failure::NoAnswer {
            address,
            seconds: seconds(limit),
        },
        _ if matches!(source.raw_os_error(), Some(libc_limit) if is_local_limit(libc_limit)) => {
            Failure::Local { source }
        }
        _ => Failure::Connect { address, source },
    }
}

/// EMFILE, ENFILE, ENOBUFS, ENOMEM: this machine's limits, not the node's fault.
fn is_local_limit(errno: i32) -> bool {
    use nix::errno::Errno;
    [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM]
        .map(|e| e as i32)
        .contains(&errno)
}

/// Waits for the server's first bytes without taking them: an SSH server speaks first
/// (RFC 4253, section 4.2, allows both; every one in use does).
pub(super) fn greeting(socket: &TcpStream, stop: &Stop<'_>) -> Result<Greeted, Failure> {
    let address = stop.address.to_string();
    let left = stop.watchdog.left().max(Duration::from_millis(1));
    socket
        .set_read_timeout(Some(left))
        .map_err(|source| Failure::Local { source })?;
    let mut first = [0u8; 80];
    let peeked = socket.peek(&mut first);
    let turned_away = |address| Failure::TurnedAway {
        address,
        attempts: 1,
        sent: String::new(),
    };
    match peeked {
        Ok(0) if stop.watchdog.left().is_zero() => Err(Failure::Silent {
            address,
            seconds: seconds(stop.limit),
        }),
        Ok(0) => Err(turned_away(address)),
        Ok(n) => Ok(Greeted(clean(&first[..n]))),
        Err(e) => match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Err(Failure::Silent {
                address,
                seconds: seconds(stop.limit),
            }),
            io::ErrorKind::ConnectionReset => Err(turned_away(address)),
            _ => Err(Failure::Connect { address, source: e }),
        },
    }
}

/// What a failed handshake means.
pub(super) fn explain_handshake(
    source: ssh2::Error,
    session: &Session,
    greeted: &Greeted,
    stop: &Stop<'_>,
) -> Failure {
    let address = stop.address.to_string();
    let sent = greeted.0.clone();
    // libssh2 calls any line a banner.
    let greeted = session
        .banner_bytes()
        .is_some_and(|line| line.starts_with(b"SSH-"));
    if stop.is_over(&source) {
        return if greeted {
            stop.too_slow("the key exchange")
        } else {
            Failure::NotSsh {
                address,
                seconds: seconds(stop.limit),
                sent,
            }
        };
    }
    if greeted && !is_cut(&source) {
        return Failure::Handshake { address, source };
    }
    let sent = if sent.starts_with("SSH-") {
        String::new()
    } else {
        sent
    };
    Failure::TurnedAway {
        address,
        attempts: 1,
        sent,
    }
}

/// Whether libssh2 says that the other end closed the connection: LIBSSH2_ERROR_SOCKET_SEND,
/// _SOCKET_DISCONNECT, _SOCKET_RECV in libssh2.h.
pub(super) fn is_cut(error: &ssh2::Error) -> bool {
    [-7, -13, -43]
        .map(ssh2::ErrorCode::Session)
        .contains(&error.code())
}
