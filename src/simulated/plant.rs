//! Faults at places that a seed picks, by the number: for tests of properties, and for benchmarks.

use std::collections::HashSet;

use super::load::Nic;
use super::mix::{Mix, Why};
use crate::config::{Fault, Place, Scenario};
use crate::model::{Direction, End, MemoryKind, NicId, Rail};

/// What is left of the line of something that is slow: half of it, as most often.
const RATIO: f64 = 0.5;

/// Lanes of a narrow PCIe link: half of them.
const NARROW: u8 = 8;

/// The share of a flaky NIC's probes that are slow.
const FLAKY: f64 = 0.3;

/// A kind of fault that can be planted anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// [`Fault::SlowNic`] that sends too little.
    SlowSender,
    /// [`Fault::SlowNic`] that receives too little.
    SlowReceiver,
    /// [`Fault::SlowNic`] both ways.
    SlowNic,
    /// [`Fault::NarrowPcie`] with 8 lanes.
    NarrowPcie,
    /// [`Fault::SharedSwitch`] of two neighbouring rails.
    SharedSwitch,
    /// [`Fault::NodeLimit`].
    NodeLimit,
    /// [`Fault::HalfDuplex`].
    HalfDuplex,
    /// [`Fault::GpuPath`] both ways; the scenario's probes use GPU memory from then on.
    GpuPath,
    /// [`Fault::OneQueuePair`].
    OneQueuePair,
    /// [`Fault::FlakyNic`].
    FlakyNic,
    /// [`Fault::DeadNic`].
    DeadNic,
    /// [`Fault::SwappedCables`] of two neighbouring rails.
    SwappedCables,
    /// [`Fault::SlowPath`].
    SlowPath,
    /// [`Fault::PortDown`].
    PortDown,
    /// [`Fault::LostNode`] that is never reached.
    LostNode,
    /// [`Fault::SilentNode`] from the second round on.
    SilentNode,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 16] = [
        Self::SlowSender,
        Self::SlowReceiver,
        Self::SlowNic,
        Self::NarrowPcie,
        Self::SharedSwitch,
        Self::NodeLimit,
        Self::HalfDuplex,
        Self::GpuPath,
        Self::OneQueuePair,
        Self::FlakyNic,
        Self::DeadNic,
        Self::SwappedCables,
        Self::SlowPath,
        Self::PortDown,
        Self::LostNode,
        Self::SilentNode,
    ];

    /// How many neighbouring rails of its node it takes; `None` for all.
    fn takes(self) -> Option<u16> {
        match self {
            Self::NodeLimit | Self::LostNode | Self::SilentNode => None,
            Self::SharedSwitch | Self::SwappedCables => Some(2),
            _ => Some(1),
        }
    }

    /// Such a fault; `at` is the first of the NICs that it takes, `to` another node.
    fn fault(self, scenario: &Scenario, at: Nic, to: u16) -> Fault {
        let node = scenario.name(at.node);
        let nic = Place {
            node: node.clone(),
            rail: at.rail,
        };
        let (ratio, rails) = (RATIO, [at.rail, at.rail + 1]);
        let slow = |nic, direction| Fault::SlowNic {
            nic,
            direction,
            ratio,
        };
        match self {
            Self::SlowSender => slow(nic, Some(Direction::Tx)),
            Self::SlowReceiver => slow(nic, Some(Direction::Rx)),
            Self::SlowNic => slow(nic, None),
            Self::NarrowPcie => Fault::NarrowPcie { nic, width: NARROW },
            Self::SharedSwitch => Fault::SharedSwitch {
                node,
                rails: rails.to_vec(),
                ratio,
            },
            Self::NodeLimit => Fault::NodeLimit { node, ratio },
            Self::HalfDuplex => Fault::HalfDuplex { nic, ratio },
            Self::GpuPath => Fault::GpuPath {
                nic,
                direction: None,
                ratio,
            },
            Self::OneQueuePair => Fault::OneQueuePair { nic, ratio },
            Self::FlakyNic => Fault::FlakyNic {
                nic,
                share: FLAKY,
                ratio,
            },
            Self::DeadNic => Fault::DeadNic { nic },
            Self::SwappedCables => Fault::SwappedCables { node, rails },
            Self::SlowPath => Fault::SlowPath {
                from: nic,
                to: scenario.name(to),
                ratio,
            },
            Self::PortDown => Fault::PortDown { nic },
            Self::LostNode => Fault::LostNode { node, round: None },
            Self::SilentNode => Fault::SilentNode {
                node,
                round: Some(2),
            },
        }
    }
}

