//! What moving data costs in a simulated cluster. Every number is made up, in proportions that are often
//! seen: one core carries about 8 Gb/s of TCP where it receives, and half of what sending takes is the
//! copy; RDMA costs by the message and not by the byte.

use crate::model::{
    Bytes, Checked, Completion, CpuUse, Fact, Gbps, Grown, HostCpu, IdleCpu, Measure, Measurement,
    MemoryKind, PingPong, ProbeKind, ProbeSpec, Registration, Role, TcpFacts, Verification,
    ZeroCopy,
};

/// Where such facts are from.
const SOURCE: &str = "the scenario";

/// How long a host is looked at while it is idle, in microseconds, and what it spends then, in cores.
const IDLE_US: u64 = 500_000;
const IDLE_CORES: f64 = 0.02;

/// What a copy takes in nanoseconds per KiB: 10 GB/s.
const COPY: f64 = 102.4;

/// What TCP takes to and fro beside what the wire takes, in nanoseconds.
const TCP_WAY_NS: u64 = 14_000;

/// What an end spends, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Price {
    /// On each message, as user and as system time.
    message: [f64; 2],
    /// On each KiB, as user time, system time and in software interrupts.
    kib: [f64; 3],
}

impl Price {
    /// User time, system time and software interrupts per KiB, of messages of this size.
    fn per_kib(self, message: Bytes) -> [f64; 3] {
        let messages = 1024.0 / message.0.max(1) as f64;
        let [user, system, softirq] = self.kib;
        [
            user + self.message[0] * messages,
            system + self.message[1] * messages,
            softirq,
        ]
    }
}

/// A completion is posted for in 200 ns and woken for in 300 ns.
const POSTED: [f64; 2] = [200.0, 300.0];

/// What the initiator pays, and the target.
fn prices(kind: ProbeKind) -> [Price; 2] {
    let none = Price::default();
    let posts = Price {
        message: POSTED,
        ..none
    };
    let receives = Price {
        message: [300.0, 300.0],
        ..none
    };
    let tcp_receiver = Price {
        message: [0.0; 2],
        kib: [24.0, 500.0, 500.0],
    };
    let tcp_sender = |system| Price {
        message: [50.0, 350.0],
        kib: [20.0, system, 200.0],
    };
    match kind {
        ProbeKind::RdmaWrite | ProbeKind::RdmaRead => [posts, none],
        ProbeKind::RdmaSend | ProbeKind::RdmaWriteImm => [posts, receives],
        ProbeKind::RdmaWriteCopied => {
            let kib = [COPY, 0.0, 0.0];
            [Price { kib, ..posts }, none]
        }
        ProbeKind::Tcp => [tcp_sender(600.0), tcp_receiver],
        ProbeKind::TcpZeroCopy => [tcp_sender(190.0), tcp_receiver],
    }
}

/// What is left of a link's rate where a thread for each TCP connection, or one for all RDMA, drives it.
pub(super) fn driven(rate: Gbps, spec: &ProbeSpec) -> Gbps {
    if !spec.account && !spec.kind.is_tcp() {
        return rate;
    }
    let threads = match spec.kind.is_tcp() {
        true => f64::from(spec.queue_pairs),
        false => 1.0,
    };
    let of_thread = |price: Price| {
        let [user, system, _] = price.per_kib(spec.message_size);
        8192.0 / (user + system).max(1e-3)
    };
    let most = prices(spec.kind).map(of_thread);
    Gbps(rate.0.min(most[0] * threads).min(most[1] * threads))
}

/// Puts into a measurement what belongs to its way of moving data.
pub(super) fn settle(measured: &mut Measurement, spec: &ProbeSpec, way_ns: u64) {
    if spec.account {
        measured.cpu = spent(measured.total_bytes, spec, Role::Initiator);
    }
    if spec.measure == Measure::PingPong {
        measured.ping_pong = Some(to_and_fro(spec, way_ns));
    }
    if spec.kind == ProbeKind::RdmaRead {
        let bytes = 1 << 20;
        measured.fetched = Some(Checked { bytes, wrong: 0 });
    }
    if spec.kind.is_tcp() {
        measured.tcp = Some(Box::new(tcp(measured.total_bytes, spec)));
    } else if spec.account {
        measured.registration = Some(registration(spec));
    }
}

