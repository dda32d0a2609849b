//! The receiving thread of one connection: into a ring as long as the sender's, so that what it holds
//! at the end can be compared without a look at it meanwhile.

use std::io::{Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::{Plan, SLICE, is_pause};
use crate::probe::cpu::{HostClock, ThreadClock, ThreadUse};
use crate::probe::error::ProbeError;

/// How often the sender is told how much arrived: each time takes CPU time at both ends.
const REPORT: Duration = Duration::from_millis(20);
/// How long a round may take to begin, once its connections are there.
const BEFORE: Duration = Duration::from_secs(300);
/// How long after its time a transfer may end.
const AFTER: Duration = Duration::from_secs(45);
/// The most that one read takes, where a message is not more: what iperf3 reads.
const READ: usize = 128 << 10;

/// What both ends of a receiving thread share.
#[derive(Default)]
pub(super) struct Shared {
    /// To be set where it is to end.
    pub halt: AtomicBool,
    /// The host's clock when the first byte came.
    pub began: OnceLock<HostClock>,
}

/// What one connection brought.
pub(super) struct Received {
    pub bytes: u64,
    pub ring: Vec<u8>,
    pub spent: ThreadUse,
    pub ended: HostClock,
}

/// Receives until the sender has nothing more, the time is over or `halt` is set.
pub(super) fn receive(
    plan: &Plan,
    stream: &TcpStream,
    mut ring: Vec<u8>,
    shared: &Arc<Shared>,
) -> std::result::Result<Received, ProbeError> {
    let _pinned = plan.pinned();
    let mut clock = ThreadClock::start(plan.account)?;
    let bytes = drain(plan, stream, &mut ring, shared).map_err(ProbeError::Tcp)?;
    Ok(Received {
        bytes,
        ring,
        spent: clock.read()?,
        ended: HostClock::now(),
    })
}

fn drain(plan: &Plan, mut stream: &TcpStream, ring: &mut [u8], shared: &Shared) -> Result<u64> {
    stream.set_read_timeout(Some(SLICE))?;
    stream.set_write_timeout(Some(SLICE))?;
    // Reports are small and must not wait for each other.
    stream.set_nodelay(true)?;
    let most = READ.max(plan.message());
    let mut deadline = Instant::now() + BEFORE;
    let (mut bytes, mut at, mut told) = (0u64, 0, None);
    loop {
        let end = ring.len().min(at + most);
        let count = match stream.read(&mut ring[at..end]) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if is_pause(&error) => 0,
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        if count > 0 && told.is_none() {
            shared.began.get_or_init(HostClock::now);
            (told, deadline) = (Some(now), now + plan.shape.duration + AFTER);
        }
        if now > deadline || shared.halt.load(Ordering::Relaxed) {
            return Err(std::io::Error::other(
                "the time of this TCP connection is over",
            ));
        }
        bytes += count as u64;
        at = if at + count == ring.len() {
            0
        } else {
            at + count
        };
        if count > 0 && told.is_some_and(|told| now - told >= REPORT) {
            stream.write_all(&bytes.to_be_bytes())?;
            told = Some(now);
        }
    }
    stream.write_all(&bytes.to_be_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    Ok(bytes)
}
