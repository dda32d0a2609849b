//! One end that is connected: moves data, or compares what landed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::model::{
    Checked, Completion as CompletionKind, CpuUse, Fact, IdleCpu, Measurement, MemoryUsed,
    ProbeKind, Registration, RemoteMemory, Role, TransferEnd, Verification,
};
use crate::probe::cpu::{HostClock, ThreadClock, cpu_use, rest};
use crate::probe::error::ProbeError;
use crate::probe::latency::latency;
use crate::probe::memory::Stage;
use crate::probe::meter::{Reading, micros};
use crate::probe::pattern::{Pattern, count_wrong};
use crate::probe::pin::Pinned;
use crate::probe::transfer::{Patience, transfer};
use crate::verbs::{Completion, CompletionQueue, MemoryRegion, QueuePair, state::ReadyToSend};

use super::serve::Serving;
use super::{CHUNK, Job};

/// Everything that an end has.
pub(in crate::probe) struct Ends {
    // Dropped in this order: what uses the memory before the memory.
    pub(super) queue_pairs: Vec<QueuePair<ReadyToSend>>,
    pub(super) completions: CompletionQueue,
    pub(super) memory: MemoryRegion,
    /// The GPU's memory behind it, where that is copied.
    pub(super) stage: Option<Stage>,
    /// What is told of it.
    pub(super) used: MemoryUsed,
    pub(super) remote: RemoteMemory,
    pub(super) mtu: u32,
    pub(super) job: Job,
    pub(super) pattern: Pattern,
    pub(super) registration: Registration,
    /// What is copied into the memory before it is sent; empty where nothing is.
    pub(super) staging: Vec<u8>,
    /// The processors nearest to the NIC.
    pub(super) cpus: Vec<u32>,
    pub(super) nonce: u64,
    pub(super) done: Vec<Completion>,
}

/// The ordinary memory that data is copied from, where that is measured.
pub(super) fn staging(job: &Job, pattern: Pattern) -> Vec<u8> {
    if job.kind != ProbeKind::RdmaWriteCopied || !job.is_source() {
        return Vec::new();
    }
    let mut staging = vec![0; job.buffer()];
    pattern.fill(0, &mut staging);
    staging
}

/// One end, connected to the other.
pub(in crate::probe) enum Connected {
    /// Its own processor has nothing to do until it is told to run, or to verify.
    Still(Box<Still>),
    /// A thread answers the initiator.
    Serving(Serving),
}

/// An end without a thread of its own: what its host spent idle, and the clocks since.
pub(in crate::probe) struct Still {
    pub(super) ends: Ends,
    pub(super) idle: Fact<IdleCpu>,
    pub(super) host: HostClock,
    pub(super) thread: ThreadClock,
}

impl Connected {
    /// Moves data for the duration of the probe, or until its rate is plain, or plays ping-pong.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<Measurement, ProbeError> {
        match self {
            Self::Still(still) if still.ends.job.role == Role::Initiator => still.ends.run(stop),
            _ => Err(ProbeError::WrongRole {
                step: "run",
                owner: "initiator",
            }),
        }
    }

    /// What landed at the target, and what its host spent.
    pub fn verify(&mut self, stop: &AtomicBool) -> Result<Verification, ProbeError> {
        match self {
            Self::Still(still) if still.ends.job.role == Role::Initiator => {
                Err(ProbeError::WrongRole {
                    step: "verify",
                    owner: "target",
                })
            }
            Self::Still(still) => {
                let host = still.host.until(&HostClock::now());
                let cpu = cpu_use(still.thread.read()?, host, still.idle.clone());
                let cpu = Fact::known(cpu, "from the connection to the end of the transfer");
                still.ends.verify(cpu, stop)
            }
            Self::Serving(serving) => {
                let (ends, cpu) = serving.end()?;
                ends.verify(cpu, stop)
            }
        }
    }
}

