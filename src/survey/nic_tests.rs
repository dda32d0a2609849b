//! Surveys of a NIC's identity and of its interface's settings.

use super::tests::{MLX5, NDR, ROCE, mlx5, only_device, only_port, survey_of, why};
use super::tree::{Tree, port_path};
use crate::model::{DriverOrigin, NodeType, Priorities, Trust};

#[test]
fn a_card_says_who_made_it_and_whose_driver_it_has() {
    let tree = mlx5(NDR);
    let home = format!("sys/devices/{MLX5}/infiniband/mlx5_3");
    for (file, text) in [
        ("hca_type", "MT4129"),
        ("board_id", "MT_0000000838"),
        ("node_type", "1: CA"),
        ("node_desc", "node017 mlx5_3"),
        ("node_guid", "1070:fd03:00e5:b1e2"),
        ("sys_image_guid", "1070:fd03:00e5:b1e0"),
    ] {
        tree.file(&format!("{home}/{file}"), &format!("{text}\n"));
    }
    tree.link(
        "sys/bus/pci/drivers/mlx5_core/module",
        "sys/module/mlx5_core",
    )
    .file("sys/module/mlx5_core/taint", "OE\n")
    .file("sys/module/mlx5_core/version", "24.10-1.1.4\n");
    let identity = only_device(survey_of(&tree, &[])).identity;
    assert_eq!(identity.hca_type.value().unwrap(), "MT4129");
    assert_eq!(identity.board_id.value().unwrap(), "MT_0000000838");
    assert_eq!(identity.node_type.value(), Some(&NodeType::ChannelAdapter));
    let guids = [&identity.node_guid, &identity.card].map(|guid| guid.value().unwrap().to_string());
    assert_eq!(guids, ["1070:fd03:00e5:b1e2", "1070:fd03:00e5:b1e0"]);
    assert_eq!(identity.driver_version.value().unwrap(), "24.10-1.1.4");
    assert_eq!(
        identity.driver_origin.value(),
        Some(&DriverOrigin::OutOfTree)
    );

    tree.dir("sys/module/mlx_compat");
    let identity = only_device(survey_of(&tree, &[])).identity;
    assert_eq!(identity.driver_origin.value(), Some(&DriverOrigin::Ofed));
    tree.file("sys/module/mlx5_core/taint", "\n");
    let identity = only_device(survey_of(&tree, &[])).identity;
    assert_eq!(identity.driver_origin.value(), Some(&DriverOrigin::Kernel));
}

#[test]
fn an_infiniband_port_says_what_its_subnet_manager_set() {
    let tree = mlx5(NDR);
    for (file, text) in [
        ("sm_lid", "0x1"),
        ("lid_mask_count", "0"),
        ("pkeys/0", "0xffff"),
        ("pkeys/1", "0x0000"),
        ("pkeys/10", "0x8002"),
    ] {
        tree.file(&port_path("mlx5_3", 1, file), text);
    }
    let port = only_port(survey_of(&tree, &[]));
    assert_eq!(port.subnet.manager_lid.value(), Some(&1));
    assert_eq!(port.subnet.lid_mask_bits.value(), Some(&0));
    assert_eq!(port.subnet.partitions.value().unwrap(), &[0xffff, 0x8002]);
    assert_eq!(port.lanes.value().unwrap().to_string(), "4X NDR");
    let ethernet = only_port(survey_of(&mlx5(ROCE), &[]));
    assert!(why(&tree, &ethernet.subnet.manager_lid).contains("Ethernet"));
}

#[test]
fn an_interface_says_how_it_is_set() {
    let tree = mlx5(ROCE);
    tree.netdev("eth3", Some(MLX5), "9000", "up");
    let net = format!("sys/devices/{MLX5}/net/eth3");
    for (file, text) in [
        ("speed", "400000"),
        ("duplex", "full"),
        ("carrier", "1"),
        ("qos/trust", "dscp"),
        ("ecn/roce_np/cnp_dscp", "48"),
        ("ecn/roce_np/cnp_802p_prio", "6"),
    ] {
        tree.file(&format!("{net}/{file}"), &format!("{text}\n"));
    }
    for priority in 0..8 {
        let on = u8::from(priority == 3).to_string();
        tree.file(&format!("{net}/ecn/roce_np/enable/{priority}"), &on)
            .file(&format!("{net}/ecn/roce_rp/enable/{priority}"), "0");
    }
    tree.file("proc/sys/net/ipv4/conf/all/arp_ignore", "1\n")
        .file("proc/sys/net/ipv4/conf/eth3/arp_ignore", "0\n")
        .file("proc/sys/net/ipv4/conf/all/arp_announce", "0\n")
        .file("proc/sys/net/ipv4/conf/eth3/arp_announce", "2\n")
        .file(
            "sys/class/infiniband/mlx5_3/tc/1/traffic_class",
            "Global tclass=106\n",
        );
    let port = only_port(survey_of(&tree, &[("eth3", "10.101.0.1", 16)]));
    let netdev = port.netdev.value().unwrap();
    let settings = &netdev.settings;
    assert_eq!(settings.speed.value(), Some(&400_000));
    assert_eq!(settings.duplex.value().unwrap(), "full");
    assert_eq!(settings.carrier.value(), Some(&true));
    assert_eq!(settings.bond, None);
    let addresses: Vec<_> = settings.addresses.value().unwrap().iter().collect();
    assert_eq!(addresses[0].to_string(), "10.101.0.1/16");
    // In force is the greater of `all` and the interface's own.
    assert_eq!(settings.arp.ignore.value(), Some(&1));
    assert_eq!(
        tree.plain(settings.arp.ignore.source().unwrap()),
        "/proc/sys/net/ipv4/conf/all/arp_ignore"
    );
    assert_eq!(settings.arp.announce.value(), Some(&2));
    assert!(settings.arp.rp_filter.why_unknown().is_some());
    let lossless = &settings.lossless;
    assert_eq!(lossless.trust.value(), Some(&Trust::Dscp));
    assert_eq!(lossless.ecn_notify.value(), Some(&Priorities(8)));
    assert_eq!(lossless.ecn_react.value(), Some(&Priorities(0)));
    assert_eq!(
        (lossless.cnp_dscp.value(), lossless.cnp_priority.value()),
        (Some(&48), Some(&6))
    );
    assert!(why(&tree, &lossless.pfc).starts_with("not the live system"));
    assert_eq!(port.roce.traffic_class.value(), Some(&106));
}

