//! What an operator asks of a run while it runs, between two rounds.

use std::collections::HashSet;
use std::time::Duration;

use super::conductor::{Conductor, Step, TICK};
use super::fleet::Fleet;
use crate::model::{Command, Event, NodeName, Pair, Purpose};
use crate::wire::{FromAgent, ToAgent};

/// The next thing that is asked, if something is.
type Next<'a> = &'a mut dyn FnMut() -> Option<Command>;

/// What is asked of a run, and what was asked and still holds.
#[derive(Default)]
pub(super) struct Asked<'a> {
    next: Option<Next<'a>>,
    paused: bool,
    /// How often agents read the counters of their nodes; unset where nobody looks at them.
    sampling_ms: Option<u32>,
    excluded: HashSet<NodeName>,
}

impl Asked<'_> {
    /// Whether the operator wants no probes of an end of a pair.
    pub(super) fn excludes(&self, pair: &Pair) -> bool {
        let mut ends = [&pair.from, &pair.to].into_iter();
        ends.any(|nic| self.excludes_node(&nic.node))
    }

    /// Whether the operator wants nothing of a node.
    pub(super) fn excludes_node(&self, node: &NodeName) -> bool {
        self.excluded.contains(node)
    }
}

impl<'a, F: Fleet, E: std::error::Error + 'static> Conductor<'a, F, E> {
    /// Lets somebody ask things of the run while it runs: `next` is called between rounds.
    pub fn obeying(mut self, next: &'a mut dyn FnMut() -> Option<Command>) -> Self {
        self.asked.next = Some(next);
        self
    }

    /// Has agents read their nodes' counters beside the probes, for somebody who looks on.
    pub fn sampling(mut self, interval: Duration) -> Self {
        self.asked.sampling_ms = u32::try_from(interval.as_millis()).ok();
        self
    }

    /// A node is surveyed: from now on its counters may be read.
    pub(super) fn sample(&mut self, node: usize) {
        if let Some(interval_ms) = self.asked.sampling_ms {
            self.fleet.send(node, &ToAgent::Watch { interval_ms });
        }
    }

    /// What a reading is to whoever looks on; nothing where nobody does.
    pub(super) fn reading(&self, node: &NodeName, said: FromAgent) -> Option<Event> {
        self.asked.sampling_ms?;
        let node = node.clone();
        match said {
            FromAgent::Watching { layout } => Some(Event::NodeWatched { node, layout }),
            FromAgent::Sampled { sample } => Some(Event::NodeSampled { node, sample }),
            _ => None,
        }
    }

    /// Does what was asked, and waits while the run is paused.
    pub(super) fn obey(&mut self) -> Step<E> {
        loop {
            while let Some(command) = self.asked.next.as_mut().and_then(|next| next()) {
                self.do_as_told(command)?;
            }
            if !self.asked.paused || self.stopped() {
                return Ok(());
            }
            if let Some((node, news)) = self.fleet.next(TICK) {
                self.admit(node, news)?;
            }
            self.lose_the_silent(&mut |_| {})?;
        }
    }

    fn do_as_told(&mut self, command: Command) -> Step<E> {
        match command {
            Command::Pause => self.asked.paused = true,
            Command::GoOn => self.asked.paused = false,
            Command::Exclude(node) => drop(self.asked.excluded.insert(node)),
            Command::Probe(pairs) => {
                for pair in pairs {
                    let round = self.begin_round();
                    self.play(round, vec![(pair, Purpose::Again)])?;
                }
            }
            Command::Pace(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicBool;

    use super::super::Limits;
    use super::*;
    use crate::config::{DEMO, read_scenario};
    use crate::ledger::Ledger;
    use crate::model::{Event, NicId, Outcome, Rail};
    use crate::simulated::SimulatedFleet;

    /// The events of a small simulated run that hears these commands; a gap is one round without any.
    fn run(commands: Vec<Option<Command>>) -> Vec<Event> {
        let scenario = read_scenario(DEMO, "demo").unwrap();
        let (scenario, _) = scenario.resized(Some(4), Some(1));
        let settings = scenario.settings(1).unwrap();
        let fleet = SimulatedFleet::new(&scenario, &settings.nodes, 1);
        let stop = AtomicBool::new(false);
        let mut events = Vec::new();
        let mut commands = VecDeque::from(commands);
        let mut next = || commands.pop_front().flatten();
        let mut emit = |event: Event| -> Result<(), std::io::Error> {
            events.push(event);
            Ok(())
        };
        Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit)
            .obeying(&mut next)
            .run()
            .unwrap();
        events
    }

    fn nic(node: &str) -> NicId {
        NicId {
            node: node.into(),
            device: "mlx5_0".into(),
            port: 1,
        }
    }

    #[test]
    fn an_excluded_node_is_probed_no_more() {
        let events = run(vec![Some(Command::Exclude("node002".into()))]);
        let mut ledger = Ledger::default();
        events.iter().for_each(|event| ledger.apply(event));
        let mine = ledger.probes().filter(|probe| {
            let pair = &probe.planned.pair;
            [&pair.from, &pair.to]
                .iter()
                .any(|nic| nic.node == "node002".into())
        });
        let outcomes: Vec<_> = mine.filter_map(|probe| probe.outcome.clone()).collect();
        assert!(!outcomes.is_empty());
        for outcome in outcomes {
            assert!(matches!(&outcome, Outcome::NotRun { why } if why.contains("excluded")));
        }
    }

    #[test]
    fn a_pause_ends_and_costs_nothing() {
        // The pause is heard, then nothing for a while, then the end of it.
        let mut commands = vec![Some(Command::Pause)];
        commands.extend(std::iter::repeat_n(None, 50));
        commands.push(Some(Command::GoOn));
        assert_eq!(run(commands).len(), run(Vec::new()).len());
    }

    #[test]
    fn a_pair_is_probed_once_more() {
        let pair = Pair {
            from: nic("node001"),
            to: nic("node003"),
            rail: Rail(0),
        };
        let events = run(vec![Some(Command::Probe(vec![pair.clone()]))]);
        let rounds = events.iter().filter_map(|event| match event {
            Event::RoundPlanned { pairs, .. } => Some(pairs),
            _ => None,
        });
        let first = rounds.map(Vec::as_slice).next().unwrap();
        assert_eq!(first.len(), 1);
        assert_eq!((&first[0].pair, first[0].purpose), (&pair, Purpose::Again));
    }
}
