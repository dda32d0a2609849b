//! Measured rates as shares of what was expected, and what the cluster itself shows to be possible.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cast::Cast;
use super::expectations::Expectations;
use crate::ledger::{Brief, Ledger, Probe};
use crate::model::{Direction, Fact, Gbps, Pair, Purpose, Rail};

/// The share of NICs whose best rate counts as what a rail can do is one tenth. The median is not
/// good enough: where 40 % of a rail is bad it is bad itself.
const REFERENCE_QUANTILE: f64 = 0.9;

/// A rail whose reference is below this share of the cluster's is judged by the cluster's.
const RAIL_OF_CLUSTER: f64 = 0.9;

/// What one pair reached in one round.
#[derive(Debug, Clone)]
pub struct Observation<'a> {
    /// The pair.
    pub pair: &'a Pair,
    /// The numbers of its sender and its receiver in the cast.
    pub ends: [usize; 2],
    /// Its best probe in the round.
    pub probe: &'a Probe,
    /// Why that was made.
    pub purpose: Purpose,
    /// The round.
    pub round: u32,
    /// The rail of the pair.
    pub rail: Rail,
    /// The probes of it in the round that measured something.
    pub samples: usize,
    /// The best rate.
    pub rate: Gbps,
    /// What its links can carry.
    pub expected: Arc<Fact<Gbps>>,
    /// `rate` as a share of the expected rate; where that is unknown, of the reference.
    pub ratio: f64,
    /// `rate` as a share of what the best NICs reach: those of the rail, or those of the cluster
    /// where the rail falls behind it.
    pub relative: f64,
    /// `rate` as a share of what the best NICs of the rail reach, whatever the cluster does.
    pub within_rail: f64,
    /// Whether every NIC of the sender's and of the receiver's node was measured in that round.
    pub loaded: [bool; 2],
}

impl Observation<'_> {
    /// The worse of the two ways to look at it: the link's own ceiling, and what the others reach.
    pub fn share(&self) -> f64 {
        self.ratio.min(self.relative)
    }

    /// The number of the NIC that is its end in a direction.
    pub fn end(&self, direction: Direction) -> usize {
        self.ends[side(direction)]
    }
}

/// The place of a direction in arrays of two: the sender first.
pub(super) fn side(direction: Direction) -> usize {
    match direction {
        Direction::Tx => 0,
        Direction::Rx => 1,
    }
}

/// Everything that a run measured.
#[derive(Debug, Default)]
pub struct Observed<'a> {
    /// The NICs.
    pub cast: Cast<'a>,
    /// What was measured under the conditions of the run, in the order of rail, sender, receiver and round.
    pub usual: Vec<Observation<'a>>,
    /// What was measured to tell causes apart, in the same order.
    pub isolating: Vec<Observation<'a>>,
    /// What was measured between leaf groups under full load, in the same order: it says nothing of NICs.
    pub fabric: Vec<Observation<'a>>,
    /// The places of the usual observations in the order of their receivers.
    by_receiver: Vec<usize>,
    /// Those of the isolating ones.
    isolating_by_receiver: Vec<usize>,
}

impl<'a> Observed<'a> {
    /// Of each pair the best of the usual observations.
    pub fn best_of_pairs(&self) -> Vec<&Observation<'a>> {
        let pairs = self.usual.chunk_by(|a, b| a.ends == b.ends);
        let best = |seen: &'_ [Observation<'a>]| {
            let better = |a: &usize, b: &usize| seen[*a].rate.0.total_cmp(&seen[*b].rate.0);
            (0..seen.len()).max_by(better)
        };
        pairs.filter_map(|seen| seen.get(best(seen)?)).collect()
    }

    /// The usual observations of a NIC in a direction.
    pub fn of_end(&self, number: usize, direction: Direction) -> Vec<&Observation<'a>> {
        of_end(&self.usual, &self.by_receiver, number, direction)
    }

    /// The isolating observations of a NIC in a direction.
    pub fn isolating_of_end(
        &self,
        number: usize,
        direction: Direction,
    ) -> impl Iterator<Item = &Observation<'a>> {
        let by_receiver = &self.isolating_by_receiver;
        of_end(&self.isolating, by_receiver, number, direction).into_iter()
    }
}

