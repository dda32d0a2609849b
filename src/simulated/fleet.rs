//! The nodes of a simulated cluster: what they say to what they are told, and when they fall silent.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::answers::{PortIs, Reached, endpoint, failed, hello, measurement, rail, verified};
use super::cost;
use super::load::{Flow, Load, Nic};
use super::mix::{Mix, Why};
use super::rates::Rates;
use super::server::{self, Servers};
use crate::cluster::{Fleet, FromNode};
use crate::config::{Fault, Scenario};
use crate::model::{
    Gbps, LocalPort, NcclTestEnd, NicId, NodeName, Pair, ProbeId, ProbeKind, ProbeSpec, ProbeStage,
    Role,
};
use crate::wire::{FromAgent, ToAgent};

/// How often a node says that it lives, in simulated time.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// What an initiator says whose packets are never acknowledged.
const NO_ACKNOWLEDGEMENT: &str =
    "nothing acknowledges what was sent (transport retry counter exceeded)";

/// Until when a node answers. Rounds count from 1; 0 is before the first.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Well,
    LostIn(u32),
    SilentFrom(u32),
}

#[derive(Debug)]
struct Node {
    /// In the scenario; `None` where that has no node of this name.
    number: Option<u16>,
    gone: bool,
}

/// An end of a probe that is prepared: the NIC, and its MTU in bytes.
type End = Option<(Nic, u32)>;

/// A probe in progress: what its two ends were told, the initiator's part first.
#[derive(Debug)]
struct Probe {
    spec: ProbeSpec,
    ends: [End; 2],
    /// What was moved, warm-up included.
    moved: Option<u64>,
}

impl Probe {
    /// What it moves, once both ends are prepared.
    fn flow(&self) -> Option<Flow> {
        let [Some((from, mtu)), Some((to, other))] = self.ends else {
            return None;
        };
        let (from, to) = match self.spec.kind {
            ProbeKind::RdmaRead => (to, from),
            _ => (from, to),
        };
        Some(Flow {
            from,
            to,
            queue_pairs: self.spec.queue_pairs,
            memory: self.spec.memory,
            mtu: mtu.min(other),
        })
    }
}

/// A cluster in this process.
#[derive(Debug)]
pub struct SimulatedFleet {
    nodes: Vec<Node>,
    servers: Servers,
    rates: Rates,
    rails: u16,
    mtu: u32,
    /// Nodes with another MTU.
    mtus: HashMap<u16, u32>,
    /// Nodes that do not answer to the end.
    fates: HashMap<u16, Fate>,
    silent: f64,
    seed: u64,
    inbox: VecDeque<(usize, FromNode)>,
    probes: HashMap<ProbeId, Probe>,
    attempts: HashMap<(Nic, Nic), u32>,
    round: u32,
    /// Whether the ends of a round are being told to prepare: the next word of another kind begins it.
    preparing: bool,
    /// All that runs in the round, from its first start on.
    load: Option<Load>,
    now: Instant,
    next_beat: Instant,
}

impl SimulatedFleet {
    /// The nodes of a scenario in the order of `names`, as a run's settings list them.
    pub fn new(scenario: &Scenario, names: &[NodeName], seed: u64) -> Self {
        let node = |name: &NodeName| Node {
            number: scenario.number(name),
            gone: false,
        };
        let now = Instant::now();
        let mut fleet = Self {
            nodes: names.iter().map(node).collect(),
            servers: Servers::new(scenario),
            rates: Rates::new(scenario, seed),
            rails: scenario.rails,
            mtu: scenario.mtu,
            mtus: mtus(scenario),
            fates: fates(scenario),
            silent: scenario.silent,
            seed,
            inbox: VecDeque::new(),
            probes: HashMap::new(),
            attempts: HashMap::new(),
            round: 0,
            preparing: false,
            load: None,
            now,
            next_beat: now + HEARTBEAT,
        };
        for node in 0..fleet.nodes.len() {
            if fleet.answers(node) {
                fleet.say(node, hello());
            }
        }
        fleet
    }

    fn say(&mut self, node: usize, message: FromAgent) {
        self.inbox.push_back((node, FromNode::Said(message)));
    }

    fn fate(&self, number: Option<u16>) -> Fate {
        let fate = |number| self.fates.get(&number).copied().unwrap_or(Fate::Well);
        number.map_or(Fate::LostIn(0), fate)
    }

