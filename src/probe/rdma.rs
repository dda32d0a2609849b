//! RDMA write over reliable connections: prepare, connect, run, verify.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::model::{
    Completion as CompletionKind, Endpoint, Fact, Gid, LocalPort, Measure, Measurement, MemoryKind,
    ProbeKind, ProbeSpec, QueuePairAddress, RemoteMemory, Role, Verification,
};
use crate::verbs::{
    Completion, CompletionMode, CompletionQueue, Device, MemoryRegion, Opcode, Port,
    ProtectionDomain, QueuePair, QueuePairConfig, RemoteQueue, RemoteSlot, VerbsError, WorkRequest,
    state::{Initialised, ReadyToSend},
};

use super::cpu::CpuClock;
use super::error::ProbeError;
use super::latency::latency;
use super::meter::micros;
use super::pattern::{Pattern, count_wrong};
use super::peer::{check_memory, path_to};
use super::shape::Shape;
use super::transfer::{Engine, Patience, transfer};

/// Bytes that are made or compared at a time: fits the caches, and a multiple of 8.
const CHUNK: usize = 256 * 1024;

/// Opens the device, registers memory and makes the queue pairs of one end.
///
/// The initiator's buffer holds the pattern of `nonce`; the target's holds its inverse, so that
/// nothing that failed to land looks as if it had.
///
/// # Errors
/// The spec is out of bounds, or the device, port, GID, memory or queues cannot be had.
pub fn prepare(
    spec: &ProbeSpec,
    role: Role,
    port: &LocalPort,
    nonce: u64,
) -> Result<Prepared, ProbeError> {
    if spec.kind != ProbeKind::RdmaWrite || spec.measure != Measure::Rate {
        let why = "only the rate of RDMA writes can be measured".to_owned();
        return Err(ProbeError::Spec { why });
    }
    if spec.memory != MemoryKind::Host {
        let why = "only host memory in pages of the usual size can be registered".to_owned();
        return Err(ProbeError::Spec { why });
    }
    let shape = Shape::new(spec)?;
    let link = open(port)?;
    let entries = check_limits(&link.device, &shape, role)?;
    let domain = ProtectionDomain::new(&link.device)?;
    let pattern = Pattern::new(nonce);
    let mut memory = MemoryRegion::new(&domain, shape.buffer())?;
    write_pattern(&mut memory, pattern, role)?;
    let completions = CompletionQueue::new(&link.device, entries, completion_mode(spec, role))?;
    let queue_pairs = make_queue_pairs(&domain, &completions, &shape, port.port, role)?;
    let endpoint = endpoint(&link, &queue_pairs, &memory);
    Ok(Prepared {
        queue_pairs,
        completions,
        memory,
        endpoint,
        shape,
        role,
        completion: spec.completion,
        pattern,
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
fn endpoint(link: &Link, queues: &[QueuePair<Initialised>], memory: &MemoryRegion) -> Endpoint {
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
    }
}

fn completion_mode(spec: &ProbeSpec, role: Role) -> CompletionMode {
    match (role, spec.completion) {
        (Role::Initiator, CompletionKind::Event) => CompletionMode::Event,
        // The target of a write never waits for a completion.
        (Role::Initiator, CompletionKind::Poll) | (Role::Target, _) => CompletionMode::BusyPoll,
    }
}

/// Work requests that a queue pair of this role holds.
fn queue_depth(shape: &Shape, role: Role) -> u32 {
    match role {
        Role::Initiator => shape.depth,
        Role::Target => 1,
    }
}

/// Compares the shape with the device's limits; returns the entries of the completion queue.
///
/// Room for every work request: those of a broken queue pair all complete, unsignalled ones too.
fn check_limits(device: &Device, shape: &Shape, role: Role) -> Result<u32, ProbeError> {
    let limits = device.limits()?;
    let depth = queue_depth(shape, role);
    let entries = depth * shape.queue_pairs;
    for (what, limit, asked) in [
        ("work requests per queue pair", limits.work_requests, depth),
        (
            "completion queue entries",
            limits.completion_entries,
            entries,
        ),
        ("queue pairs", limits.queue_pairs, shape.queue_pairs),
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
    Ok(entries)
}

fn make_queue_pairs(
    domain: &ProtectionDomain,
    completions: &CompletionQueue,
    shape: &Shape,
    port: u8,
    role: Role,
) -> Result<Vec<QueuePair<Initialised>>, ProbeError> {
    let depth = queue_depth(shape, role);
    (0..shape.queue_pairs)
        .map(|_| {
            // Random, so that packets of an earlier connection with this number are not taken.
            let config = QueuePairConfig {
                port,
                depth,
                packet_sequence: rand::random(),
            };
            Ok(QueuePair::new(domain, completions, config)?)
        })
        .collect()
}

fn write_pattern(
    memory: &mut MemoryRegion,
    pattern: Pattern,
    role: Role,
) -> Result<(), ProbeError> {
    let mut chunk = vec![0; CHUNK.min(memory.len())];
    for offset in (0..memory.len()).step_by(CHUNK) {
        let length = CHUNK.min(memory.len() - offset);
        match role {
            Role::Initiator => pattern.fill(offset, &mut chunk[..length]),
            Role::Target => pattern.fill_inverse(offset, &mut chunk[..length]),
        }
        memory.copy_in(offset, &chunk[..length])?;
    }
    Ok(())
}

/// One end, ready to be connected.
pub struct Prepared {
    // Dropped in this order: what uses the memory before the memory.
    queue_pairs: Vec<QueuePair<Initialised>>,
    completions: CompletionQueue,
    memory: MemoryRegion,
    endpoint: Endpoint,
    shape: Shape,
    role: Role,
    completion: CompletionKind,
    pattern: Pattern,
    link: Link,
}

impl Prepared {
    /// What the peer needs to know.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Takes every queue pair to ready to send, towards the peer's.
    ///
    /// # Errors
    /// What the peer said cannot be, or the way to it cannot be resolved.
    pub fn connect(self, peer: &Endpoint) -> Result<Connected, ProbeError> {
        let path = path_to(
            peer,
            &self.endpoint,
            self.link.port.link_layer,
            self.link.gid_index,
        )?;
        if self.role == Role::Initiator {
            check_memory(peer, self.shape.buffer())?;
        }
        let queue_pairs = self
            .queue_pairs
            .into_iter()
            .zip(&peer.queue_pairs)
            .map(|(own, theirs)| {
                let remote = RemoteQueue {
                    number: theirs.number,
                    packet_sequence: theirs.psn,
                };
                own.ready_to_receive(remote, &path)?.ready_to_send()
            })
            .collect::<Result<Vec<_>, VerbsError>>()?;
        Ok(Connected {
            queue_pairs,
            completions: self.completions,
            memory: self.memory,
            remote: peer.memory,
            mtu: path.facts.mtu.bytes(),
            shape: self.shape,
            role: self.role,
            completion: self.completion,
            pattern: self.pattern,
            done: Vec::new(),
        })
    }
}

/// One end, connected to the other.
pub struct Connected {
    // Dropped in this order: what uses the memory before the memory.
    queue_pairs: Vec<QueuePair<ReadyToSend>>,
    completions: CompletionQueue,
    memory: MemoryRegion,
    remote: RemoteMemory,
    mtu: u32,
    shape: Shape,
    role: Role,
    completion: CompletionKind,
    pattern: Pattern,
    done: Vec<Completion>,
}

impl Connected {
    /// Measures the latency to the target, then writes to it for the duration of the probe, or
    /// until its rate is plain, and waits until all has arrived.
    ///
    /// Setting `stop` ends it within 100 ms with [`ProbeError::Stopped`].
    ///
    /// # Errors
    /// This end is the target, the peer does not answer, or a work request failed.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<Measurement, ProbeError> {
        if self.role != Role::Initiator {
            return Err(ProbeError::WrongRole {
                step: "run",
                owner: "initiator",
            });
        }
        let (shape, completion) = (self.shape, self.completion);
        let latency = latency(self, completion, stop, Patience::default())?;
        let cpu = CpuClock::now()?;
        let (reading, end) = transfer(self, &shape, stop, Patience::default())?;
        let cpu = cpu.elapsed()?;
        Ok(Measurement {
            bytes: reading.bytes,
            elapsed_us: micros(reading.elapsed),
            total_bytes: reading.total_bytes,
            windows: reading.windows,
            cpu,
            mtu: self.mtu,
            counters: Fact::default(),
            latency,
            end,
            ping_pong: None,
            registration: None,
            tcp: None,
        })
    }

    /// Compares every byte of the target's buffer with what the initiator sends.
    ///
    /// To be called after the initiator's transfer is over, which has written every slot. Setting
    /// `stop` ends it at once with [`ProbeError::Stopped`]: gigabytes take seconds.
    ///
    /// # Errors
    /// This end is the initiator.
    pub fn verify(&self, stop: &AtomicBool) -> Result<Verification, ProbeError> {
        if self.role != Role::Target {
            return Err(ProbeError::WrongRole {
                step: "verify",
                owner: "target",
            });
        }
        let length = self.memory.len();
        let (mut expected, mut found) = (vec![0; CHUNK.min(length)], vec![0; CHUNK.min(length)]);
        let mut bytes_wrong = 0;
        for offset in (0..length).step_by(CHUNK) {
            if stop.load(Ordering::Relaxed) {
                return Err(ProbeError::Stopped);
            }
            let part = CHUNK.min(length - offset);
            self.pattern.fill(offset, &mut expected[..part]);
            self.memory.copy_out(offset, &mut found[..part])?;
            bytes_wrong += count_wrong(&expected[..part], &found[..part]);
        }
        Ok(Verification {
            bytes_checked: length as u64,
            bytes_wrong,
            counters: Fact::default(),
            cpu: Fact::default(),
        })
    }
}

/// The request to write `length` bytes at `offset` to the same place at the peer.
fn write<'a>(
    memory: &'a MemoryRegion,
    remote: &RemoteMemory,
    queue_pair: usize,
    offset: usize,
    length: u32,
) -> WorkRequest<'a> {
    WorkRequest {
        id: queue_pair as u64,
        opcode: Opcode::Write,
        memory,
        offset,
        length,
        remote: RemoteSlot {
            address: remote.address + offset as u64,
            key: remote.rkey,
        },
        signalled: true,
    }
}

