//! CPU time that moving data cost, at one end.

use serde::{Deserialize, Serialize};

use super::Fact;

/// CPU time spent while data moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// User time of the threads that drove this end, in microseconds.
    pub user_us: u64,
    /// System time of those threads, in microseconds.
    pub system_us: u64,
    /// What the whole host spent meanwhile, from /proc/stat.
    pub host: Fact<HostCpu>,
    /// Over how long this was, in microseconds.
    #[serde(default)]
    pub elapsed_us: Fact<u64>,
    /// What the host spent just before, while this probe was still.
    #[serde(default)]
    pub idle: Fact<IdleCpu>,
    /// Work of the processor for the threads of this end.
    #[serde(default)]
    pub cycles: Fact<Cycles>,
}

/// CPU time of a whole host over a transfer, all cores added up, from /proc/stat (10 ms ticks).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCpu {
    /// User time, nice included, in microseconds.
    pub user_us: u64,
    /// System time in microseconds, that of kernel threads with it.
    pub system_us: u64,
    /// Software interrupts in microseconds: where soft-RoCE and TCP do their work.
    pub softirq_us: u64,
    /// Interrupts in microseconds; not told by records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irq_us: Option<u64>,
}

/// What a host spent over a time in which the probe did nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleCpu {
    /// How long that was, in microseconds.
    pub elapsed_us: u64,
    /// What was spent in it.
    pub host: HostCpu,
}

/// Hardware counts of the threads of a probe, user and kernel mode together, from perf_event_open(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycles {
    /// Cycles of the cores.
    pub cycles: u64,
    /// Instructions retired.
    pub instructions: u64,
}

/// How long one message took there, or back: half of the time to and fro, as latency tools give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingPong {
    /// Bytes of a message.
    pub bytes: u64,
    /// The shortest, in nanoseconds.
    pub min_ns: u64,
    /// The median, in nanoseconds.
    pub median_ns: u64,
    /// 99 of 100 took at most so long, in nanoseconds.
    pub p99_ns: u64,
    /// 999 of 1000 took at most so long, in nanoseconds.
    pub p999_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
    /// How many times a message went to and fro.
    pub samples: u64,
}

/// What registering memory with a NIC took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// How long, in microseconds.
    pub us: u64,
    /// How much, in bytes.
    pub bytes: u64,
    /// Bytes of a page of it.
    pub page_bytes: u64,
}
