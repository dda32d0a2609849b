//! Bytes that landed are not the bytes that were sent, or nobody could look.

use super::{About, Context, plain};
use crate::model::{Evidence, Fact, Finding, Outcome, Rule, Severity, Subject, Verification};

pub(super) const ABOUT: About = About {
    rule: Rule::CorruptData,
    means: "The bytes that landed in the target's memory are not those that the initiator sent.",
    detected: "After every RDMA write the target compares its whole buffer with the pattern of the probe. Where it could not look, that is said and the run is no pass.",
    remedy: "Take the NICs out of use until their memory, firmware and PCIe error counters (AER) are checked.",
};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    context.ledger.unclean().filter_map(finding).collect()
}

fn finding(probe: &crate::ledger::Probe) -> Option<Finding> {
    let Some(Outcome::Measured { verified, .. }) = &probe.outcome else {
        return None;
    };
    let pair = &probe.planned.pair;
    let (severity, saw) = match verified {
        Fact::Known {
            value: Verification { bytes_wrong: 0, .. },
            ..
        } => return None,
        Fact::Known { value, .. } => (
            Severity::Fault,
            format!(
                "{} of {} bytes that landed are wrong",
                value.bytes_wrong, value.bytes_checked
            ),
        ),
        Fact::Unknown { why } => (
            Severity::NotJudged,
            format!("what landed was not looked at: {why}"),
        ),
    };
    Some(plain(
        Rule::CorruptData,
        severity,
        Subject::Pair(pair.clone()),
        format!("{pair}: {saw}."),
        vec![Evidence {
            saw,
            from: probe.planned.probe.to_string(),
        }],
        "Take the NICs out of use until their memory, firmware and PCIe error counters (AER) are checked.",
    ))
}
