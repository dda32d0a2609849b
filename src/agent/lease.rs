//! The lease: an agent whose controller falls silent ends, even while it is stuck in a write or a
//! transfer. A controller behind a cut link could otherwise leave agents alive for minutes.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After the end of input a running agent gets so long to put things down by itself.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy)]
struct State {
    heard: Instant,
    length: Duration,
    ended: bool,
}

/// The agent's hold on life; clones share it.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Lease {
    /// A lease of this length, from now.
    pub(super) fn new(length: Duration) -> Self {
        let state = State {
            heard: Instant::now(),
            length,
            ended: false,
        };
        Self {
            state: Arc::new((Mutex::new(state), Condvar::new())),
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.state.1.notify_all();
    }

    /// The controller was heard.
    pub(super) fn renew(&self) {
        self.change(|state| state.heard = Instant::now());
    }

    /// The controller asks for another length.
    pub(super) fn set_length(&self, length: Duration) {
        self.change(|state| state.length = length);
    }

    /// The input ended: nothing will renew the lease again.
    pub(super) fn end(&self) {
        self.change(|state| {
            state.ended = true;
            state.heard = Instant::now();
            state.length = GRACE;
        });
    }

    /// Waits until the lease has run out, and says whether that was by silence (else the input ended).
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = (state.heard + state.length).saturating_duration_since(Instant::now());
            if left.is_zero() {
                return !state.ended;
            }
            (state, _) = self
                .state
                .1
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_out_by_silence_or_by_end() {
        let lease = Lease::new(Duration::from_millis(20));
        assert!(lease.wait());
        let lease = Lease::new(Duration::ZERO);
        lease.end();
        lease.set_length(Duration::ZERO);
        assert!(!lease.wait());
    }

    #[test]
    fn renewing_keeps_it() {
        let lease = Lease::new(Duration::from_secs(3600));
        let waiter = lease.clone();
        let thread = std::thread::spawn(move || waiter.wait());
        lease.renew();
        assert!(!thread.is_finished());
        lease.set_length(Duration::ZERO);
        assert!(thread.join().unwrap());
    }
}
