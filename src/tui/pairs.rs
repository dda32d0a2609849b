//! What is known of each pair of nodes on each rail, brought up to date by what each event changes.

use std::collections::{HashMap, VecDeque};

use super::grid::{Best, Grid};
use crate::judge::expected;
use crate::ledger::{Ledger, Probe};
use crate::model::{Event, Gbps, Outcome, ProbeId, Purpose, Rail};

/// So many probes of a NIC are known as its last ones.
const RECENT: usize = 16;

/// So many probes of a pair are told.
const MOST: usize = 64;

/// So many of the last changes are kept, some rounds of a thousand nodes: who missed more looks at all.
const CHANGES: usize = 32_768;

/// A pair on a rail.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The best that it reached under the conditions of the run.
    pub best: Option<Best>,
    /// Whether the last that was tried of it went wrong.
    pub failed: bool,
    /// Its probes that run now.
    pub busy: u32,
    /// Its last probe.
    pub last: Option<ProbeId>,
}

impl Known {
    /// What of it counts in a block.
    pub(super) fn standing(&self) -> Standing {
        Standing {
            best: self.best,
            failed: self.failed,
            busy: self.busy > 0,
        }
    }
}

/// What of a pair counts in a block.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standing {
    /// The best that it reached.
    pub best: Option<Best>,
    /// Whether it is probed now.
    pub busy: bool,
    failed: bool,
}

impl Standing {
    /// Whether it was tried and never measured.
    pub fn is_failure(&self) -> bool {
        self.failed && self.best.is_none()
    }

    /// The share of what is expected that it reached.
    pub fn share(&self, rail_best: Option<Gbps>) -> Option<f64> {
        self.best?.share(rail_best)
    }
}

/// A pair that stands otherwise than before.
#[derive(Debug, Clone)]
pub struct Change {
    /// Its rail.
    pub rail: Rail,
    /// Sender and receiver by the places of their rows in the grid.
    pub places: Places,
    /// How it stood.
    pub before: Standing,
    /// How it stands.
    pub after: Standing,
}

/// Sender and receiver by the places of their rows in the grid.
pub type Places = (usize, usize);

/// All pairs that were planned.
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    rails: HashMap<Rail, HashMap<Places, Known>>,
    recent: HashMap<(usize, Rail), VecDeque<ProbeId>>,
    now: Vec<(Rail, Places)>,
    /// The probe of the same pair before each that was not its first.
    before: HashMap<ProbeId, ProbeId>,
    changes: VecDeque<Change>,
    /// How many changes came before those.
    forgotten: u64,
}

impl Pairs {
    /// Takes in what an event changed; ledger and grid have it already.
    pub fn learn(&mut self, event: &Event, ledger: &Ledger, grid: &Grid) {
        match event {
            Event::RunStarted { .. } => self.begin_anew(),
            // The ledger forgets probes of NICs that play no more.
            Event::RunResumed { .. } | Event::RailsResolved { .. } => self.rebuild(ledger, grid),
            Event::RoundPlanned { pairs, .. } => {
                self.idle();
                for planned in pairs {
                    if let Some(probe) = ledger.probe(planned.probe) {
                        self.plan(probe, grid, true);
                    }
                }
            }
            Event::ProbeEnded { probe, .. } => {
                if let Some(probe) = ledger.probe(*probe) {
                    self.ended(probe, ledger, grid);
                }
            }
            Event::RunFinished { .. } => self.idle(),
            _ => {}
        }
    }

    fn rebuild(&mut self, ledger: &Ledger, grid: &Grid) {
        self.begin_anew();
        for probe in ledger.probes() {
            self.plan(probe, grid, false);
            self.ended(probe, ledger, grid);
        }
    }

    /// Whoever saw what was here has seen nothing.
    fn begin_anew(&mut self) {
        let forgotten = self.version() + 1;
        *self = Self {
            forgotten,
            ..Self::default()
        };
    }

    /// Nothing is probed now.
    fn idle(&mut self) {
        for (rail, places) in std::mem::take(&mut self.now) {
            self.change(rail, places, |known| known.busy = 0);
        }
    }

    /// Changes what is known of a pair that was planned.
    fn change(&mut self, rail: Rail, places: Places, change: impl FnOnce(&mut Known)) {
        let known = self.rails.get_mut(&rail);
        let Some(known) = known.and_then(|rail| rail.get_mut(&places)) else {
            return;
        };
        let before = known.standing();
        change(known);
        let after = known.standing();
        if self.changes.len() == CHANGES {
            self.changes.pop_front();
            self.forgotten += 1;
        }
        self.changes.push_back(Change {
            rail,
            places,
            before,
            after,
        });
    }

    fn plan(&mut self, probe: &Probe, grid: &Grid, runs: bool) {
        let Some(places) = places(probe, grid) else {
            return;
        };
        let (rail, id) = (probe.planned.pair.rail, probe.planned.probe);
        for place in [places.0, places.1] {
            let recent = self.recent.entry((place, rail)).or_default();
            recent.push_back(id);
            if recent.len() > RECENT {
                recent.pop_front();
            }
        }
        let known = self.rails.entry(rail).or_default();
        let known = known.entry(places).or_default();
        if let Some(last) = known.last.replace(id) {
            self.before.insert(id, last);
        }
        if runs {
            self.change(rail, places, |known| known.busy += 1);
            self.now.push((rail, places));
        }
    }

