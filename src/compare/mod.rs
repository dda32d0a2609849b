//! Two runs beside each other: what got slower, faster, came, went or changed, with chance taken into
//! account. Pure; the same two ledgers always compare alike, whatever the order of their nodes.
//!
//! [`facts()`] and [`counters()`] are of use alone: they need surveys, and no rates.

mod counters;
mod facts;
mod findings;
mod groups;
mod presence;
mod rates;
mod settings;
mod spread;
#[cfg(test)]
mod tests;

pub use counters::{Counted, CounterChange, counters};
pub use facts::{FactChange, Facts, facts};
pub use findings::{FindingChange, Turn};
pub use groups::{FactGroup, RateGroup, Scope};
pub use presence::{Presence, Thing, Way};
pub use rates::{PairChange, RateChange, Rates};
pub use settings::{SettingChange, setting_leaves};
pub use spread::{LEAST_CHANGE, Spread};

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::{Judgement, Reached, reached};
use crate::ledger::Ledger;
use crate::model::{Direction, NicId, NodeName, Pair, Rail, RunEnd, Subject};

/// A run and what is to be said of it.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// Its events added up.
    pub ledger: &'a Ledger,
    /// Its judgement.
    pub judgement: &'a Judgement,
}

/// Which nodes are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Nodes {
    /// All: one that only one run was asked for is missing in the other.
    #[default]
    All,
    /// Only those that both runs were asked for.
    Common,
}

/// Which of the two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum When {
    /// The first, which the second is held against.
    Before,
    /// The second.
    After,
}

/// Whether a change is one for the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trend {
    /// There is less than before of what there should be more of: a regression.
    Worse,
    /// There is more.
    Better,
    /// Neither can be said: another firmware may be both.
    Other,
}

impl Trend {
    /// From how much there was to how much there is.
    fn of<T: PartialOrd>(before: T, after: T) -> Self {
        match () {
            () if after < before => Self::Worse,
            () if after > before => Self::Better,
            () => Self::Other,
        }
    }
}

/// Whom something that is compared is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Both runs as wholes.
    Run,
    /// A node.
    Node(NodeName),
    /// The NIC that plays a rail, as the second run calls it where it has it.
    Nic(Rail, NicId),
    /// One direction of it.
    End(Rail, NicId, Direction),
    /// A sender and a receiver.
    Pair(Pair),
    /// The subject of a finding.
    Subject(Subject),
}

/// Something that one run has not, so that it cannot be compared. Never the same as equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// What: `rate`, `node`, the name of a fact.
    pub what: String,
    /// Whose.
    pub place: Place,
    /// Why, to follow "because".
    pub why: String,
    /// Whether it leaves open whether something got worse.
    pub matters: bool,
}

/// How much was compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compared {
    /// Nodes that both runs surveyed.
    pub nodes: usize,
    /// Nodes that either was asked for.
    pub of_nodes: usize,
    /// Directions of NICs whose rates were compared.
    pub ends: usize,
    /// Those that either run has a NIC for.
    pub of_ends: usize,
    /// Facts that both runs know, of all nodes and NICs.
    pub facts: usize,
}

/// Why two runs are not held against each other at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// What was made up says nothing of what was measured.
    #[error("one of the runs is simulated and the other is not: nothing of them can be compared")]
    Simulated,
    /// There is no run in it.
    #[error("there is no run in one of them")]
    NoRun,
}

/// What there is to say of a comparison, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that matters was compared, and nothing is worse.
    NoRegression,
    /// Something is worse.
    Regressions,
    /// Nothing is seen to be worse, but not everything that matters could be compared.
    CouldNotCompare,
}

impl Outcome {
    /// 0, 1 or 3, as of every command.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::NoRegression => 0,
            Self::Regressions => 1,
            Self::CouldNotCompare => 3,
        }
    }

    /// As JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoRegression => "no_regression",
            Self::Regressions => "regressions",
            Self::CouldNotCompare => "could_not_compare",
        }
    }
}

/// Two runs beside each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// How much was compared.
    pub compared: Compared,
    /// What the NICs reached.
    pub rates: Rates,
    /// Nodes, NICs and GPUs that one of them does not have.
    pub presence: Vec<Presence>,
    /// What is known of nodes and NICs and is not what it was, those alike together.
    pub facts: Vec<FactGroup>,
    /// Counters of errors that went up from one survey to the other.
    pub counters: Vec<CounterChange>,
    /// Findings that only one of them has.
    pub findings: Vec<FindingChange>,
    /// What they were asked to do and did not do alike.
    pub settings: Vec<SettingChange>,
    /// What could not be compared.
    pub gaps: Vec<Gap>,
    /// Facts that neither run knows, by name, with how many nodes or NICs.
    pub known_to_neither: BTreeMap<&'static str, usize>,
}

impl Comparison {
    /// How many things are for the worse, those alike counted once.
    pub fn regressions(&self) -> usize {
        self.count(Trend::Worse)
    }

