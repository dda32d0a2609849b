//! Two RoCE interfaces of a node in one subnet, each answering for the other's address.

use std::collections::{BTreeMap, BTreeSet};

use super::Said;
use crate::judge::NodeView;
use crate::judge::rules::{About, plain};
use crate::model::{Evidence, Fact, Finding, LinkLayer, Netdev, Rule, Severity, Subnetwork};

pub(super) const ABOUT: About = About {
    rule: Rule::ArpFlux,
    means: "Two or more RDMA interfaces of a node are in one IPv4 subnet, and Linux answers ARP for any of \
            its addresses on any interface. A peer may then learn the wrong NIC's MAC address: RoCE packets \
            arrive at a NIC that has not this GID and are dropped (error 12), and TCP of all of them \
            comes in through one.",
    detected: "The addresses of the interfaces behind the RDMA ports (getifaddrs), and \
               /proc/sys/net/ipv4/conf/{all,X}/arp_ignore, of which the greater is in force. Told where it is \
               0. Cannot be told where addresses or settings are unknown, as below a snapshot.",
    remedy: "Put each rail into a subnet of its own; or set net.ipv4.conf.all.arp_ignore=1 and \
             arp_announce=2, and give each address a routing table of its own (ip rule from ADDRESS).",
};

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let netdevs = roce_netdevs(node);
    if netdevs.len() < 2 {
        return;
    }
    if let Some(why) = netdevs
        .iter()
        .find_map(|n| n.settings.addresses.why_unknown())
    {
        let why = format!("the addresses of its interfaces are unknown: {why}");
        return said.cannot_tell(Rule::ArpFlux, node.subject(), why);
    }
    for (subnet, members) in shared(&netdevs) {
        let settings = members
            .iter()
            .map(|(netdev, _)| &netdev.settings.arp.ignore);
        match in_flux(settings) {
            Ok(false) => {}
            Ok(true) => said.findings.push(flux(node, subnet, &members)),
            Err(why) => said.cannot_tell(
                Rule::ArpFlux,
                node.subject(),
                format!("interfaces share {subnet}, and arp_ignore is unknown: {why}"),
            ),
        }
    }
}

/// The interfaces behind the RoCE ports that count, each once.
pub(super) fn roce_netdevs<'a>(node: &NodeView<'a>) -> Vec<&'a Netdev> {
    let ethernet = |nic: &&crate::judge::NicView<'_>| {
        nic.is_active() && nic.port.link_layer.value() == Some(&LinkLayer::Ethernet)
    };
    let nics = node.nics.iter().filter(ethernet);
    let netdevs = nics.filter_map(|nic| nic.port.netdev.value());
    let mut seen = BTreeSet::new();
    netdevs.filter(|netdev| seen.insert(&netdev.name)).collect()
}

/// An interface and its address in a subnet.
type Member<'a> = (&'a Netdev, Subnetwork);

/// The IPv4 subnets that two or more of the interfaces have an address in.
fn shared<'a>(netdevs: &[&'a Netdev]) -> BTreeMap<Subnetwork, Vec<Member<'a>>> {
    let mut subnets: BTreeMap<Subnetwork, Vec<Member<'a>>> = BTreeMap::new();
    for netdev in netdevs {
        let addresses = netdev.settings.addresses.value().into_iter().flatten();
        for address in addresses.filter(|a| a.ip.is_ipv4() && a.is_shared()) {
            let Some(subnet) = address.network() else {
                continue;
            };
            let members = subnets.entry(subnet).or_default();
            if members.iter().all(|(other, _)| other.name != netdev.name) {
                members.push((netdev, *address));
            }
        }
    }
    subnets.retain(|_, members| members.len() > 1);
    subnets
}

/// The subnets in which the node's interfaces answer for each other.
pub(super) fn subnets(node: &NodeView<'_>) -> Vec<Subnetwork> {
    let netdevs = roce_netdevs(node);
    let told = shared(&netdevs).into_iter().filter(|(_, members)| {
        let settings = members
            .iter()
            .map(|(netdev, _)| &netdev.settings.arp.ignore);
        in_flux(settings) == Ok(true)
    });
    told.map(|(subnet, _)| subnet).collect()
}

fn in_flux<'a>(settings: impl Iterator<Item = &'a Fact<u8>>) -> Result<bool, String> {
    let mut unknown = None;
    for setting in settings {
        match setting {
            Fact::Known { value: 0, .. } => return Ok(true),
            Fact::Known { .. } => {}
            Fact::Unknown { why } => unknown = Some(why.to_string()),
        }
    }
    unknown.map_or(Ok(false), Err)
}

