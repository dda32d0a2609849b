//! Samplers over trees like those of real nodes.

use super::super::tree::{Tree, port_path};
use super::*;
use crate::model::Quantity;

const MLX5: &str = "pci0000:97/0000:97:01.0/0000:98:00.0";
const VIRTIO: &str = "pci0000:00/0000:00:03.0";
const NDR: [&str; 5] = [
    "4: ACTIVE",
    "5: LinkUp",
    "InfiniBand",
    "400 Gb/sec (4X NDR)",
    "0x364",
];
const ROCE: [&str; 5] = [
    "4: ACTIVE",
    "5: LinkUp",
    "Ethernet",
    "400 Gb/sec (4X NDR)",
    "0x0",
];

fn mlx5(port: [&str; 5], counters: &[(&str, &str)]) -> Tree {
    let tree = Tree::new();
    tree.function(MLX5, "mlx5_core", "1\n")
        .device("mlx5_3", Some(MLX5), &[])
        .port("mlx5_3", 1, port);
    for (name, text) in counters {
        tree.file(&port_path("mlx5_3", 1, name), text);
    }
    tree
}

fn only(sampler: &Sampler) -> &PortLayout {
    match sampler.layout().ports.value().map(Vec::as_slice) {
        Some([port]) => port,
        other => panic!("not one port: {other:?}"),
    }
}

/// The quantities that are counted, with the names of their counters.
fn counted(port: &PortLayout) -> Vec<(Quantity, &str, u32)> {
    let series = port.series.iter().map(|series| {
        let name = series.from.rsplit('/').next().unwrap();
        (series.quantity, name, series.unit)
    });
    series.collect()
}

fn why(port: &PortLayout, quantity: Quantity) -> &str {
    let uncounted = port.uncounted.iter().find(|u| u.quantity == quantity);
    &uncounted.unwrap_or_else(|| panic!("{port:?}")).why
}

#[test]
fn a_port_is_read_again_from_the_same_files() {
    let tree = mlx5(
        NDR,
        &[
            ("counters/port_xmit_data", "1000\n"),
            ("counters/port_rcv_data", "2000\n"),
            ("counters/link_downed", "255\n"),
            ("hw_counters/out_of_sequence", "3\n"),
            ("hw_counters/lifespan", "12\n"),
        ],
    );
    let mut sampler = Sampler::open(&tree.root());
    use Quantity::*;
    assert_eq!(
        counted(only(&sampler)),
        [
            (TxBytes, "port_xmit_data", 4),
            (RxBytes, "port_rcv_data", 4),
            (Errors, "link_downed", 1),
            (Retransmissions, "out_of_sequence", 1),
        ]
    );
    assert_eq!(only(&sampler).series[2].saturates_at, Some(255));
    let first = sampler.sample();
    assert_eq!(
        first.ports[0].values,
        [Some(1000), Some(2000), Some(255), Some(3)]
    );
    tree.file(&port_path("mlx5_3", 1, "counters/port_xmit_data"), "1500\n")
        .file(
            &port_path("mlx5_3", 1, "hw_counters/out_of_sequence"),
            "N/A",
        );
    let second = sampler.sample();
    assert_eq!(
        second.ports[0].values,
        [Some(1500), Some(2000), Some(255), None]
    );
    assert!(second.ports[0].at_us >= first.ports[0].at_us);
    assert!(!sampler.refresh(), "nothing came or went");
}

#[test]
fn what_is_not_counted_says_why() {
    let tree = mlx5(ROCE, &[("counters/port_xmit_data", "N/A (no PMA)\n")]);
    let sampler = Sampler::open(&tree.root());
    let port = only(&sampler);
    assert!(port.series.is_empty());
    assert!(why(port, Quantity::TxBytes).contains("N/A (no PMA)"));
    assert_eq!(
        why(port, Quantity::RxBytes),
        "the driver mlx5_core does not count them"
    );
    assert!(why(port, Quantity::CnpsSent).contains("hw_counters: No such file"));
    assert!(why(port, Quantity::Pauses).contains("ethtool"));

    let tree = mlx5(NDR, &[]);
    let sampler = Sampler::open(&tree.root());
    assert!(why(only(&sampler), Quantity::Pauses).contains("credits"));
}

