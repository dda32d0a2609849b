//! Ends a transfer once it is plain which side of the expected rate it is on.
//!
//! A window lasts 10 ms at least and holds 200 messages at least, and like the measured stretch
//! it begins and ends with a completion. The rates of the windows, as shares of the ceiling, have
//! a median that is known to within five standard errors; windows that follow each other are not
//! independent, which the factor of three makes up for.

use std::time::Duration;

use crate::model::{StopAt, TransferEnd};

/// The shortest window.
const WINDOW: Duration = Duration::from_millis(10);
/// The fewest messages in a window: those of fewer are too coarse.
const WINDOW_MESSAGES: u64 = 200;
/// Nothing is decided by fewer windows …
const FEWEST: usize = 5;
/// … nor by more: what they leave open runs to its end.
const MOST: usize = 200;
/// Good is what lies above this share of the ceiling, bad what lies below that, and what lies
/// between them is both, and not decided.
const GOOD_ABOVE: f64 = 0.80;
const BAD_BELOW: f64 = 0.93;
/// How far the median is trusted, in standard errors.
const ERRORS: f64 = 5.0;
/// The standard error of a median is that of a mean times √(π/2).
const MEDIAN_ERROR: f64 = 1.2533;
/// From the median absolute deviation to the standard deviation of normal values.
const MAD_SIGMA: f64 = 1.4826;
/// Windows that agree better than this share of the ceiling have had no time to differ.
const LEAST_SIGMA: f64 = 0.02;
/// Windows that follow each other tell as much as a third of as many independent ones.
const DEPENDENCE: f64 = 3.0;

/// What was completed up to a moment.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Duration,
    bytes: u64,
    messages: u64,
}

/// Watches one transfer.
#[derive(Debug)]
pub(super) struct Sequential {
    /// Bytes in a second at the ceiling.
    ceiling: f64,
    warm_up: Duration,
    /// Where the first window began, and where the present one did.
    first: Option<Mark>,
    open: Option<Mark>,
    now: Mark,
    /// Rates of whole windows, as shares of the ceiling.
    shares: Vec<f64>,
}

impl Sequential {
    /// Holds a transfer against a ceiling; what completes up to `warm_up` does not count.
    pub fn new(stop_at: StopAt, warm_up: Duration) -> Self {
        Self {
            // 10^6 bits are 125 000 bytes.
            ceiling: stop_at.ceiling_mbps as f64 * 125_000.0,
            warm_up,
            first: None,
            open: None,
            now: Mark {
                at: Duration::ZERO,
                bytes: 0,
                messages: 0,
            },
            shares: Vec::new(),
        }
    }

    /// So much was seen to be complete `at` so long after the first post: whether that is enough,
    /// and of what. Times never fall.
    pub fn record(&mut self, at: Duration, messages: u64, bytes: u64) -> Option<TransferEnd> {
        self.now = Mark {
            at,
            bytes: self.now.bytes.saturating_add(bytes),
            messages: self.now.messages.saturating_add(messages),
        };
        let Some(open) = self.open.filter(|_| at >= self.warm_up) else {
            if at >= self.warm_up {
                (self.first, self.open) = (Some(self.now), Some(self.now));
            }
            return None;
        };
        let is_whole =
            at - open.at >= WINDOW && self.now.messages - open.messages >= WINDOW_MESSAGES;
        if !is_whole || self.shares.len() >= MOST {
            return None;
        }
        self.shares.push(self.share_since(open));
        self.open = Some(self.now);
        self.decide()
    }

    /// The rate from a mark until now, as a share of the ceiling.
    fn share_since(&self, from: Mark) -> f64 {
        let seconds = (self.now.at - from.at).as_secs_f64();
        (self.now.bytes - from.bytes) as f64 / seconds / self.ceiling
    }

    /// The side of the median, where the rate of the whole and that of the last window are on it
    /// too: a rate that changes, or that stalls between fast windows, is given more time.
    fn decide(&self) -> Option<TransferEnd> {
        let [.., last] = self.shares[..] else {
            return None;
        };
        if self.shares.len() < FEWEST {
            return None;
        }
        let (median, error) = interval(&self.shares);
        let whole = self.share_since(self.first?);
        let is_good = median - error > GOOD_ABOVE;
        let is_bad = median + error < BAD_BELOW;
        match (is_good, is_bad) {
            (true, false) => (last.min(whole) > GOOD_ABOVE).then_some(TransferEnd::Good),
            (false, true) => (last.max(whole) < BAD_BELOW).then_some(TransferEnd::Bad),
            _ => None,
        }
    }
}

/// The median of these shares, and how far from it the true one may be.
fn interval(shares: &[f64]) -> (f64, f64) {
    let middle = median(shares.to_vec());
    let deviations = shares.iter().map(|share| (share - middle).abs());
    let sigma = (MAD_SIGMA * median(deviations.collect())).max(LEAST_SIGMA);
    let errors = ERRORS * MEDIAN_ERROR * (DEPENDENCE / shares.len() as f64).sqrt();
    (middle, sigma * errors)
}

/// The median of at least one value; of an even number the mean of the middle two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(values[half - 1], values[half]),
        _ => values[half],
    }
}

#[cfg(test)]
#[path = "sequential_tests.rs"]
mod tests;