    fn ended(&mut self, probe: &Probe, ledger: &Ledger, grid: &Grid) {
        let Some(places) = places(probe, grid) else {
            return;
        };
        self.change(probe.planned.pair.rail, places, |known| {
            known.busy = known.busy.saturating_sub(1);
            let purpose = probe.planned.purpose;
            if purpose.isolates() || purpose == Purpose::Cost {
                return;
            }
            if let Some(rate) = probe.rate() {
                known.failed = false;
                if known.best.is_none_or(|best| best.rate < rate) {
                    let expected = expected(ledger, probe).value().copied();
                    known.best = Some(Best { rate, expected });
                }
            } else if probe.was_tried() {
                known.failed = true;
            }
        });
    }

    /// A pair, where it was planned.
    pub fn get(&self, rail: Rail, from: usize, to: usize) -> Option<&Known> {
        self.rails.get(&rail)?.get(&(from, to))
    }

    /// The last probes of a NIC, the newest first.
    pub fn recent(&self, row: usize, rail: Rail) -> impl Iterator<Item = ProbeId> {
        let recent = self.recent.get(&(row, rail));
        recent.into_iter().flatten().rev().copied()
    }

    /// The last probes of a pair, the newest first.
    pub fn probes(&self, known: &Known) -> impl Iterator<Item = ProbeId> {
        let before = |id: &ProbeId| self.before.get(id).copied();
        std::iter::successors(known.last, before).take(MOST)
    }

    /// All pairs of a rail that were planned.
    pub(super) fn of_rail(&self, rail: Rail) -> impl Iterator<Item = (Places, Standing)> {
        let pairs = self.rails.get(&rail).into_iter().flatten();
        pairs.map(|(places, known)| (*places, known.standing()))
    }

    /// Grows with every change.
    pub(super) fn version(&self) -> u64 {
        self.forgotten + self.changes.len() as u64
    }

    /// What changed since a version; `None` where that is not known any more.
    pub(super) fn changes(&self, since: u64) -> Option<impl Iterator<Item = &Change>> {
        let known = usize::try_from(since.checked_sub(self.forgotten)?).ok()?;
        (known <= self.changes.len()).then(|| self.changes.range(known..))
    }
}

fn places(probe: &Probe, grid: &Grid) -> Option<Places> {
    let pair = &probe.planned.pair;
    Some((grid.number(&pair.from.node)?, grid.number(&pair.to.node)?))
}

/// What came of a probe, in a word or with the reason.
pub fn outcome_in_words(probe: &Probe) -> Option<String> {
    match probe.outcome.as_ref()? {
        Outcome::Measured { .. } => None,
        Outcome::Failed { stage, node, why } => {
            let at = node.as_ref().map(|node| format!("{node}: "));
            Some(format!("failed: {}{stage}: {why}", at.unwrap_or_default()))
        }
        Outcome::NotRun { why } => Some(format!("not run: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{events, probed};

    fn learned(events: &[Event]) -> (Pairs, Grid) {
        let (mut ledger, mut grid) = (Ledger::default(), Grid::default());
        let mut pairs = Pairs::default();
        for event in events {
            ledger.apply(event);
            grid.learn(event, &ledger);
            pairs.learn(event, &ledger, &grid);
        }
        (pairs, grid)
    }

    #[test]
    fn a_pair_is_busy_until_its_probe_ends() {
        let mut run = events(2, 1, &|_, _, _| Some(391.0));
        let planned = run
            .iter()
            .position(|e| matches!(e, Event::RoundPlanned { .. }));
        run.truncate(planned.unwrap() + 1);
        let busy = |run: &[Event]| learned(run).0.get(Rail(0), 0, 1).unwrap().busy;
        assert_eq!(busy(&run), 1);
        run.push(Event::RunFinished {
            end: crate::model::RunEnd::Interrupted,
        });
        assert_eq!(busy(&run), 0);
    }

    #[test]
    fn rails_that_are_resolved_again_keep_what_the_ledger_keeps() {
        let mut run = events(3, 1, &|_, _, _| Some(391.0));
        let again = run
            .iter()
            .find(|e| matches!(e, Event::RailsResolved { .. }));
        run.push(again.unwrap().clone());
        let (pairs, _) = learned(&run);
        let known = pairs.get(Rail(0), 0, 1).unwrap();
        assert_eq!(pairs.probes(known).count(), 1);
        assert_eq!(pairs.recent(0, Rail(0)).count(), 4);
    }

    #[test]
    fn the_probes_of_a_pair_are_told_in_order_whatever_their_numbers() {
        let mut run = events(2, 1, &|_, _, _| Some(391.0));
        let end = run.len() - 1;
        let pair = run.iter().find_map(|event| match event {
            Event::RoundPlanned { pairs, .. } => Some(pairs[0].pair.clone()),
            _ => None,
        });
        // The last has the number of the first again.
        let again = [9, 7, 0].map(ProbeId).into_iter();
        let again = again.flat_map(|id| probed(id, pair.clone().unwrap(), Some(1.0)));
        run.splice(end..end, again.collect::<Vec<_>>());
        let (pairs, _) = learned(&run);
        let known = pairs.get(Rail(0), 0, 1).unwrap();
        let told: Vec<u64> = pairs.probes(known).map(|id| id.0).collect();
        assert_eq!(told[..3], [0, 7, 9]);
        assert_eq!(told.len(), MOST);
    }
}
