//! Findings that only one of two runs has, and whether the other would have had them.

use std::collections::{BTreeMap, HashSet};

use super::facts::FactChange;
use super::presence::{Presence, Seen, Thing};
use super::rates::Rates;
use super::{Gap, Place, Side, Trend};
use crate::judge::{EndReached, NoRate, Reached};
use crate::model::{
    CannotTell, Direction, Finding, NicId, NodeName, Rail, Rule, Severity, Subject, Verdict,
};

/// Whether a finding came or went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// It is found now, and was not.
    Came,
    /// It was found, and is not any more.
    Went,
}

/// A finding that only one of the runs has.
#[derive(Debug, Clone, PartialEq)]
pub struct FindingChange {
    /// Whether it came or went.
    pub turn: Turn,
    /// The finding, as the run that has it says it.
    pub finding: Finding,
    /// Whether a change of rates or facts tells of the same already.
    pub is_told: bool,
}

impl FindingChange {
    /// A fault or a warning that came is for the worse, one that went for the better; notes are neither,
    /// and neither is what is told already, or what could not be judged.
    pub fn trend(&self) -> Trend {
        let counts = matches!(self.finding.severity, Severity::Fault | Severity::Warning);
        match (self.turn, counts && !self.is_told) {
            (Turn::Came, true) => Trend::Worse,
            (Turn::Went, true) => Trend::Better,
            (_, false) => Trend::Other,
        }
    }
}

/// What is told of apart from findings.
pub(super) struct Told<'a> {
    pub rates: &'a Rates,
    pub facts: &'a [FactChange],
    pub presence: &'a [Presence],
    pub expectations_differ: bool,
}

/// Findings of rates, which are judged by what is expected.
const OF_RATES: [Rule; 8] = [
    Rule::HalfBandwidth,
    Rule::DegradedBandwidth,
    Rule::SlowPair,
    Rule::SlowPath,
    Rule::RailBelowExpected,
    Rule::LineRateUnknown,
    Rule::AboveExpected,
    Rule::LeafUplink,
];

/// What is told of a node that was not reached, and of what nobody can be asked for there.
const OF_REACH: [Rule; 2] = [Rule::NodeLost, Rule::NoNic];

pub(super) fn changes(
    sides: [Side<'_>; 2],
    measured: &[Reached; 2],
    seen: &Seen,
    told: &Told<'_>,
    gaps: &mut Vec<Gap>,
) -> Vec<FindingChange> {
    let [before, after] = sides.map(|side| &side.judgement.findings);
    let came = only_in(after, before)
        .into_iter()
        .map(|found| (Turn::Came, found));
    let went = only_in(before, after)
        .into_iter()
        .map(|found| (Turn::Went, found));
    let others = Others::of(sides, measured, seen);
    let mut changes = Vec::new();
    for (turn, finding) in came.chain(went) {
        // Nodes that were not reached are gaps, and what only the operator left out is told as that.
        if OF_REACH.contains(&finding.rule) || is_chance(finding) {
            continue;
        }
        if let Some(why) = others.why_not_comparable(turn, finding, told) {
            gaps.push(Gap {
                what: format!("finding {}", finding.rule),
                place: Place::Subject(finding.subject.clone()),
                why,
                matters: matters(turn, finding),
            });
            continue;
        }
        changes.push(FindingChange {
            turn,
            is_told: told.tells(turn, finding),
            finding: finding.clone(),
        });
    }
    changes.sort_by_key(key);
    changes
}

fn key(change: &FindingChange) -> (Trend, Turn, u8, Rule, String) {
    let finding = &change.finding;
    let severity = match finding.severity {
        Severity::Fault => 0,
        Severity::Warning => 1,
        Severity::NotJudged => 2,
        Severity::Note => 3,
    };
    (
        change.trend(),
        change.turn,
        severity,
        finding.rule,
        finding.says.clone(),
    )
}

/// What came in between by chance is of one run, as the rule itself says.
fn is_chance(finding: &Finding) -> bool {
    finding.rule == Rule::CameAndWent && finding.severity != Severity::Warning
        || finding.rule == Rule::FlowCollisions
}

/// A finding that could not be looked for leaves something open where it would be for the worse.
fn matters(turn: Turn, finding: &Finding) -> bool {
    let counts = finding.severity != Severity::Note;
    counts && turn == Turn::Came
}

/// Findings of which the other run has no like. Of several of one rule and subject, those that say the
/// same are taken for the same first.
fn only_in<'a>(these: &'a [Finding], those: &[Finding]) -> Vec<&'a Finding> {
    let mut left: BTreeMap<(Rule, String), Vec<&str>> = BTreeMap::new();
    for finding in those {
        let key = (finding.rule, place(&finding.subject));
        left.entry(key).or_default().push(&finding.says);
    }
    let mut unlike = Vec::new();
    for finding in these {
        let others = left.get_mut(&(finding.rule, place(&finding.subject)));
        let same = others.and_then(|others| {
            let at = others.iter().position(|says| *says == finding.says)?;
            Some(others.swap_remove(at))
        });
        if same.is_none() {
            unlike.push(finding);
        }
    }
    let has_like = |finding: &&Finding| {
        let others = left.get_mut(&(finding.rule, place(&finding.subject)));
        // A node may differ from its siblings in several things, each of which is one of its own.
        let alone = finding.rule == Rule::DiffersFromSiblings;
        !alone && others.and_then(Vec::pop).is_some()
    };
    let mut has_like = has_like;
    unlike.retain(|finding| !has_like(finding));
    unlike
}

