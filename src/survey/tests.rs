//! Surveys of trees like those of real nodes.

use super::interfaces::{Address, Interfaces};
use super::tree::{Tree, port_path};
use super::*;
use crate::model::{
    Gbps, GidType, LinkLayer, PciAddress, Port, PortState, RdmaDevice, SoftwareRdma,
};

pub(super) const MLX5: &str = "pci0000:97/0000:97:01.0/0000:98:00.0";
const VIRTIO: &str = "pci0000:00/0000:00:03.0";
pub(super) const NDR: [&str; 5] = [
    "4: ACTIVE",
    "5: LinkUp",
    "InfiniBand",
    "400 Gb/sec (4X NDR)",
    "0x364",
];
pub(super) const ROCE: [&str; 5] = [
    "4: ACTIVE",
    "5: LinkUp",
    "Ethernet",
    "100 Gb/sec (4X EDR)",
    "0x0",
];
const ZERO: &str = "0000:0000:0000:0000:0000:0000:0000:0000";
const PREFIX_ALONE: &str = "fe80:0000:0000:0000:0000:0000:0000:0000";

pub(super) fn survey_of(tree: &Tree, addresses: &[(&str, &str, u8)]) -> NodeFacts {
    let address = |(interface, ip, prefix_len): &(&str, &str, u8)| Address {
        interface: (*interface).into(),
        ip: ip.parse().unwrap(),
        prefix_len: *prefix_len,
    };
    survey_with(&Survey {
        root: &tree.root(),
        sources: &Sources::default(),
        interfaces: Interfaces::of(addresses.iter().map(address).collect()),
        kernel: Kernel::Snapshot,
    })
}

pub(super) fn only_device(facts: NodeFacts) -> RdmaDevice {
    match facts.rdma {
        Fact::Known { mut value, .. } if value.len() == 1 => value.remove(0),
        other => panic!("not one device: {other:?}"),
    }
}

pub(super) fn only_port(facts: NodeFacts) -> Port {
    let mut device = only_device(facts);
    assert_eq!(device.ports.len(), 1, "{device:?}");
    device.ports.remove(0)
}

/// Why a fact is unknown, without the place of the tree.
pub(super) fn why<T: std::fmt::Debug>(tree: &Tree, fact: &Fact<T>) -> String {
    let why = fact.why_unknown().unwrap_or_else(|| panic!("{fact:?}"));
    tree.plain(why)
}

pub(super) fn mlx5(port: [&str; 5]) -> Tree {
    let tree = Tree::new();
    tree.function(MLX5, "mlx5_core", "1\n")
        .device("mlx5_3", Some(MLX5), &[("fw_ver", "28.41.1000")])
        .port("mlx5_3", 1, port);
    tree
}

#[test]
fn mlx5_on_infiniband() {
    let tree = mlx5(NDR);
    tree.netdev("ib3", Some(MLX5), "2044", "up").gid(
        "mlx5_3",
        0,
        "fe80:0000:0000:0000:1070:fd03:00e5:b1e2",
        "IB/RoCE v1",
        "",
    );
    tree.gid("mlx5_3", 1, PREFIX_ALONE, "IB/RoCE v1", "");
    let device = only_device(survey_of(&tree, &[]));
    assert_eq!(device.name, "mlx5_3");
    assert_eq!(device.driver.value().unwrap(), "mlx5_core");
    assert_eq!(device.software, None);
    assert_eq!(device.firmware.value().unwrap(), "28.41.1000");
    assert_eq!(device.pci.value(), Some(&PciAddress("0000:98:00.0".into())));
    assert_eq!(device.numa_node.value(), Some(&1));
    assert!(device.unread.is_empty());

    let port = &device.ports[0];
    assert_eq!(port.number, 1);
    assert_eq!(port.state.value(), Some(&PortState::Active));
    assert_eq!(
        tree.plain(port.state.source().unwrap()),
        "/sys/class/infiniband/mlx5_3/ports/1/state"
    );
    assert_eq!(port.physical_state.value().unwrap(), "LinkUp");
    assert_eq!(port.link_layer.value(), Some(&LinkLayer::InfiniBand));
    assert_eq!(port.rate.value(), Some(&Gbps(400.0)));
    assert_eq!(port.lid.value(), Some(&868));
    assert!(port.active_mtu.why_unknown().is_some());
    let netdev = port.netdev.value().unwrap();
    assert_eq!(
        (netdev.name.as_str(), netdev.mtu.value()),
        ("ib3", Some(&2044))
    );
    assert_eq!(netdev.operstate.value().unwrap(), "up");

    // An unused slot on InfiniBand holds the subnet prefix alone.
    let slots: Vec<_> = port.gids.iter().map(|entry| entry.index).collect();
    assert_eq!(slots, [0], "{:?}", port.gids);
    assert!(port.gids[0].gid.is_link_local());
    assert_eq!(port.gids[0].kind.value(), Some(&GidType::IbOrRoceV1));
    assert!(why(&tree, &port.gids[0].netdev).contains("InfiniBand"));
    assert!(port.unread.is_empty());
}

