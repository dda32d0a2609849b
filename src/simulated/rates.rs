//! What a probe of a simulated cluster reaches: the least of what sender, receiver, path and rail let
//! through beside the other probes of its round, less what chance takes.

use std::collections::HashMap;

use super::fabric::{Fabric, about};
use super::limits::{Limits, Shared};
use super::load::{Flow, Load, Nic};
use super::mix::{Mix, Why};
use super::pcie;
use crate::config::{Fault, Outliers, Place, Scenario};
use crate::judge::efficiency;
use crate::model::{Direction, Gbps, Gid, LinkLayer};

/// What every flow of a scenario reaches.
#[derive(Debug)]
pub(super) struct Rates {
    seed: u64,
    noise: f64,
    outliers: Outliers,
    rails: u16,
    healthy: Limits,
    /// NICs that something is wrong with.
    nics: HashMap<Nic, Limits>,
    /// What NICs of a node share.
    shared: HashMap<u16, Vec<Shared>>,
    paths: HashMap<(Nic, u16), f64>,
    slow_rails: HashMap<u16, f64>,
    fabric: Fabric,
}

impl Rates {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut rates = Self {
            seed,
            noise: scenario.noise,
            outliers: scenario.outliers,
            rails: scenario.rails,
            healthy: Limits::new(scenario.generation, pcie::LANES),
            nics: HashMap::new(),
            shared: HashMap::new(),
            paths: HashMap::new(),
            slow_rails: HashMap::new(),
            fabric: Fabric::new(scenario, seed),
        };
        // What its ports and links are comes before what else is wrong with a NIC.
        for fault in &scenario.faults {
            rates.plant_line(scenario, fault);
        }
        for fault in &scenario.faults {
            rates.plant(scenario, fault);
        }
        rates
    }

    fn limits(&mut self, nic: Nic) -> &mut Limits {
        self.nics.entry(nic).or_insert(self.healthy)
    }

    fn plant_line(&mut self, scenario: &Scenario, fault: &Fault) {
        let Fault::SlowLine {
            node,
            rail,
            generation,
        } = fault
        else {
            return;
        };
        let Some(node) = scenario.number(node) else {
            return;
        };
        let rails = rail.map_or(0..self.rails, |rail| rail..rail + 1);
        for rail in rails {
            *self.limits(Nic { node, rail }) = Limits::new(*generation, pcie::LANES);
        }
    }

    fn plant(&mut self, scenario: &Scenario, fault: &Fault) {
        let nic = |place: &Place| {
            let node = scenario.number(&place.node)?;
            Some(Nic {
                node,
                rail: place.rail,
            })
        };
        let mut change = |place: &Place, change: &dyn Fn(&mut Limits)| {
            if let Some(nic) = nic(place) {
                change(self.limits(nic));
            }
        };
        match fault {
            Fault::SlowNic {
                nic,
                direction,
                ratio,
            } => change(nic, &|limits| least(&mut limits.ways, *direction, *ratio)),
            Fault::GpuPath {
                nic,
                direction,
                ratio,
            } => change(nic, &|limits| least(&mut limits.gpu, *direction, *ratio)),
            Fault::NarrowPcie { nic, width } => change(nic, &|limits| {
                limits.pcie = Limits::new(limits.generation, *width).pcie;
            }),
            Fault::HalfDuplex { nic, ratio } => change(nic, &|limits| limits.both_ways = *ratio),
            Fault::OneQueuePair { nic, ratio } => change(nic, &|limits| limits.narrow = *ratio),
            Fault::FlakyNic { nic, share, ratio } => {
                change(nic, &|limits| limits.flaky = (*share, *ratio));
            }
            Fault::DeadNic { nic } => change(nic, &|limits| limits.dead = true),
            fault => self.plant_between(scenario, fault),
        }
    }

    /// What is not of one NIC.
    fn plant_between(&mut self, scenario: &Scenario, fault: &Fault) {
        let all: Vec<u16> = (0..self.rails).collect();
        match fault {
            Fault::SharedSwitch { node, rails, ratio } => {
                let shared = Shared::switch(rails.clone(), *ratio);
                if let Some(node) = scenario.number(node) {
                    self.shared.entry(node).or_default().push(shared);
                }
            }
            Fault::NodeLimit { node, ratio } => {
                if let Some(node) = scenario.number(node) {
                    let shared = Shared::node(all, *ratio);
                    self.shared.entry(node).or_default().push(shared);
                }
            }
            Fault::SlowPath { from, to, ratio } => {
                let numbers = (scenario.number(&from.node), scenario.number(to));
                if let (Some(node), Some(to)) = numbers {
                    let from = Nic {
                        node,
                        rail: from.rail,
                    };
                    self.paths.insert((from, to), *ratio);
                }
            }
            Fault::SlowRail { rail, ratio } => {
                self.slow_rails.insert(*rail, *ratio);
            }
            _ => {}
        }
    }

    /// What runs at one time.
    pub(super) fn load(&self, flows: impl IntoIterator<Item = Flow>) -> Load {
        let mut load = Load::default();
        for flow in flows {
            load.add(&flow, self.fabric.spine(&flow));
        }
        load
    }

    /// The payload rate of a flow beside what else runs; `None` where nothing gets through. `attempt`
    /// tells flows of one pair apart. Chance takes away and never adds: nothing exceeds what the links
    /// carry.
    pub(super) fn of(&self, flow: &Flow, load: &Load, attempt: u32) -> Option<Gbps> {
        let nic = |nic| self.nics.get(&nic).unwrap_or(&self.healthy);
        let (from, to) = (nic(flow.from), nic(flow.to));
        if from.dead || to.dead {
            return None;
        }
        let any = Gid::from(std::net::Ipv6Addr::UNSPECIFIED);
        let payload = efficiency(LinkLayer::InfiniBand, any, flow.mtu);
        let sender = from.lets_through(Direction::Tx, flow, load.both_ways(flow.from));
        let receiver = to.lets_through(Direction::Rx, flow, load.both_ways(flow.to));
        let line = from.line().min(to.line()) * payload;
        let most = (from.line() * sender).min(to.line() * receiver) * payload;
        let most = most
            .min(line * self.beside(flow, load, attempt))
            .min(from.pcie[0].0)
            .min(to.pcie[1].0);
        Some(Gbps(most * self.chance(flow, attempt)))
    }

    /// How long small writes take: the shortest and the median, in nanoseconds.
    pub(super) fn latency(&self, flow: &Flow, attempt: u32) -> [u64; 2] {
        self.fabric.latency(flow, attempt)
    }

    /// The share of the line that what NICs have in common lets through.
    fn beside(&self, flow: &Flow, load: &Load, attempt: u32) -> f64 {
        let shared = |nic: Nic| {
            let shared = self.shared.get(&nic.node).into_iter().flatten();
            shared
                .map(|shared| shared.lets_through(nic, load))
                .fold(1.0, f64::min)
        };
        let path = self.paths.get(&(flow.from, flow.to.node));
        let rail = self.slow_rails.get(&flow.from.rail);
        let given = [path, rail].into_iter().flatten().copied();
        // Whoever sends to one NIC at once shares its line.
        let into = 1.0 / f64::from(load.flows_into(flow.to));
        given
            .chain([into])
            .chain([shared(flow.from), shared(flow.to)])
            .chain([self.flaky(flow.from, flow, attempt)])
            .chain([self.flaky(flow.to, flow, attempt)])
            .fold(self.fabric.lets_through(flow, load, attempt), f64::min)
    }

    fn flaky(&self, nic: Nic, flow: &Flow, attempt: u32) -> f64 {
        let Some(&(share, ratio)) = self.nics.get(&nic).map(|limits| &limits.flaky) else {
            return 1.0;
        };
        let [from, to, attempt] = about(flow, attempt);
        let whose = u64::from(nic == flow.to);
        let mut chance = Mix::of(self.seed, Why::Flaky, &[from, to, attempt, whose]);
        if chance.share() < share { ratio } else { 1.0 }
    }

    /// What chance leaves of a rate: 1 at the most, above 0.
    fn chance(&self, flow: &Flow, attempt: u32) -> f64 {
        let mut chance = Mix::of(self.seed, Why::Rate, &about(flow, attempt));
        let outlier = match chance.share() < self.outliers.share {
            true => 1.0 - self.outliers.depth,
            false => 1.0,
        };
        (1.0 - self.noise * chance.normal().abs()).max(0.5) * outlier
    }
}

/// Lowers one direction, or both.
fn least(ways: &mut [f64; 2], direction: Option<Direction>, ratio: f64) {
    let [send, receive] = ways;
    if direction != Some(Direction::Rx) {
        *send = send.min(ratio);
    }
    if direction != Some(Direction::Tx) {
        *receive = receive.min(ratio);
    }
}

impl Limits {
    /// What the port carries, in Gb/s.
    fn line(&self) -> f64 {
        self.generation.line_rate().0
    }
}
