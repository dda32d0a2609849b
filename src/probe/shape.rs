//! A probe's numbers, checked: sizes, slots, batches, times.

use std::time::Duration;

use crate::model::{ProbeSpec, StopAt};
use crate::verbs::MAX_BATCH;

use super::error::ProbeError;

/// Left out of the rate: the ramp of caches, translation tables and congestion control.
const WARM_UP: Duration = Duration::from_millis(50);
/// The shortest transfer that leaves more measurement than warm-up.
const SHORTEST_MS: u32 = 100;
/// The longest transfer: a day.
const LONGEST_MS: u32 = 86_400_000;
/// The shortest window, and the usual one.
const WINDOW: Duration = Duration::from_millis(10);
/// Windows are lengthened where there would be more of them (a frame is bounded).
const MOST_WINDOWS: u32 = 6000;
/// InfiniBand's longest message (IBA vol. 1 §9.3.3: 2^31 bytes).
const LONGEST_MESSAGE: u64 = 1 << 31;
/// More queue pairs than any NIC needs for line rate.
const MOST_QUEUE_PAIRS: u32 = 1024;
/// The largest buffer that one end registers.
const LARGEST_BUFFER: u64 = 16 << 30;
/// A batch is reported by one completion; beyond so many bytes it would make windows coarse.
const BATCH_BYTES: u64 = 1 << 20;
/// Messages of a queue pair share so much memory, taking turns: more would measure how fast caches
/// are refilled. Beyond it there are still two slots.
const SLOT_BYTES: u64 = 1 << 20;

/// The checked numbers of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bytes of one message.
    pub message: u32,
    /// Messages in flight on a queue pair.
    pub depth: u32,
    /// Slots of its part of the buffer, which its messages take in turn.
    pub slots: u32,
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Messages that are posted together, of which the last is signalled. Divides the depth, so
    /// that a queue pair is never left with an unsignalled rest.
    pub batch: u32,
    /// How long data is sent, warm-up included.
    pub duration: Duration,
    /// The part of it that the rate leaves out.
    pub warm_up: Duration,
    /// Length of a window.
    pub window: Duration,
    /// What the transfer is held against to end early.
    pub stop_at: Option<StopAt>,
}

impl Shape {
    /// Checks what was asked for; it may come from anyone.
    pub fn new(spec: &ProbeSpec) -> Result<Self, ProbeError> {
        let ProbeSpec {
            message_size,
            depth,
            queue_pairs,
            duration_ms,
            ..
        } = spec;
        bounded("the message size", message_size.0, 1, LONGEST_MESSAGE)?;
        bounded("the depth", u64::from(*depth), 1, u64::from(u16::MAX))?;
        bounded(
            "the number of queue pairs",
            (*queue_pairs).into(),
            1,
            MOST_QUEUE_PAIRS.into(),
        )?;
        bounded(
            "the duration in ms",
            (*duration_ms).into(),
            SHORTEST_MS.into(),
            LONGEST_MS.into(),
        )?;
        let slots = slots(message_size.0, *depth);
        // Below 2^31 × 2^16 × 2^10: no overflow.
        let buffer = message_size.0 * u64::from(slots) * u64::from(*queue_pairs);
        bounded(
            "the buffer (size × slots × queue pairs in bytes)",
            buffer,
            1,
            LARGEST_BUFFER,
        )?;
        let message = u32::try_from(message_size.0).map_err(|_| ProbeError::Spec {
            why: "the message size is too large".into(),
        })?;
        let duration = Duration::from_millis(u64::from(*duration_ms));
        Ok(Self {
            message,
            depth: *depth,
            slots,
            queue_pairs: *queue_pairs,
            batch: batch(message, *depth),
            duration,
            warm_up: WARM_UP,
            window: WINDOW.max(duration / MOST_WINDOWS),
            stop_at: spec.stop_at,
        })
    }

    /// Bytes of the buffer that each end registers.
    pub fn buffer(&self) -> usize {
        self.message as usize * self.slots as usize * self.queue_pairs as usize
    }

    /// Where the slot of a queue pair's `sequence`-th message begins in the buffer.
    pub fn slot(&self, queue_pair: usize, sequence: u64) -> usize {
        let in_queue = (sequence % u64::from(self.slots)) as usize;
        (queue_pair * self.slots as usize + in_queue) * self.message as usize
    }
}