/// Whom a finding is about, whatever a device is called.
fn place(subject: &Subject) -> String {
    match subject {
        Subject::Nic(nic, rail, direction) => format!("{} {rail} {direction:?}", nic.node),
        other => other.to_string(),
    }
}

/// What each run can tell of, for the findings of the other.
struct Others<'a> {
    /// By turn: the run that lacks the finding.
    lacking: [Side<'a>; 2],
    cannot_tell: [HashSet<(Rule, String)>; 2],
    unmeasured: HashSet<(Rail, NodeName, Direction, bool)>,
    seen: &'a Seen,
}

impl<'a> Others<'a> {
    fn of(sides: [Side<'a>; 2], measured: &[Reached; 2], seen: &'a Seen) -> Self {
        let unable = |side: Side<'_>| {
            let entries = side.judgement.cannot_tell.iter();
            let key = |entry: &CannotTell| (entry.rule, place(&entry.subject));
            entries.map(key).collect()
        };
        let mut unmeasured = HashSet::new();
        for (is_after, reached) in [(false, &measured[0]), (true, &measured[1])] {
            let nothing = reached.ends.iter().filter(|reached| !was_measured(reached));
            for EndReached { end, .. } in nothing {
                let node = end.nic.node.clone();
                unmeasured.insert((end.rail, node, end.direction, is_after));
            }
        }
        Self {
            lacking: sides,
            cannot_tell: sides.map(unable),
            unmeasured,
            seen,
        }
    }

    /// Why the run that does not have a finding would not have had it either way.
    fn why_not_comparable(&self, turn: Turn, finding: &Finding, told: &Told<'_>) -> Option<String> {
        let (side, when) = match turn {
            Turn::Came => (0, "before"),
            Turn::Went => (1, "after"),
        };
        if told.expectations_differ && OF_RATES.contains(&finding.rule) {
            return Some("the runs have different expectations".into());
        }
        let node = node_of(&finding.subject);
        if let Some(node) = node.filter(|node| !self.seen.both.contains(*node)) {
            return Some(format!("{node} was not seen {when}"));
        }
        if self.cannot_tell[side].contains(&(finding.rule, place(&finding.subject))) {
            return Some(format!("it could not be told {when}"));
        }
        let of_rates = OF_RATES.contains(&finding.rule);
        if of_rates && self.is_unmeasured(&finding.subject, side == 1) {
            return Some(format!("nothing was measured of it {when}"));
        }
        let judged = self.lacking[side].judgement;
        let nothing = judged.verdict == Verdict::CouldNotJudge && judged.coverage.measured == 0;
        (of_rates && nothing).then(|| format!("nothing was measured {when}"))
    }

    fn is_unmeasured(&self, subject: &Subject, is_after: bool) -> bool {
        let Subject::Nic(nic, rail, direction) = subject else {
            return false;
        };
        let both = [Direction::Tx, Direction::Rx];
        let ways = both
            .iter()
            .filter(|way| direction.is_none_or(|only| only == **way));
        let key = |way: Direction| (*rail, nic.node.clone(), way, is_after);
        { ways }.any(|way| self.unmeasured.contains(&key(*way)))
    }
}

/// Whether an end was measured, if only with partners that do not count.
fn was_measured(reached: &EndReached) -> bool {
    !matches!(reached.sample, Err(NoRate::Nothing(_)))
}

