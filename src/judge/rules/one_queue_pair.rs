//! Pairs that reach their line only with several queue pairs: no fault of the NIC, and worth knowing.

use std::collections::BTreeMap;

use super::{About, Context, evidence, measured, names, plain, shape, whole};
use crate::judge::Observation;
use crate::judge::culprit::isolated;
use crate::model::{Direction, Finding, NicId, Purpose, Rule, Severity, Subject, Trial};
use crate::plan::{Culprit, Decision};

pub(super) const ABOUT: About = About {
    rule: Rule::OneQueuePair,
    means: "A NIC falls short with the probe's own queue pairs and message size, and reaches its line with \
            four queue pairs and larger messages. Applications with few connections, such as NCCL with \
            one queue pair for each, get the lower rate.",
    detected: "A pair that was low twice is measured once more with at least four queue pairs and messages \
               of up to 8 MiB; that probe reaches `degraded_below` of what is expected, the others do not.",
    remedy: "Use more queue pairs (NCCL_IB_QPS_PER_CONNECTION, `queue_pairs` under [probe]); look for a bond \
             that hashes each to one member, for routing that puts each on one path, and at the CPU governor.",
};

/// What a pair reached with more queue pairs, and what it reached at best without.
type Lifted<'a> = (&'a Observation<'a>, &'a Observation<'a>);

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let own = context.culprits.iter();
    let own = own.filter(|(_, decision)| **decision == Decision::Known(Culprit::OneQueuePair));
    let mut groups: BTreeMap<(&NicId, Direction), Vec<Lifted<'_>>> = BTreeMap::new();
    let nics: Vec<&NicId> = own.map(|(nic, _)| nic).collect();
    for end in context
        .localised
        .accused
        .keys()
        .filter(|end| nics.contains(&&end.nic))
    {
        let seen = isolated(context.observed, end).into_iter();
        let wide = seen.filter(|seen| seen.purpose == Purpose::Wide);
        let lifted: Vec<Lifted<'_>> = wide
            .filter_map(|wide| Some((wide, usual(context, wide, end.direction)?)))
            .collect();
        groups.insert((&end.nic, end.direction), lifted);
    }
    let pairs = context
        .standings
        .doubts
        .iter()
        .filter(|doubt| doubt.wide == Trial::Full);
    let pairs = pairs.filter_map(|doubt| {
        let mut isolating = context.observed.isolating.iter();
        let wide = isolating.find(|seen| is_wide(seen) && *seen.pair == doubt.pair)?;
        let usual = usual(context, wide, Direction::Tx)?;
        Some((&wide.pair.from, Direction::Tx, vec![(wide, usual)]))
    });
    let nics = groups.into_iter().filter(|(_, lifted)| !lifted.is_empty());
    let nics = nics.map(|((nic, direction), lifted)| finding(nic, direction, &lifted, true));
    nics.chain(pairs.map(|(nic, direction, lifted)| finding(nic, direction, &lifted, false)))
        .collect()
}

/// Whether more queue pairs lift what is low of a pair: then it is this rule's, not a slow pair or path.
pub(super) fn explains(context: &Context<'_>, seen: &Observation<'_>) -> bool {
    let mut doubts = context.standings.doubts.iter();
    doubts.any(|doubt| doubt.pair == *seen.pair && doubt.wide == Trial::Full)
}

fn is_wide(seen: &Observation<'_>) -> bool {
    seen.purpose == Purpose::Wide
}

/// The best that the end of a wide probe reached under the run's own settings.
fn usual<'a>(
    context: &Context<'a>,
    wide: &Observation<'_>,
    direction: Direction,
) -> Option<&'a Observation<'a>> {
    let mine = context
        .observed
        .of_end(wide.end(direction), direction)
        .into_iter();
    mine.filter(|seen| seen.share() < context.expect.degraded_below)
        .max_by(|a, b| a.rate.0.total_cmp(&b.rate.0))
}

