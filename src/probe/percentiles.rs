//! Round trips of a ping-pong to the latencies that are told of it.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::error::ProbeError;
use crate::model::PingPong;

/// The longest that is told apart, in nanoseconds: a minute.
const LONGEST_NS: u64 = 60_000_000_000;
/// Significant digits that are kept.
const DIGITS: u8 = 3;

/// Halves of round trips, in nanoseconds.
pub(super) struct RoundTrips(Histogram<u64>);

impl RoundTrips {
    pub fn new() -> Result<Self, ProbeError> {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        histogram.map(Self).map_err(|error| ProbeError::Spec {
            why: format!("no histogram: {error}"),
        })
    }

    /// A message went to and fro in so long.
    pub fn record(&mut self, took: Duration) {
        let half = u64::try_from(took.as_nanos() / 2).unwrap_or(u64::MAX);
        self.0.saturating_record(half.max(1));
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// What is told of them, of messages of so many bytes.
    pub fn summary(&self, bytes: u64) -> PingPong {
        let at = |quantile| self.0.value_at_quantile(quantile);
        PingPong {
            bytes,
            min_ns: self.0.min(),
            median_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.0.max(),
            samples: self.0.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_round_trip_is_told_by_its_place_among_all() {
        let mut trips = RoundTrips::new().unwrap();
        (1..=1000).for_each(|n| trips.record(Duration::from_micros(2 * n)));
        let told = trips.summary(64);
        let near = |told: u64, exact: u64| told.abs_diff(exact) <= exact / 500;
        assert_eq!((told.bytes, told.samples), (64, 1000));
        assert!(
            near(told.min_ns, 1_000) && near(told.max_ns, 1_000_000),
            "{told:?}"
        );
        assert!(
            near(told.median_ns, 500_000) && near(told.p99_ns, 990_000),
            "{told:?}"
        );
        assert!(near(told.p999_ns, 999_000), "{told:?}");
    }

    #[test]
    fn what_is_out_of_bounds_is_at_the_bound() {
        let mut trips = RoundTrips::new().unwrap();
        trips.record(Duration::ZERO);
        trips.record(Duration::from_secs(1 << 40));
        let told = trips.summary(2);
        assert_eq!((told.min_ns, told.samples), (1, 2));
        assert!(told.max_ns >= LONGEST_NS, "{told:?}");
    }
}
