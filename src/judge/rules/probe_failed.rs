//! A pair that could not be measured although both nodes answer.

use std::collections::{BTreeMap, BTreeSet};

use super::{About, Context, names, plain};
use crate::ledger::PairState;
use crate::model::{Evidence, Finding, NODE_LOST, NodeName, Pair, Rule, Severity, Subject};

/// Pairs that a node reports to have failed for one reason: a node without memlock fails with every
/// partner and on every rail, and is one finding.
#[derive(Default)]
struct Group<'a> {
    pairs: Vec<&'a Pair>,
    devices: BTreeSet<&'a str>,
}

pub(super) const ABOUT: About = About {
    rule: Rule::ProbeFailed,
    means: "A probe between two nodes that both answer could not be made to work: memory that cannot be registered, queue pairs that do not connect, a peer that does not acknowledge.",
    detected: "The error of the verbs call or completion, with what it means; pairs that fail for one reason are told once.",
    remedy: "Put right what the message names, then run again.",
};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let pairs = context.ledger.pairs_with_a_failure();
    let mut groups: BTreeMap<(Option<&NodeName>, String), Group<'_>> = BTreeMap::new();
    for summary in &pairs {
        let PairState::Failed { node, why, .. } = summary.state() else {
            continue;
        };
        // That is told of the node, once.
        if why == NODE_LOST {
            continue;
        }
        let device = node.and_then(|node| device(node, summary.pair));
        let group = groups
            .entry((node, without_device(why, device)))
            .or_default();
        group.pairs.push(summary.pair);
        group.devices.extend(device);
    }
    groups
        .into_iter()
        .map(|((node, why), group)| {
            finding(node, &with_devices(&why, &group.devices), &group.pairs)
        })
        .collect()
}

/// The reporting node's device of a pair.
fn device<'a>(node: &NodeName, pair: &'a Pair) -> Option<&'a str> {
    let nic = [&pair.from, &pair.to]
        .into_iter()
        .find(|nic| nic.node == *node)?;
    Some(&nic.device)
}

/// Stands for a device's name while reasons are compared; nothing that a node says holds a NUL.
const DEVICE: &str = "\0";

fn without_device(why: &str, device: Option<&str>) -> String {
    let Some(device) = device.filter(|device| !device.is_empty()) else {
        return why.to_owned();
    };
    let whole = |at: usize| {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        !why[..at].ends_with(part) && !why[at + device.len()..].starts_with(part)
    };
    let mut out = String::new();
    let mut done = 0;
    for (at, _) in why.match_indices(device).filter(|(at, _)| whole(*at)) {
        out.push_str(&why[done..at]);
        out.push_str(DEVICE);
        done = at + device.len();
    }
    out + &why[done..]
}

fn with_devices(why: &str, devices: &BTreeSet<&str>) -> String {
    let devices: Vec<&str> = devices.iter().copied().collect();
    why.replace(DEVICE, &devices.join(", "))
}

fn finding(node: Option<&NodeName>, why: &str, pairs: &[&Pair]) -> Finding {
    let subject = match (node, pairs) {
        (Some(node), _) => Subject::Node(node.clone()),
        (None, pairs) => Subject::Pair(pairs[0].clone()),
    };
    let reporter = node
        .map(|node| format!("{node} reports: "))
        .unwrap_or_default();
    let says = format!(
        "{} could not be measured. {reporter}{why}",
        which(node, pairs)
    );
    let evidence = pairs.iter().take(8).map(|pair| Evidence {
        saw: pair.to_string(),
        from: "plan".into(),
    });
    plain(
        Rule::ProbeFailed,
        Severity::NotJudged,
        subject,
        says,
        evidence.collect(),
        "Put right what the message names, then run again.",
    )
}

/// How many pairs, and between whom.
fn which(node: Option<&NodeName>, pairs: &[&Pair]) -> String {
    let many = match pairs.len() {
        1 => "One pair".to_owned(),
        many => format!("{many} pairs"),
    };
    let froms = || pairs.iter().map(|pair| &pair.from.node);
    let tos = || pairs.iter().map(|pair| &pair.to.node);
    let Some(node) = node.filter(|_| pairs.len() > 1) else {
        return format!("{many} (from {} to {})", names(froms()), names(tos()));
    };
    let partners = names(froms().chain(tos()).filter(|other| *other != node));
    let way = match (froms().all(|from| from == node), tos().all(|to| to == node)) {
        (true, _) => format!("from {node} to {partners}"),
        (_, true) => format!("to {node} from {partners}"),
        _ => format!("between {node} and {partners}"),
    };
    format!("{many} {way}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_name_is_taken_out_where_it_is_a_word() {
        let why = "cannot register with mlx5_1: mlx5_1 (not mlx5_10, not my_mlx5_1) answered";
        let common = without_device(why, Some("mlx5_1"));
        assert_eq!(common.matches(DEVICE).count(), 2);
        assert_eq!(with_devices(&common, &BTreeSet::from(["mlx5_1"])), why);
        assert_eq!(without_device(why, None), why);
    }

    #[test]
    fn a_node_that_fails_on_every_device_is_one_finding() {
        let devices = BTreeSet::from(["rxe0", "rxe1"]);
        let said = ["rxe0", "rxe1"]
            .map(|device| without_device(&format!("no memory for {device}: 12"), Some(device)));
        assert_eq!(said[0], said[1]);
        assert_eq!(
            with_devices(&said[0], &devices),
            "no memory for rxe0, rxe1: 12"
        );
    }
}
