//! Takes a confirmed fault apart: which probe tells the next two causes apart, or which cause is left.
//!
//! A NIC that is low while everything around it is loaded is measured alone, from host memory, one way,
//! and with more queue pairs; one that is full alone is measured with the NICs that share its root port.

use crate::model::{NodeStanding, Rail, Trial};

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
    OneWay(usize),
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
    let steps = [
        (
            setup.gpu_memory,
            nic.host_memory,
            Ask::HostMemory(at),
            Culprit::GpuPath,
        ),
        (
            setup.both_ways,
            nic.one_way,
            Ask::OneWay(at),
            Culprit::BothDirections,
        ),
        (true, nic.wide, Ask::Wide(at), Culprit::OneQueuePair),
    ];
    for (is_asked, trial, ask, culprit) in steps {
        match trial {
            _ if !is_asked => {}
            trial if trial.is_open() => return Decision::Next(ask),
            Trial::Full => return Decision::Known(culprit),
            _ => {}
        }
    }
    Decision::Known(Culprit::Nic)
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
