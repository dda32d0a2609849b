//! What all rules on one node say together.

use crate::judge::{Said, inspect};
use crate::model::testing::pcie::flat;
use crate::model::testing::{facts, gid, port};
use crate::model::*;
use proptest::prelude::*;

fn netdev(name: &str, mtu: u32, address: Subnetwork) -> Fact<Netdev> {
    let mut netdev = Netdev {
        name: name.into(),
        mtu: Fact::known(mtu, "mtu"),
        ..Netdev::default()
    };
    netdev.settings.addresses = Fact::known(vec![address], "getifaddrs");
    netdev.settings.arp.ignore = Fact::known(0, "arp_ignore");
    Fact::known(netdev, "ndevs")
}

fn address(ip: &str, prefix_len: u8) -> Subnetwork {
    Subnetwork {
        ip: ip.parse().unwrap(),
        prefix_len,
    }
}

/// A guest with software RDMA on two rails, as the lab's are.
fn guest() -> NodeFacts {
    let on = |name: &str, ip: &str| Port {
        lanes: Fact::unknown("software RDMA has no lanes"),
        netdev: netdev(name, 4200, address(ip, 24)),
        gids: vec![gid(1, &format!("::ffff:{ip}"), GidType::RoceV2, 24)],
        ..port()
    };
    let mut facts = facts(vec![
        ("rxe0", "0000:00:03.0", on("eth1", "10.100.0.1")),
        ("rxe1", "0000:00:04.0", on("eth2", "10.101.0.1")),
    ]);
    if let Fact::Known { value, .. } = &mut facts.rdma {
        for device in value {
            device.software = Some(SoftwareRdma::Rxe);
        }
    }
    let mut tree = flat(&["0000:00:03.0", "0000:00:04.0"]);
    tree.virtual_machine = Fact::known(true, "/proc/cpuinfo");
    facts.pcie = Fact::known(tree, "/sys/bus/pci/devices");
    facts.routing.routes = Fact::known(
        ["10.100.0.0", "10.101.0.0"]
            .into_iter()
            .zip(["eth1", "eth2"])
            .map(|(to, interface)| SubnetRoute {
                to: address(to, 24),
                interface: interface.into(),
                metric: 0,
                gateway: None,
            })
            .collect(),
        "/proc/net/route",
    );
    facts
}

#[test]
fn a_healthy_guest_with_software_rdma_has_nothing_to_say() {
    let said = inspect(&NodeName::from("node01"), &guest());
    assert_eq!(said, Said::default());
}

#[test]
fn a_port_that_nobody_uses_may_be_down() {
    let mut facts = guest();
    if let Fact::Known { value, .. } = &mut facts.rdma {
        let mut unused = value[1].clone();
        unused.name = "rxe2".into();
        unused.ports[0].state = Fact::known(PortState::Down, "state");
        unused.ports[0].physical_state = Fact::known("Disabled".into(), "phys_state");
        unused.ports[0].gids.clear();
        value.push(unused);
    }
    assert_eq!(inspect(&NodeName::from("node01"), &facts), Said::default());
}

proptest! {
    #[test]
    fn whatever_a_node_says_of_its_nics_is_judged(
        name in "[a-z0-9_]{0,8}",
        (mtu, active) in any::<(u32, u32)>(),
        (rate, count) in any::<(f64, u8)>(),
        (v4, v6, len) in any::<(u32, u128, u8)>(),
        (metric, hardware, pfc) in any::<(u32, bool, u8)>(),
    ) {
        let mut facts = guest();
        if let Fact::Known { value, .. } = &mut facts.rdma {
            for device in value.iter_mut() {
                device.software = (!hardware).then_some(SoftwareRdma::Rxe);
                device.identity.board_id = Fact::known("board".into(), "board_id");
                let port = &mut device.ports[0];
                port.active_mtu = Fact::known(active, "ibv_query_port");
                port.rate = Fact::known(Gbps(rate), "rate");
                port.lanes = Fact::known(Lanes { count, speed: None }, "rate");
                let ip = Subnetwork { ip: std::net::Ipv4Addr::from(v4).into(), prefix_len: len };
                port.netdev = netdev(&device.name, mtu, ip);
                if let Fact::Known { value, .. } = &mut port.netdev {
                    value.settings.lossless.pfc = Fact::known(Priorities(pfc), "DCB");
                }
            }
            value[0].name = name.clone();
            value[1].name = format!("{name}0");
        }
        let to = Subnetwork { ip: std::net::Ipv6Addr::from(v6).into(), prefix_len: len };
        let route = |interface: &str| SubnetRoute { to, interface: interface.into(), metric, gateway: None };
        facts.routing.routes = Fact::known(vec![route("rxe0"), route("rxe1")], "route");
        facts.routing.source_rules = Fact::known(vec![to], "ip rule");
        let said = inspect(&NodeName::from("node01"), &facts);
        for finding in said.findings {
            let finite = |number: Option<f64>| number.is_none_or(f64::is_finite);
            prop_assert!(finite(finding.ratio) && finite(finding.expected.map(|e| e.0)), "{finding:?}");
        }
    }
}
