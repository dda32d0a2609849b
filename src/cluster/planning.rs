//! What a run has still to probe, from all that is known of it: a run that was resumed is planned as
//! one that was never cut off, less what was tried.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::judge::{Standings, setup, standings, standings_of_nics, strays};
use crate::ledger::{Came, Ledger, Node, NodeState};
use crate::model::{
    NicId, NodeFacts, NodeName, NodeStanding, Outcome, Pair, Pattern, Port, Rail, RailNic,
    RailStanding, RdmaDevice, Role, Route, RunSettings, SweepSettings, is_left_alone,
};
use crate::plan::{
    FabricSetup, Meeting, NoRoute, PlannedRound, Player, Probes, Schedule, cabling_round,
    carries_traffic, fabric_round, group_numbers, in_use, leaves, measures_fabric, named_rounds,
    next_round, resolve_rails, route, work_on,
};

/// Rounds to play, and pairs that belong to none.
pub struct Plan {
    /// In the order of the schedule, none of them empty.
    pub rounds: Vec<PlannedRound>,
    /// Pairs without a route, or with a NIC in use, with the reason.
    pub skipped: Vec<(Pair, String)>,
}

pub(super) type Rails = HashMap<NodeName, Vec<(Rail, NicId)>>;

/// Matches the NICs of all nodes that are there to rails.
pub fn rail_nics(ledger: &Ledger, settings: &RunSettings) -> Vec<RailNic> {
    let surveyed: Vec<(NodeName, &NodeFacts)> = ledger
        .nodes()
        .filter(|(_, node)| matches!(node.state, NodeState::Connected { .. }))
        .filter_map(|(name, node)| Some((name.clone(), node.facts.as_ref()?)))
        .collect();
    let mut nics = resolve_rails(&settings.rails, &surveyed);
    let only = &settings.sweep.only_rails;
    nics.retain(|entry| only.is_empty() || only.contains(&entry.rail));
    nics
}

/// The pairs of the run's pattern that were not tried yet, in the rounds that the seed gives.
pub fn rounds(ledger: &Ledger, nics: &[RailNic], settings: &RunSettings) -> Plan {
    let mut rails = Rails::new();
    for entry in nics {
        if let Some(nic) = entry.nic.value() {
            let mine = rails.entry(entry.node.clone()).or_default();
            mine.push((entry.rail, nic.clone()));
        }
    }
    let nodes: Vec<NodeName> = rails.keys().cloned().collect();
    let tried = tried(ledger);
    let usable = Usable::of(ledger);
    let mut skipped = Vec::new();
    let mut rounds = Vec::new();
    for round in meetings(&nodes, settings) {
        for mut round in lay_out(&rails, &round, &settings.sweep, nodes.len()) {
            round.retain(|pair| !tried.contains(pair));
            round.retain(|pair| match usable.in_the_way(pair) {
                None => true,
                Some(why) => {
                    skipped.push((pair.clone(), why));
                    false
                }
            });
            rounds.push(round);
        }
    }
    rounds.retain(|round| !round.is_empty());
    Plan { rounds, skipped }
}

/// The rounds of a pattern, of nodes. Nodes that are not there are left out of a schedule, and of a
/// pattern that names its pairs they leave gaps.
fn meetings(nodes: &[NodeName], settings: &RunSettings) -> Vec<Vec<Meeting>> {
    let sweep = &settings.sweep;
    if let Some(named) = named_rounds(&sweep.pattern, &settings.nodes) {
        return named;
    }
    let schedule = Schedule::new(&leaves(nodes, &sweep.groups).groups, settings.seed);
    let inner = schedule.inner_rounds();
    let few = |rounds: usize| {
        if inner < FEW {
            inner.max(rounds)
        } else {
            rounds
        }
    };
    let count = match &sweep.pattern {
        Pattern::Adaptive => few(sweep.matchings as usize),
        Pattern::Quick => few(1),
        _ => schedule.rounds(),
    };
    let names = schedule.names();
    let round = |round: usize| {
        let met = schedule.round(round).into_iter();
        met.map(|(a, b)| (names[a].clone(), names[b].clone()))
            .collect()
    };
    (0..count.min(schedule.rounds())).map(round).collect()
}

/// Groups of fewer nodes than this all meet inside: a few rounds are all that there are.
const FEW: usize = 4;

/// One round of nodes as rounds of NICs: both directions at once or one after the other, all rails
/// together or one by one, and no more nodes at one time than may carry traffic.
fn lay_out(
    rails: &Rails,
    pairs: &[Meeting],
    sweep: &SweepSettings,
    nodes: usize,
) -> Vec<PlannedRound> {
    let most = busiest(nodes, sweep);
    let mut rounds = Vec::new();
    for some in pairs.chunks(most) {
        let there = some.iter().flat_map(|(a, b)| pairs_of(rails, a, b));
        let back = some.iter().flat_map(|(a, b)| pairs_of(rails, b, a));
        let directions: Vec<PlannedRound> = match sweep.both_ways {
            true => vec![there.chain(back).collect()],
            false => vec![there.collect(), back.collect()],
        };
        for round in directions {
            match sweep.rails_together {
                true => rounds.push(round),
                false => rounds.extend(by_rail(round)),
            }
        }
    }
    rounds
}

