//! RDMA over reliable connections: prepare, connect, run, verify.

mod ends;
mod engine;
mod ping_pong;
mod serve;

use std::sync::atomic::AtomicBool;

use crate::model::{
    Completion as CompletionKind, Endpoint, Fact, Gid, LocalPort, Measure, MemoryKind, ProbeKind,
    ProbeSpec, QueuePairAddress, Registration, RemoteMemory, Role,
};
use crate::verbs::{
    CompletionMode, CompletionQueue, Device, MemoryOptions, MemoryRegion, Port, ProtectionDomain,
    QueuePair, QueuePairConfig, RemoteQueue, VerbsError, state::Initialised,
};

use super::cpu::{HostClock, ThreadClock, rest};
use super::error::ProbeError;
use super::memory::{Obtained, obtain};
use super::meter::micros;
use super::pattern::Pattern;
use super::peer::{check_memory, path_to};
use super::shape::Shape;
pub(super) use ends::Connected;
use ends::{Ends, Still};
use serve::Serving;

/// Bytes that are made or compared at a time: fits the caches, and a multiple of 8.
const CHUNK: usize = 256 * 1024;
/// Bytes that a ping-pong sends with the request where the device takes as many: as perftest does.
const INLINE: u32 = 220;
/// RDMA reads in flight on a queue pair; devices do 16 and more.
const MOST_READS: u8 = 16;
/// Messages of a ping-pong that may be on their way without an acknowledgement: the answer may be
/// quicker than that.
const BALLS: u32 = 16;
/// Receives that are posted beyond the messages in flight, as a multiple of these: the target may be
/// late by that much before the initiator has to try again.
const RECEIVES: u32 = 2;

/// Whether PCIe writes into the memory may overtake each other, where library and device know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ordering {
    /// They may, but in a ping-pong, where somebody watches the last byte.
    Relaxed,
    /// They may not.
    Strict,
}

/// What is done, of what was asked for.
#[derive(Debug, Clone, Copy)]
struct Job {
    shape: Shape,
    kind: ProbeKind,
    ping_pong: bool,
    role: Role,
    completion: CompletionKind,
    memory: MemoryKind,
    account: bool,
}

impl Job {
    fn new(spec: &ProbeSpec, role: Role) -> Result<Self, ProbeError> {
        let refused = |why: &str| Err(ProbeError::Spec { why: why.into() });
        let shape = Shape::new(spec)?;
        let ping_pong = spec.measure == Measure::PingPong;
        if let Some(why) = not_on_a_gpu(spec) {
            return refused(why);
        }
        let one_way = !matches!(spec.kind, ProbeKind::RdmaWrite | ProbeKind::RdmaSend);
        if ping_pong && (one_way || shape.queue_pairs != 1) {
            return refused("a ping-pong is played by RDMA write or send, on one queue pair");
        }
        Ok(Self {
            shape,
            kind: spec.kind,
            ping_pong,
            role,
            completion: spec.completion,
            memory: spec.memory,
            account: spec.account,
        })
    }

    /// Bytes of this end's memory: what goes out and what comes in are apart in a ping-pong.
    fn buffer(&self) -> usize {
        match self.ping_pong {
            true => 2 * self.incoming(),
            false => self.shape.buffer(),
        }
    }

    /// Where a message comes in, in a ping-pong: not in a cache line of what goes out.
    fn incoming(&self) -> usize {
        (self.shape.message as usize).next_multiple_of(64)
    }

    /// Whether this end is where the data comes from.
    fn is_source(&self) -> bool {
        (self.role == Role::Target) == (self.kind == ProbeKind::RdmaRead)
    }

    /// Whether receives are posted at this end.
    fn receives(&self) -> bool {
        match self.kind {
            ProbeKind::RdmaSend => self.ping_pong || self.role == Role::Target,
            ProbeKind::RdmaWriteImm => self.role == Role::Target,
            _ => false,
        }
    }

    /// Whether this end has something to do while the other runs.
    fn serves(&self) -> bool {
        self.role == Role::Target && (self.receives() || self.ping_pong)
    }