#[test]
fn mlx5_on_ethernet_with_both_gid_types_and_families() {
    let tree = mlx5(ROCE);
    let local = "fe80:0000:0000:0000:0ac0:ebff:fe12:3456";
    let v4 = "0000:0000:0000:0000:0000:ffff:0a65:0001";
    let v6 = "fd00:0065:0000:0000:0000:0000:0000:0001";
    tree.netdev("eth3", Some(MLX5), "9000", "up");
    tree.netdev("eth0_rep", Some(MLX5), "1500", "down");
    let vlan = "0000:0000:0000:0000:0000:ffff:0a0a:0001";
    tree.gid("mlx5_3", 0, vlan, "IB/RoCE v1", "eth3.100");
    for (index, gid, kind) in [
        (20, local, "IB/RoCE v1"),
        (1, local, "RoCE v2"),
        (2, v4, "IB/RoCE v1"),
        (3, v4, "RoCE v2"),
        (10, v6, "RoCE v2"),
    ] {
        tree.gid("mlx5_3", index, gid, kind, "eth3");
    }
    tree.file(&port_path("mlx5_3", 1, "gids/4"), ZERO);
    let addresses = [("eth3", "10.101.0.1", 16), ("eth3", "fd00:65::1", 64)];
    let port = only_port(survey_of(&tree, &addresses));

    let seen: Vec<_> = port
        .gids
        .iter()
        .map(|g| {
            (
                g.index,
                *g.kind.value().unwrap(),
                g.prefix_len.value().copied(),
            )
        })
        .collect();
    use GidType::{IbOrRoceV1, RoceV2};
    assert_eq!(
        seen,
        [
            (0, IbOrRoceV1, None),
            (1, RoceV2, None),
            (2, IbOrRoceV1, None),
            (3, RoceV2, Some(16)),
            (10, RoceV2, Some(64)),
            (20, IbOrRoceV1, None),
        ]
    );
    assert_eq!(
        why(&tree, &port.gids[1].prefix_len),
        "eth3 has no address fe80::ac0:ebff:fe12:3456 (getifaddrs)"
    );
    assert!(why(&tree, &port.gids[2].prefix_len).contains("RoCEv2"));
    assert_eq!(port.gids[3].netdev.value().unwrap(), "eth3");
    // Not the VLAN of the first GID, nor the representor that shares the PCI function.
    assert_eq!(port.netdev.value().unwrap().name, "eth3");
    assert_eq!(why(&tree, &port.lid), "an Ethernet port has no LID");
}

#[test]
fn rxe_over_virtio() {
    let tree = Tree::new();
    let virtio = format!("{VIRTIO}/virtio1");
    tree.function(VIRTIO, "virtio-pci", "-1\n")
        .link(
            &format!("sys/devices/{virtio}/driver"),
            "sys/bus/virtio/drivers/virtio_net",
        )
        .netdev("eth1", Some(&virtio), "4200", "up")
        .device("rxe0", None, &[("parent", "eth1"), ("fw_ver", "")])
        .port("rxe0", 1, ROCE)
        .gid(
            "rxe0",
            1,
            "0000:0000:0000:0000:0000:ffff:0a65:0001",
            "RoCE v2",
            "eth1",
        );
    let device = only_device(survey_of(&tree, &[("eth1", "10.101.0.1", 24)]));
    assert_eq!(device.software, Some(SoftwareRdma::Rxe));
    assert_eq!(device.driver.value().unwrap(), "virtio_net");
    assert_eq!(device.pci.value(), Some(&PciAddress("0000:00:03.0".into())));
    assert_eq!(
        why(&tree, &device.firmware),
        "software RDMA has no firmware"
    );
    assert_eq!(
        why(&tree, &device.numa_node),
        "/sys/devices/pci0000:00/0000:00:03.0/numa_node holds `-1`: the platform states none"
    );
    let port = &device.ports[0];
    assert_eq!(port.netdev.value().unwrap().name, "eth1");
    assert_eq!(port.gids[0].prefix_len.value(), Some(&24));
}

