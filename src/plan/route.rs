//! Chooses the GIDs of a pair of ports by reachability and type, never by a fixed index: the same
//! index means different addresses on different nodes.

use std::cmp::Reverse;

use ipnet::IpNet;

use crate::model::{GidEntry, GidType, LinkLayer, Port, PortAddress, PortState, Role, Route};

/// Why two ports cannot talk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRoute {
    /// A port is known not to carry traffic.
    #[error("the {} port is {state}{physical}, not ACTIVE", whose(*.role))]
    PortNotActive {
        /// Whose port it is.
        role: Role,
        /// Its logical state.
        state: PortState,
        /// Its physical state in parentheses, where known.
        physical: String,
    },
    /// One speaks InfiniBand, the other Ethernet.
    #[error("the sender's link layer is {from}, the receiver's {to}")]
    LinkLayers {
        /// The sender's.
        from: LinkLayer,
        /// The receiver's.
        to: LinkLayer,
    },
    /// No two entries of their GID tables reach each other.
    #[error(
        "no GID of the sender ({from}) reaches one of the receiver ({to}): RoCEv2 needs addresses of one family on both"
    )]
    NoCommonGid {
        /// The sender's GIDs.
        from: String,
        /// The receiver's GIDs.
        to: String,
    },
}

/// The best pair of GIDs between two ports.
///
/// On InfiniBand the first GIDs of both. On Ethernet two of the same type and address family, in
/// this order: RoCEv2 before v1; in one subnet before merely routable; routable before link-local;
/// IPv4 before IPv6 (20 bytes of header less); then the lowest indexes.
///
/// # Errors
/// [`NoRoute`] says which port cannot be reached, and why.
pub fn route(from: &Port, to: &Port) -> Result<Route, NoRoute> {
    check_state(Role::Initiator, from)?;
    check_state(Role::Target, to)?;
    let layers = (from.link_layer.value(), to.link_layer.value());
    if let (Some(a), Some(b)) = layers
        && a != b
    {
        return Err(NoRoute::LinkLayers { from: *a, to: *b });
    }
    let infiniband = layers.0 == Some(&LinkLayer::InfiniBand);
    from.gids
        .iter()
        .flat_map(|a| to.gids.iter().map(move |b| (a, b)))
        .filter_map(|(a, b)| Some((rank(a, b, infiniband)?, a, b)))
        .max_by_key(|(rank, a, b)| (*rank, Reverse((a.index, b.index))))
        .map(|(_, a, b)| Route {
            from: address(a),
            to: address(b),
        })
        .ok_or_else(|| NoRoute::NoCommonGid {
            from: list(from),
            to: list(to),
        })
}

/// Whether a port carries traffic at all, as far as is known; unlike a route it takes no partner.
///
/// # Errors
/// [`NoRoute::PortNotActive`].
pub fn carries_traffic(port: &Port) -> Result<(), NoRoute> {
    check_state(Role::Initiator, port)
}

fn whose(role: Role) -> &'static str {
    match role {
        Role::Initiator => "sender's",
        Role::Target => "receiver's",
    }
}

fn check_state(role: Role, port: &Port) -> Result<(), NoRoute> {
    match port.state.value() {
        None | Some(PortState::Active | PortState::ActiveDefer) => Ok(()),
        Some(state) => {
            let physical = port.physical_state.value();
            let physical = physical
                .map(|word| format!(" ({word})"))
                .unwrap_or_default();
            Err(NoRoute::PortNotActive {
                role,
                state: *state,
                physical,
            })
        }
    }
}

/// How good two GIDs are together; `None` where they cannot reach each other.
fn rank(a: &GidEntry, b: &GidEntry, infiniband: bool) -> Option<u8> {
    if infiniband {
        return Some(0);
    }
    let (kind, other) = (a.kind.value()?, b.kind.value()?);
    let same_family = a.gid.ipv4().is_some() == b.gid.ipv4().is_some();
    let same_scope = a.gid.is_link_local() == b.gid.is_link_local();
    if kind != other || !same_family || !same_scope {
        return None;
    }
    let v2 = *kind == GidType::RoceV2;
    let routable = !a.gid.is_link_local();
    let one_subnet = routable && (subnet_holds(a, b) || subnet_holds(b, a));
    let bit = |yes: bool, weight: u8| if yes { weight } else { 0 };
    Some(bit(v2, 8) + bit(one_subnet, 4) + bit(routable, 2) + bit(a.gid.ipv4().is_some(), 1))
}

