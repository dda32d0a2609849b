//! What the nodes of each leaf group send to other groups, and receive from them, as a share of what
//! they reach among themselves.
//!
//! A single flow that is low accuses nobody: routing that is static puts healthy flows on one link, with
//! one queue pair most of them. A group is accused where nearly all its flows are low, far more than
//! chance leaves of the others, against groups that are proved.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Localised;
use super::observe::{Observation, Observed, side};
use crate::ledger::Ledger;
use crate::model::{
    Direction, FabricStanding, LeafEnd, LeafStanding, NodeName, Purpose, RunSettings, Standing,
};
use crate::plan::{group_numbers, measures_fabric};

/// The links of a group count as loaded where so many of its NICs on the rail had a flow, as a share.
const LOADED: f64 = 0.75;

/// Of the flows of a group that is accused so many are low, as a share.
const MOST: f64 = 0.75;

/// Low in so many rounds against proved groups makes an accusation …
const ROUNDS: usize = 2;

/// … where chance would leave it so with less than this probability.
const CHANCE: f64 = 1e-4;

const WAYS: [Direction; 2] = [Direction::Tx, Direction::Rx];

/// A transfer between two leaf groups.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow<'o> {
    pub(super) seen: &'o Observation<'o>,
    /// The rate as a share of what its ends reach without other groups.
    pub(super) share: f64,
    /// Whether that is low.
    pub(super) low: bool,
    groups: [usize; 2],
}

impl Flow<'_> {
    /// The way of its sender's group, or of its receiver's.
    fn end(&self, direction: Direction) -> LeafEnd {
        LeafEnd {
            group: self.groups[side(direction)],
            rail: self.seen.pair.rail,
            direction,
        }
    }

    /// Both.
    pub(super) fn ends(&self) -> [LeafEnd; 2] {
        WAYS.map(|direction| self.end(direction))
    }

    /// The group at the other end.
    pub(super) fn partner(&self, direction: Direction) -> usize {
        self.groups[1 - side(direction)]
    }
}

/// One way of a leaf group.
#[derive(Debug, Default)]
pub(super) struct Way<'o> {
    /// Its flows in rounds in which it was loaded.
    pub(super) flows: Vec<Flow<'o>>,
    /// The best of the mean shares with one other group.
    pub(super) capacity: Option<f64>,
    pub(super) standing: Standing,
}

impl<'o> Way<'o> {
    /// Its flows by the group at the other end.
    pub(super) fn by_partner(&self, direction: Direction) -> BTreeMap<usize, Vec<Flow<'o>>> {
        let mut partners: BTreeMap<usize, Vec<Flow<'o>>> = BTreeMap::new();
        for flow in &self.flows {
            let partner = partners.entry(flow.partner(direction)).or_default();
            partner.push(*flow);
        }
        partners
    }
}

/// What was measured between leaf groups.
#[derive(Debug, Default)]
pub(super) struct Fabric<'o> {
    pub(super) flows: Vec<Flow<'o>>,
    /// Every way of a group that has a NIC on the rail.
    pub(super) ways: BTreeMap<LeafEnd, Way<'o>>,
}

/// The mean of shares.
pub(super) fn mean(flows: &[Flow<'_>]) -> f64 {
    let sum: f64 = flows.iter().map(|flow| flow.share).sum();
    sum / flows.len().max(1) as f64
}

/// Judges the ways between leaf groups; nothing where the run was not asked for them.
pub(super) fn fabric<'o>(
    observed: &'o Observed<'o>,
    localised: &Localised<'_>,
    settings: &RunSettings,
) -> Fabric<'o> {
    if !measures_fabric(&settings.sweep) {
        return Fabric::default();
    }
    let groups = group_numbers(&settings.sweep.groups);
    let flows = flows(observed, &groups, settings);
    let nics = nics(observed, &groups);
    let loads = loads(&flows);
    let mut ways: BTreeMap<LeafEnd, Way<'o>> = BTreeMap::new();
    for end in nics.keys() {
        ways.entry(*end).or_default();
    }
    for flow in &flows {
        for direction in WAYS {
            let end = flow.end(direction);
            let load = loads.get(&(flow.seen.round, end)).copied().unwrap_or(0);
            let all = nics.get(&end).copied().unwrap_or(0);
            if let Some(way) = ways.get_mut(&end)
                && load as f64 >= LOADED * all as f64
            {
                way.flows.push(*flow);
            }
        }
    }
    // On a rail that is low as a whole nothing is to be compared with.
    ways.retain(|end, _| !localised.low_rails.contains_key(&end.rail));
    let mut fabric = Fabric { flows, ways };
    fabric.stand(settings.expect.degraded_below);
    fabric
}

