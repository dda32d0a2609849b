//! Schedules that are fixed before anything is measured, to compare with: all pairs, a ring, random
//! matchings. They are judged simply: a direction of a NIC is accused if all of its probes are low.

use std::collections::{BTreeMap, BTreeSet};

use linerate::config::Scenario;
use linerate::model::{End, Gbps, NicId, NodeName, Pair, ProbeSpec, Rail};
use linerate::plan::circle;
use linerate::simulated::SimulatedFleet;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// Below this share of what the best of its rail reach a probe is low.
const LOW: f64 = 0.85;

/// A fixed schedule.
#[derive(Debug, Clone, Copy)]
pub enum Fixed {
    AllPairs,
    Ring,
    Random(usize),
}

impl Fixed {
    pub fn name(self) -> String {
        match self {
            Self::AllPairs => "all pairs".to_owned(),
            Self::Ring => "ring".to_owned(),
            Self::Random(rounds) => format!("{rounds} random matchings"),
        }
    }

    /// Rounds of pairs of nodes, by their places; the number of nodes is even.
    pub fn rounds(self, nodes: usize, seed: u64) -> Vec<Vec<(usize, usize)>> {
        let mut order: Vec<usize> = (0..nodes).collect();
        let mut random = StdRng::seed_from_u64(seed);
        match self {
            Self::AllPairs => (0..nodes - 1).map(|round| matching(nodes, round)).collect(),
            Self::Ring => {
                order.rotate_left(1);
                let straight: Vec<usize> = (0..nodes).collect();
                vec![pairs(&straight), pairs(&order)]
            }
            Self::Random(rounds) => (0..rounds)
                .map(|_| {
                    order.shuffle(&mut random);
                    pairs(&order)
                })
                .collect(),
        }
    }
}

fn matching(nodes: usize, round: usize) -> Vec<(usize, usize)> {
    let partner = |node| (node, circle(nodes, round, node));
    (0..nodes).map(partner).filter(|(a, b)| a < b).collect()
}

fn pairs(order: &[usize]) -> Vec<(usize, usize)> {
    order
        .chunks_exact(2)
        .map(|pair| (pair[0], pair[1]))
        .collect()
}

/// Plays a schedule, all rails and both directions at once; gives who is accused.
pub fn accused(schedule: Fixed, scenario: &Scenario, spec: &ProbeSpec, seed: u64) -> BTreeSet<End> {
    let names = scenario.names();
    let mut fleet = SimulatedFleet::new(scenario, &names, seed);
    let mut rates: BTreeMap<End, Vec<Gbps>> = BTreeMap::new();
    for round in schedule.rounds(names.len(), seed) {
        let both = |(a, b): (usize, usize)| [(a, b), (b, a)];
        let ways: Vec<(usize, usize)> = round.into_iter().flat_map(both).collect();
        let all: Vec<Pair> = ways
            .into_iter()
            .flat_map(|(from, to)| {
                let (from, to) = (&names[from], &names[to]);
                (0..scenario.rails).map(move |rail| pair(from, to, rail))
            })
            .collect();
        for (pair, rate) in all.iter().zip(fleet.round(spec, &all)) {
            for end in [End::sender(pair), End::receiver(pair)] {
                rates.entry(end).or_default().extend(rate);
            }
        }
    }
    let reference = references(&rates);
    let low = |end: &End, rate: &Gbps| rate.0 < LOW * reference[&end.rail];
    let all_low = |(end, rates): &(End, Vec<Gbps>)| {
        !rates.is_empty() && rates.iter().all(|rate| low(end, rate))
    };
    let accused = rates.into_iter().filter(all_low);
    accused.map(|(end, _)| end).collect()
}

fn pair(from: &NodeName, to: &NodeName, rail: u16) -> Pair {
    let nic = |node: &NodeName| NicId {
        node: node.clone(),
        device: Scenario::device(rail).into(),
        port: 1,
    };
    Pair {
        from: nic(from),
        to: nic(to),
        rail: Rail(rail),
    }
}

/// The 90th percentile of what the NICs of each rail reach at best.
fn references(rates: &BTreeMap<End, Vec<Gbps>>) -> BTreeMap<Rail, f64> {
    let mut best: BTreeMap<Rail, Vec<f64>> = BTreeMap::new();
    for (end, rates) in rates {
        let most = rates.iter().map(|rate| rate.0).max_by(f64::total_cmp);
        best.entry(end.rail).or_default().extend(most);
    }
    let p90 = |mut all: Vec<f64>| {
        all.sort_unstable_by(f64::total_cmp);
        all.get(all.len() * 9 / 10).copied().unwrap_or(0.0)
    };
    best.into_iter()
        .map(|(rail, all)| (rail, p90(all)))
        .collect()
}
