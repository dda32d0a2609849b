//! Frames that paused a port's link, or with which it paused its neighbour (PFC, IEEE 802.1Qbb; pauses of the
//! whole link, IEEE 802.3x). Only drivers count them, in the statistics that `ethtool -S` shows.

use std::collections::BTreeMap;

use below_ethtool::{Ethtool, EthtoolReadable};

use super::interfaces::Interfaces;
use super::netlink::Kernel;
use super::root::Root;
use super::{Sources, Survey, device, ethernet, gids, netdev, not_live, parse};
use crate::model::{Counter, Fact, LinkLayer, LocalPort};

/// More members than any bond of RDMA ports has.
const MAX_MEMBERS: usize = 8;

/// Names of counters of such frames, `#` for the number of a priority. Sums over priorities, durations and
/// what counts the same a second time (mlx5's `*_pause_ctrl_phy`) are left out.
///
/// mlx5: Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst of Linux; the others:
/// drivers/net/ethernet of Linux (mlx4 en_ethtool.c, bnxt_ethtool.c, ice_ethtool.c, i40e_ethtool.c,
/// ixgbe_ethtool.c, hns3 hclge_main.c, cxgb4_ethtool.c).
const FRAMES: &[&str] = &[
    "link_xoff_rx",
    "link_xoff_tx",
    "mac_rx_mac_pause_num",
    "mac_rx_pfc_pri#_pkt_num",
    "mac_tx_mac_pause_num",
    "mac_tx_pfc_pri#_pkt_num",
    "rx_global_pause",
    "rx_pause_frames",
    "rx_pause_prio_#",
    "rx_pb_#_pxoff",
    "rx_pfc_ena_frames_pri#",
    "rx_ppp#_frames",
    "rx_prio#_pause",
    "rx_priority_#_xoff",
    "rx_priority_#_xoff_rx",
    "tx_global_pause",
    "tx_pause_frames",
    "tx_pause_prio_#",
    "tx_pb_#_pxoff",
    "tx_pfc_ena_frames_pri#",
    "tx_ppp#_frames",
    "tx_prio#_pause",
    "tx_priority_#_xoff",
    "tx_priority_#_xoff_tx",
];

/// The interfaces whose drivers count the pauses of a port: its own, or the members of the bond that it is.
///
/// `port` may come from elsewhere: anything but a plain name is refused.
pub fn pausing(root: &Root, port: &LocalPort) -> Fact<Vec<String>> {
    if !parse::is_counter_name(&port.device) {
        return Fact::unknown("not the name of an RDMA device");
    }
    let sources = Sources::default();
    let survey = Survey {
        root,
        sources: &sources,
        interfaces: Interfaces::unknown("not needed".into()),
        // Nothing of what netlink tells is needed.
        kernel: Kernel::Snapshot,
    };
    let class = root.path("sys/class/infiniband");
    let device = device::dir(&survey, &class, &port.device);
    let dir = device.path.join("ports").join(port.port.to_string());
    let layer = root.fact(&dir.join("link_layer"), parse::link_layer);
    if layer.value() == Some(&LinkLayer::InfiniBand) {
        return Fact::unknown("InfiniBand has credits instead of pauses");
    }
    let (table, _) = gids::table(&survey, &dir, layer.value().copied());
    let name = netdev::behind(&survey, &device, port.port, &table);
    name.map(|name| ethernet::members(root, &name).unwrap_or_else(|| vec![name]))
}

/// What the counters of pauses of these interfaces stand at, those of one name together.
pub fn pauses(root: &Root, interfaces: &Fact<Vec<String>>) -> Fact<Vec<Counter>> {
    let names = match interfaces {
        Fact::Known { value, .. } => value,
        Fact::Unknown { why } => return Fact::unknown(why),
    };
    if !root.is_live() {
        return Fact::unknown(not_live("only a running kernel tells, by ethtool"));
    }
    let mut sums = BTreeMap::new();
    for name in names.iter().take(MAX_MEMBERS) {
        match statistics(name).and_then(|all| frames(name, all)) {
            Ok(counted) => counted.into_iter().for_each(|(counter, value)| {
                let sum: &mut u64 = sums.entry(counter).or_default();
                *sum = sum.saturating_add(value);
            }),
            Err(why) => return Fact::unknown(why),
        }
    }
    let counter = |(name, value)| Counter {
        name,
        value,
        saturates_at: None,
    };
    let from = format!("ethtool -S {}", names.join(", "));
    Fact::known(sums.into_iter().map(counter).collect(), from)
}

/// All that the driver of an interface counts.
fn statistics(interface: &str) -> Result<Vec<(String, u64)>, String> {
    let all = Ethtool::new(interface).and_then(|ethtool| ethtool.stats());
    // The library loses what the system said.
    all.map_err(|_| format!("the driver of {interface} has no statistics (ethtool -S {interface})"))
}

