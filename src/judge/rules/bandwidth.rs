//! A NIC that sends or receives well below what is expected, with every partner.

use std::collections::BTreeSet;

use super::{About, Context, evidence, measured, names, plain, roce_loss, whole};
use crate::judge::cause::explain;
use crate::judge::{Observation, culprit};
use crate::model::{Direction, End, Evidence, Finding, NicId, NodeName, Rule, Severity, Subject};
use crate::plan::{Culprit, Decision};

/// Observations of a kind that are shown; the sentence counts them all.
const SHOWN: usize = 4;

pub(super) const HALF: About = About {
    rule: Rule::HalfBandwidth,
    means: "A NIC sends or receives at about half of what is expected, or less, with every partner: the \
            classic silent loss. Where the survey explains it (a PCIe link at x8) the finding names the cause.",
    detected: DETECTED,
    remedy: REMEDY,
};

pub(super) const DEGRADED: About = About {
    rule: Rule::DegradedBandwidth,
    means: "A NIC sends or receives clearly below what is expected with every partner, yet well above half.",
    detected: DETECTED,
    remedy: REMEDY,
};

const DETECTED: &str = "RDMA-write probes with every partner: the best of them is below `half_below` \
                        (or `degraded_below`) of line rate times payload share, or of what the rail's best \
                        reach; at least two were low, one of them against a partner proved good with others.";

const REMEDY: &str = "Compare LnkSta with LnkCap of the NIC and of every bridge above it (lspci -vv), its \
                      speed (ibstat or ethtool) and its error counters; then reseat or swap cable and \
                      transceiver, and look for a rate limit on the switch port.";

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    // What a node's NICs have together, and what several queue pairs mend, are findings of their own.
    let own = |end: &End| {
        !matches!(
            context.culprits.get(&end.nic),
            Some(Decision::Known(
                Culprit::Shared(_) | Culprit::Node | Culprit::OneQueuePair
            ))
        )
    };
    let accused = context.localised.accused.iter();
    let accused = accused.filter(|(end, _)| own(end) && !culprit::is_echo(&context.standings, end));
    accused
        .map(|(end, lows)| finding(context, end, lows))
        .collect()
}

/// Whether a measured shortfall of the NIC names its PCIe link as the cause.
pub(super) fn names_pcie(context: &Context<'_>, nic: &NicId) -> bool {
    let accused = context.localised.accused.iter();
    let mut mine = accused.filter(|(end, _)| end.nic == *nic);
    mine.any(|(end, lows)| {
        let explained = |seen: &&Observation<'_>| {
            let expected = seen.expected.value().copied();
            expected.and_then(|whole| explain(context.ledger, end, seen.rate, whole))
        };
        lows.iter().any(|seen| explained(seen).is_some())
    })
}

fn finding(context: &Context<'_>, end: &End, lows: &[&Observation<'_>]) -> Finding {
    // The best of them: a NIC is at least as good as its best probe.
    let Some(best) = lows.iter().max_by(|a, b| a.share().total_cmp(&b.share())) else {
        unreachable!("an accusation has observations");
    };
    let rule = match best.share() < context.expect.half_below {
        true => Rule::HalfBandwidth,
        false => Rule::DegradedBandwidth,
    };
    let subject = Subject::Nic(end.nic.clone(), end.rail, Some(end.direction));
    let mut proof: Vec<Evidence> = lows.iter().take(SHOWN).map(|seen| evidence(seen)).collect();
    proof.extend(partners_elsewhere(context, end, lows));
    proof.extend(culprit::proof(context.observed, end, &evidence));
    let mut says = sentence(context, end, lows, best);
    let decision = context.culprits.get(&end.nic);
    if let Some(more) = culprit::sentence(context.observed, end, decision) {
        says = format!("{says} {more}");
    }
    if let Some(more) = culprit::echo(context.observed, &context.standings, end) {
        says = format!("{says} {more}");
    }
    let expected = best.expected.value().copied();
    if let Some(cause) = expected.and_then(|whole| explain(context.ledger, end, best.rate, whole)) {
        says = format!("{says} {}", cause.says);
        proof.extend(cause.evidence);
    }
    let lost = lows.iter().map(|seen| seen.probe);
    let lost: Vec<Evidence> = lost
        .filter_map(|probe| roce_loss::of_probe(context.ledger, probe))
        .collect();
    if !lost.is_empty() {
        let (n, of) = (lost.len(), lows.len());
        says = format!("{says} Packets were lost in {n} of its {of} low probes.");
        proof.extend(lost.into_iter().take(SHOWN));
    }
    measured(
        plain(rule, Severity::Fault, subject, says, proof, remedy(end)),
        best,
    )
}

fn partner<'o>(end: &End, seen: &'o Observation<'_>) -> &'o NodeName {
    match end.direction {
        Direction::Tx => &seen.pair.to.node,
        Direction::Rx => &seen.pair.from.node,
    }
}

fn sentence(
    context: &Context<'_>,
    end: &End,
    lows: &[&Observation<'_>],
    best: &Observation<'_>,
) -> String {
    let (verb, to, others_do, from) = match end.direction {
        Direction::Tx => ("sends", "to", "receive", "from"),
        Direction::Rx => ("receives", "from", "send", "to"),
    };
    let of = whole(best);
    let partners = names(lows.iter().map(|seen| partner(end, seen)));
    let n = lows
        .iter()
        .map(|seen| partner(end, seen))
        .collect::<BTreeSet<_>>()
        .len();
    let proof = match worst_partner(context, end, lows) {
        Some(at_least) => format!(", who {others_do} at {at_least:.2} or more {from} others"),
        None => String::new(),
    };
    format!(
        "NIC {} ({}) {verb} at {:.2} of {of} {to} {n} of {n} partners ({partners}){proof}.",
        end.nic, end.rail, best.ratio
    )
}

/// The smallest of the best shares that the proved partners reach with others.
fn worst_partner(context: &Context<'_>, end: &End, lows: &[&Observation<'_>]) -> Option<f64> {
    let other = other(end.direction);
    let best = |seen: &&Observation<'_>| context.localised.best(seen.end(other), other);
    let proved = lows
        .iter()
        .filter_map(best)
        .filter(|share| *share >= context.expect.degraded_below);
    proved.min_by(f64::total_cmp)
}

/// For the first proved partners the best probe with somebody else, in the same direction.
fn partners_elsewhere(
    context: &Context<'_>,
    end: &End,
    lows: &[&Observation<'_>],
) -> Vec<Evidence> {
    let elsewhere = |low: &&Observation<'_>| {
        let other = other(end.direction);
        let others = context.observed.of_end(low.end(other), other).into_iter();
        let best = others.max_by(|a, b| a.share().total_cmp(&b.share()))?;
        (best.share() >= context.expect.degraded_below).then(|| evidence(best))
    };
    let mut proof: Vec<Evidence> = Vec::new();
    for evidence in lows.iter().filter_map(elsewhere) {
        // One good measurement may prove two partners.
        if !proof.contains(&evidence) {
            proof.push(evidence);
        }
    }
    proof.truncate(SHOWN);
    proof
}

fn other(direction: Direction) -> Direction {
    match direction {
        Direction::Tx => Direction::Rx,
        Direction::Rx => Direction::Tx,
    }
}

fn remedy(end: &End) -> String {
    let nic = &end.nic;
    format!(
        "On {}: compare LnkSta with LnkCap of {} and of every bridge above it (lspci -vv), its speed \
         (ibstat or ethtool), and its error counters; then reseat or swap cable and transceiver, and \
         look for a rate limit on the switch port.",
        nic.node, nic.device
    )
}
