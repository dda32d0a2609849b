//! Frames on their way in one direction of a port, in the order in which they came, but that
//! acknowledgements overtake data.
//!
//! A NIC takes turns among its queue pairs, so that an acknowledgement waits for a packet or two of other
//! queue pairs, however many bytes they have in flight. In one queue it would wait for all of them, and a
//! link that is slow one way would be as slow the other way as soon as both are loaded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::frame::{Frame, is_acknowledgement};

/// Bytes queued before whoever brings more is held back: two windows of soft-RoCE, which keeps at most 128
/// packets of 4 KiB unacknowledged for a queue pair.
const QUEUE_BYTES: usize = 1 << 20;

/// A queue that is open while its port is connected.
#[derive(Default)]
pub struct Lane {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    acknowledgements: BinaryHeap<Reverse<Queued>>,
    others: BinaryHeap<Reverse<Queued>>,
    bytes: usize,
    pushed: u64,
    /// Counts connections, so that threads of an earlier one notice that they are past.
    connection: u64,
    is_open: bool,
}

/// Ordered by when it may leave, then by arrival: frames of one sender keep their order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Queued {
    due: Instant,
    number: u64,
    frame: Frame,
}

impl Lane {
    /// Opens it, empty, for a new connection. The number of that.
    pub fn open(&self) -> u64 {
        let mut queue = self.lock();
        *queue = Queue {
            connection: queue.connection + 1,
            is_open: true,
            ..Queue::default()
        };
        let connection = queue.connection;
        drop(queue);
        self.changed.notify_all();
        connection
    }

    /// Closes it and forgets what is in it, if this connection is not past.
    pub fn close(&self, connection: u64) {
        let mut queue = self.lock();
        if queue.connection == connection {
            *queue = Queue {
                connection,
                ..Queue::default()
            };
        }
        drop(queue);
        self.changed.notify_all();
    }

    /// Queues a frame that may leave at `due`, waiting at most `patience` for room. Whether there was.
    pub fn push(&self, frame: Frame, due: Instant, patience: Duration) -> bool {
        let full = |queue: &mut Queue| queue.is_open && queue.bytes >= QUEUE_BYTES;
        let (mut queue, _) = self
            .changed
            .wait_timeout_while(self.lock(), patience, full)
            .unwrap_or_else(PoisonError::into_inner);
        if !queue.is_open || queue.bytes >= QUEUE_BYTES {
            return false;
        }
        queue.push(frame, due);
        drop(queue);
        self.changed.notify_all();
        true
    }

    /// The next frame that is due, waiting for it; `None` once this connection is past.
    pub fn next(&self, connection: u64) -> Option<Frame> {
        let mut queue = self.lock();
        loop {
            if queue.connection != connection || !queue.is_open {
                return None;
            }
            let now = Instant::now();
            if let Some(frame) = queue.pop(now) {
                drop(queue);
                self.changed.notify_all();
                return Some(frame);
            }
            queue = match queue.next_due() {
                None => self
                    .changed
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let wait = due.saturating_duration_since(now);
                    let waited = self.changed.wait_timeout(queue, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// A thread that panicked while it held the lock left frames, none of them half written.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn push(&mut self, frame: Frame, due: Instant) {
        self.bytes += frame.len();
        self.pushed += 1;
        let number = self.pushed;
        let heap = match is_acknowledgement(&frame) {
            true => &mut self.acknowledgements,
            false => &mut self.others,
        };
        heap.push(Reverse(Queued { due, number, frame }));
    }

    fn pop(&mut self, now: Instant) -> Option<Frame> {
        let mut heaps = [&mut self.acknowledgements, &mut self.others].into_iter();
        let is_due = |heap: &&mut BinaryHeap<Reverse<Queued>>| {
            heap.peek().is_some_and(|Reverse(first)| first.due <= now)
        };
        let Reverse(first) = heaps.find(is_due)?.pop()?;
        self.bytes -= first.frame.len();
        Some(first.frame)
    }

    fn next_due(&self) -> Option<Instant> {
        let heaps = [&self.acknowledgements, &self.others].into_iter();
        let firsts = heaps.filter_map(|heap| heap.peek());
        firsts.map(|Reverse(first)| first.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::acknowledgement;

    #[test]
    fn acknowledgements_overtake_data_and_neither_its_own_kind() {
        let lane = Lane::default();
        let connection = lane.open();
        let data = |n: u8| Frame::from(vec![n; 100]);
        for frame in [data(1), acknowledgement(2), data(3), acknowledgement(4)] {
            assert!(lane.push(frame, Instant::now(), Duration::ZERO));
        }
        let order: Vec<u8> = (0..4)
            .map(|_| *lane.next(connection).unwrap().last().unwrap())
            .collect();
        assert_eq!(order, [2, 4, 1, 3]);
    }

    #[test]
    fn an_acknowledgement_that_is_not_due_holds_nothing_back() {
        let lane = Lane::default();
        let connection = lane.open();
        let now = Instant::now();
        let later = now + Duration::from_secs(3600);
        assert!(lane.push(acknowledgement(1), later, Duration::ZERO));
        assert!(lane.push(vec![2; 100].into(), now, Duration::ZERO));
        assert_eq!(lane.next(connection).unwrap()[0], 2);
    }

    #[test]
    fn a_full_lane_and_a_closed_one_take_nothing() {
        let lane = Lane::default();
        let push = || lane.push(vec![0; QUEUE_BYTES].into(), Instant::now(), Duration::ZERO);
        assert!(!push());
        let connection = lane.open();
        assert!(push());
        assert!(!push());
        lane.close(connection);
        assert_eq!(lane.next(connection), None);
        assert!(!push());
    }
}
