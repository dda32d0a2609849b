//! Changes that are alike, put together: what a whole cluster did is one line and not thousands.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{FactChange, Unchanged};
use super::rates::RateChange;
use super::spread::Spread;
use super::{Place, Trend};
use crate::judge::Sample;
use crate::model::{End, Gbps, NicId, NodeName, Rail};

/// How much of a cluster changed its rate alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Nearly all of it.
    Cluster,
    /// Nearly all NICs of a rail.
    Rail(Rail),
    /// Nearly all NICs of a node.
    Node(NodeName),
    /// A NIC both ways.
    Nic(Rail, NicId),
    /// One direction of a NIC.
    End(End),
}

/// Rates that changed for one part of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct RateGroup {
    /// The part.
    pub scope: Scope,
    /// The middle of what its directions reached before.
    pub before: Gbps,
    /// And after.
    pub after: Gbps,
    /// The directions that changed; none of a whole cluster, which are all the same.
    pub changes: Vec<RateChange>,
    /// Of how many that were compared.
    pub of: usize,
}

impl RateGroup {
    /// Worse where it is slower.
    pub fn trend(&self) -> Trend {
        Trend::of(self.before.0, self.after.0)
    }

    /// What is left of the rate, as a share of what it was.
    pub fn ratio(&self) -> f64 {
        self.after.share_of(self.before).unwrap_or(0.0)
    }
}

/// What an end reached in the middle, in both runs.
pub(super) struct Middles<'a> {
    pub end: &'a End,
    pub before: Gbps,
    pub after: Gbps,
}

/// So large a share of a part is nearly all of it.
const NEARLY_ALL: f64 = 0.9;

/// A rail of fewer nodes than this is told NIC by NIC, and so is a node of a single NIC.
const RAIL_NODES: usize = 3;

