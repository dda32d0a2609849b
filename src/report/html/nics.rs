//! The NICs of a run in their places: what each sent and received at best, what is known of it, and why
//! what is missing is missing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ptr;

use crate::judge::{Judgement, Observed, observe};
use crate::ledger::{Ledger, NodeState, Probe};
use crate::model::{
    Direction, Fact, Finding, Gbps, NicId, NodeName, Outcome, Rail, Severity, Subject,
};

/// What one direction of a NIC reached at best.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    /// Over all partners.
    pub(super) rate: Gbps,
    /// What its pair should reach, where that is known.
    pub(super) expected: Option<Gbps>,
    /// The rate as a share of that or, where it is unknown, of what the best NICs of the rail reach.
    pub(super) share: f64,
}

/// What is known of a NIC, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// A fault of it is proved.
    Fault,
    /// A direction of it was not measured.
    NotMeasured,
    /// A direction of it is low, and nothing is proved.
    InDoubt,
    /// At line rate, with a warning.
    Warned,
    /// At line rate.
    Good,
}

impl State {
    /// Every state, the worst first.
    pub(super) const ALL: [Self; 5] = [
        Self::Fault,
        Self::NotMeasured,
        Self::InDoubt,
        Self::Warned,
        Self::Good,
    ];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::NotMeasured => "not measured",
            Self::InDoubt => "in doubt",
            Self::Warned => "good, warning",
            Self::Good => "good",
        }
    }

    /// The class of the style sheet that has its colour.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Fault => "bad",
            Self::NotMeasured | Self::InDoubt => "doubt",
            Self::Warned => "warn",
            Self::Good => "good",
        }
    }

    /// Its place among all.
    pub(super) fn rank(self) -> usize {
        self as usize
    }
}

/// How far a rate is from what is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// At line rate.
    Full,
    /// Degraded.
    Low,
    /// At half bandwidth or less.
    Half,
}

/// The NIC in one place, or why there is none.
#[derive(Debug)]
pub(super) struct Nic<'a> {
    pub(super) node: &'a NodeName,
    pub(super) rail: Rail,
    /// None where no NIC is known to play the rail.
    pub(super) nic: Option<&'a NicId>,
    /// Sending and receiving.
    pub(super) ways: [Option<Way>; 2],
    pub(super) state: State,
    /// Its findings, by their places in the judgement.
    pub(super) findings: Vec<usize>,
    /// Why a direction of it was not measured.
    pub(super) why: Option<String>,
}

impl Nic<'_> {
    /// The worse of what it sends and receives, as a share of what is expected.
    pub(super) fn share(&self) -> Option<f64> {
        let shares = self.ways.iter().flatten().map(|way| way.share);
        shares.min_by(f64::total_cmp)
    }

    /// The device, with its port where that is not the first.
    pub(super) fn device(&self) -> Option<String> {
        let nic = self.nic?;
        Some(match nic.port {
            1 => nic.device.to_string(),
            port => format!("{} port {port}", nic.device),
        })
    }
}

/// All places of a run.
#[derive(Debug, Default)]
pub(super) struct Nics<'a> {
    /// In the operator's order.
    pub(super) nodes: Vec<&'a NodeName>,
    pub(super) rails: Vec<Rail>,
    /// One for each node and rail; those of a node are beside each other.
    pub(super) all: Vec<Nic<'a>>,
    /// Where expectations are from, or why they are unknown.
    pub(super) sources: BTreeSet<String>,
    degraded_below: f64,
    half_below: f64,
}

impl<'a> Nics<'a> {
    /// What a run knows of its NICs.
    pub(super) fn of(ledger: &'a Ledger, judgement: &Judgement) -> Self {
        let Some(settings) = ledger.settings() else {
            return Self::default();
        };
        let rails: BTreeSet<Rail> = ledger.rail_nics().map(|(rail, ..)| rail).collect();
        let mut nics = Self {
            nodes: nodes(ledger),
            rails: rails.into_iter().collect(),
            degraded_below: settings.expect.degraded_below,
            half_below: settings.expect.half_below,
            ..Self::default()
        };
        nics.place(ledger);
        nics.measured(&observe(ledger));
        nics.found(&judgement.findings);
        nics.missing(ledger);
        nics.settle(&judgement.findings);
        nics
    }

