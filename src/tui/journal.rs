//! The log of a run: what happened, in sentences.

use std::collections::VecDeque;

use crate::ledger::Ledger;
use crate::model::{Event, NcclTestExit, Outcome, PlannedPair, Purpose, Record, RunEnd};

/// So many of the last entries are kept.
const MOST: usize = 4096;

/// Something that happened.
#[derive(Debug, Clone)]
pub struct Entry {
    /// When, in milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// What.
    pub says: String,
    /// Whether it is bad news.
    pub bad: bool,
}

/// The entries, the last at the end.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    entries: VecDeque<Entry>,
}

impl Journal {
    /// The entries.
    pub fn entries(&self) -> &VecDeque<Entry> {
        &self.entries
    }

    /// Writes down what is worth a line; the ledger has it already.
    pub fn learn(&mut self, record: &Record, ledger: &Ledger) {
        if let Some((says, bad)) = sentence(&record.event, ledger) {
            self.add(record.at_ms, says, bad);
        }
    }

    /// Writes down something that no event says.
    pub fn add(&mut self, at_ms: u64, says: String, bad: bool) {
        if self.entries.len() == MOST {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry { at_ms, says, bad });
    }
}

fn sentence(event: &Event, ledger: &Ledger) -> Option<(String, bool)> {
    let well = |says: String| Some((says, false));
    let bad = |says: String| Some((says, true));
    match event {
        Event::RunStarted { settings, .. } => {
            let nodes = settings.nodes.len();
            well(format!(
                "the run begins: {nodes} nodes, seed {}",
                settings.seed
            ))
        }
        Event::RunResumed { .. } => well("the run goes on".to_owned()),
        Event::NodeSurveyed { node, .. } => well(format!("{node}: surveyed")),
        Event::NodeLost { node, why } => bad(format!("{node}: {why}")),
        Event::PairSkipped {
            from,
            to,
            rail,
            why,
        } => bad(format!("{from} to {to} on {rail} is left out: {why}")),
        Event::RoundPlanned { round, pairs } => well(format!(
            "round {}: {}",
            round.saturating_add(1),
            probes(pairs)
        )),
        Event::ProbeEnded {
            probe,
            outcome: Outcome::Failed { stage, node, why },
        } => {
            let at = node.as_ref().map(|node| format!("{node}: "));
            let pair = ledger.probe(*probe).map(|probe| &probe.planned.pair);
            let who = pair.map_or_else(|| probe.to_string(), ToString::to_string);
            bad(format!("{who}: {}{stage}: {why}", at.unwrap_or_default()))
        }
        Event::NcclTestStarted { on, nodes, .. } => well(match on {
            Some(node) => format!("{node}: nccl-tests begin"),
            None => format!("nccl-tests begin on {} nodes", nodes.len()),
        }),
        Event::NcclTestEnded { on, end } => {
            let who = on
                .as_ref()
                .map_or(String::new(), |node| format!("{node}: "));
            match &end.how {
                NcclTestExit::Exited { code: 0 } => well(format!("{who}nccl-tests ended")),
                NcclTestExit::Exited { code } => {
                    bad(format!("{who}nccl-tests ended with exit code {code}"))
                }
                NcclTestExit::Failed { why } => bad(format!("{who}nccl-tests: {why}")),
            }
        }
        Event::RunFinished { end } => well(match end {
            RunEnd::Complete => "the run is complete".to_owned(),
            RunEnd::Interrupted => "the run was interrupted".to_owned(),
            RunEnd::TimeUp => "the time budget is spent".to_owned(),
        }),
        _ => None,
    }
}

fn probes(pairs: &[PlannedPair]) -> String {
    let purpose = pairs.iter().map(|planned| planned.purpose).max();
    let why = purpose.map_or("", purpose_in_words);
    match pairs.len() {
        1 => format!("1 probe, {why}"),
        many => format!("{many} probes, {why}"),
    }
}

/// Why a round is made.
pub(super) fn purpose_in_words(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Pattern => "of the pattern",
        Purpose::Confirm | Purpose::Load => "suspects against proved partners",
        Purpose::Again => "once more",
        Purpose::Alone => "the other rails idle",
        Purpose::HostMemory => "from and to host memory",
        Purpose::OneWay => "one direction at a time",
        Purpose::Wide => "more queue pairs and larger messages",
        Purpose::Siblings => "with those on the same PCIe switch",
        Purpose::Fabric => "between leaf groups",
        Purpose::Cabling => "which rail a cable is in",
        Purpose::Cost => "what moving data costs",
    }
}
