//! A leaf group whose nodes cannot send to other groups, or receive from them, what they reach among
//! themselves.

use std::collections::BTreeMap;

use super::{About, Context, evidence, listed, plain};
use crate::judge::fabric::{Flow, Way, mean};
use crate::model::{
    Direction, Evidence, Finding, Gbps, LeafEnd, Rail, Rule, Severity, Standing, Subject,
};

pub(super) const ABOUT: About = About {
    rule: Rule::LeafUplink,
    means: "The nodes of a leaf group send to other groups, or receive from them, well below what they reach \
            among themselves, all of them together: the leaf switch has too few links to the spine on the \
            rail, or some are down or slow.",
    detected: "With --fabric, all proved NICs of a group send to another group at once and receive from it. \
               The best of its mean rates with one other group is below `degraded_below` of what its ends \
               reach in their own groups, in two rounds against groups that are proved, nearly all its flows \
               are low, and so many by chance is ruled out by those of other groups. Cannot be told of two \
               groups only, of a group of which fewer than three quarters of the NICs can be loaded, and \
               where most healthy flows meet others on one link.",
    remedy: "Count the links between that leaf switch and the spine that are up (ibnetdiscover, or the \
             switch's own list of interfaces), compare their speed, width and error counters with those of \
             another leaf, and look for a routing that leaves some unused.",
};

/// Flows that are shown as evidence.
const SHOWN: usize = 4;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let ways = context.fabric.ways.iter();
    let accused = ways.filter(|(_, way)| way.standing == Standing::Accused);
    let accused = accused.filter_map(|(end, way)| finding(context, *end, way));
    accused.chain(not_measured(context)).collect()
}

/// What a group is called.
pub(super) fn name<'a>(context: &Context<'a>, group: usize) -> &'a str {
    let settings = context.ledger.settings();
    let group = settings.and_then(|settings| settings.sweep.groups.get(group));
    group.map_or("", |group| group.name.as_str())
}

fn finding(context: &Context<'_>, end: LeafEnd, way: &Way<'_>) -> Option<Finding> {
    let capacity = way.capacity?;
    let group = name(context, end.group);
    let rail = end.rail;
    let (does, to, others_do, from) = match end.direction {
        Direction::Tx => ("send to", "to", "receive", "from"),
        Direction::Rx => ("receive from", "from", "send", "to"),
    };
    let with = way.by_partner(end.direction).into_iter();
    let with = with.map(|(other, flows)| {
        let low = flows.iter().filter(|flow| flow.low).count();
        let (name, share) = (name(context, other), mean(&flows));
        format!("{share:.2} {to} {name}, {low} of {} flows low", flows.len())
    });
    let proved = proved(context, end, way);
    let says = format!(
        "The nodes of {group} {does} other leaf groups on {rail} at {capacity:.2} of what they reach among \
         themselves ({}); of those {} {others_do} at {:.2} or more {from} others: the links between the leaf \
         switch of {group} and the spine.",
        listed(with),
        listed(proved.keys().map(|group| name(context, *group))),
        proved.values().copied().fold(f64::INFINITY, f64::min),
    );
    let subject = Subject::LeafGroup(group.to_owned(), rail, end.direction);
    let rates = |rate: &dyn Fn(&Flow<'_>) -> f64| {
        let sum: f64 = way.flows.iter().map(rate).sum();
        Gbps(sum / way.flows.len().max(1) as f64)
    };
    Some(Finding {
        measured: Some(rates(&|flow| flow.seen.rate.0)),
        expected: Some(rates(&|flow| flow.seen.rate.0 / flow.share)),
        expected_from: Some("what the ends of its flows reach in their own groups".to_owned()),
        ratio: Some(capacity),
        ..plain(
            Rule::LeafUplink,
            Severity::Fault,
            subject,
            says,
            proof(way),
            ABOUT.remedy,
        )
    })
}

/// The groups that a way was low against though they are good with others, with what they reach.
fn proved(context: &Context<'_>, end: LeafEnd, way: &Way<'_>) -> BTreeMap<usize, f64> {
    let flows = context.fabric.against_proved(end, way).into_iter();
    let partners = flows.map(|flow| flow.partner(end.direction));
    let reaches = |group: usize| context.fabric.ways.get(&end.of_partner(group))?.capacity;
    partners
        .filter_map(|group| Some((group, reaches(group)?)))
        .collect()
}

/// The flows in the middle: neither the best nor the worst stands for all.
fn proof(way: &Way<'_>) -> Vec<Evidence> {
    let mut flows: Vec<&Flow<'_>> = way.flows.iter().collect();
    flows.sort_by(|a, b| a.share.total_cmp(&b.share));
    let first = flows.len().saturating_sub(SHOWN) / 2;
    let shown = flows.iter().skip(first).take(SHOWN);
    shown.map(|flow| evidence(flow.seen)).collect()
}

/// Ways that a run was asked to measure and nothing says anything of, once it is over.
fn not_measured(context: &Context<'_>) -> Vec<Finding> {
    if context.ledger.end().is_none() {
        return Vec::new();
    }
    let mut rails: BTreeMap<Rail, Vec<&str>> = BTreeMap::new();
    for (end, way) in &context.fabric.ways {
        let names = rails.entry(end.rail).or_default();
        let name = name(context, end.group);
        if way.standing == Standing::Unknown && !names.contains(&name) {
            names.push(name);
        }
    }
    rails.retain(|_, names| !names.is_empty());
    let finding = |(rail, names): (Rail, Vec<&str>)| {
        let says = format!(
            "What passes between {} and other leaf groups on {rail} was not measured: never did three \
             quarters of the NICs of one send to others at once, or receive from them.",
            listed(names)
        );
        let remedy = "Give those NICs to the run that it lacks (nodes that are left out or lost, NICs that are \
                      low or in use), let all nodes carry traffic at once (max_load), then run again.";
        plain(
            Rule::LeafUplink,
            Severity::NotJudged,
            Subject::Rail(rail),
            says,
            Vec::new(),
            remedy,
        )
    };
    rails.into_iter().map(finding).collect()
}
