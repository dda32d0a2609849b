//! Probes, and what several of them say of the same pair.

use std::collections::{BTreeMap, HashSet};

use super::{Brief, Ledger};
use crate::model::{Gbps, Measurement, NodeName, Outcome, Pair, PlannedPair, ProbeStage};

/// A planned probe and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Its number, pair and addresses.
    pub planned: PlannedPair,
    /// The numbers of its sender and receiver ([`Ledger::number`]).
    pub ends: [usize; 2],
    /// The round it belongs to.
    pub round: u32,
    /// Whether data began to move.
    pub started: bool,
    /// What came of it; `None` while it runs or where the run was cut off.
    pub outcome: Option<Outcome>,
}

impl Probe {
    /// Whether something came of it: a rate, or a failure.
    pub fn was_tried(&self) -> bool {
        matches!(
            self.outcome,
            Some(Outcome::Measured { .. } | Outcome::Failed { .. })
        )
    }

    /// What was measured, where something was.
    pub fn measurement(&self) -> Option<&Measurement> {
        match &self.outcome {
            Some(Outcome::Measured { measurement, .. }) => Some(measurement),
            _ => None,
        }
    }

    /// The rate that was measured, where there is one.
    pub fn rate(&self) -> Option<Gbps> {
        self.measurement().and_then(Measurement::rate)
    }
}

/// All probes of one pair, the best one first to be asked: a probe can be slowed by chance, and
/// nothing makes it faster than the link.
#[derive(Debug, Clone)]
pub struct PairSummary<'a> {
    /// The pair.
    pub pair: &'a Pair,
    /// Its probes, in order.
    pub attempts: Vec<&'a Probe>,
}

/// What is known of a pair.
#[derive(Debug, Clone, PartialEq)]
pub enum PairState<'a> {
    /// At least one probe of it measured something: the best.
    Measured {
        /// The probe.
        probe: &'a Probe,
        /// Its rate.
        rate: Gbps,
    },
    /// Every probe of it that ended went wrong: the last.
    Failed {
        /// In which step.
        stage: ProbeStage,
        /// The node that reported it.
        node: Option<&'a NodeName>,
        /// Why.
        why: &'a str,
    },
    /// None of its probes was run.
    NotRun {
        /// Why not.
        why: &'a str,
    },
}

impl<'a> PairSummary<'a> {
    /// What its probes add up to.
    pub fn state(&self) -> PairState<'a> {
        let measured = self
            .attempts
            .iter()
            .filter_map(|probe| Some((*probe, probe.rate()?)));
        if let Some((probe, rate)) = measured.max_by(|a, b| a.1.0.total_cmp(&b.1.0)) {
            return PairState::Measured { probe, rate };
        }
        let failed = self
            .attempts
            .iter()
            .rev()
            .find_map(|probe| match &probe.outcome {
                Some(Outcome::Failed { stage, node, why }) => Some(PairState::Failed {
                    stage: *stage,
                    node: node.as_ref(),
                    why,
                }),
                Some(Outcome::Measured { .. }) => Some(PairState::Failed {
                    stage: ProbeStage::Run,
                    node: None,
                    why: "the transfer took no time that could be measured",
                }),
                _ => None,
            });
        failed.unwrap_or_else(|| PairState::NotRun {
            why: self.why_not_run(),
        })
    }

    fn why_not_run(&self) -> &'a str {
        let why = self.attempts.iter().find_map(|probe| match &probe.outcome {
            Some(Outcome::NotRun { why }) => Some(why.as_str()),
            _ => None,
        });
        why.unwrap_or("the run was cut off before it ended")
    }

    /// Whether it was planned, and only the end of the run keeps its probes from ending.
    pub fn is_to_come(&self) -> bool {
        self.attempts.iter().all(|probe| probe.outcome.is_none())
    }

    /// How many of its probes were tried.
    pub fn tries(&self) -> usize {
        self.attempts
            .iter()
            .filter(|probe| probe.was_tried())
            .count()
    }

    /// The probes that measured something, with their rates.
    pub fn measured(&self) -> impl Iterator<Item = (&'a Probe, Gbps)> {
        self.attempts
            .iter()
            .filter_map(|probe| Some((*probe, probe.rate()?)))
    }
}

impl Ledger {
    /// Every pair that was planned, by rail, sender and receiver, with its probes under the conditions of
    /// the run: those that tell causes apart measure something else.
    pub fn pairs(&self) -> Vec<PairSummary<'_>> {
        self.summed_up(|_| true)
    }

    /// Those of them of which a probe was tried and gave no rate.
    pub fn pairs_with_a_failure(&self) -> Vec<PairSummary<'_>> {
        let briefs = self.in_brief().map(|(brief, _)| brief);
        let failed = briefs.filter(|brief| brief.was_tried() && brief.rate.is_none());
        let failed: HashSet<[u32; 2]> = failed.map(|brief| brief.ends).collect();
        match failed.is_empty() {
            true => Vec::new(),
            false => self.summed_up(|brief| failed.contains(&brief.ends)),
        }
    }

    fn summed_up(&self, counts: impl Fn(&Brief) -> bool) -> Vec<PairSummary<'_>> {
        let mut by_pair: BTreeMap<_, PairSummary<'_>> = BTreeMap::new();
        let usual = self
            .in_brief()
            .filter(|(brief, _)| brief.purpose.is_usual());
        for (_, probe) in usual.filter(|(brief, _)| counts(brief)) {
            let pair = &probe.planned.pair;
            let summary = || PairSummary {
                pair,
                attempts: Vec::new(),
            };
            let key = (pair.rail, &pair.from, &pair.to);
            by_pair
                .entry(key)
                .or_insert_with(summary)
                .attempts
                .push(probe);
        }
        by_pair.into_values().collect()
    }
}
