//! Measured rates as shares of what was expected, and what the cluster itself shows to be possible.

use std::collections::BTreeMap;

use super::expected;
use crate::ledger::{Ledger, PairState, Probe};
use crate::model::{Fact, Gbps, NicId, Pair, Rail};

/// The share of NICs whose best rate counts as what a rail can do is one tenth. The median is not
/// good enough: where 40 % of a rail is bad it is bad itself.
const REFERENCE_QUANTILE: f64 = 0.9;

/// A rail whose reference is below this share of the cluster's is judged by the cluster's.
const RAIL_OF_CLUSTER: f64 = 0.9;

/// One pair with a measured rate.
#[derive(Debug, Clone)]
pub struct Observation<'a> {
    /// The pair.
    pub pair: &'a Pair,
    /// Its best probe.
    pub probe: &'a Probe,
    /// All probes of it that measured something.
    pub samples: usize,
    /// The best rate.
    pub rate: Gbps,
    /// What its links can carry.
    pub expected: Fact<Gbps>,
    /// `rate` as a share of the expected rate; where that is unknown, of the reference.
    pub ratio: f64,
    /// `rate` as a share of what the best NICs reach: those of the rail, or those of the cluster
    /// where the rail falls behind it.
    pub relative: f64,
    /// `rate` as a share of what the best NICs of the rail reach, whatever the cluster does.
    pub within_rail: f64,
}

/// What the best NICs reach, rail by rail.
struct Reference {
    rails: BTreeMap<Rail, f64>,
    cluster: f64,
}

impl Reference {
    fn of(&self, rail: Rail) -> f64 {
        let own = self.rails.get(&rail).copied().unwrap_or(self.cluster);
        if own < RAIL_OF_CLUSTER * self.cluster {
            self.cluster
        } else {
            own
        }
    }
}

/// Everything measured, in the order of rail, sender and receiver.
pub fn observe(ledger: &Ledger) -> Vec<Observation<'_>> {
    let pairs = ledger.pairs();
    let mut observations: Vec<Observation<'_>> = pairs
        .iter()
        .filter_map(|summary| match summary.state() {
            PairState::Measured { probe, rate } => Some(Observation {
                pair: summary.pair,
                probe,
                samples: summary.measured().count(),
                rate,
                expected: expected(ledger, probe),
                ratio: 0.0,
                relative: 0.0,
                within_rail: 0.0,
            }),
            _ => None,
        })
        .collect();
    let unit = Unit::of(&observations);
    let reference = reference(&observations, unit);
    for seen in &mut observations {
        let rail = seen.pair.rail;
        seen.relative = share(unit.rate(seen), reference.of(rail));
        seen.within_rail = share(
            unit.rate(seen),
            reference.rails.get(&rail).copied().unwrap_or(0.0),
        );
        let absolute = seen
            .expected
            .value()
            .and_then(|expected| seen.rate.share_of(*expected));
        seen.ratio = absolute.unwrap_or(seen.relative);
    }
    observations
}

/// What rates are compared in: shares of the expected rate take differing links into account, but
/// only where every expected rate is known.
#[derive(Clone, Copy)]
enum Unit {
    Share,
    Gbps,
}

impl Unit {
    fn of(observations: &[Observation<'_>]) -> Self {
        let known = observations
            .iter()
            .all(|seen| seen.expected.value().is_some());
        if known { Self::Share } else { Self::Gbps }
    }

    fn rate(self, seen: &Observation<'_>) -> f64 {
        match (self, seen.expected.value()) {
            (Self::Share, Some(expected)) => seen.rate.share_of(*expected).unwrap_or(0.0),
            _ => seen.rate.0,
        }
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn reference(observations: &[Observation<'_>], unit: Unit) -> Reference {
    let mut best: BTreeMap<(Rail, &NicId), f64> = BTreeMap::new();
    for seen in observations {
        for nic in [&seen.pair.from, &seen.pair.to] {
            let entry = best.entry((seen.pair.rail, nic)).or_insert(0.0);
            *entry = entry.max(unit.rate(seen));
        }
    }
    let mut by_rail: BTreeMap<Rail, Vec<f64>> = BTreeMap::new();
    for ((rail, _), rate) in &best {
        by_rail.entry(*rail).or_default().push(*rate);
    }
    Reference {
        rails: by_rail
            .into_iter()
            .map(|(rail, rates)| (rail, quantile(rates)))
            .collect(),
        cluster: quantile(best.into_values().collect()),
    }
}

/// The nearest-rank quantile; 0 of nothing.
fn quantile(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    let rank = (rates.len() as f64 * REFERENCE_QUANTILE).ceil() as usize;
    rates.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}
