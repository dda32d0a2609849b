//! What a simulated agent says.

use super::cost;
use crate::config::Scenario;
use crate::model::{
    CpuUse, Endpoint, Fact, Gbps, Gid, Latency, Measurement, ProbeId, ProbeSpec, ProbeStage,
    QueuePairAddress, RemoteMemory, TransferEnd, Verification,
};
use crate::wire::{FromAgent, PROTOCOL};

/// What a transfer discards at its begin, in milliseconds.
const WARM_UP_MS: u32 = 50;

/// Why nobody knows of pauses.
const NO_PAUSES: &str = "the network is simulated";

/// How many small writes a latency is of.
const PING_PONGS: u32 = 100;

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

/// The rail of a NIC.
pub(super) fn rail(device: &str, port: u8, rails: u16) -> Option<u16> {
    let rail = device.strip_prefix("mlx5_")?.parse().ok()?;
    let there = rail < rails && port == 1 && device == Scenario::device(rail);
    there.then_some(rail)
}

/// A port: its addresses, and its MTU in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PortIs {
    pub(super) lid: u16,
    pub(super) gid: Gid,
    pub(super) mtu: u32,
}

/// What a peer needs to know. Nobody connects to it, so any numbers do that can be.
pub(super) fn endpoint(port: PortIs, spec: &ProbeSpec, probe: ProbeId) -> Endpoint {
    let number = |n: u32| (probe.0 as u32).wrapping_mul(64).wrapping_add(n) & 0x00ff_ffff;
    Endpoint {
        lid: port.lid,
        gid: port.gid,
        mtu: port.mtu,
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
        tcp: None,
        reads: 0,
    }
}

/// What a probe reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    pub(super) rate: Gbps,
    /// The shortest and the median, in nanoseconds.
    pub(super) latency: [u64; 2],
}

/// What the initiator of such a transfer would report.
pub(super) fn measurement(reached: Reached, mtu: u32, spec: &ProbeSpec) -> Measurement {
    let Reached {
        rate,
        latency: [min_ns, median_ns],
    } = reached;
    let rate = cost::driven(rate, spec);
    let elapsed_us = u64::from(spec.duration_ms.saturating_sub(WARM_UP_MS).max(1)) * 1000;
    let in_us = |us: u64| (rate.0 * 125.0 * us as f64) as u64;
    let bytes = in_us(elapsed_us);
    // About what a core spends on a message: 200 ns on posting it, 300 ns on being woken.
    let messages = bytes / spec.message_size.0.max(1);
    let latency = Latency {
        min_ns,
        median_ns,
        samples: PING_PONGS,
        completion: spec.completion,
    };
    let mut measured = Measurement {
        bytes,
        elapsed_us,
        began_us: Some(u64::from(WARM_UP_MS) * 1000),
        total_bytes: bytes + in_us(u64::from(WARM_UP_MS) * 1000),
        windows: Vec::new(),
        cpu: CpuUse {
            user_us: messages / 5,
            system_us: messages * 3 / 10,
            host: Fact::unknown("the host is simulated"),
            elapsed_us: Fact::default(),
            idle: Fact::default(),
            cycles: Fact::default(),
        },
        mtu,
        counters: Fact::known(Vec::new(), "the scenario"),
        pauses: Fact::unknown(NO_PAUSES),
        latency: Fact::known(latency, "the scenario"),
        end: TransferEnd::TimeUp,
        ping_pong: None,
        registration: None,
        tcp: None,
        fetched: None,
        memory: None,
    };
    cost::settle(&mut measured, spec, median_ns);
    measured
}

/// What landed is what was sent; of a transfer of so many bytes, warm-up included.
pub(super) fn verified(probe: ProbeId, transfer: Option<(u64, &ProbeSpec)>) -> FromAgent {
    let mut verification = Verification {
        bytes_checked: 1 << 20,
        bytes_wrong: 0,
        counters: Fact::known(Vec::new(), "the scenario"),
        pauses: Fact::unknown(NO_PAUSES),
        cpu: Fact::default(),
        memory: None,
    };
    if let Some((total_bytes, spec)) = transfer {
        cost::settle_target(&mut verification, total_bytes, spec);
    }
    FromAgent::Verified {
        probe,
        verification,
    }
}
