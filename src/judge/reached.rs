//! What each NIC reached each way with partners that are proved good, and each pair: what runs are
//! compared by.

use std::collections::HashMap;

use super::cast::Part;
use super::localise::{Localised, localise};
use super::observe::{Observation, Observed, observe};
use crate::ledger::Ledger;
use crate::model::{Direction, End, Gbps, Outcome, Pair, Standing};

/// Why it is not known what an end reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoRate {
    /// It was measured only with partners that may be slow themselves.
    NoPartner,
    /// Nothing was measured, for the reason that one of its probes gave.
    Nothing(Option<String>),
}

impl NoRate {
    /// In words; `when` says of which run, to follow a verb.
    pub fn in_words(&self, when: &str) -> String {
        match self {
            Self::NoPartner => format!("none of its partners is proved good {when}"),
            Self::Nothing(None) => format!("nothing was measured {when}"),
            Self::Nothing(Some(why)) => format!("nothing was measured {when}: {why}"),
        }
    }
}

/// What was measured of one thing, in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The rates, fastest first, at least one: of each partner and round the best.
    pub rates: Vec<Gbps>,
    /// How many probes measured them.
    pub probes: usize,
}

impl Sample {
    /// The middle of the rates; of an even number the faster of the two, for chance slows a probe
    /// and nothing makes it faster than its link.
    pub fn median(&self) -> Gbps {
        let middle = self.rates.len().saturating_sub(1) / 2;
        self.rates.get(middle).copied().unwrap_or(Gbps(0.0))
    }

    /// The fastest.
    pub fn best(&self) -> Gbps {
        self.rates.first().copied().unwrap_or(Gbps(0.0))
    }

    fn of<'o>(seen: impl Iterator<Item = &'o Observation<'o>>) -> Option<Self> {
        let (mut rates, mut probes) = (Vec::new(), 0);
        for seen in seen.filter(|seen| seen.rate.is_positive()) {
            rates.push(seen.rate);
            probes += seen.samples;
        }
        rates.sort_by(|a, b| b.0.total_cmp(&a.0));
        (!rates.is_empty()).then_some(Self { rates, probes })
    }
}

/// One direction of a NIC that plays a rail.
#[derive(Debug, Clone, PartialEq)]
pub struct EndReached {
    /// Which.
    pub end: End,
    /// What it reached with partners that are proved good and whose links are wide enough to show
    /// it, or why that is not known.
    pub sample: Result<Sample, NoRate>,
}

/// What a run measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reached {
    /// By rail, node and direction.
    pub ends: Vec<EndReached>,
    /// Pairs of which something was measured, by rail, sender and receiver.
    pub pairs: Vec<(Pair, Sample)>,
}

/// What a run measured under its own conditions: probes that tell causes apart do not count.
pub fn reached(ledger: &Ledger) -> Reached {
    let Some(settings) = ledger.settings() else {
        return Reached::default();
    };
    let observed = observe(ledger);
    let localised = localise(&observed, settings);
    let failures = failures(ledger, &observed);
    // Those that play no rail any more come after those that do.
    let players = ledger.players().count();
    let players = observed.cast.parts.iter().enumerate().take(players);
    let ends = players.flat_map(|(number, part)| {
        let of = |direction| of_end(&observed, &localised, &failures, (number, part), direction);
        [Direction::Tx, Direction::Rx].map(of)
    });
    let pairs = observed.usual.chunk_by(|a, b| a.ends == b.ends);
    let pairs = pairs.filter_map(|seen| {
        let pair = seen.first()?.pair.clone();
        Some((pair, Sample::of(seen.iter())?))
    });
    Reached {
        ends: ends.collect(),
        pairs: pairs.collect(),
    }
}

