//! Rounds between leaf groups under full load: a few in which every group meets another, then those
//! that are low once more against one that is proved. NICs that are not proved sit out.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::adaptive::{Player, Probes};
use super::schedule::Schedule;
use crate::model::{
    FabricStanding, LeafEnd, LeafStanding, NicId, NodeName, Pair, Pattern, Purpose, RailStanding,
    Standing, SweepSettings,
};

/// How often what is low is measured again.
const RETESTS: usize = 2;

/// So few groups meet each other group: a group that met only one that is bad is not proved.
const FEW: usize = 4;

/// What a run asks of the rounds between its leaf groups.
#[derive(Debug, Clone, Copy)]
pub struct FabricSetup {
    /// How many groups there are; players of a higher number are in none.
    pub groups: usize,
    /// In so many rounds each group meets another.
    pub matchings: usize,
    /// Whether both directions are loaded at once.
    pub both_ways: bool,
    /// The seed of the schedule.
    pub seed: u64,
    /// So many nodes have a part in a round at most, two at the least.
    pub most: usize,
}

/// Whether a run measures the ways between leaf groups: it is asked to, and measures whole groups.
pub fn measures_fabric(sweep: &SweepSettings) -> bool {
    let whole = !matches!(
        sweep.pattern,
        Pattern::One { .. } | Pattern::Pairs { .. } | Pattern::Nothing
    );
    sweep.fabric && whole && sweep.groups.len() > 1
}

/// Two nodes that meet.
type Meeting<'a> = (&'a Player<'a>, &'a Player<'a>);

/// The probes of the next round between leaf groups; none where nothing more is to be learned. `can`
/// says whether a pair has a route.
pub fn fabric_round(
    players: &[Player<'_>],
    known: &FabricStanding,
    setup: FabricSetup,
    can: &dyn Fn(&NicId, &NicId) -> bool,
) -> Probes {
    let there = |player: &&Player<'_>| {
        let proved = player.node.nics.iter().any(RailStanding::is_proved);
        player.is_there && player.group < setup.groups && proved
    };
    let there: Vec<&Player<'_>> = players.iter().filter(there).collect();
    let rounds = |meetings: Vec<Meeting<'_>>| {
        let (up, down) = probes(&meetings, can);
        match setup.both_ways {
            true => vec![[up, down].concat()],
            false => vec![up, down],
        }
    };
    let mut matchings: Vec<Probes> = matchings(&there, setup)
        .into_iter()
        .flat_map(rounds)
        .collect();
    matchings.retain(|probes| !probes.is_empty());
    let (played, first) = (known.rounds, matchings.len());
    if played < first {
        return matchings.swap_remove(played);
    }
    let again = rounds(retests(&there, known, setup, first));
    // One way at a time they take turns.
    let turn = (played - first) % again.len();
    again.into_iter().nth(turn).unwrap_or_default()
}

/// The rounds in which each group meets others, as many nodes at a time as may carry traffic.
fn matchings<'a>(there: &[&'a Player<'a>], setup: FabricSetup) -> Vec<Vec<Meeting<'a>>> {
    let mut groups: BTreeMap<usize, Vec<NodeName>> = BTreeMap::new();
    let mut places: HashMap<&NodeName, &Player<'_>> = HashMap::new();
    for player in there {
        let names = groups.entry(player.group).or_default();
        names.push(player.node.node.clone());
        places.insert(&player.node.node, player);
    }
    let groups: Vec<Vec<NodeName>> = groups.into_values().collect();
    let schedule = Schedule::new(&groups, setup.seed);
    let crossings = schedule.crossings().max(1);
    // Of an odd number of groups one sits out each time; few groups meet all.
    let least = match groups.len() {
        count if count <= FEW => crossings,
        count => 1 + count % 2,
    };
    let round = |round: usize| {
        let pairs = schedule.between(round % crossings, round / crossings);
        let pairs = pairs.into_iter();
        let meetings = pairs.filter_map(|(a, b)| Some((*places.get(a)?, *places.get(b)?)));
        parts(&meetings.collect::<Vec<_>>(), setup.most)
    };
    let rounds = 0..setup.matchings.max(least);
    rounds.flat_map(round).collect()
}

