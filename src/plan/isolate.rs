//! Takes a confirmed fault apart: which probe tells the next two causes apart, or which cause is left.
//!
//! A NIC that is low while everything around it is loaded is measured alone, from host memory, one way,
//! and with more queue pairs; one that is full alone is measured with the NICs that share its root port.

use crate::model::{Direction, NodeStanding, Rail, Trial};

/// What the run's probes are like, and with it which comparisons there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// Whether its probes use GPU memory.
    pub gpu_memory: bool,
    /// Whether they load both directions at once.
    pub both_ways: bool,
}

/// Where the cause of a low NIC is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Culprit {
    /// In the NIC, its PCIe link, its cable or its switch port: it is low whatever was tried.
    Nic,
    /// It is low only while it sends and receives at once.
    BothDirections,
    /// It is low only with GPU memory.
    GpuPath,
    /// Several queue pairs reach what one does not.
    OneQueuePair,
    /// These rails are low only together, and share a root port.
    Shared(Vec<Rail>),
    /// It is low only while most rails of its node are loaded.
    Node,
    /// It is low only while other rails of its node are loaded, and none that it shares a root port with.
    UnderLoad,
}

/// A probe that tells causes apart. Numbers are places in [`NodeStanding::nics`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// With the other rails of its node idle.
    Alone(usize),
    /// The same, from and to host memory.
    HostMemory(usize),
    /// The same, one direction.
    OneWay(usize, Direction),
    /// The same with more queue pairs and larger messages.
    Wide(usize),
    /// Those that share a root port, together.
    Siblings(Vec<usize>),
}

/// What there is to do about a confirmed NIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// To be measured.
    Next(Ask),
    /// Known.
    Known(Culprit),
    /// What would tell was tried, and gave no rate.
    CannotTell,
}

/// From this share of a node's rails on they are taken for one fault: two of them stand for all.
const MOST: f64 = 0.75;

/// What is to be done about each accused NIC of a node, by its place.
pub fn decisions(node: &NodeStanding, setup: Setup) -> Vec<(usize, Decision)> {
    let accused = accused(node);
    let own = |at: &usize| (*at, decide(node, *at, setup));
    let Some(two) = representatives(node, &accused) else {
        return accused.iter().map(own).collect();
    };
    let told = two.map(|at| decide(node, at, setup));
    match told {
        [Decision::Known(one), Decision::Known(other)] if one == other => {
            let all = accused.iter();
            all.map(|at| (*at, Decision::Known(one.clone()))).collect()
        }
        // They disagree: each is looked at by itself.
        [
            Decision::Known(_) | Decision::CannotTell,
            Decision::Known(_) | Decision::CannotTell,
        ] => accused.iter().map(own).collect(),
        _ => two.iter().map(own).collect(),
    }
}

fn accused(node: &NodeStanding) -> Vec<usize> {
    let accused = |at: &usize| node.nics[*at].standing.is_accused();
    (0..node.nics.len()).filter(accused).collect()
}

/// Whether so many rails of a node make a fault of the node.
fn is_most(node: &NodeStanding, rails: usize) -> bool {
    rails >= 2 && rails as f64 >= MOST * measured(node) as f64
}

/// How many of a node's NICs were measured both ways: the others load nothing.
fn measured(node: &NodeStanding) -> usize {
    node.nics.iter().filter(|nic| !nic.is_unknown()).count()
}

/// Two accused NICs that stand for most of a node's, of different NUMA nodes where there are such.
fn representatives(node: &NodeStanding, accused: &[usize]) -> Option<[usize; 2]> {
    let (first, last) = (*accused.first()?, *accused.last()?);
    if accused.len() < 3 || !is_most(node, accused.len()) {
        return None;
    }
    let numa = |at: usize| node.nics[at].numa;
    let elsewhere = |at: &&usize| numa(**at) != numa(first);
    Some([
        first,
        accused.iter().find(elsewhere).copied().unwrap_or(last),
    ])
}

