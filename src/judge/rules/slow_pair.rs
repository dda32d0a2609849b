//! A slow pair of which it cannot be told whether the sender or the receiver is the cause.

use super::{About, Context, evidence, measured, once, one_queue_pair, plain, whole};
use crate::model::{Finding, Rule, Severity, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::SlowPair,
    means: "Data from one NIC to another is slow, and neither end was seen to be good with somebody else: which of them is the cause cannot be told.",
    detected: "The best of up to three RDMA-write probes of the pair is below `degraded_below` of what is expected, and localisation has no proved partner.",
    remedy: "Add a third node to the run, or look at both NICs: link speed and width, PCIe, cable.",
};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let finding = |seen: &&crate::judge::Observation<'_>| {
        let (from, to) = (&seen.pair.from, &seen.pair.to);
        let says = format!(
            "{from} sends to {to} ({}) at {:.2} of {}: either {from} sends or {to} receives badly. \
             Neither was seen to be good with another partner, so which of them cannot be told.",
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
            "Add a third node to the run, or look at both NICs: link speed and width, PCIe, cable.";
        measured(
            plain(
                Rule::SlowPair,
                severity,
                subject,
                says,
                vec![evidence(seen)],
                remedy,
            ),
            seen,
        )
    };
    let pairs = context.localised.ambiguous.iter();
    pairs
        .filter(|seen| !one_queue_pair::explains(context, seen))
        .map(finding)
        .collect()
}
