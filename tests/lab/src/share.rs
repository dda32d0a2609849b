//! What all rails of a node share: one token bucket for everything that it sends and one for everything
//! that it receives, so that a rail alone has its full rate and all of them together have less.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::bucket::Bucket;
use crate::fault::Direction;
use crate::rate::Rate;

/// The shared limit of one node, in each direction by itself, as that of a PCIe link is.
#[derive(Debug)]
pub struct Share {
    tx: Mutex<Lane>,
    rx: Mutex<Lane>,
}

#[derive(Debug)]
struct Lane {
    rate: Option<Rate>,
    bucket: Bucket,
}

impl Share {
    /// Without a limit.
    pub fn new() -> Share {
        let lane = || {
            Mutex::new(Lane {
                rate: None,
                bucket: Bucket::new(Instant::now()),
            })
        };
        Share {
            tx: lane(),
            rx: lane(),
        }
    }

    /// Sets the rate of each direction; `None` lifts the limit.
    pub fn set(&self, rate: Option<Rate>) {
        for lane in [&self.tx, &self.rx] {
            let mut lane = lane.lock().unwrap_or_else(PoisonError::into_inner);
            // One that stays keeps what it owes.
            if lane.rate != rate {
                *lane = Lane {
                    rate,
                    bucket: Bucket::new(Instant::now()),
                };
            }
        }
    }

    /// Takes the tokens for `bytes` in a direction (`Tx` or `Rx`), and says how long the frame has to wait
    /// for them: rails are served in the order in which they ask.
    pub fn reserve(&self, direction: Direction, bytes: usize, now: Instant) -> Duration {
        let mut lane = self.lane(direction);
        let rate = lane.rate;
        lane.bucket.reserve(rate, bytes, now)
    }

    /// Whether the direction has a limit now.
    pub fn is_limited(&self, direction: Direction) -> bool {
        self.lane(direction).rate.is_some()
    }

    fn lane(&self, direction: Direction) -> std::sync::MutexGuard<'_, Lane> {
        let lane = match direction {
            Direction::Rx => &self.rx,
            Direction::Tx | Direction::Both => &self.tx,
        };
        // A thread that panicked left numbers, none of them half written.
        lane.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(rate: &str) -> Share {
        let share = Share::new();
        share.set(Some(rate.parse().unwrap()));
        share
    }

    /// Bytes of each of these rails in `seconds` of simulated time, each asking as soon as its frame went.
    fn passed(share: &Share, frames: &[usize], seconds: f64) -> Vec<f64> {
        let start = Instant::now();
        let end = start + Duration::from_secs_f64(seconds);
        let mut free = vec![start; frames.len()];
        let mut bytes = vec![0.0; frames.len()];
        loop {
            let next = (0..free.len()).min_by_key(|rail| free[*rail]).unwrap();
            let now = free[next];
            if now >= end {
                return bytes;
            }
            free[next] = now + share.reserve(Direction::Tx, frames[next], now);
            bytes[next] += frames[next] as f64;
        }
    }

    #[test]
    fn rails_together_have_the_rate_and_each_an_equal_part() {
        let bytes = passed(&limited("16mbit"), &[4158, 4158], 10.0);
        let [first, second] = bytes[..] else { panic!() };
        // 20 MB and a burst at the start.
        assert!(((first + second) / 20e6 - 1.0).abs() < 0.01, "{bytes:?}");
        assert!((first / second - 1.0).abs() < 0.01, "{bytes:?}");
    }

    #[test]
    fn a_rail_alone_has_all_of_it() {
        let bytes = passed(&limited("16mbit"), &[4158], 10.0);
        assert!((bytes[0] / 20e6 - 1.0).abs() < 0.01, "{bytes:?}");
    }

    #[test]
    fn what_is_sent_costs_nothing_of_what_is_received() {
        let (share, now) = (limited("8mbit"), Instant::now());
        while share.reserve(Direction::Tx, 4158, now).is_zero() {}
        assert!(share.reserve(Direction::Rx, 4158, now).is_zero());
    }

    #[test]
    fn setting_the_same_rate_again_gives_no_new_burst() {
        let (share, now) = (limited("8mbit"), Instant::now());
        while share.reserve(Direction::Tx, 4158, now).is_zero() {}
        share.set(Some("8mbit".parse().unwrap()));
        assert!(!share.reserve(Direction::Tx, 4158, now).is_zero());
        share.set(None);
        assert!(share.reserve(Direction::Tx, 4158, now).is_zero());
        assert!(!share.is_limited(Direction::Tx));
    }
}