    /// Whether a node still answers. One that is lost says so once, by its connection.
    fn answers(&mut self, node: usize) -> bool {
        let round = self.round;
        let Some(found) = self.nodes.get(node) else {
            return false;
        };
        match self.fate(found.number) {
            Fate::LostIn(at) if round >= at => {
                if !std::mem::replace(&mut self.nodes[node].gone, true) {
                    let why = match at {
                        0 => "connection refused",
                        _ => "the connection broke",
                    };
                    self.inbox.push_back((node, FromNode::Gone(why.to_owned())));
                }
                false
            }
            Fate::SilentFrom(at) => round < at,
            _ => true,
        }
    }

    /// What the probes of one round reach, without a conductor: to compare schedules by. `None` where
    /// one fails, or is between NICs that there are not.
    pub fn round(&mut self, spec: &ProbeSpec, pairs: &[Pair]) -> Vec<Option<Gbps>> {
        self.round += 1;
        let flow = |pair: &Pair| self.flow(spec, pair);
        let flows: Vec<Option<Flow>> = pairs.iter().map(flow).collect();
        let load = self.rates.load(flows.iter().flatten().copied());
        let reaches = |flow: Option<Flow>| Some(self.reaches(&flow?, &load)?.rate);
        flows.into_iter().map(reaches).collect()
    }

    fn flow(&self, spec: &ProbeSpec, pair: &Pair) -> Option<Flow> {
        let end = |nic: &NicId| {
            let node = self.servers.number(&nic.node)?;
            let answers = match self.fate(Some(node)) {
                Fate::LostIn(at) | Fate::SilentFrom(at) => self.round < at,
                Fate::Well => !self.is_silent(node),
            };
            let rail = rail(&nic.device, nic.port, self.rails)?;
            answers.then_some((Nic { node, rail }, self.mtu_of(node)))
        };
        let probe = Probe {
            spec: spec.clone(),
            ends: [end(&pair.from), end(&pair.to)],
            moved: None,
        };
        probe.flow()
    }

    fn mtu_of(&self, node: u16) -> u32 {
        self.mtus.get(&node).copied().unwrap_or(self.mtu)
    }

    /// What the next probe between two NICs reaches beside others.
    fn reaches(&mut self, flow: &Flow, load: &Load) -> Option<Reached> {
        let attempt = self.attempts.entry((flow.from, flow.to)).or_default();
        *attempt += 1;
        let rate = self.rates.of(flow, load, *attempt)?;
        let latency = self.rates.latency(flow, *attempt);
        Some(Reached { rate, latency })
    }

    /// All ends of a round are told to prepare before any is told something else.
    fn count_rounds(&mut self, message: &ToAgent) {
        let prepares = matches!(message, ToAgent::Prepare { .. });
        if prepares && !self.preparing {
            self.round += 1;
            self.load = None;
        }
        self.preparing = prepares;
    }

    /// Whether a node answers nothing about the probes of this round, as if its answers came too late.
    fn is_silent(&self, node: u16) -> bool {
        let about = [u64::from(node), u64::from(self.round)];
        Mix::of(self.seed, Why::Silence, &about).share() < self.silent
    }

    fn prepare(&mut self, node: u16, message: Prepare<'_>) -> FromAgent {
        let Prepare {
            probe,
            role,
            spec,
            port,
        } = message;
        let refuse = |why| failed(probe, ProbeStage::Prepare, why);
        let Some(rail) = rail(&port.device, port.port, self.rails) else {
            return refuse(format!("there is no {}", port.device));
        };
        if self.is_silent(node) {
            // What the conductor says of an end that it waited for in vain.
            return refuse("no answer to prepare within the time allowed".to_owned());
        }
        let nic = Nic { node, rail };
        let mtu = self.mtu_of(node);
        let is = PortIs {
            lid: self.servers.lid(nic),
            gid: server::gid(nic),
            mtu,
        };
        let new = || Probe {
            spec: spec.clone(),
            ends: [None; 2],
            moved: None,
        };
        let live = self.probes.entry(probe).or_insert_with(new);
        live.ends[usize::from(role == Role::Target)] = Some((nic, mtu));
        let endpoint = endpoint(is, spec, probe);
        FromAgent::Prepared { probe, endpoint }
    }

