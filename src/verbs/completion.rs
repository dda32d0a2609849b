//! Completion queues: busy polling, or events on a channel, with a deadline; the stall watchdog.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ibverbs_sys as ffi;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::device::{Context, Device};
use super::error::{VerbsError, call_error};
use super::explain::Operation;

/// How completions are awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionMode {
    /// A core spins on the queue: lowest latency, one core busy.
    BusyPoll,
    /// The thread sleeps until the device raises an event.
    Event,
}

/// One work completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The work request's id, as it was posted.
    pub request: u64,
    /// The local queue pair's number.
    pub queue_pair: u32,
    /// Success, or status (`enum ibv_wc_status`) and vendor syndrome.
    pub outcome: Result<(), (u32, u32)>,
}

/// How a wait for completions ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// There is at least one completion.
    Completed,
    /// There was none until the deadline.
    TimedOut,
}

/// Completions fetched from the device by one call.
const BATCH: usize = 32;
/// Polls between two looks at the clock while spinning (a look costs about as much as a poll).
const SPINS_PER_CLOCK: u32 = 32;

/// The queue that work completions arrive in.
pub struct CompletionQueue {
    pub(super) handle: Arc<QueueHandle>,
    mode: CompletionMode,
    batch: [ffi::ibv_wc; BATCH],
}

pub(super) struct QueueHandle {
    context: Arc<Context>,
    pub(super) raw: NonNull<ffi::ibv_cq>,
    channel: Option<NonNull<ffi::ibv_comp_channel>>,
    /// Events taken from the channel and not yet acknowledged; destroying waits for all.
    unacknowledged: AtomicU32,
}

// SAFETY: verbs calls on a completion queue and its channel are thread-safe.
unsafe impl Send for QueueHandle {}
// SAFETY: as above.
unsafe impl Sync for QueueHandle {}

impl Drop for QueueHandle {
    fn drop(&mut self) {
        let library = self.context.library;
        let events = self.unacknowledged.load(Ordering::Relaxed);
        // SAFETY: queue and channel were created once and are destroyed once, the queue first;
        // queue pairs on the queue hold an Arc of it and are gone.
        unsafe {
            if events > 0 {
                (library.ack_cq_events)(self.raw.as_ptr(), events);
            }
            (library.destroy_cq)(self.raw.as_ptr());
        }
        destroy_channel(&self.context, self.channel);
    }
}

fn destroy_channel(context: &Context, channel: Option<NonNull<ffi::ibv_comp_channel>>) {
    if let Some(channel) = channel {
        // SAFETY: created by `create_channel`, destroyed once, after its completion queue.
        unsafe { (context.library.destroy_comp_channel)(channel.as_ptr()) };
    }
}

impl CompletionQueue {
    /// Creates a queue with room for `entries` completions on `device`.
    ///
    /// # Errors
    /// More entries than the device has, or out of memory or resources.
    pub fn new(device: &Device, entries: u32, mode: CompletionMode) -> Result<Self, VerbsError> {
        let context = Arc::clone(&device.context);
        let channel = match mode {
            CompletionMode::BusyPoll => None,
            CompletionMode::Event => Some(create_channel(&context)?),
        };
        // SAFETY: the context is open, the channel is null or belongs to it, vector 0 exists.
        let raw = unsafe {
            (context.library.create_cq)(
                context.raw.as_ptr(),
                i32::try_from(entries).unwrap_or(i32::MAX),
                std::ptr::null_mut(),
                channel.map_or(std::ptr::null_mut(), NonNull::as_ptr),
                0,
            )
        };
        let Some(raw) = NonNull::new(raw) else {
            let source = io::Error::last_os_error();
            destroy_channel(&context, channel);
            return Err(VerbsError::CreateCompletionQueue {
                entries,
                device: context.name.clone(),
                failure: context.failure(source, Operation::CreateCompletionQueue),
            });
        };
        let unacknowledged = AtomicU32::new(0);
        let handle = Arc::new(QueueHandle {
            context,
            raw,
            channel,
            unacknowledged,
        });
        Ok(Self {
            handle,
            mode,
            batch: [ffi::ibv_wc::default(); BATCH],
        })
    }

    /// Appends the completions that are there, at most 32, to `into`; returns how many.
    ///
    /// # Errors
    /// The provider reports a broken queue.
    pub fn poll(&mut self, into: &mut Vec<Completion>) -> Result<usize, VerbsError> {
        let cq = self.handle.raw.as_ptr();
        // SAFETY: the context of a live queue is open, and every provider fills in `poll_cq`.
        let poll_cq = unsafe { self.handle.context.raw.as_ref().ops.poll_cq };
        let returned = match poll_cq {
            // SAFETY: `batch` has room for BATCH entries.
            Some(call) => unsafe { call(cq, BATCH as i32, self.batch.as_mut_ptr()) },
            None => -nix::libc::EOPNOTSUPP,
        };
        let Ok(count) = usize::try_from(returned) else {
            return Err(VerbsError::PollCompletions {
                device: self.handle.context.name.clone(),
                failure: self
                    .handle
                    .context
                    .failure(call_error(returned), Operation::Complete),
            });
        };
        into.extend(self.batch.iter().take(count).map(|wc| Completion {
            request: wc.wr_id(),
            queue_pair: wc.qp_num,
            outcome: wc.error().map_or(Ok(()), Err),
        }));
        Ok(count)
    }