    /// The NIC of a node, by its number, on a rail, by its place.
    pub(super) fn at(&self, node: usize, rail: usize) -> Option<&Nic<'a>> {
        self.all.get(node * self.rails.len() + rail)
    }

    /// What a share is called.
    pub(super) fn level(&self, share: f64) -> Level {
        match share {
            share if share >= self.degraded_below => Level::Full,
            share if share >= self.half_below => Level::Low,
            _ => Level::Half,
        }
    }

    /// All NICs by their places, the worst first.
    pub(super) fn worst_first(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.all.len()).collect();
        let key = |nic: &Nic<'_>| (nic.state, nic.share().unwrap_or(-1.0));
        places.sort_by(|a, b| {
            let (a, b) = (key(&self.all[*a]), key(&self.all[*b]));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        places
    }

    fn place(&mut self, ledger: &'a Ledger) {
        let known: BTreeMap<(Rail, &NodeName), &Fact<NicId>> = ledger
            .rail_nics()
            .map(|(rail, node, nic)| ((rail, node), nic))
            .collect();
        for node in &self.nodes {
            for rail in &self.rails {
                let nic = known.get(&(*rail, *node));
                self.all.push(Nic {
                    node,
                    rail: *rail,
                    nic: nic.and_then(|nic| nic.value()),
                    ways: [None, None],
                    state: State::Good,
                    findings: Vec::new(),
                    why: nic.and_then(|nic| nic.why_unknown()).map(str::to_owned),
                });
            }
        }
    }

    fn numbers(&self) -> HashMap<(&'a NodeName, Rail), usize> {
        let numbers = self.all.iter().enumerate();
        numbers
            .map(|(at, nic)| ((nic.node, nic.rail), at))
            .collect()
    }

    fn measured(&mut self, observed: &Observed<'a>) {
        let numbers = self.numbers();
        let parts = observed.cast.parts.iter();
        // One that plays its rail no more has no place.
        let places = parts.map(|part| {
            let at = *numbers.get(&(&part.nic.node, part.rail))?;
            (self.all[at].nic == Some(part.nic)).then_some(at)
        });
        let places: Vec<Option<usize>> = places.collect();
        for seen in &observed.usual {
            let way = Way {
                rate: seen.rate,
                expected: seen.expected.value().copied(),
                share: seen.ratio,
            };
            for (side, number) in seen.ends.into_iter().enumerate() {
                let Some(at) = places[number] else { continue };
                let best = &mut self.all[at].ways[side];
                if best.is_none_or(|best| way.rate > best.rate) {
                    *best = Some(way);
                }
            }
        }
        self.sources = sources(observed);
    }

    fn found(&mut self, findings: &[Finding]) {
        let numbers = self.numbers();
        for (number, finding) in findings.iter().enumerate() {
            let mut add = |node: &NodeName, rail: Rail| {
                if let Some(at) = numbers.get(&(node, rail)) {
                    self.all[*at].findings.push(number);
                }
            };
            match &finding.subject {
                Subject::Nic(nic, rail, _) => add(&nic.node, *rail),
                Subject::NodeRail(node, rail) => add(node, *rail),
                Subject::Pair(pair) => {
                    add(&pair.from.node, pair.rail);
                    add(&pair.to.node, pair.rail);
                }
                _ => {}
            }
        }
    }

    /// Why what was not measured was not.
    fn missing(&mut self, ledger: &Ledger) {
        let failed = failures(ledger);
        for nic in &mut self.all {
            let lacks = |way: &usize| nic.ways[*way].is_none();
            let Some(way) = [0, 1].into_iter().find(lacks) else {
                continue;
            };
            let of_end = nic.nic.and_then(|nic| ledger.number(nic));
            let of_end = of_end.and_then(|number| failed.get(&(number, way)).cloned());
            let known = lost(ledger, nic.node).or(nic.why.take()).or(of_end);
            let known = known.or_else(|| skipped(ledger, nic, way));
            nic.why = Some(known.unwrap_or_else(|| match nic.nic {
                Some(_) => "no probe of it was made".to_owned(),
                None => "no NIC of the node is known to play this rail".to_owned(),
            }));
        }
    }

    fn settle(&mut self, findings: &[Finding]) {
        let low = self.degraded_below;
        for nic in &mut self.all {
            let has = |severity| {
                let mut mine = nic.findings.iter().map(|number| &findings[*number]);
                mine.any(|finding| {
                    let own = !matches!(finding.subject, Subject::Pair(_));
                    own && finding.severity == severity
                })
            };
            let lacks = nic.ways.iter().any(Option::is_none);
            nic.state = match nic.share() {
                _ if has(Severity::Fault) => State::Fault,
                _ if lacks => State::NotMeasured,
                Some(share) if share < low => State::InDoubt,
                _ if has(Severity::Warning) => State::Warned,
                _ => State::Good,
            };
        }
    }
}

