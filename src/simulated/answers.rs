//! What a simulated agent says.

use crate::model::{
    CpuUse, Endpoint, Fact, Gbps, LocalPort, Measurement, NodeFacts, Port, ProbeId, ProbeSpec,
    ProbeStage, QueuePairAddress, RdmaDevice, RemoteMemory, TransferEnd, Verification,
};
use crate::wire::{FromAgent, PROTOCOL};

/// What a transfer discards at its begin, in milliseconds.
const WARM_UP_MS: u32 = 50;

/// The first message.
pub(super) fn hello() -> FromAgent {
    FromAgent::Hello {
        protocol: PROTOCOL,
        linerate: env!("CARGO_PKG_VERSION").to_owned(),
        pid: 1,
    }
}

/// Instead of an answer about a probe.
pub(super) fn failed(probe: ProbeId, stage: ProbeStage, why: String) -> FromAgent {
    FromAgent::ProbeFailed { probe, stage, why }
}

/// The rail and the port that a probe is to use.
pub(super) fn find<'a>(facts: &'a NodeFacts, at: &LocalPort) -> Option<(u16, &'a Port)> {
    let devices: &[RdmaDevice] = facts.rdma.value()?;
    let (rail, device) = (0..).zip(devices).find(|(_, d)| d.name == at.device)?;
    let port = device.ports.iter().find(|port| port.number == at.port)?;
    Some((rail, port))
}

/// What a peer needs to know. Nobody connects to it, so any numbers do that can be.
pub(super) fn endpoint(port: &Port, spec: &ProbeSpec, probe: ProbeId, mtu: u32) -> Endpoint {
    let number = |n: u32| (probe.0 as u32).wrapping_mul(64).wrapping_add(n) & 0x00ff_ffff;
    let any = || std::net::Ipv6Addr::UNSPECIFIED.into();
    Endpoint {
        lid: port.lid.value().copied().unwrap_or(0),
        gid: port.gids.first().map_or_else(any, |entry| entry.gid),
        mtu,
        queue_pairs: (0..spec.queue_pairs)
            .map(|n| QueuePairAddress {
                number: number(n),
                psn: n,
            })
            .collect(),
        memory: RemoteMemory {
            address: 0x7f00_0000_0000,
            rkey: number(0),
            length: spec.message_size.0 * u64::from(spec.depth) * u64::from(spec.queue_pairs),
        },
        registration_us: 100,
    }
}

/// What the initiator of such a transfer would report.
pub(super) fn measurement(rate: Gbps, mtu: u32, spec: &ProbeSpec) -> Measurement {
    let elapsed_us = u64::from(spec.duration_ms.saturating_sub(WARM_UP_MS).max(1)) * 1000;
    let in_us = |us: u64| (rate.0 * 125.0 * us as f64) as u64;
    let bytes = in_us(elapsed_us);
    // About what a core spends on a message: 200 ns on posting it, 300 ns on being woken.
    let messages = bytes / spec.message_size.0.max(1);
    Measurement {
        bytes,
        elapsed_us,
        total_bytes: bytes + in_us(u64::from(WARM_UP_MS) * 1000),
        windows: Vec::new(),
        cpu: CpuUse {
            user_us: messages / 5,
            system_us: messages * 3 / 10,
            host: Fact::unknown("the host is simulated"),
        },
        mtu,
        counters: Fact::known(Vec::new(), "the scenario"),
        latency: Fact::unknown("latency is not simulated"),
        end: TransferEnd::TimeUp,
    }
}

/// What landed is what was sent.
pub(super) fn verified(probe: ProbeId) -> FromAgent {
    let verification = Verification {
        bytes_checked: 1 << 20,
        bytes_wrong: 0,
        counters: Fact::known(Vec::new(), "the scenario"),
    };
    FromAgent::Verified {
        probe,
        verification,
    }
}
