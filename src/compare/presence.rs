//! Which nodes, NICs and GPUs both runs have, which only one, and of which that cannot be told.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Gap, Nodes, Place, Trend, surveyed_by_both};
use crate::ledger::{Ledger, NodeState};
use crate::model::{Fact, NicId, NodeName, PciAddress, PcieTree, Rail};

/// Whether something is there now that was not, or the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// It was there, and is not.
    Gone,
    /// It is there, and was not.
    New,
}

/// What may be there or not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// A node that a run was asked for.
    Node(NodeName),
    /// A NIC that plays a rail.
    Nic(Rail, NicId),
    /// A GPU of a node's PCIe tree.
    Gpu(NodeName, PciAddress),
}

/// Something that only one of the runs has, of a node that both surveyed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Presence {
    /// Which run has it.
    pub way: Way,
    /// What.
    pub thing: Thing,
    /// Why the other has it not, where it says.
    pub why: Option<String>,
}

impl Presence {
    /// What is gone from a node is for the worse. Which nodes a run is asked for is the operator's
    /// choice.
    pub fn trend(&self) -> Trend {
        match (&self.thing, self.way) {
            (Thing::Node(_), _) => Trend::Other,
            (_, Way::Gone) => Trend::Worse,
            (_, Way::New) => Trend::Better,
        }
    }
}

/// What both have, and what only one has.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Nodes that both surveyed.
    pub both: BTreeSet<NodeName>,
    /// Nodes that count.
    pub of_nodes: usize,
    /// What only one has.
    pub things: Vec<Presence>,
}

impl Seen {
    /// Whether NICs that came or went are told of the node at this place.
    pub(super) fn tells_nics_of(&self, place: &Place) -> bool {
        let Place::Node(node) = place else {
            return false;
        };
        let is_its = |nic: &NicId| nic.node == *node;
        let mut things = self.things.iter();
        things.any(|told| matches!(&told.thing, Thing::Nic(_, nic) if is_its(nic)))
    }
}

pub(super) fn presence(ledgers: [&Ledger; 2], nodes: Nodes, gaps: &mut Vec<Gap>) -> Seen {
    let asked = ledgers.map(asked);
    let mut seen = Seen {
        both: surveyed_by_both(ledgers),
        ..Seen::default()
    };
    let all: BTreeSet<&NodeName> = asked.iter().flatten().copied().collect();
    for node in all {
        let [then, now] = [0, 1].map(|side| asked[side].contains(node));
        if nodes == Nodes::Common && !(then && now) {
            seen.both.remove(node);
            continue;
        }
        seen.of_nodes += 1;
        if let Some(way) = one_sided(then, now) {
            let when = if then { "after" } else { "before" };
            seen.things.push(Presence {
                way,
                thing: Thing::Node(node.clone()),
                why: Some(format!("the run {when} was not asked for it")),
            });
        }
        gaps.extend(unseen(ledgers, [then, now], node));
    }
    nics(ledgers, &mut seen, gaps);
    gpus(ledgers, &mut seen, gaps);
    seen.things.sort();
    seen
}

fn asked(ledger: &Ledger) -> HashSet<&NodeName> {
    let settings = ledger.settings();
    settings.map_or_else(HashSet::new, |settings| settings.nodes.iter().collect())
}

fn one_sided(then: bool, now: bool) -> Option<Way> {
    match (then, now) {
        (true, false) => Some(Way::Gone),
        (false, true) => Some(Way::New),
        _ => None,
    }
}

/// A node that one of the runs did not see.
fn unseen(ledgers: [&Ledger; 2], asked: [bool; 2], node: &NodeName) -> Option<Gap> {
    let why = |side: usize| {
        let when = ["before", "after"][side];
        if !asked[side] {
            return Some(format!("the run {when} was not asked for it"));
        }
        let known = ledgers[side].get_node(node)?;
        let lost = match &known.state {
            _ if known.facts.is_some() => return None,
            NodeState::Lost { why } => format!(": {why}"),
            _ => String::new(),
        };
        Some(format!("it was not reached {when}{lost}"))
    };
    let [then, now] = [why(0), why(1)];
    let why = match (then, now) {
        (None, None) => return None,
        (Some(then), Some(now)) => format!("{then}; {now}"),
        (Some(why), None) | (None, Some(why)) => why,
    };
    Some(Gap {
        what: "node".into(),
        place: Place::Node(node.clone()),
        why,
        matters: true,
    })
}

type Rails<'a> = BTreeMap<(Rail, &'a NodeName), &'a Fact<NicId>>;

fn rails(ledger: &Ledger) -> Rails<'_> {
    let all = ledger.rail_nics();
    all.map(|(rail, node, nic)| ((rail, node), nic)).collect()
}

/// What plays the rails of the nodes that both have.
fn nics(ledgers: [&Ledger; 2], seen: &mut Seen, gaps: &mut Vec<Gap>) {
    let [then, now] = ledgers.map(rails);
    let all: BTreeSet<_> = then.keys().chain(now.keys()).copied().collect();
    for (rail, node) in all {
        if !seen.both.contains(node) {
            continue;
        }
        let known = |nics: &Rails<'_>| nics.get(&(rail, node)).and_then(|nic| nic.value()).cloned();
        let (way, nic, other) = match (known(&then), known(&now)) {
            (Some(nic), None) => (Way::Gone, nic, now.get(&(rail, node))),
            (None, Some(nic)) => (Way::New, nic, then.get(&(rail, node))),
            _ => continue,
        };
        match other {
            Some(fact) => seen.things.push(Presence {
                way,
                thing: Thing::Nic(rail, nic),
                why: fact.why_unknown().map(str::to_owned),
            }),
            None => gaps.push(Gap {
                what: "NIC".into(),
                why: match way {
                    Way::Gone => format!("the run after has no {rail}"),
                    Way::New => format!("the run before has no {rail}"),
                },
                place: Place::Nic(rail, nic),
                matters: way == Way::Gone,
            }),
        }
    }
}

/// The GPUs in the PCIe trees of the nodes that both have.
fn gpus(ledgers: [&Ledger; 2], seen: &mut Seen, gaps: &mut Vec<Gap>) {
    let tree = |ledger: &Ledger, node: &NodeName| -> Option<BTreeSet<PciAddress>> {
        let tree: &PcieTree = ledger.get_node(node)?.facts.as_ref()?.pcie.value()?;
        let gpus = tree.gpus().map(|gpu| gpu.address.clone());
        // What could not be read may be a GPU.
        tree.unread
            .is_empty()
            .then(|| gpus.take(MOST_GPUS).collect())
    };
    let mut things = Vec::new();
    for node in &seen.both {
        let thing = |way, gpu: &PciAddress| Presence {
            way,
            thing: Thing::Gpu(node.clone(), gpu.clone()),
            why: None,
        };
        let when = match ledgers.map(|ledger| tree(ledger, node)) {
            [Some(then), Some(now)] => {
                things.extend(then.difference(&now).map(|gpu| thing(Way::Gone, gpu)));
                things.extend(now.difference(&then).map(|gpu| thing(Way::New, gpu)));
                continue;
            }
            [Some(_), None] => "after",
            [None, Some(_)] => "before",
            [None, None] => continue,
        };
        gaps.push(Gap {
            what: "GPUs".into(),
            place: Place::Node(node.clone()),
            why: format!("the PCIe tree {when} is unknown, or not all of it was read"),
            matters: when == "after",
        });
    }
    seen.things.extend(things);
}

/// More than sit in a node: it may send any number.
const MOST_GPUS: usize = 64;
