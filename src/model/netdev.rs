//! A network interface's link, addresses and lossless settings, and the node's routes.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{Fact, PciAddress};

/// How the interface behind an RDMA port is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetdevSettings {
    /// Speed in Mb/s.
    pub speed: Fact<u32>,
    /// Whether it sends and receives at once (`full` or `half`).
    pub duplex: Fact<String>,
    /// Whether the link is up at all.
    pub carrier: Fact<bool>,
    /// The bond it is, or is a member of; `None` where it is neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bond: Option<Fact<Bond>>,
    /// Its IP addresses with the lengths of their prefixes.
    pub addresses: Fact<Vec<Subnetwork>>,
    /// How it answers for IPv4 addresses.
    pub arp: ArpSettings,
    /// What keeps its RoCE traffic from being dropped.
    pub lossless: Lossless,
    /// The forward error correction that the link uses, in ethtool's word.
    pub fec: Fact<String>,
    /// Whether the whole link may be paused (IEEE 802.3x).
    pub pause: Fact<Pause>,
}

/// An address and the subnet it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subnetwork {
    /// An address, or the first one of a subnet.
    pub ip: IpAddr,
    /// Length of the subnet's prefix in bits.
    pub prefix_len: u8,
}

impl Subnetwork {
    /// The subnet alone; `None` where the prefix is longer than the address.
    pub fn network(self) -> Option<Self> {
        let net = ipnet::IpNet::new(self.ip, self.prefix_len).ok()?;
        Some(Self {
            ip: net.network(),
            ..self
        })
    }

    /// Whether it has room for another host than the one named.
    pub fn is_shared(self) -> bool {
        let all = if self.ip.is_ipv4() { 32 } else { 128 };
        self.prefix_len < all
    }
}

impl fmt::Display for Subnetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.ip, self.prefix_len))
    }
}

/// A bond (Documentation/networking/bonding.rst of Linux).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bond {
    /// The interface that is the bond.
    pub name: String,
    /// How it spreads traffic, such as `802.3ad`.
    pub mode: Fact<String>,
    /// What it chooses a member by, such as `layer3+4`.
    pub hash: Fact<String>,
    /// Its members.
    pub members: Fact<Vec<String>>,
}

/// The IPv4 settings in force on an interface: of `all` and its own, the greater
/// (Documentation/networking/ip-sysctl.rst of Linux).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArpSettings {
    /// 0: answers for every address of the node, 1: for its own only.
    pub ignore: Fact<u8>,
    /// 0: asks in the name of any address, 2: of its own best.
    pub announce: Fact<u8>,
    /// 0: off, 1: strict, 2: loose check of where packets come from.
    pub rp_filter: Fact<u8>,
}

/// What keeps RoCE from being dropped at a full buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lossless {
    /// What a received packet's priority is taken from.
    pub trust: Fact<Trust>,
    /// The priorities that are paused rather than dropped (IEEE 802.1Qbb).
    pub pfc: Fact<Priorities>,
    /// The priorities for which marked packets are answered with CNPs (DCQCN, notification point).
    pub ecn_notify: Fact<Priorities>,
    /// The priorities that slow down on CNPs (DCQCN, reaction point).
    pub ecn_react: Fact<Priorities>,
    /// DSCP of the CNPs it sends.
    pub cnp_dscp: Fact<u8>,
    /// Priority of the CNPs it sends.
    pub cnp_priority: Fact<u8>,
}

/// What a received packet's priority is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The VLAN tag: packets without one have none.
    Pcp,
    /// The DSCP field of IP.
    Dscp,
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pcp => "PCP",
            Self::Dscp => "DSCP",
        })
    }
}

/// A set of the eight priorities of IEEE 802.1Q, a bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priorities(pub u8);

impl Priorities {
    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Priorities {
    /// `3, 4`, `all`, `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            0 => "none".to_owned(),
            0xff => "all".to_owned(),
            bits => {
                let set = (0..8).filter(|priority| bits >> priority & 1 == 1);
                let texts: Vec<_> = set.map(|priority| priority.to_string()).collect();
                texts.join(", ")
            }
        };
        f.pad(&text)
    }
}

/// Flow control of the whole link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// It stops sending when asked.
    pub rx: bool,
    /// It asks when its buffers are full.
    pub tx: bool,
}

/// A network interface of hardware, whether RDMA goes through it or not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The kernel driver of the device below it.
    pub driver: Fact<String>,
    /// The PCI function it sits on.
    pub pci: Fact<PciAddress>,
    /// Vendor id of that function.
    pub vendor: Fact<u16>,
    /// Device id of that function.
    pub device: Fact<u16>,
    /// Speed in Mb/s.
    pub speed: Fact<u32>,
    /// The kernel's operational state (`up`, `down`, `unknown`).
    pub operstate: Fact<String>,
    /// Its MTU in bytes.
    pub mtu: Fact<u32>,
    /// The RDMA device that goes through it, or shares its function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<String>,
    /// The bond it is a member of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bond: Option<String>,
}

/// How the node finds its way by IP, as far as two interfaces could be taken for the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Routing {
    /// Routes to whole subnets of the main table, in the kernel's order.
    pub routes: Fact<Vec<SubnetRoute>>,
    /// Sources for which the rules name a table of their own.
    pub source_rules: Fact<Vec<Subnetwork>>,
}

/// A route to a subnet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetRoute {
    /// Where to.
    pub to: Subnetwork,
    /// Through which interface.
    pub interface: String,
    /// The lower, the better.
    pub metric: u32,
    /// The router in between, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_are_what_is_left_of_addresses() {
        let address = |text: &str, prefix_len| Subnetwork {
            ip: text.parse().unwrap(),
            prefix_len,
        };
        let network = address("10.1.2.3", 16).network().unwrap();
        assert_eq!(network.to_string(), "10.1.0.0/16");
        assert_eq!(address("10.1.2.3", 33).network(), None);
        assert!(address("10.1.2.3", 31).is_shared());
        assert!(!address("10.1.2.3", 32).is_shared());
        assert!(address("fd00::1", 64).is_shared());
    }

    #[test]
    fn priorities_are_told_by_number() {
        let texts = [0, 0b1000, 0b1_1000, 0xff].map(|bits| Priorities(bits).to_string());
        assert_eq!(texts, ["none", "3", "3, 4", "all"]);
    }
}