fn flows<'o>(
    observed: &'o Observed<'o>,
    groups: &HashMap<&NodeName, usize>,
    settings: &RunSettings,
) -> Vec<Flow<'o>> {
    // What a NIC reaches in each direction beside those of its own group.
    let mut best: Vec<[Option<f64>; 2]> = vec![[None; 2]; observed.cast.parts.len()];
    for seen in &observed.usual {
        for (way, number) in seen.ends.into_iter().enumerate() {
            let best = &mut best[number][way];
            *best = Some(best.map_or(seen.rate.0, |best| best.max(seen.rate.0)));
        }
    }
    let flow = |seen: &'o Observation<'o>| {
        let group = |node: &NodeName| groups.get(node).copied();
        let groups = [group(&seen.pair.from.node)?, group(&seen.pair.to.node)?];
        let [from, to] = seen.ends;
        let whole = best[from][0]?.min(best[to][1]?);
        let share = (whole > 0.0).then(|| seen.rate.0 / whole)?;
        Some(Flow {
            seen,
            share,
            low: share < settings.expect.degraded_below,
            groups,
        })
    };
    let flows = observed.fabric.iter().filter_map(flow);
    flows
        .filter(|flow| flow.groups[0] != flow.groups[1])
        .collect()
}

/// How many NICs each group has on each rail, for both ways.
fn nics(observed: &Observed<'_>, groups: &HashMap<&NodeName, usize>) -> BTreeMap<LeafEnd, usize> {
    let mut nics = BTreeMap::new();
    for part in &observed.cast.parts {
        let Some(group) = groups.get(&part.nic.node).copied() else {
            continue;
        };
        for direction in WAYS {
            let rail = part.rail;
            let end = LeafEnd {
                group,
                rail,
                direction,
            };
            *nics.entry(end).or_default() += 1;
        }
    }
    nics
}

