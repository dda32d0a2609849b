//! Two NICs that are good with others and slow with each other.

use super::{About, Context, evidence, measured, once, one_queue_pair, plain, whole};
use crate::model::{Finding, Rule, Severity, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::SlowPath,
    means: "Two NICs that are each good with others are slow with each other: the path between them, or something that came and went.",
    detected: "The pair is below `degraded_below` of what is expected in up to three probes, while its sender and its receiver reach it with other partners.",
    remedy: "Run again: if it stays, look at the switches and inter-switch links between the two.",
};

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
        let (severity, says) = match once(context, seen) {
            true => {
                let says = format!("{says} It was measured once only, which may be chance.");
                (Severity::NotJudged, says)
            }
            false => (Severity::Fault, says),
        };
        let subject = Subject::Pair(seen.pair.clone());
        let remedy =
            "Run again: if it stays, look at the switches and inter-switch links between the two.";
        measured(
            plain(
                Rule::SlowPath,
                severity,
                subject,
                says,
                vec![evidence(seen)],
                remedy,
            ),
            seen,
        )
    };
    let pairs = context.localised.paths.iter();
    pairs
        .filter(|seen| !one_queue_pair::explains(context, seen))
        .map(finding)
        .collect()
}
