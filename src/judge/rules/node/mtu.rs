//! A port whose RDMA packets are smaller than the 4096 bytes they could be.

use super::Said;
use crate::judge::rules::{About, plain};
use crate::judge::{NicView, NodeView, efficiency};
use crate::model::{
    Evidence, Fact, Finding, Gbps, Gid, GidType, LinkLayer, Netdev, Port, Rule, Severity,
};

pub(super) const ABOUT: About = About {
    rule: Rule::Mtu,
    means: "The port sends RDMA packets of less than 4096 bytes, so that more of its line is spent on \
            packet headers: at 1024 bytes, which is what a network interface at MTU 1500 leaves, about 5 % \
            of a RoCE line, and the NIC has four times as many packets to process.",
    detected: "active_mtu of ibv_query_port, and on Ethernet the MTU of the network interface behind the \
               port (/sys/class/net/X/mtu): RDMA takes the largest of 256, 512, 1024, 2048 and 4096 bytes \
               that fits in it beside up to 96 bytes of headers. A fault where it costs 5 % of a known line \
               rate or more, a warning from 1 % on, a note below that. Cannot be told where both are unknown. \
               What the NIC is capable of at most is not looked at.",
    remedy: "On Ethernet set the MTU of the interface, its bond or VLAN and of the switch ports to 4200 or \
             more (9000 is usual), on every node alike; on InfiniBand let the subnet manager give the \
             partition an MTU of 4096.",
};

/// The largest RDMA MTU in bytes (InfiniBand Architecture Specification, vol. 1, PortInfo:NeighborMTU).
const LARGEST: u32 = 4096;

/// The most that Linux sets aside for headers in a network interface's MTU, in bytes: GRH 40, UDP 8,
/// BTH 12, XRC 4, AtomicETH 28, ICRC 4 (`iboe_get_mtu` in include/rdma/ib_addr.h).
const HEADERS: u32 = 96;

/// From this share of the line on, what the headers cost is a fault …
const FAULT_FROM: f64 = 0.05;

/// … and from this on a warning.
const WARN_FROM: f64 = 0.01;

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    for nic in &node.nics {
        // A port that is down sends nothing; iWARP cuts its packets as TCP does.
        let infiniband = nic.port.link_layer.value() == Some(&LinkLayer::InfiniBand);
        let unknown = nic.port.link_layer.value().is_none();
        if !nic.is_active() || !(infiniband || unknown || nic.is_roce()) {
            continue;
        }
        match runs_at(nic.port) {
            Ok(seen) => said.findings.extend(small(nic, &seen)),
            Err(why) => said.cannot_tell(Rule::Mtu, nic.subject(None), why),
        }
    }
}

/// The RDMA MTU of a port, and what tells it.
struct Seen<'a> {
    mtu: u32,
    layer: LinkLayer,
    evidence: Vec<Evidence>,
    netdev: Option<(&'a Netdev, u32)>,
}

/// As the port states it, else as its network interface lets it be.
fn runs_at(port: &Port) -> Result<Seen<'_>, String> {
    let layer = match &port.link_layer {
        Fact::Known { value, .. } => *value,
        Fact::Unknown { why } => return Err(format!("the link layer is unknown: {why}")),
    };
    let netdev = (layer == LinkLayer::Ethernet)
        .then(|| port.netdev.value())
        .flatten();
    let netdev_mtu = netdev.and_then(|netdev| Some((netdev, netdev.mtu.value().copied()?)));
    let of_port = port.active_mtu.value().copied();
    let evidence = [
        seen("active_mtu", &port.active_mtu),
        netdev.and_then(|netdev| seen(&format!("MTU of {}", netdev.name), &netdev.mtu)),
    ];
    let mtu = match (of_port, netdev_mtu) {
        (Some(mtu), _) => mtu,
        (None, Some((_, mtu))) => largest_within(mtu),
        (None, None) => {
            let why = port.active_mtu.why_unknown().unwrap_or_default();
            return Err(format!("its RDMA MTU is unknown: {why}"));
        }
    };
    Ok(Seen {
        mtu,
        layer,
        evidence: evidence.into_iter().flatten().collect(),
        netdev: netdev_mtu,
    })
}

fn seen(what: &str, fact: &Fact<u32>) -> Option<Evidence> {
    Some(Evidence {
        saw: format!("{what} {}", fact.value()?),
        from: fact.source()?.to_owned(),
    })
}

/// The RDMA MTU that Linux makes of an interface's MTU, both in bytes; 0 where none fits.
fn largest_within(netdev_mtu: u32) -> u32 {
    let room = netdev_mtu.saturating_sub(HEADERS);
    let sizes = [LARGEST, 2048, 1024, 512, 256];
    sizes.into_iter().find(|size| *size <= room).unwrap_or(0)
}