/// Those of an end, of observations in the order of their senders.
fn of_end<'o, 'a>(
    all: &'o [Observation<'a>],
    by_receiver: &[usize],
    number: usize,
    direction: Direction,
) -> Vec<&'o Observation<'a>> {
    match direction {
        Direction::Tx => {
            let from = all.partition_point(|seen| seen.ends[0] < number);
            let mine = all[from..].iter();
            mine.take_while(|seen| seen.ends[0] == number).collect()
        }
        Direction::Rx => {
            let receiver = |at: &usize| all[*at].ends[1];
            let from = by_receiver.partition_point(|at| receiver(at) < number);
            let mine = by_receiver[from..].iter();
            let mine = mine.take_while(|at| receiver(at) == number);
            mine.map(|at| &all[*at]).collect()
        }
    }
}

/// The places of observations in the order of their receivers.
fn by_receiver(all: &[Observation<'_>], parts: usize) -> Vec<usize> {
    // Each is counted, then put where those of the receivers before it end.
    let mut next = vec![0usize; parts + 1];
    for seen in all {
        next[seen.ends[1] + 1] += 1;
    }
    for at in 1..next.len() {
        next[at] += next[at - 1];
    }
    let mut places = vec![0; all.len()];
    for (at, seen) in all.iter().enumerate() {
        let next = &mut next[seen.ends[1]];
        places[*next] = at;
        *next += 1;
    }
    places
}

/// Everything measured.
pub fn observe(ledger: &Ledger) -> Observed<'_> {
    let cast = Cast::of(ledger);
    let mut usual = by_round(ledger, &cast);
    let unit = Unit::of(&usual);
    let mut others: Vec<_> = usual
        .extract_if(.., |seen| !seen.purpose.is_usual())
        .collect();
    let isolating: Vec<_> = others
        .extract_if(.., |seen| seen.purpose.isolates())
        .collect();
    load(&cast, &mut usual);
    let reference = reference(&cast, &usual, unit);
    let parts = cast.parts.len();
    let mut observed = Observed {
        by_receiver: by_receiver(&usual, parts),
        isolating_by_receiver: by_receiver(&isolating, parts),
        cast,
        usual,
        isolating,
        fabric: others,
    };
    let usual = observed.usual.iter_mut();
    for seen in usual
        .chain(&mut observed.isolating)
        .chain(&mut observed.fabric)
    {
        reference.compare(seen, unit);
    }
    observed
}

/// A probe that measured something, before those of a pair and a round are put together.
struct Measured<'a> {
    brief: &'a Brief,
    probe: &'a Probe,
    rate: Gbps,
    ends: [usize; 2],
    expected: usize,
}

impl Measured<'_> {
    /// Sorts by sender, receiver and round; of equal ones the first counts.
    fn key(&self, at: usize) -> u128 {
        let [from, to] = self.ends.map(|end| end as u128);
        from << 96 | to << 64 | u128::from(self.brief.round) << 32 | at as u128
    }
}

/// The best of each pair in each round, in the order of rail, sender, receiver and round.
fn by_round<'a>(ledger: &'a Ledger, cast: &Cast<'a>) -> Vec<Observation<'a>> {
    let mut expectations = Expectations::default();
    // What moving data costs is measured under conditions of its own.
    let all = ledger.in_brief();
    let all = all.filter(|(brief, _)| brief.purpose != Purpose::Cost);
    let measured = all.filter_map(|(brief, probe)| {
        let (rate, ends) = (brief.rate?, cast.ends(brief)?);
        let expected = expectations.place(cast, ends, brief, probe);
        Some(Measured {
            brief,
            probe,
            rate,
            ends,
            expected,
        })
    });
    let measured: Vec<Measured<'_>> = measured.collect();
    let keys = measured.iter().enumerate();
    let mut keys: Vec<u128> = keys.map(|(at, measured)| measured.key(at)).collect();
    keys.sort_unstable();
    let mut all: Vec<Observation<'a>> = Vec::with_capacity(measured.len());
    for key in keys {
        let Measured {
            brief,
            probe,
            rate,
            ends,
            expected,
        } = measured[key as u32 as usize];
        let round = (key >> 32) as u32;
        if let Some(seen) = all.last_mut()
            && (seen.ends, seen.round) == (ends, round)
        {
            seen.samples += 1;
            if rate > seen.rate {
                (seen.rate, seen.probe, seen.purpose) = (rate, probe, brief.purpose);
            }
            continue;
        }
        all.push(Observation {
            pair: &probe.planned.pair,
            ends,
            probe,
            purpose: brief.purpose,
            round,
            rail: brief.rail,
            samples: 1,
            rate,
            expected: Arc::clone(&expectations.all[expected]),
            ratio: 0.0,
            relative: 0.0,
            within_rail: 0.0,
            loaded: [false; 2],
        });
    }
    all
}

