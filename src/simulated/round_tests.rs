//! What probes reach beside others of their round, and what nodes answer.

use std::time::Duration;

use super::SimulatedFleet;
use crate::cluster::{Fleet, FromNode};
use crate::config::{Scenario, read_scenario};
use crate::model::*;
use crate::wire::{FromAgent, ToAgent};

/// A probe from a NIC to a NIC, each as node and rail from 0.
type Probe = ((u16, u16), (u16, u16));

struct Rounds {
    fleet: SimulatedFleet,
    spec: ProbeSpec,
    next: u64,
}

/// Eight nodes with four rails and no chance; `more` is wrong with them.
fn rounds(more: &str) -> Rounds {
    let text = format!("nodes = 8\nrails = 4\nnoise = 0\noutliers.share = 0\n{more}");
    let scenario = read_scenario(&text, "test").unwrap_or_else(|errors| panic!("{errors}"));
    of(&scenario)
}

fn of(scenario: &Scenario) -> Rounds {
    let settings = scenario.settings(1).unwrap();
    Rounds {
        fleet: SimulatedFleet::new(scenario, &settings.nodes, 1),
        spec: settings.probe,
        next: 0,
    }
}

impl Rounds {
    /// Plays a round as the conductor does; what each of its probes reaches, as a share of the line of
    /// 400 Gb/s at MTU 4096, or the node that it failed at and why.
    fn play(&mut self, probes: &[Probe]) -> Vec<Result<f64, (usize, String)>> {
        let ids: Vec<_> = (self.next..).map(ProbeId).take(probes.len()).collect();
        self.next += probes.len() as u64;
        while self.fleet.next(Duration::ZERO).is_some() {}
        for (id, (from, to)) in ids.iter().zip(probes) {
            for (role, at) in [(Role::Initiator, from), (Role::Target, to)] {
                self.fleet.send(at.0.into(), &self.prepare(*id, role, at.1));
            }
        }
        let mut outcomes = vec![None; probes.len()];
        let failed = self.hear(&ids, &mut outcomes);
        for (id, (from, _)) in ids.iter().zip(probes) {
            if !failed.contains(id) {
                self.fleet.send(from.0.into(), &ToAgent::Run { probe: *id });
            }
        }
        self.hear(&ids, &mut outcomes);
        for (id, (from, to)) in ids.iter().zip(probes) {
            for node in [from.0, to.0] {
                self.fleet
                    .send(node.into(), &ToAgent::Release { probe: *id });
            }
        }
        outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap())
            .collect()
    }

    fn prepare(&self, probe: ProbeId, role: Role, rail: u16) -> ToAgent {
        let port = LocalPort {
            device: Scenario::device(rail),
            port: 1,
            gid_index: 0,
            gpu: None,
        };
        ToAgent::Prepare {
            probe,
            role,
            spec: self.spec.clone(),
            port,
            nonce: 1,
            force: false,
        }
    }

    fn hear(
        &mut self,
        ids: &[ProbeId],
        outcomes: &mut [Option<Result<f64, (usize, String)>>],
    ) -> Vec<ProbeId> {
        let mut failed = Vec::new();
        while let Some((node, news)) = self.fleet.next(Duration::ZERO) {
            let (probe, outcome) = match news {
                FromNode::Said(FromAgent::Done { probe, measurement }) => {
                    let rate = measurement.rate().unwrap().0;
                    (
                        probe,
                        Ok((rate / (400.0 * 4096.0 / 4122.0) * 1000.0).round() / 1000.0),
                    )
                }
                FromNode::Said(FromAgent::ProbeFailed { probe, why, .. }) => {
                    failed.push(probe);
                    (probe, Err((node, why)))
                }
                _ => continue,
            };
            let at = ids.iter().position(|id| *id == probe).unwrap();
            outcomes[at] = Some(outcome);
        }
        failed
    }

    /// The same of probes that all measure something.
    fn rates(&mut self, probes: &[Probe]) -> Vec<f64> {
        let outcomes = self.play(probes).into_iter();
        outcomes.map(|outcome| outcome.unwrap()).collect()
    }
}

/// Both directions between two nodes on these rails.
fn between(a: u16, b: u16, rails: std::ops::Range<u16>) -> Vec<Probe> {
    let both = |rail| [((a, rail), (b, rail)), ((b, rail), (a, rail))];
    rails.flat_map(both).collect()
}

