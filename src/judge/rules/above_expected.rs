//! More than the link can carry: the facts are wrong, or the data did not take that link.

use super::{About, Context, evidence, measured, plain};
use crate::model::{Finding, Rule, Severity, Subject};

/// A result above this share of what the links can carry is not believed. Bursts that a shaper or a
/// switch's buffer lets through at the start stay well below it.
const BELIEVABLE: f64 = 1.05;

pub(super) const ABOUT: About = About {
    rule: Rule::AboveExpected,
    means: "More was measured than the link can carry: a fact is wrong, or the data did not take the path that was meant.",
    detected: "A pair above 1.05 of line rate times payload share.",
    remedy: "Check line_rate in the configuration and the ports' rates; make sure that the data went over this rail and not through the host or another NIC.",
};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let above = context.observed.usual.iter();
    let above = above.filter(|seen| seen.expected.value().is_some() && seen.ratio > BELIEVABLE);
    let finding = |seen: &crate::judge::Observation<'_>| {
        let says = format!(
            "{} was measured at {}, {:.2} of what its links can carry.",
            seen.pair, seen.rate, seen.ratio
        );
        let subject = Subject::Pair(seen.pair.clone());
        let remedy = "Check line_rate in the configuration and the ports' rates; make sure that the data \
                      went over this rail and not through the host or another NIC.";
        let kind = plain(
            Rule::AboveExpected,
            Severity::NotJudged,
            subject,
            says,
            vec![evidence(seen)],
            remedy,
        );
        measured(kind, seen)
    };
    above.map(finding).collect()
}