/// A round in parts of at most so many nodes, whole groups in each: a part of a group does not fill its
/// links.
fn parts<'a>(meetings: &[Meeting<'a>], most: usize) -> Vec<Vec<Meeting<'a>>> {
    let most = (most / 2).max(1);
    let groups = |(a, b): &Meeting<'_>| (a.group, b.group);
    let mut parts: Vec<Vec<Meeting<'a>>> = Vec::new();
    for met in meetings.chunk_by(|a, b| groups(a) == groups(b)) {
        let met = &met[..met.len().min(most)];
        match parts.last_mut() {
            Some(part) if part.len() + met.len() <= most => part.extend(met),
            _ => parts.push(met.to_vec()),
        }
    }
    parts
}

/// Groups that are low, each against one that is proved in the ways that it needs.
fn retests<'a>(
    there: &[&'a Player<'a>],
    known: &FabricStanding,
    setup: FabricSetup,
    first: usize,
) -> Vec<Meeting<'a>> {
    let mut nodes: BTreeMap<usize, Vec<&'a Player<'a>>> = BTreeMap::new();
    for player in there {
        nodes.entry(player.group).or_default().push(player);
    }
    let mut low: BTreeMap<usize, Vec<&LeafStanding>> = BTreeMap::new();
    for end in &known.ends {
        let again = end.tried.iter().filter(|round| **round >= first).count();
        let rounds = if setup.both_ways { 1 } else { 2 } * RETESTS;
        if end.standing == Standing::Suspect && again < rounds {
            low.entry(end.end.group).or_default().push(end);
        }
    }
    let mut used: HashSet<usize> = low.keys().copied().collect();
    let mut met = Vec::new();
    for (group, ends) in &low {
        let Some(mine) = nodes.get(group) else {
            continue;
        };
        let Some((other, theirs)) = proved_group(&nodes, known, &used, ends, mine.len()) else {
            continue;
        };
        let room = (setup.most / 2).max(1) - met.len();
        used.insert(other);
        // Others than in the round before.
        let shift = ends.iter().map(|end| end.tried.len()).max().unwrap_or(0);
        let turned = theirs.iter().cycle().skip(shift % theirs.len().max(1));
        let pairs = mine.iter().zip(turned.take(theirs.len()));
        met.extend(pairs.take(room).map(|(mine, theirs)| (*mine, *theirs)));
    }
    met
}

/// The group that serves most of the ways that are low, and fills most of them; another than before
/// where several do.
fn proved_group<'n, 'a>(
    nodes: &'n BTreeMap<usize, Vec<&'a Player<'a>>>,
    known: &FabricStanding,
    used: &HashSet<usize>,
    low: &[&LeafStanding],
    size: usize,
) -> Option<(usize, &'n [&'a Player<'a>])> {
    let serves = |group: usize| {
        let good = |end: LeafEnd| known.of(end.of_partner(group)) == Standing::Good;
        low.iter().filter(|low| good(low.end)).count()
    };
    let turn = low.iter().map(|end| end.tried.len()).max().unwrap_or(0);
    let free = nodes.iter().filter(|(group, _)| !used.contains(group));
    let able = free.filter(|(group, _)| serves(**group) > 0);
    let mut able: Vec<(&usize, &Vec<&Player<'_>>)> = able.collect();
    let count = able.len().max(1);
    able.rotate_left(turn % count);
    let best = able
        .into_iter()
        .rev()
        .max_by_key(|(group, theirs)| (serves(**group), theirs.len().min(size)));
    best.map(|(group, theirs)| (*group, theirs.as_slice()))
}

/// What the nodes that meet send to each other, on every rail on which both are proved: there, and back.
fn probes(meetings: &[Meeting<'_>], can: &dyn Fn(&NicId, &NicId) -> bool) -> (Probes, Probes) {
    let (mut there, mut back) = (Probes::new(), Probes::new());
    for (a, b) in meetings {
        for mine in a.node.nics.iter().filter(|nic| nic.is_proved()) {
            let mut others = b.node.nics.iter();
            let same = |theirs: &&RailStanding| theirs.rail == mine.rail && theirs.is_proved();
            let Some(theirs) = others.find(same) else {
                continue;
            };
            let (from, to, rail) = (&mine.nic, &theirs.nic, mine.rail);
            for (probes, from, to) in [(&mut there, from, to), (&mut back, to, from)] {
                if can(from, to) {
                    let (from, to) = (from.clone(), to.clone());
                    probes.push((Pair { from, to, rail }, Purpose::Fabric));
                }
            }
        }
    }
    (there, back)
}
