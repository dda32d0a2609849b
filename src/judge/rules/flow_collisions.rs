//! Flows between leaf groups that are low one by one: no NIC's fault, and none of a single group.

use std::collections::BTreeMap;

use super::leaf_uplink::name;
use super::{About, Context, evidence, listed, plain};
use crate::judge::fabric::{Flow, mean};
use crate::model::{Direction, Finding, LeafEnd, Rail, Rule, Severity, Standing, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::FlowCollisions,
    means: "While all nodes send to other leaf groups, single flows are low though their ends are good: static \
            routing, or a hash (ECMP), puts several of them on one link. Where no group reaches what its nodes \
            reach among themselves, either that is so of most flows, or the fabric has fewer links above the \
            leafs than below them.",
    detected: "With --fabric, flows between leaf groups are below `degraded_below` of what their ends reach in \
               their own groups, other than those of a group whose links are proved to be too few. Single flows \
               accuse neither a NIC nor a group; a few in a hundred are not told.",
    remedy: "Nothing is broken by it: use more queue pairs for each connection, adaptive routing, or keep jobs \
             below one leaf; where every group is low, compare with how many links the fabric was built with.",
};

/// From this share of a rail's flows on they are told.
const WORTH_TELLING: f64 = 0.05;

/// Flows that are shown as evidence.
const SHOWN: usize = 4;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut rails: BTreeMap<Rail, Vec<Flow<'_>>> = BTreeMap::new();
    for flow in &context.fabric.flows {
        if !is_told(context, flow) {
            let flows = rails.entry(flow.seen.pair.rail).or_default();
            flows.push(*flow);
        }
    }
    rails
        .into_iter()
        .filter_map(|(rail, flows)| finding(context, rail, &flows))
        .collect()
}

/// Whether what is wrong with a flow is told of a group already, or of the whole rail.
fn is_told(context: &Context<'_>, flow: &Flow<'_>) -> bool {
    let standing = |end: &LeafEnd| context.fabric.ways.get(end).map(|way| way.standing);
    let ends = flow.ends();
    let accused = ends
        .iter()
        .any(|end| standing(end) == Some(Standing::Accused));
    accused || ends.iter().all(|end| standing(end).is_none())
}

fn finding(context: &Context<'_>, rail: Rail, flows: &[Flow<'_>]) -> Option<Finding> {
    let mut low: Vec<&Flow<'_>> = flows.iter().filter(|flow| flow.low).collect();
    if (low.len() as f64) < WORTH_TELLING * flows.len() as f64 || low.is_empty() {
        return None;
    }
    let degraded_below = context.expect.degraded_below;
    let mut says = format!(
        "{} of {} flows between leaf groups on {rail} are below {degraded_below:.2} of what their ends reach in \
         their own groups; the mean of all is {:.2}.",
        low.len(),
        flows.len(),
        mean(flows)
    );
    let mine = context.fabric.ways.iter();
    let mine = mine.filter(|(end, way)| end.rail == rail && way.capacity.is_some());
    let (suspect, others): (Vec<_>, Vec<_>) =
        mine.partition(|(_, way)| way.standing == Standing::Suspect);
    let whole = others.is_empty();
    if whole {
        says += " No leaf group reaches more with any other: most flows share links, or there are fewer links \
                 above the leafs than below them.";
    } else if !suspect.is_empty() {
        let ways = suspect.iter().map(|(end, way)| {
            let does = match end.direction {
                Direction::Tx => "sends",
                Direction::Rx => "receives",
            };
            let share = way.capacity.unwrap_or_default();
            format!("{} {does} at {share:.2}", name(context, end.group))
        });
        says += &format!(
            " Of a leaf group {} at best; whether its links are the cause, or those of who it was measured \
             with, or single flows, cannot be told.",
            listed(ways)
        );
    } else {
        says += " Single flows accuse nobody: routing puts several of them on one link.";
    }
    low.sort_by(|a, b| a.share.total_cmp(&b.share));
    let proof = low.iter().take(SHOWN).map(|flow| evidence(flow.seen));
    let severity = match suspect.is_empty() {
        true => Severity::Note,
        false => Severity::Warning,
    };
    Some(plain(
        Rule::FlowCollisions,
        severity,
        Subject::Rail(rail),
        says,
        proof.collect(),
        ABOUT.remedy,
    ))
}
