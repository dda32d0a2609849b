//! The nodes of a simulated cluster: what they say to what they are told, and when they fall silent.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::answers::{endpoint, failed, find, hello, measurement, verified};
use super::rates::Rates;
use super::server;
use crate::cluster::{Fleet, FromNode};
use crate::config::{Fault, Place, Scenario};
use crate::model::{LocalPort, NodeFacts, NodeName, ProbeId, ProbeSpec, ProbeStage, Role};
use crate::wire::{FromAgent, ToAgent};

/// How often a node says that it lives, in simulated time.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// Until when a node answers. Rounds count from 1; 0 is before the first.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Well,
    LostIn(u32),
    SilentFrom(u32),
}

#[derive(Debug)]
struct Node {
    name: NodeName,
    facts: NodeFacts,
    fate: Fate,
    gone: bool,
}

/// A probe in progress: what its two ends were told.
#[derive(Debug)]
struct Probe {
    spec: ProbeSpec,
    /// Node, rail and path MTU in bytes; the initiator's first.
    ends: [Option<(usize, u16, u32)>; 2],
}

/// A cluster in this process.
#[derive(Debug)]
pub struct SimulatedFleet {
    nodes: Vec<Node>,
    rates: Rates,
    inbox: VecDeque<(usize, FromNode)>,
    probes: HashMap<ProbeId, Probe>,
    attempts: HashMap<(usize, usize, u16), u32>,
    round: u32,
    /// Whether the ends of a round are being told to prepare: the next word of another kind begins it.
    preparing: bool,
    now: Instant,
    next_beat: Instant,
}

impl SimulatedFleet {
    /// The nodes of a scenario in the order of `names`, as a run's settings list them.
    pub fn new(scenario: &Scenario, names: &[NodeName], seed: u64) -> Self {
        let numbers = (0..).zip(scenario.names());
        let mut known: HashMap<NodeName, NodeFacts> = numbers
            .map(|(number, name)| (name.clone(), server::facts(scenario, number, &name)))
            .collect();
        let rates = Rates::new(scenario, &known, seed);
        let node = |name: &NodeName| {
            let facts = known.remove(name);
            Node {
                fate: facts
                    .as_ref()
                    .map_or(Fate::LostIn(0), |_| fate(scenario, name)),
                facts: facts.unwrap_or_default(),
                name: name.clone(),
                gone: false,
            }
        };
        let now = Instant::now();
        let mut fleet = Self {
            nodes: names.iter().map(node).collect(),
            rates,
            inbox: VecDeque::new(),
            probes: HashMap::new(),
            attempts: HashMap::new(),
            round: 0,
            preparing: false,
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

    /// Whether a node still answers. One that is lost says so once, by its connection.
    fn answers(&mut self, node: usize) -> bool {
        let round = self.round;
        let Some(found) = self.nodes.get_mut(node) else {
            return false;
        };
        match found.fate {
            Fate::LostIn(at) if round >= at => {
                if !std::mem::replace(&mut found.gone, true) {
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

    /// All ends of a round are told to prepare before any is told something else.
    fn count_rounds(&mut self, message: &ToAgent) {
        let prepares = matches!(message, ToAgent::Prepare { .. });
        if prepares && !self.preparing {
            self.round += 1;
        }
        self.preparing = prepares;
    }

    fn prepare(
        &mut self,
        node: usize,
        probe: ProbeId,
        role: Role,
        spec: &ProbeSpec,
        at: &LocalPort,
    ) -> FromAgent {
        let Some((rail, port)) = find(&self.nodes[node].facts, at) else {
            let why = format!("there is no {}", at.device);
            return failed(probe, ProbeStage::Prepare, why);
        };
        let mtu = port.active_mtu.value().copied().unwrap_or(0);
        let endpoint = endpoint(port, spec, probe, mtu);
        let new = || Probe {
            spec: spec.clone(),
            ends: [None; 2],
        };
        let live = self.probes.entry(probe).or_insert_with(new);
        live.ends[usize::from(role == Role::Target)] = Some((node, rail, mtu));
        FromAgent::Prepared { probe, endpoint }
    }

    /// Moves data, in no time.
    fn run(&mut self, probe: ProbeId) -> FromAgent {
        let known = self.probes.get(&probe);
        let ends = known.map(|known| (known.ends, known.spec.clone()));
        let Some(([Some((from, rail, mtu)), Some((to, _, other))], spec)) = ends else {
            return failed(probe, ProbeStage::Run, "it was not prepared".to_owned());
        };
        let attempt = self.attempts.entry((from, to, rail)).or_default();
        *attempt += 1;
        let mtu = mtu.min(other);
        let sender = Place {
            node: self.nodes[from].name.clone(),
            rail,
        };
        match self.rates.of(&sender, &self.nodes[to].name, mtu, *attempt) {
            Some(rate) => FromAgent::Done {
                probe,
                measurement: measurement(rate, mtu, &spec),
            },
            None => failed(probe, ProbeStage::Run, "its rate is unknown".to_owned()),
        }
    }

    fn answer(&mut self, node: usize, message: &ToAgent) -> Option<FromAgent> {
        Some(match message {
            ToAgent::Survey => FromAgent::Facts {
                facts: Box::new(self.nodes[node].facts.clone()),
            },
            ToAgent::Prepare {
                probe,
                role,
                spec,
                port,
                ..
            } => self.prepare(node, *probe, *role, spec, port),
            ToAgent::Connect { probe, .. } => FromAgent::Connected { probe: *probe },
            ToAgent::Run { probe } => self.run(*probe),
            ToAgent::Verify { probe } => verified(*probe),
            ToAgent::Release { probe } => {
                self.probes.remove(probe);
                FromAgent::Released { probe: *probe }
            }
            ToAgent::Watch { .. } => FromAgent::Refused {
                why: "a simulated node has no counters".to_owned(),
            },
            ToAgent::Hello { .. } | ToAgent::Heartbeat | ToAgent::Bye => return None,
        })
    }
}

impl Fleet for SimulatedFleet {
    fn is_real_time(&self) -> bool {
        false
    }

    fn send(&mut self, node: usize, message: &ToAgent) {
        self.count_rounds(message);
        if self.answers(node)
            && let Some(answer) = self.answer(node, message)
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

fn fate(scenario: &Scenario, name: &NodeName) -> Fate {
    let fate = |fault: &Fault| match fault {
        Fault::LostNode { node, round } if node == name => Some(Fate::LostIn(round.unwrap_or(0))),
        Fault::SilentNode { node, round } if node == name => {
            Some(Fate::SilentFrom(round.unwrap_or(0)))
        }
        _ => None,
    };
    scenario.faults.iter().find_map(fate).unwrap_or(Fate::Well)
}
