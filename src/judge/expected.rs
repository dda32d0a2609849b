//! What a pair should reach: line rate times what is left of it after packet headers.

use super::cast::Cast;
use crate::ledger::{Ledger, PortBrief, Probe};
use crate::model::{Fact, Gbps, Gid, LinkLayer, NicId, Pair, Port, Route};

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
    let Pair { from, to, .. } = &probe.planned.pair;
    let lines = [line_rate(ledger, from), line_rate(ledger, to)];
    let layer = port(ledger, from).and_then(|port| port.link_layer.value().copied());
    payload_rate(lines.each_ref(), layer, probe)
}

/// What the links of a pair that was not measured yet can carry, where all of that is known.
pub fn ceiling(ledger: &Ledger, pair: &Pair, route: &Route) -> Option<Gbps> {
    let ends = [&pair.from, &pair.to];
    let lines = ends.map(|nic| line_rate(ledger, nic));
    let line = lines[narrower(lines.each_ref())].value()?;
    let ports = [port(ledger, ends[0])?, port(ledger, ends[1])?];
    let layer = ports[0].link_layer.value().copied()?;
    let mtus = ports.map(|port| port.active_mtu.value().copied());
    let mtu = mtus[0]?.min(mtus[1]?);
    Some(Gbps(line.0 * efficiency(layer, route.from.gid, mtu)))
}

/// The same, of NICs that were looked up before.
pub(super) fn expected_of(cast: &Cast<'_>, ends: [usize; 2], probe: &Probe) -> Fact<Gbps> {
    let [from, to] = ends.map(|end| &cast.parts[end]);
    payload_rate([&from.line, &to.line], from.layer, probe)
}

/// Which of two lines bounds a pair: one that is unknown before any, then the slower.
pub(super) fn narrower(lines: [&Fact<Gbps>; 2]) -> usize {
    match lines.map(Fact::value) {
        [None, _] => 0,
        [_, None] => 1,
        [Some(from), Some(to)] => usize::from(from > to),
    }
}

fn payload_rate(lines: [&Fact<Gbps>; 2], layer: Option<LinkLayer>, probe: &Probe) -> Fact<Gbps> {
    let Some(measurement) = probe.measurement() else {
        return Fact::unknown("nothing was measured, so no path MTU is known");
    };
    let line = lines[narrower(lines)];
    let Some(rate) = line.value() else {
        return Fact::unknown(line.why_unknown().unwrap_or("no line rate is known"));
    };
    let Some(layer) = layer else {
        return Fact::unknown(format!(
            "the link layer of {} is unknown",
            probe.planned.pair.from
        ));
    };
    let share = efficiency(layer, probe.planned.route.from.gid, measurement.mtu);
    Fact::known(
        Gbps(rate.0 * share),
        format!(
            "line rate {rate} ({}), {share:.3} of it payload at path MTU {}",
            line.source().unwrap_or_default(),
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

/// The rate of a NIC's link: as the operator states it, else as the port says.
pub(super) fn line_rate(ledger: &Ledger, nic: &NicId) -> Fact<Gbps> {
    let port = ledger.number(nic).and_then(|number| ledger.port(number));
    line_rate_on(ledger, nic, port)
}

/// The same, of a port that was looked up before.
pub(super) fn line_rate_on(ledger: &Ledger, nic: &NicId, port: Option<&PortBrief>) -> Fact<Gbps> {
    let stated = ledger.settings().and_then(|s| s.expect.line_rate);
    match port {
        Some(port) => line_rate_of(nic, port, stated),
        None => stated_or(stated, || Fact::unknown(format!("{nic} was not surveyed"))),
    }
}

/// The same, of a surveyed port.
pub(super) fn line_rate_of(nic: &NicId, port: &PortBrief, stated: Option<Gbps>) -> Fact<Gbps> {
    stated_or(stated, || {
        if port.software.is_some() {
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
fn coded(port: &PortBrief) -> Fact<Gbps> {
    let infiniband = port.layer == Some(LinkLayer::InfiniBand);
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
