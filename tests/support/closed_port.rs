//! A port of 127.0.0.1 where nothing listens, kept so that nobody else takes it meanwhile: a port that
//! was free a moment ago may be another test's server by now.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, socket};

/// Bound, and never listening, for as long as it lives: connections to it are refused.
pub struct ClosedPort {
    _socket: OwnedFd,
    pub address: SocketAddr,
}

impl ClosedPort {
    pub fn take() -> ClosedPort {
        let stream = SockType::Stream;
        let socket =
            socket(AddressFamily::Inet, stream, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
        bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).expect("a free port");
        let name: SockaddrIn = getsockname(socket.as_raw_fd()).expect("an address");
        ClosedPort {
            _socket: socket,
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, name.port()).into(),
        }
    }
}
