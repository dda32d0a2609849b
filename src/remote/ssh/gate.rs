//! At most so many handshakes at once: more would time each other out, here and on jump hosts.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A counting semaphore.
pub(super) struct Gate {
    free: Mutex<usize>,
    freed: Condvar,
}

/// The right to connect; given back when dropped.
pub(super) struct Pass<'a>(&'a Gate);

impl Gate {
    /// `places` may be held at once; at least one.
    pub(super) fn new(places: usize) -> Gate {
        Gate {
            free: Mutex::new(places.max(1)),
            freed: Condvar::new(),
        }
    }

    /// Waits for a place; `None` when `given_up` becomes true first.
    pub(super) fn enter(&self, given_up: impl Fn() -> bool) -> Option<Pass<'_>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if given_up() {
                return None;
            }
            if *free > 0 {
                *free -= 1;
                return Some(Pass(self));
            }
            let slice = Duration::from_millis(200);
            let waited = self.freed.wait_timeout(free, slice);
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn no_more_than_the_places_are_inside() {
        let gate = Gate::new(3);
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    let _pass = gate.enter(|| false).unwrap();
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(5));
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.into_inner(), 3);
    }

    #[test]
    fn giving_up_ends_the_wait() {
        let gate = Gate::new(1);
        let _pass = gate.enter(|| false);
        assert!(gate.enter(|| true).is_none());
    }
}
