//! Matches each node's NICs to rails by the operator's rule.

use ipnet::IpNet;
use wildmatch::WildMatch;

use crate::model::{Fact, NicId, NodeFacts, NodeName, Port, Rail, RailNic, RailRule, RdmaDevice};

/// The NIC of each rail on each node, or why there is none. Rails are numbered from 0; for a rule
/// without a list (PCI order) there are as many as the best-equipped node has active ports.
pub fn resolve_rails(rule: &RailRule, nodes: &[(NodeName, &NodeFacts)]) -> Vec<RailNic> {
    let rails = match rule {
        RailRule::Device { names } | RailRule::Netdev { names } => names.len(),
        RailRule::Subnet { subnets } => subnets.len(),
        RailRule::Pci => nodes
            .iter()
            .map(|(_, facts)| by_pci(facts).len())
            .max()
            .unwrap_or(0),
    };
    let of_node = |(node, facts): &(NodeName, &NodeFacts)| {
        let node = node.clone();
        let by_pci = match rule {
            RailRule::Pci => by_pci(facts),
            _ => Vec::new(),
        };
        let nics = (0..rails)
            .map(|rail| find(rule, rail, &node, facts, &by_pci))
            .collect::<Vec<_>>();
        nics.into_iter()
            .enumerate()
            .map(move |(rail, nic)| RailNic {
                node: node.clone(),
                rail: Rail(rail as u16),
                nic,
            })
    };
    nodes.iter().flat_map(of_node).collect()
}

fn ports(facts: &NodeFacts) -> impl Iterator<Item = (&RdmaDevice, &Port)> {
    let devices = facts.rdma.value().map(Vec::as_slice).unwrap_or_default();
    devices
        .iter()
        .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
}

fn find(
    rule: &RailRule,
    rail: usize,
    node: &NodeName,
    facts: &NodeFacts,
    by_pci: &[(&RdmaDevice, &Port)],
) -> Fact<NicId> {
    if let Some(why) = facts.rdma.why_unknown() {
        return Fact::unknown(format!("{node} has no RDMA device: {why}"));
    }
    if ports(facts).next().is_none() {
        return Fact::unknown(format!("{node} has no RDMA device"));
    }
    let (wanted, mut found): (String, Vec<_>) = match rule {
        RailRule::Device { names } => {
            let fits = |(device, _): &(&RdmaDevice, &Port)| matches(&names[rail], &device.name);
            (
                format!("RDMA device `{}`", names[rail]),
                ports(facts).filter(fits).collect(),
            )
        }
        RailRule::Netdev { names } => {
            let fits = |(_, port): &(&RdmaDevice, &Port)| {
                port.netdev
                    .value()
                    .is_some_and(|netdev| matches(&names[rail], &netdev.name))
            };
            (
                format!("RDMA port on interface `{}`", names[rail]),
                ports(facts).filter(fits).collect(),
            )
        }
        RailRule::Subnet { subnets } => {
            let fits = |(_, port): &(&RdmaDevice, &Port)| in_subnet(port, &subnets[rail]);
            (
                format!("RDMA port with an address in {}", subnets[rail]),
                ports(facts).filter(fits).collect(),
            )
        }
        RailRule::Pci => {
            let nth = by_pci.get(rail).copied();
            (
                format!("active RDMA port number {rail} in PCI order"),
                nth.into_iter().collect(),
            )
        }
    };
    match (found.pop(), found.is_empty()) {
        (Some((device, port)), true) => {
            let nic = NicId {
                node: node.clone(),
                device: device.name.as_str().into(),
                port: port.number,
            };
            Fact::known(nic, format!("the {wanted}"))
        }
        (None, _) => Fact::unknown(format!("{node} has no {wanted}; it has {}", list(facts))),
        (Some(last), false) => {
            found.push(last);
            let names: Vec<_> = found
                .iter()
                .map(|(device, _)| device.name.as_str())
                .collect();
            Fact::unknown(format!(
                "{node} has more than one {wanted}: {}",
                names.join(", ")
            ))
        }
    }
}

/// Ports with a link, in the order of their PCI functions. Those without a known function are left
/// out: their order would be chance.
fn by_pci(facts: &NodeFacts) -> Vec<(&RdmaDevice, &Port)> {
    let mut found: Vec<_> = ports(facts)
        .filter(|(device, port)| device.pci.value().is_some() && is_up(port))
        .collect();
    found.sort_by_cached_key(|(device, port)| (device.pci.value().map(pci_order), port.number));
    found
}

/// PCI addresses sort by number, not by text: domains have four digits or more.
fn pci_order(address: &crate::model::PciAddress) -> Vec<u64> {
    address
        .0
        .split([':', '.'])
        .map(|part| u64::from_str_radix(part, 16).unwrap_or(u64::MAX))
        .collect()
}

