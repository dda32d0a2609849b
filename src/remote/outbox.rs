//! Bytes queued for an agent: bounded, and an eventfd that wakes the thread that owns the
//! connection.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Why bytes were not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The queue holds as many bytes as it may: the node does not read as fast as it is spoken to.
    #[error("the queue to the node is full")]
    Full,
    /// The connection has ended, or the outbox was closed.
    #[error("the connection to the node has ended")]
    Closed,
}

struct Queue {
    chunks: VecDeque<Vec<u8>>,
    bytes: usize,
    closed: bool,
    senders: usize,
    on_close: Option<Box<dyn FnOnce() + Send>>,
}

struct Shared {
    queue: Mutex<Queue>,
    capacity: usize,
    wake: EventFd,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let hook = {
            let mut queue = self.lock();
            queue.closed = true;
            queue.on_close.take()
        };
        if let Some(hook) = hook {
            hook();
        }
        self.wake();
    }

    fn wake(&self) {
        // Fails only when the counter is at its maximum, and then the owner is already being woken.
        let _ = self.wake.write(1);
    }
}

/// The connection's end of the queue: given to [`Carrier::carry`](super::Carrier::carry).
pub struct Outbox {
    shared: Arc<Shared>,
}

/// The sending end; clones share one queue. When the last one is dropped the queue closes, and
/// what was queued is still sent.
pub struct OutboxSender {
    shared: Arc<Shared>,
}

impl Outbox {
    /// A queue that holds at most `capacity` bytes.
    ///
    /// # Errors
    /// When the process has no file descriptor left for the eventfd.
    pub fn bounded(capacity: usize) -> io::Result<(OutboxSender, Outbox)> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let queue = Queue {
            chunks: VecDeque::new(),
            bytes: 0,
            closed: false,
            senders: 1,
            on_close: None,
        };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            capacity,
            wake,
        });
        Ok((
            OutboxSender {
                shared: Arc::clone(&shared),
            },
            Outbox { shared },
        ))
    }

    /// The next chunk to send, in the order of the sends.
    pub(super) fn pop(&self) -> Option<Vec<u8>> {
        let mut queue = self.shared.lock();
        let chunk = queue.chunks.pop_front()?;
        queue.bytes -= chunk.len();
        Some(chunk)
    }

    /// True once no more will be queued (what is queued may still be there).
    pub(super) fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }

    /// Clears the wake-up; call it before looking at the queue.
    pub(super) fn acknowledge(&self) {
        let _ = self.shared.wake.read();
    }

    /// Readable when something was queued or the queue was closed.
    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }

    /// Runs `hook` when the outbox is closed (at once if it is closed): how a blocked connect or
    /// handshake is broken off. `None` forgets the hook.
    pub(super) fn on_close(&self, hook: Option<Box<dyn FnOnce() + Send>>) {
        let mut queue = self.shared.lock();
        if !queue.closed {
            queue.on_close = hook;
            return;
        }
        drop(queue);
        if let Some(hook) = hook {
            hook();
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        queue.on_close = None;
        queue.chunks.clear();
        queue.bytes = 0;
    }
}

impl OutboxSender {
    /// Queues bytes for the agent. Bytes queued before the agent runs wait for it.
    ///
    /// # Errors
    /// [`SendError::Full`] when the queue cannot take all of `bytes`, [`SendError::Closed`] when
    /// the connection has ended; nothing was queued then.
    pub fn send(&self, bytes: Vec<u8>) -> Result<(), SendError> {
        let mut queue = self.shared.lock();
        if queue.closed {
            return Err(SendError::Closed);
        }
        if queue.bytes + bytes.len() > self.shared.capacity {
            return Err(SendError::Full);
        }
        queue.bytes += bytes.len();
        queue.chunks.push_back(bytes);
        drop(queue);
        self.shared.wake();
        Ok(())
    }

    /// Ends the connection: what is queued is sent if the agent already runs, then the agent's
    /// input ends. While still connecting, the attempt is broken off.
    pub fn close(&self) {
        self.shared.close();
    }
}

impl Clone for OutboxSender {
    fn clone(&self) -> Self {
        self.shared.lock().senders += 1;
        OutboxSender {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Drop for OutboxSender {
    fn drop(&mut self) {
        let last = {
            let mut queue = self.shared.lock();
            queue.senders -= 1;
            queue.senders == 0
        };
        if last {
            self.shared.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn bytes_come_out_in_order_and_the_bound_holds() {
        let (sender, outbox) = Outbox::bounded(4).unwrap();
        sender.send(b"ab".to_vec()).unwrap();
        sender.send(b"cd".to_vec()).unwrap();
        assert_eq!(sender.send(b"e".to_vec()), Err(SendError::Full));
        assert_eq!(outbox.pop().unwrap(), b"ab");
        sender.send(b"e".to_vec()).unwrap();
        assert_eq!(outbox.pop().unwrap(), b"cd");
        assert_eq!(outbox.pop().unwrap(), b"e");
        assert_eq!(outbox.pop(), None);
    }

    #[test]
    fn the_last_sender_closes_and_what_was_queued_stays() {
        let (sender, outbox) = Outbox::bounded(10).unwrap();
        let other = sender.clone();
        sender.send(b"x".to_vec()).unwrap();
        drop(sender);
        assert!(!outbox.is_closed());
        let hung_up = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&hung_up);
        outbox.on_close(Some(Box::new(move || flag.store(true, Ordering::SeqCst))));
        drop(other);
        assert!(outbox.is_closed());
        assert!(hung_up.load(Ordering::SeqCst));
        assert_eq!(outbox.pop().unwrap(), b"x");
    }

    #[test]
    fn a_dropped_connection_refuses_more() {
        let (sender, outbox) = Outbox::bounded(10).unwrap();
        drop(outbox);
        assert_eq!(sender.send(b"x".to_vec()), Err(SendError::Closed));
    }
}