/// How many pairs of nodes may carry traffic at one time: one at the least.
pub(super) fn busiest(nodes: usize, sweep: &SweepSettings) -> usize {
    (nodes as f64 * sweep.max_load / 2.0).ceil().max(1.0) as usize
}

fn by_rail(round: PlannedRound) -> impl Iterator<Item = PlannedRound> {
    let mut rails: BTreeMap<Rail, PlannedRound> = BTreeMap::new();
    for pair in round {
        rails.entry(pair.rail).or_default().push(pair);
    }
    rails.into_values()
}

/// The pairs, one for each rail that both nodes have, from one node to another.
pub(super) fn pairs_of(rails: &Rails, from: &NodeName, to: &NodeName) -> Vec<Pair> {
    let (Some(mine), Some(theirs)) = (rails.get(from), rails.get(to)) else {
        return Vec::new();
    };
    let pair = |(rail, nic): &(Rail, NicId)| {
        let (_, other) = theirs.iter().find(|(other, _)| other == rail)?;
        Some(Pair {
            from: nic.clone(),
            to: other.clone(),
            rail: *rail,
        })
    };
    mine.iter().filter_map(pair).collect()
}

/// What is to be measured next, where the pattern leaves something in doubt.
pub fn follow_up(ledger: &Ledger, settings: &RunSettings) -> Probes {
    if settings.sweep.pattern == Pattern::Nothing {
        return Probes::default();
    }
    let Standings {
        mut nodes, doubts, ..
    } = standings_of_nics(ledger);
    retain_usable(ledger, &mut nodes);
    if let Pattern::Pairs { pairs } = &settings.sweep.pattern {
        let named: HashSet<&NodeName> = pairs.iter().flat_map(|(a, b)| [a, b]).collect();
        nodes.retain(|node| named.contains(&node.node));
    }
    let groups = group_numbers(&settings.sweep.groups);
    let known = look_up(ledger, &nodes);
    let players: Vec<Player<'_>> = nodes
        .iter()
        .zip(known)
        .map(|(node, known)| Player {
            node,
            group: groups.get(&node.node).copied().unwrap_or(groups.len()),
            is_there: known.is_some_and(|node| matches!(node.state, NodeState::Connected { .. })),
        })
        .collect();
    let can = |from: &NicId, to: &NicId| {
        let ports = port(ledger, from).zip(port(ledger, to));
        ports.is_some_and(|(from, to)| route(from, to).is_ok())
    };
    let most = busiest(players.len(), &settings.sweep) * 2;
    let probes = next_round(&players, &doubts, setup(settings), most, &can);
    if !probes.is_empty() {
        return probes;
    }
    let probes = cabling_round(&players, &strays(ledger), most, &can);
    if !probes.is_empty() || !measures_fabric(&settings.sweep) {
        return probes;
    }
    let setup = FabricSetup {
        groups: settings.sweep.groups.len(),
        matchings: settings.sweep.matchings as usize,
        both_ways: settings.sweep.both_ways,
        seed: settings.seed,
        most,
    };
    fabric_round(&players, &standings(ledger).fabric, setup, &can)
}

/// Takes out NICs that cannot be probed whoever their partner is, or whose probes would disturb
/// somebody's work.
fn retain_usable(ledger: &Ledger, nodes: &mut [NodeStanding]) {
    let force = ledger.settings().is_some_and(|settings| settings.force);
    let declined = declined(ledger);
    let known = look_up(ledger, nodes);
    for (node, known) in nodes.iter_mut().zip(known) {
        let facts = known.and_then(|node| node.facts.as_ref());
        let is_usable = |nic: &RailStanding| {
            let device = facts.and_then(|facts| facts.device(&nic.nic, nic.rail));
            let port = device.and_then(|device| port_on(device, &nic.nic));
            let Some((device, port)) = device.zip(port) else {
                return false;
            };
            let is_down = matches!(carries_traffic(port), Err(NoRoute::PortNotActive { .. }));
            let has_work =
                || declined.contains_key(&nic.nic) || work_on(device, Some(port)).is_some();
            !is_down && (force || !has_work())
        };
        node.nics.retain(is_usable);
    }
}

/// What the ledger has of nodes that are in the order of their names, as its own are.
fn look_up<'a>(ledger: &'a Ledger, nodes: &[NodeStanding]) -> Vec<Option<&'a Node>> {
    let mut all = ledger.nodes().peekable();
    let find = |standing: &NodeStanding| {
        while all.next_if(|(name, _)| **name < standing.node).is_some() {}
        let found = all.peek().filter(|(name, _)| **name == standing.node);
        found.map(|(_, node)| *node)
    };
    nodes.iter().map(find).collect()
}

/// A NIC that could be probed.
struct Candidate<'a> {
    nic: &'a NicId,
    port: &'a Port,
    /// Why it is left alone.
    why: Option<String>,
}