/// Those of pauses among them.
fn frames(interface: &str, all: Vec<(String, u64)>) -> Result<Vec<(String, u64)>, String> {
    let counted: Vec<_> = all
        .into_iter()
        .filter(|(name, _)| counts_frames(name))
        .collect();
    match counted.is_empty() {
        true => Err(format!(
            "the driver of {interface} counts no pauses (some do only where PFC or pauses are on)"
        )),
        false => Ok(counted),
    }
}

/// Intel's drivers have `port.` before, or `.nic` behind, what is of the whole port; cxgb4's fills its names
/// up with blanks.
fn counts_frames(name: &str) -> bool {
    let name = name.strip_prefix("port.").unwrap_or(name).trim_end();
    let name = name.strip_suffix(".nic").unwrap_or(name);
    let digit = |c: char| if c.is_ascii_digit() { '#' } else { c };
    let name: String = name.chars().map(digit).collect();
    FRAMES.binary_search(&name.as_str()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Tree, port_path};
    use super::*;

    const ROCE: [&str; 5] = [
        "4: ACTIVE",
        "5: LinkUp",
        "Ethernet",
        "400 Gb/sec (4X NDR)",
        "0x0",
    ];

    fn mlx5(layer: &str) -> Tree {
        let below = "pci0000:97/0000:97:01.0/0000:98:00.0";
        let tree = Tree::new();
        tree.function(below, "mlx5_core", "1\n")
            .device("mlx5_3", Some(below), &[])
            .port("mlx5_3", 1, ROCE)
            .netdev("eth3", Some(below), "9000", "up")
            .file(&port_path("mlx5_3", 1, "link_layer"), layer);
        tree
    }

    fn of(tree: &Tree, device: &str) -> Fact<Vec<String>> {
        let port = LocalPort {
            device: device.to_owned(),
            port: 1,
            gid_index: 3,
            gpu: None,
        };
        pausing(&tree.root(), &port)
    }

    #[test]
    fn frames_are_counted_each_once_whatever_the_driver_calls_them() {
        assert!(FRAMES.is_sorted());
        for name in [
            "rx_prio3_pause",
            "tx_global_pause",
            "rx_pfc_ena_frames_pri7",
            "tx_priority_0_xoff.nic",
            "port.rx_priority_4_xoff_rx",
            "rx_ppp3_frames         ",
            "link_xoff_rx.nic",
        ] {
            assert!(counts_frames(name), "{name}");
        }
        for name in [
            "rx_prio3_pause_duration",
            "rx_prio3_pause_transition",
            "rx_prio3_packets",
            "rx_pause_ctrl_phy",
            "rx_pfc_frames",
            "rx_priority_3_xon.nic",
            "tx_pause_storm_warning_events",
            "",
        ] {
            assert!(!counts_frames(name), "{name}");
        }
    }

    #[test]
    fn a_port_is_paused_at_its_interface_and_a_bond_at_its_members() {
        let tree = mlx5("Ethernet\n");
        assert_eq!(of(&tree, "mlx5_3").value().unwrap(), &["eth3"]);
        tree.gid(
            "mlx5_3",
            3,
            "0000:0000:0000:0000:0000:ffff:0a01:0007",
            "RoCE v2",
            "bond0",
        )
        .file("sys/class/net/bond0/bonding/slaves", "eth4 eth5\n");
        assert_eq!(of(&tree, "mlx5_3").value().unwrap(), &["eth4", "eth5"]);
    }

    #[test]
    fn infiniband_has_none_and_a_name_that_is_a_path_is_refused() {
        let tree = mlx5("InfiniBand\n");
        let why = |device| of(&tree, device).why_unknown().map(str::to_owned).unwrap();
        assert!(why("mlx5_3").contains("credits"));
        assert_eq!(why("../../etc"), "not the name of an RDMA device");
    }

    #[test]
    fn what_no_driver_counts_is_unknown_and_not_nothing() {
        let at = |root: &Root, name: &str| {
            let counted = pauses(root, &Fact::known(vec![name.to_owned()], "test"));
            counted.why_unknown().map(str::to_owned).unwrap()
        };
        assert!(at(&mlx5("Ethernet\n").root(), "eth3").contains("not the live system"));
        // Loopback has no statistics of its own, in any kernel.
        let why = at(&Root::live(), "lo");
        assert!(why.contains("the driver of lo"), "{why}");
        let others = vec![("rx_packets".to_owned(), 7)];
        let why = frames("eth3", others).unwrap_err();
        assert!(why.contains("counts no pauses"), "{why}");
        let all = vec![("rx_prio3_pause".to_owned(), 7), ("tx_bytes".to_owned(), 9)];
        assert_eq!(
            frames("eth3", all).unwrap(),
            [("rx_prio3_pause".to_owned(), 7)]
        );
    }
}
