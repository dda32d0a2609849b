//! The pairs of a rail in blocks, as a map has them: what changed since they were looked at last is all
//! that is worked out anew.

use std::collections::BTreeSet;

use super::pairs::{Change, Pairs, Standing};
use crate::model::{Gbps, Rail};

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

/// What the blocks are of.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// The rail.
    pub rail: Rail,
    /// Rows of the grid, in the order of both axes.
    pub axis: Vec<usize>,
    /// Nodes of a block, down and across.
    pub per: (usize, usize),
    /// What pairs are held against of which nobody knows what to expect.
    pub rail_best: Option<Gbps>,
}

/// The blocks of a map, row after row.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    all: Vec<Block>,
    of: Option<Map>,
    /// The place on the axis of each row.
    places: Vec<Option<usize>>,
    /// The changes of the pairs that are in.
    seen: u64,
}

impl Blocks {
    /// The blocks, row after row.
    pub fn all(&self) -> &[Block] {
        &self.all
    }

    /// Whether they are of a rail, with these nodes in this order and blocks of this size.
    pub fn is_of(
        &self,
        rail: Rail,
        axis: &[usize],
        per: (usize, usize),
        best: Option<Gbps>,
    ) -> bool {
        let same =
            |map: &Map| (map.rail, map.per, map.rail_best) == (rail, per, best) && map.axis == axis;
        self.of.as_ref().is_some_and(same)
    }

    /// Makes them those of another map.
    pub fn turn_to(&mut self, map: Map, pairs: &Pairs) {
        let rows = map.axis.iter().max().map_or(0, |row| row + 1);
        self.places = vec![None; rows];
        for (place, row) in map.axis.iter().enumerate() {
            self.places[*row] = Some(place);
        }
        self.whole(&map, pairs);
        self.of = Some(map);
    }

    /// Takes in what changed of the pairs.
    pub fn catch_up(&mut self, pairs: &Pairs) {
        let Some(map) = self.of.take() else { return };
        match pairs.changes(self.seen) {
            None => self.whole(&map, pairs),
            Some(changes) => {
                let stale: BTreeSet<usize> = changes
                    .filter_map(|change| self.take_in(&map, change))
                    .collect();
                for block in stale {
                    self.anew(&map, block, pairs);
                }
                self.seen = pairs.version();
            }
        }
        self.of = Some(map);
    }

    fn whole(&mut self, map: &Map, pairs: &Pairs) {
        let (down, across) = map.count();
        self.all = vec![Block::default(); down * across];
        for (places, standing) in pairs.of_rail(map.rail) {
            if let Some(block) = self.block_of(map, places) {
                self.all[block].add(&standing, map.rail_best);
            }
        }
        self.seen = pairs.version();
    }

    fn block_of(&self, map: &Map, (from, to): (usize, usize)) -> Option<usize> {
        let place = |row: usize| self.places.get(row).copied().flatten();
        let (down, across) = (place(from)? / map.per.0, place(to)? / map.per.1);
        Some(down * map.count().1 + across)
    }

    /// The block, where its lowest share may have been that of the pair before.
    fn take_in(&mut self, map: &Map, change: &Change) -> Option<usize> {
        let number = self.block_of(map, change.places);
        let number = number.filter(|_| change.rail == map.rail)?;
        let block = &mut self.all[number];
        block.take_off(&change.before);
        block.add(&change.after, map.rail_best);
        let (was, is) = (&change.before, &change.after);
        let (was, is) = (was.share(map.rail_best), is.share(map.rail_best));
        (was.is_some() && was != is).then_some(number)
    }

    /// Adds a block up from its pairs.
    fn anew(&mut self, map: &Map, number: usize, pairs: &Pairs) {
        let part = |place: usize, per: usize| {
            let first = place * per;
            &map.axis[first..(first + per).min(map.axis.len())]
        };
        let (_, across) = map.count();
        let mut block = Block::default();
        for from in part(number / across, map.per.0) {
            for to in part(number % across, map.per.1) {
                if let Some(known) = pairs.get(map.rail, *from, *to) {
                    block.add(&known.standing(), map.rail_best);
                }
            }
        }
        self.all[number] = block;
    }
}

impl Map {
    /// Blocks, down and across.
    fn count(&self) -> (usize, usize) {
        let nodes = self.axis.len();
        (nodes.div_ceil(self.per.0), nodes.div_ceil(self.per.1))
    }
}

