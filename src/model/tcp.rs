//! TCP connections of a probe.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Fact;

/// Where the target of a probe awaits its TCP connections, or where its initiator's come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpAddress {
    /// The address of the NIC.
    pub address: IpAddr,
    /// The port; 0 of an initiator, which has a new one for each connection.
    pub port: u16,
    /// Opens a connection: the first bytes on it, so that nobody else's is taken for it. 128 random
    /// bits in hexadecimal; empty of an initiator.
    pub token: String,
}

/// Where an RDMA port sits in its host, for sockets on the same NIC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortPlace {
    /// Its network interface.
    pub interface: Fact<String>,
    /// The address that its connections have.
    pub address: Fact<IpAddr>,
    /// The processors nearest to it.
    pub cpus: Fact<Vec<u32>>,
    /// Offloads of the interface that are on, of TSO, GSO, GRO and LRO, as ethtool names them.
    pub offloads: Fact<Vec<String>>,
}

/// What is known of the connections at the sending end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpFacts {
    /// Maximum segment size in bytes, from TCP_INFO.
    pub mss: u32,
    /// The congestion control algorithm, from TCP_CONGESTION.
    pub congestion: String,
    /// Segments sent again on all connections, from TCP_INFO.
    pub retransmits: u64,
    /// Offloads of the network interface that are on, of TSO, GSO, GRO and LRO, as ethtool names them.
    pub offloads: Fact<Vec<String>>,
    /// Of a transfer without copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_copy: Option<ZeroCopy>,
}

/// What the kernel made of sends that asked for no copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZeroCopy {
    /// Sends that it told the end of.
    pub completed: u64,
    /// Of those, the ones that it copied all the same (SO_EE_CODE_ZEROCOPY_COPIED), as on loopback.
    pub copied: u64,
}
