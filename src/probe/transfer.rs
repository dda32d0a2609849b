//! The transfer loop: keeps the window of work requests full until time is up, then drains it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::model::TransferEnd;
use crate::verbs::StallWatchdog;

use super::error::ProbeError;
use super::meter::{Meter, Reading};
use super::sequential::Sequential;
use super::shape::Shape;

/// Nothing completes for so long: the peer is gone. Longer than the transport's own retries
/// (2 to 8 s with the timers of the queue pairs), which say more and should speak first.
const STALL_LIMIT: Duration = Duration::from_secs(10);
/// How long the last work requests may take to complete.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);
/// The longest wait between two looks at the stop flag.
pub(super) const SLICE: Duration = Duration::from_millis(20);

/// What the loop needs of the device.
pub(super) trait Engine {
    /// Posts a batch of messages on `queue_pair`, the first being its `sequence`-th; one
    /// completion reports them all.
    fn post_batch(&mut self, queue_pair: usize, sequence: u64) -> Result<(), ProbeError>;

    /// Posts one message of at most so many bytes into the first slot of the first queue pair.
    fn post_small(&mut self, bytes: u32) -> Result<(), ProbeError>;

    /// Waits for completions, not beyond `deadline`; appends the queue pair of each batch.
    fn wait(&mut self, completed: &mut Vec<usize>, deadline: Instant) -> Result<(), ProbeError>;

    /// The error that `silence` with `outstanding` messages in flight is.
    fn stall_error(&self, silence: Duration, outstanding: u64) -> ProbeError;
}

/// How long the loop waits for what; the constants above except in tests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub stall: Duration,
    pub drain: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            stall: STALL_LIMIT,
            drain: DRAIN_LIMIT,
        }
    }
}

/// Runs one transfer of `shape` over `engine`; tells what it came to, and why it ended.
pub(super) fn transfer(
    engine: &mut impl Engine,
    shape: &Shape,
    stop: &AtomicBool,
    patience: Patience,
) -> Result<(Reading, TransferEnd), ProbeError> {
    let began = Instant::now();
    let sequential = |stop_at| Sequential::new(stop_at, shape.warm_up);
    let mut transfer = Transfer {
        shape,
        posted: vec![0; shape.queue_pairs as usize],
        in_flight: 0,
        meter: Meter::new(shape),
        sequential: shape.stop_at.map(sequential),
        watchdog: StallWatchdog::new(patience.stall, began),
        began,
        end: TransferEnd::TimeUp,
    };
    transfer.fill(engine)?;
    transfer.drive(engine, stop, patience)?;
    Ok((transfer.meter.finish(), transfer.end))
}

struct Transfer<'a> {
    shape: &'a Shape,
    /// Messages posted so far on each queue pair.
    posted: Vec<u64>,
    /// Messages posted and not completed, of all queue pairs.
    in_flight: u64,
    meter: Meter,
    /// Until it has decided.
    sequential: Option<Sequential>,
    watchdog: StallWatchdog,
    began: Instant,
    end: TransferEnd,
}

impl Transfer<'_> {
    /// Fills every window, round robin, so that no queue pair starts a window ahead.
    fn fill(&mut self, engine: &mut impl Engine) -> Result<(), ProbeError> {
        for _ in 0..self.shape.depth / self.shape.batch {
            for queue_pair in 0..self.posted.len() {
                self.post(engine, queue_pair)?;
            }
        }
        Ok(())
    }

    fn post(&mut self, engine: &mut impl Engine, queue_pair: usize) -> Result<(), ProbeError> {
        engine.post_batch(queue_pair, self.posted[queue_pair])?;
        self.posted[queue_pair] += u64::from(self.shape.batch);
        self.in_flight += u64::from(self.shape.batch);
        Ok(())
    }

    /// Refills as completions come until the time is up, then waits for the rest.
    fn drive(
        &mut self,
        engine: &mut impl Engine,
        stop: &AtomicBool,
        patience: Patience,
    ) -> Result<(), ProbeError> {
        let mut end = self.began + self.shape.duration;
        let mut completed = Vec::new();
        let mut now = Instant::now();
        while now < end || self.in_flight > 0 {
            self.check(engine, stop, now, end, patience)?;
            completed.clear();
            engine.wait(&mut completed, now + SLICE)?;
            now = Instant::now();
            if self.account(&completed, now) {
                end = end.min(now);
            }
            if now < end {
                for queue_pair in &completed {
                    self.post(engine, *queue_pair)?;
                }
            }
        }
        Ok(())
    }

    /// Counts what has completed; whether that is enough.
    fn account(&mut self, completed: &[usize], now: Instant) -> bool {
        if completed.is_empty() {
            return false;
        }
        let messages = completed.len() as u64 * u64::from(self.shape.batch);
        let (at, bytes) = (now - self.began, messages * u64::from(self.shape.message));
        self.in_flight = self.in_flight.saturating_sub(messages);
        self.meter.record(at, bytes);
        self.watchdog.progress(now);
        self.decide(at, messages, bytes)
    }

    /// Whether it is plain now what the rate is, and was not before.
    fn decide(&mut self, at: Duration, messages: u64, bytes: u64) -> bool {
        let in_time = at < self.shape.duration;
        let Some(sequential) = self.sequential.as_mut().filter(|_| in_time) else {
            return false;
        };
        let Some(end) = sequential.record(at, messages, bytes) else {
            return false;
        };
        self.end = end;
        self.sequential = None;
        self.meter.end_at(at);
        true
    }

    /// The reasons to give up.
    fn check(
        &self,
        engine: &impl Engine,
        stop: &AtomicBool,
        now: Instant,
        end: Instant,
        patience: Patience,
    ) -> Result<(), ProbeError> {
        if stop.load(Ordering::Relaxed) {
            return Err(ProbeError::Stopped);
        }
        if let Some(silence) = self.watchdog.stalled(now) {
            return Err(engine.stall_error(silence, self.in_flight));
        }
        if now > end + patience.drain {
            let outstanding = self.in_flight * u64::from(self.shape.message);
            return Err(ProbeError::Drain {
                outstanding,
                seconds: patience.drain.as_secs(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
mod tests;
