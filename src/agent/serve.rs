//! The agent's loop. It never works itself: surveys and probes have threads of their own, so that
//! heartbeats go on whatever a device does.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::lease::Lease;
use super::tester::Tester;
use super::voice::Voice;
use super::watcher::Watcher;
use super::worker::{Order, Worker};
use crate::model::{NcclTestEnd, NodeFacts, ProbeId, ProbeStage};
use crate::nccl::NcclLaunch;
use crate::survey::Root;
use crate::wire::{Decoder, FrameError, FromAgent, PROTOCOL, ToAgent};

/// How often the controller hears that the agent lives.
const HEARTBEAT: Duration = Duration::from_millis(2_500);

/// The lease until the controller states another.
const FIRST_LEASE: Duration = Duration::from_secs(15);

/// The longest lease that a controller may ask for.
const LONGEST_LEASE: Duration = Duration::from_secs(120);

/// Probes that may be held at the same time; a node has at most a few dozen ports.
const MAX_PROBES: usize = 256;

/// Looks at the node it runs on.
pub type Surveyor = fn() -> NodeFacts;

/// Why an agent ended other than by being told to, or by the end of its input.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// What came in is not what a controller says.
    #[error("what came in is not from a linerate controller: {0}")]
    Frame(#[from] FrameError),
    /// The other side is another version.
    #[error(
        "the controller is linerate {linerate} with protocol {theirs}, this is protocol {PROTOCOL}"
    )]
    Version {
        /// Its version.
        linerate: String,
        /// Its protocol.
        theirs: u32,
    },
    /// This machine has no thread left.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

enum Heard {
    Said(ToAgent),
    Nonsense(FrameError),
    End,
}

