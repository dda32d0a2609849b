//! Which counters of a port are watched, and what they count. Pure: from what the survey found.

use std::path::{Path, PathBuf};

use crate::model::{
    Counters, Fact, LinkLayer, Netdev, Port, PortLayout, Quantity, RdmaDevice, Series, Uncounted,
};

/// A counter that may count a quantity: the set it is in, its name, what one step stands for.
struct Candidate {
    set: Set,
    name: &'static str,
    unit: u32,
}

/// Where a counter lies.
#[derive(Clone, Copy, PartialEq)]
enum Set {
    /// `counters` or `counters_ext` of the port.
    Port,
    /// `hw_counters` of the port.
    Driver,
    /// `statistics` of the network interface.
    Netdev,
}

const fn port(name: &'static str) -> Candidate {
    of(Set::Port, name, 1)
}

/// PortXmitData and PortRcvData count octets divided by 4 (InfiniBand Architecture Specification,
/// volume 1, 16.1.3.5); drivers keep to that on Ethernet.
const fn words(name: &'static str) -> Candidate {
    of(Set::Port, name, 4)
}

const fn driver(name: &'static str) -> Candidate {
    of(Set::Driver, name, 1)
}

const fn netdev(name: &'static str) -> Candidate {
    of(Set::Netdev, name, 1)
}

const fn of(set: Set, name: &'static str, unit: u32) -> Candidate {
    Candidate { set, name, unit }
}

/// The first of these that is there counts. EFA and bnxt_re count in hw_counters.
const TX_BYTES: &[Candidate] = &[
    words("port_xmit_data_64"),
    words("port_xmit_data"),
    driver("tx_bytes"),
];
const RX_BYTES: &[Candidate] = &[
    words("port_rcv_data_64"),
    words("port_rcv_data"),
    driver("rx_bytes"),
];
const TX_PACKETS: &[Candidate] = &[
    port("port_xmit_packets_64"),
    port("port_xmit_packets"),
    driver("tx_pkts"),
];
const RX_PACKETS: &[Candidate] = &[
    port("port_rcv_packets_64"),
    port("port_rcv_packets"),
    driver("rx_pkts"),
];

/// All of these that are there count. The two fields of 4 bits are left out: they are full after 15
/// events, often for good, and what they count is among port_rcv_errors.
const ERRORS: &[Candidate] = &[
    port("symbol_error"),
    port("link_error_recovery"),
    port("link_downed"),
    port("port_rcv_errors"),
    netdev("rx_crc_errors"),
];
const DISCARDS: &[Candidate] = &[
    port("port_xmit_discards"),
    port("VL15_dropped"),
    driver("out_of_buffer"),
    driver("rx_drops"),
];
/// mlx5; bnxt_re; EFA; rxe.
const RETRANSMISSIONS: &[Candidate] = &[
    driver("out_of_sequence"),
    driver("packet_seq_err"),
    driver("implied_nak_seq_err"),
    driver("local_ack_timeout_err"),
    driver("rnr_nak_retry_err"),
    driver("roce_adp_retrans"),
    driver("to_retransmits"),
    driver("seq_err_naks_rcvd"),
    driver("retrans_pkts"),
    driver("out_of_seq_request"),
    driver("rcvd_seq_err"),
    driver("completer_retry_err"),
];
const WAITS: &[Candidate] = &[port("port_xmit_wait")];
/// mlx5; bnxt_re; irdma.
const CNPS_SENT: &[Candidate] = &[
    driver("np_cnp_sent"),
    driver("tx_cnp_pkts"),
    driver("cnpSent"),
];
const CNPS_HANDLED: &[Candidate] = &[
    driver("rp_cnp_handled"),
    driver("rx_cnp_pkts"),
    driver("cnpHandled"),
];

/// Software RDMA has no counters of its data: those of the network interface below it, where all
/// of it passes, with everything else that passes there.
const SOFTWARE: &[(Quantity, &[Candidate])] = &[
    (Quantity::TxBytes, &[netdev("tx_bytes")]),
    (Quantity::RxBytes, &[netdev("rx_bytes")]),
    (Quantity::TxPackets, &[netdev("tx_packets")]),
    (Quantity::RxPackets, &[netdev("rx_packets")]),
    (
        Quantity::Errors,
        &[netdev("tx_errors"), netdev("rx_errors")],
    ),
    (
        Quantity::Discards,
        &[netdev("tx_dropped"), netdev("rx_dropped")],
    ),
    (Quantity::Retransmissions, RETRANSMISSIONS),
];

