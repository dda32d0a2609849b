//! Which end is slow. The rate from i to j is at most the smaller of what i sends and j receives, so
//! a slow sender makes every probe of it low, and one probe that is not low clears both its ends.

use std::collections::BTreeMap;

use super::cast::Cast;
use super::observe::{Observation, Observed, side};
use crate::model::{Direction, End, Expect, Pattern, Rail, RunSettings, Standing};

/// What localisation found.
#[derive(Debug, Default)]
pub struct Localised<'a> {
    /// Ends that are low with every partner, at least twice, at least once against a partner that is
    /// proved good; each with its low observations.
    pub accused: BTreeMap<End, Vec<&'a Observation<'a>>>,
    /// Low pairs of which it cannot be told which end is the cause: of each the best observation.
    pub ambiguous: Vec<&'a Observation<'a>>,
    /// Pairs that are low every time, whose ends are both good with others: of each the best.
    pub paths: Vec<&'a Observation<'a>>,
    /// What was low once and is not when measured again: the low observations.
    pub passing: Vec<&'a Observation<'a>>,
    /// Rails on which every pair is low, with the best share of the expected rate that was reached.
    pub low_rails: BTreeMap<Rail, f64>,
    ends: Vec<[Tally; 2]>,
}

/// What the observations of an end add up to.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Whether it was low, and whether while all NICs of its node were loaded.
    low: bool,
    low_loaded: bool,
    /// Probes that were low against proved partners; the most of one round.
    proof: usize,
    proof_of_round: usize,
    good: bool,
    good_loaded: bool,
    /// The best share of the expected rate.
    best: Option<f64>,
    accused: bool,
}

impl Tally {
    /// An end that is full only while its node is less loaded than when it was low is not cleared.
    fn standing(&self) -> Standing {
        match (self.good_loaded || self.good && !self.low_loaded, self.low) {
            _ if self.accused => Standing::Accused,
            (true, _) => Standing::Good,
            (false, true) => Standing::Suspect,
            (false, false) => Standing::Unknown,
        }
    }
}

impl Localised<'_> {
    /// What is known of an end of the cast.
    pub fn standing(&self, number: usize, direction: Direction) -> Standing {
        self.tally(number, direction)
            .map_or(Standing::Unknown, Tally::standing)
    }

    /// The best share of the expected rate that an end was seen at.
    pub fn best(&self, number: usize, direction: Direction) -> Option<f64> {
        self.tally(number, direction)?.best
    }

    fn tally(&self, number: usize, direction: Direction) -> Option<&Tally> {
        Some(&self.ends.get(number)?[side(direction)])
    }
}

/// A rail with fewer NICs than this is not judged as a whole: its pairs are named instead.
const RAIL_NICS: usize = 3;

/// So many low probes against proved partners make an accusation …
const PROOF: usize = 2;

/// … and so many where thousands of NICs are measured just twice, unless a round was played twice for
/// it: two may be chance.
const PROOF_OF_FEW: usize = 3;

/// Sorts the low observations to NICs, pairs, paths and rails.
pub fn localise<'a>(observed: &'a Observed<'a>, settings: &RunSettings) -> Localised<'a> {
    let low_rails = low_rails(observed, &settings.expect);
    let low = |seen: &Observation<'_>| is_low(seen, &low_rails, &settings.expect);
    let lows: Vec<(&Observation<'_>, bool)> = observed
        .usual
        .iter()
        .map(|seen| (seen, low(seen)))
        .collect();
    let mut ends = tally(&observed.cast, &lows);
    let few = matches!(settings.sweep.pattern, Pattern::Adaptive | Pattern::Quick);
    accuse(&mut ends, &lows, few);
    let mut found = Localised {
        ends,
        low_rails,
        ..Localised::default()
    };
    found.accused = accused(&observed.cast, &found, &lows);
    for seen in lows.chunk_by(|a, b| a.0.ends == b.0.ends) {
        sort_pair(&mut found, seen);
    }
    found
}

/// Below what its links can carry, or below what others show to be possible. On a rail that is low as
/// a whole only deviants are: the rail is a finding of its own.
pub(super) fn is_low(
    seen: &Observation<'_>,
    low_rails: &BTreeMap<Rail, f64>,
    expect: &Expect,
) -> bool {
    match low_rails.contains_key(&seen.rail) {
        true => seen.within_rail < expect.degraded_below,
        false => seen.share() < expect.degraded_below,
    }
}

fn tally(cast: &Cast<'_>, lows: &[(&Observation<'_>, bool)]) -> Vec<[Tally; 2]> {
    let mut ends = vec![[Tally::default(); 2]; cast.parts.len()];
    for (seen, low) in lows {
        for (way, number) in seen.ends.into_iter().enumerate() {
            let tally = &mut ends[number][way];
            tally.best = Some(tally.best.map_or(seen.ratio, |best| best.max(seen.ratio)));
            if *low {
                tally.low = true;
                tally.low_loaded |= seen.loaded[way];
            } else if cast.is_shown(number, seen.ends[1 - way]) {
                tally.good = true;
                tally.good_loaded |= seen.loaded[way];
            }
        }
    }
    ends
}