/// Plants `count` faults of these kinds in turn, each on NICs that no other fault is on, at places
/// that the seed picks. Returns how many there was room for.
pub fn plant(scenario: &mut Scenario, kinds: &[FaultKind], count: usize, seed: u64) -> usize {
    let mut taken: HashSet<Nic> = scenario
        .faults
        .iter()
        .flat_map(|fault| nics(scenario, fault))
        .collect();
    let mut chance = Mix::of(seed, Why::Plant, &[scenario.faults.len() as u64]);
    let before = scenario.faults.len();
    for kind in kinds.iter().cycle().take(count) {
        let Some(at) = free(scenario, *kind, &taken, &mut chance) else {
            continue;
        };
        let fault = kind.fault(scenario, at, other(scenario, at.node, &mut chance));
        taken.extend(nics(scenario, &fault));
        if *kind == FaultKind::GpuPath {
            scenario.memory = MemoryKind::Gpu;
        }
        scenario.faults.push(fault);
    }
    scenario.faults.len() - before
}

/// From a random place on the first where a fault of a kind fits.
fn free(
    scenario: &Scenario,
    kind: FaultKind,
    taken: &HashSet<Nic>,
    chance: &mut Mix,
) -> Option<Nic> {
    let (nodes, rails) = (scenario.nodes, scenario.rails);
    let takes = kind.takes().unwrap_or(rails);
    if takes > rails || (kind == FaultKind::SlowPath && nodes < 2) {
        return None;
    }
    // Neighbours are NICs 0 and 1, 2 and 3, …: those that a board has below one switch.
    let places = rails / takes;
    let (first, rail) = (chance.below(nodes), chance.below(places));
    let fits = |at: &Nic| {
        let mut mine = at.rail..at.rail + takes;
        mine.all(|rail| !taken.contains(&Nic { rail, ..*at }))
    };
    let node = |n: u16| ((u32::from(first) + u32::from(n)) % u32::from(nodes)) as u16;
    let mut all = (0..nodes).flat_map(|n| {
        let node = node(n);
        (0..places).map(move |r| Nic {
            node,
            rail: (rail + r) % places * takes,
        })
    });
    all.find(fits)
}

/// Any node but this one.
fn other(scenario: &Scenario, node: u16, chance: &mut Mix) -> u16 {
    let step = chance.below(scenario.nodes.saturating_sub(1));
    let other = u32::from(node) + 1 + u32::from(step);
    (other % u32::from(scenario.nodes.max(1))) as u16
}

/// The NICs that a fault is on.
fn nics(scenario: &Scenario, fault: &Fault) -> Vec<Nic> {
    let Some(node) = fault.node().and_then(|node| scenario.number(node)) else {
        return Vec::new();
    };
    let named = fault.rails();
    let all = || (0..scenario.rails).collect();
    let rails: Vec<u16> = if named.is_empty() { all() } else { named };
    rails.into_iter().map(|rail| Nic { node, rail }).collect()
}