    /// How many are for the better.
    pub fn improvements(&self) -> usize {
        self.count(Trend::Better)
    }

    fn count(&self, trend: Trend) -> usize {
        let rates = self
            .rates
            .groups
            .iter()
            .filter(|group| group.trend() == trend);
        let pairs = self.rates.pairs.iter().filter(|pair| pair.trend() == trend);
        let things = self.presence.iter().filter(|thing| thing.trend() == trend);
        let facts = self.facts.iter().filter(|group| group.trend == trend);
        let findings = self.findings.iter().filter(|found| found.trend() == trend);
        rates.count() + pairs.count() + things.count() + facts.count() + findings.count()
    }

    /// The comparison in a word.
    pub fn outcome(&self) -> Outcome {
        match (self.regressions(), self.gaps.iter().any(|gap| gap.matters)) {
            (0, false) => Outcome::NoRegression,
            (0, true) => Outcome::CouldNotCompare,
            _ => Outcome::Regressions,
        }
    }
}

/// Holds a run against an earlier one.
///
/// # Errors
/// [`Refusal`] where nothing of them can be held against each other.
pub fn compare(before: Side<'_>, after: Side<'_>, nodes: Nodes) -> Result<Comparison, Refusal> {
    let sides = [before, after];
    let ledgers = sides.map(|side| side.ledger);
    let settings = asked_for(ledgers)?;
    let mut gaps = unended(ledgers);
    let seen = presence::presence(ledgers, nodes, &mut gaps);
    let measured = ledgers.map(reached);
    let rates = comparable_rates(&settings, &measured, &seen, &mut gaps);
    let mut facts = facts::of(ledgers, &seen.both);
    gaps.append(&mut facts.gaps);
    // A NIC that is gone is told once.
    let is_told = |change: &FactChange| {
        change.what == facts::RDMA_DEVICES && seen.tells_nics_of(&change.place)
    };
    facts.changes.retain(|change| !is_told(change));
    let told = findings::Told {
        rates: &rates,
        facts: &facts.changes,
        presence: &seen.things,
        expectations_differ: settings::expectations_differ(&settings),
    };
    let findings = findings::changes(sides, &measured, &seen, &told, &mut gaps);
    let counters = counters::of(ledgers, &seen.both, &mut gaps);
    gaps.sort();
    gaps.dedup();
    Ok(Comparison {
        compared: Compared {
            nodes: seen.both.len(),
            of_nodes: seen.of_nodes,
            ends: rates.compared,
            of_ends: rates.of,
            facts: facts.compared,
        },
        facts: groups::facts(facts.changes, &facts.unchanged),
        known_to_neither: facts.known_to_neither,
        presence: seen.things,
        rates,
        counters,
        findings,
        settings,
        gaps,
    })
}

/// What differs in what two runs were asked for, if they can be held against each other.
fn asked_for(ledgers: [&Ledger; 2]) -> Result<Vec<SettingChange>, Refusal> {
    match ledgers.map(Ledger::settings) {
        [Some(before), Some(after)] if before.simulated == after.simulated => {
            Ok(settings::changes(before, after))
        }
        [Some(_), Some(_)] => Err(Refusal::Simulated),
        _ => Err(Refusal::NoRun),
    }
}

/// The rates, unless the runs were not measured alike.
fn comparable_rates(
    settings: &[SettingChange],
    measured: &[Reached; 2],
    seen: &presence::Seen,
    gaps: &mut Vec<Gap>,
) -> Rates {
    let Some(why) = settings::rates_differ_by_design(settings) else {
        return rates::rates(measured, seen, gaps);
    };
    gaps.push(Gap {
        what: "rates".into(),
        place: Place::Run,
        why,
        matters: true,
    });
    Rates::default()
}

/// A run that was not carried to its end has not measured all that it was asked for.
fn unended(ledgers: [&Ledger; 2]) -> Vec<Gap> {
    let why = |(which, ledger): (&str, &Ledger)| {
        let how = match ledger.end() {
            Some(RunEnd::Complete) => return None,
            Some(RunEnd::Interrupted) => "was interrupted",
            Some(RunEnd::TimeUp) => "spent its time budget before everything was tried",
            None => "was cut off",
        };
        Some(Gap {
            what: "run".into(),
            place: Place::Run,
            why: format!("the run {which} {how}"),
            // What it lacks is told one by one.
            matters: false,
        })
    };
    let [before, after] = ledgers;
    let all = [("before", before), ("after", after)];
    all.into_iter().filter_map(why).collect()
}

/// The nodes that both runs surveyed, in the order of their names.
fn surveyed_by_both(ledgers: [&Ledger; 2]) -> BTreeSet<NodeName> {
    let has_facts = |ledger: &Ledger, name: &NodeName| {
        let node = ledger.get_node(name);
        node.is_some_and(|node| node.facts.is_some())
    };
    let names = ledgers[0].nodes().map(|(name, _)| name);
    names
        .filter(|name| ledgers.iter().all(|ledger| has_facts(ledger, name)))
        .cloned()
        .collect()
}