fn small(nic: &NicView<'_>, seen: &Seen<'_>) -> Option<Finding> {
    if seen.mtu >= LARGEST {
        return None;
    }
    let gid = sends_from(nic.port);
    let share = efficiency(seen.layer, gid, seen.mtu);
    let best = efficiency(seen.layer, gid, LARGEST);
    let lost = best - share;
    let line = nic.line.value().copied();
    let severity = match lost {
        // Where no line rate is known, nothing is known to be missed.
        lost if lost >= FAULT_FROM && line.is_some() => Severity::Fault,
        lost if lost >= WARN_FROM => Severity::Warning,
        _ => Severity::Note,
    };
    let says = format!(
        "{} sends RDMA packets of {} bytes{}, where {LARGEST} are possible: {}.",
        nic.in_words(),
        seen.mtu,
        because(seen),
        cost(lost, line)
    );
    let finding = plain(
        Rule::Mtu,
        severity,
        nic.subject(None),
        says,
        seen.evidence.clone(),
        remedy(seen),
    );
    let expected = line.map(|line| Gbps(line.0 * best));
    Some(Finding {
        expected,
        expected_from: expected.and(Some(format!(
            "line rate {}, {best:.3} of it payload at RDMA MTU {LARGEST}",
            line.unwrap_or(Gbps(0.0))
        ))),
        ratio: Some(share / best),
        ..finding
    })
}

/// The GID that traffic goes out under, as far as its headers' length goes: IPv4 where there is one.
fn sends_from(port: &Port) -> Gid {
    let routable = |entry: &&crate::model::GidEntry| {
        entry.kind.value() == Some(&GidType::RoceV2) && !entry.gid.is_link_local()
    };
    let entries = || port.gids.iter().filter(routable).map(|entry| entry.gid);
    let v4 = entries().find(|gid| gid.ipv4().is_some());
    let unmapped = || Gid::from(std::net::Ipv4Addr::UNSPECIFIED.to_ipv6_mapped());
    v4.or_else(|| entries().next()).unwrap_or_else(unmapped)
}

/// The interface's MTU, where it is what keeps the packets small.
fn because(seen: &Seen<'_>) -> String {
    match seen.netdev {
        Some((netdev, mtu)) if largest_within(mtu) < LARGEST => {
            format!(" because the MTU of {} is {mtu}", netdev.name)
        }
        _ => String::new(),
    }
}

/// What smaller packets cost, as a share of the line and, where that is known, as a rate.
fn cost(lost: f64, line: Option<Gbps>) -> String {
    let percent = lost * 100.0;
    let rate = line.map(|line| Gbps(line.0 * lost));
    match rate {
        Some(rate) => format!("headers cost {percent:.1} % more of the line, {rate}"),
        None => format!("headers cost {percent:.1} % more of the line"),
    }
}

