//! A token bucket: how long a frame waits for its turn on what has a given rate.

use std::time::{Duration, Instant};

use crate::rate::Rate;

/// How far a link that was idle may run ahead of its rate, at most: the burst that kept shaped RDMA streams
/// within 0.1 % of `tc`'s token bucket with the same value.
const BURST_BYTES: f64 = 65536.0;

/// What a slower link may save is what it carries in this time, in seconds: the burst above would be a
/// thirtieth of what 8 Mbit/s carry in a probe of two seconds, which then is faster than its link.
const BURST_SECONDS: f64 = 0.032;

/// But never less than two frames of an RDMA MTU of 4096 bytes.
const LEAST_BURST_BYTES: f64 = 8400.0;

/// The burst of a link that carries so many bytes in a second.
fn burst(bytes_per_s: f64) -> f64 {
    (bytes_per_s * BURST_SECONDS).clamp(LEAST_BURST_BYTES, BURST_BYTES)
}

/// Tokens of one direction of one link, or of what several share; starts full.
#[derive(Debug)]
pub struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    /// A full bucket at this moment.
    pub fn new(now: Instant) -> Bucket {
        Bucket {
            tokens: BURST_BYTES,
            filled: now,
        }
    }

    /// Takes the tokens for `bytes`, or says how long to wait before asking again. `None` as rate takes
    /// nothing and never waits. A frame longer than the burst passes with a full bucket and leaves debt.
    ///
    /// # Errors
    /// The wait, computed for the rate given now.
    pub fn take(&mut self, rate: Option<Rate>, bytes: usize, now: Instant) -> Result<(), Duration> {
        let Some(rate) = rate else {
            *self = Bucket::new(now);
            return Ok(());
        };
        let bytes_per_s = self.fill(rate, now);
        let needed = (bytes as f64).min(burst(bytes_per_s));
        // A billionth of a token missing is rounding, and would be waited for in vain.
        if self.tokens + 1e-6 >= needed {
            self.tokens -= bytes as f64;
            return Ok(());
        }
        Err(Duration::from_secs_f64(
            (needed - self.tokens) / bytes_per_s,
        ))
    }

    /// Takes the tokens for `bytes` at once, on credit where they are missing, and says how long to wait
    /// until they are there: several who ask are served in turn. `None` as rate never waits.
    pub fn reserve(&mut self, rate: Option<Rate>, bytes: usize, now: Instant) -> Duration {
        let Some(rate) = rate else {
            *self = Bucket::new(now);
            return Duration::ZERO;
        };
        let bytes_per_s = self.fill(rate, now);
        self.tokens -= bytes as f64;
        Duration::from_secs_f64((-self.tokens).max(0.0) / bytes_per_s)
    }

    /// Adds what has run in since the last time. The rate in bytes per second.
    fn fill(&mut self, rate: Rate, now: Instant) -> f64 {
        let bytes_per_s = rate.bits_per_second() as f64 / 8.0;
        let elapsed_s = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + elapsed_s * bytes_per_s).min(burst(bytes_per_s));
        // Threads of several rails may come with moments out of order.
        self.filled = self.filled.max(now);
        bytes_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that pass in `seconds` of simulated time, sleeping exactly as told.
    fn passed(rate: &str, frame: usize, seconds: f64) -> f64 {
        let rate = Some(rate.parse().unwrap());
        let start = Instant::now();
        let (mut bucket, mut now, mut bytes) = (Bucket::new(start), start, 0.0);
        while now.duration_since(start).as_secs_f64() < seconds {
            match bucket.take(rate, frame, now) {
                Ok(()) => bytes += frame as f64,
                Err(wait) => now += wait + Duration::from_nanos(1),
            }
        }
        bytes
    }

    #[test]
    fn the_long_run_keeps_the_rate() {
        let bytes = passed("64mbit", 4158, 10.0) - BURST_BYTES;
        assert!((bytes / 80e6 - 1.0).abs() < 0.001, "{bytes}");
    }

    #[test]
    fn a_frame_longer_than_the_burst_passes_and_is_paid_for() {
        let bytes = passed("8mbit", 69632, 10.0) - burst(1e6);
        assert!((bytes / 10e6 - 1.0).abs() < 0.01, "{bytes}");
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let now = Instant::now();
        let mut bucket = Bucket::new(now);
        assert!((0..1000).all(|_| bucket.take(None, 4158, now).is_ok()));
    }

    #[test]
    fn an_idle_link_saves_no_more_than_the_burst() {
        let start = Instant::now();
        let mut bucket = Bucket::new(start);
        let later = start + Duration::from_secs(3600);
        let rate = Some("64mbit".parse().unwrap());
        let taken = (0..100)
            .take_while(|_| bucket.take(rate, 4096, later).is_ok())
            .count();
        assert_eq!(taken, 16);
        // The saving is smaller where the link is slow, and for none smaller than two frames.
        assert_eq!((burst(1e6), burst(1e5)), (32000.0, LEAST_BURST_BYTES));
    }
}
