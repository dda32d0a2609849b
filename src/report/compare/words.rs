//! Where something changed, in few words: nodes as host lists, rails as numbers.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::{
    Counted, CounterChange, FactGroup, Gap, Place, Presence, RateChange, RateGroup, Scope, Thing,
};
use crate::config::hostlist;
use crate::model::{Direction, NicId, NodeName, Rail, Subject};

/// Of nodes, and of other things, so many are named.
const NAMED: usize = 48;

/// Characters of a value; more are nothing that a person reads in a line.
const LONGEST: usize = 160;

/// `node[001-017,020]`, at most so many that a line can hold them.
fn nodes<'a>(names: impl IntoIterator<Item = &'a NodeName>) -> String {
    let mut names: Vec<&str> = names.into_iter().map(|node| node.0.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(NAMED);
    let folded = hostlist::fold(&names);
    if folded.len() <= LONGEST || more == 0 {
        return folded;
    }
    names.truncate(NAMED);
    format!("{} and {more} more", hostlist::fold(&names))
}

/// Names, of many the first.
pub(super) fn some(mut names: Vec<String>, between: &str) -> String {
    const SOME: usize = 8;
    match names.len().saturating_sub(SOME) {
        0 => names.join(between),
        more => {
            names.truncate(SOME);
            format!("{}{between}and {more} more", names.join(between))
        }
    }
}

/// A value that may be a whole list, in a line.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn nic(nic: &NicId, rail: Rail) -> String {
    format!("{nic} ({rail})")
}

fn ways(direction: Direction) -> &'static str {
    match direction {
        Direction::Tx => "sends",
        Direction::Rx => "receives",
    }
}

/// Whose rates changed, at the beginning of a sentence.
pub(super) fn scope(group: &RateGroup) -> String {
    let some = |what: String| match group.changes.len() {
        all if all == group.of => what,
        part => format!("{what} ({part} of {} NIC directions)", group.of),
    };
    match &group.scope {
        Scope::Cluster => format!("the whole cluster ({} NIC directions)", group.of),
        Scope::Rail(rail) => some(format!("all of {rail}")),
        Scope::Node(node) => some(format!("all NICs of {node}")),
        Scope::Nic(rail, id) => format!("{} sends and receives", nic(id, *rail)),
        Scope::End(end) => format!("{} {}", nic(&end.nic, end.rail), ways(end.direction)),
    }
}

/// Of one or two directions, what they rest on.
pub(super) fn samples(group: &RateGroup) -> Vec<String> {
    let few = matches!(group.scope, Scope::Nic(..) | Scope::End(_));
    let changes = group.changes.iter().filter(|_| few);
    changes
        .map(|change| {
            let way = match (&group.scope, change.end.direction) {
                (Scope::End(_), _) => "",
                (_, Direction::Tx) => "sends: ",
                (_, Direction::Rx) => "receives: ",
            };
            let (before, after) = (&change.before, &change.after);
            let probes = |count: usize| match count {
                1 => "1 probe".to_owned(),
                many => format!("{many} probes"),
            };
            format!(
                "{way}the middle of {} after and {} before, with partners that are proved good; at best {}, {} before",
                probes(after.probes),
                probes(before.probes),
                after.best(),
                before.best()
            )
        })
        .collect()
}

/// Whether a finding is about one of these directions, or a NIC or node that has one of them.
pub(super) fn is_of(changes: &[RateChange], subject: &Subject) -> bool {
    changes.iter().any(|change| {
        let end = &change.end;
        match subject {
            Subject::Nic(nic, rail, way) => {
                (&nic.node, *rail) == (&end.nic.node, end.rail)
                    && way.is_none_or(|way| way == end.direction)
            }
            Subject::Node(node) | Subject::NodeRail(node, _) => *node == end.nic.node,
            Subject::Rail(rail) => *rail == end.rail,
            Subject::Pair(_) | Subject::LeafGroup(..) | Subject::Device(..) => false,
        }
    })
}

/// What sorts things by their kind.
pub(super) fn kind(thing: &Thing) -> u8 {
    match thing {
        Thing::Node(_) => 0,
        Thing::Nic(..) => 1,
        Thing::Gpu(..) => 2,
    }
}

/// Things of one kind.
pub(super) fn things(told: &[&Presence]) -> String {
    if told.iter().all(|told| matches!(told.thing, Thing::Node(_))) {
        let names = told.iter().filter_map(|told| match &told.thing {
            Thing::Node(node) => Some(node),
            _ => None,
        });
        return nodes(names);
    }
    let names = told.iter().map(|told| match &told.thing {
        Thing::Node(node) => node.to_string(),
        Thing::Nic(rail, id) => format!("NIC {}", nic(id, *rail)),
        Thing::Gpu(node, address) => format!("GPU {address} of {node}"),
    });
    some(names.collect(), ", ")
}

/// `firmware 28.39 → 28.43 on 127 of 128 nodes; node017 stays at 28.39`.
pub(super) fn fact(group: &FactGroup) -> String {
    let what = match &group.values {
        Some([before, after]) => format!("{} {} → {}", group.what, short(before), short(after)),
        None => format!("another {}", group.what),
    };
    let stays = group.stays.iter().map(|(value, places)| {
        let verb = if places.len() == 1 { "stays" } else { "stay" };
        let whose = match whole_nodes(group, places) {
            true => nodes(places.iter().filter_map(Place::node)),
            false => self::places(places),
        };
        format!("; {whose} {verb} at {}", short(value))
    });
    let stays: Vec<String> = stays.collect();
    format!("{what} on {}{}", whereabouts(group), stays.concat())
}

