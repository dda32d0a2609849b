//! What two surveys know of nodes and NICs, property by property.

mod function;
mod nic;
mod node;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arcstr::ArcStr;

use super::{Gap, Place, Trend, surveyed_by_both};
use crate::judge::{NicView, NodeView};
use crate::ledger::Ledger;
use crate::model::{Fact, NicId, NodeName, PciAddress, PciFunction, PcieTree, Rail, Shared};

/// The name of a property that NICs which came or went have as well.
pub(super) const RDMA_DEVICES: &str = "RDMA devices";

/// A fact that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactChange {
    /// The name of the fact.
    pub what: &'static str,
    /// Whose.
    pub place: Place,
    /// What it was, in words.
    pub before: String,
    /// What it is.
    pub after: String,
    /// Whether there is less of what there should be more of.
    pub trend: Trend,
    /// Whether it tells one thing from all others, as a serial number does.
    pub is_identity: bool,
}

/// Where facts stayed what they were, for those that changed anywhere.
pub(super) type Unchanged = HashMap<&'static str, Vec<(Place, String)>>;

/// The facts of two runs beside each other.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Those that changed, by property, then by node and rail.
    pub changes: Vec<FactChange>,
    /// Those that only one run knows.
    pub gaps: Vec<Gap>,
    /// Those that neither knows, by name, with how many nodes or NICs.
    pub known_to_neither: BTreeMap<&'static str, usize>,
    /// How many both know.
    pub compared: usize,
    pub(super) unchanged: Unchanged,
}

/// A property as one node or NIC has it, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Value {
    text: String,
    /// How much of it there is, where less is worse.
    worth: Option<u64>,
}

impl Value {
    fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { text, worth: None }
    }

    fn worth(text: impl Into<String>, worth: u64) -> Self {
        let (text, worth) = (text.into(), Some(worth));
        Self { text, worth }
    }
}

/// Why a property is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unknown {
    why: ArcStr,
    /// Whether it was looked for: an older linerate did not look for all.
    was_asked: bool,
}

type Seen = Result<Value, Unknown>;

fn unknown(why: impl Into<ArcStr>) -> Unknown {
    let why = why.into();
    Unknown {
        why,
        was_asked: true,
    }
}

/// A fact in the words of `say`.
fn seen<T>(fact: &Fact<T>, say: impl FnOnce(&T) -> Value) -> Seen {
    match fact {
        Fact::Known { value, .. } => Ok(say(value)),
        Fact::Unknown { why } => Err(Unknown {
            why: why.clone(),
            was_asked: fact.was_asked(),
        }),
    }
}

/// A fact that is in words already.
fn words(fact: &Fact<String>) -> Seen {
    seen(fact, |text| Value::text(text.as_str()))
}

/// Something that is compared.
struct Property {
    what: &'static str,
    of: Of,
    is_identity: bool,
}

impl Property {
    const fn new(what: &'static str, of: Of) -> Self {
        Self {
            what,
            of,
            is_identity: false,
        }
    }

    const fn identity(what: &'static str, of: Of) -> Self {
        Self {
            what,
            of,
            is_identity: true,
        }
    }
}