/// Serves one controller until it says goodbye, falls silent, or `input` ends. When neither the loop
/// nor anything else gets the agent to end in time, `give_up` is called; it must not return.
///
/// # Errors
/// [`AgentError`], after the controller was told.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    surveyor: Surveyor,
    give_up: fn() -> !,
) -> Result<(), AgentError> {
    let lease = Lease::new(FIRST_LEASE);
    let (sender, inbox) = channel();
    let (reader_lease, watch_lease) = (lease.clone(), lease.clone());
    spawn("input", move || listen(input, &sender, &reader_lease))?;
    spawn("lease", move || {
        watch_lease.wait();
        give_up();
    })?;
    let agent = Agent {
        voice: Voice::new(output),
        lease,
        surveyor,
        probes: HashMap::new(),
        watcher: None,
        tester: None,
    };
    let voice = agent.voice.clone();
    agent.serve(&inbox).inspect_err(|error| {
        voice.say(&FromAgent::Refused {
            why: error.to_string(),
        });
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), AgentError> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(work).map(drop).map_err(AgentError::Thread)
}

fn listen(mut input: impl Read, sender: &Sender<Heard>, lease: &Lease) {
    let mut decoder = Decoder::default();
    let mut buffer = [0; 16 << 10];
    loop {
        let n = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        lease.renew();
        decoder.feed(&buffer[..n]);
        loop {
            match decoder.message() {
                Ok(Some(message)) => drop(sender.send(Heard::Said(message))),
                Ok(None) => break,
                Err(error) => {
                    drop(sender.send(Heard::Nonsense(error)));
                    return lease.end();
                }
            }
        }
    }
    lease.end();
    drop(sender.send(Heard::End));
}

struct Agent {
    voice: Voice,
    lease: Lease,
    surveyor: Surveyor,
    probes: HashMap<ProbeId, Worker>,
    watcher: Option<Watcher>,
    tester: Option<Tester>,
}

impl Agent {
    fn serve(mut self, inbox: &Receiver<Heard>) -> Result<(), AgentError> {
        let hello = FromAgent::Hello {
            protocol: PROTOCOL,
            linerate: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        };
        let mut audible = self.voice.say(&hello);
        let mut beat = Instant::now();
        while audible {
            let left = (beat + HEARTBEAT).saturating_duration_since(Instant::now());
            match inbox.recv_timeout(left) {
                Ok(Heard::Said(ToAgent::Bye) | Heard::End)
                | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Heard::Nonsense(error)) => return Err(error.into()),
                Ok(Heard::Said(message)) => self.obey(message)?,
                Err(RecvTimeoutError::Timeout) => {
                    audible = self.voice.say(&FromAgent::Heartbeat);
                    beat = Instant::now();
                }
            }
        }
        Ok(())
    }

    fn obey(&mut self, message: ToAgent) -> Result<(), AgentError> {
        match message {
            ToAgent::Hello {
                protocol,
                linerate,
                lease_ms,
            } => {
                if protocol != PROTOCOL {
                    return Err(AgentError::Version {
                        linerate,
                        theirs: protocol,
                    });
                }
                self.lease
                    .set_length(Duration::from_millis(u64::from(lease_ms)).min(LONGEST_LEASE));
            }
            ToAgent::Heartbeat | ToAgent::Bye => {}
            ToAgent::Survey => self.survey()?,
            ToAgent::Watch { interval_ms } => self.watch(interval_ms)?,
            ToAgent::Prepare {
                probe,
                role,
                spec,
                port,
                nonce,
                force,
            } => {
                if let Err(why) = self.admit(probe) {
                    self.voice.say(&FromAgent::ProbeFailed {
                        probe,
                        stage: ProbeStage::Prepare,
                        why,
                    });
                    return Ok(());
                }
                self.order(
                    probe,
                    ProbeStage::Prepare,
                    Order::Prepare {
                        role,
                        spec,
                        port,
                        nonce,
                        force,
                    },
                );
            }
            ToAgent::Connect { probe, peer } => {
                self.order(
                    probe,
                    ProbeStage::Connect,
                    Order::Connect {
                        peer: Box::new(peer),
                    },
                );
            }
            ToAgent::Run { probe } => self.order(probe, ProbeStage::Run, Order::Run),
            ToAgent::Verify { probe } => self.order(probe, ProbeStage::Verify, Order::Verify),
            ToAgent::Release { probe } => self.release(probe),
            ToAgent::NcclTest { command, timeout_s } => self.test_nccl(command, timeout_s),
        }
        Ok(())
    }

    fn survey(&self) -> Result<(), AgentError> {
        let (voice, surveyor) = (self.voice.clone(), self.surveyor);
        spawn("survey", move || {
            voice.say(&FromAgent::Facts {
                facts: Box::new(surveyor()),
            });
        })
    }

    fn watch(&mut self, interval_ms: u32) -> Result<(), AgentError> {
        let interval = Duration::from_millis(u64::from(interval_ms));
        match &self.watcher {
            Some(watcher) => watcher.set_interval(interval),
            None => {
                let voice = self.voice.clone();
                let started = Watcher::start(Root::live(), interval, voice);
                self.watcher = Some(started.map_err(AgentError::Thread)?);
            }
        }
        Ok(())
    }

    fn test_nccl(&mut self, command: Vec<String>, timeout_s: u32) {
        // What runs of earlier ones has ended before others begin.
        self.tester = None;
        let launch = NcclLaunch {
            command,
            is_alone: true,
            timeout: Duration::from_secs(timeout_s.into()),
        };
        match Tester::start(launch, self.voice.clone()) {
            Ok(tester) => self.tester = Some(tester),
            Err(error) => {
                let end = NcclTestEnd::failed(format!("cannot start a thread: {error}"));
                self.voice.say(&FromAgent::NcclTestEnded { end });
            }
        }
    }

    fn admit(&mut self, probe: ProbeId) -> Result<(), String> {
        if self.probes.contains_key(&probe) {
            return Err("this probe was prepared before".into());
        }
        if self.probes.len() >= MAX_PROBES {
            return Err(format!("{MAX_PROBES} probes are held already"));
        }
        let worker = Worker::start(probe, self.voice.clone())
            .map_err(|e| format!("cannot start a thread: {e}"))?;
        self.probes.insert(probe, worker);
        Ok(())
    }

    fn order(&self, probe: ProbeId, stage: ProbeStage, order: Order) {
        let taken = self
            .probes
            .get(&probe)
            .is_some_and(|worker| worker.order(order));
        if !taken {
            let why = "this probe was never prepared, or is released".into();
            self.voice
                .say(&FromAgent::ProbeFailed { probe, stage, why });
        }
    }

    fn release(&mut self, probe: ProbeId) {
        let taken = self
            .probes
            .remove(&probe)
            .is_some_and(|worker| worker.order(Order::Release));
        if !taken {
            self.voice.say(&FromAgent::Released { probe });
        }
    }
}
