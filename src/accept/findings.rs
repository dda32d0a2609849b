//! What the judge found, and what a profile does not bear.

use std::collections::{BTreeMap, HashSet};

use super::run::Run;
use super::told::{Told, Who};
use crate::config::{CannotTellIs, FindingsDemand, Select};
use crate::model::{CannotTell, Finding, NodeName, Rail, Rule, Severity, Subject};

/// So much of what a finding rests on is told with it.
const MOST_EVIDENCE: usize = 3;

/// Each finding by itself, and each node that has none.
pub(super) fn findings(run: &Run<'_>, select: &Select, demand: &FindingsDemand) -> Vec<Told> {
    let of_rule = |rule: Rule| demand.rules.is_empty() || demand.rules.contains(&rule);
    let is_meant = |finding: &&Finding| {
        let severities = &demand.severities;
        let severe = severities.is_empty() || severities.contains(&finding.severity);
        of_rule(finding.rule) && severe && finding.severity != Severity::NotJudged
    };
    let mut books = Books::new(run, select);
    let all = &run.judgement.findings;
    for finding in all.iter().filter(is_meant) {
        books.found(finding);
    }
    for finding in all
        .iter()
        .filter(|finding| finding.severity == Severity::NotJudged && of_rule(finding.rule))
    {
        books.unknown(&finding.subject, &finding.says);
    }
    let untold = run
        .judgement
        .cannot_tell
        .iter()
        .filter(|entry| of_rule(entry.rule));
    for CannotTell { rule, subject, why } in
        untold.filter(|_| demand.cannot_tell == CannotTellIs::NotJudged)
    {
        books.unknown(subject, &format!("{rule} cannot tell of {subject}: {why}"));
    }
    books.told()
}

struct Books<'r, 'a> {
    run: &'r Run<'a>,
    nodes: Vec<&'a NodeName>,
    there: HashSet<&'a NodeName>,
    rails: HashSet<Rail>,
    /// Whether the whole run is asked about.
    everybody: bool,
    found: Vec<Told>,
    with: HashSet<NodeName>,
    unknown: BTreeMap<NodeName, Vec<String>>,
    of_run: Vec<Told>,
}

impl<'r, 'a> Books<'r, 'a> {
    fn new(run: &'r Run<'a>, select: &Select) -> Self {
        let nodes = run.nodes(select);
        Self {
            there: nodes.iter().copied().collect(),
            rails: select.rails.iter().copied().collect(),
            everybody: select.nodes.is_empty() && select.groups.is_empty(),
            run,
            nodes,
            found: Vec::new(),
            with: HashSet::new(),
            unknown: BTreeMap::new(),
            of_run: Vec::new(),
        }
    }

    /// Whether a subject is asked about. What is about a whole node is about each of its rails.
    fn is_meant(&self, subject: &Subject) -> bool {
        let (nodes, rail) = about(subject);
        let of_node = self.everybody || nodes.iter().any(|node| self.there.contains(node));
        of_node && (self.rails.is_empty() || rail.is_none_or(|rail| self.rails.contains(&rail)))
    }

    fn found(&mut self, finding: &Finding) {
        if !self.is_meant(&finding.subject) {
            return;
        }
        let (nodes, rail) = about(&finding.subject);
        self.with.extend(nodes.iter().map(|node| (*node).clone()));
        let who = Who {
            node: nodes.first().map(|node| (*node).clone()),
            rail,
            words: finding.subject.to_string(),
        };
        let mut told = Told::seen(who, false, format!("{}: {}", finding.rule, finding.says));
        // All of it is in the report on the run.
        told.evidence = finding
            .evidence
            .iter()
            .take(MOST_EVIDENCE)
            .cloned()
            .collect();
        self.found.push(told);
    }

    fn unknown(&mut self, subject: &Subject, why: &str) {
        if !self.is_meant(subject) {
            return;
        }
        let (nodes, rail) = about(subject);
        for node in &nodes {
            self.unknown
                .entry((*node).clone())
                .or_default()
                .push(why.to_owned());
        }
        if nodes.is_empty() {
            let words = subject.to_string();
            let who = Who {
                node: None,
                rail,
                words,
            };
            self.of_run.push(Told::unknown(who, why));
        }
    }

    fn told(mut self) -> Vec<Told> {
        let mut told = std::mem::take(&mut self.found);
        told.append(&mut self.of_run);
        for node in &self.nodes {
            let who = Who::node(node);
            let why = self.unknown.get(*node);
            if self.run.view(node).is_none() {
                told.push(Told::unknown(who, self.run.why_not_surveyed(node)));
            } else if let Some((first, more)) = why.and_then(|why| why.split_first()) {
                let more = match more.len() {
                    0 => String::new(),
                    more => format!(" (and {more} more)"),
                };
                told.push(Told::unknown(who, format!("{first}{more}")));
            } else if !self.with.contains(*node) {
                told.push(Told::seen(who, true, "none"));
            }
        }
        told
    }
}

/// The nodes that a subject is about, and its rail.
fn about(subject: &Subject) -> (Vec<&NodeName>, Option<Rail>) {
    match subject {
        Subject::Node(node) | Subject::Device(node, _) => (vec![node], None),
        Subject::NodeRail(node, rail) => (vec![node], Some(*rail)),
        Subject::Nic(nic, rail, _) => (vec![&nic.node], Some(*rail)),
        Subject::Pair(pair) => (vec![&pair.from.node, &pair.to.node], Some(pair.rail)),
        Subject::Rail(rail) | Subject::LeafGroup(_, rail, _) => (Vec::new(), Some(*rail)),
    }
}