    /// Requests, and receives, that a queue pair holds.
    fn depths(&self) -> (u32, u32) {
        let depth = match self.ping_pong {
            true => BALLS,
            false => self.shape.depth,
        };
        let requests = match (self.role, self.ping_pong) {
            (Role::Initiator, _) | (_, true) => depth,
            (Role::Target, false) => 1,
        };
        let receives = if self.receives() { RECEIVES * depth } else { 1 };
        (requests, receives)
    }

    fn completion_mode(&self) -> CompletionMode {
        match self.completion {
            CompletionKind::Event if self.role == Role::Initiator || self.serves() => {
                CompletionMode::Event
            }
            // The target of a write never waits for a completion.
            _ => CompletionMode::BusyPoll,
        }
    }
}

/// Why a probe is not made from memory of a GPU; `None` where it is, or none is asked for.
fn not_on_a_gpu(spec: &ProbeSpec) -> Option<&'static str> {
    /// A provider may have so few bytes come with the completion, from where the processor copies
    /// them: it cannot write to a GPU (mlx5, scatter to CQE).
    const WITH_COMPLETION: u64 = 64;
    if !spec.memory.is_gpu() {
        return None;
    }
    let is_small = spec.message_size.0 <= WITH_COMPLETION;
    match spec.kind {
        _ if spec.measure == Measure::PingPong => {
            Some("a ping-pong is played in host memory, which the processor watches")
        }
        ProbeKind::RdmaWriteCopied => Some("what is copied first lies in host memory"),
        ProbeKind::RdmaRead if spec.memory == MemoryKind::GpuStaged => {
            Some("what goes by way of host memory is pushed, not fetched")
        }
        ProbeKind::RdmaRead | ProbeKind::RdmaSend if is_small => {
            Some("messages of 64 bytes and less are not received in memory of a GPU")
        }
        _ => None,
    }
}

/// Opens the device, registers memory and makes the queue pairs of one end.
///
/// The buffer of the end that data comes from holds the pattern of `nonce`; the other's holds its
/// inverse, so that nothing that failed to land looks as if it had.
pub(super) fn prepare(
    spec: &ProbeSpec,
    role: Role,
    port: &LocalPort,
    nonce: u64,
    ordering: Ordering,
) -> Result<Prepared, ProbeError> {
    let job = Job::new(spec, role)?;
    let link = open(port)?;
    let limits = check_limits(&link.device, &job)?;
    let domain = ProtectionDomain::new(&link.device)?;
    let pattern = Pattern::new(nonce);
    let options = MemoryOptions {
        huge_pages: job.memory == MemoryKind::HostHuge,
        remote_read: job.kind == ProbeKind::RdmaRead,
        in_order: job.ping_pong || ordering == Ordering::Strict,
    };
    let mut obtained = obtain(&domain, job.memory, port, job.buffer(), options)?;
    if !job.ping_pong {
        write_pattern(&mut obtained, pattern, &job)?;
    }
    let completions = CompletionQueue::new(&link.device, limits.entries, job.completion_mode())?;
    let config = QueuePairConfig {
        port: port.port,
        depth: job.depths().0,
        receives: job.depths().1,
        inline_bytes: if job.ping_pong { INLINE } else { 0 },
        reads: limits.reads,
        remote_read: job.kind == ProbeKind::RdmaRead,
        packet_sequence: 0,
    };
    let queue_pairs = make_queue_pairs(&domain, &completions, &job, config)?;
    let endpoint = endpoint(&link, &queue_pairs, &obtained.region, limits.reads);
    Ok(Prepared {
        queue_pairs,
        completions,
        memory: obtained,
        endpoint,
        job,
        pattern,
        nonce,
        link,
    })
}

/// The local device, and the port and GID that are used of it.
struct Link {
    device: Device,
    port: Port,
    gid: Gid,
    gid_index: u8,
}

