//! Shuts a socket when its time is over: libssh2's own time-out never fires while bytes keep
//! coming, so an endless greeting would hold a thread at full load for ever.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

struct State {
    /// `None` while the clock stands still for a person at a prompt.
    deadline: Option<Instant>,
    done: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches one socket from its creation until it is dropped.
pub(super) struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts watching.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn start(socket: Arc<TcpStream>, deadline: Instant) -> io::Result<Watchdog> {
        let state = State {
            deadline: Some(deadline),
            done: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let watched = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("ssh-watchdog".to_string())
            .stack_size(64 * 1024)
            .spawn(move || watch(&watched, &socket))?;
        Ok(Watchdog {
            shared,
            thread: Some(thread),
        })
    }

    /// Time left before it bites; zero also while the clock stands still.
    pub(super) fn left(&self) -> Duration {
        let deadline = self.shared.lock().deadline;
        deadline.map_or(Duration::ZERO, |d| {
            d.saturating_duration_since(Instant::now())
        })
    }

    /// Runs `work` with the clock standing still.
    pub(super) fn paused<T>(&self, work: impl FnOnce() -> T) -> T {
        let left = self.left();
        self.shared.lock().deadline = None;
        let result = work();
        self.shared.lock().deadline = Some(Instant::now() + left);
        self.shared.changed.notify_all();
        result
    }
}

fn watch(shared: &Shared, socket: &TcpStream) {
    let mut state = shared.lock();
    while !state.done {
        let now = Instant::now();
        let nap = match state.deadline {
            Some(deadline) if deadline <= now => {
                // Already shut is as good.
                let _ = socket.shutdown(Shutdown::Both);
                return;
            }
            Some(deadline) => deadline - now,
            None => Duration::from_secs(1),
        };
        let waited = shared.changed.wait_timeout(state, nap);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().done = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
