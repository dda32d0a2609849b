//! What a pair should reach: line rate times what is left of it after packet headers.

use crate::ledger::{Ledger, Probe};
use crate::model::{Fact, Gbps, Gid, LinkLayer, NicId, Port, RdmaDevice};

/// Bytes around each packet of an RC RDMA write that are not payload.
///
/// InfiniBand: LRH 8, BTH 12, ICRC 4, VCRC 2 (InfiniBand Architecture Specification, vol. 1).
/// RoCEv2: preamble and start 8, Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4, FCS 4, gap 12
/// (IEEE 802.3; InfiniBand Annex A17); 20 more over IPv6.
fn packet_overhead(layer: LinkLayer, gid: Gid) -> u32 {
    match layer {
        LinkLayer::InfiniBand => 26,
        LinkLayer::Ethernet if gid.ipv4().is_some() => 82,
        LinkLayer::Ethernet => 102,
    }
}

/// The share of the line that is payload at this path MTU (bytes).
pub fn efficiency(layer: LinkLayer, gid: Gid, mtu: u32) -> f64 {
    let mtu = f64::from(mtu);
    mtu / (mtu + f64::from(packet_overhead(layer, gid)))
}

/// The payload rate that the links of a measured probe can carry, and where that is from.
///
/// Unknown where nobody states a line rate: software RDMA makes up its port rate.
pub fn expected(ledger: &Ledger, probe: &Probe) -> Fact<Gbps> {
    let pair = &probe.planned.pair;
    let Some(measurement) = probe.measurement() else {
        return Fact::unknown("nothing was measured, so no path MTU is known");
    };
    let (from, to) = match (line_rate(ledger, &pair.from), line_rate(ledger, &pair.to)) {
        (Fact::Unknown { why }, _) | (_, Fact::Unknown { why }) => return Fact::Unknown { why },
        (from, to) => (from, to),
    };
    let (Some(a), Some(b)) = (from.value(), to.value()) else {
        return Fact::unknown("no line rate is known");
    };
    let (rate, source) = if a <= b { (*a, &from) } else { (*b, &to) };
    let Some(layer) = link_layer(ledger, &pair.from) else {
        return Fact::unknown(format!("the link layer of {} is unknown", pair.from));
    };
    let share = efficiency(layer, probe.planned.route.from.gid, measurement.mtu);
    Fact::known(
        Gbps(rate.0 * share),
        format!(
            "line rate {rate} ({}), {share:.3} of it payload at path MTU {}",
            source.source().unwrap_or_default(),
            measurement.mtu
        ),
    )
}

fn port<'a>(ledger: &'a Ledger, nic: &NicId) -> Option<&'a Port> {
    ledger
        .device(nic)?
        .ports
        .iter()
        .find(|port| port.number == nic.port)
}

fn link_layer(ledger: &Ledger, nic: &NicId) -> Option<LinkLayer> {
    port(ledger, nic)?.link_layer.value().copied()
}

/// The rate of a NIC's link: as the operator states it, else as the port says.
pub(super) fn line_rate(ledger: &Ledger, nic: &NicId) -> Fact<Gbps> {
    let stated = ledger.settings().and_then(|s| s.expect.line_rate);
    match (ledger.device(nic), port(ledger, nic)) {
        (Some(device), Some(port)) => line_rate_of(nic, device, port, stated),
        _ => stated_or(stated, || Fact::unknown(format!("{nic} was not surveyed"))),
    }
}

/// The same, of a surveyed port.
pub(super) fn line_rate_of(
    nic: &NicId,
    device: &RdmaDevice,
    port: &Port,
    stated: Option<Gbps>,
) -> Fact<Gbps> {
    stated_or(stated, || {
        if device.software.is_some() {
            return Fact::unknown(format!(
                "{nic} is software RDMA: the rate of its port means nothing (state `line_rate` under [expect])"
            ));
        }
        match coded(port) {
            // What a node says is not proved: a rate of nothing would make every share nothing.
            Fact::Known { value, .. } if !value.is_positive() => {
                Fact::unknown(format!("{nic} states a line rate of {value}"))
            }
            rate => rate,
        }
    })
}

fn stated_or(stated: Option<Gbps>, surveyed: impl FnOnce() -> Fact<Gbps>) -> Fact<Gbps> {
    match stated {
        Some(rate) => Fact::known(rate, "line_rate in the configuration"),
        None => surveyed(),
    }
}

/// The data rate of a port: sysfs states the signalling rate of InfiniBand, of which SDR, DDR and
/// QDR spend a fifth on 8b/10b coding, and FDR a part in 64b/66b and its 14.0625 Gb/s lanes
/// (InfiniBand Trade Association, Link/Speed table). From EDR on, and on Ethernet, the two agree.
fn coded(port: &Port) -> Fact<Gbps> {
    let infiniband = port.link_layer.value() == Some(&LinkLayer::InfiniBand);
    port.rate.clone().map(|rate| {
        let share = match rate.0 {
            r if !infiniband || r > 56.0 => 1.0,
            r if r > 40.0 => 54.5 / 56.0,
            _ => 0.8,
        };
        Gbps(rate.0 * share)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of efficiencies that operators compare with.
    #[test]
    fn payload_shares_are_those_of_the_headers() {
        let v4: Gid = "::ffff:10.0.0.1".parse().unwrap();
        let v6: Gid = "fd00::1".parse().unwrap();
        for (layer, gid, mtu, share) in [
            (LinkLayer::InfiniBand, v6, 4096, 0.9937),
            (LinkLayer::InfiniBand, v6, 1024, 0.9752),
            (LinkLayer::Ethernet, v4, 4096, 0.9804),
            (LinkLayer::Ethernet, v4, 2048, 0.9615),
            (LinkLayer::Ethernet, v4, 1024, 0.9259),
            (LinkLayer::Ethernet, v6, 4096, 0.9757),
            (LinkLayer::Ethernet, v6, 1024, 0.9094),
        ] {
            let got = efficiency(layer, gid, mtu);
            assert!(
                (got - share).abs() < 5e-5,
                "{layer} {mtu}: {got}, not {share}"
            );
        }
    }
}
