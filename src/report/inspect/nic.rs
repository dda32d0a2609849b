//! The part of `linerate inspect` on NICs: whose card it is, how its subnet and interface are set,
//! and which other NICs there are.

use std::io;

use super::{Page, Summary};
use crate::model::{
    Bond, Fact, Gbps, Interface, LinkLayer, Lossless, Netdev, NetdevSettings, NodeFacts, Port,
    Priorities, RdmaDevice,
};

/// The driver, with its version and where it is from.
pub(super) fn driver(device: &RdmaDevice) -> Fact<String> {
    let identity = &device.identity;
    device.driver.clone().map(|name| {
        let version = identity.driver_version.value();
        let origin = identity.driver_origin.value().map(ToString::to_string);
        let parts = [Some(name), version.cloned(), origin];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    })
}

/// Chip, board and GUID, as far as the driver states them; and the devices on the same card.
pub(super) fn card(page: &mut Page<'_>, facts: &NodeFacts, device: &RdmaDevice) -> io::Result<()> {
    let identity = &device.identity;
    let mut parts: Vec<String> = identity.hca_type.value().cloned().into_iter().collect();
    let board = identity.board_id.value();
    let board = board.filter(|board| Some(*board) != identity.hca_type.value());
    let board = board.map(|board| format!("board {board}"));
    let guid = identity.node_guid.value().map(|g| format!("GUID {g}"));
    parts.extend(board.into_iter().chain(guid));
    let others = on_same_card(facts, device);
    if !others.is_empty() {
        parts.push(format!("same card as {}", others.join(", ")));
    }
    if device.software.is_none() && !parts.is_empty() {
        page.part("card", parts.join(", "))?;
    }
    match device.driver.value().map(String::as_str) {
        Some("efa") => page.part("protocol", efa(facts)),
        _ => Ok(()),
    }
}

fn on_same_card<'a>(facts: &'a NodeFacts, device: &RdmaDevice) -> Vec<&'a str> {
    let Some(card) = device.identity.card.value() else {
        return Vec::new();
    };
    let devices = facts.rdma.value().into_iter().flatten();
    devices
        .filter(|other| other.name != device.name && other.software.is_none())
        .filter(|other| other.identity.card.value() == Some(card))
        .map(|other| other.name.as_str())
        .collect()
}

fn efa(facts: &NodeFacts) -> String {
    const EFA: &str = "AWS EFA, which NCCL and MPI use through libfabric";
    match &facts.efa_provider {
        Some(Fact::Known { value, .. }) => format!("{EFA} ({value})"),
        Some(Fact::Unknown { why }) => format!("{EFA}: {why}"),
        None => EFA.to_owned(),
    }
}

/// What the subnet manager has set.
pub(super) fn subnet(page: &mut Page<'_>, port: &Port) -> io::Result<()> {
    if port.link_layer.value() != Some(&LinkLayer::InfiniBand) {
        return Ok(());
    }
    let subnet = &port.subnet;
    let mut parts = Vec::new();
    if let Some(lid) = subnet.manager_lid.value() {
        parts.push(format!("manager at LID {lid}"));
    }
    if let Some(bits) = subnet.lid_mask_bits.value().filter(|bits| **bits > 0) {
        parts.push(format!("{bits} LID bits choose the path"));
    }
    if let Some(keys) = subnet.partitions.value() {
        let keys: Vec<_> = keys.iter().map(|key| format!("{key:#06x}")).collect();
        parts.push(format!("partitions {}", keys.join(", ")));
    }
    match parts.is_empty() {
        true => Ok(()),
        false => page.part("subnet", parts.join(", ")),
    }
}

/// Speed and bond, to follow the interface's name, state and MTU.
pub(super) fn link(settings: &NetdevSettings) -> Vec<String> {
    let speed = settings.speed.value().map(|speed| megabits(*speed));
    let duplex = settings.duplex.value().filter(|duplex| *duplex == "half");
    let duplex = duplex.map(|duplex| format!("{duplex} duplex"));
    let carrier = settings.carrier.value().filter(|carrier| !**carrier);
    let carrier = carrier.map(|_| "no carrier".to_owned());
    let bond = settings.bond.as_ref().map(|bond| match bond {
        Fact::Known { value, .. } => bond_text(value),
        Fact::Unknown { why } => format!("bond unknown: {why}"),
    });
    [speed, duplex, carrier, bond]
        .into_iter()
        .flatten()
        .collect()
}

fn megabits(speed: u32) -> String {
    Gbps(f64::from(speed) / 1e3).to_string()
}

fn bond_text(bond: &Bond) -> String {
    let mut text = format!("bond {}", bond.name);
    if let Some(mode) = bond.mode.value() {
        text.push_str(&format!(" ({mode}"));
        if let Some(hash) = bond.hash.value() {
            text.push_str(&format!(", {hash}"));
        }
        text.push(')');
    }
    match bond.members.value() {
        Some(members) => format!("{text} of {}", members.join(", ")),
        None => text,
    }
}

