//! All that is known of a run: the events applied one after another, and questions to what they add
//! up to. Pure; a live run and a recorded one go through the same door.

mod coverage;
mod nccl;
mod pairs;
mod ports;
mod probes;
mod rates;
#[cfg(test)]
pub mod testing;

use std::collections::{BTreeMap, HashMap};

pub use coverage::{Coverage, Covered, EndGap, Gap};
pub use nccl::NcclTest;
pub use pairs::{PairState, PairSummary, Probe};
pub use ports::PortBrief;
pub use probes::{Brief, Came};
pub use rates::{NodeWatch, PortRates, Tally};

use crate::model::{
    CudaDriver, Event, Fact, Measurement, MemoryUsed, NicId, NodeFacts, NodeName, Outcome, Pair,
    PciFunction, PlannedPair, Purpose, Rail, RailNic, RdmaDevice, RunEnd, RunSettings, Shared,
    Verification,
};

/// How far a node has come.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeState {
    /// Nothing was heard of it yet.
    Waiting,
    /// On its way: the step it is at.
    Connecting(String),
    /// Its agent runs.
    Connected {
        /// Version of the agent.
        agent: String,
    },
    /// It was not reached, or stopped answering.
    Lost {
        /// Why.
        why: String,
    },
}

/// What is known of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// How far it has come.
    pub state: NodeState,
    /// Why it was lost, each time that it was.
    pub losses: Vec<String>,
    /// What its survey found.
    pub facts: Option<NodeFacts>,
    /// Its samples, where it is watched.
    pub watch: Option<NodeWatch>,
    /// Its NICs that have a number.
    nics: Vec<(usize, NicId)>,
}

/// A pair of the plan that could not be probed.
#[derive(Debug, Clone, PartialEq)]
pub struct Skipped {
    /// The sending node.
    pub from: NodeName,
    /// The receiving node.
    pub to: NodeName,
    /// The rail.
    pub rail: Rail,
    /// Why not.
    pub why: String,
}

fn is_stand_in(outcome: &Outcome) -> bool {
    let Outcome::Measured {
        measurement,
        verified,
    } = outcome
    else {
        return false;
    };
    let target = verified.value().and_then(|seen| seen.memory.as_deref());
    let used = [measurement.memory.as_deref(), target];
    used.into_iter().flatten().any(MemoryUsed::is_stand_in)
}

/// What plays a rail on a node.
#[derive(Debug, Clone)]
struct Place {
    nic: Fact<NicId>,
    /// The number of that NIC.
    number: Option<usize>,
}

/// The state of a run.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    settings: Option<RunSettings>,
    nodes: BTreeMap<NodeName, Node>,
    rails: BTreeMap<(Rail, NodeName), Place>,
    /// PCIe trees as they were seen last, those of other kinds of servers first.
    trees: Vec<Shared<PciFunction>>,
    /// Every NIC that plays a rail or was planned for, numbered: comparing names would be most of the
    /// work of whoever looks at all probes.
    numbers: HashMap<NicId, usize>,
    /// By that number, the port that it is.
    ports: Vec<Option<PortBrief>>,
    skipped: Vec<Skipped>,
    probes: probes::Probes,
    nccl: nccl::NcclTests,
    rounds: u32,
    readings_dropped: u64,
    stand_in: bool,
    next_probe: u64,
    next_round: u32,
    end: Option<RunEnd>,
}

