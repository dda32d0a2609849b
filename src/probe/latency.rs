//! The latency of a connection: small messages, one at a time, before the transfer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::model::{Completion, Fact, Latency};
use crate::verbs::StallWatchdog;

use super::error::ProbeError;
use super::transfer::{Engine, Patience, SLICE};

/// Bytes of a message. They are those of its slot, so that the target finds what it looks for.
const BYTES: u32 = 8;
/// The most messages …
const MOST: u32 = 100;
/// … and no new one after so long.
const TIME: Duration = Duration::from_millis(20);

/// Makes the series. On return nothing is in flight.
///
/// Every message is waited for, however long it takes: the next would not be alone, nor would the
/// transfer begin on an idle queue pair.
pub(super) fn latency(
    engine: &mut impl Engine,
    completion: Completion,
    stop: &AtomicBool,
    patience: Patience,
) -> Result<Fact<Latency>, ProbeError> {
    let began = Instant::now();
    let mut samples = Vec::with_capacity(MOST as usize);
    while samples.len() < MOST as usize && began.elapsed() < TIME {
        samples.push(round_trip(engine, stop, patience)?);
    }
    let series = summary(samples, completion);
    Ok(match series {
        Some(latency) => Fact::known(latency, "RDMA writes of up to 8 bytes, one at a time"),
        None => Fact::unknown("this thread was not run in time for one message"),
    })
}

/// The time from posting a message to its completion.
fn round_trip(
    engine: &mut impl Engine,
    stop: &AtomicBool,
    patience: Patience,
) -> Result<Duration, ProbeError> {
    let mut completed = Vec::new();
    let posted = Instant::now();
    let watchdog = StallWatchdog::new(patience.stall, posted);
    engine.post_small(BYTES)?;
    let mut now = posted;
    loop {
        engine.wait(&mut completed, now + SLICE)?;
        now = Instant::now();
        if !completed.is_empty() {
            return Ok(now - posted);
        }
        if stop.load(Ordering::Relaxed) {
            return Err(ProbeError::Stopped);
        }
        if let Some(silence) = watchdog.stalled(now) {
            return Err(engine.stall_error(silence, 1));
        }
    }
}

/// The shortest and the median; of an even number the longer of the middle two.
fn summary(mut samples: Vec<Duration>, completion: Completion) -> Option<Latency> {
    samples.sort_unstable();
    let ns = |sample: &Duration| u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX);
    Some(Latency {
        min_ns: ns(samples.first()?),
        median_ns: ns(samples.get(samples.len() / 2)?),
        samples: u32::try_from(samples.len()).unwrap_or(u32::MAX),
        completion,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that answers each message after a while, or never after the last it answers.
    struct Peer {
        takes: Vec<Duration>,
        answered: usize,
        answers: usize,
        due: Option<Instant>,
    }

    impl Peer {
        fn new(takes: &[u64], answers: usize) -> Self {
            Self {
                takes: takes.iter().map(|us| Duration::from_micros(*us)).collect(),
                answered: 0,
                answers,
                due: None,
            }
        }
    }

    impl Engine for Peer {
        fn post_batch(&mut self, _: usize, _: u64) -> Result<(), ProbeError> {
            panic!("the series posts no batch")
        }

        fn post_small(&mut self, bytes: u32) -> Result<(), ProbeError> {
            assert_eq!(bytes, 8);
            assert!(self.due.is_none(), "two messages are in flight");
            let takes = self.takes[self.answered % self.takes.len()];
            self.due = Some(Instant::now() + takes);
            Ok(())
        }

        fn wait(&mut self, done: &mut Vec<usize>, deadline: Instant) -> Result<(), ProbeError> {
            let due = self.due.filter(|_| self.answered < self.answers);
            let until = due.map_or(deadline, |due| due.min(deadline));
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            if due.is_some_and(|due| due <= Instant::now()) {
                self.due = None;
                self.answered += 1;
                done.push(0);
            }
            Ok(())
        }

        fn stall_error(&self, _: Duration, outstanding: u64) -> ProbeError {
            let why = format!("stalled with {outstanding}");
            ProbeError::Spec { why }
        }
    }

    static GO: AtomicBool = AtomicBool::new(false);

    fn patience(stall_ms: u64) -> Patience {
        Patience {
            stall: Duration::from_millis(stall_ms),
            ..Patience::default()
        }
    }

    fn series(peer: &mut Peer, stop: &AtomicBool) -> Result<Latency, ProbeError> {
        let fact = latency(peer, Completion::Poll, stop, patience(300))?;
        Ok(*fact.value().unwrap())
    }

    #[test]
    fn shortest_and_median_are_told_with_their_number() {
        let us = |n: &u64| Duration::from_micros(*n);
        let samples = [9, 2, 30, 4, 5].iter().map(us).collect();
        let latency = summary(samples, Completion::Event).unwrap();
        assert_eq!((latency.min_ns, latency.median_ns), (2_000, 5_000));
        assert_eq!(
            (latency.samples, latency.completion),
            (5, Completion::Event)
        );
        assert_eq!(summary(Vec::new(), Completion::Poll), None);
    }

    #[test]
    fn a_fast_peer_is_asked_a_hundred_times_at_most() {
        let mut peer = Peer::new(&[0], usize::MAX);
        let latency = series(&mut peer, &GO).unwrap();
        assert!(latency.samples <= 100 && latency.samples > 0);
        assert_eq!(peer.answered, latency.samples as usize);
        assert!(peer.due.is_none(), "a message is still in flight");
    }

    #[test]
    fn a_slow_peer_is_waited_for_and_asked_no_more() {
        // A first packet that was lost and sent again.
        let mut peer = Peer::new(&[60_000], usize::MAX);
        let latency = series(&mut peer, &GO).unwrap();
        assert_eq!(latency.samples, 1);
        assert!(latency.min_ns >= 60_000_000, "{latency:?}");
    }

    #[test]
    fn a_peer_that_falls_silent_ends_it_and_so_does_the_stop_flag() {
        let error = series(&mut Peer::new(&[10], 3), &GO).unwrap_err();
        assert_eq!(error.to_string().matches("stalled with 1").count(), 1);
        let stop = AtomicBool::new(true);
        let error = series(&mut Peer::new(&[10], 0), &stop).unwrap_err();
        assert!(matches!(error, ProbeError::Stopped), "{error}");
    }
}