fn bounded(what: &str, value: u64, least: u64, most: u64) -> Result<(), ProbeError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ProbeError::Spec {
        why: format!("{what} is {value}, not between {least} and {most}"),
    })
}

/// Never more than messages in flight, so that every slot is written.
fn slots(message: u64, depth: u32) -> u32 {
    let by_bytes = (SLOT_BYTES / message).clamp(2, u64::from(u32::MAX)) as u32;
    by_bytes.min(depth)
}

/// The largest divisor of `depth` that leaves two batches in flight and is not coarse.
fn batch(message: u32, depth: u32) -> u32 {
    let by_bytes = (BATCH_BYTES / u64::from(message)).clamp(1, MAX_BATCH as u64) as u32;
    let most = by_bytes.min(depth / 2).max(1);
    (1..=most)
        .rev()
        .find(|n| depth.is_multiple_of(*n))
        .unwrap_or(1)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use crate::model::{Bytes, Completion, Measure, MemoryKind, ProbeKind};

    use super::*;

    pub fn spec(size: u64, depth: u32, queue_pairs: u32, duration_ms: u32) -> ProbeSpec {
        ProbeSpec {
            kind: ProbeKind::RdmaWrite,
            message_size: Bytes(size),
            depth,
            queue_pairs,
            duration_ms,
            completion: Completion::Event,
            memory: MemoryKind::Host,
            stop_at: None,
            measure: Measure::Rate,
            account: false,
        }
    }

    #[test]
    fn batches_divide_the_depth_and_stay_below_a_mebibyte() {
        for (message, depth, expected) in [
            (65_536, 128, 16),
            (65_536, 20, 10),
            (65_536, 97, 1),
            (65_536, 1, 1),
            (1 << 20, 128, 1),
            (1 << 18, 128, 4),
            (8 << 20, 16, 1),
            (4096, 2, 1),
        ] {
            assert_eq!(
                batch(message, depth),
                expected,
                "{message} bytes, depth {depth}"
            );
        }
    }

    #[test]
    fn numbers_out_of_bounds_are_refused_by_name() {
        for (bad, word) in [
            (spec(0, 1, 1, 100), "message size"),
            (spec((1 << 31) + 1, 1, 1, 100), "message size"),
            (spec(1, 0, 1, 100), "depth"),
            (spec(1, 70_000, 1, 100), "depth"),
            (spec(1, 1, 0, 100), "queue pairs"),
            (spec(1, 1, 1, 99), "duration"),
            (spec(1 << 30, 128, 16, 100), "the buffer"),
        ] {
            let error = Shape::new(&bad).expect_err("refused").to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn long_transfers_have_longer_windows() {
        let shape = |ms| Shape::new(&spec(4096, 16, 1, ms)).expect("a shape");
        assert_eq!(shape(1000).window, Duration::from_millis(10));
        assert_eq!(shape(600_000).window, Duration::from_millis(100));
    }

    proptest! {
        #[test]
        fn every_slot_is_written_and_none_lies_on_another(
            message in 1u64..300_000, depth in 1u32..40, queue_pairs in 1u32..5, from in 0u64..1000,
        ) {
            let shape = Shape::new(&spec(message, depth, queue_pairs, 100)).expect("a shape");
            prop_assert_eq!(shape.depth % shape.batch, 0);
            let mut slots: Vec<usize> = (0..queue_pairs as usize)
                .flat_map(|q| (from..from + u64::from(depth)).map(move |s| (q, s)))
                .map(|(q, s)| shape.slot(q, s))
                .collect();
            slots.sort_unstable();
            slots.dedup();
            let all: Vec<usize> = (0..slots.len()).map(|n| n * message as usize).collect();
            prop_assert_eq!(&slots, &all);
            prop_assert_eq!(slots.len() * message as usize, shape.buffer());
        }
    }

    #[test]
    fn slots_are_few_enough_for_the_caches() {
        for (message, depth, expected) in [
            (65_536, 128, 16),
            (65_536, 8, 8),
            (4096, 128, 128),
            (8 << 20, 16, 2),
            (8 << 20, 1, 1),
        ] {
            assert_eq!(
                slots(message, depth),
                expected,
                "{message} bytes, depth {depth}"
            );
        }
    }
}
