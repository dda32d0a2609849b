//! The switches between the NICs: for each rail a leaf switch over every group of nodes, and a spine
//! over all of them.

use std::collections::HashMap;

use super::load::{Flow, Leaf, Load, Nic};
use super::mix::{Mix, Why};
use crate::config::{Ecmp, Fault, Scenario, Uplink};
use crate::model::{Completion, Latency};

/// From one NIC to another over one leaf switch and back, in nanoseconds.
const ONE_LEAF_NS: f64 = 2000.0;

/// What the way over the spine adds.
const SPINE_NS: f64 = 1400.0;

/// How far a latency scatters, as a share of it.
const LATENCY_NOISE: f64 = 0.01;

/// Small writes that a latency is told of.
const SAMPLES: u32 = 1000;

/// Where the cables lead.
#[derive(Debug)]
pub(super) struct Fabric {
    seed: u64,
    leaf_size: u16,
    nodes: u16,
    ecmp: Ecmp,
    /// NICs whose cable is in the switch of another rail.
    cables: HashMap<Nic, u16>,
    uplinks: HashMap<(Leaf, Uplink), f64>,
}

impl Fabric {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut fabric = Self {
            seed,
            leaf_size: scenario.leaf_size.unwrap_or(scenario.nodes).max(1),
            nodes: scenario.nodes,
            ecmp: scenario.ecmp,
            cables: HashMap::new(),
            uplinks: HashMap::new(),
        };
        for fault in &scenario.faults {
            fabric.plant(scenario, fault);
        }
        fabric
    }

    fn plant(&mut self, scenario: &Scenario, fault: &Fault) {
        match fault {
            Fault::SwappedCables { node, rails } => {
                let (Some(node), [a, b]) = (scenario.number(node), *rails) else {
                    return;
                };
                self.cables.insert(Nic { node, rail: a }, b);
                self.cables.insert(Nic { node, rail: b }, a);
            }
            Fault::LeafUplink {
                leaf,
                rail,
                direction,
                ratio,
            } => {
                self.uplinks.insert(((*leaf, *rail), *direction), *ratio);
            }
            _ => {}
        }
    }

    /// The leaf switch that a NIC's cable is in.
    fn leaf(&self, nic: Nic) -> Leaf {
        let rail = self.cables.get(&nic).copied().unwrap_or(nic.rail);
        (nic.node / self.leaf_size, rail)
    }

    /// The leaf switches that a flow leaves and enters; `None` where one switch has both its ends.
    pub(super) fn spine(&self, flow: &Flow) -> Option<(Leaf, Leaf)> {
        let (from, to) = (self.leaf(flow.from), self.leaf(flow.to));
        (from != to).then_some((from, to))
    }

    /// How many nodes are below a leaf switch: the last one of a rail has the rest.
    fn below(&self, (leaf, _): Leaf) -> u32 {
        let first = u32::from(leaf) * u32::from(self.leaf_size);
        let rest = u32::from(self.nodes).saturating_sub(first);
        rest.min(self.leaf_size.into()).max(1)
    }

    /// The share of a flow's line that the switches let through beside the others.
    pub(super) fn lets_through(&self, flow: &Flow, load: &Load, attempt: u32) -> f64 {
        let Some((from, to)) = self.spine(flow) else {
            return 1.0;
        };
        let up = self.uplink((from, Uplink::Up), load.up.get(&from));
        let down = self.uplink((to, Uplink::Down), load.down.get(&to));
        up.min(down).min(self.collision(flow, from, load, attempt))
    }

    /// The flows share what an uplink has.
    fn uplink(&self, link: (Leaf, Uplink), flows: Option<&u32>) -> f64 {
        let Some(ratio) = self.uplinks.get(&link) else {
            return 1.0;
        };
        let flows = f64::from(flows.copied().unwrap_or(1).max(1));
        (f64::from(self.below(link.0)) * ratio / flows).min(1.0)
    }

    /// The emptier the uplinks are, the fewer flows meet on one.
    fn collision(&self, flow: &Flow, from: Leaf, load: &Load, attempt: u32) -> f64 {
        let flows = load.up.get(&from).copied().unwrap_or(1);
        let full = (f64::from(flows) / f64::from(self.below(from))).min(1.0);
        let mut chance = Mix::of(self.seed, Why::Collision, &about(flow, attempt));
        match chance.share() < self.ecmp.collisions * full {
            true => self.ecmp.ratio,
            false => 1.0,
        }
    }

    /// What a ping-pong between the NICs of a flow would measure.
    pub(super) fn latency(&self, flow: &Flow, attempt: u32, completion: Completion) -> Latency {
        let base = match self.spine(flow) {
            Some(_) => ONE_LEAF_NS + SPINE_NS,
            None => ONE_LEAF_NS,
        };
        let mut chance = Mix::of(self.seed, Why::Latency, &about(flow, attempt));
        let mut more = || base * LATENCY_NOISE * chance.normal().abs();
        let min = base + more();
        Latency {
            min_ns: min as u64,
            median_ns: (min + more()) as u64,
            samples: SAMPLES,
            completion,
        }
    }
}

