//! Two NICs that are good with others and slow with each other.

use super::{Context, evidence, measured, plain, whole};
use crate::model::{Finding, Rule, Severity, Subject};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let finding = |seen: &&crate::judge::Observation<'_>| {
        let (from, to) = (&seen.pair.from, &seen.pair.to);
        let says = format!(
            "{from} sends to {to} ({}) at {:.2} of {}, though {from} sends and {to} receives well \
             with others: the path between them, or something that came and went.",
            seen.pair.rail,
            seen.ratio,
            whole(seen)
        );
        let subject = Subject::Pair(seen.pair.clone());
        let remedy =
            "Run again: if it stays, look at the switches and inter-switch links between the two.";
        measured(
            plain(
                Rule::SlowPath,
                Severity::Fault,
                subject,
                says,
                vec![evidence(seen)],
                remedy,
            ),
            seen,
        )
    };
    context.localised.paths.iter().map(finding).collect()
}
