//! Ping-pong: one message at a time to and fro, by RDMA write or send.
//!
//! Of a write nobody is told: both ends watch the last byte of where the other's messages land, as
//! perftest's ib_write_lat does, and each message ends in another mark than the one before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::model::{Fact, Measurement, ProbeKind};
use crate::probe::cpu::{HostClock, ThreadClock, cpu_use, rest};
use crate::probe::error::ProbeError;
use crate::probe::meter::Reading;
use crate::probe::percentiles::RoundTrips;
use crate::probe::transfer::{Engine, SLICE};

use super::BALLS;
use super::ends::Ends;
use super::serve::{Meanwhile, Served};

/// How long one message may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Looks at the last byte between two looks at clock and completions.
const SPINS: u32 = 4096;

/// The mark of the `number`-th message, from 0: never 0, which is there at first.
fn mark(number: u64) -> u8 {
    (number % 255) as u8 + 1
}

/// One end's side of the game.
struct Player<'a> {
    ends: &'a mut Ends,
    halt: &'a AtomicBool,
    /// Messages posted and not completed.
    in_flight: u32,
    /// Messages that came.
    received: u64,
    sent: Vec<usize>,
    came: Vec<usize>,
}

impl<'a> Player<'a> {
    fn new(ends: &'a mut Ends, halt: &'a AtomicBool) -> Self {
        Self {
            ends,
            halt,
            in_flight: 0,
            received: 0,
            sent: Vec::new(),
            came: Vec::new(),
        }
    }

    /// Sends the `number`-th message.
    fn hit(&mut self, number: u64) -> Result<(), ProbeError> {
        let ends = &mut *self.ends;
        if ends.job.kind == ProbeKind::RdmaWrite {
            let last = ends.job.shape.message as usize - 1;
            ends.memory.copy_in(last, &[mark(number)])?;
        }
        ends.post_ball()?;
        self.in_flight += 1;
        Ok(())
    }

    /// Waits for the `number`-th message of the peer; `false` where it was told to end, or the time
    /// is over.
    fn catch(&mut self, number: u64, deadline: Instant) -> Result<bool, ProbeError> {
        match self.ends.job.kind {
            ProbeKind::RdmaWrite => self.watch(mark(number), deadline),
            _ => self.take(number, deadline),
        }
    }

    /// Makes room for the next message: while nobody waits for one, outside of what is measured.
    fn tidy(&mut self, deadline: Instant) -> Result<(), ProbeError> {
        self.settle()?;
        while self.in_flight >= BALLS && Instant::now() < deadline {
            self.settle()?;
        }
        Ok(())
    }

    /// Without the processor's hint for loops that wait: it rests for up to 140 cycles (Intel's
    /// optimization manual), a good part of what is to be measured, and in a virtual machine it may
    /// hand over to the host.
    fn watch(&mut self, mark: u8, deadline: Instant) -> Result<bool, ProbeError> {
        let last = self.ends.job.incoming() + self.ends.job.shape.message as usize - 1;
        loop {
            for _ in 0..SPINS {
                if self.ends.memory.load(last)? == mark {
                    return Ok(true);
                }
            }
            // A broken connection is told by a completion.
            self.settle()?;
            if self.is_over(deadline) {
                return Ok(false);
            }
        }
    }

    fn take(&mut self, number: u64, deadline: Instant) -> Result<bool, ProbeError> {
        while self.received <= number {
            self.sent.clear();
            self.came.clear();
            let until = Instant::now() + SLICE;
            self.ends
                .await_both(&mut self.sent, &mut self.came, until)?;
            self.count()?;
            if self.received <= number && self.is_over(deadline) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_over(&self, deadline: Instant) -> bool {
        self.halt.load(Ordering::Relaxed) || Instant::now() > deadline
    }

    /// Takes the completions that are there.
    fn settle(&mut self) -> Result<(), ProbeError> {
        self.sent.clear();
        self.came.clear();
        self.ends.poll_both(&mut self.sent, &mut self.came)?;
        self.count()
    }

    fn count(&mut self) -> Result<(), ProbeError> {
        let sent = u32::try_from(self.sent.len()).unwrap_or(u32::MAX);
        self.in_flight = self.in_flight.saturating_sub(sent);
        self.received += self.came.len() as u64;
        for _ in 0..self.came.len() {
            self.ends.post_receives(0, 0, 1)?;
        }
        Ok(())
    }
}

impl Ends {
    /// The initiator: sends messages and waits for their answers, for the duration.
    pub(super) fn play(&mut self, stop: &AtomicBool) -> Result<Measurement, ProbeError> {
        let job = self.job;
        let idle = if job.account {
            rest(stop)
        } else {
            Fact::default()
        };
        let pinned = self.pinned();
        let mut trips = RoundTrips::new()?;
        let (host, mut thread) = (HostClock::now(), ThreadClock::start(job.account)?);
        let mut player = Player::new(self, stop);
        let (began, mut number, mut measured) = (Instant::now(), 0, None);
        while began.elapsed() < job.shape.duration || trips.count() == 0 {
            let posted = Instant::now();
            player.hit(number)?;
            if !player.catch(number, posted + PATIENCE)? {
                return Err(match stop.load(Ordering::Relaxed) {
                    true => ProbeError::Stopped,
                    false => player.ends.stall_error(PATIENCE, 1),
                });
            }
            let took = posted.elapsed();
            player.tidy(posted + PATIENCE)?;
            if posted - began >= job.shape.warm_up {
                measured.get_or_insert(posted);
                trips.record(took);
            }
            number += 1;
        }
        let elapsed = measured.map_or(Duration::ZERO, |measured| measured.elapsed());
        drop(pinned);
        let host = host.until(&HostClock::now());
        let bytes = u64::from(job.shape.message);
        let reading = Reading {
            bytes: trips.count() * bytes,
            from: Duration::ZERO,
            elapsed: elapsed.max(Duration::from_micros(1)),
            total_bytes: number * bytes,
            windows: Vec::new(),
        };
        let cpu = cpu_use(thread.read()?, host, idle);
        Ok(Measurement {
            ping_pong: Some(trips.summary(bytes)),
            ..self.measurement(reading, cpu)
        })
    }

    /// The target: sends a message for each that comes, until `halt` is set.
    pub(super) fn answer(&mut self, halt: &AtomicBool) -> Result<Served, ProbeError> {
        let _pinned = self.pinned();
        let deadline = self.deadline();
        let mut meanwhile = Meanwhile::new(self.job.account);
        let mut player = Player::new(self, halt);
        let mut number = 0;
        while player.catch(number, deadline)? {
            player.hit(number)?;
            meanwhile.came()?;
            player.tidy(deadline)?;
            number += 1;
        }
        meanwhile.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mark_is_that_of_the_message_before_or_of_empty_memory() {
        for number in 0..1000 {
            assert_ne!(mark(number), mark(number + 1));
            assert_ne!(mark(number), 0);
        }
    }
}