/// The numbers that a flow and its attempt stand for.
pub(super) fn about(flow: &Flow, attempt: u32) -> [u64; 3] {
    let nic = |nic: Nic| u64::from(nic.node) << 16 | u64::from(nic.rail);
    [nic(flow.from), nic(flow.to), attempt.into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_scenario;
    use crate::model::MemoryKind;

    fn fabric(text: &str) -> Fabric {
        let text = format!("nodes = 16\nrails = 4\nleaf_size = 4\n{text}");
        Fabric::new(&read_scenario(&text, "test").unwrap(), 1)
    }

    fn flow(from: u16, to: u16, rail: u16) -> Flow {
        Flow {
            from: Nic { node: from, rail },
            to: Nic { node: to, rail },
            queue_pairs: 1,
            memory: MemoryKind::Host,
            mtu: 4096,
        }
    }

    /// Each node of the first leaf to one of the second, the first `flows` of them.
    fn loaded(fabric: &Fabric, flows: u16) -> Load {
        let mut load = Load::default();
        for node in 0..flows {
            let flow = flow(node, node + 4, 1);
            load.add(&flow, fabric.spine(&flow));
        }
        load
    }

    #[test]
    fn an_uplink_is_slow_as_far_as_it_is_full() {
        let text = "[[leaf_uplink]]\nleaf = 1\nrail = 1\ndirection = \"up\"\nratio = 0.5";
        let fabric = fabric(text);
        let share = |flows, flow| fabric.lets_through(&flow, &loaded(&fabric, flows), 1);
        assert_eq!(share(4, flow(0, 4, 1)), 0.5);
        assert_eq!(share(2, flow(0, 4, 1)), 1.0);
        // Neither within the leaf, nor the other way, nor on another rail.
        assert_eq!(share(4, flow(0, 1, 1)), 1.0);
        assert_eq!(share(4, flow(4, 0, 1)), 1.0);
        assert_eq!(share(4, flow(0, 4, 2)), 1.0);
        let down = text.replace("up", "down");
        let down = self::fabric(&down.replace("leaf_downlink", "leaf_uplink"));
        assert_eq!(down.lets_through(&flow(0, 4, 1), &loaded(&down, 4), 1), 1.0);
    }

    #[test]
    fn flows_between_leafs_collide_at_full_load_and_not_twice_the_same() {
        let fabric = fabric("[ecmp]\ncollisions = 0.3\nratio = 0.4");
        let share = |flows: u16| {
            let load = loaded(&fabric, flows);
            let hit = |attempt: &u32| fabric.lets_through(&flow(0, 4, 1), &load, *attempt) < 1.0;
            (0..4000).filter(hit).count() as f64 / 4000.0
        };
        assert!((share(4) - 0.3).abs() < 0.03, "{}", share(4));
        assert!((share(1) - 0.075).abs() < 0.02, "{}", share(1));
        let load = loaded(&fabric, 4);
        assert_eq!(fabric.lets_through(&flow(0, 1, 1), &load, 1), 1.0);
    }

    #[test]
    fn latency_tells_the_rail_that_a_cable_is_in() {
        let fabric = fabric("[[swapped_cables]]\nnode = \"node002\"\nrails = [0, 3]");
        let between = |from, to| {
            let flow = Flow {
                from,
                to,
                ..flow(0, 0, 0)
            };
            fabric.latency(&flow, 1, Completion::Event).median_ns
        };
        let nic = |node, rail| Nic { node, rail };
        let (near, far) = (1990..2200, 3380..3700);
        assert!(near.contains(&between(nic(0, 0), nic(2, 0))));
        assert!(far.contains(&between(nic(0, 0), nic(4, 0))));
        assert!(far.contains(&between(nic(0, 0), nic(2, 3))));
        // The swapped NIC is near to the other rail's.
        assert!(far.contains(&between(nic(0, 0), nic(1, 0))));
        assert!(near.contains(&between(nic(1, 0), nic(0, 3))));
        assert!(near.contains(&between(nic(0, 0), nic(1, 3))));
        let latency = |attempt| fabric.latency(&flow(0, 2, 0), attempt, Completion::Event);
        let one = latency(1);
        assert!(one.min_ns <= one.median_ns);
        assert_ne!(one, latency(2));
    }
}
