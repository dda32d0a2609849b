//! What was measured of all that there is to measure, and why the rest was not.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{Ledger, NodeState, PairState, Skipped};
use crate::model::{Direction, NodeName, Outcome, Pair, Pattern, Rail};

/// What coverage counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Covered {
    /// Ordered pairs of nodes on each rail, as many as the pattern has.
    #[default]
    Pairs,
    /// Directions of NICs, one for each node, rail and direction: a sweep that adapts measures each
    /// with a few partners.
    Ends,
}

/// How much of what there is to measure was measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Coverage {
    /// What is counted.
    pub of: Covered,
    /// Those with a measured rate.
    pub measured: usize,
    /// Those whose probes all went wrong.
    pub failed: usize,
    /// Those that were not tried.
    pub not_run: usize,
    /// The failed and the untried ones, with the reason.
    pub gaps: Vec<Gap>,
}

/// What was not measured, for one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Gap {
    /// How many pairs or directions.
    pub count: usize,
    /// Whether they were tried.
    pub tried: bool,
    /// Whether nothing but the end of the run stands in the way: while it goes on, they may come.
    pub to_come: bool,
    /// Why.
    pub why: String,
}

/// Why a direction of a NIC has no rate.
#[derive(Debug, Clone, PartialEq)]
pub struct EndGap {
    /// Whether it was tried.
    pub tried: bool,
    /// Why.
    pub why: String,
}

impl Coverage {
    /// All there are.
    pub fn total(&self) -> usize {
        self.measured + self.failed + self.not_run
    }

    /// Whether all were measured, and there was at least one.
    pub fn is_complete(&self) -> bool {
        self.measured > 0 && self.failed == 0 && self.not_run == 0
    }
}