/// The directions of NICs that a fault makes slow in a round that loads every rail both ways with one
/// queue pair; none where it is not slowness, or not of all probes.
pub fn slow_ends(scenario: &Scenario, fault: &Fault) -> Vec<End> {
    let (direction, slow) = match fault {
        Fault::SlowNic { direction, .. } => (*direction, true),
        Fault::GpuPath { direction, .. } => (*direction, scenario.memory == MemoryKind::Gpu),
        Fault::NarrowPcie { .. }
        | Fault::SharedSwitch { .. }
        | Fault::NodeLimit { .. }
        | Fault::HalfDuplex { .. }
        | Fault::OneQueuePair { .. } => (None, true),
        _ => (None, false),
    };
    let nics = nics(scenario, fault).into_iter().filter(|_| slow);
    let ways = [Direction::Tx, Direction::Rx];
    let mine = ways
        .into_iter()
        .filter(move |way| direction.is_none_or(|only| only == *way));
    nics.flat_map(|nic| mine.clone().map(move |direction| (nic, direction)))
        .map(|(nic, direction)| end(scenario, nic, direction))
        .collect()
}

fn end(scenario: &Scenario, nic: Nic, direction: Direction) -> End {
    End {
        rail: Rail(nic.rail),
        nic: NicId {
            node: scenario.name(nic.node),
            device: Scenario::device(nic.rail).into(),
            port: 1,
        },
        direction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_scenario;

    fn scenario(nodes: u16, rails: u16) -> Scenario {
        read_scenario(&format!("nodes = {nodes}\nrails = {rails}"), "test").unwrap()
    }

    #[test]
    fn faults_of_every_kind_are_planted_and_none_on_another() {
        let mut mixed = scenario(64, 8);
        assert_eq!(plant(&mut mixed, &FaultKind::ALL, 48, 3), 48);
        let taken: Vec<Nic> = mixed.faults.iter().flat_map(|f| nics(&mixed, f)).collect();
        let different: HashSet<&Nic> = taken.iter().collect();
        assert_eq!(taken.len(), different.len());
        assert_eq!(mixed.memory, MemoryKind::Gpu);
        // More come beside those that are there.
        assert_eq!(plant(&mut mixed, &[FaultKind::SlowSender], 5, 3), 5);
        assert_eq!(mixed.faults.len(), 53);
    }

    #[test]
    fn the_seed_picks_the_places() {
        let planted = |seed| {
            let mut scenario = scenario(128, 4);
            plant(&mut scenario, &FaultKind::ALL, 20, seed);
            scenario.faults
        };
        assert_eq!(planted(1), planted(1));
        assert_ne!(planted(1), planted(2));
    }

    #[test]
    fn no_more_are_planted_than_there_is_room_for() {
        let mut small = scenario(2, 2);
        assert_eq!(plant(&mut small, &[FaultKind::SlowSender], 9, 1), 4);
        assert_eq!(plant(&mut small, &[FaultKind::NodeLimit], 1, 1), 0);
        assert_eq!(plant(&mut scenario(1, 1), &[FaultKind::SlowPath], 1, 1), 0);
        assert_eq!(
            plant(&mut scenario(4, 1), &[FaultKind::SharedSwitch], 1, 1),
            0
        );
        assert_eq!(plant(&mut small, &[], 3, 1), 0);
    }

    #[test]
    fn what_a_fault_makes_slow_is_told_by_direction() {
        let scenario = scenario(4, 4);
        let ends = |kind: FaultKind| {
            let fault = kind.fault(&scenario, Nic { node: 1, rail: 2 }, 3);
            let ends = slow_ends(&scenario, &fault);
            ends.iter()
                .map(|end| format!("{} {}", end.nic, end.direction))
                .collect::<Vec<_>>()
        };
        assert_eq!(ends(FaultKind::SlowSender), ["mlx5_2 of node002 tx"]);
        assert_eq!(ends(FaultKind::SharedSwitch).len(), 4);
        assert_eq!(ends(FaultKind::NodeLimit).len(), 8);
        assert!(ends(FaultKind::GpuPath).is_empty(), "it uses host memory");
        assert!(ends(FaultKind::FlakyNic).is_empty());
    }
}
