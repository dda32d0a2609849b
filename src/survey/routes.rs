//! Routes to subnets, from /proc/net/route and /proc/net/ipv6_route.
//!
//! Forms: fib_route_seq_show in net/ipv4/fib_trie.c (the main table) and ipv6_route_native_seq_show
//! in net/ipv6/ip6_fib.c of the Linux kernel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::root::{ReadError, Root};
use super::{Survey, parse};
use crate::model::{Fact, Routing, SubnetRoute, Subnetwork};

/// The most routes kept. Two to the same subnet are near the front wherever subnets are few.
const MAX_ROUTES: usize = 512;

/// The node's routes and rules.
pub(super) fn routing(survey: &Survey<'_>) -> Routing {
    Routing {
        routes: routes(survey.root),
        source_rules: survey.kernel.source_rules(),
    }
}

fn routes(root: &Root) -> Fact<Vec<SubnetRoute>> {
    let (v4, v6) = (
        root.path("proc/net/route"),
        root.path("proc/net/ipv6_route"),
    );
    let mut routes: Vec<_> = match root.read(&v4) {
        Ok(text) => text.lines().skip(1).filter_map(ipv4).collect(),
        Err(error) => return Fact::unknown(error.to_string()),
    };
    match root.read(&v6) {
        Ok(text) => routes.extend(text.lines().filter_map(ipv6)),
        // A node without IPv6 has no such file, or an empty one.
        Err(error) if error.is_absent() || matches!(error, ReadError::Empty(_)) => {}
        Err(error) => return Fact::unknown(error.to_string()),
    }
    routes.truncate(MAX_ROUTES);
    Fact::known(routes, format!("{}, {}", v4.display(), v6.display()))
}

/// Interface, destination, gateway, flags, references, use, metric, mask, …: addresses are the
/// bytes in network order, printed as one number of this machine.
fn ipv4(line: &str) -> Option<SubnetRoute> {
    const UP: u32 = 0x1;
    const REJECT: u32 = 0x200;
    let fields: Vec<_> = line.split_whitespace().collect();
    let [interface, to, gateway, flags, _, _, metric, mask, ..] = fields[..] else {
        return None;
    };
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let address = |text: &str| Some(Ipv4Addr::from(number(text)?.to_ne_bytes()));
    let flags = number(flags)?;
    if flags & UP == 0 || flags & REJECT != 0 {
        return None;
    }
    let mask = address(mask)?.to_bits();
    kept(SubnetRoute {
        to: Subnetwork {
            ip: address(to)?.into(),
            prefix_len: u8::try_from(mask.leading_ones()).ok()?,
        },
        interface: parse::interface(interface).ok()?,
        metric: metric.parse().ok()?,
        gateway: address(gateway)
            .filter(|ip| !ip.is_unspecified())
            .map(IpAddr::V4),
    })
}

/// Destination, its prefix, source, its prefix, next hop, metric, references, use, flags, interface:
/// all tables, so that the node's own addresses, which are routes to one host, are among them.
fn ipv6(line: &str) -> Option<SubnetRoute> {
    const REJECT: u32 = 0x200;
    const CACHE: u32 = 0x0100_0000;
    let fields: Vec<_> = line.split_whitespace().collect();
    let [to, len, _, _, hop, metric, _, _, flags, interface] = fields[..] else {
        return None;
    };
    let address = |text: &str| u128::from_str_radix(text, 16).ok().map(Ipv6Addr::from);
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    if number(flags)? & (REJECT | CACHE) != 0 {
        return None;
    }
    kept(SubnetRoute {
        to: Subnetwork {
            ip: address(to)?.into(),
            prefix_len: u8::from_str_radix(len, 16).ok()?,
        },
        interface: parse::interface(interface).ok()?,
        metric: number(metric)?,
        gateway: address(hop)
            .filter(|ip| !ip.is_unspecified())
            .map(IpAddr::V6),
    })
}

/// Routes to one host, to everything, and those that each interface has (link-local, multicast)
/// are not about a subnet.
fn kept(route: SubnetRoute) -> Option<SubnetRoute> {
    let own = match route.to.ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_multicast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local() || ip.is_multicast(),
    };
    let subnet = route.to.is_shared() && route.to.prefix_len > 0;
    (subnet && !own && route.interface != "lo").then_some(route)
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;
    use proptest::prelude::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn both_families_are_read() {
        let tree = Tree::new();
        tree.file(
            "proc/net/route",
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
             eth0\t00000000\t0202000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
             eth1\t0000650A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
             eth2\t0000650A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
             eth1\t0000FEA9\t00000000\t0001\t0\t0\t1000\t0000FFFF\t0\t0\t0\n",
        )
        .file(
            "proc/net/ipv6_route",
            "fd000065000000000000000000000000 40 00000000000000000000000000000000 00 \
             00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth1\n\
             fe800000000000000000000000000000 40 00000000000000000000000000000000 00 \
             00000000000000000000000000000000 00000100 00000002 00000000 00000001     eth1\n\
             fd000065000000000000000000000001 80 00000000000000000000000000000000 00 \
             00000000000000000000000000000000 00000000 00000002 00000000 80200001     eth1\n",
        );
        let routes = routes(&tree.root());
        let told: Vec<_> = routes
            .value()
            .unwrap()
            .iter()
            .map(|route| format!("{} {} {}", route.to, route.interface, route.metric))
            .collect();
        assert_eq!(
            told,
            [
                "10.101.0.0/16 eth1 0",
                "10.101.0.0/16 eth2 0",
                "fd00:65::/64 eth1 256"
            ]
        );
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_left_out(line in any::<String>(), fields in proptest::collection::vec("[0-9a-f]{0,33}", 0..12)) {
            let _ = (ipv4(&line), ipv6(&line));
            let line = fields.join(" ");
            let _ = (ipv4(&line), ipv6(&line));
        }
    }
}