enum Seen<'a> {
    Measured,
    Failed(String),
    NotRun(&'a str),
    /// It has begun, or is about to.
    Planned(&'a str),
}

/// Why something never came into a plan.
struct Unplanned {
    why: String,
    to_come: bool,
}

/// A coverage that is being counted.
#[derive(Default)]
struct Count {
    coverage: Coverage,
    /// By whether they were tried, whether they are to come, and why.
    gaps: BTreeMap<(bool, bool, String), usize>,
}

impl Count {
    fn add(&mut self, seen: Option<&Seen<'_>>, unplanned: impl FnOnce() -> Unplanned) {
        let (tried, to_come, why) = match seen {
            Some(Seen::Measured) => {
                self.coverage.measured += 1;
                return;
            }
            Some(Seen::Failed(why)) => (true, false, why.clone()),
            Some(Seen::NotRun(why)) => (false, false, (*why).to_owned()),
            Some(Seen::Planned(why)) => (false, true, (*why).to_owned()),
            None => {
                let Unplanned { why, to_come } = unplanned();
                (false, to_come, why)
            }
        };
        match tried {
            true => self.coverage.failed += 1,
            false => self.coverage.not_run += 1,
        }
        *self.gaps.entry((tried, to_come, why)).or_default() += 1;
    }

    fn done(self, of: Covered) -> Coverage {
        let gap = |((tried, to_come, why), count)| Gap {
            count,
            tried,
            to_come,
            why,
        };
        let gaps = self.gaps.into_iter().map(gap).collect();
        Coverage {
            of,
            gaps,
            ..self.coverage
        }
    }
}

impl Ledger {
    /// How much was measured of what the run's pattern has.
    pub fn coverage(&self) -> Coverage {
        let Some(settings) = &self.settings else {
            return Coverage::default();
        };
        match &settings.sweep.pattern {
            Pattern::Adaptive | Pattern::Quick => self.coverage_of_ends(&settings.nodes),
            pattern => self.coverage_of_pairs(&settings.nodes, pattern),
        }
    }

    fn coverage_of_pairs(&self, nodes: &[NodeName], pattern: &Pattern) -> Coverage {
        let seen = self.seen();
        let mut count = Count::default();
        let pairs = pattern_pairs(nodes, pattern);
        for rail in self.rails() {
            for (from, to) in &pairs {
                let why = || self.why_unplanned(rail, &[from, to], "pair");
                count.add(seen.get(&(rail, *from, *to)), why);
            }
        }
        count.done(Covered::Pairs)
    }

    fn coverage_of_ends(&self, nodes: &[NodeName]) -> Coverage {
        let mut count = Count::default();
        for (rail, node, _, seen) in self.seen_ends(nodes).all() {
            count.add(seen, || self.why_unplanned(rail, &[node], "NIC"));
        }
        count.done(Covered::Ends)
    }

    /// What became of every direction of a NIC that was planned or skipped.
    fn seen_ends<'a>(&'a self, nodes: &'a [NodeName]) -> Ends<'a> {
        let mut ends = Ends::new(nodes, self.rails());
        for skipped in &self.skipped {
            for (node, sends) in [(&skipped.from, true), (&skipped.to, false)] {
                if let Some(seen) = ends.of(skipped.rail, node, sends) {
                    seen.get_or_insert(Seen::NotRun(&skipped.why));
                }
            }
        }
        let usual = self.in_brief();
        let usual = usual.filter(|(brief, _)| brief.purpose.is_usual());
        // Of what is measured nothing more is asked: mostly names need not be looked up again.
        let mut done: Vec<[Option<Rail>; 2]> = vec![[None; 2]; self.numbered()];
        for (brief, probe) in usual {
            let rail = brief.rail;
            for (way, sends) in [true, false].into_iter().enumerate() {
                let done = &mut done[brief.ends[way] as usize][way];
                if *done == Some(rail) {
                    continue;
                }
                if brief.rate.is_some() {
                    *done = Some(rail);
                }
                let Pair { from, to, .. } = &probe.planned.pair;
                let nic = if sends { from } else { to };
                if let Some(seen) = ends.of(rail, &nic.node, sends) {
                    Seen::take_in(seen, probe.outcome.as_ref());
                }
            }
        }
        ends
    }

    /// Every direction of a NIC that the run was to measure and has no rate of, by rail, node and
    /// direction. A pattern that leaves nodes out was not to measure theirs.
    pub fn end_gaps(&self) -> BTreeMap<(Rail, &NodeName, Direction), EndGap> {
        let Some(settings) = &self.settings else {
            return BTreeMap::new();
        };
        let ends = self.seen_ends(&settings.nodes);
        let asked = self.asked_nodes();
        let mut gaps = BTreeMap::new();
        for (rail, node, direction, seen) in ends.all() {
            if !asked.contains(node) {
                continue;
            }
            let (tried, why) = match seen {
                Some(Seen::Measured) => continue,
                Some(Seen::Failed(why)) => (true, why.clone()),
                Some(Seen::NotRun(why) | Seen::Planned(why)) => (false, (*why).to_owned()),
                None => (false, self.why_unplanned(rail, &[node], "NIC").why),
            };
            gaps.insert((rail, node, direction), EndGap { tried, why });
        }
        gaps
    }

    /// The rails of the run, as far as it is known which it has.
    pub fn rails(&self) -> BTreeSet<Rail> {
        self.rail_nics().map(|(rail, ..)| rail).collect()
    }

    /// The nodes that the run's pattern has something to measure of, by name.
    pub fn asked_nodes(&self) -> BTreeSet<&NodeName> {
        let Some(settings) = &self.settings else {
            return BTreeSet::new();
        };
        let nodes = settings.nodes.iter();
        match &settings.sweep.pattern {
            Pattern::Nothing => BTreeSet::new(),
            Pattern::Pairs { pairs } => {
                let asked: HashSet<_> = pairs.iter().flat_map(|(a, b)| [a, b]).collect();
                nodes.filter(|node| asked.contains(node)).collect()
            }
            _ => nodes.collect(),
        }
    }

    /// Pairs that the run's pattern has and that were never planned, with the reason; none where the
    /// pattern leaves it to the run which pairs to measure.
    pub fn unplanned_pairs(&self) -> Vec<Skipped> {
        let Some(settings) = &self.settings else {
            return Vec::new();
        };
        if matches!(settings.sweep.pattern, Pattern::Adaptive | Pattern::Quick) {
            return self.skipped.clone();
        }
        let planned = self.pairs().into_iter().map(|summary| summary.pair);
        let planned: HashSet<_> = planned
            .map(|pair| (pair.rail, &pair.from.node, &pair.to.node))
            .collect();
        let skipped: HashMap<_, _> = self
            .skipped
            .iter()
            .map(|s| ((s.rail, &s.from, &s.to), &s.why))
            .collect();
        let pairs = pattern_pairs(&settings.nodes, &settings.sweep.pattern);
        let mut unplanned = Vec::new();
        for rail in self.rails() {
            for (from, to) in pairs
                .iter()
                .filter(|(a, b)| !planned.contains(&(rail, *a, *b)))
            {
                let why = skipped.get(&(rail, *from, *to)).map(|why| (*why).clone());
                unplanned.push(Skipped {
                    from: (*from).clone(),
                    to: (*to).clone(),
                    rail,
                    why: why.unwrap_or_else(|| self.why_unplanned(rail, &[from, to], "pair").why),
                });
            }
        }
        unplanned
    }

    fn seen(&self) -> HashMap<(Rail, &NodeName, &NodeName), Seen<'_>> {
        let skipped = self
            .skipped
            .iter()
            .map(|s| ((s.rail, &s.from, &s.to), Seen::NotRun(&s.why)));
        let mut seen: HashMap<_, _> = skipped.collect();
        for summary in self.pairs() {
            let state = match summary.state() {
                PairState::Measured { .. } => Seen::Measured,
                PairState::Failed { stage, node, why } => {
                    let at = node.map(|node| format!("{node}: ")).unwrap_or_default();
                    Seen::Failed(format!("{at}{stage}: {why}"))
                }
                PairState::NotRun { why } if summary.is_to_come() => Seen::Planned(why),
                PairState::NotRun { why } => Seen::NotRun(why),
            };
            let pair = summary.pair;
            seen.insert((pair.rail, &pair.from.node, &pair.to.node), state);
        }
        seen
    }

    /// Why a pair never came into a plan: one of its nodes, or its NIC there, was not to be had.
    fn why_unplanned(&self, rail: Rail, nodes: &[&NodeName], what: &str) -> Unplanned {
        let because = |to_come: bool, why: String| Unplanned { why, to_come };
        for node in nodes {
            match self.nodes.get(*node).map(|n| &n.state) {
                Some(NodeState::Lost { .. }) => return because(false, format!("{node} was lost")),
                Some(NodeState::Connected { .. }) => {}
                _ => {
                    let why = format!("{node} was not reached before the run ended");
                    return because(true, why);
                }
            }
        }
        for node in nodes {
            if let Some(why) = self
                .rails
                .get(&(rail, (*node).clone()))
                .and_then(|place| place.nic.why_unknown())
            {
                return because(false, why.to_owned());
            }
        }
        let mine = self.rails.range((rail, NodeName::from(""))..);
        let mut mine = mine.take_while(|((other, _), _)| *other == rail);
        match mine.any(|((_, node), place)| !nodes.contains(&node) && place.number.is_some()) {
            false => because(false, format!("no other node has a NIC on {rail}")),
            true => because(
                true,
                format!("the run ended before this {what} was planned"),
            ),
        }
    }
}

