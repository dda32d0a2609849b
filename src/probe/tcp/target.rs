//! The target: a thread for each connection, and the look at what they hold at the end.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use super::receive::{Received, Shared, receive};
use super::{Plan, echo};
use crate::model::{CpuUse, Fact, IdleCpu, Verification};
use crate::probe::cpu::{cpu_use, rest};
use crate::probe::error::ProbeError;
use crate::probe::pattern::count_wrong;

/// How long the threads may take to end once the initiator says that all is sent.
const PATIENCE: Duration = Duration::from_secs(10);

/// The receiving end, while its threads run.
pub(in crate::probe) struct Serving {
    plan: Plan,
    idle: Fact<IdleCpu>,
    shared: Arc<Shared>,
    streams: Vec<Arc<TcpStream>>,
    threads: Vec<JoinHandle<Result<Received, ProbeError>>>,
}

impl Serving {
    /// Watches the host at rest where CPU time is accounted for, then awaits data.
    pub(super) fn start(
        plan: Plan,
        streams: Vec<TcpStream>,
        stop: &AtomicBool,
    ) -> Result<Self, ProbeError> {
        let idle = if plan.account {
            rest(stop)
        } else {
            Fact::default()
        };
        let mut serving = Self {
            plan,
            idle,
            shared: Arc::default(),
            streams: streams.into_iter().map(Arc::new).collect(),
            threads: Vec::new(),
        };
        for index in 0..serving.streams.len() {
            let thread = serving.thread(index)?;
            serving.threads.push(thread);
        }
        Ok(serving)
    }

    fn thread(&self, index: usize) -> Result<JoinHandle<Result<Received, ProbeError>>, ProbeError> {
        let (plan, shared) = (self.plan.clone(), Arc::clone(&self.shared));
        let stream = Arc::clone(&self.streams[index]);
        let mut ring = vec![0; plan.ring()];
        plan.pattern(index).fill_inverse(0, &mut ring);
        let work = move || match plan.ping_pong {
            true => echo::answer(&plan, &stream, ring, &shared),
            false => receive(&plan, &stream, ring, &shared),
        };
        let builder = Builder::new().name(format!("tcp {index}"));
        builder.spawn(work).map_err(ProbeError::Tcp)
    }

    /// Waits for the threads, and compares what they hold.
    pub fn verify(&mut self, stop: &AtomicBool) -> Result<Verification, ProbeError> {
        let deadline = Instant::now() + PATIENCE;
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            if stop.load(Ordering::Relaxed) {
                return Err(ProbeError::Stopped);
            }
            if Instant::now() > deadline {
                let why = "its TCP connections have not ended 10 s after the transfer".to_owned();
                return Err(ProbeError::Peer { why });
            }
            sleep(Duration::from_millis(1));
        }
        let ended = self.threads.drain(..).map(join);
        let received = ended.collect::<Result<Vec<_>, _>>()?;
        let (mut checked, mut wrong) = (0, 0);
        for (index, received) in received.iter().enumerate() {
            let (bytes, differ) = self.compare(index, received);
            checked += bytes;
            wrong += differ;
        }
        Ok(Verification {
            bytes_checked: checked,
            bytes_wrong: wrong,
            counters: Fact::default(),
            pauses: Fact::default(),
            cpu: self.cpu(received),
            memory: None,
        })
    }

    /// Bytes of a connection's ring that something landed on, and how many are wrong.
    fn compare(&self, index: usize, received: &Received) -> (u64, u64) {
        if self.plan.ping_pong {
            return (0, 0);
        }
        let landed = usize::try_from(received.bytes).unwrap_or(usize::MAX);
        let landed = landed.min(received.ring.len());
        let mut expected = vec![0; received.ring.len()];
        self.plan.pattern(index).fill(0, &mut expected);
        let wrong = count_wrong(&expected[..landed], &received.ring[..landed]);
        (landed as u64, wrong)
    }

    fn cpu(&self, received: Vec<Received>) -> Fact<CpuUse> {
        let ends = received.iter().map(|received| received.ended.clone());
        let end = ends.reduce(|a, b| a.later(b));
        let threads = received.into_iter().map(|received| received.spent);
        let threads = threads.reduce(|a, b| a.plus(b));
        match (self.shared.began.get(), end, threads) {
            (Some(began), Some(end), Some(threads)) => Fact::known(
                cpu_use(threads, began.until(&end), self.idle.clone()),
                "from the first byte to the last",
            ),
            _ => Fact::unknown("no byte came"),
        }
    }
}

fn join(thread: JoinHandle<Result<Received, ProbeError>>) -> Result<Received, ProbeError> {
    let broken = |_| ProbeError::Peer {
        why: "a receiving thread broke".to_owned(),
    };
    thread.join().map_err(broken)?
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.shared.halt.store(true, Ordering::Relaxed);
        for stream in &self.streams {
            // One that has ended already is as well.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