#[test]
fn a_bond_is_known_by_itself_and_by_its_members() {
    let tree = mlx5(ROCE);
    tree.netdev("eth3", Some(MLX5), "9000", "up")
        .netdev("bond0", None, "9000", "up")
        .file("sys/devices/virtual/net/bond0/bonding/mode", "802.3ad 4\n")
        .file(
            "sys/devices/virtual/net/bond0/bonding/xmit_hash_policy",
            "layer3+4 1\n",
        )
        .file(
            "sys/devices/virtual/net/bond0/bonding/slaves",
            "eth3 eth4\n",
        )
        .link(
            &format!("sys/devices/{MLX5}/net/eth3/master"),
            "sys/devices/virtual/net/bond0",
        )
        .file(&format!("sys/devices/{MLX5}/net/eth3/qos/trust"), "dscp\n");
    let by_member = only_port(survey_of(&tree, &[]));
    let gid = "0000:0000:0000:0000:0000:ffff:0a65:0001";
    tree.gid("mlx5_3", 3, gid, "RoCE v2", "bond0");
    let facts = survey_of(&tree, &[]);
    let interfaces = facts.interfaces.value().unwrap().clone();
    let by_itself = only_port(facts);
    for port in [by_member, by_itself] {
        // What a bond has not, its first member tells.
        let lossless = &port.netdev.value().unwrap().settings.lossless;
        assert_eq!(lossless.trust.value(), Some(&Trust::Dscp));
        let bond = port.netdev.value().unwrap().settings.bond.clone().unwrap();
        let bond = bond.value().unwrap();
        assert_eq!(bond.name, "bond0");
        assert_eq!(bond.mode.value().unwrap(), "802.3ad");
        assert_eq!(bond.hash.value().unwrap(), "layer3+4");
        assert_eq!(bond.members.value().unwrap(), &["eth3", "eth4"]);
    }
    // The bond itself is no hardware.
    assert_eq!(interfaces.len(), 1);
    assert_eq!(interfaces[0].bond.as_deref(), Some("bond0"));
}

#[test]
fn conventional_nics_are_told_from_those_with_rdma() {
    let tree = mlx5(ROCE);
    let onboard = "pci0000:00/0000:00:1f.6";
    tree.netdev("eth3", Some(MLX5), "9000", "up")
        .function(onboard, "e1000e", "0\n")
        .netdev("eno1", Some(onboard), "1500", "up")
        .netdev("lo", None, "65536", "unknown")
        .file(&format!("sys/devices/{onboard}/net/eno1/speed"), "1000\n")
        .file("sys/bus/pci/devices/0000:00:1f.6/vendor", "0x8086\n")
        .file("sys/bus/pci/devices/0000:00:1f.6/device", "0x15b7\n");
    let facts = survey_of(&tree, &[]);
    let interfaces = facts.interfaces.value().unwrap();
    let seen: Vec<_> = interfaces
        .iter()
        .map(|i| (i.name.as_str(), i.rdma.as_deref()))
        .collect();
    assert_eq!(seen, [("eno1", None), ("eth3", Some("mlx5_3"))]);
    let onboard = &interfaces[0];
    assert_eq!(onboard.driver.value().unwrap(), "e1000e");
    assert_eq!(onboard.pci.value().unwrap().0, "0000:00:1f.6");
    assert_eq!(
        (onboard.vendor.value(), onboard.device.value()),
        (Some(&0x8086), Some(&0x15b7))
    );
    assert_eq!(onboard.speed.value(), Some(&1000));
    assert_eq!(onboard.mtu.value(), Some(&1500));
}

#[test]
fn the_efa_provider_is_looked_for_where_there_is_an_efa_device() {
    assert_eq!(survey_of(&mlx5(ROCE), &[]).efa_provider, None);
    let tree = Tree::new();
    tree.function(MLX5, "efa", "0\n")
        .device("rdmap0s6", Some(MLX5), &[("node_type", "7: unspecified")])
        .port("rdmap0s6", 1, ROCE);
    let none = survey_of(&tree, &[]).efa_provider.unwrap();
    assert!(why(&tree, &none).starts_with("no libfabric.so.1 in /opt/amazon/efa/"));
    tree.file("opt/amazon/efa/lib/libfabric.so.1", "");
    let found = survey_of(&tree, &[]).efa_provider.unwrap();
    let file = tree.plain(found.value().unwrap());
    assert_eq!(file, "/opt/amazon/efa/lib/libfabric.so.1");
}
