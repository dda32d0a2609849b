//! NICs whose cable is in the switch of another rail, by latency: they are far from their neighbours,
//! and near to those of the other rail.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::ledger::{Brief, Ledger, Probe};
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
pub(super) fn far<'a>(ledger: &'a Ledger, settings: &'a RunSettings) -> Vec<Far<'a>> {
    let mut rails: BTreeMap<Rail, Vec<Nearest<'a>>> = BTreeMap::new();
    let (first, others) = nearest(ledger, settings);
    for nearest in first.into_iter().flatten().chain(others.into_values()) {
        rails.entry(nearest.rail).or_default().push(nearest);
    }
    let mut found = Vec::new();
    for (rail, nics) in rails {
        found.extend(far_of_rail(rail, nics));
    }
    look_for(ledger, &mut found);
    found.retain(|far| far.cable() != Cable::Own);
    found
}

/// The shortest latency of a NIC to a neighbour, in nanoseconds.
struct Nearest<'a> {
    nic: &'a NicId,
    rail: Rail,
    ns: u64,
    probe: &'a Probe,
}

/// Those of all NICs, by number; then of those that were measured on a second rail.
type AllNearest<'a> = (
    Vec<Option<Nearest<'a>>>,
    BTreeMap<(Rail, usize), Nearest<'a>>,
);

fn nearest<'a>(ledger: &'a Ledger, settings: &'a RunSettings) -> AllNearest<'a> {
    let mut first: Vec<Option<Nearest<'a>>> = Vec::new();
    first.resize_with(ledger.numbered(), || None);
    let mut others: BTreeMap<(Rail, usize), Nearest<'a>> = BTreeMap::new();
    let mut neighbours = Neighbours::new(ledger, settings);
    let usual = |brief: &Brief| matches!(brief.purpose, Purpose::Pattern | Purpose::Confirm);
    for (_, probe) in ledger.in_brief().filter(|(brief, _)| usual(brief)) {
        let Some(ns) = shortest(probe).filter(|_| neighbours.are(probe)) else {
            continue;
        };
        let pair = &probe.planned.pair;
        let rail = pair.rail;
        for (number, nic) in probe.ends.into_iter().zip([&pair.from, &pair.to]) {
            let new = || Nearest {
                nic,
                rail,
                ns,
                probe,
            };
            let best = match first[number].get_or_insert_with(new) {
                best if best.rail == rail => best,
                _ => others.entry((rail, number)).or_insert_with(new),
            };
            if ns < best.ns {
                (best.ns, best.probe) = (ns, probe);
            }
        }
    }
    (first, others)
}

/// Which NICs are below one leaf switch.
struct Neighbours<'a> {
    ledger: &'a Ledger,
    groups: HashMap<&'a NodeName, usize>,
    /// By the number of the NIC: its group, and whether it is hardware.
    looked_up: Vec<Option<(Option<usize>, bool)>>,
}

impl<'a> Neighbours<'a> {
    fn new(ledger: &'a Ledger, settings: &'a RunSettings) -> Self {
        Self {
            ledger,
            groups: group_numbers(&settings.sweep.groups),
            looked_up: vec![None; ledger.numbered()],
        }
    }

    fn look_up(&mut self, number: usize, nic: &NicId) -> (Option<usize>, bool) {
        let (ledger, groups) = (self.ledger, &self.groups);
        *self.looked_up[number].get_or_insert_with(|| {
            let device = ledger.device(nic);
            let is_hardware = device.is_some_and(|device| device.software.is_none());
            (groups.get(&nic.node).copied(), is_hardware)
        })
    }

    /// Whether both ends of a probe are hardware, and neighbours.
    fn are(&mut self, probe: &Probe) -> bool {
        let ([from, to], pair) = (probe.ends, &probe.planned.pair);
        let (from, to) = (self.look_up(from, &pair.from), self.look_up(to, &pair.to));
        let near = match (from.0, to.0) {
            (Some(from), Some(to)) => from == to,
            // Of nodes that no group names nothing is known, unless all are one.
            _ => self.groups.is_empty(),
        };
        near && from.1 && to.1
    }
}

/// What a probe says of latency, in nanoseconds; `None` where it cannot be what it says.
fn shortest(probe: &Probe) -> Option<u64> {
    let latency = probe.measurement()?.latency.value()?;
    let can_be = latency.min_ns > 0 && latency.min_ns <= latency.median_ns;
    can_be.then_some(latency.min_ns)
}