fn subnet_holds(a: &GidEntry, b: &GidEntry) -> bool {
    let subnet = |len: &u8| IpNet::new(a.gid.ip(), *len).ok();
    let subnet = a.prefix_len.value().and_then(subnet);
    subnet.is_some_and(|subnet| subnet.contains(&b.gid.ip()))
}

fn address(entry: &GidEntry) -> PortAddress {
    PortAddress {
        gid_index: entry.index,
        gid: entry.gid,
    }
}

fn list(port: &Port) -> String {
    let gids: Vec<_> = port
        .gids
        .iter()
        .take(8)
        .map(|entry| entry.gid.to_string())
        .collect();
    if gids.is_empty() {
        "its GID table is empty".into()
    } else {
        gids.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::{gid, port};
    use crate::model::{Fact, LinkLayer};

    fn with(gids: Vec<GidEntry>) -> Port {
        Port { gids, ..port() }
    }

    fn indexes(route: Route) -> (u32, u32) {
        (route.from.gid_index, route.to.gid_index)
    }

    #[test]
    fn the_index_may_differ_between_nodes() {
        use GidType::{IbOrRoceV1, RoceV2};
        let from = with(vec![
            gid(0, "fe80::1", IbOrRoceV1, 64),
            gid(1, "fe80::1", RoceV2, 64),
            gid(3, "::ffff:10.1.0.1", RoceV2, 16),
        ]);
        let to = with(vec![
            gid(1, "::ffff:172.17.0.1", RoceV2, 16),
            gid(2, "::ffff:10.1.0.2", IbOrRoceV1, 16),
            gid(5, "::ffff:10.1.0.2", RoceV2, 16),
        ]);
        assert_eq!(indexes(route(&from, &to).unwrap()), (3, 5));
    }

    #[test]
    fn ipv6_alone_will_do() {
        let from = with(vec![
            gid(0, "fe80::1", GidType::RoceV2, 64),
            gid(1, "fd00:1::1", GidType::RoceV2, 64),
        ]);
        let to = with(vec![gid(4, "fd00:1::2", GidType::RoceV2, 64)]);
        assert_eq!(indexes(route(&from, &to).unwrap()), (1, 4));
    }

    #[test]
    fn families_do_not_mix() {
        let from = with(vec![gid(0, "::ffff:10.1.0.1", GidType::RoceV2, 16)]);
        let to = with(vec![gid(0, "fd00:1::2", GidType::RoceV2, 64)]);
        let error = route(&from, &to).unwrap_err().to_string();
        assert!(
            error.contains("::ffff:10.1.0.1") && error.contains("fd00:1::2"),
            "{error}"
        );
    }

    #[test]
    fn infiniband_uses_the_first_gids_and_not_with_ethernet() {
        let ib = Port {
            link_layer: Fact::known(LinkLayer::InfiniBand, "test"),
            ..with(vec![
                gid(0, "fe80::a", GidType::IbOrRoceV1, 64),
                gid(1, "fe80::b", GidType::IbOrRoceV1, 64),
            ])
        };
        assert_eq!(indexes(route(&ib, &ib).unwrap()), (0, 0));
        let ethernet = with(vec![gid(0, "fe80::a", GidType::RoceV2, 64)]);
        assert!(matches!(
            route(&ib, &ethernet),
            Err(NoRoute::LinkLayers { .. })
        ));
    }

    #[test]
    fn a_port_that_is_down_is_named() {
        let down = Port {
            state: Fact::known(PortState::Down, "test"),
            physical_state: Fact::known("Disabled".into(), "test"),
            ..with(vec![gid(0, "::ffff:10.1.0.1", GidType::RoceV2, 16)])
        };
        let up = with(vec![gid(0, "::ffff:10.1.0.2", GidType::RoceV2, 16)]);
        assert_eq!(
            route(&up, &down).unwrap_err().to_string(),
            "the receiver's port is DOWN (Disabled), not ACTIVE"
        );
    }
}