/// Puts changes together, the largest part first and the worst first in each.
pub(super) fn rates(
    changes: Vec<RateChange>,
    all: &[Middles<'_>],
    spread: &Spread,
) -> Vec<RateGroup> {
    let mut groups = Vec::new();
    if spread.is_shift {
        groups.push(cluster(all));
    }
    let [worse, better]: [Vec<RateChange>; 2] = {
        let is_worse = |change: &RateChange| change.trend() == Trend::Worse;
        let (worse, better) = changes.into_iter().partition(is_worse);
        [worse, better]
    };
    for mut left in [worse, better] {
        let rail = |end: &End| end.rail;
        let parts = parts(&mut left, all, rail, 2 * RAIL_NODES);
        groups.extend(
            parts
                .into_iter()
                .map(|(rail, part, of)| group(Scope::Rail(rail), part, of)),
        );
        let node = |end: &End| end.nic.node.clone();
        let parts = self::parts(&mut left, all, node, 3);
        groups.extend(
            parts
                .into_iter()
                .map(|(node, part, of)| group(Scope::Node(node), part, of)),
        );
        groups.extend(nics(left));
    }
    groups.sort_by(|a, b| {
        let key = |group: &RateGroup| (group.scope.rank(), group.trend());
        let by_ratio = a.ratio().total_cmp(&b.ratio());
        key(a)
            .cmp(&key(b))
            .then(by_ratio)
            .then_with(|| a.scope.cmp(&b.scope))
    });
    groups
}

impl Scope {
    fn rank(&self) -> usize {
        match self {
            Self::Cluster => 0,
            Self::Rail(_) => 1,
            Self::Node(_) => 2,
            Self::Nic(..) | Self::End(_) => 3,
        }
    }
}

fn cluster(all: &[Middles<'_>]) -> RateGroup {
    let middle = |of: fn(&Middles<'_>) -> Gbps| middle(all.iter().map(of).collect());
    RateGroup {
        scope: Scope::Cluster,
        before: middle(|end| end.before),
        after: middle(|end| end.after),
        changes: Vec::new(),
        of: all.len(),
    }
}

/// The parts of which nearly all changed, taken out of `left`, each with how many of it were compared;
/// those of fewer than `least` are left.
fn parts<K: Ord>(
    left: &mut Vec<RateChange>,
    all: &[Middles<'_>],
    part: impl Fn(&End) -> K,
    least: usize,
) -> Vec<(K, Vec<RateChange>, usize)> {
    let mut sizes: BTreeMap<K, (usize, usize)> = BTreeMap::new();
    for end in all {
        sizes.entry(part(end.end)).or_default().1 += 1;
    }
    for change in left.iter() {
        sizes.entry(part(&change.end)).or_default().0 += 1;
    }
    sizes.retain(|_, (changed, of)| *of >= least && *changed as f64 >= NEARLY_ALL * *of as f64);
    let found = sizes.into_iter().map(|(key, (_, of))| {
        let mine = left.extract_if(.., |change| part(&change.end) == key);
        let mine: Vec<RateChange> = mine.collect();
        (key, mine, of)
    });
    found.collect()
}

/// Both directions of a NIC together.
fn nics(changes: Vec<RateChange>) -> Vec<RateGroup> {
    let mut by_nic: BTreeMap<(Rail, NicId), Vec<RateChange>> = BTreeMap::new();
    for change in changes {
        let nic = (change.end.rail, change.end.nic.clone());
        by_nic.entry(nic).or_default().push(change);
    }
    let group = |((rail, nic), changes): (_, Vec<RateChange>)| match &changes[..] {
        [one] => group(Scope::End(one.end.clone()), changes, 2),
        _ => group(Scope::Nic(rail, nic), changes, 2),
    };
    by_nic.into_iter().map(group).collect()
}

fn group(scope: Scope, changes: Vec<RateChange>, of: usize) -> RateGroup {
    let of_each = |which: fn(&RateChange) -> &Sample| {
        let rates = changes.iter().map(|change| which(change).median());
        middle(rates.collect())
    };
    RateGroup {
        scope,
        before: of_each(|change| &change.before),
        after: of_each(|change| &change.after),
        of,
        changes,
    }
}

fn middle(mut rates: Vec<Gbps>) -> Gbps {
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    rates.get(rates.len() / 2).copied().unwrap_or(Gbps(0.0))
}

/// A fact that is not what it was, of all nodes or NICs where it changed alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactGroup {
    /// Its name.
    pub what: &'static str,
    /// Whether that is for the worse.
    pub trend: Trend,
    /// What it was and is, in words; `None` where each of several has its own, such as a serial number.
    pub values: Option<[String; 2]>,
    /// Where.
    pub places: Vec<Place>,
    /// How many nodes or NICs both runs know it of.
    pub of: usize,
    /// Where it stayed, by value, if that is less than half of them.
    pub stays: BTreeMap<String, Vec<Place>>,
}

/// Puts facts together that changed alike, what is worse first, then what is of most.
pub(super) fn facts(changes: Vec<FactChange>, unchanged: &Unchanged) -> Vec<FactGroup> {
    type Key = (Trend, &'static str, Option<[String; 2]>);
    let mut groups: BTreeMap<Key, Vec<Place>> = BTreeMap::new();
    let mut changed: BTreeMap<&'static str, usize> = BTreeMap::new();
    for change in changes {
        let values = (!change.is_identity).then_some([change.before, change.after]);
        let key = (change.trend, change.what, values);
        groups.entry(key).or_default().push(change.place);
        *changed.entry(change.what).or_default() += 1;
    }
    let group = |((trend, what, values), places): (Key, Vec<Place>)| {
        let same = unchanged.get(what).map_or(&[][..], Vec::as_slice);
        let of = changed[what] + same.len();
        let mut stays: BTreeMap<String, Vec<Place>> = BTreeMap::new();
        // Of what most did, those are told that did not.
        let most = trend == Trend::Other && values.is_some() && 2 * places.len() > of;
        for (place, value) in same.iter().filter(|_| most) {
            stays.entry(value.clone()).or_default().push(place.clone());
        }
        FactGroup {
            what,
            trend,
            values,
            places,
            of,
            stays,
        }
    };
    let mut groups: Vec<FactGroup> = groups.into_iter().map(group).collect();
    groups.sort_by_key(|group| (group.trend, std::cmp::Reverse(group.places.len())));
    groups
}

impl FactGroup {
    /// The nodes that it changed on.
    pub fn nodes(&self) -> BTreeSet<&NodeName> {
        self.places.iter().filter_map(Place::node).collect()
    }
}

impl Place {
    /// The node that it is, or is of.
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Node(node) => Some(node),
            Self::Nic(_, nic) | Self::End(_, nic, _) => Some(&nic.node),
            Self::Run | Self::Pair(_) | Self::Subject(_) => None,
        }
    }
}