    /// Moves data, in no time. The first of a round finds all others prepared: what they reach
    /// depends on each other.
    fn run(&mut self, id: ProbeId) -> FromAgent {
        let probe = self.probes.get(&id);
        let Some((flow, spec)) = probe.and_then(|probe| Some((probe.flow()?, &probe.spec))) else {
            return failed(id, ProbeStage::Run, "it was not prepared".to_owned());
        };
        let spec = spec.clone();
        let load = self.load.take().unwrap_or_else(|| {
            let flows = self.probes.values().filter_map(Probe::flow);
            self.rates.load(flows)
        });
        let reached = self.reaches(&flow, &load);
        let beside = load.flows_into(flow.to) - 1;
        self.load = Some(load);
        match reached {
            Some(reached) => {
                let mut measurement = measurement(reached, flow.mtu, &spec);
                cost::hold_back(&mut measurement, &spec, beside);
                if let Some(probe) = self.probes.get_mut(&id) {
                    probe.moved = Some(measurement.total_bytes);
                }
                FromAgent::Done {
                    probe: id,
                    measurement,
                }
            }
            None => failed(id, ProbeStage::Run, NO_ACKNOWLEDGEMENT.to_owned()),
        }
    }

    fn answer(&mut self, node: u16, message: &ToAgent) -> Option<FromAgent> {
        Some(match message {
            ToAgent::Survey => FromAgent::Facts {
                facts: Box::new(self.servers.facts(node)),
            },
            ToAgent::Prepare {
                probe,
                role,
                spec,
                port,
                ..
            } => {
                let message = Prepare {
                    probe: *probe,
                    role: *role,
                    spec,
                    port,
                };
                self.prepare(node, message)
            }
            ToAgent::Connect { probe, .. } => FromAgent::Connected { probe: *probe },
            ToAgent::Run { probe } => self.run(*probe),
            ToAgent::Verify { probe } => {
                let live = self.probes.get(probe);
                let transfer = live.and_then(|live| Some((live.moved?, &live.spec)));
                verified(*probe, transfer)
            }
            ToAgent::Release { probe } => {
                self.probes.remove(probe);
                FromAgent::Released { probe: *probe }
            }
            ToAgent::Watch { .. } => FromAgent::Refused {
                why: "a simulated node has no counters".to_owned(),
            },
            // Simulated GPUs run no programs.
            ToAgent::NcclTest { .. } => FromAgent::NcclTestEnded {
                end: NcclTestEnd::failed("the node is simulated"),
            },
            ToAgent::Hello { .. } | ToAgent::Heartbeat | ToAgent::Bye => return None,
        })
    }
}

/// What an end is told to prepare.
struct Prepare<'a> {
    probe: ProbeId,
    role: Role,
    spec: &'a ProbeSpec,
    port: &'a LocalPort,
}

impl Fleet for SimulatedFleet {
    fn is_real_time(&self) -> bool {
        false
    }

    fn send(&mut self, node: usize, message: &ToAgent) {
        self.count_rounds(message);
        if self.answers(node)
            && let Some(number) = self.nodes.get(node).and_then(|node| node.number)
            && let Some(answer) = self.answer(number, message)
        {
            self.say(node, answer);
        }
    }

    /// Where nothing more is to come, time passes, and with it the deadlines of whoever waits.
    fn next(&mut self, timeout: Duration) -> Option<(usize, FromNode)> {
        if let Some(news) = self.inbox.pop_front() {
            return Some(news);
        }
        self.now += timeout;
        if self.now >= self.next_beat {
            self.next_beat = self.now + HEARTBEAT;
            for node in 0..self.nodes.len() {
                if self.answers(node) {
                    self.say(node, FromAgent::Heartbeat);
                }
            }
        }
        None
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn close(&mut self) {
        self.inbox.clear();
        self.probes.clear();
    }
}

/// Of two fates of a node the first in the file counts.
fn fates(scenario: &Scenario) -> HashMap<u16, Fate> {
    let mut fates = HashMap::new();
    for fault in &scenario.faults {
        let (node, fate) = match fault {
            Fault::LostNode { node, round } => (node, Fate::LostIn(round.unwrap_or(0))),
            Fault::SilentNode { node, round } => (node, Fate::SilentFrom(round.unwrap_or(0))),
            _ => continue,
        };
        if let Some(number) = scenario.number(node) {
            fates.entry(number).or_insert(fate);
        }
    }
    fates
}

/// The nodes whose ports have another MTU, in bytes.
fn mtus(scenario: &Scenario) -> HashMap<u16, u32> {
    let mtus = scenario.faults.iter().filter_map(|fault| match fault {
        Fault::SmallMtu { node, mtu } => Some((scenario.number(node)?, *mtu)),
        _ => None,
    });
    mtus.collect()
}
