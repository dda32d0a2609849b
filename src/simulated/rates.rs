//! What a probe of a simulated cluster reaches: the least of what sender, receiver, path and rail let
//! through, less what chance takes.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::config::{Fault, Outliers, Place, Scenario};
use crate::judge::efficiency;
use crate::model::{Direction, Gbps, Gid, LinkLayer, NodeFacts, NodeName};
use crate::topology::pcie_limit;

/// What one NIC lets through. The ratio is a share of its line's payload.
#[derive(Debug, Clone, Copy)]
struct Way {
    ratio: f64,
    pcie: Gbps,
}

/// Both ways of a NIC.
#[derive(Debug, Clone, Copy)]
struct Ends {
    send: Way,
    receive: Way,
}

/// What every pair of a scenario reaches.
#[derive(Debug)]
pub(super) struct Rates {
    seed: u64,
    line: Gbps,
    noise: f64,
    outliers: Outliers,
    nics: HashMap<Place, Ends>,
    paths: HashMap<(Place, NodeName), f64>,
    rails: HashMap<u16, f64>,
}

impl Rates {
    /// Of a scenario whose nodes have these facts.
    pub(super) fn new<'a>(
        scenario: &Scenario,
        nodes: impl IntoIterator<Item = (&'a NodeName, &'a NodeFacts)>,
        seed: u64,
    ) -> Self {
        let mut rates = Self {
            seed,
            line: scenario.generation.line_rate(),
            noise: scenario.noise,
            outliers: scenario.outliers,
            nics: HashMap::new(),
            paths: HashMap::new(),
            rails: HashMap::new(),
        };
        for (name, facts) in nodes {
            for rail in 0..scenario.rails {
                let node = name.clone();
                let ends = ends(facts, rail);
                rates.nics.insert(Place { node, rail }, ends);
            }
        }
        for fault in &scenario.faults {
            rates.plant(fault);
        }
        rates
    }

    fn plant(&mut self, fault: &Fault) {
        match fault {
            Fault::SlowNic {
                nic,
                direction,
                ratio,
            } => {
                let Some(ends) = self.nics.get_mut(nic) else {
                    return;
                };
                if *direction != Some(Direction::Rx) {
                    ends.send.ratio = ends.send.ratio.min(*ratio);
                }
                if *direction != Some(Direction::Tx) {
                    ends.receive.ratio = ends.receive.ratio.min(*ratio);
                }
            }
            Fault::SlowPath { from, to, ratio } => {
                self.paths.insert((from.clone(), to.clone()), *ratio);
            }
            Fault::SlowRail { rail, ratio } => {
                self.rails.insert(*rail, *ratio);
            }
            // The facts have these: a narrow link is in the PCIe tree.
            Fault::NarrowPcie { .. }
            | Fault::LostNode { .. }
            | Fault::SilentNode { .. }
            | Fault::PortDown { .. }
            | Fault::SmallMtu { .. }
            | Fault::NoGpuDirect { .. } => {}
        }
    }

    /// The payload rate of a probe at a path MTU in bytes; `attempt` tells probes of one pair apart.
    /// Chance takes away and never adds: nothing exceeds what the links carry.
    pub(super) fn of(&self, from: &Place, to: &NodeName, mtu: u32, attempt: u32) -> Option<Gbps> {
        let receiver = Place {
            node: to.clone(),
            rail: from.rail,
        };
        let (send, receive) = (self.nics.get(from)?.send, self.nics.get(&receiver)?.receive);
        let path = self.paths.get(&(from.clone(), to.clone())).copied();
        let rail = self.rails.get(&from.rail).copied();
        let ratio = send
            .ratio
            .min(receive.ratio)
            .min(path.unwrap_or(1.0))
            .min(rail.unwrap_or(1.0));
        let any = Gid::from(std::net::Ipv6Addr::UNSPECIFIED);
        let payload = self.line.0 * efficiency(LinkLayer::InfiniBand, any, mtu);
        let most = (payload * ratio).min(send.pcie.0).min(receive.pcie.0);
        Some(Gbps(most * self.chance(from, to, attempt)))
    }

    /// What chance leaves of a rate: 1 at the most, above 0.
    fn chance(&self, from: &Place, to: &NodeName, attempt: u32) -> f64 {
        // A hash, as for the order of nodes: a generator would depend on who is asked first.
        let digest = Sha256::new()
            .chain_update(self.seed.to_be_bytes())
            .chain_update(&from.node.0)
            .chain_update([0])
            .chain_update(&to.0)
            .chain_update([0])
            .chain_update(from.rail.to_be_bytes())
            .chain_update(attempt.to_be_bytes())
            .finalize();
        let [a, b, c] = [0, 8, 16].map(|at| share(&digest[at..at + 8]));
        // Box and Muller's way from two even numbers to a normal one.
        let normal = (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos();
        let outlier = match c < self.outliers.share {
            true => 1.0 - self.outliers.depth,
            false => 1.0,
        };
        (1.0 - self.noise * normal.abs()).max(0.5) * outlier
    }
}

/// Eight bytes as a number from 0 to below 1.
fn share(bytes: &[u8]) -> f64 {
    let number = bytes
        .iter()
        .fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    // 53 bits are as many as an f64 holds.
    (number >> 11) as f64 / (1u64 << 53) as f64
}

/// A healthy NIC, with what the PCIe links above it carry.
fn ends(facts: &NodeFacts, rail: u16) -> Ends {
    let tree = facts.pcie.value();
    let limit = tree.and_then(|tree| pcie_limit(tree, &super::pcie::nic(rail)).ok());
    let way = |most: Option<Gbps>| Way {
        ratio: 1.0,
        pcie: most.unwrap_or(Gbps(f64::INFINITY)),
    };
    Ends {
        send: way(limit.as_ref().map(|limit| limit.send)),
        receive: way(limit.as_ref().map(|limit| limit.receive)),
    }
}