/// The ports of a run's NICs, and why some are left alone.
pub(super) struct Usable<'a> {
    // A node has few, and a pair's are asked for in the order of the rails.
    nodes: HashMap<&'a NodeName, Vec<Candidate<'a>>>,
}

impl<'a> Usable<'a> {
    pub(super) fn of(ledger: &'a Ledger) -> Self {
        let force = ledger.settings().is_some_and(|settings| settings.force);
        let declined = declined(ledger);
        let facts = |(name, node): (&'a NodeName, &'a Node)| Some((name, node.facts.as_ref()?));
        let facts: HashMap<&NodeName, &NodeFacts> = ledger.nodes().filter_map(facts).collect();
        let mut nodes: HashMap<&NodeName, Vec<Candidate<'_>>> = HashMap::new();
        for (_, nic, number) in ledger.players() {
            let facts = facts.get(&nic.node).copied();
            let found = ledger.port(number).zip(facts);
            let Some((device, port)) = found.and_then(|(port, facts)| port.among(facts)) else {
                continue;
            };
            let declined = || declined.get(nic).map(|why| (*why).to_owned());
            let why = || declined().or_else(|| in_use(nic, device, port));
            let why = (!force).then(why).flatten();
            let mine = nodes.entry(&nic.node).or_default();
            mine.push(Candidate { nic, port, why });
        }
        Self { nodes }
    }

    /// Whether a NIC can be probed, as far as that is its own affair.
    pub(super) fn is_free(&self, nic: &NicId) -> bool {
        self.find(nic)
            .is_some_and(|it| it.why.is_none() && carries_traffic(it.port).is_ok())
    }

    /// Why a pair cannot be probed, or would disturb somebody's work.
    pub(super) fn in_the_way(&self, pair: &Pair) -> Option<String> {
        let ends = [&pair.from, &pair.to].map(|nic| self.find(nic));
        let in_use = ends.into_iter().flatten().find_map(|end| end.why.clone());
        in_use.or_else(|| match ends {
            [Some(from), Some(to)] => {
                let no = route(from.port, to.port).err();
                no.map(|why| no_route(pair, &why))
            }
            _ => Some(format!("{pair}: a port was not surveyed")),
        })
    }

    fn find(&self, nic: &NicId) -> Option<&Candidate<'a>> {
        let mut mine = self.nodes.get(&nic.node)?.iter();
        mine.find(|candidate| candidate.nic == nic)
    }
}

/// NICs that a job began to use after the survey, with what their nodes said of it.
fn declined(ledger: &Ledger) -> HashMap<&NicId, &str> {
    let mut declined = HashMap::new();
    let not_run = ledger.in_brief();
    let not_run = not_run.filter(|(brief, _)| brief.came == Came::NotRun);
    for (_, probe) in not_run {
        if let Some(Outcome::NotRun { why }) = &probe.outcome {
            let Pair { from, to, .. } = &probe.planned.pair;
            let nics = [from, to].into_iter();
            declined.extend(
                nics.filter(|nic| is_left_alone(nic, why))
                    .map(|nic| (nic, why.as_str())),
            );
        }
    }
    declined
}

/// The pairs that were tried in the pattern.
fn tried(ledger: &Ledger) -> HashSet<Pair> {
    let tried = ledger.in_brief().filter(|(brief, _)| brief.was_tried());
    let of_pattern = tried.filter(|(brief, _)| brief.purpose.is_pattern());
    let pairs = of_pattern.map(|(_, probe)| probe.planned.pair.clone());
    pairs.collect()
}

/// The addresses that a pair uses, or why there are none.
pub(super) fn route_of(ledger: &Ledger, pair: &Pair) -> Result<Route, String> {
    match (port(ledger, &pair.from), port(ledger, &pair.to)) {
        (Some(from), Some(to)) => route(from, to).map_err(|why| no_route(pair, &why)),
        _ => Err(format!("{pair}: a port was not surveyed")),
    }
}

fn port<'a>(ledger: &'a Ledger, nic: &NicId) -> Option<&'a Port> {
    port_of(ledger.get_node(&nic.node)?.facts.as_ref()?, nic)
}

fn port_of<'a>(facts: &'a NodeFacts, nic: &NicId) -> Option<&'a Port> {
    let mut devices = facts.rdma.value()?.iter();
    let device = devices.find(|device| device.name == nic.device.as_str())?;
    port_on(device, nic)
}

fn port_on<'a>(device: &'a RdmaDevice, nic: &NicId) -> Option<&'a Port> {
    device.ports.iter().find(|port| port.number == nic.port)
}

/// A port that is down is named, not each of the pairs that miss it: they all miss it for one reason.
fn no_route(pair: &Pair, why: &NoRoute) -> String {
    match why {
        NoRoute::PortNotActive {
            role,
            state,
            physical,
        } => {
            let nic = match role {
                Role::Initiator => &pair.from,
                Role::Target => &pair.to,
            };
            format!("the port of {nic} is {state}{physical}, not ACTIVE")
        }
        other => format!("{pair}: {other}"),
    }
}
