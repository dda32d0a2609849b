//! NICs whose cable is in the switch of another rail, by latency: they are far from their neighbours,
//! and near to those of the other rail.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::ledger::{Ledger, Probe};
use crate::model::{NicId, NodeName, Purpose, Rail, RunSettings, Stray};
use crate::plan::group_numbers;

/// A NIC is far from this many times the median of its rail on …
const FAR: f64 = 1.2;

/// … and from so many times the median deviation above it.
const DEVIATIONS: f64 = 4.0;

/// A rail with fewer NICs has no median to speak of.
const NICS: usize = 4;

/// Where the median is more, in nanoseconds, it is not that of cables: a kernel or an emulator copies.
const MOST_NS: f64 = 20_000.0;

/// Of a rail one NIC in so many is far at most: more are a fabric that differs.
const ONE_IN: usize = 4;

/// A NIC that is far from its neighbours.
#[derive(Debug)]
pub(super) struct Far<'a> {
    pub(super) stray: Stray,
    /// Its shortest latency to a neighbour, in nanoseconds, with the probe.
    pub(super) best: (u64, &'a Probe),
    /// The median of its rail.
    pub(super) median: f64,
    /// What it measured to each rail of one neighbour, the shortest.
    pub(super) to: BTreeMap<Rail, (u64, &'a Probe)>,
}

/// Where its cable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cable {
    /// In the switch of its own rail: it was far for another reason.
    Own,
    /// In that of another rail.
    In(Rail),
    /// Far from all that it was measured to.
    Nowhere,
    /// It was not measured to its own rail, or to no other.
    Untold,
}

impl Far<'_> {
    /// Where its cable is, as far as it is known.
    pub(super) fn cable(&self) -> Cable {
        let near = FAR * self.median;
        let ns = |rail: &Rail| self.to.get(rail).map(|(ns, _)| *ns as f64);
        let Some(own) = ns(&self.stray.rail) else {
            return Cable::Untold;
        };
        if own <= near {
            return Cable::Own;
        }
        let others = self.to.iter().filter(|(rail, _)| **rail != self.stray.rail);
        match others.min_by_key(|(_, (ns, _))| *ns) {
            None => Cable::Untold,
            Some((rail, (ns, _))) if (*ns as f64) <= near && own > FAR * *ns as f64 => {
                Cable::In(*rail)
            }
            Some(_) => Cable::Nowhere,
        }
    }
}

/// The NICs that are far from their neighbours below the same leaf switch.
pub(super) fn far<'a>(ledger: &'a Ledger, settings: &RunSettings) -> Vec<Far<'a>> {
    let mut rails: BTreeMap<Rail, BTreeMap<&NicId, (u64, &'a Probe)>> = BTreeMap::new();
    for (nic, rail, ns, probe) in between_neighbours(ledger, settings) {
        let best = rails.entry(rail).or_default();
        let best = best.entry(nic).or_insert((ns, probe));
        if ns < best.0 {
            *best = (ns, probe);
        }
    }
    let mut found = Vec::new();
    for (rail, nics) in &rails {
        found.extend(far_of_rail(*rail, nics));
    }
    look_for(ledger, &mut found);
    found.retain(|far| far.cable() != Cable::Own);
    found
}

/// The shortest latency of each probe between neighbours, for both of its NICs.
fn between_neighbours<'a>(
    ledger: &'a Ledger,
    settings: &RunSettings,
) -> Vec<(&'a NicId, Rail, u64, &'a Probe)> {
    let groups = group_numbers(&settings.sweep.groups);
    let neighbours = |a: &NodeName, b: &NodeName| match (groups.get(a), groups.get(b)) {
        (Some(a), Some(b)) => a == b,
        // Of nodes that no group names nothing is known, unless all are one.
        _ => groups.is_empty(),
    };
    let mut hardware: HashMap<&NicId, bool> = HashMap::new();
    let mut is_hardware = |nic: &'a NicId| {
        let known = hardware.entry(nic);
        *known.or_insert_with(|| {
            let device = ledger.device(nic);
            device.is_some_and(|device| device.software.is_none())
        })
    };
    let mut found = Vec::new();
    for probe in ledger.probes() {
        let usual = matches!(probe.planned.purpose, Purpose::Pattern | Purpose::Confirm);
        let pair = &probe.planned.pair;
        if let Some(ns) = shortest(probe).filter(|_| usual)
            && neighbours(&pair.from.node, &pair.to.node)
            && is_hardware(&pair.from)
            && is_hardware(&pair.to)
        {
            found.extend([&pair.from, &pair.to].map(|nic| (nic, pair.rail, ns, probe)));
        }
    }
    found
}

/// What a probe says of latency, in nanoseconds; `None` where it cannot be what it says.
fn shortest(probe: &Probe) -> Option<u64> {
    let latency = probe.measurement()?.latency.value()?;
    let can_be = latency.min_ns > 0 && latency.min_ns <= latency.median_ns;
    can_be.then_some(latency.min_ns)
}

fn far_of_rail<'a>(rail: Rail, nics: &BTreeMap<&NicId, (u64, &'a Probe)>) -> Vec<Far<'a>> {
    let all: Vec<f64> = nics.values().map(|(ns, _)| *ns as f64).collect();
    let median = median(all.clone());
    if all.len() < NICS || median > MOST_NS {
        return Vec::new();
    }
    let deviation = self::median(all.iter().map(|ns| (ns - median).abs()).collect());
    let limit = (FAR * median).max(median + DEVIATIONS * deviation);
    let far = nics.iter().filter(|(_, (ns, _))| *ns as f64 > limit);
    let far = far.map(|(nic, best)| Far {
        stray: Stray {
            nic: (*nic).clone(),
            rail,
            helper: None,
            tried: Vec::new(),
        },
        best: *best,
        median,
        to: BTreeMap::new(),
    });
    let far: Vec<Far<'a>> = far.collect();
    match far.len() * ONE_IN <= all.len() {
        true => far,
        false => Vec::new(),
    }
}

/// The middle one, the upper of two; 0 of nothing.
fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

/// What they measured to look for their cables.
fn look_for<'a>(ledger: &'a Ledger, found: &mut [Far<'a>]) {
    if found.is_empty() {
        return;
    }
    let mut rails: HashMap<&NicId, BTreeSet<Rail>> = HashMap::new();
    for (rail, _, nic) in ledger.rail_nics() {
        if let Some(nic) = nic.value() {
            rails.entry(nic).or_default().insert(rail);
        }
    }
    for probe in ledger.probes() {
        let pair = &probe.planned.pair;
        if probe.planned.purpose != Purpose::Cabling || probe.outcome.is_none() {
            continue;
        }
        let mut mine = found.iter_mut();
        let Some(far) = mine.find(|far| far.stray.nic == pair.from) else {
            continue;
        };
        let helper = far.stray.helper.get_or_insert_with(|| pair.to.node.clone());
        if *helper != pair.to.node {
            continue;
        }
        for rail in rails.get(&pair.to).into_iter().flatten() {
            far.stray.tried.push(*rail);
            if let Some(ns) = shortest(probe) {
                let best = far.to.entry(*rail).or_insert((ns, probe));
                if ns < best.0 {
                    *best = (ns, probe);
                }
            }
        }
    }
}