/// Whether the nodes of these places have none that changed.
fn whole_nodes(group: &FactGroup, places: &[Place]) -> bool {
    let changed = group.nodes();
    let mut nodes = places.iter().filter_map(Place::node);
    nodes.all(|node| !changed.contains(node))
}

fn whereabouts(group: &FactGroup) -> String {
    let (changed, of) = (group.places.len(), group.of);
    let of_nics = matches!(group.places.first(), Some(Place::Nic(..)));
    let kind = if of_nics { "NICs" } else { "nodes" };
    let stayed: BTreeSet<&NodeName> = group
        .stays
        .values()
        .flatten()
        .filter_map(Place::node)
        .collect();
    let counted = changed + group.stays.values().map(Vec::len).sum::<usize>();
    let changed_nodes = group.nodes();
    match changed {
        1 => places(&group.places),
        all if all == of => format!("all {of} {kind}"),
        // Nothing of one node both changed and stayed, and nothing did something else.
        _ if counted == of && changed_nodes.is_disjoint(&stayed) => {
            let all = changed_nodes.len() + stayed.len();
            format!("{} of {all} nodes", changed_nodes.len())
        }
        some => format!("{some} of {of} {kind}: {}", places(&group.places)),
    }
}

/// `node[001-003]`, `rail 2 of node[001-003]`, `mlx5_0 of node009 (rail 0)`.
pub(super) fn places(places: &[Place]) -> String {
    if let [one] = places {
        return place(one);
    }
    let mut whole: Vec<&NodeName> = Vec::new();
    let mut others: BTreeSet<String> = BTreeSet::new();
    let mut rails: BTreeMap<&NodeName, BTreeSet<(Rail, Option<Direction>)>> = BTreeMap::new();
    for at in places {
        match at {
            Place::Node(node) => whole.push(node),
            Place::Nic(rail, nic) => {
                rails.entry(&nic.node).or_default().insert((*rail, None));
            }
            Place::End(rail, nic, direction) => {
                let way = (*rail, Some(*direction));
                rails.entry(&nic.node).or_default().insert(way);
            }
            other => {
                others.insert(place(other));
            }
        }
    }
    let mut alike: BTreeMap<BTreeSet<(Rail, Option<Direction>)>, Vec<&NodeName>> = BTreeMap::new();
    for (node, rails) in rails {
        alike.entry(rails).or_default().push(node);
    }
    let mut said: Vec<String> = Vec::new();
    if !whole.is_empty() {
        said.push(nodes(whole));
    }
    let rails = alike.into_iter();
    said.extend(rails.map(|(rails, names)| format!("{} of {}", self::rails(&rails), nodes(names))));
    said.extend(others);
    some(said, ", ")
}

/// `rail 2`, `rails 0 to 7`, `rail 3 tx`.
fn rails(all: &BTreeSet<(Rail, Option<Direction>)>) -> String {
    let numbers: BTreeSet<u16> = all.iter().map(|(rail, _)| rail.0).collect();
    let ways: BTreeSet<Option<Direction>> = all.iter().map(|(_, way)| *way).collect();
    let way = match (ways.len(), ways.first()) {
        (1, Some(Some(Direction::Tx))) => " tx",
        (1, Some(Some(Direction::Rx))) => " rx",
        _ => "",
    };
    let (first, last) = (numbers.first().copied(), numbers.last().copied());
    let (Some(first), Some(last)) = (first, last) else {
        return String::new();
    };
    let listed = match numbers.len() {
        1 => return format!("rail {first}{way}"),
        many if usize::from(last - first) + 1 == many => format!("{first} to {last}"),
        _ => {
            let numbers: Vec<String> = numbers.iter().map(u16::to_string).collect();
            numbers.join(", ")
        }
    };
    format!("rails {listed}{way}")
}

fn place(at: &Place) -> String {
    match at {
        Place::Run => String::new(),
        Place::Node(node) => node.to_string(),
        Place::Nic(rail, id) => nic(id, *rail),
        Place::End(rail, id, direction) => format!("{} {direction}", nic(id, *rail)),
        Place::Pair(pair) => pair.to_string(),
        Place::Subject(subject) => subject.to_string(),
    }
}

/// `rate, rail 3 of node007: because nothing was measured after`.
pub(super) fn gap(what: &str, why: &str, gaps: &[&Gap]) -> String {
    let whose: Vec<Place> = gaps.iter().map(|gap| gap.place.clone()).collect();
    match places(&whose) {
        none if none.is_empty() => format!("{what}: because {why}"),
        whose => format!("{what}, {whose}: because {why}"),
    }
}

/// Counters by name and by how far they went.
pub(super) fn counters(all: &[CounterChange]) -> Vec<String> {
    let mut by_name: BTreeMap<(&str, Counted), Vec<Place>> = BTreeMap::new();
    for change in all {
        let place = Place::Nic(change.rail, change.nic.clone());
        let key = (change.name.as_str(), change.counted);
        by_name.entry(key).or_default().push(place);
    }
    let line = |((name, counted), at): ((&str, Counted), Vec<Place>)| {
        let how = match counted {
            Counted::By(more) => format!("+{more}"),
            Counted::ToItsEnd => "went to its end, where it counts no more".to_owned(),
        };
        format!("{name} {how}: {}", places(&at))
    };
    by_name.into_iter().map(line).collect()
}