fn flux(node: &NodeView<'_>, subnet: Subnetwork, members: &[Member<'_>]) -> Finding {
    const TOLD: usize = 8;
    let names: Vec<_> = members
        .iter()
        .map(|(netdev, _)| netdev.name.as_str())
        .collect();
    let evidence = members.iter().take(TOLD).map(|(netdev, address)| {
        let ignore = &netdev.settings.arp.ignore;
        let value = ignore.value().map_or("unknown".into(), u8::to_string);
        Evidence {
            saw: format!("{} has {address}, arp_ignore {value}", netdev.name),
            from: ignore.source().unwrap_or("getifaddrs").to_owned(),
        }
    });
    plain(
        Rule::ArpFlux,
        Severity::Warning,
        node.subject(),
        format!(
            "{} of {} are all in {subnet}, and each answers ARP for the others' addresses: what is sent to one \
             NIC may arrive at another.",
            names.join(", "),
            node.name
        ),
        evidence.collect(),
        REMEDY,
    )
}

const REMEDY: &str = "Put each rail into a subnet of its own; or `sysctl -w net.ipv4.conf.all.arp_ignore=1 \
                      net.ipv4.conf.all.arp_announce=2 net.ipv4.conf.all.rp_filter=2`, and a rule and a table for \
                      each address (`ip rule add from ADDRESS lookup TABLE`), so that what is sent leaves by its \
                      own NIC too.";

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::judge::inspect;
    use crate::model::testing::{facts, port};
    use crate::model::{NodeFacts, NodeName, Port};

    /// Two NICs with an interface each: an address, and arp_ignore.
    pub fn node(addresses: [&str; 2], arp_ignore: Fact<u8>) -> NodeFacts {
        let with = |name: &str, address: &str| {
            let (ip, len) = address.split_once('/').unwrap();
            let mut netdev = Netdev {
                name: name.into(),
                ..Netdev::default()
            };
            let address = Subnetwork {
                ip: ip.parse().unwrap(),
                prefix_len: len.parse().unwrap(),
            };
            netdev.settings.addresses = Fact::known(vec![address], "getifaddrs");
            netdev.settings.arp.ignore = arp_ignore.clone();
            Port {
                netdev: Fact::known(netdev, "ndevs"),
                ..port()
            }
        };
        facts(vec![
            ("mlx5_0", "0000:01:00.0", with("eth1", addresses[0])),
            ("mlx5_1", "0000:02:00.0", with("eth2", addresses[1])),
        ])
    }

    fn told(facts: &NodeFacts) -> Said {
        let mut said = inspect(&NodeName::from("node01"), facts);
        said.findings.retain(|f| f.rule == Rule::ArpFlux);
        said.cannot_tell.retain(|c| c.rule == Rule::ArpFlux);
        said
    }

    fn zero() -> Fact<u8> {
        Fact::known(0, "/proc/sys/net/ipv4/conf/eth1/arp_ignore")
    }

    #[test]
    fn two_nics_in_one_subnet_are_warned_of() {
        let said = told(&node(["10.0.0.1/24", "10.0.0.2/24"], zero()));
        let finding = &said.findings[0];
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.says,
            "eth1, eth2 of node01 are all in 10.0.0.0/24, and each answers ARP for the others' addresses: what \
             is sent to one NIC may arrive at another."
        );
        assert_eq!(
            finding.evidence[1].saw,
            "eth2 has 10.0.0.2/24, arp_ignore 0"
        );
    }

    #[test]
    fn what_is_apart_or_set_rightly_is_not_mentioned() {
        for (addresses, ignore) in [
            (["10.0.0.1/24", "10.0.1.1/24"], zero()),
            (["10.0.0.0/31", "10.0.0.2/31"], zero()),
            (["10.0.0.1/32", "10.0.0.2/32"], zero()),
            (["10.0.0.1/24", "10.0.0.2/24"], Fact::known(1, "arp_ignore")),
            // IPv6 asks by multicast, and only the owner hears it.
            (["fd00::1/64", "fd00::2/64"], zero()),
        ] {
            assert_eq!(
                told(&node(addresses, ignore)),
                Said::default(),
                "{addresses:?}"
            );
        }
    }

    #[test]
    fn unknown_settings_are_said_to_be_unknown() {
        let facts = node(["10.0.0.1/24", "10.0.0.2/24"], Fact::unknown("no /proc"));
        let said = told(&facts);
        assert!(said.findings.is_empty());
        assert!(said.cannot_tell[0].why.contains("arp_ignore is unknown"));
        // One NIC has nobody to answer for.
        let mut facts = facts;
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value.pop();
        }
        assert_eq!(told(&facts), Said::default());
    }
}