#[test]
fn rxe_over_a_bond_has_no_pci_function() {
    let tree = Tree::new();
    tree.netdev("bond0", None, "9000", "up")
        .device("rxe0", None, &[("parent", "bond0")])
        .port("rxe0", 1, ROCE);
    let device = only_device(survey_of(&tree, &[]));
    let gone = "bond0 is a virtual interface: /sys/class/net/bond0/device does not exist";
    assert_eq!(why(&tree, &device.pci), gone);
    assert_eq!(why(&tree, &device.numa_node), gone);
    assert_eq!(device.ports[0].netdev.value().unwrap().name, "bond0");
}

#[test]
fn siw_is_software_though_its_device_link_is_that_of_a_nic() {
    let tree = Tree::new();
    let attributes = [
        ("node_desc", "Software iWARP stack"),
        ("node_type", "4: RNIC"),
    ];
    tree.function(MLX5, "mlx5_core", "0\n")
        .netdev("eth3", Some(MLX5), "1500", "up")
        .device("siw0", Some(MLX5), &attributes)
        .port("siw0", 1, ROCE);
    let device = only_device(survey_of(&tree, &[]));
    assert_eq!(device.software, Some(SoftwareRdma::Siw));
    assert_eq!(device.pci.value(), Some(&PciAddress("0000:98:00.0".into())));
    assert_eq!(device.ports[0].netdev.value().unwrap().name, "eth3");
}

#[test]
fn the_netdev_of_a_bond_device_is_the_bond() {
    let tree = mlx5(ROCE);
    tree.netdev("eth3", Some(MLX5), "1500", "up")
        .netdev("bond0", None, "9000", "up")
        .gid(
            "mlx5_3",
            3,
            "0000:0000:0000:0000:0000:ffff:0a65:0001",
            "RoCE v2",
            "bond0",
        );
    let port = only_port(survey_of(&tree, &[("bond0", "10.101.0.1", 24)]));
    let netdev = port.netdev.value().unwrap();
    assert_eq!(
        (netdev.name.as_str(), netdev.mtu.value()),
        ("bond0", Some(&9000))
    );
    assert_eq!(port.gids[0].prefix_len.value(), Some(&24));
}

#[test]
fn a_port_that_is_down() {
    let down = [
        "1: DOWN",
        "3: Disabled",
        "InfiniBand",
        "40 Gb/sec (4X QDR)",
        "0x0",
    ];
    let tree = mlx5(down);
    tree.gid("mlx5_3", 0, ZERO, "IB/RoCE v1", "");
    let port = only_port(survey_of(&tree, &[]));
    assert_eq!(port.state.value(), Some(&PortState::Down));
    assert_eq!(port.physical_state.value().unwrap(), "Disabled");
    assert_eq!(port.rate.value(), Some(&Gbps(40.0)));
    assert!(port.gids.is_empty() && port.unread.is_empty());
    assert_eq!(
        why(&tree, &port.lid),
        "/sys/class/infiniband/mlx5_3/ports/1/lid holds `0x0`: \
         no subnet manager has given the port a LID"
    );
}

#[test]
fn two_ports_each_with_its_own_netdev() {
    let tree = mlx5(NDR);
    tree.port("mlx5_3", 2, NDR)
        .netdev("ib0", Some(MLX5), "2044", "up")
        .netdev("ib1", Some(MLX5), "2044", "up")
        .file(&format!("sys/devices/{MLX5}/net/ib1/dev_port"), "1\n");
    let device = only_device(survey_of(&tree, &[]));
    let netdev = |port: usize| device.ports[port].netdev.value().unwrap().name.as_str();
    assert_eq!((netdev(0), netdev(1)), ("ib0", "ib1"));

    tree.file(&format!("sys/devices/{MLX5}/net/ib1/dev_port"), "0\n");
    let device = only_device(survey_of(&tree, &[]));
    assert!(why(&tree, &device.ports[0].netdev).starts_with("which of ib0, ib1 in "));
}

#[test]
fn domains_wider_than_four_digits() {
    let tree = Tree::new();
    let below = "pci0000:e0/0000:e0:00.5/pci10000:e0/10000:e0:06.0/10000:e1:00.0";
    tree.function(below, "mlx5_core", "3\n")
        .device("mlx5_0", Some(below), &[("fw_ver", "20.1")]);
    let device = only_device(survey_of(&tree, &[]));
    assert_eq!(
        device.pci.value(),
        Some(&PciAddress("10000:e1:00.0".into()))
    );
    assert_eq!(device.numa_node.value(), Some(&3));
}