impl Ledger {
    /// Takes in what happened next.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::RunStarted { settings, .. } => self.start(settings),
            Event::RunResumed { .. } => self.resume(),
            Event::NodeStage { node, stage } => {
                self.node(node).state = NodeState::Connecting(stage.clone());
            }
            Event::NodeConnected { node, agent } => {
                self.node(node).state = NodeState::Connected {
                    agent: agent.clone(),
                };
            }
            Event::NodeSurveyed { node, facts } => {
                let cuda = facts.gpu.cuda.value();
                self.stand_in |= cuda.is_some_and(CudaDriver::has_stand_in);
                self.survey(node, (**facts).clone());
            }
            Event::NodeLost { node, why } => {
                let node = self.node(node);
                node.losses.push(why.clone());
                node.state = NodeState::Lost { why: why.clone() };
            }
            Event::NodeWatched { node, layout } => {
                self.node(node).watch = Some(NodeWatch::new(layout));
            }
            Event::NodeSampled { node, sample } => {
                if let Some(watch) = &mut self.node(node).watch {
                    watch.apply(sample);
                }
            }
            Event::ReadingsDropped { count, .. } => {
                self.readings_dropped = self.readings_dropped.saturating_add(*count);
            }
            Event::NodeQueuePairs { node, queue_pairs } => {
                if let Some(watch) = &mut self.node(node).watch {
                    watch.hold(queue_pairs);
                }
            }
            Event::RailsResolved { nics } => self.resolve(nics),
            Event::PairSkipped {
                from,
                to,
                rail,
                why,
            } => self.skipped.push(Skipped {
                from: from.clone(),
                to: to.clone(),
                rail: *rail,
                why: why.clone(),
            }),
            Event::RoundPlanned { round, pairs } => self.plan(*round, pairs),
            Event::ProbeStarted { probe } => {
                let start = |probe: &mut Probe| {
                    probe.started = true;
                    probe.round
                };
                if let Some(round) = self.probes.change(*probe, start) {
                    self.rounds = self.rounds.max(round.saturating_add(1));
                }
            }
            Event::ProbeEnded { probe, outcome } => {
                self.stand_in |= is_stand_in(outcome);
                let end = |probe: &mut Probe| probe.outcome = Some(kept(outcome));
                self.probes.change(*probe, end);
            }
            Event::NcclTestStarted { on, nodes, command } => self.nccl.start(on, nodes, command),
            Event::NcclTestSaid { on, lines } => self.nccl.say(on, lines),
            Event::NcclTestEnded { on, end } => self.nccl.end(on, end),
            Event::RunFinished { end } => self.end = Some(*end),
        }
    }

    /// Whether memory was called a GPU's, or would have been, that is none: of a driver library for tests.
    pub fn has_stand_in(&self) -> bool {
        self.stand_in
    }

    fn start(&mut self, settings: &RunSettings) {
        for node in &settings.nodes {
            self.node(node);
        }
        self.settings = Some(settings.clone());
    }

    /// Only what was tried is kept: why the rest was not is said anew. Rails stay, so that a node
    /// that is not reached again keeps the NICs it was measured by.
    fn resume(&mut self) {
        self.end = None;
        self.skipped.clear();
        self.probes.retain(Probe::was_tried);
        self.nccl.resume();
        for node in self.nodes.values_mut() {
            node.state = NodeState::Waiting;
            node.losses.clear();
        }
    }

    /// A resumed run may find another NIC in a rail's place: what was measured by the one before says
    /// nothing of it.
    fn resolve(&mut self, nics: &[RailNic]) {
        for entry in nics {
            let mut nic = entry.nic.clone();
            let number = match &mut nic {
                Fact::Known { value, .. } => Some(self.share(value)),
                Fact::Unknown { .. } => None,
            };
            let place = (entry.rail, entry.node.clone());
            self.rails.insert(place, Place { nic, number });
        }
        let rails = &self.rails;
        let plays = |rail: Rail, nic: &NicId| {
            let now = rails.get(&(rail, nic.node.clone()));
            let now = now.and_then(|place| place.nic.value());
            now.is_none_or(|now| now == nic)
        };
        self.probes.retain(|probe| {
            let Pair { from, to, rail } = &probe.planned.pair;
            // One that looks for a cable goes to another rail.
            let crosses = probe.planned.purpose == Purpose::Cabling;
            plays(*rail, from) && (crosses || plays(*rail, to))
        });
    }

    /// Servers of one kind have one tree: the books of thousands have it once.
    fn survey(&mut self, node: &NodeName, mut facts: NodeFacts) {
        /// More kinds of servers than most clusters have: each new tree is compared with so many.
        const KINDS: usize = 32;
        if let Fact::Known { value: tree, .. } = &mut facts.pcie {
            let known = self
                .trees
                .iter()
                .rposition(|known| tree.functions.share(known));
            if let Some(at) = known {
                let known = self.trees.remove(at);
                self.trees.push(known);
            } else {
                self.trees.push(tree.functions.clone());
                let too_many = self.trees.len().saturating_sub(KINDS);
                self.trees.drain(..too_many);
            }
        }
        let node = self.node(node);
        node.facts = Some(facts);
        // One that is surveyed anew may have them elsewhere.
        for (number, nic) in node.nics.clone() {
            self.ports[number] = self.look_for(&nic);
        }
    }

    fn look_for(&self, nic: &NicId) -> Option<PortBrief> {
        let facts = self.nodes.get(&nic.node)?.facts.as_ref()?;
        PortBrief::look_for(nic, facts)
    }

    fn node(&mut self, node: &NodeName) -> &mut Node {
        let new = || Node {
            state: NodeState::Waiting,
            losses: Vec::new(),
            facts: None,
            watch: None,
            nics: Vec::new(),
        };
        self.nodes.entry(node.clone()).or_insert_with(new)
    }

    fn plan(&mut self, round: u32, pairs: &[PlannedPair]) {
        self.next_round = self.next_round.max(round.saturating_add(1));
        for planned in pairs {
            self.next_probe = self.next_probe.max(planned.probe.0.saturating_add(1));
            let mut planned = planned.clone();
            let ends = [&mut planned.pair.from, &mut planned.pair.to].map(|nic| self.share(nic));
            let probe = Probe {
                planned,
                ends,
                round,
                started: false,
                outcome: None,
            };
            self.probes.insert(probe);
        }
    }

    /// The number of a NIC, whose names are then those that are known already: what is read from a
    /// file has a copy of them in each event.
    fn share(&mut self, nic: &mut NicId) -> usize {
        if let Some((known, number)) = self.numbers.get_key_value(nic) {
            *nic = known.clone();
            return *number;
        }
        let number = self.numbers.len();
        self.numbers.insert(nic.clone(), number);
        self.ports.push(self.look_for(nic));
        if let Some(node) = self.nodes.get_mut(&nic.node) {
            node.nics.push((number, nic.clone()));
        }
        number
    }

    /// What the run was asked to do; `None` before it began.
    pub fn settings(&self) -> Option<&RunSettings> {
        self.settings.as_ref()
    }

    /// The nodes by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeName, &Node)> {
        self.nodes.iter()
    }

    /// One node.
    pub fn get_node(&self, node: &NodeName) -> Option<&Node> {
        self.nodes.get(node)
    }

    /// The NIC of each rail on each surveyed node, by rail and node.
    pub fn rail_nics(&self) -> impl Iterator<Item = (Rail, &NodeName, &Fact<NicId>)> {
        self.rails
            .iter()
            .map(|((rail, node), place)| (*rail, node, &place.nic))
    }

    /// The NICs that play rails, by rail and node, with their numbers.
    pub fn players(&self) -> impl Iterator<Item = (Rail, &NicId, usize)> {
        self.rails
            .iter()
            .filter_map(|((rail, _), place)| Some((*rail, place.nic.value()?, place.number?)))
    }

    /// The number of a NIC, from 0 without gaps; `None` of one that plays no rail, and that no probe was
    /// planned for.
    pub fn number(&self, nic: &NicId) -> Option<usize> {
        self.numbers.get(nic).copied()
    }

    /// How many NICs have a number.
    pub fn numbered(&self) -> usize {
        self.numbers.len()
    }

    /// The port that the NIC of a number is; `None` where its node was not surveyed, or has no such port.
    pub fn port(&self, number: usize) -> Option<&PortBrief> {
        self.ports.get(number)?.as_ref()
    }

    /// Probes in the order in which they were planned.
    pub fn probes(&self) -> impl Iterator<Item = &Probe> {
        self.probes.iter()
    }

    /// The same, each with what is asked of all of them again and again.
    pub fn in_brief(&self) -> impl Iterator<Item = (&Brief, &Probe)> {
        self.probes.in_brief()
    }

    /// Probes that ended with something else than bytes that all landed and counters that stood still.
    pub fn unclean(&self) -> impl Iterator<Item = &Probe> {
        let unclean = self
            .in_brief()
            .filter(|(brief, _)| brief.has_ended() && !brief.clean);
        unclean.map(|(_, probe)| probe)
    }

    /// One probe.
    pub fn probe(&self, probe: crate::model::ProbeId) -> Option<&Probe> {
        self.probes.get(probe)
    }

    /// Pairs that could not be probed.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// nccl-tests, by the node that ran them by itself; `None` stands for the launcher.
    pub fn nccl_tests(&self) -> impl Iterator<Item = (Option<&NodeName>, &NcclTest)> {
        let tests = self.nccl.tests.iter();
        tests.map(|(on, test)| (on.as_ref(), test))
    }

    /// Those that a node ran by itself, or a launcher.
    pub fn nccl_test(&self, on: Option<&NodeName>) -> Option<&NcclTest> {
        self.nccl.tests.get(&on.cloned())
    }

    /// Rounds in which data moved.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Readings of counters that this machine could not take in, of all nodes.
    pub fn readings_dropped(&self) -> u64 {
        self.readings_dropped
    }

    /// Above the number of every probe that was planned, also of those that a resumed run forgot.
    pub fn next_probe(&self) -> u64 {
        self.next_probe
    }

    /// Above the number of every round that was planned.
    pub fn next_round(&self) -> u32 {
        self.next_round
    }

    /// How the run ended; `None` while it runs, or where the record was cut off.
    pub fn end(&self) -> Option<RunEnd> {
        self.end
    }

    /// The device that a NIC is a port of.
    pub fn device(&self, nic: &NicId) -> Option<&RdmaDevice> {
        let devices = self.nodes.get(&nic.node)?.facts.as_ref()?.rdma.value()?;
        devices.iter().find(|device| device.name == nic.device)
    }
}