fn of_end(
    observed: &Observed<'_>,
    localised: &Localised<'_>,
    failures: &HashMap<usize, String>,
    (number, part): (usize, &Part<'_>),
    direction: Direction,
) -> EndReached {
    let other = match direction {
        Direction::Tx => Direction::Rx,
        Direction::Rx => Direction::Tx,
    };
    let all = observed.of_end(number, direction);
    let shows = |seen: &&&Observation<'_>| {
        let partner = seen.end(other);
        localised.standing(partner, other) == Standing::Good
            && observed.cast.is_shown(number, partner)
    };
    let sample = Sample::of(all.iter().filter(shows).copied());
    let why = || match all.is_empty() {
        false => NoRate::NoPartner,
        true => NoRate::Nothing(failures.get(&number).cloned()),
    };
    EndReached {
        end: End {
            rail: part.rail,
            nic: part.nic.clone(),
            direction,
        },
        sample: sample.ok_or_else(why),
    }
}

/// Why probes of NICs gave nothing, by the number of the NIC: the first reason that there is.
fn failures(ledger: &Ledger, observed: &Observed<'_>) -> HashMap<usize, String> {
    let mut failures = HashMap::new();
    for probe in ledger.unclean() {
        let why = match &probe.outcome {
            Some(Outcome::Failed { why, .. } | Outcome::NotRun { why }) => why,
            _ => continue,
        };
        let pair = &probe.planned.pair;
        let numbers = [&pair.from, &pair.to].map(|nic| observed.cast.number(nic));
        for number in numbers.into_iter().flatten() {
            failures.entry(number).or_insert_with(|| why.clone());
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{events, ledger};

    const FULL: f64 = 391.0;

    #[test]
    fn a_slow_partner_takes_nothing_from_a_healthy_nic() {
        let rate = |i, j, _| {
            Some(if (i, j) == (0, 1) {
                0.5 * FULL
            } else {
                FULL - j as f64
            })
        };
        let healthy = reached(&ledger(&events(4, 1, &rate)));
        assert_eq!((healthy.ends.len(), healthy.pairs.len()), (8, 12));
        let slow = |i, _, _| Some(if i == 2 { 0.5 * FULL } else { FULL });
        let reached = reached(&ledger(&events(4, 1, &slow)));
        for reached in &reached.ends {
            let is_slow =
                &*reached.end.nic.node.0 == "node03" && reached.end.direction == Direction::Tx;
            let sample = reached.sample.as_ref().unwrap();
            let expected = if is_slow { 0.5 * FULL } else { FULL };
            assert!((sample.median().0 - expected).abs() < 0.1, "{reached:?}");
            // The slow one is nobody's partner.
            let receives = reached.end.direction == Direction::Rx;
            let partners = if receives && &*reached.end.nic.node.0 != "node03" {
                2
            } else {
                3
            };
            assert_eq!(sample.rates.len(), partners, "{reached:?}");
        }
    }

    #[test]
    fn what_is_not_known_has_its_reason() {
        let low = |i, _, _| Some(if i == 0 { 0.5 * FULL } else { FULL });
        let two = reached(&ledger(&events(2, 1, &low)));
        let unknown = two.ends.iter().filter_map(|end| end.sample.as_ref().err());
        assert_eq!(unknown.collect::<Vec<_>>(), [&NoRate::NoPartner; 2]);
        assert_eq!(two.pairs.len(), 2);
        let dead = |i, j, _| (i != 0 && j != 0).then_some(FULL);
        let dead = reached(&ledger(&events(3, 1, &dead)));
        let why = dead.ends[0].sample.as_ref().unwrap_err();
        let said = "nothing was measured before: registering 1 MiB failed";
        assert_eq!(why.in_words("before"), said);
        assert_eq!(reached(&Ledger::default()), Reached::default());
    }

    #[test]
    fn of_two_rates_the_faster_is_the_middle() {
        let sample = |rates: &[f64]| Sample {
            rates: rates.iter().copied().map(Gbps).collect(),
            probes: rates.len(),
        };
        assert_eq!(sample(&[3.0, 1.0]).median(), Gbps(3.0));
        assert_eq!(sample(&[3.0, 2.0, 1.0]).median(), Gbps(2.0));
        assert_eq!(sample(&[4.0, 3.0, 2.0, 1.0]).median(), Gbps(3.0));
    }
}
