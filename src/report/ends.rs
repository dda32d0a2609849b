//! Each direction of each NIC of a run: what it reached, and whether that is line rate. What the formats
//! that have a line for each say of it is said here once.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::Run;
use crate::judge::{Observation, observe};
use crate::ledger::{EndGap, NodeState};
use crate::model::{
    Direction, Fact, Finding, Gbps, NicId, NodeName, Rail, Rule, Severity, Subject,
};

/// One direction of the NIC that plays a rail on a node.
#[derive(Debug, Clone)]
pub(super) struct End<'a> {
    pub(super) node: &'a NodeName,
    pub(super) rail: Rail,
    /// The NIC, where it is known which.
    pub(super) nic: Option<&'a NicId>,
    pub(super) direction: Direction,
    /// The best that was measured under the conditions of the run, where something was.
    pub(super) rate: Option<Gbps>,
    /// What was expected of that: known, unknown with the reason, or nothing was measured.
    pub(super) expected: Option<Expected>,
    pub(super) is: Is<'a>,
}

/// What was expected of a rate, and from where.
#[derive(Debug, Clone)]
pub(super) enum Expected {
    Known { rate: Gbps, from: String },
    Unknown,
}

/// Whether a direction of a NIC is at line rate. What could not be told is never that.
#[derive(Debug, Clone)]
pub(super) enum Is<'a> {
    AtLineRate,
    /// It is not, by this finding.
    Low(&'a Finding),
    /// It cannot be told, for this reason, which may be a finding's.
    NotJudged(Cow<'a, str>, Option<&'a Finding>),
}

impl Is<'_> {
    /// Why it is not at line rate, or cannot be told to be.
    pub(super) fn why(&self) -> Option<&str> {
        match self {
            Self::AtLineRate => None,
            Self::Low(finding) => Some(&finding.says),
            Self::NotJudged(why, _) => Some(why),
        }
    }
}

impl End<'_> {
    /// The expected rate, where it is known.
    pub(super) fn expected(&self) -> Option<Gbps> {
        match self.expected {
            Some(Expected::Known { rate, .. }) => Some(rate),
            _ => None,
        }
    }

    /// The share of the expected rate that was reached, where both are known.
    pub(super) fn share(&self) -> Option<f64> {
        self.rate?.share_of(self.expected()?)
    }
}

/// All of them, and what of the findings they do not tell.
#[derive(Debug)]
pub(super) struct Ends<'a> {
    /// By node, rail and direction.
    pub(super) all: Vec<End<'a>>,
    /// Faults, and what could not be judged, that no end of them bears.
    pub(super) others: Vec<&'a Finding>,
}

impl<'a> Ends<'a> {
    pub(super) fn of(run: &Run<'a>) -> Self {
        let Run {
            ledger, judgement, ..
        } = *run;
        let limit = ledger.settings().map_or(0.0, |s| s.expect.degraded_below);
        let observed = observe(ledger);
        let best = best(&observed.usual);
        let nics: HashMap<(Rail, &NodeName), &NicId> = ledger
            .rail_nics()
            .filter_map(|(rail, node, nic)| Some(((rail, node), nic.value()?)))
            .collect();
        let gaps = ledger.end_gaps();
        let mut told = Told::of(&judgement.findings);
        let mut all = Vec::new();
        let rails = ledger.rails();
        for node in ledger.asked_nodes() {
            for rail in &rails {
                for direction in [Direction::Tx, Direction::Rx] {
                    let seen = best.get(&(*rail, node, direction)).copied();
                    let mut end = End {
                        node,
                        rail: *rail,
                        nic: nics.get(&(*rail, node)).copied(),
                        direction,
                        rate: seen.map(|seen| seen.rate),
                        expected: seen.map(|seen| Expected::of(&seen.expected)),
                        is: Is::AtLineRate,
                    };
                    let gap = gaps.get(&(*rail, node, direction));
                    end.is = told.judge(&end, seen, gap, limit);
                    all.push(end);
                }
            }
        }
        Self {
            all,
            others: told.others(&judgement.findings),
        }
    }
}

impl Expected {
    fn of(fact: &Fact<Gbps>) -> Self {
        match fact {
            Fact::Known { value, from } => Self::Known {
                rate: *value,
                from: from.to_string(),
            },
            Fact::Unknown { .. } => Self::Unknown,
        }
    }
}

/// Of each direction of a NIC the best of what was measured, by rail and node.
fn best<'o, 'a>(
    usual: &'o [Observation<'a>],
) -> HashMap<(Rail, &'a NodeName, Direction), &'o Observation<'a>> {
    let mut best: HashMap<_, &Observation<'a>> = HashMap::new();
    for seen in usual {
        let ends = [
            (&seen.pair.from.node, Direction::Tx),
            (&seen.pair.to.node, Direction::Rx),
        ];
        for (node, direction) in ends {
            let best = best.entry((seen.rail, node, direction)).or_insert(seen);
            if seen.rate > best.rate {
                *best = seen;
            }
        }
    }
    best
}

/// Findings that change the verdict, by whom they are about, and those of them that an end bore.
struct Told<'a> {
    by_slot: HashMap<(&'a NodeName, Rail), Vec<&'a Finding>>,
    by_node: HashMap<&'a NodeName, Vec<&'a Finding>>,
    by_rail: BTreeMap<Rail, Vec<&'a Finding>>,
    borne: HashSet<*const Finding>,
}

/// Rules on whole nodes that are about the rates of their NICs.
const LIMITS: [Rule; 2] = [Rule::SharedPcie, Rule::NodeLimit];

