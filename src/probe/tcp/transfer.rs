//! The sending end of a transfer: a thread for each connection, and one that hears what has arrived.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle, scope, sleep};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use super::send::{Sent, send};
use super::{Plan, SLICE};
use crate::model::{Fact, Measurement, TcpFacts, TransferEnd, ZeroCopy};
use crate::probe::cpu::{HostClock, ThreadClock, cpu_use, rest};
use crate::probe::error::ProbeError;
use crate::probe::meter::{Meter, Reading, micros};
use crate::verbs::StallWatchdog;

/// Between two looks at what the receivers of several connections tell. Not by poll(2): that tells of
/// notices of MSG_ZEROCOPY, too, which are the sender's to read. One connection is waited for: on a
/// host with a single processor each look would be taken from the sender.
const LOOK: Duration = Duration::from_millis(2);
/// Nothing arrives for so long: the peer is gone.
const STALL: Duration = Duration::from_secs(10);
/// How long the last bytes may be on their way.
const DRAIN: Duration = Duration::from_secs(30);

/// Sends on all connections for the duration, and waits until all has arrived.
pub(super) fn run(
    plan: &Plan,
    streams: &[TcpStream],
    stop: &AtomicBool,
) -> Result<Measurement, ProbeError> {
    let told = Instant::now();
    let rings: Vec<Vec<u8>> = (0..streams.len()).map(|index| ring(plan, index)).collect();
    let idle = if plan.account {
        rest(stop)
    } else {
        Fact::default()
    };
    let (host, mut clock) = (HostClock::now(), ThreadClock::start(plan.account)?);
    let waited = told.elapsed();
    let (reading, sent) = exchange(plan, streams, &rings, stop)?;
    let host = host.until(&HostClock::now());
    let mut spent = clock.read()?;
    let facts = facts(plan, &sent);
    let mtu = sent.first().map_or(0, |sent| sent.facts.path_mtu);
    for sent in sent {
        spent = spent.plus(sent.spent);
    }
    Ok(Measurement {
        bytes: reading.bytes,
        elapsed_us: micros(reading.elapsed),
        began_us: Some(micros(waited + reading.from)),
        total_bytes: reading.total_bytes,
        windows: reading.windows,
        cpu: cpu_use(spent, host, idle),
        mtu,
        counters: Fact::default(),
        pauses: Fact::default(),
        latency: Fact::unknown("only before RDMA writes"),
        end: TransferEnd::TimeUp,
        ping_pong: None,
        registration: None,
        tcp: facts.map(Box::new),
        fetched: None,
        memory: None,
    })
}

fn ring(plan: &Plan, index: usize) -> Vec<u8> {
    let mut ring = vec![0; plan.ring()];
    plan.pattern(index).fill(0, &mut ring);
    ring
}

/// What is known of the connections; what one has for all is the first one's.
pub(super) fn facts(plan: &Plan, sent: &[Sent]) -> Option<TcpFacts> {
    let first = &sent.first()?.facts;
    let copies = sent.iter().filter_map(|sent| sent.zero_copy);
    Some(TcpFacts {
        mss: first.mss,
        congestion: first.congestion.clone(),
        retransmits: sent.iter().map(|sent| sent.facts.retransmits).sum(),
        offloads: plan.place.offloads.clone(),
        zero_copy: copies.reduce(|a, b| ZeroCopy {
            completed: a.completed + b.completed,
            copied: a.copied + b.copied,
        }),
    })
}

fn exchange(
    plan: &Plan,
    streams: &[TcpStream],
    rings: &[Vec<u8>],
    stop: &AtomicBool,
) -> Result<(Reading, Vec<Sent>), ProbeError> {
    let halt = AtomicBool::new(false);
    let began = Instant::now();
    scope(|scope| {
        let senders: Vec<_> = streams
            .iter()
            .zip(rings)
            .map(|(stream, ring)| sender(scope, plan, stream, ring, began, &halt))
            .collect();
        let heard = hear(plan, streams, &senders, began, stop);
        if heard.is_err() {
            halt.store(true, Ordering::Relaxed);
            for stream in streams {
                // Wakes its sender; one that has ended already is as well.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        // All are joined, whatever the first of them says.
        let ended: Vec<_> = senders.into_iter().map(join).collect();
        let sent: Result<Vec<Sent>, ProbeError> = ended.into_iter().collect();
        match (heard, sent) {
            (Ok((reading, told)), Ok(sent)) => {
                compare(&told, &sent)?;
                Ok((reading, sent))
            }
            // A sender that broke is why nothing was heard.
            (Ok(_) | Err(ProbeError::Peer { .. }), Err(broken)) => Err(broken),
            (Err(why), _) => Err(why),
        }
    })
}

type Sender<'scope> = ScopedJoinHandle<'scope, Result<Sent, ProbeError>>;

fn sender<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    plan: &'env Plan,
    stream: &'env TcpStream,
    ring: &'env [u8],
    began: Instant,
    halt: &'scope AtomicBool,
) -> Sender<'scope> {
    let until = began + plan.shape.duration;
    scope.spawn(move || send(plan, stream, ring, until, halt))
}