/// The lines on an Ethernet port below its interface.
pub(super) fn ethernet(
    page: &mut Page<'_>,
    device: &RdmaDevice,
    port: &Port,
    netdev: &Netdev,
) -> io::Result<()> {
    if port.link_layer.value() != Some(&LinkLayer::Ethernet) {
        return Ok(());
    }
    let arp = &netdev.settings.arp;
    let settings = [
        ("arp_ignore", &arp.ignore),
        ("arp_announce", &arp.announce),
        ("rp_filter", &arp.rp_filter),
    ];
    let told = settings
        .iter()
        .filter_map(|(name, fact)| Some(format!("{name} {}", fact.value()?)));
    let told: Vec<_> = told.collect();
    if !told.is_empty() {
        page.part("ARP", told.join(", "))?;
    }
    match device.software {
        Some(_) => Ok(()),
        None => alike_together(page, "lossless", lossless(port, &netdev.settings)),
    }
}

/// A summary in which what is unknown for one reason shares a line.
fn alike_together(page: &mut Page<'_>, label: &str, mut summary: Summary) -> io::Result<()> {
    let mut reasons: Vec<(Vec<&str>, String)> = Vec::new();
    for (what, why) in summary.unknown.drain(..) {
        match reasons.iter_mut().find(|(_, reason)| *reason == why) {
            Some((all, _)) => all.push(what),
            None => reasons.push((vec![what], why)),
        }
    }
    page.summary(label, summary)?;
    reasons.iter().try_for_each(|(all, why)| {
        page.line("    ", "", &format!("{} unknown: {why}", all.join(", ")))
    })
}

fn lossless(port: &Port, settings: &NetdevSettings) -> Summary {
    let of = &settings.lossless;
    let mut summary = Summary::default();
    summary.add("trust", &of.trust, |trust| format!("trusts {trust}"));
    summary.add("PFC", &of.pfc, |pfc| format!("PFC {pfc}"));
    ecn(&mut summary, of);
    summary.add("pause", &settings.pause, |pause| {
        let text = match (pause.rx, pause.tx) {
            (true, true) => "on",
            (true, false) => "rx only",
            (false, true) => "tx only",
            (false, false) => "off",
        };
        format!("pause {text}")
    });
    summary.add("FEC", &settings.fec, |fec| format!("FEC {fec}"));
    // What an application says itself needs no default.
    let known = |name: &str, fact: &Fact<u8>| Some(format!("{name} {}", fact.value()?));
    let defaults = [
        known("CNP DSCP", &of.cnp_dscp),
        known("CNP priority", &of.cnp_priority),
        known("traffic class", &port.roce.traffic_class),
        known("rdma_cm ToS", &port.roce.tos),
    ];
    summary.known.extend(defaults.into_iter().flatten());
    summary
}

fn ecn(summary: &mut Summary, of: &Lossless) {
    let alike = of.ecn_notify.value() == of.ecn_react.value();
    if alike {
        summary.add("ECN", &of.ecn_react, |ecn| format!("ECN {ecn}"));
    } else {
        let say = |what: &'static str| move |ecn: &Priorities| format!("{what} {ecn}");
        summary.add("ECN", &of.ecn_notify, say("ECN notifies of"));
        summary.add("ECN", &of.ecn_react, say("ECN reacts on"));
    }
}

/// The NICs that no RDMA device goes through.
pub(super) fn others(page: &mut Page<'_>, facts: &NodeFacts) -> io::Result<()> {
    let interfaces = facts.interfaces.value().into_iter().flatten();
    let others: Vec<_> = interfaces.filter(|i| i.rdma.is_none()).collect();
    if others.is_empty() {
        return Ok(());
    }
    writeln!(page.out)?;
    page.field("other NICs", "without RDMA")?;
    let texts = others.iter().map(|interface| (interface, other(interface)));
    texts
        .into_iter()
        .try_for_each(|(interface, text)| page.part(&interface.name, text))
}

