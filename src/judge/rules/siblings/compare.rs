//! Finds who differs from the majority: the same question about every property.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use arcstr::ArcStr;

use crate::judge::links::{TreeKey, tree_key};
use crate::judge::{NicView, NodeView};
use crate::model::{Fact, PciAddress, PcieTree, Rail, Rule, Severity};

/// Something in which the nodes of a cluster should be alike.
pub(super) struct Property {
    /// What it is called, to follow "the".
    pub what: &'static str,
    /// What a difference does to the verdict.
    pub severity: Severity,
    /// Where it is found.
    pub of: Of,
    /// The rule that may have told of it already: its finding then gets the comparison, and is at
    /// least this severe where none of the majority has the same finding.
    pub told_by: Option<(Rule, Severity)>,
    /// What to do about a difference.
    pub remedy: &'static str,
}

/// Whose property it is.
pub(super) enum Of {
    /// The node's.
    Node(fn(&NodeView<'_>) -> Option<Seen>),
    /// That of the NICs which play one rail.
    Nic(fn(&NodeView<'_>, &NicView<'_>) -> Option<Seen>),
    /// That of the functions of such NICs, told by the PCIe tree alone: nodes of one kind have one.
    Function(fn(&PcieTree, &PciAddress) -> Option<Seen>),
}

/// A property as one node has it; where it is unknown there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// The value in words.
    pub value: String,
    /// The file or call that it is from.
    pub from: ArcStr,
    /// Only what is equal in this can be compared.
    pub among: Among,
}

/// What has to be alike before a property can be.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Among {
    /// Vendor and device of the NIC's function, where that is known: firmware is that of a model.
    pub model: Option<[Option<u16>; 2]>,
    /// Anything else, in words.
    pub also: String,
}

impl Seen {
    /// A fact in the words of `say`, compared with everybody's.
    pub fn fact<T>(fact: &Fact<T>, say: impl FnOnce(&T) -> String) -> Option<Self> {
        let Fact::Known { value, from } = fact else {
            return None;
        };
        Some(Self {
            value: say(value),
            from: from.clone(),
            among: Among::default(),
        })
    }

    /// Compared only with those of the same model.
    pub fn among(self, model: Option<[Option<u16>; 2]>) -> Self {
        let also = self.among.also;
        let among = Among { model, also };
        Self { among, ..self }
    }
}

/// One place where a node differs from the majority.
pub(super) struct Odd<'n, 'a> {
    /// The node.
    pub node: &'n NodeView<'a>,
    /// Its NIC, where the property is one's.
    pub nic: Option<&'n NicView<'a>>,
    /// What it has.
    pub own: Rc<Seen>,
    /// What the majority has.
    pub majority: Rc<Majority<'n, 'a>>,
}

/// What more than half have.
pub(super) struct Majority<'n, 'a> {
    /// As the first of them has it.
    pub seen: Rc<Seen>,
    /// Those that have it, by name.
    pub nodes: Vec<&'n NodeView<'a>>,
    /// Of how many, whose value is known.
    pub of: usize,
}

struct Known<'n, 'a> {
    node: &'n NodeView<'a>,
    nic: Option<&'n NicView<'a>>,
    seen: Rc<Seen>,
}

/// What the functions of trees have, each looked at once.
struct Functions<'a> {
    see: fn(&PcieTree, &PciAddress) -> Option<Seen>,
    known: HashMap<(TreeKey, &'a PciAddress), Option<Rc<Seen>>>,
}

impl<'a> Functions<'a> {
    fn new(see: fn(&PcieTree, &PciAddress) -> Option<Seen>) -> Self {
        let known = HashMap::new();
        Self { see, known }
    }

    fn seen(&mut self, node: &NodeView<'a>, nic: &NicView<'a>) -> Option<Rc<Seen>> {
        let (tree, address) = (node.pcie()?, nic.pci()?);
        let known = self.known.entry((tree_key(tree), address));
        let see = || (self.see)(tree, address).map(Rc::new);
        known.or_insert_with(see).clone()
    }
}

/// Everything in which a node differs from more than half of those that have it. In the order of rails,
/// then of `nodes`.
pub(super) fn odd<'n, 'a>(property: &Property, nodes: &[&'n NodeView<'a>]) -> Vec<Odd<'n, 'a>> {
    // Rails are few, and mostly all of one model: the last group is looked at first.
    type Groups<'n, 'a> = Vec<(Among, Vec<Known<'n, 'a>>)>;
    let mut groups: BTreeMap<Option<Rail>, Groups<'n, 'a>> = BTreeMap::new();
    let mut add = |rail, known: Known<'n, 'a>| {
        let groups = groups.entry(rail).or_default();
        let mine = groups.iter_mut().rev();
        match { mine }.find(|(among, _)| *among == known.seen.among) {
            Some((_, group)) => group.push(known),
            None => groups.push((known.seen.among.clone(), vec![known])),
        }
    };
    let mut functions = match property.of {
        Of::Function(see) => Some(Functions::new(see)),
        Of::Node(_) | Of::Nic(_) => None,
    };
    for node in nodes.iter().copied() {
        match property.of {
            Of::Node(see) => {
                if let Some(seen) = see(node).map(Rc::new) {
                    let nic = None;
                    add(None, Known { node, nic, seen });
                }
            }
            Of::Nic(see) => {
                for nic in &node.nics {
                    let rail = nic.rail;
                    if let Some(seen) = see(node, nic).map(Rc::new) {
                        let nic = Some(nic);
                        add(rail, Known { node, nic, seen });
                    }
                }
            }
            Of::Function(_) => {
                for nic in &node.nics {
                    let rail = nic.rail;
                    if let Some(seen) = functions.as_mut().and_then(|f| f.seen(node, nic)) {
                        let nic = Some(nic);
                        add(rail, Known { node, nic, seen });
                    }
                }
            }
        }
    }
    let in_order = |mut groups: Groups<'n, 'a>| {
        groups.sort_by(|(a, _), (b, _)| a.cmp(b));
        groups.into_iter().map(|(_, group)| group)
    };
    let groups = groups.into_values().flat_map(in_order);
    groups.flat_map(odd_of_group).collect()
}

fn odd_of_group<'n, 'a>(group: Vec<Known<'n, 'a>>) -> Vec<Odd<'n, 'a>> {
    let Some(majority) = majority(&group).map(Rc::new) else {
        return Vec::new();
    };
    let differs = |known: &Known<'_, '_>| known.seen.value != majority.seen.value;
    let odd = |known: Known<'n, 'a>| Odd {
        node: known.node,
        nic: known.nic,
        own: known.seen,
        majority: Rc::clone(&majority),
    };
    group.into_iter().filter(differs).map(odd).collect()
}

fn majority<'n, 'a>(group: &[Known<'n, 'a>]) -> Option<Majority<'n, 'a>> {
    let mut by_value: BTreeMap<&str, Vec<&Known<'n, 'a>>> = BTreeMap::new();
    for known in group {
        by_value.entry(&known.seen.value).or_default().push(known);
    }
    let most = by_value.into_values().max_by_key(Vec::len)?;
    // Of two that differ, either may be the odd one: only from three on does anybody stand alone.
    let proves = 2 * most.len() > group.len();
    proves.then(|| Majority {
        seen: Rc::clone(&most[0].seen),
        nodes: most.iter().map(|known| known.node).collect(),
        of: group.len(),
    })
}