const HARDWARE: &[(Quantity, &[Candidate])] = &[
    (Quantity::TxBytes, TX_BYTES),
    (Quantity::RxBytes, RX_BYTES),
    (Quantity::TxPackets, TX_PACKETS),
    (Quantity::RxPackets, RX_PACKETS),
    (Quantity::Errors, ERRORS),
    (Quantity::Discards, DISCARDS),
    (Quantity::Retransmissions, RETRANSMISSIONS),
    (Quantity::Waits, WAITS),
    (Quantity::CnpsSent, CNPS_SENT),
    (Quantity::CnpsHandled, CNPS_HANDLED),
];

/// Quantities of which one counter tells everything.
fn is_single(quantity: Quantity) -> bool {
    matches!(
        quantity,
        Quantity::TxBytes | Quantity::RxBytes | Quantity::TxPackets | Quantity::RxPackets
    )
}

/// What of a port is watched. The directory of each counter is where the survey found its set.
pub(super) fn of_port(device: &RdmaDevice, port: &Port) -> PortLayout {
    let table = match device.software {
        Some(_) => SOFTWARE,
        None => HARDWARE,
    };
    let mut layout = PortLayout {
        device: device.name.clone(),
        port: port.number,
        software: device.software,
        ..PortLayout::default()
    };
    for quantity in Quantity::ALL {
        let row = table.iter().find(|(listed, _)| listed == quantity);
        let candidates = row.map_or(&[][..], |(_, candidates)| *candidates);
        let found = candidates.iter().filter_map(|c| series(port, *quantity, c));
        let most = if is_single(*quantity) { 1 } else { usize::MAX };
        let before = layout.series.len();
        layout.series.extend(found.take(most));
        if layout.series.len() == before {
            layout.uncounted.push(Uncounted {
                quantity: *quantity,
                why: why_not(device, port, *quantity, candidates),
            });
        }
    }
    layout
}

fn series(port: &Port, quantity: Quantity, candidate: &Candidate) -> Option<Series> {
    let (counters, dir) = known(set(port, candidate.set)?)?;
    let counter = counters.get(candidate.name)?;
    Some(Series {
        quantity,
        from: file(dir, candidate.name).display().to_string(),
        unit: candidate.unit,
        saturates_at: counter.saturates_at,
    })
}

/// The wide counters of older kernels lie beside the others.
fn file(dir: &Path, name: &str) -> PathBuf {
    match name.ends_with("_64") {
        true => dir.with_file_name("counters_ext").join(name),
        false => dir.join(name),
    }
}

fn set(port: &Port, set: Set) -> Option<&Fact<Counters>> {
    match set {
        Set::Port => Some(&port.counters),
        Set::Driver => Some(&port.hw_counters),
        Set::Netdev => port.netdev.value().map(|netdev: &Netdev| &netdev.counters),
    }
}

fn known(set: &Fact<Counters>) -> Option<(&Counters, &Path)> {
    match set {
        Fact::Known { value, from } => Some((value, Path::new(from.as_str()))),
        Fact::Unknown { .. } => None,
    }
}

fn why_not(
    device: &RdmaDevice,
    port: &Port,
    quantity: Quantity,
    candidates: &[Candidate],
) -> String {
    let on_infiniband = port.link_layer.value() == Some(&LinkLayer::InfiniBand);
    match quantity {
        Quantity::Pauses if on_infiniband => "InfiniBand has credits instead of pauses".into(),
        // The kernel's DCB interface shows them without ioctl, but mlx5 fills it in from what the last
        // `ethtool -S` read: a zero from there would mean nothing.
        Quantity::Pauses => {
            "sysfs does not count pauses (prio*_pause of `ethtool -S` does)".to_owned()
        }
        Quantity::CnpsSent | Quantity::CnpsHandled if on_infiniband => {
            "InfiniBand has no such notifications".into()
        }
        _ if candidates.is_empty() => "software RDMA does not count them".into(),
        _ => not_counted(device, port, candidates),
    }
}

/// Why none of the candidates is there: the directory's reason, the driver's, or their absence.
fn not_counted(device: &RdmaDevice, port: &Port, candidates: &[Candidate]) -> String {
    let mut sets = candidates.iter().map(|candidate| candidate.set);
    let first = sets.next().unwrap_or(Set::Port);
    let Some(fact) = set(port, first) else {
        let why = port.netdev.why_unknown().unwrap_or_default();
        return format!("its network interface is unknown: {why}");
    };
    let counters = match fact {
        Fact::Known { value, .. } => value,
        Fact::Unknown { why } => return why.to_string(),
    };
    let unread = counters.unread.iter().find(|unread| {
        let named = |name: &String| candidates.iter().any(|c| c.name == name);
        unread.names.iter().any(named)
    });
    match (unread, device.driver.value()) {
        (Some(unread), _) => unread.why.clone(),
        (None, Some(driver)) => format!("the driver {driver} does not count them"),
        (None, None) => "the driver does not count them".into(),
    }
}