impl<'a> Told<'a> {
    fn of(findings: &'a [Finding]) -> Self {
        let mut told = Self {
            by_slot: HashMap::new(),
            by_node: HashMap::new(),
            by_rail: BTreeMap::new(),
            borne: HashSet::new(),
        };
        for finding in findings.iter().filter(|finding| counts(finding)) {
            let mut slot = |node: &'a NodeName, rail: Rail| {
                told.by_slot.entry((node, rail)).or_default().push(finding);
            };
            match &finding.subject {
                Subject::Nic(nic, rail, _) => slot(&nic.node, *rail),
                Subject::NodeRail(node, rail) => slot(node, *rail),
                Subject::Pair(pair) => {
                    slot(&pair.from.node, pair.rail);
                    slot(&pair.to.node, pair.rail);
                }
                Subject::Node(node) => told.by_node.entry(node).or_default().push(finding),
                Subject::Rail(rail) => told.by_rail.entry(*rail).or_default().push(finding),
                Subject::LeafGroup(..) | Subject::Device(..) => {}
            }
        }
        told
    }

    /// Whether an end is at line rate, by the findings and what was seen of it at best.
    fn judge(
        &mut self,
        end: &End<'a>,
        seen: Option<&Observation<'_>>,
        gap: Option<&EndGap>,
        limit: f64,
    ) -> Is<'a> {
        let low = seen.is_some_and(|seen| seen.share() < limit);
        let about: Vec<&'a Finding> = self.about(end);
        let fault = about.iter().find(|finding| is_fault_of(finding, end, low));
        if let Some(fault) = fault {
            self.borne.insert(*fault);
            return Is::Low(fault);
        }
        let known = matches!(end.expected, Some(Expected::Known { .. }));
        if end.rate.is_some() && known && !low {
            return Is::AtLineRate;
        }
        let open = about
            .iter()
            .find(|finding| leaves_open(finding, end, low, gap));
        let Some(finding) = open.copied() else {
            let why: Cow<'a, str> = match gap {
                Some(gap) => gap.why.clone().into(),
                None if seen.is_none() => "nothing was measured of it".into(),
                None => "it is low, and whether that is its own fault cannot be told".into(),
            };
            return Is::NotJudged(why, None);
        };
        self.borne.insert(finding);
        Is::NotJudged(finding.says.as_str().into(), Some(finding))
    }

    /// The findings that may be about an end, the worst first.
    fn about(&self, end: &End<'a>) -> Vec<&'a Finding> {
        let slot = self.by_slot.get(&(end.node, end.rail));
        let node = self.by_node.get(end.node);
        let rail = self.by_rail.get(&end.rail);
        let all = [slot, node, rail].into_iter().flatten().flatten();
        all.copied().collect()
    }

    /// Those that no end bore.
    fn others(&self, findings: &'a [Finding]) -> Vec<&'a Finding> {
        let borne = |finding: &&Finding| self.borne.contains(&std::ptr::from_ref(*finding));
        findings.iter().filter(|f| counts(f) && !borne(f)).collect()
    }
}

/// Whether a finding changes the verdict.
fn counts(finding: &Finding) -> bool {
    matches!(finding.severity, Severity::Fault | Severity::NotJudged)
}

/// Whether a finding is about an end as such, and not about what it did with one partner.
fn covers(finding: &Finding, end: &End<'_>) -> bool {
    match &finding.subject {
        Subject::Nic(nic, _, direction) => {
            let plays = end.nic.is_none_or(|mine| mine == nic);
            plays && direction.is_none_or(|way| way == end.direction)
        }
        Subject::Pair(_) => false,
        _ => true,
    }
}

/// Whether an end is the sender or the receiver of the pair that a finding is about.
fn is_of_pair(finding: &Finding, end: &End<'_>) -> bool {
    let Subject::Pair(pair) = &finding.subject else {
        return false;
    };
    let nic = match end.direction {
        Direction::Tx => &pair.from,
        Direction::Rx => &pair.to,
    };
    nic.node == *end.node
}

/// A NIC's own fault is one whatever was measured; what it shares with others only where it is low.
fn is_fault_of(finding: &Finding, end: &End<'_>, low: bool) -> bool {
    let mine = match &finding.subject {
        Subject::Nic(..) | Subject::NodeRail(..) => covers(finding, end),
        Subject::Pair(_) => low && is_of_pair(finding, end),
        Subject::Node(_) => low && LIMITS.contains(&finding.rule),
        Subject::Rail(_) => low,
        Subject::LeafGroup(..) | Subject::Device(..) => false,
    };
    mine && finding.severity == Severity::Fault
}

/// Whether a finding is why an end cannot be judged. What is said of a whole node may be said of other rails.
fn leaves_open(finding: &Finding, end: &End<'_>, low: bool, gap: Option<&EndGap>) -> bool {
    let mine = match (gap, &finding.subject) {
        (Some(_), _) if finding.rule == Rule::NodeLost => true,
        (Some(gap), _) => covers(finding, end) && finding.says.contains(&gap.why),
        (None, Subject::Pair(_)) => low && is_of_pair(finding, end),
        (None, Subject::Node(_)) => low && LIMITS.contains(&finding.rule),
        (None, _) => covers(finding, end),
    };
    mine && finding.severity == Severity::NotJudged
}

/// Why a node has nothing to show, where it was not reached.
pub(super) fn why_not_reached(state: &NodeState) -> Option<&str> {
    match state {
        NodeState::Connected { .. } => None,
        NodeState::Lost { why } => Some(why),
        NodeState::Waiting | NodeState::Connecting(_) => {
            Some("it was not reached before the run ended")
        }
    }
}