impl Block {
    fn add(&mut self, pair: &Standing, rail_best: Option<Gbps>) {
        self.busy += usize::from(pair.busy);
        self.measured += usize::from(pair.best.is_some());
        self.failed += usize::from(pair.is_failure());
        self.share = match (self.share, pair.share(rail_best)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        };
    }

    /// All but the share, which only all the pairs together tell.
    fn take_off(&mut self, pair: &Standing) {
        self.busy -= usize::from(pair.busy).min(self.busy);
        self.measured -= usize::from(pair.best.is_some()).min(self.measured);
        self.failed -= usize::from(pair.is_failure()).min(self.failed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::ledger::testing::{events, probed};
    use crate::model::{Event, ProbeId};
    use crate::tui::grid::Grid;

    /// Learns events one after another, and hands out after each.
    fn each(events: &[Event], mut after: impl FnMut(&Pairs)) -> Pairs {
        let (mut ledger, mut grid) = (Ledger::default(), Grid::default());
        let mut pairs = Pairs::default();
        for event in events {
            ledger.apply(event);
            grid.learn(event, &ledger);
            pairs.learn(event, &ledger, &grid);
            after(&pairs);
        }
        pairs
    }

    fn map(axis: &[usize], per: (usize, usize)) -> Map {
        Map {
            rail: Rail(0),
            axis: axis.to_vec(),
            per,
            rail_best: None,
        }
    }

    fn whole(pairs: &Pairs, map: Map) -> Vec<Block> {
        let mut blocks = Blocks::default();
        blocks.turn_to(map, pairs);
        blocks.all
    }

    fn run() -> Vec<Event> {
        events(6, 1, &|i, j, _| match (i, j) {
            (0, 3) => Some(195.0),
            (4, 1) => None,
            _ => Some(391.0),
        })
    }

    #[test]
    fn a_block_has_the_worst_of_its_pairs() {
        let pairs = each(&run(), |_| ());
        let axis: Vec<usize> = (0..6).collect();
        let blocks = whole(&pairs, map(&axis, (2, 3)));
        assert_eq!(blocks.len(), 3 * 2);
        let low = blocks[1];
        assert_eq!((low.measured, low.failed), (6, 0));
        assert!((low.share.unwrap() - 0.497).abs() < 0.01, "{low:?}");
        assert_eq!((blocks[4].measured, blocks[4].failed), (5, 1));
        // Of what is filtered out nothing is told.
        let some = whole(&pairs, map(&[0, 1], (1, 1)));
        assert_eq!(some.iter().map(|block| block.measured).sum::<usize>(), 2);
        let mut none = map(&[], (1, 1));
        none.rail = Rail(9);
        assert!(whole(&pairs, none).is_empty());
    }

    #[test]
    fn what_changes_adds_up_to_the_whole() {
        let axis = [5, 3, 1, 0, 2, 4];
        let mut blocks = Blocks::default();
        blocks.turn_to(map(&axis, (2, 3)), &Pairs::default());
        // A pair that was the lowest of its block is measured again, and better.
        let mut run = run();
        let end = run.len() - 1;
        let pair = run.iter().find_map(|event| match event {
            Event::RoundPlanned { pairs, .. } if pairs[0].probe == ProbeId(2) => {
                Some(&pairs[0].pair)
            }
            _ => None,
        });
        let again = probed(ProbeId(99), pair.unwrap().clone(), Some(300.0));
        run.splice(end..end, again);
        let (mut shares, mut events) = (Vec::new(), 0);
        each(&run, |pairs| {
            events += 1;
            blocks.catch_up(pairs);
            assert_eq!(blocks.all(), whole(pairs, map(&axis, (2, 3))), "{events}");
            let lowest = blocks.all().iter().filter_map(|block| block.share);
            shares.push(lowest.fold(1.0, f64::min));
        });
        assert!(shares.iter().any(|share| *share < 0.5));
        assert!(*shares.last().unwrap() > 0.7, "{shares:?}");
    }

    #[test]
    fn who_was_away_for_long_sees_the_whole_all_the_same() {
        let axis: Vec<usize> = (0..6).collect();
        let mut blocks = Blocks::default();
        let pairs = each(&run()[..12], |_| ());
        blocks.turn_to(map(&axis, (3, 3)), &pairs);
        // The pairs begin anew, as where a run goes on.
        let pairs = each(&run(), |_| ());
        blocks.seen = u64::MAX;
        blocks.catch_up(&pairs);
        assert_eq!(blocks.all(), whole(&pairs, map(&axis, (3, 3))));
    }
}
