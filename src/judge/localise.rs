//! Which end is slow. The rate from i to j is at most the smaller of what i sends and j receives, so
//! a slow sender makes every probe of it low, and one probe that is not low clears both its ends.

use std::collections::{BTreeMap, BTreeSet};

use super::Observation;
use crate::model::{End, Expect, NicId, Rail};

/// What the probes of an end say of it. An end that no probe measured has no status at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// At least one probe of it was not low.
    Good,
    /// Every probe of it was low.
    Suspect,
}

/// What localisation found.
#[derive(Debug, Default)]
pub struct Localised<'a> {
    /// Ends that are low with every partner, at least twice, at least once against a partner that is
    /// proved good; each with its observations.
    pub accused: BTreeMap<End, Vec<&'a Observation<'a>>>,
    /// Low pairs of which it cannot be told which end is the cause.
    pub ambiguous: Vec<&'a Observation<'a>>,
    /// Low pairs whose ends are both good with others.
    pub paths: Vec<&'a Observation<'a>>,
    /// Rails on which every pair is low, with the best share of the expected rate that was reached.
    pub low_rails: BTreeMap<Rail, f64>,
    /// The best share of the expected rate that each end was seen at.
    pub best: BTreeMap<End, f64>,
}

/// A rail with fewer NICs than this is not judged as a whole: its pairs are named instead.
const RAIL_NICS: usize = 3;

/// Sorts the low observations to NICs, pairs, paths and rails.
pub fn localise<'a>(observations: &'a [Observation<'a>], expect: &Expect) -> Localised<'a> {
    let low_rails = low_rails(observations, expect);
    // On a rail that is low as a whole only deviants are: the rail is a finding of its own.
    let low = |seen: &Observation<'_>| match low_rails.contains_key(&seen.pair.rail) {
        true => seen.within_rail < expect.degraded_below,
        false => is_low(seen, expect),
    };
    let lows: Vec<&Observation<'_>> = observations.iter().filter(|seen| low(seen)).collect();
    let status = statuses(observations, &low);
    let mut found = Localised {
        accused: accuse(&lows, &status),
        ..Localised::default()
    };
    for seen in lows {
        let ends = [End::sender(seen.pair), End::receiver(seen.pair)];
        if ends.iter().any(|end| found.accused.contains_key(end)) {
            continue;
        }
        let all_good = ends.iter().all(|end| status[end] == Status::Good);
        if all_good {
            found.paths.push(seen)
        } else {
            found.ambiguous.push(seen)
        }
    }
    found.best = best(observations);
    found.low_rails = low_rails;
    found
}

/// Below what its links can carry, or below what others show to be possible.
fn is_low(seen: &Observation<'_>, expect: &Expect) -> bool {
    seen.ratio.min(seen.relative) < expect.degraded_below
}

/// Ends that are low every time, twice or more, and at least once against a proved partner.
fn accuse<'a>(
    lows: &[&'a Observation<'a>],
    status: &BTreeMap<End, Status>,
) -> BTreeMap<End, Vec<&'a Observation<'a>>> {
    let mut mine: BTreeMap<End, Vec<&'a Observation<'a>>> = BTreeMap::new();
    for seen in lows {
        for end in [End::sender(seen.pair), End::receiver(seen.pair)] {
            if status[&end] == Status::Suspect {
                mine.entry(end).or_default().push(seen);
            }
        }
    }
    mine.retain(|end, seen| {
        let samples: usize = seen.iter().map(|seen| seen.samples).sum();
        samples >= 2
            && seen
                .iter()
                .any(|seen| status[&end.partner(seen.pair)] == Status::Good)
    });
    mine
}

/// Rails on which nothing at all is good, with the best share that was reached.
fn low_rails(observations: &[Observation<'_>], expect: &Expect) -> BTreeMap<Rail, f64> {
    let mut rails: BTreeMap<Rail, (f64, BTreeSet<&NicId>)> = BTreeMap::new();
    for seen in observations {
        let (best, nics) = rails.entry(seen.pair.rail).or_default();
        *best = best.max(seen.ratio.min(seen.relative));
        nics.extend([&seen.pair.from, &seen.pair.to]);
    }
    let low = |(best, nics): &(f64, BTreeSet<&NicId>)| {
        *best < expect.degraded_below && nics.len() >= RAIL_NICS
    };
    rails.retain(|_, rail| low(rail));
    rails
        .into_iter()
        .map(|(rail, (best, _))| (rail, best))
        .collect()
}

fn statuses(
    observations: &[Observation<'_>],
    low: &dyn Fn(&Observation<'_>) -> bool,
) -> BTreeMap<End, Status> {
    let mut status = BTreeMap::new();
    for seen in observations {
        for end in [End::sender(seen.pair), End::receiver(seen.pair)] {
            let entry = status.entry(end).or_insert(Status::Suspect);
            if !low(seen) {
                *entry = Status::Good;
            }
        }
    }
    status
}

fn best(observations: &[Observation<'_>]) -> BTreeMap<End, f64> {
    let mut best = BTreeMap::new();
    for seen in observations {
        for end in [End::sender(seen.pair), End::receiver(seen.pair)] {
            let entry = best.entry(end).or_insert(seen.ratio);
            *entry = seen.ratio.max(*entry);
        }
    }
    best
}