#[test]
fn devices_come_in_the_order_of_their_numbers() {
    let tree = Tree::new();
    for name in ["mlx5_10", "mlx5_2", "mlx5_bond_0"] {
        tree.device(name, Some(MLX5), &[]);
    }
    let facts = survey_of(&tree, &[]);
    let names: Vec<_> = facts
        .rdma
        .value()
        .unwrap()
        .iter()
        .map(|d| &d.name)
        .collect();
    assert_eq!(names, ["mlx5_2", "mlx5_10", "mlx5_bond_0"]);
}

#[test]
fn no_rdma_driver_and_no_rdma_device_differ() {
    let tree = Tree::new();
    assert_eq!(
        why(&tree, &survey_of(&tree, &[]).rdma),
        "/sys/class/infiniband: No such file or directory (os error 2)"
    );
    tree.dir("sys/class");
    assert_eq!(
        why(&tree, &survey_of(&tree, &[]).rdma),
        "/sys/class/infiniband does not exist: no RDMA driver is loaded (ib_core)"
    );
    tree.dir("sys/class/infiniband");
    assert_eq!(survey_of(&tree, &[]).rdma.value(), Some(&vec![]));
}

#[test]
fn torn_and_empty_files_are_unknown_with_what_they_hold() {
    let tree = mlx5(["4: ACT", "", "InfiniBand", "400 Gb", "868"]);
    let gids = |index: &str| port_path("mlx5_3", 1, &format!("gids/{index}"));
    tree.gid(
        "mlx5_3",
        0,
        "fe80:0000:0000:0000:1070:fd03:00e5:b1e2",
        "RoCE",
        "",
    )
    .file(&gids("1"), "fe80:0000")
    .file(&gids("2"), "")
    .file(&gids("x"), ZERO)
    .file("sys/class/infiniband/mlx5_3/ports/0/state", "4: ACTIVE")
    .file("sys/class/infiniband/mlx5_3/fw_ver", "\u{1b}[2J");
    let device = only_device(survey_of(&tree, &[]));
    let port = "/sys/class/infiniband/mlx5_3/ports/1";
    assert_eq!(
        why(&tree, &device.firmware),
        r"/sys/class/infiniband/mlx5_3/fw_ver holds `\u{1b}[2J`: not one line of text"
    );
    assert_eq!(
        device
            .unread
            .iter()
            .map(|u| tree.plain(u))
            .collect::<Vec<_>>(),
        ["/sys/class/infiniband/mlx5_3/ports: `0` is no port number"]
    );
    let found = &device.ports[0];
    assert_eq!(
        why(&tree, &found.state),
        format!("{port}/state holds `4: ACT`: not a port state such as `4: ACTIVE`")
    );
    assert_eq!(
        why(&tree, &found.physical_state),
        format!("{port}/phys_state is empty")
    );
    assert!(why(&tree, &found.rate).starts_with(&format!("{port}/rate holds `400 Gb`: ")));
    assert!(why(&tree, &found.lid).starts_with(&format!("{port}/lid holds `868`: ")));
    assert!(why(&tree, &found.gids[0].kind).contains("types/0 holds `RoCE`"));
    assert_eq!(found.gids.len(), 1);
    assert_eq!(
        found
            .unread
            .iter()
            .map(|u| tree.plain(u))
            .collect::<Vec<_>>(),
        [
            format!("{port}/gids/1 holds `fe80:0000`: not a GID of eight groups of four digits"),
            format!("{port}/gids/2 is empty"),
            format!("{port}/gids: `x` is no GID index"),
        ]
    );
}

#[test]
fn a_torn_gid_table_is_told_in_few_words() {
    let tree = mlx5(ROCE);
    for index in 0..256 {
        tree.file(&port_path("mlx5_3", 1, &format!("gids/{index}")), "");
    }
    let port = only_port(survey_of(&tree, &[]));
    assert_eq!(port.unread.len(), 9);
    assert!(port.unread[8].ends_with("gids: 248 more entries unread"));
}

#[test]
fn a_device_directory_that_is_empty_is_a_device_with_nothing_known() {
    let tree = Tree::new();
    tree.dir("sys/class/infiniband/mlx5_0/ports/1");
    let device = only_device(survey_of(&tree, &[]));
    assert_eq!(device.software, None);
    let gone = "No such file or directory (os error 2)";
    let base = "/sys/class/infiniband/mlx5_0";
    assert_eq!(why(&tree, &device.pci), format!("{base}/device: {gone}"));
    assert_eq!(
        why(&tree, &device.firmware),
        format!("{base}/fw_ver: {gone}")
    );
    let unread = tree.plain(&device.ports[0].unread[0]);
    assert_eq!(
        unread,
        format!("no GID is known: {base}/ports/1/gids: {gone}")
    );
}

