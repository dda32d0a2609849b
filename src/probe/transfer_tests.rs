//! The transfer loop over a device that is played: a link of a fixed rate, or one that dies.

use std::collections::VecDeque;

use super::super::shape::tests::spec;
use super::*;
use crate::model::StopAt;

/// A link that completes one batch after another at a fixed pace.
struct PacedLink {
    per_batch: Duration,
    queue: VecDeque<(usize, Instant)>,
    batch: u64,
    depth: u64,
    in_flight: Vec<u64>,
    next_sequence: Vec<u64>,
    dies_after: u64,
    completed: u64,
}

impl PacedLink {
    fn new(shape: &Shape, per_batch: Duration) -> Self {
        let queue_pairs = shape.queue_pairs as usize;
        Self {
            per_batch,
            queue: VecDeque::new(),
            batch: shape.batch.into(),
            depth: shape.depth.into(),
            in_flight: vec![0; queue_pairs],
            next_sequence: vec![0; queue_pairs],
            dies_after: u64::MAX,
            completed: 0,
        }
    }
}

impl Engine for PacedLink {
    fn post_batch(&mut self, queue_pair: usize, sequence: u64) -> Result<(), ProbeError> {
        assert_eq!(
            sequence, self.next_sequence[queue_pair],
            "messages are posted in order"
        );
        self.next_sequence[queue_pair] += self.batch;
        self.in_flight[queue_pair] += self.batch;
        assert!(
            self.in_flight[queue_pair] <= self.depth,
            "the send queue overflows"
        );
        let now = Instant::now();
        let begins = self.queue.back().map_or(now, |(_, done)| (*done).max(now));
        self.queue.push_back((queue_pair, begins + self.per_batch));
        Ok(())
    }

    fn post_small(&mut self, _bytes: u32) -> Result<(), ProbeError> {
        panic!("a transfer posts whole batches")
    }

    fn wait(&mut self, completed: &mut Vec<usize>, deadline: Instant) -> Result<(), ProbeError> {
        let next = self
            .queue
            .front()
            .map_or(deadline, |(_, done)| (*done).min(deadline));
        let alive = self.completed < self.dies_after;
        let until = if alive { next } else { deadline };
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        let now = Instant::now();
        while let Some((queue_pair, done)) = self.queue.front().copied() {
            if done > now || self.completed >= self.dies_after {
                break;
            }
            self.queue.pop_front();
            self.in_flight[queue_pair] -= self.batch;
            self.completed += 1;
            completed.push(queue_pair);
        }
        Ok(())
    }

    fn stall_error(&self, _silence: Duration, outstanding: u64) -> ProbeError {
        ProbeError::Spec {
            why: format!("stalled with {outstanding}"),
        }
    }
}

fn shape(queue_pairs: u32, duration_ms: u32) -> Shape {
    Shape::new(&spec(65_536, 32, queue_pairs, duration_ms)).expect("a shape")
}

fn patience(stall_ms: u64, drain_ms: u64) -> Patience {
    Patience {
        stall: Duration::from_millis(stall_ms),
        drain: Duration::from_millis(drain_ms),
    }
}

static GO: AtomicBool = AtomicBool::new(false);

#[test]
fn a_paced_link_is_read_at_its_pace_and_drained() {
    for queue_pairs in [1, 3] {
        let shape = shape(queue_pairs, 400);
        let mut link = PacedLink::new(&shape, Duration::from_millis(10));
        let (reading, end) =
            transfer(&mut link, &shape, &GO, Patience::default()).expect("a reading");
        assert_eq!(end, TransferEnd::TimeUp);
        // 16 × 64 KiB per 10 ms.
        let rate = reading.bytes as f64 / reading.elapsed.as_secs_f64();
        let expected = 16.0 * 65_536.0 / 0.010;
        assert!(
            (rate / expected - 1.0).abs() < 0.2,
            "{queue_pairs} QPs: {rate} of {expected}"
        );
        assert_eq!(link.queue.len(), 0, "drained");
        assert_eq!(reading.total_bytes, link.completed * 16 * 65_536);
        assert_eq!(
            reading.windows.iter().map(|w| w.bytes).sum::<u64>(),
            reading.total_bytes
        );
    }
}

#[test]
fn a_transfer_that_may_ends_once_its_rate_is_plain() {
    // 16 × 64 KiB per ms are 8.39 Gb/s: 200 messages in 12.5 ms.
    for (ceiling_mbps, expected) in [(8_400, TransferEnd::Good), (32_000, TransferEnd::Bad)] {
        let mut shape = shape(1, 60_000);
        shape.stop_at = Some(StopAt { ceiling_mbps });
        let mut link = PacedLink::new(&shape, Duration::from_millis(1));
        let (reading, end) =
            transfer(&mut link, &shape, &GO, Patience::default()).expect("a reading");
        assert_eq!(end, expected);
        assert!(reading.elapsed < Duration::from_secs(30), "{reading:?}");
        assert!(reading.bytes < reading.total_bytes);
        assert_eq!(link.queue.len(), 0, "drained");
    }
}

#[test]
fn the_stop_flag_ends_a_transfer_long_before_its_time() {
    let shape = shape(1, 60_000);
    let stop = AtomicBool::new(false);
    let mut link = PacedLink::new(&shape, Duration::from_millis(5));
    let (error, late) = std::thread::scope(|scope| {
        let running = scope.spawn(|| transfer(&mut link, &shape, &stop, Patience::default()));
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        let asked = Instant::now();
        (
            running.join().expect("no panic").expect_err("stopped"),
            asked.elapsed(),
        )
    });
    assert!(matches!(error, ProbeError::Stopped), "{error}");
    assert!(late < Duration::from_secs(10), "{late:?}");
}

#[test]
fn a_link_that_dies_is_noticed_while_sending_and_while_draining() {
    for (duration_ms, dies_after) in [(60_000, 5), (100, 12)] {
        let shape = shape(2, duration_ms);
        let mut link = PacedLink::new(&shape, Duration::from_millis(10));
        link.dies_after = dies_after;
        let began = Instant::now();
        let error = transfer(&mut link, &shape, &GO, patience(150, 5_000)).expect_err("stalled");
        assert!(error.to_string().contains("stalled with"), "{error}");
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
    }
}

#[test]
fn a_drain_that_takes_too_long_is_said_to_be_that() {
    let shape = shape(8, 100);
    let mut link = PacedLink::new(&shape, Duration::from_millis(40));
    let error = transfer(&mut link, &shape, &GO, patience(5_000, 100)).expect_err("too slow");
    assert!(matches!(error, ProbeError::Drain { .. }), "{error}");
}
