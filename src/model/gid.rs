//! The 128-bit global identifier of an RDMA port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A GID: an IPv6 address, or (RoCEv2 over IPv4) an IPv4 address mapped into one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Gid(Ipv6Addr);

impl Gid {
    /// From the 16 bytes in network order.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Ipv6Addr::from(bytes))
    }

    /// The 16 bytes in network order.
    pub fn bytes(self) -> [u8; 16] {
        self.0.octets()
    }

    /// The all-zero entry of an unused slot in the GID table.
    pub fn is_empty(self) -> bool {
        self.0.is_unspecified()
    }

    /// The IPv4 address that this GID maps (`::ffff:a.b.c.d`).
    pub fn ipv4(self) -> Option<Ipv4Addr> {
        self.0.to_ipv4_mapped()
    }

    /// Whether this is a link-local address, fe80::/10.
    pub fn is_link_local(self) -> bool {
        self.0.segments()[0] & 0xffc0 == 0xfe80
    }

    /// The IP address, for RoCEv2.
    pub fn ip(self) -> IpAddr {
        self.ipv4().map_or(IpAddr::V6(self.0), IpAddr::V4)
    }
}

impl From<Ipv6Addr> for Gid {
    fn from(address: Ipv6Addr) -> Self {
        Self(address)
    }
}

impl FromStr for Gid {
    type Err = std::net::AddrParseError;

    /// Reads the form of /sys/class/infiniband/*/ports/*/gids/* and any IPv6 address.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.trim().parse().map(Self)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sysfs_form_is_read() {
        let gid: Gid = "0000:0000:0000:0000:0000:ffff:0a65:0001\n".parse().unwrap();
        assert_eq!(gid.ipv4(), Some(Ipv4Addr::new(10, 101, 0, 1)));
        assert_eq!(gid.to_string(), "::ffff:10.101.0.1");
        assert!(!gid.is_link_local());
        let local: Gid = "fe80:0000:0000:0000:5054:00ff:fe12:3456".parse().unwrap();
        assert!(local.is_link_local() && local.ipv4().is_none());
        assert!(
            "0000:0000:0000:0000:0000:0000:0000:0000"
                .parse::<Gid>()
                .unwrap()
                .is_empty()
        );
    }
}