/// The nodes that were asked for, in the operator's order, then any other.
fn nodes(ledger: &Ledger) -> Vec<&NodeName> {
    let asked = ledger
        .settings()
        .map_or(&[][..], |settings| &settings.nodes);
    let mut seen: BTreeSet<&NodeName> = BTreeSet::new();
    let all = asked.iter().chain(ledger.nodes().map(|(name, _)| name));
    all.filter(|name| seen.insert(name)).collect()
}

/// Why a node was lost, where it was.
fn lost(ledger: &Ledger, node: &NodeName) -> Option<String> {
    match &ledger.get_node(node)?.state {
        NodeState::Lost { why } => Some(format!("the node was lost: {why}")),
        _ => None,
    }
}

/// Why pairs of an end were not probed.
fn skipped(ledger: &Ledger, nic: &Nic<'_>, way: usize) -> Option<String> {
    let mut skipped = ledger.skipped().iter();
    let mine = skipped.find(|skipped| {
        let node = [&skipped.from, &skipped.to][way];
        (node, skipped.rail) == (nic.node, nic.rail)
    });
    mine.map(|skipped| skipped.why.clone())
}

/// Where expectations are from, each once.
fn sources(observed: &Observed<'_>) -> BTreeSet<String> {
    let mut sources = BTreeSet::new();
    // Most are the one before, again and again.
    let mut last: Option<&Fact<Gbps>> = None;
    for seen in &observed.usual {
        let expected = &*seen.expected;
        if last.is_some_and(|last| ptr::eq(last, expected)) {
            continue;
        }
        last = Some(expected);
        sources.insert(match expected {
            Fact::Known { value, from } => format!("{value}: {from}"),
            Fact::Unknown { why } => {
                format!("unknown, so that shares are of what the best NICs of a rail reach: {why}")
            }
        });
    }
    sources
}

/// Of each end of which a probe gave no rate, the last reason.
fn failures(ledger: &Ledger) -> HashMap<(usize, usize), String> {
    let mut failed = HashMap::new();
    let usual = ledger.in_brief();
    let usual = usual.filter(|(brief, _)| brief.purpose.is_usual() && brief.rate.is_none());
    for (_, probe) in usual {
        let Some(why) = why(probe) else { continue };
        for (way, number) in probe.ends.into_iter().enumerate() {
            failed.insert((number, way), why.clone());
        }
    }
    failed
}

fn why(probe: &Probe) -> Option<String> {
    match &probe.outcome {
        None => Some("its probe did not come to an end".to_owned()),
        Some(Outcome::Failed { node, why, .. }) => Some(match node {
            Some(node) => format!("failed at {node}: {why}"),
            None => format!("failed: {why}"),
        }),
        Some(Outcome::NotRun { why }) => Some(format!("not run: {why}")),
        Some(Outcome::Measured { .. }) => None,
    }
}

/// The word for a direction, by its place.
pub(super) fn way_word(way: usize) -> Direction {
    match way {
        0 => Direction::Tx,
        _ => Direction::Rx,
    }
}
