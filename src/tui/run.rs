//! What the dashboard knows of a run: the ledger, its judgement, and what is drawn of them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::grid::Grid;
use super::journal::Journal;
use super::live::Live;
use super::pairs::Pairs;
use crate::judge::Judgement;
use crate::ledger::Ledger;
use crate::model::{Event, Finding, Purpose, Record, Severity};

/// What the run is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nodes are on their way.
    Reaching,
    /// A round of such probes.
    Round(Purpose),
    /// It has ended.
    Over,
    /// Nothing is run: what NICs carry is watched.
    Watching,
}

/// The round that is played.
#[derive(Debug, Clone, Copy, Default)]
pub struct Round {
    /// Its number, from 0.
    pub number: u32,
    /// Its probes.
    pub planned: usize,
    /// Those of them that ended.
    pub ended: usize,
}

/// A run, as far as it is known.
#[derive(Debug, Default)]
pub struct Run {
    ledger: Arc<Ledger>,
    judgement: Option<Box<Judgement>>,
    grid: Grid,
    pairs: Pairs,
    journal: Journal,
    live: Live,
    /// What came while somebody read the ledger.
    waiting: VecDeque<Box<Record>>,
    round: Option<Round>,
    purpose: Option<Purpose>,
    begun_ms: Option<u64>,
    first_round_ms: Option<u64>,
    last_ms: u64,
    learned: u64,
    judgements: u64,
    counts: [usize; 4],
    surveyed: usize,
    over: bool,
}

impl Run {
    /// Takes in what happened next; what comes while a judge reads waits until it has read.
    pub fn learn(&mut self, record: Box<Record>) {
        // Nothing is judged by samples: the books stay small, and samples never wait for a judge.
        match &record.event {
            Event::NodeSampled { node, sample } => {
                self.last_ms = self.last_ms.max(record.at_ms);
                return self.live.sampled(node, sample, record.at_ms);
            }
            Event::NodeWatched { node, layout } => self.live.watched(node, layout),
            Event::NodeLost { node, .. } => self.live.lost(node),
            _ => {}
        }
        self.waiting.push_back(record);
        self.catch_up();
    }

    /// Takes in what waited, where nobody reads the ledger.
    pub(super) fn catch_up(&mut self) {
        while let Some(ledger) = Arc::get_mut(&mut self.ledger) {
            let Some(record) = self.waiting.pop_front() else {
                return;
            };
            ledger.apply(&record.event);
            self.note(&record);
        }
    }

    fn note(&mut self, record: &Record) {
        let holders = matches!(record.event, Event::NodeQueuePairs { .. });
        self.learned += u64::from(!holders);
        self.begun_ms.get_or_insert(record.at_ms);
        self.last_ms = self.last_ms.max(record.at_ms);
        self.journal.learn(record, &self.ledger);
        match &record.event {
            Event::RoundPlanned { round, pairs } => {
                self.first_round_ms.get_or_insert(record.at_ms);
                self.purpose = pairs.iter().map(|planned| planned.purpose).max();
                self.round = Some(Round {
                    number: *round,
                    planned: pairs.len(),
                    ended: 0,
                });
            }
            Event::ProbeEnded { .. } => {
                if let Some(round) = &mut self.round {
                    round.ended = (round.ended + 1).min(round.planned);
                }
            }
            Event::NodeSurveyed { .. } | Event::RunStarted { .. } | Event::RunResumed { .. } => {
                let nodes = self.ledger.nodes();
                self.surveyed = nodes.filter(|(_, node)| node.facts.is_some()).count();
            }
            _ => {}
        }
        self.grid.learn(&record.event, &self.ledger);
        self.pairs.learn(&record.event, &self.ledger, &self.grid);
    }

    /// Takes in how it was judged.
    pub fn judged(&mut self, judgement: Judgement) {
        self.catch_up();
        self.grid.judged(&judgement, &self.ledger);
        self.counts = [0; 4];
        for finding in &judgement.findings {
            self.counts[place(finding.severity)] += 1;
        }
        self.judgements += 1;
        self.judgement = Some(Box::new(judgement));
    }

    /// Nothing more will come; why, where that is no ordinary end.
    pub fn end(&mut self, why: Option<String>) {
        self.catch_up();
        self.over = true;
        if let Some(why) = why {
            self.journal.add(self.last_ms, why, true);
        }
    }

    /// The ledger, for who reads it elsewhere: until it is dropped there, what happens waits.
    pub(super) fn lend(&self) -> Arc<Ledger> {
        Arc::clone(&self.ledger)
    }

    /// The ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// How it was judged last.
    pub fn judgement(&self) -> Option<&Judgement> {
        self.judgement.as_deref()
    }

    /// Its findings, the worst first.
    pub fn findings(&self) -> &[Finding] {
        self.judgement()
            .map_or(&[], |judgement| &judgement.findings)
    }

    /// How many findings are of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.counts[place(severity)]
    }

    /// How many nodes are surveyed.
    pub fn surveyed(&self) -> usize {
        self.surveyed
    }

    /// How often it was judged.
    pub fn judgements(&self) -> u64 {
        self.judgements
    }

    /// What NICs carry now.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// The grid.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// What is known of each pair.
    pub fn pairs(&self) -> &Pairs {
        &self.pairs
    }

    /// The log.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The round that is played, or was played last.
    pub fn round(&self) -> Option<Round> {
        self.round
    }

    /// Whether nothing more will be measured: the last connections may still be closing.
    pub fn is_over(&self) -> bool {
        self.over || self.ledger.end().is_some()
    }

    /// Whether everything that came is in the ledger.
    pub fn is_whole(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many events are in the ledger.
    pub fn learned(&self) -> u64 {
        self.learned
    }

    /// What the run is at.
    pub fn phase(&self) -> Phase {
        match (self.is_over(), self.purpose) {
            (true, _) => Phase::Over,
            (_, None) if self.is_watch() => Phase::Watching,
            (_, Some(purpose)) => Phase::Round(purpose),
            (_, None) => Phase::Reaching,
        }
    }

    /// Whether nothing is run, and only watched.
    pub fn is_watch(&self) -> bool {
        self.ledger.settings().is_none() && self.begun_ms.is_some()
    }

    /// For how long it has run, in milliseconds; `now_ms` counts while it runs.
    pub fn elapsed_ms(&self, now_ms: Option<u64>) -> u64 {
        let until = match (self.is_over(), now_ms) {
            (false, Some(now)) => now.max(self.last_ms),
            _ => self.last_ms,
        };
        until.saturating_sub(self.begun_ms.unwrap_or(until))
    }

    /// How long what is still to be measured will take, going by what was measured; in milliseconds.
    pub fn left_ms(&self) -> Option<u64> {
        let coverage = &self.judgement()?.coverage;
        let done = coverage.measured + coverage.failed;
        let spent = self.last_ms.checked_sub(self.first_round_ms?)?;
        let left = coverage
            .total()
            .checked_sub(done)
            .filter(|left| *left > 0)?;
        (done > 0 && !self.is_over()).then(|| spent / done as u64 * left as u64)
    }
}

fn place(severity: Severity) -> usize {
    match severity {
        Severity::Fault => 0,
        Severity::NotJudged => 1,
        Severity::Warning => 2,
        Severity::Note => 3,
    }
}
