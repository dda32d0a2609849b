//! The rounds in which it is measured what moving data costs.

use std::collections::{BTreeSet, HashSet};

use super::conductor::{Conductor, Step};
use super::fleet::Fleet;
use super::incast;
use super::planning::{Rails, Usable, busiest, pairs_of};
use crate::ledger::Ledger;
use crate::model::{NodeName, Pair, ProbeSpec, Purpose, Rail, RunSettings};
use crate::plan::{CostProbe, cost_probes, neighbours};

/// Rounds to play, each with what its probes do, and pairs that belong to none.
#[derive(Debug, Default)]
pub(super) struct CostPlan {
    pub(super) rounds: Vec<(Vec<Pair>, ProbeSpec)>,
    pub(super) skipped: Vec<(Pair, String)>,
}

/// What a run that asks for it has still to measure of the cost of moving data.
///
/// Each NIC is once the initiator and once the target, with that of a neighbour on its rail; one rail and
/// one direction at a time, so that no node is in two probes of a round. Then several NICs of each leaf
/// group write to one.
pub(super) fn plan(ledger: &Ledger, settings: &RunSettings) -> CostPlan {
    let Some(cost) = &settings.cost else {
        return CostPlan::default();
    };
    let probes = cost_probes(cost, &settings.probe);
    let rails = rails(ledger);
    let there = |node: &&NodeName| rails.contains_key(*node);
    let nodes: Vec<NodeName> = settings.nodes.iter().filter(there).cloned().collect();
    let most = busiest(nodes.len(), &settings.sweep);
    let numbers: BTreeSet<Rail> = rails.values().flatten().map(|(rail, _)| *rail).collect();
    let (tried, usable) = (tried(ledger, &probes), Usable::of(ledger));
    let mut plan = CostPlan::default();
    for round in neighbours(&nodes, &settings.sweep.groups) {
        for meetings in round.chunks(most) {
            for rail in &numbers {
                let of_rail = |a, b| pairs_of(&rails, a, b).into_iter().find(|p| p.rail == *rail);
                let there = meetings.iter().filter_map(|(a, b)| of_rail(a, b));
                let back = meetings.iter().filter_map(|(a, b)| of_rail(b, a));
                let ways = [there.collect(), back.collect()];
                add(&mut plan, ways, &probes, &tried, &usable);
            }
        }
    }
    let all = incast::rounds(ledger, settings, &rails, &usable);
    plan.rounds.extend(all);
    plan
}

/// Both directions of pairs that meet, each with its probes one after another.
fn add(
    plan: &mut CostPlan,
    ways: [Vec<Pair>; 2],
    probes: &[CostProbe],
    tried: &HashSet<(&Pair, usize)>,
    usable: &Usable<'_>,
) {
    for (way, mut pairs) in ways.into_iter().enumerate() {
        pairs.retain(|pair| match usable.in_the_way(pair) {
            None => true,
            Some(why) => {
                plan.skipped.push((pair.clone(), why));
                false
            }
        });
        for (at, probe) in probes.iter().enumerate() {
            let open = pairs.iter().filter(|pair| !tried.contains(&(*pair, at)));
            let open: Vec<Pair> = open.cloned().collect();
            if !open.is_empty() && (way == 0 || probe.both_ways) {
                plan.rounds.push((open, probe.spec.clone()));
            }
        }
    }
}

/// The NICs of all nodes that have been there: one that was lost is said to be that.
fn rails(ledger: &Ledger) -> Rails {
    let mut rails = Rails::new();
    for (rail, node, nic) in ledger.rail_nics() {
        if let Some(nic) = nic.value() {
            let mine = rails.entry(node.clone()).or_default();
            mine.push((rail, nic.clone()));
        }
    }
    rails
}

/// Pairs with the places of the probes that were tried of them.
fn tried<'a>(ledger: &'a Ledger, probes: &[CostProbe]) -> HashSet<(&'a Pair, usize)> {
    let tried = ledger.probes().filter(|probe| probe.was_tried());
    let of_cost = tried.filter(|probe| probe.planned.purpose == Purpose::Cost);
    let place = of_cost.filter_map(|probe| {
        let spec = probe.planned.spec.as_ref()?;
        let at = probes.iter().position(|probe| probe.spec == *spec)?;
        Some((&probe.planned.pair, at))
    });
    place.collect()
}