impl Ends {
    fn run(&mut self, stop: &AtomicBool) -> Result<Measurement, ProbeError> {
        let (job, told) = (self.job, Instant::now());
        if job.ping_pong {
            return self.play(stop);
        }
        // Small messages would shift the receives of the target against what is sent.
        let latency = match job.kind {
            ProbeKind::RdmaWrite | ProbeKind::RdmaWriteCopied => {
                latency(self, job.completion, stop, Patience::default())?
            }
            _ => Fact::unknown("only before RDMA writes"),
        };
        let idle = if job.account {
            rest(stop)
        } else {
            Fact::default()
        };
        let _pinned = self.pinned();
        let (host, mut thread) = (HostClock::now(), ThreadClock::start(job.account)?);
        let waited = told.elapsed();
        let (reading, end) = transfer(self, &job.shape, stop, Patience::default())?;
        let host = host.until(&HostClock::now());
        let cpu = cpu_use(thread.read()?, host, idle);
        let fetched = match job.kind {
            ProbeKind::RdmaRead => Some(self.check(stop)?),
            _ => None,
        };
        Ok(Measurement {
            began_us: Some(micros(waited + reading.from)),
            latency,
            end,
            fetched,
            ..self.measurement(reading, cpu)
        })
    }

    /// What is told of every run.
    pub fn measurement(&self, reading: Reading, cpu: CpuUse) -> Measurement {
        Measurement {
            bytes: reading.bytes,
            elapsed_us: micros(reading.elapsed),
            began_us: None,
            total_bytes: reading.total_bytes,
            windows: reading.windows,
            cpu,
            mtu: self.mtu,
            counters: Fact::default(),
            pauses: Fact::default(),
            latency: Fact::unknown("only before RDMA writes"),
            end: TransferEnd::TimeUp,
            ping_pong: None,
            registration: Some(self.registration),
            tcp: None,
            fetched: None,
            memory: Some(Box::new(self.used.clone())),
        }
    }

    /// The calling thread on one processor, where CPU time is accounted for. One that polls spends a core
    /// in any case, and would be in the way of what the kernel has to do on that processor: software RDMA
    /// has all of its work there.
    pub fn pinned(&self) -> Option<Pinned> {
        let pin = || Pinned::to_one_of(&self.cpus, self.nonce);
        let sleeps = self.job.completion == CompletionKind::Event;
        (self.job.account && sleeps).then(pin).flatten()
    }

    fn verify(&self, cpu: Fact<CpuUse>, stop: &AtomicBool) -> Result<Verification, ProbeError> {
        // What was fetched is at the initiator, and of a ping-pong only the last byte is looked at.
        let elsewhere = self.job.is_source() || self.job.ping_pong;
        let checked = match elsewhere {
            true => Checked { bytes: 0, wrong: 0 },
            false => self.check(stop)?,
        };
        Ok(Verification {
            bytes_checked: checked.bytes,
            bytes_wrong: checked.wrong,
            counters: Fact::default(),
            pauses: Fact::default(),
            cpu,
            memory: Some(Box::new(self.used.clone())),
        })
    }

    /// Compares every byte of the buffer with what must have landed.
    ///
    /// To be called after the transfer is over, which has written every slot. Setting `stop` ends it
    /// at once with [`ProbeError::Stopped`]: gigabytes take seconds.
    fn check(&self, stop: &AtomicBool) -> Result<Checked, ProbeError> {
        // A GPU's memory is allocated in whole pages.
        let length = self.job.buffer();
        let (mut expected, mut found) = (vec![0; CHUNK.min(length)], vec![0; CHUNK.min(length)]);
        let mut wrong = 0;
        for offset in (0..length).step_by(CHUNK) {
            if stop.load(Ordering::Relaxed) {
                return Err(ProbeError::Stopped);
            }
            let part = CHUNK.min(length - offset);
            self.pattern.fill(offset, &mut expected[..part]);
            match &self.stage {
                None => self.memory.copy_out(offset, &mut found[..part])?,
                // The second half of the way: what landed in host memory goes on to the GPU.
                Some(stage) => {
                    stage.deliver(offset, part)?;
                    stage.read(offset, &mut found[..part])?;
                }
            }
            wrong += count_wrong(&expected[..part], &found[..part]);
        }
        let bytes = length as u64;
        Ok(Checked { bytes, wrong })
    }
}