fn is_up(port: &Port) -> bool {
    use crate::model::PortState::{Active, ActiveDefer};
    matches!(port.state.value(), Some(Active | ActiveDefer))
}

/// What there is instead, for a message.
fn list(facts: &NodeFacts) -> String {
    let name = |(device, port): (&RdmaDevice, &Port)| match port.netdev.value() {
        Some(netdev) => format!("{} ({})", device.name, netdev.name),
        None => device.name.clone(),
    };
    ports(facts).map(name).collect::<Vec<_>>().join(", ")
}

fn in_subnet(port: &Port, subnet: &str) -> bool {
    let Ok(subnet) = subnet.parse::<IpNet>() else {
        return false;
    };
    let mut gids = port.gids.iter().filter(|entry| !entry.gid.is_link_local());
    gids.any(|entry| subnet.contains(&entry.gid.ip()))
}

/// Whether `name` matches a pattern with `*` (any characters) and `?` (one). Without either it must
/// be equal: `mlx5_1` is not `mlx5_11`.
fn matches(pattern: &str, name: &str) -> bool {
    // Most have neither, and to make a matcher takes longer than to match.
    if !pattern.contains(['*', '?']) {
        return pattern == name;
    }
    WildMatch::new(pattern).matches(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::{facts, gid, port};

    fn names(rule: &RailRule, devices: &[(&str, &str)]) -> Vec<Result<String, String>> {
        let facts = facts(
            devices
                .iter()
                .map(|(name, pci)| (*name, *pci, port()))
                .collect(),
        );
        resolve_rails(rule, &[("n1".into(), &facts)])
            .into_iter()
            .map(|rail| match rail.nic {
                Fact::Known { value, .. } => Ok(value.device.to_string()),
                Fact::Unknown { why } => Err(why.to_string()),
            })
            .collect()
    }

    #[test]
    fn a_name_is_not_a_prefix() {
        let rule = RailRule::Device {
            names: vec!["mlx5_1".into(), "mlx5_11".into(), "mlx5_2".into()],
        };
        let got = names(
            &rule,
            &[("mlx5_1", "0000:01:00.0"), ("mlx5_11", "0000:02:00.0")],
        );
        assert_eq!(got[..2], [Ok("mlx5_1".into()), Ok("mlx5_11".into())]);
        let why = got[2].clone().unwrap_err();
        assert!(
            why.contains("no RDMA device `mlx5_2`") && why.contains("it has mlx5_1"),
            "{why}"
        );
    }

    #[test]
    fn an_ambiguous_pattern_is_not_guessed() {
        let rule = RailRule::Device {
            names: vec!["mlx5_*".into()],
        };
        let got = names(
            &rule,
            &[("mlx5_0", "0000:01:00.0"), ("mlx5_1", "0000:02:00.0")],
        );
        assert!(
            got[0].clone().unwrap_err().contains("more than one"),
            "{got:?}"
        );
    }

    #[test]
    fn pci_order_is_by_number() {
        let got = names(
            &RailRule::Pci,
            &[
                ("c", "10000:01:00.0"),
                ("b", "0000:97:00.0"),
                ("a", "0000:1a:00.1"),
                ("d", "0000:1a:00.0"),
            ],
        );
        let expected: Vec<Result<String, String>> = ["d", "a", "b", "c"]
            .map(|name| Ok(name.to_owned()))
            .to_vec();
        assert_eq!(got, expected);
    }

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("mlx5_?", "mlx5_3", true),
            ("mlx5_?", "mlx5_11", false),
            ("rocep*s0f0", "rocep97s0f0", true),
            ("*", "", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_subnet_finds_the_nic_that_has_an_address_in_it() {
        use crate::model::GidType::RoceV2;
        let with = |address: &str| Port {
            gids: vec![gid(0, "fe80::1", RoceV2, 64), gid(1, address, RoceV2, 16)],
            ..port()
        };
        let facts = facts(vec![
            ("a", "0000:01:00.0", with("::ffff:10.102.0.1")),
            ("b", "0000:02:00.0", with("::ffff:10.101.3.4")),
        ]);
        let subnets = vec![
            "10.101.0.0/16".into(),
            "10.102.0.0/16".into(),
            "fe80::/10".into(),
        ];
        let found = resolve_rails(&RailRule::Subnet { subnets }, &[("n1".into(), &facts)]);
        let devices: Vec<_> = found
            .iter()
            .map(|r| r.nic.value().map(|nic| nic.device.as_str()))
            .collect();
        // Every port has a link-local address: that tells nothing of rails.
        assert_eq!(devices, [Some("b"), Some("a"), None]);
    }
}