impl<F: Fleet, E: std::error::Error + 'static> Conductor<'_, F, E> {
    /// Measures what moving data costs, where that is asked for.
    pub(super) fn weigh(&mut self) -> Step<E> {
        let plan = plan(&self.ledger, &self.settings);
        for (pair, why) in plan.skipped {
            let is_known = |s: &crate::ledger::Skipped| {
                (s.rail, &s.from, &s.to) == (pair.rail, &pair.from.node, &pair.to.node)
            };
            if !self.ledger.skipped().iter().any(is_known) {
                self.skip(pair, why)?;
            }
        }
        for (pairs, spec) in plan.rounds {
            self.obey()?;
            if self.stopped() || self.out_of_time() {
                break;
            }
            let round = self.begin_round();
            let probes = pairs.into_iter().map(|pair| (pair, Purpose::Cost));
            self.play_as(round, probes.collect(), Some(&spec))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::AtomicBool;

    use super::super::Limits;
    use super::*;
    use crate::config::{DEMO, read_scenario};
    use crate::ledger::testing::ledger;
    use crate::model::{Bytes, CostSettings, CostStep, Event, NicId, Outcome, Pattern, Rule};
    use crate::simulated::SimulatedFleet;

    /// A run over a simulated cluster, of which only the cost is measured.
    fn settings(nodes: u16, only: &[CostStep]) -> (crate::config::Scenario, RunSettings) {
        let scenario = read_scenario("", "test").unwrap();
        let (mut scenario, _) = scenario.resized(Some(nodes), Some(2));
        scenario.faults.clear();
        let mut settings = scenario.settings(1).unwrap();
        settings.sweep.pattern = Pattern::Nothing;
        settings.cost = Some(CostSettings {
            duration_ms: 500,
            tcp_streams: 4,
            tcp_message: Bytes(1 << 20),
            sizes: vec![Bytes(64), Bytes(4096)],
            latency_sizes: vec![Bytes(2)],
            only: only.to_vec(),
        });
        (scenario, settings)
    }

    fn run(
        (scenario, settings): (crate::config::Scenario, RunSettings),
        so_far: &[Event],
        most: usize,
    ) -> Vec<Event> {
        let fleet = SimulatedFleet::new(&scenario, &settings.nodes, 1);
        let stop = AtomicBool::new(false);
        let mut events = so_far.to_vec();
        let mut ended = 0;
        let mut emit = |event: Event| -> Result<(), Infallible> {
            ended += usize::from(matches!(event, Event::ProbeEnded { .. }));
            if ended >= most {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            events.push(event);
            Ok(())
        };
        Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit)
            .after(ledger(so_far))
            .run()
            .unwrap();
        events
    }

    fn measured(events: &[Event]) -> Vec<(Pair, ProbeSpec)> {
        let ledger = ledger(events);
        let probes = ledger.probes().filter(|probe| probe.was_tried());
        let mut all: Vec<(Pair, ProbeSpec)> = probes
            .map(|probe| {
                assert_eq!(probe.planned.purpose, Purpose::Cost);
                assert!(
                    matches!(probe.outcome, Some(Outcome::Measured { .. })),
                    "{probe:?}"
                );
                (
                    probe.planned.pair.clone(),
                    probe.planned.spec.clone().unwrap(),
                )
            })
            .collect();
        all.sort_by_key(|(pair, spec)| (pair.to_string(), format!("{spec:?}")));
        all
    }

    #[test]
    fn each_nic_is_measured_both_ways_and_no_node_twice_at_a_time() {
        // Bursts come after it all.
        let steps = CostStep::ALL.iter().filter(|step| !step.is_incast());
        let events = run(
            settings(5, &steps.copied().collect::<Vec<_>>()),
            &[],
            usize::MAX,
        );
        for event in &events {
            if let Event::RoundPlanned { pairs, .. } = event
                && pairs[0].spec.as_ref().unwrap().account
            {
                let nodes = pairs
                    .iter()
                    .flat_map(|p| [&p.pair.from.node, &p.pair.to.node]);
                let busy: HashSet<&NodeName> = nodes.clone().collect();
                assert_eq!(busy.len(), nodes.count());
            }
        }
        let all = measured(&events);
        // Three meetings on two rails: ten ways in both directions, and seven in one.
        assert_eq!(all.len(), 3 * 2 * (2 * 10 + 7));
        for end in [0, 1] {
            let nics: HashSet<String> = all
                .iter()
                .map(|(pair, _)| [&pair.from, &pair.to][end].to_string())
                .collect();
            assert_eq!(nics.len(), 10);
        }
    }

    #[test]
    fn what_was_cut_off_goes_on_and_measures_nothing_twice() {
        let asked = || settings(4, &[CostStep::Tcp, CostStep::Write, CostStep::LatencyTcp]);
        let whole = run(asked(), &[], usize::MAX);
        let cut = run(asked(), &[], 7);
        assert!(measured(&cut).len() < measured(&whole).len());
        let resumed = run(asked(), &cut, usize::MAX);
        assert_eq!(measured(&resumed), measured(&whole));
        // Nor is anything left of a run that is complete.
        let again = ledger(&resumed);
        assert!(plan(&again, &asked().1).rounds.is_empty());
    }

    #[test]
    fn many_send_to_one_at_once_and_are_told_what_it_lets_in() {
        use CostStep::{IncastTcp, IncastWrite};
        let asked = || settings(6, &[IncastWrite, IncastTcp]);
        let events = run(asked(), &[], usize::MAX);
        let rounds: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::RoundPlanned { pairs, .. } => Some(pairs),
                _ => None,
            })
            .collect();
        // By RDMA and by TCP, on two rails.
        assert_eq!(rounds.len(), 4);
        for round in rounds {
            let to: HashSet<&NicId> = round.iter().map(|planned| &planned.pair.to).collect();
            assert_eq!((round.len(), to.len()), (4, 1));
        }
        let ledger = ledger(&events);
        let rates = ledger.probes().map(|probe| probe.rate().unwrap().0);
        let rates: Vec<f64> = rates.collect();
        // One line between four, and what a core receives by TCP.
        assert!(rates.iter().all(|rate| *rate < 101.0), "{rates:?}");
        assert!(plan(&ledger, &asked().1).rounds.is_empty());
        // What was cut off is made again from its begin.
        let cut = run(asked(), &[], 5);
        let resumed = crate::ledger::testing::ledger(&run(asked(), &cut, usize::MAX));
        let report = crate::judge::CostReport::of(&resumed).unwrap();
        assert!(report.is_complete(), "{:?}", report.gaps);
        assert_eq!(report.incasts.len(), 4);
    }

    #[test]
    fn a_run_that_does_not_ask_for_it_measures_no_cost() {
        let (scenario, settings) = settings(4, &[]);
        let settings = RunSettings {
            cost: None,
            ..settings
        };
        let events = run((scenario, settings), &[], usize::MAX);
        assert_eq!(ledger(&events).probes().count(), 0);
    }

    #[test]
    fn what_it_measures_accuses_and_clears_nobody() {
        let (_, settings) = settings(4, &[]);
        let scenario = read_scenario(DEMO, "demo")
            .unwrap()
            .resized(Some(4), Some(2))
            .0;
        let judged = |cost: bool| {
            let mut settings = settings.clone();
            settings.sweep.pattern = Pattern::Full;
            if !cost {
                settings.cost = None;
            }
            let events = run((scenario.clone(), settings), &[], usize::MAX);
            let mut judgement = crate::judge::judge(&ledger(&events));
            // What is told of TCP is of no NIC.
            judgement.findings.retain(|f| f.rule != Rule::TcpLimit);
            (judgement.findings, judgement.coverage)
        };
        assert_eq!(judged(true), judged(false));
    }
}
