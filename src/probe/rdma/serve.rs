//! The target where it takes part: a thread that posts receives, or answers a ping-pong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::model::{CpuUse, Fact, IdleCpu};
use crate::probe::cpu::{HostClock, ThreadClock, ThreadUse, cpu_use};
use crate::probe::error::ProbeError;
use crate::probe::transfer::SLICE;

use super::ends::Ends;

/// A round takes minutes to begin at most; then the controller ends it.
const BEFORE: Duration = Duration::from_secs(300);
/// How long after its time a transfer may end.
const AFTER: Duration = Duration::from_secs(120);

type Ended = (Box<Ends>, Result<Served, ProbeError>);

/// A target whose thread runs.
pub(in crate::probe) struct Serving {
    halt: Arc<AtomicBool>,
    idle: Fact<IdleCpu>,
    thread: Option<JoinHandle<Ended>>,
    /// Once the thread has ended.
    ends: Option<Box<Ends>>,
}

/// What a serving thread spent, from the first message to the last; nothing where none came.
pub(super) type Served = Option<Spent>;

pub(super) struct Spent {
    began: HostClock,
    ended: HostClock,
    thread: ThreadUse,
}

impl Serving {
    pub fn start(ends: Ends, idle: Fact<IdleCpu>) -> Result<Self, ProbeError> {
        let halt = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&halt);
        let mut ends = Box::new(ends);
        let work = move || {
            let served = match ends.job.ping_pong {
                true => ends.answer(&flag),
                false => ends.serve(&flag),
            };
            (ends, served)
        };
        let thread = Builder::new().name("target".to_owned()).spawn(work);
        let cannot = |error| ProbeError::Spec {
            why: format!("cannot start a thread: {error}"),
        };
        Ok(Self {
            halt,
            idle,
            thread: Some(thread.map_err(cannot)?),
            ends: None,
        })
    }

    /// Ends the thread, once the initiator has sent all; the memory, and what the host spent.
    pub fn end(&mut self) -> Result<(&Ends, Fact<CpuUse>), ProbeError> {
        self.halt.store(true, Ordering::Relaxed);
        let broken = || ProbeError::Spec {
            why: "the target's thread broke".to_owned(),
        };
        let thread = self.thread.take().ok_or_else(broken)?;
        let (ends, served) = thread.join().map_err(|_| broken())?;
        let cpu = match served? {
            Some(spent) => Fact::known(
                cpu_use(
                    spent.thread,
                    spent.began.until(&spent.ended),
                    self.idle.clone(),
                ),
                "from the first message to the last",
            ),
            None => Fact::unknown("no message came"),
        };
        Ok((self.ends.insert(ends), cpu))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.halt.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads the clocks while messages come: at the first, and whenever none came for a while, so that
/// the wait for the end is not taken for work. What is charged ends at most 20 ms late.
pub(super) struct Meanwhile {
    account: bool,
    began: Option<(HostClock, ThreadClock)>,
    /// Since the last reading, messages came.
    fresh: bool,
    last: Served,
}

impl Meanwhile {
    pub fn new(account: bool) -> Self {
        Self {
            account,
            began: None,
            fresh: false,
            last: None,
        }
    }

    /// Messages came.
    pub fn came(&mut self) -> Result<(), ProbeError> {
        if self.began.is_none() {
            self.began = Some((HostClock::now(), ThreadClock::start(self.account)?));
        }
        self.fresh = true;
        Ok(())
    }

    /// None came for a while, or no more come.
    pub fn rested(&mut self) -> Result<(), ProbeError> {
        let Some((began, thread)) = self.began.as_mut().filter(|_| self.fresh) else {
            return Ok(());
        };
        self.last = Some(Spent {
            began: began.clone(),
            thread: thread.read()?,
            ended: HostClock::now(),
        });
        self.fresh = false;
        Ok(())
    }

    pub fn end(mut self) -> Result<Served, ProbeError> {
        self.rested()?;
        Ok(self.last)
    }
}

impl Ends {
    /// How long the thread may live.
    pub fn deadline(&self) -> Instant {
        Instant::now() + BEFORE + self.job.shape.duration + AFTER
    }

    /// Takes messages and posts new receives until `halt` is set and nothing more is there.
    fn serve(&mut self, halt: &AtomicBool) -> Result<Served, ProbeError> {
        let _pinned = self.pinned();
        let deadline = self.deadline();
        let batch = self.job.shape.batch;
        let first = u64::from(self.job.depths().1);
        // Of each queue pair: the sequence of the next receive, and how many are to be posted.
        let mut owed = vec![(first, 0u32); self.queue_pairs.len()];
        let mut meanwhile = Meanwhile::new(self.job.account);
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        loop {
            let last = halt.load(Ordering::Relaxed) || Instant::now() > deadline;
            received.clear();
            match last {
                true => self.poll_both(&mut sent, &mut received)?,
                false => self.await_both(&mut sent, &mut received, Instant::now() + SLICE)?,
            }
            match received.is_empty() {
                true if last => return meanwhile.end(),
                true => meanwhile.rested()?,
                false => meanwhile.came()?,
            }
            for queue_pair in &received {
                let (next, count) = &mut owed[*queue_pair];
                *count += 1;
                if *count == batch {
                    let sequence = *next;
                    *next += u64::from(batch);
                    *count = 0;
                    self.post_receives(*queue_pair, sequence, batch)?;
                }
            }
        }
    }
}