/// Host memory is what the probe's settings say, and nothing more is known of it.
fn of_gpu(memory: &Option<Box<MemoryUsed>>) -> Option<Box<MemoryUsed>> {
    memory.clone().filter(|used| used.gpu.is_some())
}

/// What the ledger keeps of an outcome: all but the windows of a transfer, of which nothing is asked
/// once it has ended.
fn kept(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::Measured {
            measurement,
            verified,
        } => Outcome::Measured {
            measurement: Measurement {
                windows: Vec::new(),
                cpu: measurement.cpu.clone(),
                counters: measurement.counters.clone(),
                pauses: measurement.pauses.clone(),
                latency: measurement.latency.clone(),
                tcp: measurement.tcp.clone(),
                memory: of_gpu(&measurement.memory),
                bytes: measurement.bytes,
                elapsed_us: measurement.elapsed_us,
                began_us: measurement.began_us,
                total_bytes: measurement.total_bytes,
                mtu: measurement.mtu,
                end: measurement.end,
                ping_pong: measurement.ping_pong,
                registration: measurement.registration,
                fetched: measurement.fetched,
            },
            verified: verified.clone().map(|verified| Verification {
                memory: of_gpu(&verified.memory),
                ..verified
            }),
        },
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{events, ledger};
    use super::*;
    use crate::model::Window;
    use crate::model::testing::facts;
    use crate::model::testing::pcie::flat;

    #[test]
    fn nodes_with_equal_pcie_trees_have_them_in_one_place() {
        let (same, other) = (flat(&["0000:01:00.0"]), flat(&["0000:02:00.0"]));
        let mut ledger = Ledger::default();
        for (node, tree) in [("a", &same), ("b", &other), ("c", &same), ("d", &other)] {
            let mut facts = facts(Vec::new());
            // As read from a file: nothing is shared yet.
            let text = serde_json::to_string(tree).unwrap();
            facts.pcie = Fact::known(serde_json::from_str(&text).unwrap(), "/sys");
            ledger.apply(&Event::NodeSurveyed {
                node: node.into(),
                facts: Box::new(facts),
            });
        }
        let functions = |node: &str| {
            let facts = ledger.get_node(&node.into()).unwrap().facts.as_ref();
            facts.unwrap().pcie.value().unwrap().functions.clone()
        };
        assert!(functions("a").is(&functions("c")) && functions("b").is(&functions("d")));
        assert_eq!(
            (functions("a"), functions("b")),
            (same.functions, other.functions)
        );
    }

    #[test]
    fn a_probe_is_kept_with_its_numbers_and_without_its_windows() {
        let mut events = events(3, 2, &|_, _, _| Some(391.0));
        for event in &mut events {
            if let Event::ProbeEnded {
                outcome: Outcome::Measured { measurement, .. },
                ..
            } = event
            {
                measurement.windows.push(Window {
                    start_us: 0,
                    length_us: 10_000,
                    bytes: 1,
                });
            }
        }
        let ledger = ledger(&events);
        assert_eq!(ledger.numbered(), 6);
        assert_eq!(ledger.players().count(), 6);
        for (_, nic, number) in ledger.players() {
            assert_eq!(ledger.number(nic), Some(number));
        }
        for probe in ledger.probes() {
            let Pair { from, to, .. } = &probe.planned.pair;
            let numbers = [from, to].map(|nic| ledger.number(nic).unwrap());
            assert_eq!(probe.ends, numbers);
            let measurement = probe.measurement().unwrap();
            assert!(measurement.windows.is_empty() && measurement.bytes > 0);
        }
        // What one NIC is called is there once, in however many events.
        let texts: std::collections::BTreeSet<*const u8> = ledger
            .probes()
            .map(|probe| probe.planned.pair.from.device.as_ptr())
            .collect();
        assert_eq!(texts.len(), 6);
    }
}
