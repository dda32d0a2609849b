//! A pair that could not be measured although both nodes answer.

use std::collections::BTreeMap;

use super::{Context, names, plain};
use crate::ledger::PairState;
use crate::model::{Evidence, Finding, NicId, NodeName, Rule, Severity, Subject};

/// Findings are grouped by who reports what: a node without memlock fails with every partner, and is
/// one finding.
pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let pairs = context.ledger.pairs();
    let mut groups: BTreeMap<(Option<&NodeName>, &str), Vec<&crate::model::Pair>> = BTreeMap::new();
    for summary in &pairs {
        if let PairState::Failed { node, why, .. } = summary.state() {
            groups.entry((node, why)).or_default().push(summary.pair);
        }
    }
    groups
        .into_iter()
        .map(|((node, why), pairs)| finding(node, why, &pairs))
        .collect()
}

fn finding(node: Option<&NodeName>, why: &str, pairs: &[&crate::model::Pair]) -> Finding {
    let subject = match (node, pairs) {
        (Some(node), _) => Subject::Node(node.clone()),
        (None, pairs) => Subject::Pair(pairs[0].clone()),
    };
    let reporter = node
        .map(|node| format!("{node} reports: "))
        .unwrap_or_default();
    let nics =
        |nic: &dyn Fn(&crate::model::Pair) -> &NicId| names(pairs.iter().map(|p| &nic(p).node));
    let says = format!(
        "{} could not be measured (from {} to {}). {reporter}{why}",
        if pairs.len() == 1 {
            "One pair".into()
        } else {
            format!("{} pairs", pairs.len())
        },
        nics(&|pair| &pair.from),
        nics(&|pair| &pair.to),
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