/// Directions of NICs: each rail of each node, as a sender and as a receiver.
struct Ends<'a> {
    nodes: &'a [NodeName],
    rails: Vec<Rail>,
    places: HashMap<&'a NodeName, usize>,
    seen: Vec<[Option<Seen<'a>>; 2]>,
}

impl<'a> Ends<'a> {
    fn new(nodes: &'a [NodeName], rails: BTreeSet<Rail>) -> Self {
        let places = nodes.iter().enumerate().map(|(at, node)| (node, at));
        let count = nodes.len() * rails.len();
        Self {
            nodes,
            rails: rails.into_iter().collect(),
            places: places.collect(),
            seen: std::iter::repeat_with(|| [None, None])
                .take(count)
                .collect(),
        }
    }

    /// What was seen of one so far; `None` where the run has no such rail or node.
    fn of(&mut self, rail: Rail, node: &NodeName, sends: bool) -> Option<&mut Option<Seen<'a>>> {
        let rail = self.rails.binary_search(&rail).ok()?;
        let at = rail * self.nodes.len() + self.places.get(node)?;
        let [sending, receiving] = self.seen.get_mut(at)?;
        Some(if sends { sending } else { receiving })
    }

    fn all(&self) -> impl Iterator<Item = (Rail, &'a NodeName, Direction, Option<&Seen<'a>>)> {
        let ends = self.rails.iter().flat_map(|rail| {
            let nodes = self.nodes.iter();
            nodes.map(move |node| (*rail, node))
        });
        ends.zip(&self.seen).flat_map(|((rail, node), seen)| {
            let ways = [Direction::Tx, Direction::Rx].into_iter().zip(seen);
            ways.map(move |(direction, seen)| (rail, node, direction, seen.as_ref()))
        })
    }
}