fn far_of_rail(rail: Rail, nics: Vec<Nearest<'_>>) -> Vec<Far<'_>> {
    let all: Vec<f64> = nics.iter().map(|nearest| nearest.ns as f64).collect();
    let median = median(all.clone());
    if all.len() < NICS || median > MOST_NS {
        return Vec::new();
    }
    let deviation = self::median(all.iter().map(|ns| (ns - median).abs()).collect());
    let limit = (FAR * median).max(median + DEVIATIONS * deviation);
    let far = nics.iter().filter(|nearest| nearest.ns as f64 > limit);
    let far = far.map(|nearest| Far {
        stray: Stray {
            nic: nearest.nic.clone(),
            rail,
            helper: None,
            tried: Vec::new(),
        },
        best: (nearest.ns, nearest.probe),
        median,
        to: BTreeMap::new(),
    });
    let mut far: Vec<Far<'_>> = far.collect();
    far.sort_by(|a, b| a.stray.nic.cmp(&b.stray.nic));
    match far.len() * ONE_IN <= all.len() {
        true => far,
        false => Vec::new(),
    }
}

/// The middle one, the upper of two; 0 of nothing.
fn median(mut all: Vec<f64>) -> f64 {
    let middle = all.len() / 2;
    if all.is_empty() {
        return 0.0;
    }
    *all.select_nth_unstable_by(middle, f64::total_cmp).1
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
    let places = found.iter().enumerate();
    let places: HashMap<NicId, usize> = places
        .map(|(at, far)| (far.stray.nic.clone(), at))
        .collect();
    let crossed = |brief: &Brief| brief.purpose == Purpose::Cabling && brief.has_ended();
    for (_, probe) in ledger.in_brief().filter(|(brief, _)| crossed(brief)) {
        let pair = &probe.planned.pair;
        let Some(far) = places.get(&pair.from).and_then(|at| found.get_mut(*at)) else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{events, ledger};
    use crate::model::{Completion, Direction, End, Event, Fact, Latency, Outcome, SoftwareRdma};

    /// Six nodes with one NIC; a probe takes so many nanoseconds at the least, and in the median.
    fn far_ones(ns: &dyn Fn(&End, &End) -> (u64, u64), software: bool) -> Vec<String> {
        let mut events = events(6, 1, &|_, _, _| Some(391.0));
        let mut ends = (None, None);
        for event in &mut events {
            match event {
                Event::RoundPlanned { pairs, .. } => {
                    let pair = &pairs[0].pair;
                    ends = (Some(End::sender(pair)), Some(End::receiver(pair)));
                }
                Event::ProbeEnded {
                    outcome: Outcome::Measured { measurement, .. },
                    ..
                } => {
                    let (from, to) = (ends.0.take().unwrap(), ends.1.take().unwrap());
                    let (min_ns, median_ns) = ns(&from, &to);
                    let latency = Latency {
                        min_ns,
                        median_ns,
                        samples: 100,
                        completion: Completion::Poll,
                    };
                    measurement.latency = Fact::known(latency, "test");
                }
                Event::NodeSurveyed { facts, .. } if software => {
                    if let Fact::Known { value, .. } = &mut facts.rdma {
                        value[0].software = Some(SoftwareRdma::Rxe);
                    }
                }
                _ => {}
            }
        }
        let ledger = ledger(&events);
        let found = far(&ledger, ledger.settings().unwrap());
        found.iter().map(|far| far.stray.nic.to_string()).collect()
    }

    fn is_of(node: &str, ends: [&End; 2]) -> bool {
        ends.iter().any(|end| end.nic.node.0 == node)
    }

    #[test]
    fn a_nic_that_is_far_from_all_others_is_looked_for() {
        let ns = |scale: u64, far: u64| {
            move |from: &End, to: &End| {
                assert_eq!(from.direction, Direction::Tx);
                let ns = if is_of("node02", [from, to]) {
                    far
                } else {
                    2000
                };
                (ns * scale, ns * scale + 10)
            }
        };
        assert_eq!(far_ones(&ns(1, 3400), false), ["mlx5_0 of node02"]);
        assert!(far_ones(&ns(1, 2350), false).is_empty(), "within 1.2 times");
        assert!(far_ones(&ns(1, 3400), true).is_empty(), "software RDMA");
        assert!(far_ones(&ns(11, 3400), false).is_empty(), "above 20 us");
    }

    #[test]
    fn latencies_that_cannot_be_are_not_believed() {
        let told = |told: (u64, u64)| {
            let ns = move |from: &End, to: &End| match is_of("node02", [from, to]) {
                true => told,
                false => (2000, 2010),
            };
            far_ones(&ns, false)
        };
        assert!(told((3400, 3000)).is_empty());
        assert!(told((0, 3000)).is_empty());
        assert_eq!(told((u64::MAX, u64::MAX)), ["mlx5_0 of node02"]);
    }

    #[test]
    fn a_rail_that_scatters_names_nobody() {
        // Each node has its own distance, from 2 to 4.5 us.
        let ns = |from: &End, to: &End| {
            let of = |end: &End| 1500 + 500 * u64::from(end.nic.node.0.as_bytes()[5] - b'0');
            let ns = of(from).max(of(to));
            (ns, ns)
        };
        assert!(far_ones(&ns, false).is_empty());
        // Nor do two of six, which are more than one in four.
        let two = |from: &End, to: &End| {
            let far = is_of("node02", [from, to]) || is_of("node03", [from, to]);
            if far { (3400, 3400) } else { (2000, 2000) }
        };
        assert!(far_ones(&two, false).is_empty());
    }
}
