//! A node that differs from most of its siblings.

use std::collections::{BTreeMap, BTreeSet};

use super::compare::{Majority, Odd, Property, Siblings};
use super::properties::PROPERTIES;
use crate::judge::NodeView;
use crate::judge::rules::{About, Said, listed, plain};
use crate::model::{Evidence, Finding, NodeName, Rule, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::DiffersFromSiblings,
    means: "The node has something other than most of its siblings: an MTU, a PCIe link, the place of a \
            NIC, an IOMMU mode, firmware. Where all but one are alike, the odd one is seldom meant, and \
            it holds up every job that waits for its slowest node.",
    detected: "The facts of all surveyed nodes are held against each other, those of NICs by rail and \
               model. At least three nodes must have the fact, and more than half of them must agree; \
               what a node lacks is not compared. A difference that another finding tells already is \
               evidence there.",
    remedy: "Make the node like its siblings, or all of them like it.",
};

/// How many NICs of a node are shown as evidence.
const SHOWN: usize = 4;

pub(super) fn check(nodes: &[NodeView<'_>], said: &mut Said) {
    let siblings = Siblings::new(nodes);
    for property in PROPERTIES {
        let already = named_by(property, said);
        let mut by_node: BTreeMap<&NodeName, Vec<Odd<'_, '_>>> = BTreeMap::new();
        for odd in siblings.odd(property) {
            if !told(property, &odd, &already, said) {
                by_node.entry(odd.node.name).or_default().push(odd);
            }
        }
        let findings = by_node.values().map(|odds| finding(property, odds));
        said.findings.extend(findings);
    }
}

/// The nodes of which the rule that may have told of it has findings.
fn named_by(property: &Property, said: &Said) -> BTreeSet<NodeName> {
    let is_of = |finding: &&Finding| {
        property
            .told_by
            .is_some_and(|(rule, _)| finding.rule == rule)
    };
    let findings = said.findings.iter().filter(is_of);
    findings
        .filter_map(|finding| node_of(&finding.subject).cloned())
        .collect()
}

/// Gives the comparison to the finding that names the same thing; `false` where there is none.
fn told(
    property: &Property,
    odd: &Odd<'_, '_>,
    already: &BTreeSet<NodeName>,
    said: &mut Said,
) -> bool {
    let Some((rule, severity)) = property.told_by else {
        return false;
    };
    if !already.contains(odd.node.name) {
        return false;
    }
    let same = said
        .findings
        .iter_mut()
        .find(|finding| finding.rule == rule && is_about(&finding.subject, odd));
    let Some(finding) = same else {
        return false;
    };
    // Its own value is evidence there already.
    let [_, siblings] = evidence(property, odd);
    finding.evidence.push(siblings);
    let mut majority = odd.majority.nodes.iter();
    if !majority.any(|node| already.contains(node.name)) {
        finding.severity = finding.severity.min(severity);
    }
    true
}

/// The node that a finding is about.
fn node_of(subject: &Subject) -> Option<&NodeName> {
    match subject {
        Subject::Node(node) | Subject::NodeRail(node, _) | Subject::Device(node, _) => Some(node),
        Subject::Nic(nic, ..) => Some(&nic.node),
        Subject::Pair(_) | Subject::Rail(_) | Subject::LeafGroup(..) => None,
    }
}

/// Whether a finding may be about the same thing: one on the node, and on no other NIC of it.
fn is_about(subject: &Subject, odd: &Odd<'_, '_>) -> bool {
    match (subject, odd.nic) {
        (Subject::Nic(nic, ..), Some(own)) => *nic == own.id,
        _ => node_of(subject) == Some(odd.node.name),
    }
}

fn finding(property: &Property, odds: &[Odd<'_, '_>]) -> Finding {
    let node = odds[0].node;
    let subject = match odds {
        [Odd { nic: Some(nic), .. }] => nic.subject(None),
        _ => node.subject(),
    };
    let shown = odds.iter().take(SHOWN);
    plain(
        Rule::DiffersFromSiblings,
        property.severity,
        subject,
        says(property, odds),
        shown.flat_map(|odd| evidence(property, odd)).collect(),
        property.remedy,
    )
}

/// `The RDMA MTU of NIC mlx5_0 of node02 (rail 0) is 1024; 4 of 5 nodes have 4096.`
fn says(property: &Property, odds: &[Odd<'_, '_>]) -> String {
    let (what, first) = (property.what, &odds[0]);
    let alike = |odd: &Odd<'_, '_>| {
        let (own, all) = (&first.own, &first.majority);
        (&odd.own.value, &odd.majority.seen.value, odd.majority.of)
            == (&own.value, &all.seen.value, all.of)
            && odd.majority.nodes.len() == all.nodes.len()
    };
    let (own, most) = (short(&first.own.value), in_words(&first.majority));
    match (odds, first.nic) {
        ([_], None) => format!("The {what} of {} is {own}; {most}.", first.node.name),
        ([_], Some(nic)) => format!("The {what} of {} is {own}; {most}.", nic.in_words()),
        _ => {
            let (name, rails) = (first.node.name, rails(odds));
            match odds.iter().all(alike) {
                true => format!("The {what} of {name} is {own} on {rails}; {most}."),
                false => format!("The {what} of {name} on {rails} is not that of most nodes."),
            }
        }
    }
}

fn rails(odds: &[Odd<'_, '_>]) -> String {
    listed(
        odds.iter()
            .filter_map(|odd| Some(odd.nic?.rail?.to_string())),
    )
}

/// `4 of 5 nodes have 4096`
fn in_words(majority: &Majority<'_, '_>) -> String {
    let (count, of) = (majority.nodes.len(), majority.of);
    let value = short(&majority.seen.value);
    format!("{count} of {of} nodes have {value}")
}

fn evidence(property: &Property, odd: &Odd<'_, '_>) -> [Evidence; 2] {
    let who = match odd.nic {
        Some(nic) => nic.id.to_string(),
        None => odd.node.name.to_string(),
    };
    let of = |name: &NodeName, from: &str| format!("{name}: {from}");
    let first = odd.majority.nodes[0].name;
    [
        Evidence {
            saw: format!("{} of {who}: {}", property.what, short(&odd.own.value)),
            from: of(odd.node.name, &odd.own.from),
        },
        Evidence {
            saw: in_words(&odd.majority),
            from: of(first, &odd.majority.seen.from),
        },
    ]
}

/// A value that a node made up may be as long as it likes; a sentence may not.
fn short(value: &str) -> String {
    const MOST: usize = 100;
    match value.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}
