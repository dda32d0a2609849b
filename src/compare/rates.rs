//! What NICs reached in both runs: the middle of their probes with healthy partners, held against how far
//! rates scatter by chance.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::{self, Middles, RateGroup};
use super::presence::Seen;
use super::spread::Spread;
use super::{Gap, Place, Trend};
use crate::judge::{EndReached, Reached, Sample};
use crate::model::{Direction, End, NicId, NodeName, Pair, Rail};

/// What became of the rates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rates {
    /// What all rates did together, and from where on one of them counts.
    pub spread: Spread,
    /// How many directions of NICs were compared.
    pub compared: usize,
    /// How many there are in either run, of nodes that both have.
    pub of: usize,
    /// Those that changed, as large a part of the cluster at once as changed alike.
    pub groups: Vec<RateGroup>,
    /// Pairs that changed, where none of the two ends can be named.
    pub pairs: Vec<PairChange>,
}

/// A direction of a NIC that is faster or slower than before.
#[derive(Debug, Clone, PartialEq)]
pub struct RateChange {
    /// Which, as the second run calls it.
    pub end: End,
    /// What was measured of it in the first run.
    pub before: Sample,
    /// In the second.
    pub after: Sample,
}

/// A pair that is faster or slower than before.
#[derive(Debug, Clone, PartialEq)]
pub struct PairChange {
    /// Which.
    pub pair: Pair,
    /// What was measured of it in the first run.
    pub before: Sample,
    /// In the second.
    pub after: Sample,
}

impl RateChange {
    /// Worse where it is slower.
    pub fn trend(&self) -> Trend {
        trend(&self.before, &self.after)
    }
}

impl PairChange {
    /// Worse where it is slower.
    pub fn trend(&self) -> Trend {
        trend(&self.before, &self.after)
    }
}

fn trend(before: &Sample, after: &Sample) -> Trend {
    Trend::of(before.median().0, after.median().0)
}

/// So many probes of the slower run make a change: one that is slow may be chance.
const PROOF: usize = 2;

type Key<'a> = (Rail, &'a NodeName, Direction);

/// An end as both runs have it.
struct Both<'a> {
    end: &'a End,
    before: &'a Sample,
    after: &'a Sample,
}

impl Both<'_> {
    fn distance(&self) -> f64 {
        distance(self.before, self.after)
    }
}

/// ln(after / before), of the middles.
fn distance(before: &Sample, after: &Sample) -> f64 {
    (after.median().0 / before.median().0).ln()
}

pub(super) fn rates(measured: &[Reached; 2], seen: &Seen, gaps: &mut Vec<Gap>) -> Rates {
    let [before, after] = measured;
    let (then, now) = (by_key(before, seen), by_key(after, seen));
    let keys: BTreeSet<Key<'_>> = then.keys().chain(now.keys()).copied().collect();
    let mut both = Vec::new();
    for key in &keys {
        // A NIC that only one of them has is told as that.
        let (Some(then), Some(now)) = (then.get(key), now.get(key)) else {
            continue;
        };
        match (&then.sample, &now.sample) {
            (Ok(before), Ok(after)) => both.push(Both {
                end: &now.end,
                before,
                after,
            }),
            (Err(_), Err(_)) | (Ok(_), Err(_)) | (Err(_), Ok(_)) => {
                gaps.extend(unmeasured(then, now));
            }
        }
    }
    let pairs = common_pairs(before, after, seen);
    let d: Vec<f64> = match both.is_empty() {
        true => pairs.iter().map(|(_, a, b)| distance(a, b)).collect(),
        false => both.iter().map(Both::distance).collect(),
    };
    let spread = Spread::of(&d, within(&both));
    let changes = changed(&both, &spread, gaps);
    let known: BTreeSet<Key<'_>> = both.iter().map(|both| key(both.end)).collect();
    let pairs = changed_pairs(pairs, &spread, &known);
    Rates {
        spread,
        compared: both.len(),
        of: keys.len(),
        groups: groups::rates(changes, &middles(&both), &spread),
        pairs,
    }
}

fn key(end: &End) -> Key<'_> {
    (end.rail, &end.nic.node, end.direction)
}

fn middles<'a>(both: &[Both<'a>]) -> Vec<Middles<'a>> {
    let middles = |both: &Both<'a>| Middles {
        end: both.end,
        before: both.before.median(),
        after: both.after.median(),
    };
    both.iter().map(middles).collect()
}

/// Ends by the place that they have on their node: a device may be called otherwise by now.
fn by_key<'a>(reached: &'a Reached, seen: &Seen) -> BTreeMap<Key<'a>, &'a EndReached> {
    let ends = reached.ends.iter();
    let ends = ends.filter(|reached| seen.both.contains(&reached.end.nic.node));
    ends.map(|reached| (key(&reached.end), reached)).collect()
}

