//! What was planted, and what a judgement names of it.

use std::collections::{BTreeMap, BTreeSet};

use linerate::config::{Fault, Scenario};
use linerate::judge::Judgement;
use linerate::model::{End, Finding, NodeName, Rule, Subject};
use linerate::simulated::slow_ends;

/// Rules that name a whole node for what its NICs share.
const SHARED: [&str; 2] = ["shared-pcie", "node-limit"];

/// Rules that name a pair.
const PAIRS: [Rule; 2] = [Rule::SlowPath, Rule::SlowPair];

/// A planted fault.
#[derive(Debug)]
pub struct Planted {
    /// What it makes slow; empty where it is not slowness.
    pub ends: Vec<End>,
    fault: Fault,
}

/// Everything that was planted.
#[derive(Debug)]
pub struct Truth {
    /// Each fault that makes NICs slow.
    pub planted: Vec<Planted>,
    ends: BTreeSet<End>,
    /// Nodes with a fault of another kind: whatever is said of them is neither right nor wrong.
    excused: BTreeSet<NodeName>,
}

/// What a judgement says of what was planted, fault by fault.
#[derive(Debug, Default)]
pub struct Found {
    /// The ends that are named rightly.
    pub named: BTreeSet<End>,
    /// Ends, nodes and pairs that are accused of what was not planted.
    pub falsely: BTreeSet<String>,
    /// For each planted fault, whether its cause is named at all of its NICs.
    pub causes: Vec<bool>,
}

impl Truth {
    /// Of a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let planted = scenario.faults.iter().map(|fault| Planted {
            ends: slow_ends(scenario, fault),
            fault: fault.clone(),
        });
        let (planted, others): (Vec<_>, Vec<_>) = planted.partition(|one| !one.ends.is_empty());
        let excused = others.iter().filter_map(|one| one.fault.node().cloned());
        Self {
            ends: planted.iter().flat_map(|one| one.ends.clone()).collect(),
            excused: excused.collect(),
            planted,
        }
    }

    /// How many ends are slow.
    pub fn ends(&self) -> usize {
        self.ends.len()
    }

    /// The ends that are not among these.
    pub fn missing(&self, named: &BTreeSet<End>) -> usize {
        self.ends.difference(named).count()
    }

    /// Sorts accused ends to those that are slow and others.
    pub fn sort(&self, accused: BTreeSet<End>) -> Found {
        let mut found = Found::default();
        for end in accused {
            self.accuse(&mut found, end);
        }
        found
    }

    fn accuse(&self, found: &mut Found, end: End) {
        if self.ends.contains(&end) {
            found.named.insert(end);
        } else if !self.excused.contains(&end.nic.node) {
            let text = format!("{} {}", end.nic, end.direction);
            found.falsely.insert(text);
        }
    }

    /// What a judgement names.
    pub fn compare(&self, judgement: &Judgement) -> Found {
        let mut found = Found::default();
        for finding in &judgement.findings {
            self.take(&mut found, finding);
        }
        let by_node = by_node(judgement);
        let cause = |planted: &Planted| planted.cause_is_named(&by_node);
        found.causes = self.planted.iter().map(cause).collect();
        found
    }

    fn take(&self, found: &mut Found, finding: &Finding) {
        match &finding.subject {
            Subject::Nic(nic, rail, Some(direction)) if is_of_ends(finding.rule) => {
                let end = End {
                    rail: *rail,
                    nic: nic.clone(),
                    direction: *direction,
                };
                self.accuse(found, end);
            }
            Subject::Node(node) if SHARED.contains(&finding.rule.name()) => {
                let planted = self.planted.iter();
                let mine = planted.filter(|one| one.is_shared() && one.fault.node() == Some(node));
                let before = found.named.len();
                found.named.extend(mine.flat_map(|one| one.ends.clone()));
                if found.named.len() == before && !self.excused.contains(node) {
                    found.falsely.insert(format!("{} {node}", finding.rule));
                }
            }
            Subject::Pair(pair) if PAIRS.contains(&finding.rule) => {
                let ends = [End::sender(pair), End::receiver(pair)];
                let planted =
                    |end: &End| self.ends.contains(end) || self.excused.contains(&end.nic.node);
                if !ends.iter().any(planted) {
                    found.falsely.insert(format!("{} {pair}", finding.rule));
                }
            }
            _ => {}
        }
    }
}

/// Rules that name a direction of a NIC.
fn is_of_ends(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::HalfBandwidth | Rule::DegradedBandwidth | Rule::OneQueuePair
    )
}

fn by_node(judgement: &Judgement) -> BTreeMap<&NodeName, Vec<&Finding>> {
    let mut by_node: BTreeMap<&NodeName, Vec<&Finding>> = BTreeMap::new();
    for finding in &judgement.findings {
        let node = match &finding.subject {
            Subject::Nic(nic, ..) => &nic.node,
            Subject::Node(node) => node,
            _ => continue,
        };
        by_node.entry(node).or_default().push(finding);
    }
    by_node
}

impl Planted {
    fn is_shared(&self) -> bool {
        matches!(
            self.fault,
            Fault::SharedSwitch { .. } | Fault::NodeLimit { .. }
        )
    }

    /// Whether the findings name the cause at every NIC, whichever of its directions they are about.
    fn cause_is_named(&self, by_node: &BTreeMap<&NodeName, Vec<&Finding>>) -> bool {
        let none = Vec::new();
        let of = |node| by_node.get(node).unwrap_or(&none).iter();
        self.ends.iter().all(|end| {
            of(&end.nic.node).any(|finding| {
                let about = match &finding.subject {
                    Subject::Nic(nic, ..) => *nic == end.nic,
                    _ => true,
                };
                about && self.is_named_by(finding)
            })
        })
    }

    /// Whether a finding about one of its ends, or its node, names the cause.
    fn is_named_by(&self, finding: &Finding) -> bool {
        let slow = matches!(finding.rule, Rule::HalfBandwidth | Rule::DegradedBandwidth);
        let says = |words: &str| slow && finding.says.contains(words);
        match &self.fault {
            Fault::SlowNic { .. } => says("the cause is in the NIC"),
            Fault::NarrowPcie { .. } => says("Its PCIe link trained at"),
            Fault::HalfDuplex { .. } => says("only while it sends and receives at once"),
            Fault::GpuPath { .. } => says("the cause is on the way to GPU memory"),
            Fault::OneQueuePair { .. } => finding.rule == Rule::OneQueuePair,
            Fault::SharedSwitch { .. } => finding.rule.name() == SHARED[0],
            Fault::NodeLimit { .. } => finding.rule.name() == SHARED[1],
            _ => false,
        }
    }
}
