//! NICs of a node that are full alone and low together: what they share is the limit.

use super::{About, Context, evidence, listed, plain};
use crate::judge::Observation;
use crate::judge::culprit::{isolated, shared};
use crate::model::{
    Direction, End, Evidence, Finding, NicId, NodeName, Purpose, Rail, Rule, Severity, Subject,
};

pub(super) const SHARED: About = About {
    rule: Rule::SharedPcie,
    means: "NICs that share a PCIe root port, a switch below it or a slot reach their line one by one, and \
            together they do not: the link that they share carries less than both.",
    detected: "They are low in at least two rounds that load every NIC of the node, one of them against \
               partners that are proved good; each reaches `degraded_below` of what is expected while the \
               others are idle, and those of its root port are low together while the rest is idle.",
    remedy: "Compare LnkSta with LnkCap of the switch's upstream port and of the root port above it; move one \
             of the NICs to another slot, or expect no more than the shared link carries.",
};

pub(super) const NODE: About = About {
    rule: Rule::NodeLimit,
    means: "At least three quarters of a node's NICs are low while all are loaded, and full one by one: the \
            node does not feed them all (memory, NUMA placement, IOMMU, power), not one of its NICs.",
    detected: "The same as for shared PCIe links, where no root port is shared or those below it are full \
               together.",
    remedy: "Look at NUMA placement and memory channels, IOMMU passthrough (iommu=pt), the BIOS's power and \
             NPS settings, and compare with a node of the same kind that is full.",
};

/// Observations of a kind that are shown.
const SHOWN: usize = 4;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let shared = shared(&context.culprits).into_iter();
    let finding = |((node, rails), nics): ((&NodeName, Option<&[Rail]>), Vec<&NicId>)| {
        finding(context, node, rails.is_some(), &nics)
    };
    shared.map(finding).collect()
}

fn finding(context: &Context<'_>, node: &NodeName, shares: bool, nics: &[&NicId]) -> Finding {
    let ends: Vec<(&End, &Vec<&Observation<'_>>)> = context
        .localised
        .accused
        .iter()
        .filter(|(end, _)| nics.contains(&&end.nic))
        .collect();
    let lows: Vec<&Observation<'_>> = ends
        .iter()
        .flat_map(|(_, lows)| lows.iter().copied())
        .collect();
    let worst = lows
        .iter()
        .copied()
        .min_by(|a, b| a.share().total_cmp(&b.share()));
    let alone = |(end, _): &(&End, &Vec<&Observation<'_>>)| {
        let seen = isolated(context.observed, end);
        seen.into_iter().find(|seen| seen.purpose == Purpose::Alone)
    };
    let alone: Vec<&Observation<'_>> = ends.iter().filter_map(alone).collect();
    let says = sentence(context, node, shares, nics, worst, &alone);
    let together = context.observed.isolating.iter().filter(|seen| {
        let is_mine =
            |direction| nics.contains(&context.observed.cast.parts[seen.end(direction)].nic);
        seen.purpose == Purpose::Siblings && (is_mine(Direction::Tx) || is_mine(Direction::Rx))
    });
    let mut proof: Vec<Evidence> = lows.iter().take(SHOWN).map(|seen| evidence(seen)).collect();
    proof.extend(alone.iter().take(SHOWN).map(|seen| evidence(seen)));
    proof.extend(together.take(SHOWN).map(evidence));
    let about = if shares { &SHARED } else { &NODE };
    let subject = Subject::Node(node.clone());
    let plain = plain(
        about.rule,
        Severity::Fault,
        subject,
        says,
        proof,
        about.remedy,
    );
    match worst {
        Some(worst) => super::measured(plain, worst),
        None => plain,
    }
}

fn sentence(
    context: &Context<'_>,
    node: &NodeName,
    shares: bool,
    nics: &[&NicId],
    worst: Option<&Observation<'_>>,
    alone: &[&Observation<'_>],
) -> String {
    let names = listed(nics.iter().map(|nic| nic.device.as_str()));
    let low = worst.map_or(String::new(), |seen| {
        format!(", down to {:.2} of {}", seen.ratio, super::whole(seen))
    });
    let full = alone.iter().map(|seen| seen.ratio).min_by(f64::total_cmp);
    let full = full.map_or(String::new(), |share| {
        format!(
            "; with the other rails idle {} reach {share:.2} or more",
            match alone.len() {
                1 => "one that was tried",
                _ => "those that were tried",
            }
        )
    });
    let root = context
        .standings
        .nodes
        .iter()
        .filter(|other| other.node == *node);
    let mut root = root
        .flat_map(|node| &node.nics)
        .filter(|nic| nics.contains(&&nic.nic));
    let root = root
        .find_map(|nic| nic.root_port.as_ref())
        .filter(|_| shares);
    let what = match root {
        Some(root) => format!("They share the root port {root}."),
        None => "What they share on the node is the limit, not a NIC.".to_owned(),
    };
    format!("NICs {names} of {node} are low together{low}{full}. {what}")
}
