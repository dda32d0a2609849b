//! What is known of each pair of nodes on each rail, brought up to date by what each event changes, and
//! what that adds up to in blocks.

use std::collections::{HashMap, VecDeque};

use super::grid::{Best, Grid};
use crate::judge::expected;
use crate::ledger::{Ledger, Probe};
use crate::model::{Event, Gbps, Outcome, ProbeId, Purpose, Rail};

/// So many probes of a NIC are known as its last ones.
const RECENT: usize = 16;

/// A pair on a rail.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The best that it reached under the conditions of the run.
    pub best: Option<Best>,
    /// Whether the last that was tried of it went wrong.
    pub failed: bool,
    /// Its probes that run now.
    pub busy: u32,
    /// All its probes, in order.
    pub probes: Vec<ProbeId>,
}

/// What the pairs of a block add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Block {
    /// The lowest share of what is expected that one of them reached.
    pub share: Option<f64>,
    /// Those that were measured.
    pub measured: usize,
    /// Those that were tried and never measured.
    pub failed: usize,
    /// Those that are probed now.
    pub busy: usize,
}

/// Sender and receiver by the places of their rows in the grid.
type Places = (usize, usize);

/// All pairs that were planned.
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    rails: HashMap<Rail, HashMap<Places, Known>>,
    recent: HashMap<(usize, Rail), VecDeque<ProbeId>>,
    now: Vec<(Rail, Places)>,
}

impl Pairs {
    /// Takes in what an event changed; ledger and grid have it already.
    pub fn learn(&mut self, event: &Event, ledger: &Ledger, grid: &Grid) {
        match event {
            Event::RunStarted { .. } => *self = Self::default(),
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
        *self = Self::default();
        for probe in ledger.probes() {
            self.plan(probe, grid, false);
            self.ended(probe, ledger, grid);
        }
    }

    /// Nothing is probed now.
    fn idle(&mut self) {
        for (rail, places) in std::mem::take(&mut self.now) {
            if let Some(known) = self.known_mut(rail, places) {
                known.busy = 0;
            }
        }
    }

    fn known_mut(&mut self, rail: Rail, places: Places) -> Option<&mut Known> {
        self.rails.get_mut(&rail)?.get_mut(&places)
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
        known.probes.push(id);
        if runs {
            known.busy += 1;
            self.now.push((rail, places));
        }
    }

    fn ended(&mut self, probe: &Probe, ledger: &Ledger, grid: &Grid) {
        let rail = probe.planned.pair.rail;
        let known = places(probe, grid).and_then(|places| self.known_mut(rail, places));
        let Some(known) = known else { return };
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

    /// The blocks of a rail: so many nodes down and across of those in `axis`, row after row.
    pub fn blocks(
        &self,
        rail: Rail,
        axis: &[usize],
        per: (usize, usize),
        rail_best: Option<Gbps>,
    ) -> Vec<Block> {
        let (down, across) = (axis.len().div_ceil(per.0), axis.len().div_ceil(per.1));
        let mut blocks = vec![Block::default(); down * across];
        let rows = axis.iter().max().map_or(0, |row| row + 1);
        let mut places = vec![None; rows];
        for (place, row) in axis.iter().enumerate() {
            places[*row] = Some(place);
        }
        let place = |row: usize| places.get(row).copied().flatten();
        for ((from, to), known) in self.rails.get(&rail).into_iter().flatten() {
            if let (Some(from), Some(to)) = (place(*from), place(*to)) {
                blocks[from / per.0 * across + to / per.1].add(known, rail_best);
            }
        }
        blocks
    }
}

impl Block {
    fn add(&mut self, known: &Known, rail_best: Option<Gbps>) {
        self.busy += usize::from(known.busy > 0);
        self.measured += usize::from(known.best.is_some());
        self.failed += usize::from(known.failed && known.best.is_none());
        let share = known.best.and_then(|best| best.share(rail_best));
        self.share = match (self.share, share) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        };
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
    use crate::ledger::testing::events;

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
    fn a_block_has_the_worst_of_its_pairs() {
        let run = events(6, 1, &|i, j, _| match (i, j) {
            (0, 3) => Some(195.0),
            (4, 1) => None,
            _ => Some(391.0),
        });
        let (pairs, _) = learned(&run);
        let axis: Vec<usize> = (0..6).collect();
        let blocks = pairs.blocks(Rail(0), &axis, (2, 3), None);
        assert_eq!(blocks.len(), 3 * 2);
        let low = blocks[1];
        assert_eq!((low.measured, low.failed), (6, 0));
        assert!((low.share.unwrap() - 0.497).abs() < 0.01, "{low:?}");
        assert_eq!((blocks[4].measured, blocks[4].failed), (5, 1));
        // Of what is filtered out nothing is told.
        let some = pairs.blocks(Rail(0), &[0, 1], (1, 1), None);
        assert_eq!(some.iter().map(|block| block.measured).sum::<usize>(), 2);
        assert!(pairs.blocks(Rail(9), &[], (1, 1), None).is_empty());
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
        assert_eq!(pairs.get(Rail(0), 0, 1).unwrap().probes.len(), 1);
        assert_eq!(pairs.recent(0, Rail(0)).count(), 4);
    }
}
