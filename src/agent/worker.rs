//! One probe on this node: a thread that holds its queue pairs and memory, and lets go of them when
//! it ends, on every path.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::voice::Voice;
use crate::model::{
    Counter, Endpoint, Fact, LocalPort, PortPlace, ProbeId, ProbeSpec, ProbeStage, Role,
};
use crate::probe::{Connected, Prepared, ProbeError, prepare};
use crate::survey::{Root, grown, in_use, pauses, pausing, port_errors, port_place};
use crate::wire::FromAgent;

/// What a probe's thread is asked to do.
pub(super) enum Order {
    Prepare {
        role: Role,
        spec: ProbeSpec,
        port: LocalPort,
        nonce: u64,
        force: bool,
    },
    Connect {
        peer: Box<Endpoint>,
    },
    Run,
    Verify,
    Release,
}

/// A probe's thread, from outside.
pub(super) struct Worker {
    orders: Sender<Order>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    /// Starts a thread for a probe.
    pub(super) fn start(probe: ProbeId, voice: Voice) -> std::io::Result<Self> {
        let (orders, inbox) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let job = Job {
            probe,
            voice,
            stop: Arc::clone(&stop),
            held: Held::Nothing,
            port: None,
            before: Fact::default(),
            pausing: Fact::default(),
            pauses_before: Fact::default(),
        };
        std::thread::Builder::new()
            .name(probe.to_string())
            .spawn(move || job.work(&inbox))?;
        Ok(Self { orders, stop })
    }

    /// Hands it an order; whether it still takes any. Release also breaks off a running transfer.
    pub(super) fn order(&self, order: Order) -> bool {
        if matches!(order, Order::Release) {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.orders.send(order).is_ok()
    }
}

/// What the probe holds on the device.
enum Held {
    Nothing,
    Prepared(Prepared),
    Connected(Connected),
}

struct Job {
    probe: ProbeId,
    voice: Voice,
    stop: Arc<AtomicBool>,
    held: Held,
    port: Option<LocalPort>,
    /// What the port's counters of errors stood at once the queue pairs were connected.
    before: Fact<Vec<Counter>>,
    /// The interfaces that count the port's pauses.
    pausing: Fact<Vec<String>>,
    /// What those counters stood at once the queue pairs were connected. Drivers ask their hardware for
    /// all of their statistics: too slow where data is about to move.
    pauses_before: Fact<Vec<Counter>>,
}

impl Job {
    fn work(mut self, orders: &Receiver<Order>) {
        while let Ok(order) = orders.recv() {
            let probe = self.probe;
            let (stage, done) = match order {
                Order::Prepare {
                    role,
                    spec,
                    port,
                    nonce,
                    force,
                } => {
                    let done = self.prepare_if_free(role, &spec, &port, nonce, force);
                    (ProbeStage::Prepare, done)
                }
                Order::Connect { peer } => (ProbeStage::Connect, self.connect(&peer)),
                Order::Run => (ProbeStage::Run, self.run()),
                Order::Verify => (ProbeStage::Verify, self.verify()),
                Order::Release => {
                    self.held = Held::Nothing;
                    self.voice.say(&FromAgent::Released { probe });
                    return;
                }
            };
            let answer = done.unwrap_or_else(|why| {
                self.held = Held::Nothing;
                FromAgent::ProbeFailed { probe, stage, why }
            });
            self.voice.say(&answer);
        }
    }

    /// Declines where somebody works with the port, unless that is not to matter.
    fn prepare_if_free(
        &mut self,
        role: Role,
        spec: &ProbeSpec,
        port: &LocalPort,
        nonce: u64,
        force: bool,
    ) -> Answer {
        let look = || in_use(&Root::live(), &port.device, port.port);
        match (!force).then(look).flatten() {
            Some(why) => Ok(FromAgent::ProbeDeclined {
                probe: self.probe,
                why,
            }),
            None => self.prepare(role, spec, port, nonce),
        }
    }

    fn prepare(&mut self, role: Role, spec: &ProbeSpec, port: &LocalPort, nonce: u64) -> Answer {
        // What only sockets and the accounts of CPU time need to know.
        let place = match spec.kind.is_tcp() || spec.account {
            true => port_place(&Root::live(), port),
            false => PortPlace::default(),
        };
        let prepared = prepare(spec, role, port, &place, nonce).map_err(in_words)?;
        let endpoint = prepared.endpoint().clone();
        self.held = Held::Prepared(prepared);
        self.port = Some(port.clone());
        self.pausing = pausing(&Root::live(), port);
        Ok(FromAgent::Prepared {
            probe: self.probe,
            endpoint,
        })
    }

    fn connect(&mut self, peer: &Endpoint) -> Answer {
        match std::mem::replace(&mut self.held, Held::Nothing) {
            Held::Prepared(prepared) => {
                self.held = Held::Connected(prepared.connect(peer, &self.stop).map_err(in_words)?);
                self.pauses_before = self.pauses();
                self.before = self.errors();
                Ok(FromAgent::Connected { probe: self.probe })
            }
            _ => Err("asked to connect what is not prepared".into()),
        }
    }

    /// What the port's counters of errors stand at.
    fn errors(&self) -> Fact<Vec<Counter>> {
        match &self.port {
            Some(port) => port_errors(&Root::live(), &port.device, port.port),
            None => Fact::default(),
        }
    }

    /// What its counters of pauses stand at.
    fn pauses(&self) -> Fact<Vec<Counter>> {
        pauses(&Root::live(), &self.pausing)
    }

    fn run(&mut self) -> Answer {
        let told = Instant::now();
        let before = self.errors();
        let waited = u64::try_from(told.elapsed().as_micros()).unwrap_or(u64::MAX);
        let Held::Connected(connected) = &mut self.held else {
            return Err("asked to run what is not connected".into());
        };
        let mut measurement = connected.run(&self.stop).map_err(in_words)?;
        measurement.counters = grown(before, self.errors());
        measurement.pauses = grown(self.pauses_before.clone(), self.pauses());
        measurement.began_us = measurement.began_us.map(|us| us.saturating_add(waited));
        Ok(FromAgent::Done {
            probe: self.probe,
            measurement,
        })
    }

    fn verify(&mut self) -> Answer {
        // Before the look at the memory, which takes its time.
        let (after, pauses_after) = (self.errors(), self.pauses());
        let Held::Connected(connected) = &mut self.held else {
            return Err("asked to verify what is not connected".into());
        };
        let mut verification = connected.verify(&self.stop).map_err(in_words)?;
        verification.counters = grown(self.before.clone(), after);
        verification.pauses = grown(self.pauses_before.clone(), pauses_after);
        Ok(FromAgent::Verified {
            probe: self.probe,
            verification,
        })
    }
}

type Answer = Result<FromAgent, String>;

fn in_words(error: ProbeError) -> String {
    error.to_string()
}