/// What holds a sender back where others send to its receiver: the link waits for credits that often,
/// and TCP loses a segment in a hundred thousand.
pub(super) fn hold_back(measured: &mut Measurement, spec: &ProbeSpec, others: u32) {
    if others == 0 {
        return;
    }
    if let Some(tcp) = &mut measured.tcp {
        tcp.retransmits = measured.total_bytes / 8948 / 100_000;
        return;
    }
    // A tick for each word of four bytes that others send meanwhile.
    let ticks = measured.total_bytes / 4 * u64::from(others);
    let waits = Grown {
        name: "port_xmit_wait".to_owned(),
        by: Some(ticks),
    };
    if spec.kind == ProbeKind::RdmaWrite {
        measured.counters = Fact::known(vec![waits], SOURCE);
    }
}

/// The same at the target.
pub(super) fn settle_target(verified: &mut Verification, total_bytes: u64, spec: &ProbeSpec) {
    if spec.account {
        let spent = spent(total_bytes, spec, Role::Target);
        verified.cpu = Fact::known(spent, SOURCE);
    }
}

fn spent(total_bytes: u64, spec: &ProbeSpec, role: Role) -> CpuUse {
    let elapsed_us = u64::from(spec.duration_ms) * 1000;
    let price = prices(spec.kind)[usize::from(role == Role::Target)];
    let kib = total_bytes as f64 / 1024.0;
    let [user, system, softirq] = price.per_kib(spec.message_size).map(|ns| ns * kib / 1e3);
    // Whoever polls spends a core, whatever there is to do.
    let polls = spec.completion == Completion::Poll && role == Role::Initiator;
    let [user, system] = match polls {
        true => [elapsed_us as f64, 0.0],
        false => [user, system],
    };
    let idle = |us: u64| (us as f64 * IDLE_CORES) as u64;
    let host = |user, system, softirq| HostCpu {
        user_us: user,
        system_us: system,
        softirq_us: softirq,
        irq_us: Some(0),
    };
    let busy = user as u64 + idle(elapsed_us);
    let before = IdleCpu {
        elapsed_us: IDLE_US,
        host: host(idle(IDLE_US), 0, 0),
    };
    CpuUse {
        user_us: user as u64,
        system_us: system as u64,
        host: Fact::known(host(busy, system as u64, softirq as u64), SOURCE),
        elapsed_us: Fact::known(elapsed_us, SOURCE),
        idle: Fact::known(before, SOURCE),
        cycles: Fact::unknown("the host is simulated"),
    }
}

/// Half of the way to and fro; the wire takes what 100 Gb/s take.
fn to_and_fro(spec: &ProbeSpec, way_ns: u64) -> PingPong {
    let kernel = match spec.kind {
        kind if kind.is_tcp() => TCP_WAY_NS,
        ProbeKind::RdmaSend => 150,
        _ => 0,
    };
    let bytes = spec.message_size.0;
    let min_ns = way_ns / 2 + kernel + bytes.saturating_mul(8) / 100;
    let times = |percent: u64| min_ns + min_ns * percent / 100;
    PingPong {
        bytes,
        min_ns,
        median_ns: times(8),
        p99_ns: times(60),
        p999_ns: times(240),
        max_ns: times(900),
        samples: u64::from(spec.duration_ms) * 500_000 / min_ns.max(1),
    }
}

fn tcp(total_bytes: u64, spec: &ProbeSpec) -> TcpFacts {
    let sends = total_bytes / spec.message_size.0.max(1);
    TcpFacts {
        mss: 8948,
        congestion: "cubic".to_owned(),
        retransmits: 0,
        offloads: Fact::known(["tso", "gso", "gro"].map(str::to_owned).to_vec(), SOURCE),
        zero_copy: (spec.kind == ProbeKind::TcpZeroCopy).then_some(ZeroCopy {
            completed: sends,
            copied: 0,
        }),
    }
}

/// 60 µs for each MiB of pages of 4 KiB, and 2 µs for a huge page.
fn registration(spec: &ProbeSpec) -> Registration {
    let messages = u64::from(spec.depth) * u64::from(spec.queue_pairs);
    let bytes = spec.message_size.0.saturating_mul(messages).max(1);
    let mib = bytes.div_ceil(1 << 20);
    let (us, page_bytes) = match spec.memory {
        MemoryKind::HostHuge => (mib, 2 << 20),
        _ => (mib * 60, 4096),
    };
    Registration {
        us,
        bytes,
        page_bytes,
    }
}
