//! The IP addresses of the network interfaces, for the length of a subnet's prefix.

use std::net::IpAddr;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::sys::socket::SockaddrStorage;

use crate::model::{Fact, Subnetwork};

/// The most addresses kept of one interface.
const MAX_ADDRESSES: usize = 64;

/// All addresses of the node, or why they are not known.
pub(super) struct Interfaces(Result<Vec<Address>, String>);

/// One address of one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub interface: String,
    pub ip: IpAddr,
    pub prefix_len: u8,
}

impl Interfaces {
    /// Those of the running system, in this network namespace.
    pub fn live() -> Self {
        match getifaddrs() {
            Ok(all) => Self(Ok(all.filter_map(address).collect())),
            Err(error) => Self::unknown(format!("getifaddrs: {}", error.desc())),
        }
    }

    /// None known, because of `why`.
    pub fn unknown(why: String) -> Self {
        Self(Err(why))
    }

    /// These, for tests.
    #[cfg(test)]
    pub fn of(addresses: Vec<Address>) -> Self {
        Self(Ok(addresses))
    }

    /// The addresses of `interface`, at most as many as any interface should have.
    pub fn of_interface(&self, interface: &str) -> Fact<Vec<Subnetwork>> {
        let addresses = match &self.0 {
            Ok(addresses) => addresses,
            Err(why) => return Fact::unknown(why),
        };
        let mine = addresses.iter().filter(|a| a.interface == interface);
        let subnetwork = |address: &Address| Subnetwork {
            ip: address.ip,
            prefix_len: address.prefix_len,
        };
        Fact::known(
            mine.map(subnetwork).take(MAX_ADDRESSES).collect(),
            "getifaddrs",
        )
    }

    /// The length in bits of the prefix that `ip` has on `interface`.
    pub fn prefix_len(&self, interface: &str, ip: IpAddr) -> Fact<u8> {
        let addresses = match &self.0 {
            Ok(addresses) => addresses,
            Err(why) => return Fact::unknown(why),
        };
        match addresses
            .iter()
            .find(|address| address.interface == interface && address.ip == ip)
        {
            Some(address) => Fact::known(address.prefix_len, "getifaddrs"),
            None => Fact::unknown(format!("{interface} has no address {ip} (getifaddrs)")),
        }
    }
}

fn address(entry: InterfaceAddress) -> Option<Address> {
    let ip = ip(&entry.address?)?;
    let prefix_len = mask_len(ip_bits(ip_of_family(&entry.netmask?, ip)?))?;
    Some(Address {
        interface: entry.interface_name,
        ip,
        prefix_len,
    })
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
}

fn ip_of_family(mask: &SockaddrStorage, like: IpAddr) -> Option<IpAddr> {
    ip(mask).filter(|mask| mask.is_ipv4() == like.is_ipv4())
}

/// The bits of an address, first one highest.
fn ip_bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// The number of leading ones; `None` where a one follows a zero.
fn mask_len(mask: u128) -> Option<u8> {
    let ones = mask.leading_ones();
    (mask.count_ones() == ones)
        .then_some(ones)
        .and_then(|ones| u8::try_from(ones).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_the_prefix_everyone_knows() {
        let live = Interfaces::live();
        let v4 = live.prefix_len("lo", "127.0.0.1".parse().unwrap());
        assert_eq!(v4.value(), Some(&8));
        let other = live.prefix_len("lo", "203.0.113.7".parse().unwrap());
        assert_eq!(
            other.why_unknown(),
            Some("lo has no address 203.0.113.7 (getifaddrs)")
        );
    }

    #[test]
    fn masks_with_holes_have_no_length() {
        let bits = |mask: &str| mask_len(ip_bits(mask.parse().unwrap()));
        assert_eq!(bits("255.255.255.0"), Some(24));
        assert_eq!(bits("0.0.0.0"), Some(0));
        assert_eq!(bits("255.255.255.255"), Some(32));
        assert_eq!(bits("ffff:ffff:ffff:ffff::"), Some(64));
        assert_eq!(bits("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), Some(128));
        assert_eq!(bits("255.0.255.0"), None);
    }
}
