//! A checked acceptance profile: what must hold of a cluster, and what is borne for a while.

mod demand;
mod words;

pub use demand::{
    Amount, BandwidthDemand, Bounds, CannotTellIs, CountOf, CpuDemand, CpuEnds, Demand,
    FindingsDemand, GpuDirectWay, LatencyDemand, Memory, NumaDemand, PcieDemand, Percentile,
    TextDemand, TextOf, Ways,
};

use crate::model::{CostStep, NodeName, Rail, Weight};

/// An acceptance profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// What it is for, in the words of whoever wrote it.
    pub name: String,
    /// The file that it is from.
    pub file: String,
    /// What must, or should, hold: in the order of the file, coverage first where the file does not name it.
    pub checks: Vec<Check>,
    /// What is borne for a while.
    pub exceptions: Vec<Exception>,
}

/// A named check.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// The line of the file, from 1; none of what every profile has.
    pub line: Option<usize>,
    /// How much it weighs.
    pub weight: Weight,
    /// What must hold.
    pub demand: Demand,
    /// Of whom.
    pub select: Select,
}

/// Of which nodes and rails; an empty list is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Select {
    /// These nodes.
    pub nodes: Vec<NodeName>,
    /// These rails.
    pub rails: Vec<Rail>,
    /// The nodes of these leaf groups.
    pub groups: Vec<String>,
}

/// What is borne of some nodes, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// The nodes.
    pub nodes: Vec<NodeName>,
    /// The checks by name; empty is all.
    pub checks: Vec<String>,
    /// The rails; empty is all, and what is about a whole node.
    pub rails: Vec<Rail>,
    /// Why.
    pub reason: String,
    /// The last day on which it counts.
    pub until: jiff::civil::Date,
    /// The line of the file, from 1.
    pub line: usize,
}

impl Profile {
    /// Where a line of the profile is, for whoever reads a report: `hgx.toml, line 12`.
    pub fn place(&self, line: Option<usize>) -> String {
        match line {
            Some(line) => format!("{}, line {line}", self.file),
            None => "what every profile demands".to_owned(),
        }
    }

    /// The ways of moving data whose cost has to be measured, each once.
    pub fn cost_steps(&self) -> Vec<CostStep> {
        let steps = self
            .checks
            .iter()
            .filter_map(|check| check.demand.cost_step());
        let mut steps: Vec<CostStep> = steps.collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    }
}