fn remedy(seen: &Seen<'_>) -> String {
    match (seen.layer, seen.netdev) {
        (LinkLayer::Ethernet, Some((netdev, mtu))) if largest_within(mtu) < LARGEST => format!(
            "Set the MTU of {} (and of a bond or VLAN above it) to 4200 or more, 9000 is usual: `ip link set \
             {} mtu 9000`; the switch ports must allow it, and all nodes must agree.",
            netdev.name, netdev.name
        ),
        (LinkLayer::Ethernet, _) => {
            "The MTU of the interface is not what limits it: set it again, or reload the driver, so that the RDMA \
             device takes it up; look at what the NIC is capable of with `ibv_devinfo` (max_mtu)."
                .into()
        }
        (LinkLayer::InfiniBand, _) => {
            "Look at what the port is capable of with `ibv_devinfo` (max_mtu) and at the MTU that the subnet \
             manager gives (`mtu=5` in OpenSM's partitions.conf is 4096)."
                .into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Said, inspect};
    use crate::model::testing::{facts, gid, port};
    use crate::model::{NodeName, RdmaDevice, SoftwareRdma};

    const V4: &str = "::ffff:10.0.0.1";

    fn said(port: Port, change: impl FnOnce(&mut RdmaDevice)) -> Said {
        let mut facts = facts(vec![("mlx5_0", "0000:01:00.0", port)]);
        if let Fact::Known { value, .. } = &mut facts.rdma {
            change(&mut value[0]);
        }
        let mut said = inspect(&NodeName::from("node01"), &facts);
        said.findings.retain(|finding| finding.rule == Rule::Mtu);
        said.cannot_tell.retain(|entry| entry.rule == Rule::Mtu);
        said
    }

    fn with(active: Option<u32>, netdev: Option<u32>) -> Port {
        let known = |mtu: Option<u32>, from: &str| match mtu {
            Some(mtu) => Fact::known(mtu, from),
            None => Fact::unknown("no libibverbs"),
        };
        let netdev = Netdev {
            name: "eth3".into(),
            mtu: known(netdev, "/sys/class/net/eth3/mtu"),
            ..Netdev::default()
        };
        Port {
            active_mtu: known(active, "ibv_query_port"),
            netdev: Fact::known(netdev, "ndevs"),
            gids: vec![gid(3, V4, GidType::RoceV2, 24)],
            ..port()
        }
    }

    #[test]
    fn an_interface_at_1500_is_a_fault_with_its_cost() {
        let said = said(with(Some(1024), Some(1500)), |_| ());
        let finding = &said.findings[0];
        assert_eq!(finding.severity, Severity::Fault);
        assert_eq!(
            finding.says,
            "NIC mlx5_0 of node01 sends RDMA packets of 1024 bytes because the MTU of eth3 is 1500, where \
             4096 are possible: headers cost 5.5 % more of the line, 21.8 Gb/s."
        );
        let evidence: Vec<_> = finding
            .evidence
            .iter()
            .map(|e| (e.saw.as_str(), e.from.as_str()))
            .collect();
        assert_eq!(
            evidence,
            [
                ("active_mtu 1024", "ibv_query_port"),
                ("MTU of eth3 1500", "/sys/class/net/eth3/mtu"),
            ]
        );
        assert!((finding.expected.unwrap().0 - 392.1).abs() < 0.1);
        assert!((finding.ratio.unwrap() - 0.9444).abs() < 0.0005);
        assert!(finding.remedy.contains("ip link set eth3 mtu 9000"));
    }

    #[test]
    fn full_packets_are_not_mentioned() {
        for netdev in [Some(9000), Some(4200), None] {
            assert_eq!(said(with(Some(4096), netdev), |_| ()), Said::default());
        }
        // What libibverbs does not say, the interface does.
        assert_eq!(said(with(None, Some(4192)), |_| ()), Said::default());
    }

    #[test]
    fn without_libibverbs_the_interface_tells() {
        for (netdev, mtu) in [(4191, 2048), (1500, 1024), (1119, 512), (576, 256)] {
            let said = said(with(None, Some(netdev)), |_| ());
            let wanted = format!("packets of {mtu} bytes because");
            assert!(said.findings[0].says.contains(&wanted), "{said:#?}");
            assert_eq!(said.findings[0].evidence.len(), 1);
        }
        // Too small for RDMA at all, and still no division by nothing.
        let said = said(with(None, Some(0)), |_| ());
        assert_eq!(said.findings[0].ratio, Some(0.0));
    }

    #[test]
    fn severity_follows_the_cost() {
        let infiniband = |mtu| Port {
            link_layer: Fact::known(LinkLayer::InfiniBand, "link_layer"),
            ..with(Some(mtu), Some(2044))
        };
        for (port, severity) in [
            (with(Some(2048), Some(4000)), Severity::Warning),
            (infiniband(1024), Severity::Warning),
            (infiniband(2048), Severity::Note),
        ] {
            assert_eq!(said(port, |_| ()).findings[0].severity, severity);
        }
        // IPoIB's MTU has no say in the RDMA MTU.
        assert_eq!(said(infiniband(4096), |_| ()), Said::default());
        let note = &said(infiniband(2048), |_| ()).findings[0];
        assert!(note.remedy.contains("OpenSM"), "{}", note.remedy);
        assert!(!note.says.contains("eth3"), "{}", note.says);
    }

    #[test]
    fn software_rdma_has_no_line_to_miss() {
        let soft = |device: &mut RdmaDevice| device.software = Some(SoftwareRdma::Rxe);
        let found = said(with(Some(1024), Some(1500)), soft);
        assert_eq!(found.findings[0].severity, Severity::Warning);
        assert!(found.findings[0].says.ends_with("5.5 % more of the line."));
        assert_eq!(found.findings[0].expected, None);
        let iwarp = |device: &mut RdmaDevice| device.software = Some(SoftwareRdma::Siw);
        assert_eq!(said(with(Some(1024), Some(1500)), iwarp), Said::default());
    }

    #[test]
    fn an_mtu_that_nobody_knows_is_said_to_be_unknown() {
        let said = said(with(None, None), |_| ());
        assert!(said.findings.is_empty());
        assert_eq!(
            said.cannot_tell[0].why,
            "its RDMA MTU is unknown: no libibverbs"
        );
    }
}