impl<'a> Seen<'a> {
    /// What is known of an end, after one more probe of it.
    fn take_in(known: &mut Option<Self>, outcome: Option<&'a Outcome>) {
        match (outcome, &known) {
            (_, Some(Seen::Measured)) | (None, Some(_)) => {}
            (Some(Outcome::NotRun { .. }), Some(Seen::Failed(_))) => {}
            (Some(outcome), _) => *known = Some(Seen::of(outcome)),
            (None, None) => {
                *known = Some(Seen::Planned("the run was cut off before its probe ended"));
            }
        }
    }
}

impl Seen<'_> {
    fn of(outcome: &Outcome) -> Seen<'_> {
        match outcome {
            Outcome::Measured { measurement, .. } if measurement.rate().is_some() => Seen::Measured,
            Outcome::Measured { .. } => Seen::Failed("its transfer took no time".to_owned()),
            Outcome::Failed { stage, node, why } => {
                let at = node
                    .as_ref()
                    .map(|node| format!("{node}: "))
                    .unwrap_or_default();
                Seen::Failed(format!("{at}{stage}: {why}"))
            }
            Outcome::NotRun { why } => Seen::NotRun(why),
        }
    }
}

/// The ordered pairs that a pattern has.
fn pattern_pairs<'a>(
    nodes: &'a [NodeName],
    pattern: &'a Pattern,
) -> BTreeSet<(&'a NodeName, &'a NodeName)> {
    let both = |a: &'a NodeName, b: &'a NodeName| [(a, b), (b, a)];
    let all = || nodes.iter().flat_map(|a| nodes.iter().map(move |b| (a, b)));
    let pairs: BTreeSet<_> = match pattern {
        Pattern::Ring => {
            let next = nodes.iter().cycle().skip(1);
            nodes
                .iter()
                .zip(next)
                .flat_map(|(a, b)| both(a, b))
                .collect()
        }
        Pattern::One { node } => nodes.iter().flat_map(|other| both(node, other)).collect(),
        Pattern::Pairs { pairs } => pairs.iter().flat_map(|(a, b)| both(a, b)).collect(),
        Pattern::Adaptive | Pattern::Quick | Pattern::Full => all().collect(),
        Pattern::Nothing => BTreeSet::new(),
    };
    pairs.into_iter().filter(|(a, b)| a != b).collect()
}