fn other(interface: &Interface) -> String {
    let model = match (interface.vendor.value(), interface.device.value()) {
        (Some(vendor), Some(device)) => Some(crate::topology::words::named(*vendor, *device)),
        _ => None,
    };
    let driver = interface.driver.value();
    let bond = interface
        .bond
        .as_ref()
        .map(|bond| format!("member of {bond}"));
    let parts = [
        model,
        driver.cloned(),
        interface.speed.value().map(|speed| megabits(*speed)),
        interface.operstate.value().cloned(),
        interface.mtu.value().map(|mtu| format!("MTU {mtu}")),
        bond,
        is_slingshot(interface)
            .then(|| "HPE Slingshot: used through libfabric, which is not measured".into()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// HPE's Cassini: vendor id of Cray, drivers cxi_core and cxi_ss1 (shs-cxi-driver).
fn is_slingshot(interface: &Interface) -> bool {
    const VENDOR_CRAY: u16 = 0x17db;
    let driver = interface.driver.value();
    interface.vendor.value() == Some(&VENDOR_CRAY)
        || driver.is_some_and(|name| name.starts_with("cxi"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{DriverOrigin, Pause, PciAddress, Subnetwork, Trust};

    fn known<T>(value: T) -> Fact<T> {
        Fact::known(value, "/sys/…")
    }

    fn print(facts: &NodeFacts) -> String {
        let mut out = Vec::new();
        crate::report::inspect::write_facts(facts, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn roce() -> Netdev {
        let mut netdev = Netdev {
            name: "eth3".into(),
            mtu: known(9000),
            operstate: known("up".into()),
            ..Netdev::default()
        };
        let settings = &mut netdev.settings;
        settings.speed = known(400_000);
        settings.duplex = known("full".into());
        settings.carrier = known(true);
        settings.addresses = known(vec![Subnetwork {
            ip: "10.101.0.1".parse().unwrap(),
            prefix_len: 24,
        }]);
        settings.arp.ignore = known(0);
        settings.arp.announce = known(2);
        settings.pause = known(Pause {
            rx: false,
            tx: false,
        });
        settings.fec = known("RS".into());
        settings.lossless = Lossless {
            trust: known(Trust::Dscp),
            pfc: known(Priorities(8)),
            ecn_notify: known(Priorities(8)),
            ecn_react: known(Priorities(8)),
            cnp_dscp: known(48),
            cnp_priority: known(6),
        };
        netdev
    }

    fn facts() -> NodeFacts {
        let mut facts = TwoSockets::facts();
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value.truncate(2);
            for device in value.iter_mut() {
                let identity = &mut device.identity;
                identity.hca_type = known("MT4129".into());
                identity.board_id = known("MT_0000000838".into());
                identity.node_guid = known("1070:fd03:00e5:b1e2".parse().unwrap());
                identity.card = known("1070:fd03:00e5:b1e0".parse().unwrap());
                identity.driver_version = known("24.10-1.1.4".into());
                identity.driver_origin = known(DriverOrigin::Ofed);
                device.ports[0].netdev = known(roce());
                device.ports[0].roce.traffic_class = known(106);
            }
            let port = &mut value[1].ports[0];
            port.link_layer = known(LinkLayer::InfiniBand);
            port.subnet.manager_lid = known(1);
            port.subnet.lid_mask_bits = known(0);
            port.subnet.partitions = known(vec![0xffff, 0x8002]);
        }
        // The links up to the root are another file's.
        facts.pcie = Fact::unknown("not read here");
        let slingshot = Interface {
            name: "hsn0".into(),
            driver: known("cxi_ss1".into()),
            speed: known(200_000),
            operstate: known("up".into()),
            mtu: known(9000),
            ..Interface::default()
        };
        let onboard = Interface {
            name: "eno1".into(),
            driver: known("e1000e".into()),
            pci: known(PciAddress("0000:00:1f.6".into())),
            vendor: known(0x8086),
            device: known(0x15b7),
            speed: known(1000),
            operstate: known("up".into()),
            mtu: known(1500),
            bond: Some("bond1".into()),
            ..Interface::default()
        };
        let with_rdma = Interface {
            name: "eth3".into(),
            rdma: Some("mlx5_0".into()),
            ..Interface::default()
        };
        facts.interfaces = known(vec![onboard, with_rdma, slingshot]);
        facts
    }

    #[test]
    fn cards_settings_and_other_nics() {
        insta::assert_snapshot!(print(&facts()));
    }

    #[test]
    fn what_only_ofed_knows_is_said_to_be_unknown() {
        let mut facts = facts();
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value.truncate(1);
            let Fact::Known { value: netdev, .. } = &mut value[0].ports[0].netdev else {
                panic!("a netdev");
            };
            let lossless = &mut netdev.settings.lossless;
            *lossless = Lossless {
                pfc: lossless.pfc.clone(),
                ..Lossless::default()
            };
            lossless.ecn_notify = Fact::unknown("only MLNX_OFED and DOCA tell of ECN");
            lossless.ecn_react = lossless.ecn_notify.clone();
            lossless.trust = Fact::unknown("DCB of eth3: no DSCP has a priority of its own there");
            netdev.settings.bond = Some(known(Bond {
                name: "bond0".into(),
                mode: known("802.3ad".into()),
                hash: known("layer3+4".into()),
                members: known(vec!["eth3".into(), "eth4".into()]),
            }));
        }
        let printed = print(&facts);
        let lines: Vec<_> = printed
            .lines()
            .skip_while(|line| !line.starts_with("  netdev"))
            .take_while(|line| !line.is_empty())
            .collect();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