fn finding(nic: &NicId, direction: Direction, found: &[Lifted<'_>], of_nic: bool) -> Finding {
    let (seen, usual) = found[0];
    let partners = found.iter().map(|(seen, _)| match direction {
        Direction::Tx => &seen.pair.to.node,
        Direction::Rx => &seen.pair.from.node,
    });
    let subject = match of_nic {
        false => Subject::Pair(seen.pair.clone()),
        true => Subject::Nic(nic.clone(), seen.pair.rail, Some(direction)),
    };
    let (verb, way) = match direction {
        Direction::Tx => ("sends", "to"),
        Direction::Rx => ("receives", "from"),
    };
    let says = format!(
        "NIC {nic} ({}) {verb} {} as the settings say, and {} {way} {}, {:.2} of {}, with{}.",
        seen.pair.rail,
        usual.rate,
        seen.rate,
        names(partners),
        seen.ratio,
        whole(seen),
        shape(seen.probe).trim_start_matches(','),
    );
    let proof = vec![evidence(usual), evidence(seen)];
    let plain = plain(
        Rule::OneQueuePair,
        Severity::Warning,
        subject,
        says,
        proof,
        ABOUT.remedy,
    );
    measured(plain, seen)
}

#[cfg(test)]
mod tests {
    use crate::judge::judge;
    use crate::ledger::testing::{events, ledger, probed};
    use crate::model::{Bytes, Event, ProbeId, ProbeSpec, Purpose, Rule, Severity, Verdict};

    const FULL: f64 = 391.0;

    /// Three nodes; what node 1 sends is at half, alone as well, and at `wide` with more queue pairs.
    fn judged(wide: f64) -> crate::judge::Judgement {
        let rate = |i, _, _| Some(if i == 0 { 0.5 * FULL } else { FULL });
        let mut events = events(3, 1, &rate);
        let end = events.pop().unwrap();
        let before = ledger(&events);
        let slow = before.pairs()[0].pair.clone();
        let made = [(Purpose::Alone, 0.5 * FULL), (Purpose::Wide, wide)];
        for (probe, (purpose, rate)) in (90..).zip(made) {
            let mut again = probed(ProbeId(probe), slow.clone(), Some(rate));
            if let Event::RoundPlanned { pairs, .. } = &mut again[0] {
                pairs[0].purpose = purpose;
                pairs[0].spec = (purpose == Purpose::Wide).then(|| spec(&before));
            }
            events.extend(again);
        }
        events.push(end);
        judge(&ledger(&events))
    }

    fn spec(ledger: &crate::ledger::Ledger) -> ProbeSpec {
        ProbeSpec {
            queue_pairs: 4,
            message_size: Bytes(8 << 20),
            ..ledger.settings().unwrap().probe.clone()
        }
    }

    #[test]
    fn what_four_queue_pairs_reach_is_no_fault_of_the_nic() {
        let judgement = judged(FULL);
        assert_eq!(judgement.verdict, Verdict::AtLineRate);
        let [finding] = &judgement.findings[..] else {
            panic!("{:#?}", judgement.findings);
        };
        assert_eq!(
            (finding.rule, finding.severity),
            (Rule::OneQueuePair, Severity::Warning)
        );
        assert_eq!(
            finding.says,
            "NIC mlx5_0 of node01 (rail 0) sends 196 Gb/s as the settings say, and 391 Gb/s to node02, 1.00 of \
             expected, with 4 queue pairs x 8 MiB."
        );
    }

    #[test]
    fn what_stays_low_is_the_nics_and_says_that_it_was_tried() {
        let judgement = judged(0.51 * FULL);
        assert_eq!(judgement.findings.len(), 1, "{:#?}", judgement.findings);
        let finding = &judgement.findings[0];
        assert_eq!(finding.rule, Rule::HalfBandwidth);
        assert!(
            finding
                .says
                .contains("with more queue pairs: the cause is in the NIC")
        );
        let wide = "RDMA write, 4 queue pairs x 8 MiB, the other rails idle, more queue pairs";
        let mut proof = finding.evidence.iter();
        assert!(
            proof.any(|evidence| evidence.from.ends_with(wide)),
            "{finding:#?}"
        );
    }
}