fn decide(node: &NodeStanding, at: usize, setup: Setup) -> Decision {
    let nic = &node.nics[at].standing;
    match nic.alone {
        trial if trial.is_open() => Decision::Next(Ask::Alone(at)),
        Trial::Low => low_alone(node, at, setup),
        Trial::Full => full_alone(node, at),
        _ => Decision::CannotTell,
    }
}

fn low_alone(node: &NodeStanding, at: usize, setup: Setup) -> Decision {
    let nic = &node.nics[at].standing;
    if setup.gpu_memory {
        match nic.host_memory {
            trial if trial.is_open() => return Decision::Next(Ask::HostMemory(at)),
            Trial::Full => return Decision::Known(Culprit::GpuPath),
            _ => {}
        }
    }
    if setup.both_ways {
        let accused = nic.accused();
        let open = accused.iter().find(|way| nic.one_way(**way).is_open());
        if let Some(way) = open {
            return Decision::Next(Ask::OneWay(at, *way));
        }
        if accused.iter().all(|way| nic.one_way(*way) == Trial::Full) {
            return Decision::Known(Culprit::BothDirections);
        }
    }
    match nic.wide {
        trial if trial.is_open() => Decision::Next(Ask::Wide(at)),
        Trial::Full => Decision::Known(Culprit::OneQueuePair),
        _ => Decision::Known(Culprit::Nic),
    }
}

fn full_alone(node: &NodeStanding, at: usize) -> Decision {
    let together = siblings(node, at);
    let rails = || together.iter().map(|at| node.nics[*at].rail).collect();
    let all = together.len() == measured(node);
    match node.nics[at].standing.siblings {
        // All rails share it: together is what they were when they were low.
        _ if together.len() > 1 && all => return Decision::Known(Culprit::Shared(rails())),
        trial if together.len() > 1 && trial.is_open() => {
            return Decision::Next(Ask::Siblings(together));
        }
        Trial::Low => return Decision::Known(Culprit::Shared(rails())),
        _ => {}
    }
    match is_most(node, accused(node).len()) {
        true => Decision::Known(Culprit::Node),
        false => Decision::Known(Culprit::UnderLoad),
    }
}