#[test]
fn a_shared_switch_shows_only_where_another_of_its_nics_is_busy() {
    let text = "[[shared_switch]]\nnode = \"node003\"\nrails = [0, 1]\nratio = 0.5";
    let mut rounds = rounds(text);
    assert_eq!(rounds.rates(&between(2, 0, 0..1)), [1.0; 2]);
    assert_eq!(rounds.rates(&between(2, 0, 0..2)), [0.5; 4]);
    let mut all = vec![0.5; 4];
    all.extend([1.0; 4]);
    assert_eq!(rounds.rates(&between(2, 0, 0..4)), all);
    assert_eq!(rounds.rates(&between(2, 0, 1..3)), [1.0; 4]);
    // As busy with two partners as with one.
    let two = [((2, 0), (0, 0)), ((4, 1), (2, 1))];
    assert_eq!(rounds.rates(&two), [0.5; 2]);
    // And not by what other nodes do.
    let beside = [between(2, 0, 0..1), between(4, 5, 0..4)].concat();
    assert_eq!(rounds.rates(&beside), [1.0; 10]);
}

#[test]
fn a_limit_of_the_node_shows_where_three_quarters_are_busy() {
    let mut rounds = rounds("[[node_limit]]\nnode = \"node003\"\nratio = 0.6");
    assert_eq!(rounds.rates(&between(2, 0, 0..2)), [1.0; 4]);
    assert_eq!(rounds.rates(&between(2, 0, 1..4)), [0.6; 6]);
    assert_eq!(rounds.rates(&between(2, 0, 0..4)), [0.6; 8]);
    assert_eq!(rounds.rates(&between(1, 0, 0..4)), [1.0; 8]);
}

#[test]
fn contention_of_directions_shows_both_ways_at_once_only() {
    let mut rounds = rounds("[[half_duplex]]\nnode = \"node003\"\nrail = 1\nratio = 0.5");
    assert_eq!(rounds.rates(&between(2, 0, 1..2)), [0.5; 2]);
    assert_eq!(rounds.rates(&[((2, 1), (0, 1))]), [1.0]);
    assert_eq!(rounds.rates(&[((0, 1), (2, 1))]), [1.0]);
    // Sending to one and receiving from another is the same.
    let triangle = [((2, 1), (0, 1)), ((4, 1), (2, 1))];
    assert_eq!(rounds.rates(&triangle), [0.5; 2]);
    assert_eq!(rounds.rates(&between(2, 0, 0..1)), [1.0; 2]);
}

#[test]
fn the_way_to_gpu_memory_shows_with_gpu_memory_only() {
    let text = "[[gpu_path]]\nnode = \"node003\"\nrail = 1\ndirection = \"tx\"\nratio = 0.5";
    let mut rounds = rounds(text);
    assert_eq!(rounds.rates(&between(2, 0, 1..2)), [1.0; 2]);
    rounds.spec.memory = MemoryKind::Gpu;
    assert_eq!(rounds.rates(&between(2, 0, 1..2)), [0.5, 1.0]);
}

#[test]
fn one_queue_pair_shows_below_four() {
    let mut rounds = rounds("[[one_queue_pair]]\nnode = \"node003\"\nrail = 1\nratio = 0.5");
    assert_eq!(rounds.rates(&between(2, 0, 1..2)), [0.5; 2]);
    rounds.spec.queue_pairs = 4;
    assert_eq!(rounds.rates(&between(2, 0, 1..2)), [1.0; 2]);
}

#[test]
fn a_flaky_nic_is_slow_by_its_share_and_a_dead_one_never_gets_through() {
    let mut rounds = rounds(
        "[[flaky_nic]]\nnode = \"node003\"\nrail = 1\nshare = 0.3\nratio = 0.5\n\
         [[dead_nic]]\nnode = \"node003\"\nrail = 2",
    );
    let rates: Vec<f64> = (0..1000)
        .flat_map(|_| rounds.rates(&between(2, 0, 1..2)))
        .collect();
    let low = rates.iter().filter(|rate| **rate == 0.5).count();
    assert!((500..700).contains(&low), "{low} of 2000");
    for (probe, sender) in [(((2, 2), (0, 2)), 2), (((0, 2), (2, 2)), 0)] {
        let outcomes = rounds.play(&[probe]);
        let Err((node, why)) = &outcomes[0] else {
            panic!("{outcomes:?}");
        };
        assert_eq!(*node, sender);
        assert!(why.contains("nothing acknowledges"), "{why}");
    }
}

#[test]
fn a_silent_node_is_back_in_the_next_round() {
    let mut rounds = rounds("silent = 0.1");
    let mut silent = 0;
    for _ in 0..200 {
        let outcomes = rounds.play(&between(2, 0, 0..4));
        let failed = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        let nodes: Vec<usize> = failed.map(|(node, _)| *node).collect();
        // All probes of a round, or none; two of a node in a row are chance.
        assert!(nodes.is_empty() || nodes.len() == 8, "{outcomes:?}");
        silent += usize::from(!nodes.is_empty());
    }
    // One of two nodes: 0.19 of the rounds.
    assert!((20..60).contains(&silent), "{silent} of 200");
}