impl Engine for Connected {
    fn post_batch(&mut self, queue_pair: usize, sequence: u64) -> Result<(), ProbeError> {
        let Self {
            queue_pairs,
            memory,
            remote,
            shape,
            ..
        } = self;
        let request = |n: u32| {
            let offset = shape.slot(queue_pair, sequence + u64::from(n));
            WorkRequest {
                signalled: n + 1 == shape.batch,
                ..write(memory, remote, queue_pair, offset, shape.message)
            }
        };
        let batch: Vec<WorkRequest<'_>> = (0..shape.batch).map(request).collect();
        Ok(queue_pairs[queue_pair].post(&batch)?)
    }

    fn post_small(&mut self, bytes: u32) -> Result<(), ProbeError> {
        let length = bytes.min(self.shape.message);
        let request = write(&self.memory, &self.remote, 0, 0, length);
        match self.queue_pairs.first_mut() {
            Some(queue_pair) => Ok(queue_pair.post(&[request])?),
            None => Err(no_queue_pair()),
        }
    }

    fn wait(&mut self, completed: &mut Vec<usize>, deadline: Instant) -> Result<(), ProbeError> {
        self.done.clear();
        self.completions.wait(&mut self.done, deadline)?;
        for completion in &self.done {
            // The id is the index that `post_batch` gave; on failure too.
            let index = completion.request as usize;
            if let Some(error) = self.queue_pairs[index].completion_error(completion) {
                return Err(error.into());
            }
            completed.push(index);
        }
        Ok(())
    }

    fn stall_error(&self, silence: Duration, outstanding: u64) -> ProbeError {
        match self.queue_pairs.first() {
            Some(queue_pair) => queue_pair.stall_error(silence, outstanding).into(),
            None => no_queue_pair(),
        }
    }
}

fn no_queue_pair() -> ProbeError {
    ProbeError::Spec {
        why: "there is no queue pair".into(),
    }
}