    /// Waits until there are completions, appends them to `into`, or gives up at `deadline`.
    ///
    /// # Errors
    /// As [`CompletionQueue::poll`], or the channel cannot be read.
    pub fn wait(
        &mut self,
        into: &mut Vec<Completion>,
        deadline: Instant,
    ) -> Result<Wait, VerbsError> {
        match self.mode {
            CompletionMode::BusyPoll => self.spin(into, deadline),
            CompletionMode::Event => self.sleep(into, deadline),
        }
    }

    fn spin(&mut self, into: &mut Vec<Completion>, deadline: Instant) -> Result<Wait, VerbsError> {
        loop {
            for _ in 0..SPINS_PER_CLOCK {
                if self.poll(into)? > 0 {
                    return Ok(Wait::Completed);
                }
                std::hint::spin_loop();
            }
            if Instant::now() >= deadline {
                return Ok(Wait::TimedOut);
            }
        }
    }

    fn sleep(&mut self, into: &mut Vec<Completion>, deadline: Instant) -> Result<Wait, VerbsError> {
        loop {
            if self.poll(into)? > 0 {
                return Ok(Wait::Completed);
            }
            self.arm()?;
            // A completion that arrived before the queue was armed raises no event.
            if self.poll(into)? > 0 {
                return Ok(Wait::Completed);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.await_event(left)? {
                return Ok(Wait::TimedOut);
            }
        }
    }

    fn arm(&self) -> Result<(), VerbsError> {
        // SAFETY: as for `poll_cq`.
        let request = unsafe { self.handle.context.raw.as_ref().ops.req_notify_cq };
        let returned = match request {
            // SAFETY: the queue is alive; 0 asks for an event on any completion.
            Some(call) => unsafe { call(self.handle.raw.as_ptr(), 0) },
            None => nix::libc::EOPNOTSUPP,
        };
        if returned != 0 {
            return Err(self.await_error(call_error(returned)));
        }
        Ok(())
    }

    /// Sleeps until an event or for `at_most`; tells whether there was one, and takes it.
    fn await_event(&self, at_most: Duration) -> Result<bool, VerbsError> {
        let Some(channel) = self.handle.channel else {
            return Ok(false);
        };
        // SAFETY: the channel and its descriptor live as long as the handle.
        let fd = unsafe { BorrowedFd::borrow_raw(channel.as_ref().fd) };
        // Rounded up: a timeout of 0 ms would spin until the deadline.
        let millis = u16::try_from(at_most.as_millis() + 1).unwrap_or(u16::MAX);
        let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(millis)) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => return Ok(true),
            Err(errno) => return Err(self.await_error(errno.into())),
        }
        let (mut cq, mut user) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel is alive and non-blocking; both places are valid.
        let returned = unsafe {
            (self.handle.context.library.get_cq_event)(channel.as_ptr(), &mut cq, &mut user)
        };
        if returned == 0 {
            self.handle.unacknowledged.fetch_add(1, Ordering::Relaxed);
            return Ok(true);
        }
        match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::WouldBlock => Ok(true),
            e => Err(self.await_error(e)),
        }
    }

    fn await_error(&self, source: io::Error) -> VerbsError {
        VerbsError::AwaitCompletions {
            device: self.handle.context.name.clone(),
            failure: self.handle.context.failure(source, Operation::Complete),
        }
    }
}

/// A completion channel whose descriptor does not block.
fn create_channel(context: &Context) -> Result<NonNull<ffi::ibv_comp_channel>, VerbsError> {
    let failed = |source| VerbsError::CreateCompletionChannel {
        device: context.name.clone(),
        failure: context.failure(source, Operation::CreateCompletionQueue),
    };
    // SAFETY: the context is open.
    let channel = unsafe { (context.library.create_comp_channel)(context.raw.as_ptr()) };
    let channel = NonNull::new(channel).ok_or_else(|| failed(io::Error::last_os_error()))?;
    // SAFETY: the channel was just created, and its descriptor is open.
    let fd = unsafe { BorrowedFd::borrow_raw(channel.as_ref().fd) };
    let non_blocking = fcntl(fd, FcntlArg::F_GETFL)
        .map(|flags| OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK)
        .and_then(|flags| fcntl(fd, FcntlArg::F_SETFL(flags)));
    if let Err(errno) = non_blocking {
        destroy_channel(context, Some(channel));
        return Err(failed(errno.into()));
    }
    Ok(channel)
}

/// Notices that nothing has completed for too long.
///
/// Needed beside the transport's own retries: with some devices these never end.
#[derive(Debug, Clone, Copy)]
pub struct StallWatchdog {
    limit: Duration,
    last_progress: Instant,
}

impl StallWatchdog {
    /// Barks after `limit` without progress, counted from `now`.
    pub fn new(limit: Duration, now: Instant) -> Self {
        Self {
            limit,
            last_progress: now,
        }
    }

    /// Something completed at `now`.
    pub fn progress(&mut self, now: Instant) {
        self.last_progress = now;
    }

    /// For how long nothing completed, once that is beyond the limit.
    pub fn stalled(&self, now: Instant) -> Option<Duration> {
        let silence = now.saturating_duration_since(self.last_progress);
        (silence >= self.limit).then_some(silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_barks_only_after_its_limit_without_progress() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut watchdog = StallWatchdog::new(Duration::from_millis(100), start);
        assert_eq!(watchdog.stalled(at(99)), None);
        assert_eq!(watchdog.stalled(at(100)), Some(Duration::from_millis(100)));
        watchdog.progress(at(100));
        assert_eq!(watchdog.stalled(at(199)), None);
        assert_eq!(watchdog.stalled(at(250)), Some(Duration::from_millis(150)));
        // A clock read before the last progress is no stall.
        assert_eq!(watchdog.stalled(start), None);
    }
}