/// Why an end cannot be compared. One that neither run measured is none of the difference between them.
fn unmeasured(then: &EndReached, now: &EndReached) -> Option<Gap> {
    let (why, matters) = match (&then.sample, &now.sample) {
        (Ok(_), Err(why)) => (why.in_words("after"), true),
        (Err(why), Ok(_)) => (why.in_words("before"), true),
        (Err(then), Err(now)) if then == now => (now.in_words("before and after"), false),
        (Err(then), Err(now)) => {
            let both = [then.in_words("before"), now.in_words("after")];
            (both.join("; "), false)
        }
        (Ok(_), Ok(_)) => return None,
    };
    let End {
        rail,
        nic,
        direction,
    } = now.end.clone();
    Some(Gap {
        what: "rate".into(),
        place: Place::End(rail, nic, direction),
        why,
        matters,
    })
}

/// Distances of single rates from the middle of those of their end, in one run.
fn within(both: &[Both<'_>]) -> Vec<f64> {
    let samples = both.iter().flat_map(|both| [both.before, both.after]);
    let several = samples.filter(|sample| sample.rates.len() > 1);
    several
        .flat_map(|sample| {
            let middle = (sample.rates.len() - 1) / 2;
            let others = sample.rates.iter().enumerate();
            let others = others.filter(move |(at, _)| *at != middle);
            let median = sample.median().0;
            others.map(move |(_, rate)| (rate.0 / median).ln().abs())
        })
        .collect()
}

/// A change shows in the middle and in the best: of few probes two may be slow by chance.
fn counts(before: &Sample, after: &Sample, spread: &Spread) -> bool {
    let middles = distance(before, after);
    let bests = (after.best().0 / before.best().0).ln();
    spread.stands_out(middles) && spread.stands_out(bests) && (middles < 0.0) == (bests < 0.0)
}

/// How many probes the slower of both rests on.
fn proof(before: &Sample, after: &Sample) -> usize {
    match trend(before, after) {
        Trend::Worse => after.probes,
        _ => before.probes,
    }
}

fn changed(both: &[Both<'_>], spread: &Spread, gaps: &mut Vec<Gap>) -> Vec<RateChange> {
    let mut changes = Vec::new();
    for Both { end, before, after } in both {
        if !counts(before, after, spread) {
            continue;
        }
        if proof(before, after) >= PROOF {
            changes.push(RateChange {
                end: (*end).clone(),
                before: (*before).clone(),
                after: (*after).clone(),
            });
            continue;
        }
        let (rates, is_worse) = (
            (before.median(), after.median()),
            after.median() < before.median(),
        );
        gaps.push(Gap {
            what: "rate".into(),
            place: Place::End(end.rail, end.nic.clone(), end.direction),
            why: format!(
                "the slower run has only one probe of it, which may be chance: {} before, {} after",
                rates.0, rates.1
            ),
            matters: is_worse,
        });
    }
    changes
}

/// Pairs that both runs measured, of nodes that both have.
fn common_pairs<'a>(
    before: &'a Reached,
    after: &'a Reached,
    seen: &Seen,
) -> Vec<(&'a Pair, &'a Sample, &'a Sample)> {
    fn key(pair: &Pair) -> (Rail, &NodeName, &NodeName) {
        (pair.rail, &pair.from.node, &pair.to.node)
    }
    let then: BTreeMap<_, _> = before
        .pairs
        .iter()
        .map(|(pair, s)| (key(pair), s))
        .collect();
    let has = |nic: &NicId| seen.both.contains(&nic.node);
    let now = after.pairs.iter();
    let now = now.filter(|(pair, _)| has(&pair.from) && has(&pair.to));
    now.filter_map(|(pair, after)| Some((pair, *then.get(&key(pair))?, after)))
        .collect()
}

/// Pairs that changed and neither of whose ends has a rate of its own: where one has, that tells of it.
fn changed_pairs(
    pairs: Vec<(&Pair, &Sample, &Sample)>,
    spread: &Spread,
    measured: &BTreeSet<Key<'_>>,
) -> Vec<PairChange> {
    let is_open = |pair: &Pair| {
        let ends = [End::sender(pair), End::receiver(pair)];
        ends.iter().all(|end| !measured.contains(&key(end)))
    };
    let changed = pairs.into_iter().filter(|(pair, before, after)| {
        counts(before, after, spread) && proof(before, after) >= PROOF && is_open(pair)
    });
    changed
        .map(|(pair, before, after)| PairChange {
            pair: pair.clone(),
            before: before.clone(),
            after: after.clone(),
        })
        .collect()
}