fn node_of(subject: &Subject) -> Option<&NodeName> {
    match subject {
        Subject::Node(node) | Subject::NodeRail(node, _) | Subject::Device(node, _) => Some(node),
        Subject::Nic(nic, ..) => Some(&nic.node),
        Subject::Pair(_) | Subject::Rail(_) | Subject::LeafGroup(..) => None,
    }
}

impl Told<'_> {
    /// Whether a change of rates, of facts or of what is there is told of the same NIC or node, in the same
    /// direction as the finding.
    fn tells(&self, turn: Turn, finding: &Finding) -> bool {
        let trend = match turn {
            Turn::Came => Trend::Worse,
            Turn::Went => Trend::Better,
        };
        let by_rates = OF_RATES.contains(&finding.rule) || is_of_cause(finding.rule);
        let rates = by_rates && self.rates_tell(trend, &finding.subject);
        rates || self.facts_tell(trend, finding)
    }

    fn rates_tell(&self, trend: Trend, subject: &Subject) -> bool {
        let groups = self
            .rates
            .groups
            .iter()
            .filter(|group| group.trend() == trend);
        let is_it = |nic: &NicId, rail: Rail, direction: Direction| match subject {
            Subject::Nic(mine, of, way) => {
                (&mine.node, *of) == (&nic.node, rail) && way.is_none_or(|way| way == direction)
            }
            Subject::Node(node) | Subject::NodeRail(node, _) => *node == nic.node,
            Subject::Rail(mine) => *mine == rail,
            Subject::Pair(_) | Subject::LeafGroup(..) | Subject::Device(..) => false,
        };
        let ends = groups.flat_map(|group| {
            let whole = group.changes.is_empty();
            let changes = group.changes.iter();
            let any = changes.map(|c| is_it(&c.end.nic, c.end.rail, c.end.direction));
            // What a whole cluster did is told of each.
            std::iter::once(whole).chain(any)
        });
        let pairs = self.rates.pairs.iter().filter(|pair| pair.trend() == trend);
        let is_pair =
            |pair: &crate::model::Pair| matches!(subject, Subject::Pair(mine) if mine == pair);
        { ends }.any(|told| told) || { pairs }.any(|pair| is_pair(&pair.pair))
    }

    fn facts_tell(&self, trend: Trend, finding: &Finding) -> bool {
        let Some(facts) = facts_of(finding.rule) else {
            return false;
        };
        let Some(node) = node_of(&finding.subject) else {
            return false;
        };
        let rail = match &finding.subject {
            Subject::Nic(_, rail, _) | Subject::NodeRail(_, rail) => Some(*rail),
            _ => None,
        };
        let is_here = |place: &Place| match (place, rail) {
            (Place::Nic(mine, nic), Some(rail)) => nic.node == *node && *mine == rail,
            (place, _) => place.node() == Some(node),
        };
        let by_fact = self.facts.iter().any(|change| {
            let named = facts.is_empty() || facts.contains(&change.what);
            named && change.trend == trend && is_here(&change.place)
        });
        let by_presence = self.presence.iter().any(|told| {
            let here = match &told.thing {
                Thing::Nic(_, nic) => nic.node == *node,
                Thing::Gpu(mine, _) => mine == node,
                Thing::Node(_) => false,
            };
            here && told.trend() == trend && facts.contains(&"presence")
        });
        by_fact || by_presence
    }
}

/// Rules that say which cause slow NICs of a node have together.
fn is_of_cause(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::SharedPcie | Rule::NodeLimit | Rule::OneQueuePair
    )
}

/// The facts whose change tells of a finding of this rule; of siblings any.
fn facts_of(rule: Rule) -> Option<&'static [&'static str]> {
    Some(match rule {
        Rule::PcieLink => &["PCIe link"],
        Rule::Mtu => &["RDMA MTU", "interface MTU"],
        Rule::PortDown => &["port state", "presence"],
        Rule::PortSpeed => &["port rate"],
        Rule::GpuDirectOff => &["GPUDirect RDMA", "peer memory clients"],
        Rule::Memlock => &["limit of locked memory"],
        Rule::Acs => &["ACS setting"],
        Rule::GpuNotVisible => &["presence"],
        Rule::DiffersFromSiblings => &[
            "PCIe link",
            "RDMA MTU",
            "interface MTU",
            "port rate",
            "limit of locked memory",
            "ACS setting",
            "RDMA devices",
            "presence",
        ],
        _ => return None,
    })
}