/// Which observations were made while every NIC of a node was busy. NICs that never gave a rate are
/// none that could have been.
fn load(cast: &Cast<'_>, usual: &mut [Observation<'_>]) {
    let mut measured = vec![[false; 2]; cast.parts.len()];
    let mut rounds: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, seen) in usual.iter().enumerate() {
        rounds.entry(seen.round).or_default().push(at);
        for (way, number) in seen.ends.into_iter().enumerate() {
            measured[number][way] = true;
        }
    }
    let mut whole = vec![[0u16; 2]; cast.nodes()];
    for (part, measured) in cast.parts.iter().zip(&measured) {
        for way in 0..2 {
            whole[part.node][way] += u16::from(measured[way]);
        }
    }
    let mut busy = vec![[0u16; 2]; cast.nodes()];
    for places in rounds.values() {
        let nodes = |seen: &Observation<'_>| seen.ends.map(|number| cast.parts[number].node);
        for at in places {
            for (way, node) in nodes(&usual[*at]).into_iter().enumerate() {
                busy[node][way] += 1;
            }
        }
        for at in places {
            let seen = &mut usual[*at];
            for (way, node) in nodes(seen).into_iter().enumerate() {
                let (busy, whole) = (busy[node], whole[node]);
                // A round that loads one direction only loads the other at none of the node's NICs.
                let other = 1 - way;
                let other_is_whole = busy[other] == 0 || busy[other] >= whole[other];
                seen.loaded[way] = busy[way] >= whole[way] && other_is_whole;
            }
        }
        for at in places {
            nodes(&usual[*at])
                .into_iter()
                .for_each(|node| busy[node] = [0; 2]);
        }
    }
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

    fn compare(&self, seen: &mut Observation<'_>, unit: Unit) {
        let rail = seen.rail;
        seen.relative = share(unit.rate(seen), self.of(rail));
        let within = self.rails.get(&rail).copied().unwrap_or(0.0);
        seen.within_rail = share(unit.rate(seen), within);
        let expected = seen.expected.value();
        let absolute = expected.and_then(|expected| seen.rate.share_of(*expected));
        seen.ratio = absolute.unwrap_or(seen.relative);
    }
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

fn reference(cast: &Cast<'_>, usual: &[Observation<'_>], unit: Unit) -> Reference {
    let mut best: Vec<Option<f64>> = vec![None; cast.parts.len()];
    for seen in usual {
        let rate = unit.rate(seen);
        for number in seen.ends {
            best[number] = Some(best[number].map_or(rate, |best| best.max(rate)));
        }
    }
    let mut by_rail: BTreeMap<Rail, Vec<f64>> = BTreeMap::new();
    for (part, best) in cast.parts.iter().zip(&best) {
        by_rail.entry(part.rail).or_default().extend(best);
    }
    Reference {
        cluster: quantile(best.into_iter().flatten().collect()),
        rails: by_rail
            .into_iter()
            .map(|(rail, rates)| (rail, quantile(rates)))
            .collect(),
    }
}

/// The nearest-rank quantile; 0 of nothing.
fn quantile(mut rates: Vec<f64>) -> f64 {
    let rank = (rates.len() as f64 * REFERENCE_QUANTILE).ceil() as usize;
    let rank = rank.saturating_sub(1);
    if rank >= rates.len() {
        return 0.0;
    }
    *rates.select_nth_unstable_by(rank, f64::total_cmp).1
}