fn join(sender: Sender<'_>) -> Result<Sent, ProbeError> {
    let broken = |_| ProbeError::Peer {
        why: "a sending thread broke".to_owned(),
    };
    sender.join().map_err(broken)?
}

/// Whether every connection's receiver has what was sent on it.
fn compare(told: &[u64], sent: &[Sent]) -> Result<(), ProbeError> {
    match told
        .iter()
        .zip(sent)
        .find(|(told, sent)| **told != sent.bytes)
    {
        None => Ok(()),
        Some((told, sent)) => Err(ProbeError::Peer {
            why: format!(
                "it says that {told} bytes arrived of {} sent by TCP",
                sent.bytes
            ),
        }),
    }
}

/// One connection's reports of what has arrived.
#[derive(Default)]
struct Reports {
    rest: Vec<u8>,
    told: u64,
    ended: bool,
}

impl Reports {
    /// Reads what is there, or with no flag what comes before the socket's time is over; how much more
    /// has arrived.
    fn read(&mut self, stream: &TcpStream, flags: MsgFlags) -> Result<u64, ProbeError> {
        let mut buffer = [0; 512];
        let before = self.told;
        match recv(stream.as_raw_fd(), &mut buffer, flags) {
            Ok(0) => self.ended = true,
            Ok(count) => self.rest.extend(&buffer[..count]),
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(ProbeError::Tcp(errno.into())),
        }
        let whole = self.rest.len() / 8 * 8;
        for report in self.rest[..whole].as_chunks::<8>().0 {
            let told = u64::from_be_bytes(*report);
            if told < self.told || told > 1 << 60 {
                let why = "its reports of what arrived by TCP make no sense".to_owned();
                return Err(ProbeError::Peer { why });
            }
            self.told = told;
        }
        self.rest.drain(..whole);
        Ok(self.told - before)
    }
}

/// Hears of what arrives until all connections have ended; what it came to, and how much on each.
fn hear(
    plan: &Plan,
    streams: &[TcpStream],
    senders: &[Sender<'_>],
    began: Instant,
    stop: &AtomicBool,
) -> Result<(Reading, Vec<u64>), ProbeError> {
    let mut meter = Meter::new(&plan.shape);
    let mut reports: Vec<Reports> = streams.iter().map(|_| Reports::default()).collect();
    let mut watchdog = StallWatchdog::new(STALL, began);
    for stream in streams {
        // What bounds a wait, so that this thread looks whether to stop.
        let bounded = stream.set_read_timeout(Some(SLICE));
        bounded.map_err(ProbeError::Tcp)?;
    }
    while reports.iter().any(|report| !report.ended) {
        let flags = match streams.len() {
            1 => MsgFlags::empty(),
            _ => {
                sleep(LOOK);
                MsgFlags::MSG_DONTWAIT
            }
        };
        let mut bytes = 0;
        for (report, stream) in reports.iter_mut().zip(streams) {
            bytes += report.read(stream, flags)?;
        }
        // Before the clock is read: a sender that has ended by then ended no later.
        let ended = senders.iter().any(ScopedJoinHandle::is_finished);
        let now = Instant::now();
        if bytes > 0 {
            meter.record(now - began, bytes);
            watchdog.progress(now);
        }
        check(plan, ended, now - began, watchdog.stalled(now), stop)?;
    }
    Ok((
        meter.finish(),
        reports.iter().map(|report| report.told).collect(),
    ))
}

/// The reasons to give up.
fn check(
    plan: &Plan,
    ended: bool,
    at: Duration,
    stalled: Option<Duration>,
    stop: &AtomicBool,
) -> Result<(), ProbeError> {
    if stop.load(Ordering::Relaxed) {
        return Err(ProbeError::Stopped);
    }
    let peer = |why: &str| {
        Err(ProbeError::Peer {
            why: why.to_owned(),
        })
    };
    if ended && at < plan.shape.duration {
        return peer("a TCP connection ended before its time");
    }
    if stalled.is_some() {
        return peer("nothing arrived by TCP for 10 s");
    }
    if at > plan.shape.duration + DRAIN {
        return peer("bytes were still on their way by TCP 30 s after the end of the transfer");
    }
    Ok(())
}
