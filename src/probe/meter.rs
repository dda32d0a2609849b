//! From completions to windows and a rate.
//!
//! Completions come in batches, so a clock time is not where data stopped flowing: the measured
//! stretch begins with the first completion after the warm-up, whose bytes came before it, and
//! ends with the last completion within the duration. Nothing is counted that did not flow in it.

use std::time::Duration;

use crate::model::Window;

use super::shape::Shape;

/// Collects completions of one transfer.
#[derive(Debug)]
pub(super) struct Meter {
    warm_up: Duration,
    duration: Duration,
    window: Duration,
    windows: Vec<Window>,
    total: u64,
    last: Duration,
    measured: Option<Stretch>,
}

/// The measured part: bytes completed after `from`, up to `to`.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    from: Duration,
    to: Duration,
    bytes: u64,
}

/// What a transfer came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub bytes: u64,
    /// When the measured stretch began, after the first post.
    pub from: Duration,
    pub elapsed: Duration,
    pub total_bytes: u64,
    pub windows: Vec<Window>,
}

impl Meter {
    pub fn new(shape: &Shape) -> Self {
        Self {
            warm_up: shape.warm_up,
            duration: shape.duration,
            window: shape.window,
            windows: Vec::new(),
            total: 0,
            last: Duration::ZERO,
            measured: None,
        }
    }

    /// `bytes` were seen to be complete `at` so long after the first post. Times never fall.
    pub fn record(&mut self, at: Duration, bytes: u64) {
        self.total += bytes;
        self.last = at;
        self.add_to_window(at, bytes);
        if at < self.warm_up || at > self.duration {
            return;
        }
        match &mut self.measured {
            None => {
                self.measured = Some(Stretch {
                    from: at,
                    to: at,
                    bytes: 0,
                })
            }
            Some(stretch) => {
                stretch.to = at;
                stretch.bytes += bytes;
            }
        }
    }

    /// What completes later than `at` does not count in the rate: nothing more is posted.
    pub fn end_at(&mut self, at: Duration) {
        self.duration = self.duration.min(at);
    }

    /// Adds to the window of `at`; windows in which nothing completed are there, with 0 bytes.
    fn add_to_window(&mut self, at: Duration, bytes: u64) {
        // Bounded: a stall ends the transfer, and windows lengthen with the duration.
        let index = (at.as_nanos() / self.window.as_nanos().max(1)) as usize;
        while self.windows.len() <= index {
            let length_us = micros(self.window);
            let start_us = self.windows.len() as u64 * length_us;
            self.windows.push(Window {
                start_us,
                length_us,
                bytes: 0,
            });
        }
        self.windows[index].bytes += bytes;
    }

    /// The result.
    ///
    /// Where fewer than two batches completed between warm-up and end, all of the transfer is the
    /// measured stretch, from the first post to the last completion: the link is so slow that
    /// latency and warm-up no longer matter.
    pub fn finish(self) -> Reading {
        let (bytes, from, elapsed) = match self.measured {
            Some(Stretch { from, to, bytes }) if to > from => (bytes, from, to - from),
            _ => (self.total, Duration::ZERO, self.last),
        };
        Reading {
            bytes,
            from,
            elapsed,
            total_bytes: self.total,
            windows: self.windows,
        }
    }
}

/// Whole microseconds, saturating.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::shape::tests::spec;
    use super::*;

    fn meter() -> Meter {
        Meter::new(&Shape::new(&spec(65_536, 128, 1, 1000)).expect("a shape"))
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_steady_flow_in_coarse_batches_is_read_without_bias() {
        // 1 MiB every 131 ms is 64 Mbit/s: with clock ends instead of completion ends the rate
        // would be up to a sixth off.
        let mut meter = meter();
        for n in 1..=8 {
            meter.record(ms(131 * n), 1 << 20);
        }
        let reading = meter.finish();
        assert_eq!(reading.elapsed, ms(131 * 6));
        assert_eq!(reading.bytes, 6 << 20);
        assert_eq!(reading.total_bytes, 8 << 20);
    }

    #[test]
    fn warm_up_and_drain_count_as_bytes_but_not_in_the_rate() {
        let mut meter = meter();
        for at in [10, 49, 50, 60, 1000, 1001, 1400] {
            meter.record(ms(at), 100);
        }
        let reading = meter.finish();
        assert_eq!((reading.bytes, reading.elapsed), (200, ms(950)));
        assert_eq!(reading.from, ms(50));
        assert_eq!(reading.total_bytes, 700);
    }

    #[test]
    fn what_drains_after_an_early_end_is_not_in_the_rate() {
        let mut meter = meter();
        for at in [60, 110, 160] {
            meter.record(ms(at), 100);
        }
        meter.end_at(ms(160));
        meter.record(ms(400), 100);
        let reading = meter.finish();
        assert_eq!((reading.bytes, reading.elapsed), (200, ms(100)));
        assert_eq!(reading.total_bytes, 400);
    }

    #[test]
    fn windows_are_gapless_and_hold_every_byte() {
        let mut meter = meter();
        for at in [3, 9, 10, 45] {
            meter.record(ms(at), 7);
        }
        let windows = meter.finish().windows;
        let bytes: Vec<u64> = windows.iter().map(|w| w.bytes).collect();
        assert_eq!(bytes, [14, 7, 0, 0, 7]);
        assert!(
            windows
                .windows(2)
                .all(|w| w[0].start_us + w[0].length_us == w[1].start_us)
        );
    }

    #[test]
    fn a_link_so_slow_that_nothing_completes_in_time_still_has_a_rate() {
        let mut meter = meter();
        meter.record(ms(4000), 5_000_000);
        let reading = meter.finish();
        assert_eq!((reading.bytes, reading.elapsed), (5_000_000, ms(4000)));
    }

    #[test]
    fn one_batch_in_time_does_not_make_a_rate_of_nothing() {
        let mut meter = meter();
        meter.record(ms(900), 100);
        meter.record(ms(1800), 100);
        let reading = meter.finish();
        assert_eq!((reading.bytes, reading.elapsed), (200, ms(1800)));
    }
}