#[test]
fn the_wide_counters_of_older_kernels_come_first() {
    let tree = mlx5(
        NDR,
        &[
            ("counters/port_xmit_data", "4294967295\n"),
            ("counters_ext/port_xmit_data_64", "9000000000\n"),
        ],
    );
    let mut sampler = Sampler::open(&tree.root());
    assert_eq!(
        counted(only(&sampler)),
        [(Quantity::TxBytes, "port_xmit_data_64", 4)]
    );
    assert_eq!(sampler.sample().ports[0].values, [Some(9_000_000_000)]);
}

#[test]
fn software_rdma_is_counted_at_its_network_interface() {
    let tree = Tree::new();
    let virtio = format!("{VIRTIO}/virtio1");
    tree.function(VIRTIO, "virtio-pci", "-1\n")
        .netdev("eth1", Some(&virtio), "4200", "up")
        .device("rxe0", None, &[("parent", "eth1")])
        .port("rxe0", 1, ROCE)
        .file(&port_path("rxe0", 1, "hw_counters/rcvd_seq_err"), "4\n");
    for name in ["tx_bytes", "rx_bytes", "rx_dropped"] {
        tree.file(&format!("sys/class/net/eth1/statistics/{name}"), "77\n");
    }
    let mut sampler = Sampler::open(&tree.root());
    use Quantity::*;
    assert_eq!(
        counted(only(&sampler)),
        [
            (TxBytes, "tx_bytes", 1),
            (RxBytes, "rx_bytes", 1),
            (Discards, "rx_dropped", 1),
            (Retransmissions, "rcvd_seq_err", 1),
        ]
    );
    assert!(
        only(&sampler).series[0]
            .from
            .contains("net/eth1/statistics")
    );
    assert_eq!(sampler.sample().ports[0].values[3], Some(4));
}

#[test]
fn hardware_that_does_not_count_its_data_is_not_taken_for_idle() {
    let tree = mlx5(ROCE, &[]);
    tree.netdev("eth3", Some(MLX5), "9000", "up")
        .file("sys/class/net/eth3/statistics/tx_bytes", "77\n");
    let sampler = Sampler::open(&tree.root());
    assert!(why(only(&sampler), Quantity::TxBytes).contains("counters: No such file"));
}

#[test]
fn devices_that_come_and_go_are_noticed() {
    let tree = mlx5(NDR, &[("counters/port_xmit_data", "1\n")]);
    let mut sampler = Sampler::open(&tree.root());
    sampler.sample();
    tree.device("mlx5_4", Some(MLX5), &[])
        .port("mlx5_4", 1, NDR);
    assert!(sampler.refresh());
    assert_eq!(sampler.layout().ports.value().unwrap().len(), 2);
    assert_eq!(sampler.sample().ports.len(), 2);
    assert!(!sampler.refresh());
}

#[test]
fn a_node_without_devices_says_so() {
    let tree = Tree::new();
    tree.dir("sys/class");
    let mut sampler = Sampler::open(&tree.root());
    let why = sampler.layout().ports.why_unknown().unwrap();
    assert!(why.contains("no RDMA driver is loaded"), "{why}");
    assert_eq!(sampler.sample(), Sample::default());
}

#[test]
fn ports_beyond_the_bound_are_counted_and_not_watched() {
    let tree = Tree::new();
    for n in 0..MAX_PORTS + 3 {
        let name = format!("mlx5_{n}");
        tree.device(&name, Some(MLX5), &[]).port(&name, 1, NDR);
    }
    let sampler = Sampler::open(&tree.root());
    assert_eq!(sampler.layout().ports.value().unwrap().len(), MAX_PORTS);
    assert_eq!(sampler.layout().left_out, 3);
}