#[test]
fn a_snapshot_never_asks_the_machine_it_is_read_on() {
    let tree = mlx5(NDR);
    tree.file("proc/sys/kernel/hostname", "node017\n")
        .file("proc/sys/kernel/osrelease", "5.15.0-1053-nvidia\n");
    let mtu = |_: &str, _: u8| -> Fact<u32> { panic!("libibverbs of this machine was asked") };
    let library = || -> Fact<String> { panic!("libibverbs of this machine was asked") };
    let dmabuf = |_: &str| -> Fact<bool> { panic!("libibverbs of this machine was asked") };
    let nvml = || -> Fact<Nvml> { panic!("NVML of this machine was asked") };
    let cuda = || -> Fact<CudaDriver> { panic!("CUDA of this machine was asked") };
    let sources = Sources {
        active_mtu: Some(&mtu),
        libibverbs: Some(&library),
        takes_dmabuf: Some(&dmabuf),
        nvml: Some(&nvml),
        cuda: Some(&cuda),
    };
    let facts = survey(&tree.root(), &sources);
    assert_eq!(facts.hostname.value().unwrap(), "node017");
    assert_eq!(facts.kernel.value().unwrap(), "5.15.0-1053-nvidia");
    for why in [
        facts.arch.why_unknown(),
        facts.memlock.why_unknown(),
        facts.libibverbs.why_unknown(),
        only_port(facts.clone()).active_mtu.why_unknown(),
        facts.host.memlock_exempt.why_unknown(),
        facts.host.kernel_log.why_unknown(),
        facts.host.verbs_access.why_unknown(),
    ] {
        assert!(why.unwrap().starts_with("not the live system: "), "{why:?}");
    }
}

#[test]
fn an_efa_says_whose_memory_it_reaches() {
    let tree = mlx5(NDR);
    assert_eq!(only_device(survey_of(&tree, &[])).efa_peer, None);
    let tree = Tree::new();
    tree.function(MLX5, "efa", "1\n")
        .device("efa_0", Some(MLX5), &[])
        .file(&format!("sys/devices/{MLX5}/p2p"), "NVIDIA\n");
    let peer = only_device(survey_of(&tree, &[])).efa_peer.unwrap();
    assert_eq!(peer.value().unwrap(), "NVIDIA");
}

#[test]
fn devices_are_asked_for_dma_buf_where_there_is_a_gpu() {
    let tree = mlx5(NDR);
    tree.link(
        "sys/bus/pci/devices/0000:98:00.0",
        &format!("sys/devices/{MLX5}"),
    );
    let dmabuf = |_: &str| -> Fact<bool> { panic!("libibverbs of this machine was asked") };
    let sources = Sources {
        takes_dmabuf: Some(&dmabuf),
        ..Sources::default()
    };
    let asked = |tree: &Tree| only_device(survey(&tree.root(), &sources)).dmabuf;
    assert!(!asked(&tree).was_asked());
    let gpu = "pci0000:00/0000:00:05.0";
    tree.file(&format!("sys/devices/{gpu}/vendor"), "0x10de");
    tree.file(&format!("sys/devices/{gpu}/class"), "0x030200");
    tree.link(
        "sys/bus/pci/devices/0000:00:05.0",
        &format!("sys/devices/{gpu}"),
    );
    let why = asked(&tree);
    assert!(
        why.why_unknown()
            .unwrap()
            .starts_with("not the live system: ")
    );
}

#[test]
fn the_live_system_asks_libibverbs_for_what_sysfs_lacks() {
    let mtu = |device: &str, port: u8| match (device, port) {
        ("mlx5_3", 1) => Fact::known(4096, "ibv_query_port"),
        other => panic!("{other:?}"),
    };
    let loaded = String::from("/usr/lib/libibverbs.so.1");
    let library = || Fact::known(loaded.clone(), "dlopen");
    let sources = Sources {
        active_mtu: Some(&mtu),
        libibverbs: Some(&library),
        ..Sources::default()
    };
    let survey = Survey {
        root: &Root::live(),
        sources: &sources,
        interfaces: Interfaces::of(vec![]),
        kernel: Kernel::Running,
    };
    assert_eq!(survey.active_mtu("mlx5_3", 1).value(), Some(&4096));
    let facts = survey_with(&Survey {
        sources: &Sources {
            active_mtu: None,
            ..sources
        },
        ..survey
    });
    assert_eq!(
        facts.libibverbs.value().unwrap(),
        "/usr/lib/libibverbs.so.1"
    );
}