/// The NICs below the root port of one, itself among them; none where its place is unknown.
fn siblings(node: &NodeStanding, at: usize) -> Vec<usize> {
    let Some(root) = &node.nics[at].root_port else {
        return Vec::new();
    };
    let below = |at: &usize| {
        let nic = &node.nics[*at];
        nic.root_port.as_ref() == Some(root) && !nic.is_unknown()
    };
    (0..node.nics.len()).filter(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{EndStanding, NicId, NicStanding, PciAddress, RailStanding, Standing};

    const BOTH: Setup = Setup {
        gpu_memory: true,
        both_ways: true,
    };

    fn end(standing: Standing) -> EndStanding {
        EndStanding {
            standing,
            confirmations: 1,
        }
    }

    fn accused() -> NicStanding {
        NicStanding {
            tx: end(Standing::Accused),
            rx: end(Standing::Accused),
            ..NicStanding::default()
        }
    }

    fn good() -> NicStanding {
        NicStanding {
            tx: end(Standing::Good),
            rx: end(Standing::Good),
            ..NicStanding::default()
        }
    }

    /// A node whose n-th NIC is below the n-th root port.
    fn node(nics: Vec<(NicStanding, &str)>) -> NodeStanding {
        let nic = |(rail, (standing, root)): (usize, (NicStanding, &str))| RailStanding {
            rail: Rail(rail as u16),
            nic: NicId {
                node: "n".into(),
                device: format!("mlx5_{rail}").into(),
                port: 1,
            },
            root_port: Some(PciAddress(root.to_owned())),
            numa: Some(rail as u32 / 2),
            line: None,
            asks: None,
            standing,
        };
        NodeStanding {
            node: "n".into(),
            nics: nics.into_iter().enumerate().map(nic).collect(),
        }
    }

    #[test]
    fn what_stays_low_is_taken_apart_step_by_step() {
        let mut nic = accused();
        let decide = |nic: NicStanding| {
            let node = node(vec![(nic, "a"), (good(), "b"), (good(), "c")]);
            decisions(&node, BOTH).remove(0).1
        };
        let next = |ask| Decision::Next(ask);
        assert_eq!(decide(nic), next(Ask::Alone(0)));
        nic.alone = Trial::Low;
        assert_eq!(decide(nic), next(Ask::HostMemory(0)));
        nic.host_memory = Trial::Full;
        assert_eq!(decide(nic), Decision::Known(Culprit::GpuPath));
        nic.host_memory = Trial::Low;
        assert_eq!(decide(nic), next(Ask::OneWay(0, Direction::Tx)));
        nic.one_way[0] = Trial::Full;
        assert_eq!(decide(nic), next(Ask::OneWay(0, Direction::Rx)));
        nic.one_way[1] = Trial::Full;
        assert_eq!(decide(nic), Decision::Known(Culprit::BothDirections));
        nic.one_way[1] = Trial::Low;
        assert_eq!(decide(nic), next(Ask::Wide(0)));
        nic.wide = Trial::Full;
        assert_eq!(decide(nic), Decision::Known(Culprit::OneQueuePair));
        nic.wide = Trial::Low;
        assert_eq!(decide(nic), Decision::Known(Culprit::Nic));
        // Its sending is full by itself: it suffers from what it receives.
        assert!(nic.is_echo(Direction::Tx) && !nic.is_echo(Direction::Rx));
    }

    #[test]
    fn what_is_full_alone_is_looked_at_with_its_siblings() {
        let full = NicStanding {
            alone: Trial::Full,
            ..accused()
        };
        let decide = |node: &NodeStanding| decisions(node, BOTH).remove(0).1;
        let pair = |siblings| {
            let nic = NicStanding { siblings, ..full };
            node(vec![(nic, "a"), (full, "a"), (good(), "b"), (good(), "c")])
        };
        let open = decide(&pair(Trial::Open));
        assert_eq!(open, Decision::Next(Ask::Siblings(vec![0, 1])));
        let shared = Culprit::Shared(vec![Rail(0), Rail(1)]);
        assert_eq!(decide(&pair(Trial::Low)), Decision::Known(shared));
        assert_eq!(
            decide(&pair(Trial::Full)),
            Decision::Known(Culprit::UnderLoad)
        );
        // All of a node share it: together is what they were when they were low.
        let all = node(vec![(full, "a"), (full, "a")]);
        let shared = Culprit::Shared(vec![Rail(0), Rail(1)]);
        assert_eq!(decide(&all), Decision::Known(shared));
        let apart = node(vec![(full, "a"), (full, "b")]);
        assert_eq!(decide(&apart), Decision::Known(Culprit::Node));
    }

    #[test]
    fn two_stand_for_most_of_a_node() {
        let roots = ["a", "b", "c", "d"];
        let all = node(roots.map(|root| (accused(), root)).to_vec());
        let asked: Vec<_> = decisions(&all, BOTH);
        let alone = |at| (at, Decision::Next(Ask::Alone(at)));
        // Of different NUMA nodes.
        assert_eq!(asked, [alone(0), alone(2)]);
        let full = NicStanding {
            alone: Trial::Full,
            ..accused()
        };
        let two = [full, accused(), full, accused()];
        let told = decisions(&node(two.into_iter().zip(roots).collect()), BOTH);
        assert!(
            told.iter()
                .all(|(_, told)| *told == Decision::Known(Culprit::Node))
        );
        assert_eq!(told.len(), 4);
    }

    #[test]
    fn what_could_not_be_tried_twice_is_not_told() {
        let failed = NicStanding {
            alone: Trial::Failed(2),
            ..accused()
        };
        let told = decisions(&node(vec![(failed, "a"), (good(), "b")]), BOTH);
        assert_eq!(told, [(0, Decision::CannotTell)]);
    }
}