#[test]
fn nodes_of_another_generation_say_so_and_carry_it() {
    let text = "[[slow_line]]\nnodes = [\"node[003-004]\"]\nline_rate = \"200 Gb/s\"\n\
                [[slow_line]]\nnodes = [\"node005\"]\nrail = 1\nline_rate = \"200 Gb/s\"";
    let mut rounds = rounds(text);
    assert_eq!(rounds.rates(&between(2, 0, 0..4)), [0.5; 8]);
    assert_eq!(rounds.rates(&between(4, 0, 0..2)), [1.0, 1.0, 0.5, 0.5]);
    let lines = |rounds: &mut Rounds, node: usize| -> Vec<(f64, String)> {
        rounds.fleet.send(node, &ToAgent::Survey);
        let Some((_, FromNode::Said(FromAgent::Facts { facts }))) =
            rounds.fleet.next(Duration::ZERO)
        else {
            panic!("no facts");
        };
        let devices = facts.rdma.value().unwrap().iter();
        devices
            .map(|device| {
                let hca = device.identity.hca_type.value().unwrap().clone();
                (device.ports[0].rate.value().unwrap().0, hca)
            })
            .collect()
    };
    while rounds.fleet.next(Duration::ZERO).is_some() {}
    let old = (200.0, "MT4123".to_owned());
    let new = (400.0, "MT4129".to_owned());
    assert_eq!(lines(&mut rounds, 2), vec![old.clone(); 4]);
    let mixed = [new.clone(), old, new.clone(), new.clone()];
    assert_eq!(lines(&mut rounds, 4), mixed);
    assert_eq!(lines(&mut rounds, 5), vec![new; 4]);
}

#[test]
fn what_a_probe_reaches_does_not_depend_on_the_order_of_a_round() {
    let text = "nodes = 8\nrails = 4\nleaf_size = 2\necmp.collisions = 0.5\n\
                [[shared_switch]]\nnode = \"node003\"\nrails = [0, 1]\nratio = 0.5\n\
                [[flaky_nic]]\nnode = \"node005\"\nrail = 1\nshare = 0.5\nratio = 0.5";
    let scenario = read_scenario(text, "test").unwrap();
    let round: Vec<Probe> = [(0, 2), (1, 4), (3, 6), (5, 7)]
        .into_iter()
        .flat_map(|(a, b)| between(a, b, 0..4))
        .collect();
    let there = of(&scenario).rates(&round);
    let reversed: Vec<Probe> = round.iter().rev().copied().collect();
    let mut back = of(&scenario).rates(&reversed);
    back.reverse();
    assert_eq!(there, back);
    assert!(there.iter().any(|rate| *rate < 0.6) && there.iter().any(|rate| *rate > 0.9));
}

#[test]
fn the_largest_cluster_is_there_at_once() {
    let scenario = read_scenario("nodes = 16384\nrails = 16", "test").unwrap();
    let settings = scenario.settings(1).unwrap();
    let mut fleet = SimulatedFleet::new(&scenario, &settings.nodes, 1);
    while fleet.next(Duration::ZERO).is_some() {}
    fleet.send(16383, &ToAgent::Survey);
    let Some((16383, FromNode::Said(FromAgent::Facts { facts }))) = fleet.next(Duration::ZERO)
    else {
        panic!("no facts");
    };
    assert_eq!(facts.hostname.value().unwrap(), "node16384");
    let devices = facts.rdma.value().unwrap();
    assert_eq!(devices.len(), 16);
    // InfiniBand has no more than 48 Ki addresses for ports in a subnet.
    assert!(
        devices
            .iter()
            .all(|d| *d.ports[0].lid.value().unwrap() <= 0xbfff)
    );
}

#[test]
fn nics_that_share_a_switch_share_a_root_port_in_the_survey() {
    let text = "[[shared_switch]]\nnode = \"node003\"\nrails = [1, 2, 3]\nratio = 0.5";
    let mut rounds = rounds(text);
    while rounds.fleet.next(Duration::ZERO).is_some() {}
    rounds.fleet.send(2, &ToAgent::Survey);
    let Some((_, FromNode::Said(FromAgent::Facts { facts }))) = rounds.fleet.next(Duration::ZERO)
    else {
        panic!("no facts");
    };
    let tree = facts.pcie.value().unwrap();
    let above = |rail: usize| {
        let nic = facts.rdma.value().unwrap()[rail].pci.value().unwrap();
        let chain = tree.chain(nic);
        assert_eq!(chain.len(), 4, "rail {rail}");
        let top = chain[3];
        (top.address.clone(), top.root.clone())
    };
    assert_ne!(above(0), above(1));
    assert_eq!([above(1), above(2)], [above(2), above(3)]);
    // Nothing is left without what it hangs from.
    let parents = tree.functions.iter().filter_map(|f| f.parent.as_ref());
    parents.for_each(|parent| assert!(tree.function(parent).is_some(), "{parent}"));
}