/// Whose property it is.
enum Of {
    /// The node's.
    Node(fn(&NodeView<'_>) -> Seen),
    /// That of the NIC that plays a rail.
    Nic(fn(&Run<'_>, &NodeView<'_>, &NicView<'_>) -> Seen),
    /// That of such a NIC's function, told by the PCIe tree alone: nodes of one kind have one.
    Function(fn(&PcieTree, &PciAddress) -> Seen),
}

/// One of the runs, looked at for all properties.
struct Run<'a> {
    nodes: BTreeMap<&'a NodeName, NodeView<'a>>,
    /// The index of the GID that probes used, by NIC.
    gids: HashMap<&'a NicId, u32>,
}

impl<'a> Run<'a> {
    fn of(ledger: &'a Ledger) -> Self {
        let views = NodeView::of_run(ledger).into_iter();
        let mut gids = HashMap::new();
        for probe in ledger.probes() {
            let (pair, route) = (&probe.planned.pair, &probe.planned.route);
            gids.entry(&pair.from).or_insert(route.from.gid_index);
            gids.entry(&pair.to).or_insert(route.to.gid_index);
        }
        Self {
            nodes: views.map(|view| (view.name, view)).collect(),
            gids,
        }
    }
}

/// What two runs know of the nodes that both surveyed, and of the NICs that play the same rails there. No
/// rates are needed for it.
pub fn facts(before: &Ledger, after: &Ledger) -> Facts {
    let ledgers = [before, after];
    of(ledgers, &surveyed_by_both(ledgers))
}

pub(super) fn of(ledgers: [&Ledger; 2], nodes: &BTreeSet<NodeName>) -> Facts {
    let runs = ledgers.map(Run::of);
    let nodes: Vec<[&NodeView<'_>; 2]> = nodes
        .iter()
        .filter_map(|node| Some([runs[0].nodes.get(node)?, runs[1].nodes.get(node)?]))
        .collect();
    let mut facts = Facts::default();
    for property in node::PROPERTIES.iter().chain(nic::PROPERTIES) {
        facts.add(property, &runs, &nodes);
    }
    facts
}

impl Facts {
    fn add<'a>(&mut self, property: &Property, runs: &[Run<'a>; 2], nodes: &[[&NodeView<'a>; 2]]) {
        let changes = self.changes.len();
        let mut same = Vec::new();
        let mut trees = HashMap::new();
        for views in nodes {
            if let Of::Node(see) = property.of {
                let place = Place::Node(views[1].name.clone());
                let seen = [see(views[0]), see(views[1])];
                same.extend(self.hold(property, place, seen));
                continue;
            }
            for (rail, nics) in common_nics(*views) {
                let see = |side: usize, trees: &mut Trees<'a>| match property.of {
                    Of::Nic(see) => see(&runs[side], views[side], nics[side]),
                    Of::Function(see) => of_function(see, views[side], nics[side], trees),
                    Of::Node(_) => Err(unknown("")),
                };
                let place = Place::Nic(rail, nics[1].id.clone());
                let seen = [see(0, &mut trees), see(1, &mut trees)];
                same.extend(self.hold(property, place, seen));
            }
        }
        if self.changes.len() > changes {
            self.unchanged.insert(property.what, same);
        }
    }

    /// Takes in what both runs say; gives it back where it is the same.
    fn hold(
        &mut self,
        property: &Property,
        place: Place,
        seen: [Seen; 2],
    ) -> Option<(Place, String)> {
        let what = property.what;
        match seen {
            [Ok(before), Ok(after)] => {
                self.compared += 1;
                if before.text == after.text {
                    return Some((place, after.text));
                }
                self.changes.push(FactChange {
                    what,
                    place,
                    trend: match (before.worth, after.worth) {
                        (Some(before), Some(after)) => Trend::of(before, after),
                        _ => Trend::Other,
                    },
                    before: before.text,
                    after: after.text,
                    is_identity: property.is_identity,
                });
            }
            [Err(_), Err(_)] => *self.known_to_neither.entry(what).or_default() += 1,
            [Ok(value), Err(unknown)] => self.gap(what, place, ("after", "before"), value, unknown),
            [Err(unknown), Ok(value)] => self.gap(what, place, ("before", "after"), value, unknown),
        }
        None
    }

    fn gap(
        &mut self,
        what: &'static str,
        place: Place,
        (lacks, knows): (&str, &str),
        value: Value,
        unknown: Unknown,
    ) {
        self.gaps.push(Gap {
            what: what.to_owned(),
            place,
            why: format!("unknown {lacks}: {} ({knows}: {})", unknown.why, value.text),
            matters: value.worth.is_some() && unknown.was_asked,
        });
    }
}

/// The NICs that play one rail in both runs.
fn common_nics<'n, 'a>(
    views: [&'n NodeView<'a>; 2],
) -> impl Iterator<Item = (Rail, [&'n NicView<'a>; 2])> {
    let before = &views[0].nics;
    views[1].nics.iter().filter_map(move |after| {
        let rail = after.rail?;
        let before = before.iter().find(|nic| nic.rail == Some(rail))?;
        Some((rail, [before, after]))
    })
}

/// What the functions of trees have, each looked at once.
type Trees<'a> = HashMap<(*const PciFunction, &'a PciAddress), Seen>;

fn of_function<'a>(
    see: fn(&PcieTree, &PciAddress) -> Seen,
    node: &NodeView<'a>,
    nic: &NicView<'a>,
    trees: &mut Trees<'a>,
) -> Seen {
    let address = seen_address(nic)?;
    let Some(tree) = node.pcie() else {
        return Err(match &node.facts.pcie {
            Fact::Known { .. } => unknown("its PCIe tree is larger than that of any machine"),
            Fact::Unknown { why } => Unknown {
                why: why.clone(),
                was_asked: node.facts.pcie.was_asked(),
            },
        });
    };
    let key = (Shared::as_ptr(&tree.functions), address);
    let known = trees.entry(key);
    known.or_insert_with(|| see(tree, address)).clone()
}

fn seen_address<'a>(nic: &NicView<'a>) -> Result<&'a PciAddress, Unknown> {
    match &nic.device.pci {
        Fact::Known { value, .. } => Ok(value),
        Fact::Unknown { why } => Err(unknown(why.clone())),
    }
}
