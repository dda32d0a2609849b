//! The sending thread of one connection.

use std::io::{Result, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::options::ConnectionFacts;
use super::zero_copy::Sender;
use super::{Plan, SLICE, is_pause};
use crate::model::ZeroCopy;
use crate::probe::cpu::{ThreadClock, ThreadUse};
use crate::probe::error::ProbeError;

/// What one connection's sender did.
pub(super) struct Sent {
    pub bytes: u64,
    pub spent: ThreadUse,
    pub facts: ConnectionFacts,
    pub zero_copy: Option<ZeroCopy>,
}

/// Sends messages until the time is up or `halt` is set, and then says that nothing more comes.
pub(super) fn send(
    plan: &Plan,
    stream: &TcpStream,
    ring: &[u8],
    until: Instant,
    halt: &AtomicBool,
) -> std::result::Result<Sent, ProbeError> {
    let _pinned = plan.pinned();
    let mut clock = ThreadClock::start(plan.account)?;
    let go_on = || Instant::now() < until && !halt.load(Ordering::Relaxed);
    let (bytes, zero_copy) = pump(plan, stream, ring, go_on).map_err(ProbeError::Tcp)?;
    let facts = ConnectionFacts::of(stream).map_err(ProbeError::Tcp)?;
    stream.shutdown(Shutdown::Write).map_err(ProbeError::Tcp)?;
    Ok(Sent {
        bytes,
        spent: clock.read()?,
        facts,
        zero_copy,
    })
}

fn pump(
    plan: &Plan,
    stream: &TcpStream,
    ring: &[u8],
    go_on: impl Fn() -> bool,
) -> Result<(u64, Option<ZeroCopy>)> {
    stream.set_write_timeout(Some(SLICE))?;
    match plan.zero_copy {
        false => Ok((
            repeat(plan, ring, go_on, |bytes| (&*stream).write(bytes))?,
            None,
        )),
        true => {
            let mut sender = Sender::new(stream)?;
            let bytes = repeat(plan, ring, go_on, |bytes| sender.send(bytes))?;
            Ok((bytes, Some(sender.finish()?)))
        }
    }
}

/// Writes the ring's messages one after the other, over and over.
fn repeat(
    plan: &Plan,
    ring: &[u8],
    go_on: impl Fn() -> bool,
    mut write: impl FnMut(&[u8]) -> Result<usize>,
) -> Result<u64> {
    let mut sent = 0u64;
    let (mut at, mut end) = (0, plan.message());
    while go_on() {
        match write(&ring[at..end]) {
            Ok(count) => {
                sent += count as u64;
                at += count;
            }
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
        if at == end {
            at = if end == ring.len() { 0 } else { end };
            end = at + plan.message();
        }
    }
    Ok(sent)
}