/// Opens the device and looks at the port, which must be active, and its GID.
fn open(port: &LocalPort) -> Result<Link, ProbeError> {
    let spec_error = |why| ProbeError::Spec { why };
    let gid_index = u8::try_from(port.gid_index)
        .map_err(|_| spec_error(format!("GID index {} is above 255", port.gid_index)))?;
    let device = Device::open(&port.device)?;
    if device.is_iwarp() {
        let name = device.name();
        return Err(spec_error(format!(
            "{name} speaks iWARP; only RoCE and InfiniBand are probed"
        )));
    }
    let active = device.active_port(port.port)?;
    let gid = device.gid(port.port, gid_index)?;
    Ok(Link {
        device,
        port: active,
        gid,
        gid_index,
    })
}

/// What the peer needs to know of this end.
fn endpoint(
    link: &Link,
    queues: &[QueuePair<Initialised>],
    memory: &MemoryRegion,
    reads: u8,
) -> Endpoint {
    let address = |q: &QueuePair<_>| QueuePairAddress {
        number: q.number(),
        psn: q.packet_sequence(),
    };
    Endpoint {
        lid: link.port.lid,
        gid: link.gid,
        mtu: link.port.active_mtu.bytes(),
        queue_pairs: queues.iter().map(address).collect(),
        memory: RemoteMemory {
            address: memory.address(),
            rkey: memory.remote_key(),
            length: memory.len() as u64,
        },
        registration_us: micros(memory.registration_time()),
        tcp: None,
        reads,
    }
}

/// What the device does of the job.
struct Limits {
    /// Entries of the completion queue.
    entries: u32,
    /// RDMA reads in flight on a queue pair.
    reads: u8,
}

/// Compares the job with the device's limits.
///
/// The completion queue has room for every request and receive: those of a broken queue pair all
/// complete, unsignalled ones too.
fn check_limits(device: &Device, job: &Job) -> Result<Limits, ProbeError> {
    let limits = device.limits()?;
    let (requests, receives) = job.depths();
    let deepest = requests.max(receives);
    let entries = (requests + receives).saturating_mul(job.shape.queue_pairs);
    for (what, limit, asked) in [
        (
            "work requests per queue pair",
            limits.work_requests,
            deepest,
        ),
        (
            "completion queue entries",
            limits.completion_entries,
            entries,
        ),
        ("queue pairs", limits.queue_pairs, job.shape.queue_pairs),
    ] {
        if asked > limit {
            let (limit, asked) = (u64::from(limit), u64::from(asked));
            let device = device.name().to_owned();
            return Err(VerbsError::BeyondDeviceLimit {
                device,
                what,
                limit,
                asked,
            }
            .into());
        }
    }
    let reads = match job.kind {
        ProbeKind::RdmaRead => limits.reads.min(MOST_READS),
        _ => 1,
    };
    Ok(Limits { entries, reads })
}

fn make_queue_pairs(
    domain: &ProtectionDomain,
    completions: &CompletionQueue,
    job: &Job,
    config: QueuePairConfig,
) -> Result<Vec<QueuePair<Initialised>>, ProbeError> {
    (0..job.shape.queue_pairs)
        .map(|_| {
            // Random, so that packets of an earlier connection with this number are not taken.
            let config = QueuePairConfig {
                packet_sequence: rand::random(),
                ..config
            };
            Ok(QueuePair::new(domain, completions, config)?)
        })
        .collect()
}

/// Fills the memory: where data comes from with the pattern, elsewhere with its inverse. Host memory
/// that data only passes through gets the inverse, so that a copy that was not made is seen.
fn write_pattern(memory: &mut Obtained, pattern: Pattern, job: &Job) -> Result<(), ProbeError> {
    let length = job.buffer();
    let mut chunk = vec![0; CHUNK.min(length)];
    for offset in (0..length).step_by(CHUNK) {
        let part = &mut chunk[..CHUNK.min(length - offset)];
        if let Some(stage) = &memory.stage {
            fill(pattern, job.is_source(), offset, part);
            stage.write(offset, part)?;
        }
        fill(
            pattern,
            job.is_source() && memory.stage.is_none(),
            offset,
            part,
        );
        memory.region.copy_in(offset, part)?;
    }
    Ok(())
}

fn fill(pattern: Pattern, is_source: bool, offset: usize, bytes: &mut [u8]) {
    match is_source {
        true => pattern.fill(offset, bytes),
        false => pattern.fill_inverse(offset, bytes),
    }
}