/// How many flows each way had in each round.
fn loads(flows: &[Flow<'_>]) -> HashMap<(u32, LeafEnd), usize> {
    let mut loads = HashMap::new();
    for flow in flows {
        for direction in WAYS {
            let way = (flow.seen.round, flow.end(direction));
            *loads.entry(way).or_default() += 1;
        }
    }
    loads
}

impl Fabric<'_> {
    fn stand(&mut self, degraded_below: f64) {
        for (end, way) in &mut self.ways {
            let partners = way.by_partner(end.direction);
            let means = partners.values().map(|flows| mean(flows));
            way.capacity = means.max_by(f64::total_cmp);
            way.standing = match way.capacity {
                None => Standing::Unknown,
                Some(share) if share >= degraded_below => Standing::Good,
                Some(_) => Standing::Suspect,
            };
        }
        let low = self
            .ways
            .iter()
            .filter(|(_, way)| way.standing == Standing::Suspect);
        let accused: Vec<LeafEnd> = low
            .filter(|(end, way)| self.is_proved_low(**end, way, degraded_below))
            .map(|(end, _)| *end)
            .collect();
        for end in accused {
            if let Some(way) = self.ways.get_mut(&end) {
                way.standing = Standing::Accused;
            }
        }
    }

    /// Whether a way is low, and no other explanation is left.
    fn is_proved_low(&self, end: LeafEnd, way: &Way<'_>, degraded_below: f64) -> bool {
        let (Some(mine), Some(others)) = (way.capacity, self.capacity_of_others(end)) else {
            return false;
        };
        let proved = self.against_proved(end, way);
        let rounds: BTreeSet<u32> = proved.iter().map(|flow| flow.seen.round).collect();
        let low = proved.iter().filter(|flow| flow.low).count();
        mine < degraded_below * others
            && rounds.len() >= ROUNDS
            && low as f64 >= MOST * proved.len() as f64
            && at_least(low, proved.len(), self.low_elsewhere(end.group)) < CHANCE
    }

    /// Its flows with groups whose part in them is good with others.
    pub(super) fn against_proved<'w>(&self, end: LeafEnd, way: &Way<'w>) -> Vec<Flow<'w>> {
        let is_good = |flow: &&Flow<'_>| {
            let partner = end.of_partner(flow.partner(end.direction));
            let other = self.ways.get(&partner);
            other.is_some_and(|way| way.standing == Standing::Good)
        };
        way.flows.iter().filter(is_good).copied().collect()
    }

    /// The median capacity of the groups that are good in the same way.
    fn capacity_of_others(&self, end: LeafEnd) -> Option<f64> {
        let same = self.ways.iter().filter(|(other, way)| {
            (other.rail, other.direction) == (end.rail, end.direction)
                && way.standing == Standing::Good
        });
        let mut shares: Vec<f64> = same.filter_map(|(_, way)| way.capacity).collect();
        shares.sort_unstable_by(f64::total_cmp);
        shares.get(shares.len() / 2).copied()
    }

    /// The share of the flows between other groups that is low, not below what their number can tell.
    fn low_elsewhere(&self, group: usize) -> f64 {
        let others = || {
            self.flows
                .iter()
                .filter(|flow| !flow.groups.contains(&group))
        };
        let low = others().filter(|flow| flow.low).count();
        (low + 1) as f64 / (others().count() + 2) as f64
    }
}

/// The probability that of so many flows at least `low` are, where each is with a probability.
fn at_least(low: usize, of: usize, probability: f64) -> f64 {
    let (log, other) = (probability.ln(), (1.0 - probability).ln());
    // ln of "of over n", from one n to the next.
    let mut ways = 0.0;
    let mut sum = 0.0;
    for n in 0..=of {
        if n > 0 {
            ways += ((of - n + 1) as f64).ln() - (n as f64).ln();
        }
        if n >= low {
            sum += (ways + n as f64 * log + (of - n) as f64 * other).exp();
        }
    }
    sum
}

/// The same for who plans what to measure next.
pub(super) fn standing(
    ledger: &Ledger,
    fabric: &Fabric<'_>,
    settings: &RunSettings,
) -> FabricStanding {
    let groups = group_numbers(&settings.sweep.groups);
    let mut rounds: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for (brief, probe) in ledger.in_brief() {
        if brief.purpose == Purpose::Fabric && brief.has_ended() {
            let pair = &probe.planned.pair;
            let ends = [&pair.from.node, &pair.to.node];
            let ends = ends.into_iter().filter_map(|node| groups.get(node));
            rounds.entry(probe.round).or_default().extend(ends);
        }
    }
    let tried = |group: usize| {
        let tried = rounds.values().enumerate();
        let mine = tried.filter(|(_, groups)| groups.contains(&group));
        mine.map(|(round, _)| round).collect()
    };
    let ends = fabric.ways.iter().map(|(end, way)| LeafStanding {
        end: *end,
        standing: way.standing,
        tried: tried(end.group),
    });
    FabricStanding {
        rounds: rounds.len(),
        ends: ends.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_the_binomial_is_what_it_is() {
        for (low, of, probability, tail) in [
            (0, 10, 0.3, 1.0),
            (1, 2, 0.5, 0.75),
            (16, 16, 0.5, 0.5f64.powi(16)),
            (3, 3, 0.1, 0.001),
            (13, 16, 0.3, 3.5e-5),
        ] {
            let got = at_least(low, of, probability);
            assert!((got - tail).abs() < 0.05 * tail, "{low} of {of}: {got}");
        }
        // A thousand flows overflow nothing.
        assert!(at_least(900, 1000, 0.5) < 1e-100);
    }
}