/// Suspects that are low often enough against partners that are proved.
fn accuse(ends: &mut [[Tally; 2]], lows: &[(&Observation<'_>, bool)], few: bool) {
    for (seen, _) in lows.iter().filter(|(_, low)| *low) {
        for way in 0..2 {
            let partner = &ends[seen.ends[1 - way]][1 - way];
            if partner.standing() == Standing::Good {
                let mine = &mut ends[seen.ends[way]][way];
                mine.proof += seen.samples;
                mine.proof_of_round = mine.proof_of_round.max(seen.samples);
            }
        }
    }
    for tally in ends.iter_mut().flatten() {
        let sure = !few || tally.proof_of_round >= PROOF || tally.proof >= PROOF_OF_FEW;
        let accused = sure && tally.proof >= PROOF;
        tally.accused = accused && tally.standing() == Standing::Suspect;
    }
}

fn accused<'a>(
    cast: &Cast<'_>,
    found: &Localised<'_>,
    lows: &[(&'a Observation<'a>, bool)],
) -> BTreeMap<End, Vec<&'a Observation<'a>>> {
    let mut accused: BTreeMap<End, Vec<&Observation<'_>>> = BTreeMap::new();
    for (seen, _) in lows.iter().filter(|(_, low)| *low) {
        for direction in [Direction::Tx, Direction::Rx] {
            let number = seen.end(direction);
            if found.standing(number, direction) == Standing::Accused {
                let part = &cast.parts[number];
                let (rail, nic) = (part.rail, part.nic.clone());
                let end = End {
                    rail,
                    nic,
                    direction,
                };
                accused.entry(end).or_default().push(seen);
            }
        }
    }
    accused
}

/// What the observations of one pair say beyond its ends.
fn sort_pair<'a>(found: &mut Localised<'a>, seen: &[(&'a Observation<'a>, bool)]) {
    let lows = seen.iter().filter(|(_, low)| *low).map(|(seen, _)| *seen);
    let best = lows.clone().max_by(|a, b| a.rate.0.total_cmp(&b.rate.0));
    let Some(best) = best else { return };
    let standing = |direction| found.standing(best.end(direction), direction);
    match [standing(Direction::Tx), standing(Direction::Rx)] {
        [Standing::Accused, _] | [_, Standing::Accused] => {}
        [Standing::Good, Standing::Good] if lows.clone().count() < seen.len() => {
            found.passing.extend(lows);
        }
        [Standing::Good, Standing::Good] => found.paths.push(best),
        _ => found.ambiguous.push(best),
    }
}

/// Rails on which nothing at all is good, with the best share that was reached.
fn low_rails(observed: &Observed<'_>, expect: &Expect) -> BTreeMap<Rail, f64> {
    let mut rails: BTreeMap<Rail, f64> = BTreeMap::new();
    let mut measured = vec![false; observed.cast.parts.len()];
    for seen in &observed.usual {
        let best = rails.entry(seen.rail).or_default();
        *best = best.max(seen.share());
        seen.ends
            .into_iter()
            .for_each(|number| measured[number] = true);
    }
    let nics = |rail: Rail| {
        let parts = observed.cast.parts.iter().zip(&measured);
        parts
            .filter(|(part, measured)| **measured && part.rail == rail)
            .count()
    };
    rails.retain(|rail, best| *best < expect.degraded_below && nics(*rail) >= RAIL_NICS);
    rails
}