/// One end, ready to be connected.
pub(super) struct Prepared {
    // Dropped in this order: what uses the memory before the memory.
    queue_pairs: Vec<QueuePair<Initialised>>,
    completions: CompletionQueue,
    memory: Obtained,
    endpoint: Endpoint,
    job: Job,
    pattern: Pattern,
    nonce: u64,
    link: Link,
}

impl Prepared {
    /// What the peer needs to know.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Takes every queue pair to ready to send, towards the peer's.
    pub fn connect(
        self,
        peer: &Endpoint,
        cpus: Vec<u32>,
        stop: &AtomicBool,
    ) -> Result<Connected, ProbeError> {
        let path = path_to(
            peer,
            &self.endpoint,
            self.link.port.link_layer,
            self.link.gid_index,
        )?;
        if self.job.role == Role::Initiator || self.job.ping_pong {
            check_memory(peer, self.job.buffer())?;
        }
        let queue_pairs = self
            .queue_pairs
            .into_iter()
            .zip(&peer.queue_pairs)
            .map(|(own, theirs)| {
                let remote = RemoteQueue {
                    number: theirs.number,
                    packet_sequence: theirs.psn,
                    reads: peer.reads,
                };
                own.ready_to_receive(remote, &path)?.ready_to_send()
            })
            .collect::<Result<Vec<_>, VerbsError>>()?;
        let registration = Registration {
            us: self.endpoint.registration_us,
            bytes: self.memory.region.len() as u64,
            page_bytes: self.memory.region.page_size() as u64,
        };
        let staging = ends::staging(&self.job, self.pattern);
        let mut ends = Ends {
            queue_pairs,
            completions: self.completions,
            memory: self.memory.region,
            stage: self.memory.stage,
            used: self.memory.used,
            remote: peer.memory,
            mtu: path.facts.mtu.bytes(),
            job: self.job,
            pattern: self.pattern,
            registration,
            staging,
            cpus,
            nonce: self.nonce,
            done: Vec::new(),
        };
        ends.post_first_receives()?;
        let idle = match ends.job.account && ends.job.role == Role::Target {
            true => rest(stop),
            false => Fact::default(),
        };
        match ends.job.serves() {
            true => Ok(Connected::Serving(Serving::start(ends, idle)?)),
            false => Ok(Connected::Still(Box::new(Still {
                host: HostClock::now(),
                thread: ThreadClock::start(ends.job.account)?,
                idle,
                ends,
            }))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Bytes;
    use crate::probe::shape::tests::spec;

    #[test]
    fn what_a_processor_would_have_to_touch_is_not_asked_of_a_gpu() {
        let on_gpu = |kind, size| ProbeSpec {
            kind,
            memory: MemoryKind::Gpu,
            message_size: Bytes(size),
            ..spec(size, 16, 1, 1000)
        };
        for kind in [
            ProbeKind::RdmaWrite,
            ProbeKind::RdmaRead,
            ProbeKind::RdmaSend,
        ] {
            assert_eq!(not_on_a_gpu(&on_gpu(kind, 65_536)), None, "{kind:?}");
        }
        assert_eq!(not_on_a_gpu(&on_gpu(ProbeKind::RdmaWrite, 8)), None);
        assert!(not_on_a_gpu(&on_gpu(ProbeKind::RdmaSend, 64)).is_some());
        assert!(not_on_a_gpu(&on_gpu(ProbeKind::RdmaWriteCopied, 4096)).is_some());
        let staged = ProbeSpec {
            memory: MemoryKind::GpuStaged,
            ..on_gpu(ProbeKind::RdmaRead, 4096)
        };
        assert!(not_on_a_gpu(&staged).is_some());
        let ball = ProbeSpec {
            measure: Measure::PingPong,
            ..on_gpu(ProbeKind::RdmaSend, 4096)
        };
        let refused = Job::new(&ball, Role::Target)
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("played in host memory"), "{refused}");
        let host = ProbeSpec {
            memory: MemoryKind::Host,
            ..ball
        };
        assert!(Job::new(&host, Role::Target).is_ok());
    }
}
