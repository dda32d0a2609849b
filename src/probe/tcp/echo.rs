//! Ping-pong over one connection: a message goes to the target, which sends it back.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::options::ConnectionFacts;
use super::receive::{Received, Shared};
use super::send::Sent;
use super::transfer::facts;
use super::{Plan, SLICE, is_pause};
use crate::model::{Fact, Measurement, TransferEnd};
use crate::probe::cpu::{HostClock, ThreadClock, cpu_use, rest};
use crate::probe::error::ProbeError;
use crate::probe::meter::micros;
use crate::probe::percentiles::RoundTrips;

/// How long one message may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the target waits for one: a round may take minutes to begin.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Reads as many bytes as `into` has. `false` where the peer ended before the first.
fn read_whole(
    mut stream: &TcpStream,
    into: &mut [u8],
    patience: Duration,
    halt: &AtomicBool,
) -> Result<bool, ProbeError> {
    let began = Instant::now();
    let mut at = 0;
    while at < into.len() {
        match stream.read(&mut into[at..]) {
            Ok(0) if at == 0 => return Ok(false),
            Ok(0) => return Err(ProbeError::Tcp(ErrorKind::UnexpectedEof.into())),
            Ok(count) => at += count,
            Err(error) if is_pause(&error) => {
                if halt.load(Ordering::Relaxed) {
                    return Err(ProbeError::Stopped);
                }
                if began.elapsed() > patience {
                    let why = "no answer by TCP within the time allowed".to_owned();
                    return Err(ProbeError::Peer { why });
                }
            }
            Err(error) => return Err(ProbeError::Tcp(error)),
        }
    }
    Ok(true)
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SLICE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

/// Sends messages there and back for the duration, one at a time.
pub(super) fn play(
    plan: &Plan,
    streams: &[TcpStream],
    stop: &AtomicBool,
) -> Result<Measurement, ProbeError> {
    let Some(mut stream) = streams.first() else {
        return Err(ProbeError::Spec {
            why: "there is no connection".to_owned(),
        });
    };
    prepare(stream).map_err(ProbeError::Tcp)?;
    let idle = if plan.account {
        rest(stop)
    } else {
        Fact::default()
    };
    let _pinned = plan.pinned();
    let mut message = vec![0; plan.message()];
    plan.pattern(0).fill(0, &mut message);
    let mut trips = RoundTrips::new()?;
    let (host, mut clock) = (HostClock::now(), ThreadClock::start(plan.account)?);
    let (began, mut sent, mut measured) = (Instant::now(), 0u64, None);
    while began.elapsed() < plan.shape.duration || trips.count() == 0 {
        if stop.load(Ordering::Relaxed) {
            return Err(ProbeError::Stopped);
        }
        let posted = Instant::now();
        stream.write_all(&message).map_err(ProbeError::Tcp)?;
        if !read_whole(stream, &mut message, PATIENCE, stop)? {
            return Err(ProbeError::Tcp(ErrorKind::UnexpectedEof.into()));
        }
        sent += 1;
        if posted - began >= plan.shape.warm_up {
            measured.get_or_insert(posted);
            trips.record(posted.elapsed());
        }
    }
    let elapsed = measured.map_or(Duration::ZERO, |measured| measured.elapsed());
    let spent = clock.read()?;
    let host = host.until(&HostClock::now());
    let known = ConnectionFacts::of(stream).map_err(ProbeError::Tcp)?;
    stream.shutdown(Shutdown::Write).map_err(ProbeError::Tcp)?;
    let bytes = message.len() as u64;
    let mtu = known.path_mtu;
    let sender = Sent {
        bytes: sent * bytes,
        spent: spent.clone(),
        facts: known,
        zero_copy: None,
    };
    Ok(Measurement {
        bytes: trips.count() * bytes,
        elapsed_us: micros(elapsed).max(1),
        began_us: None,
        total_bytes: sent * bytes,
        windows: Vec::new(),
        cpu: cpu_use(spent, host, idle),
        mtu,
        counters: Fact::default(),
        pauses: Fact::default(),
        latency: Fact::unknown("only before RDMA writes"),
        end: TransferEnd::TimeUp,
        ping_pong: Some(trips.summary(bytes)),
        registration: None,
        tcp: facts(plan, &[sender]).map(Box::new),
        fetched: None,
        memory: None,
    })
}

/// Sends every message back until no more come.
pub(super) fn answer(
    plan: &Plan,
    mut stream: &TcpStream,
    mut ring: Vec<u8>,
    shared: &Arc<Shared>,
) -> Result<Received, ProbeError> {
    prepare(stream).map_err(ProbeError::Tcp)?;
    let _pinned = plan.pinned();
    let mut clock = ThreadClock::start(plan.account)?;
    let message = &mut ring[..plan.message()];
    let end = Instant::now() + LONGEST_WAIT + plan.shape.duration;
    let mut bytes = 0;
    while read_whole(stream, message, LONGEST_WAIT, &shared.halt)? {
        shared.began.get_or_init(HostClock::now);
        stream.write_all(message).map_err(ProbeError::Tcp)?;
        bytes += message.len() as u64;
        if Instant::now() > end || shared.halt.load(Ordering::Relaxed) {
            return Err(ProbeError::Stopped);
        }
    }
    Ok(Received {
        bytes,
        spent: clock.read()?,
        ended: HostClock::now(),
        ring,
    })
}
