//! Finds who differs from the majority: the same question about every property.

use std::collections::BTreeMap;
use std::rc::Rc;

use arcstr::ArcStr;

use crate::judge::links::Kinds;
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

/// Nodes that are compared, with what is asked of them for every property.
pub(super) struct Siblings<'n, 'a> {
    /// In the order of their names, each with the number of its kind.
    nodes: Vec<(&'n NodeView<'a>, Option<usize>)>,
}

impl<'n, 'a> Siblings<'n, 'a> {
    pub(super) fn new(nodes: &'n [NodeView<'a>]) -> Self {
        let mut kinds = Kinds::default();
        let numbered = nodes.iter().map(|node| (node, kinds.number(node)));
        let mut nodes: Vec<_> = numbered.collect();
        nodes.sort_by_key(|(node, _)| node.name);
        Self { nodes }
    }

    /// Everything in which a node differs from more than half of those that have it. In the order of
    /// rails, then of nodes.
    pub(super) fn odd(&self, property: &Property) -> Vec<Odd<'n, 'a>> {
        let mut groups = Groups::default();
        let mut functions = Functions::default();
        for (node, kind) in self.nodes.iter().copied() {
            if let Of::Node(see) = property.of {
                if let Some(seen) = see(node).map(Rc::new) {
                    let nic = None;
                    groups.add(None, Known { node, nic, seen });
                }
                continue;
            }
            for (place, nic) in node.nics.iter().enumerate() {
                let seen = match property.of {
                    Of::Nic(see) => see(node, nic).map(Rc::new),
                    Of::Function(see) => kind.and_then(|kind| {
                        functions.seen([kind, place], || see(node.pcie()?, nic.pci()?))
                    }),
                    Of::Node(_) => None,
                };
                if let Some(seen) = seen {
                    let known = Known {
                        node,
                        nic: Some(nic),
                        seen,
                    };
                    groups.add(nic.rail, known);
                }
            }
        }
        groups.in_order().flat_map(odd_of_group).collect()
    }
}

/// What the functions of NICs have, each looked at once: by the kind of server, and the place of the NIC.
#[derive(Default)]
struct Functions(Vec<Vec<Option<Option<Rc<Seen>>>>>);

impl Functions {
    fn seen(
        &mut self,
        [kind, place]: [usize; 2],
        see: impl FnOnce() -> Option<Seen>,
    ) -> Option<Rc<Seen>> {
        if self.0.len() <= kind {
            self.0.resize_with(kind + 1, Vec::new);
        }
        let of_kind = &mut self.0[kind];
        if of_kind.len() <= place {
            of_kind.resize(place + 1, None);
        }
        of_kind[place]
            .get_or_insert_with(|| see().map(Rc::new))
            .clone()
    }
}

/// What is compared with each other: rails are few, and mostly all of one model.
#[derive(Default)]
struct Groups<'n, 'a>(BTreeMap<Option<Rail>, Vec<Group<'n, 'a>>>);

type Group<'n, 'a> = (Among, Vec<Known<'n, 'a>>);

impl<'n, 'a> Groups<'n, 'a> {
    fn add(&mut self, rail: Option<Rail>, known: Known<'n, 'a>) {
        let groups = self.0.entry(rail).or_default();
        let is_alike = |(among, group): &&mut Group<'_, '_>| {
            let last = group.last().map(|last| &last.seen);
            last.is_some_and(|last| Rc::ptr_eq(last, &known.seen)) || *among == known.seen.among
        };
        // The last group is looked at first.
        match groups.iter_mut().rev().find(is_alike) {
            Some((_, group)) => group.push(known),
            None => groups.push((known.seen.among.clone(), vec![known])),
        }
    }

    fn in_order(self) -> impl Iterator<Item = Vec<Known<'n, 'a>>> {
        let of_rail = |mut groups: Vec<Group<'n, 'a>>| {
            groups.sort_by(|(a, _), (b, _)| a.cmp(b));
            groups.into_iter().map(|(_, group)| group)
        };
        self.0.into_values().flat_map(of_rail)
    }
}

fn odd_of_group<'n, 'a>(group: Vec<Known<'n, 'a>>) -> Vec<Odd<'n, 'a>> {
    let Some(majority) = majority(&group).map(Rc::new) else {
        return Vec::new();
    };
    let differs = |known: &Known<'_, '_>| {
        !Rc::ptr_eq(&known.seen, &majority.seen) && known.seen.value != majority.seen.value
    };
    let odd = |known: Known<'n, 'a>| Odd {
        node: known.node,
        nic: known.nic,
        own: known.seen,
        majority: Rc::clone(&majority),
    };
    group.into_iter().filter(differs).map(odd).collect()
}

fn majority<'n, 'a>(group: &[Known<'n, 'a>]) -> Option<Majority<'n, 'a>> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_value: Vec<Vec<&Known<'n, 'a>>> = Vec::new();
    let mut last: Option<(&Rc<Seen>, usize)> = None;
    for known in group {
        let place = match last {
            // Most are as the one before, down to the place in memory.
            Some((seen, place)) if Rc::ptr_eq(seen, &known.seen) => place,
            _ => *places.entry(&known.seen.value).or_insert_with(|| {
                by_value.push(Vec::new());
                by_value.len() - 1
            }),
        };
        by_value[place].push(known);
        last = Some((&known.seen, place));
    }
    let most = by_value.into_iter().max_by_key(Vec::len)?;
    // Of two that differ, either may be the odd one: only from three on does anybody stand alone.
    let proves = 2 * most.len() > group.len();
    proves.then(|| Majority {
        seen: Rc::clone(&most[0].seen),
        nodes: most.iter().map(|known| known.node).collect(),
        of: group.len(),
    })
}
