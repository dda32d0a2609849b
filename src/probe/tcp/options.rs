//! What the kernel tells of a connection.

use std::net::TcpStream;

use nix::sys::socket::{getsockopt, sockopt};
use nix::{getsockopt_impl, libc, sockopt_impl};

sockopt_impl!(
    /// The start of TCP_INFO.
    TcpInfo,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    InfoStart
);

/// `struct tcp_info` up to `tcpi_total_retrans` (include/uapi/linux/tcp.h), which every kernel has:
/// as much as is asked for is told, and how much follows differs from kernel to kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct InfoStart {
    _states: [u8; 8],
    numbers: [u32; 24],
}

/// Places in the numbers.
const SND_MSS: usize = 2;
const PMTU: usize = 13;
const TOTAL_RETRANS: usize = 23;

/// What is known of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectionFacts {
    /// Bytes of a segment.
    pub mss: u32,
    /// Bytes of a packet on the way to the peer.
    pub path_mtu: u32,
    /// Segments sent again so far.
    pub retransmits: u64,
    /// The congestion control algorithm.
    pub congestion: String,
}

impl ConnectionFacts {
    pub fn of(stream: &TcpStream) -> std::io::Result<Self> {
        let info = getsockopt(stream, TcpInfo)?;
        let congestion = getsockopt(stream, sockopt::TcpCongestion)?;
        let name = congestion.to_string_lossy();
        Ok(Self {
            mss: info.numbers[SND_MSS],
            path_mtu: info.numbers[PMTU],
            retransmits: u64::from(info.numbers[TOTAL_RETRANS]),
            congestion: name.trim_end_matches('\0').to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_what_the_kernel_tells_is_as_long_as_in_its_header() {
        assert_eq!(
            size_of::<InfoStart>(),
            std::mem::offset_of!(libc::tcp_info, tcpi_total_retrans) + 4
        );
        let mss = std::mem::offset_of!(libc::tcp_info, tcpi_snd_mss);
        let pmtu = std::mem::offset_of!(libc::tcp_info, tcpi_pmtu);
        assert_eq!([mss, pmtu], [SND_MSS, PMTU].map(|place| 8 + 4 * place));
    }
}
