//! Pairs that reach their line only with several queue pairs: no fault of the NIC, and worth knowing.

use std::collections::BTreeMap;

use super::{About, Context, measured, names, plain, shape, whole};
use crate::judge::Observation;
use crate::ledger::Probe;
use crate::model::{Direction, Evidence, Finding, Gbps, NicId, Rule, Severity, Subject};

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

/// A pair whose last probe reached what the others did not, and the best of those.
type Lifted<'a> = (&'a Observation<'a>, &'a Probe, Gbps);

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let lifted: Vec<Lifted<'_>> = context
        .observations
        .iter()
        .filter_map(|seen| lifted(context, seen))
        .collect();
    let mut senders: BTreeMap<&NicId, Vec<&Lifted<'_>>> = BTreeMap::new();
    let mut receivers: BTreeMap<&NicId, usize> = BTreeMap::new();
    for one in &lifted {
        senders.entry(&one.0.pair.from).or_default().push(one);
        *receivers.entry(&one.0.pair.to).or_default() += 1;
    }
    // The end that more of them share has it.
    let mut groups: BTreeMap<(&NicId, Direction), Vec<&Lifted<'_>>> = BTreeMap::new();
    for one in &lifted {
        let (from, to) = (&one.0.pair.from, &one.0.pair.to);
        let end = match senders[from].len() >= receivers[to] {
            true => (from, Direction::Tx),
            false => (to, Direction::Rx),
        };
        groups.entry(end).or_default().push(one);
    }
    // One of several pairs may have been low by chance.
    let groups = groups.into_iter();
    groups
        .filter(|((nic, direction), found)| found.len() > 1 || pairs(context, nic, *direction) == 1)
        .map(|((nic, direction), found)| finding(nic, direction, &found))
        .collect()
}

/// How many pairs of a NIC were measured in a direction.
fn pairs(context: &Context<'_>, nic: &NicId, direction: Direction) -> usize {
    let mine = context.observations.iter().filter(|seen| match direction {
        Direction::Tx => seen.pair.from == *nic,
        Direction::Rx => seen.pair.to == *nic,
    });
    mine.count()
}

fn lifted<'a>(context: &Context<'a>, seen: &'a Observation<'a>) -> Option<Lifted<'a>> {
    seen.probe.planned.spec.as_ref()?;
    let usual = context
        .ledger
        .probes()
        .filter(|probe| probe.planned.pair == *seen.pair && probe.planned.spec.is_none());
    let usual = usual.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let best = usual.rate()?;
    let share = best.share_of(seen.rate)? * seen.ratio;
    let limit = context.expect.degraded_below;
    (seen.ratio >= limit && share < limit).then_some((seen, usual, best))
}

fn rate(probe: &Probe) -> f64 {
    probe.rate().map_or(0.0, |rate| rate.0)
}

fn finding(nic: &NicId, direction: Direction, found: &[&Lifted<'_>]) -> Finding {
    let (seen, usual, best) = *found[0];
    let partners = found.iter().map(|(seen, ..)| match direction {
        Direction::Tx => &seen.pair.to.node,
        Direction::Rx => &seen.pair.from.node,
    });
    let subject = match found.len() {
        1 => Subject::Pair(seen.pair.clone()),
        _ => Subject::Nic(nic.clone(), seen.pair.rail, Some(direction)),
    };
    let (verb, way) = match direction {
        Direction::Tx => ("sends", "to"),
        Direction::Rx => ("receives", "from"),
    };
    let says = format!(
        "NIC {nic} ({}) {verb} {best} {way} {} as the settings say, and {}, {:.2} of {}, with{}.",
        seen.pair.rail,
        names(partners),
        seen.rate,
        seen.ratio,
        whole(seen),
        shape(seen.probe).trim_start_matches(','),
    );
    let proof = [(usual, best), (seen.probe, seen.rate)].map(|(probe, rate)| Evidence {
        saw: format!("{}: {rate}", seen.pair),
        from: format!("{}, RDMA write{}", probe.planned.probe, shape(probe)),
    });
    let plain = plain(
        Rule::OneQueuePair,
        Severity::Warning,
        subject,
        says,
        proof.to_vec(),
        ABOUT.remedy,
    );
    measured(plain, seen)
}

#[cfg(test)]
mod tests {
    use crate::judge::judge;
    use crate::ledger::testing::{events, ledger, probed};
    use crate::model::{Bytes, Event, ProbeId, ProbeSpec, Rule, Severity, Verdict};

    const FULL: f64 = 391.0;

    /// Three nodes; what node 1 sends is at half, and at `wide` with more queue pairs.
    fn judged(wide: f64) -> crate::judge::Judgement {
        judged_to(wide, &["node02", "node03"])
    }

    /// The same, and only what it sends to `slow` is measured again.
    fn judged_to(wide: f64, slow: &[&str]) -> crate::judge::Judgement {
        let mut events = events(3, 1, &|i, _, _| {
            Some(if i == 0 { 0.5 * FULL } else { FULL })
        });
        let end = events.pop().unwrap();
        let before = ledger(&events);
        let mut probe = 90;
        for summary in before.pairs() {
            let (from, to) = (&summary.pair.from.node.0, &summary.pair.to.node.0);
            if from != "node01" || !slow.contains(&to.as_str()) {
                continue;
            }
            for spec in [None, Some(spec(&before))] {
                let rate = if spec.is_some() { wide } else { 0.5 * FULL };
                let mut again = probed(ProbeId(probe), summary.pair.clone(), Some(rate));
                if let Event::RoundPlanned { pairs, .. } = &mut again[0] {
                    pairs[0].spec = spec;
                }
                events.extend(again);
                probe += 1;
            }
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
            "NIC mlx5_0 of node01 (rail 0) sends 196 Gb/s to node02, node03 as the settings say, and 391 Gb/s, \
             1.00 of expected, with 4 queue pairs x 8 MiB."
        );
    }

    #[test]
    fn one_pair_of_several_may_be_chance() {
        let judgement = judged_to(FULL, &["node02"]);
        let mut rules = judgement.findings.iter().map(|f| f.rule);
        assert!(!rules.any(|rule| rule == Rule::OneQueuePair));
    }

    #[test]
    fn what_stays_low_is_one_and_says_that_it_was_tried() {
        let judgement = judged(0.51 * FULL);
        assert_eq!(judgement.findings.len(), 1, "{:#?}", judgement.findings);
        let finding = &judgement.findings[0];
        assert_eq!(finding.rule, Rule::HalfBandwidth);
        assert!(
            finding.evidence[0]
                .from
                .ends_with("RDMA write, 4 queue pairs x 8 MiB"),
            "{finding:#?}"
        );
    }
}
