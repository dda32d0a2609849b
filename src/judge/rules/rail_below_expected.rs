//! A rail on which nothing is good: the fault is not in a NIC.

use super::{About, Context, evidence, measured, plain, whole};
use crate::model::{Finding, Rule, Severity, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::RailBelowExpected,
    means: "No pair of a rail reaches what is expected: what its NICs share is slow, or the expectation is wrong. It is never normalised away by comparing the NICs with each other.",
    detected: "The best pair of the rail is below `degraded_below` of line rate times payload share.",
    remedy: "Look at what the rail's NICs share (switch, MTU, firmware, rate limit, flow control), or correct line_rate.",
};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let finding = |(rail, _): (&crate::model::Rail, &f64)| {
        let mine = context
            .observed
            .usual
            .iter()
            .filter(|seen| seen.pair.rail == *rail);
        let best = mine.clone().max_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
        let says = format!(
            "All {} pairs of {rail} are low; the best reaches {}, {:.2} of {}.",
            mine.count(),
            best.rate,
            best.ratio,
            whole(best)
        );
        let remedy = "What the rail's NICs share is the likely cause: switch, MTU, firmware, rate limit, \
                      flow control; or line_rate in the configuration is not that of this rail.";
        let plain = plain(
            Rule::RailBelowExpected,
            Severity::Fault,
            Subject::Rail(*rail),
            says,
            vec![evidence(best)],
            remedy,
        );
        Some(measured(plain, best))
    };
    context
        .localised
        .low_rails
        .iter()
        .filter_map(finding)
        .collect()
}
