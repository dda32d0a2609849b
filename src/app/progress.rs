//! What a person at a terminal sees while a run goes on: one line on standard error, kept out of
//! files and pipes.

use std::collections::{HashMap, HashSet};
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::ledger::{Ledger, PairState};
use crate::model::{Event, NodeName, Outcome, Pair, ProbeId, Purpose, Rail, RailNic};

/// The line.
pub(super) struct Progress {
    bar: ProgressBar,
    nodes: HashMap<NodeName, bool>,
    total: usize,
    pairs: usize,
    planned: HashMap<ProbeId, Pair>,
    measured: HashSet<Pair>,
    /// Nodes on which nccl-tests were started.
    testing: usize,
}

impl Progress {
    /// A line for a run over so many nodes; silent where standard error is no terminal.
    pub(super) fn new(total: usize) -> Self {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            nodes: HashMap::new(),
            total,
            pairs: 0,
            planned: HashMap::new(),
            measured: HashSet::new(),
            testing: 0,
        }
    }

    /// Counts what a resumed run has measured already.
    pub(super) fn recall(&mut self, so_far: &Ledger) {
        let pairs = so_far.pairs();
        let measured = pairs
            .iter()
            .filter(|summary| matches!(summary.state(), PairState::Measured { .. }));
        self.measured
            .extend(measured.map(|summary| summary.pair.clone()));
    }

    /// A handle for whoever must write beside the line.
    pub(super) fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Shows what an event changed.
    pub(super) fn show(&mut self, event: &Event) {
        match event {
            Event::NodeStage { node, stage } => self
                .bar
                .set_message(format!("{}: {node} {stage}", self.reached())),
            Event::NodeSurveyed { node, .. } => self.settled(node, true),
            Event::NodeLost { node, why } => {
                self.settled(node, false);
                self.bar.suspend(|| eprintln!("{node}: {why}"));
            }
            Event::RailsResolved { nics } => self.pairs = pairs(nics),
            Event::RoundPlanned { round, pairs }
                if pairs.iter().any(|pair| pair.purpose == Purpose::Cost) =>
            {
                self.planned.clear();
                let text = format!("round {}: what moving data costs", round + 1);
                self.bar.set_message(text);
            }
            Event::RoundPlanned { round, pairs } => {
                self.planned = pairs.iter().map(|p| (p.probe, p.pair.clone())).collect();
                let text = format!(
                    "round {}: {} of {} pairs measured",
                    round + 1,
                    self.measured.len(),
                    self.pairs
                );
                self.bar.set_message(text);
            }
            // A failed probe measured nothing, and a retest no other pair.
            Event::ProbeEnded {
                probe,
                outcome: Outcome::Measured { .. },
            } => {
                self.measured.extend(self.planned.remove(probe));
            }
            Event::NcclTestStarted { nodes, .. } => {
                self.testing += nodes.len();
                self.bar
                    .set_message(format!("nccl-tests on {} nodes", self.testing));
            }
            Event::RunFinished { .. } => self.bar.finish_and_clear(),
            _ => {}
        }
    }

    fn settled(&mut self, node: &NodeName, reached: bool) {
        self.nodes.insert(node.clone(), reached);
        self.bar.set_message(self.reached());
    }

    fn reached(&self) -> String {
        let reached = self.nodes.values().filter(|reached| **reached).count();
        format!("{reached} of {} nodes surveyed", self.total)
    }
}

/// Ordered pairs over all rails.
fn pairs(nics: &[RailNic]) -> usize {
    let mut rails: HashMap<Rail, usize> = HashMap::new();
    for entry in nics.iter().filter(|entry| entry.nic.value().is_some()) {
        *rails.entry(entry.rail).or_default() += 1;
    }
    rails.values().map(|n| n * (n - 1)).sum()
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
