//! A link that was lost, or had to recover, while probes ran: the same kind as a link that flaps, and
//! no matter of how often.

use std::collections::BTreeMap;

use super::{Context, plain};
use crate::ledger::Probe;
use crate::model::{Evidence, Fact, Finding, Grown, NicId, Outcome, Rail, Rule, Severity, Subject};

const LOST: [&str; 2] = ["link_downed", "link_error_recovery"];

/// Probes that are shown as evidence.
const SHOWN: usize = 4;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut lost: BTreeMap<(Rail, &NicId), Vec<Evidence>> = BTreeMap::new();
    for probe in context.ledger.unclean() {
        let Some(Outcome::Measured {
            measurement,
            verified,
        }) = &probe.outcome
        else {
            continue;
        };
        let pair = &probe.planned.pair;
        let at_target = verified.value().map(|verification| &verification.counters);
        let ends = [
            (&pair.from, Some(&measurement.counters)),
            (&pair.to, at_target),
        ];
        for (nic, counters) in ends {
            let evidence = counters.and_then(|counters| evidence(probe, counters));
            if let Some(evidence) = evidence {
                lost.entry((pair.rail, nic)).or_default().push(evidence);
            }
        }
    }
    lost.into_iter().map(finding).collect()
}

fn evidence(probe: &Probe, counters: &Fact<Vec<Grown>>) -> Option<Evidence> {
    let all = counters.value()?;
    // A counter that was reset tells nothing.
    let lost = |grown: &Grown| {
        let by = grown.by.filter(|_| LOST.contains(&grown.name.as_str()))?;
        Some(format!("{} +{by}", grown.name))
    };
    let saw = all.iter().find_map(lost)?;
    let from = format!("{}, counters before and after", probe.planned.probe);
    Some(Evidence { saw, from })
}

fn finding(((rail, nic), mut evidence): ((Rail, &NicId), Vec<Evidence>)) -> Finding {
    let says = format!(
        "NIC {nic} ({rail}): its link was lost or had to recover while {} of its probes ran.",
        evidence.len()
    );
    evidence.truncate(SHOWN);
    plain(
        Rule::LinkFlapping,
        Severity::Warning,
        Subject::Nic(nic.clone(), rail, None),
        says,
        evidence,
        super::node::FLAPPING_REMEDY,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::ledger::testing::{events, ledger};
    use crate::model::{Event, Verdict};

    fn findings(name: &str, by: Option<u64>) -> Vec<Finding> {
        let mut events = events(2, 1, &|_, _, _| Some(391.0));
        let outcome = events.iter_mut().find_map(|event| match event {
            Event::ProbeEnded { outcome, .. } => Some(outcome),
            _ => None,
        });
        // The first probe is from node 1 to node 2.
        if let Some(Outcome::Measured {
            verified: Fact::Known { value, .. },
            ..
        }) = outcome
        {
            let name = name.to_owned();
            value.counters = Fact::known(vec![Grown { name, by }], "test");
        }
        let judgement = judge(&ledger(&events));
        assert_eq!(judgement.verdict, Verdict::AtLineRate);
        judgement.findings
    }

    #[test]
    fn a_link_lost_under_a_probe_is_told_of_the_end_that_counted_it() {
        let findings = findings("link_error_recovery", Some(1));
        assert_eq!(findings.len(), 1, "{findings:#?}");
        assert_eq!(
            findings[0].says,
            "NIC mlx5_0 of node02 (rail 0): its link was lost or had to recover while 1 of its probes ran."
        );
        assert_eq!(findings[0].evidence[0].saw, "link_error_recovery +1");
    }

    #[test]
    fn other_counters_and_resets_are_no_loss() {
        assert_eq!(findings("np_cnp_sent", Some(1)), []);
        assert_eq!(findings("link_downed", None), [], "a reset");
    }
}
