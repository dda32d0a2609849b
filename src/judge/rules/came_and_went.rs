//! What was low or failed once, and did not when it was measured again.

use std::collections::{BTreeMap, BTreeSet};

use super::{About, Context, evidence, measured, names, plain, whole};
use crate::judge::Observation;
use crate::ledger::{PairState, PairSummary, Probe};
use crate::model::{Direction, Evidence, Finding, NODE_LOST, Outcome, Rule, Severity, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::CameAndWent,
    means: "Pairs were low, or failed, in one round and not in another: something came in between, or a fault \
            comes and goes. An intermittent fault shows here first.",
    detected: "A probe below `degraded_below` of what is expected, of a pair that reaches it in another round \
               and whose ends are both good. Several of one NIC are told of it, all others in one note, and so is \
               a round in which more than a fifth of all was low. A probe that failed, of a pair that was \
               measured in another round: all of them in one note, but what befell a node that was lost.",
    remedy: "Compare with earlier runs: a NIC or a link that is here again and again has an intermittent fault; \
             look at its error counters and at how often its link went down.",
};

/// So many of one NIC are hardly chance.
const OF_ONE: usize = 3;

/// Where more than this share of a round was low and is not any more, the whole round was disturbed.
const DISTURBED: f64 = 0.2;

/// Observations that are shown.
const SHOWN: usize = 4;

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let passing = &context.localised.passing;
    let disturbed = disturbed(context);
    let mut of_nic: BTreeMap<usize, Vec<&Observation<'_>>> = BTreeMap::new();
    for seen in passing
        .iter()
        .filter(|seen| !disturbed.contains(&seen.round))
    {
        for number in seen.ends {
            of_nic.entry(number).or_default().push(seen);
        }
    }
    of_nic.retain(|_, seen| seen.len() >= OF_ONE);
    let is_told = |seen: &&&Observation<'_>| seen.ends.iter().any(|end| of_nic.contains_key(end));
    let others: Vec<&Observation<'_>> = passing
        .iter()
        .filter(|seen| !is_told(seen))
        .copied()
        .collect();
    let nics = of_nic
        .iter()
        .map(|(number, seen)| of_one(context, *number, seen));
    let failed = failed_once(context);
    nics.chain(in_all(context, &others)).chain(failed).collect()
}

/// Rounds in which so much was low that it says nothing of a NIC.
fn disturbed(context: &Context<'_>) -> BTreeSet<u32> {
    let mut rounds: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for seen in &context.observed.usual {
        rounds.entry(seen.round).or_default().1 += 1;
    }
    for seen in &context.localised.passing {
        rounds.entry(seen.round).or_default().0 += 1;
    }
    rounds.retain(|_, (low, all)| *low as f64 > DISTURBED * *all as f64);
    rounds.into_keys().collect()
}

fn of_one(context: &Context<'_>, number: usize, seen: &[&Observation<'_>]) -> Finding {
    let part = &context.observed.cast.parts[number];
    let both = [Direction::Tx, Direction::Rx].map(|way| context.observed.of_end(number, way).len());
    let partners = seen
        .iter()
        .flat_map(|seen| [&seen.pair.from.node, &seen.pair.to.node]);
    let says = format!(
        "NIC {} ({}) was low in {} of its {} probes (with {}) and not in others of the same pairs.",
        part.nic,
        part.rail,
        seen.len(),
        both.iter().sum::<usize>(),
        names(partners.filter(|node| **node != part.nic.node)),
    );
    let subject = Subject::Nic(part.nic.clone(), part.rail, None);
    finding(Severity::Warning, subject, says, seen)
}

fn in_all(context: &Context<'_>, seen: &[&Observation<'_>]) -> Option<Finding> {
    let worst = worst(seen)?;
    let of = context.observed.usual.len();
    let more = match seen.len() - 1 {
        0 => String::new(),
        1 => format!(" So was 1 other pair, of {of} measurements."),
        many => format!(" So were {many} others, of {of} measurements."),
    };
    let says = format!(
        "{} was at {:.2} of {} in one round and not in another.{more}",
        worst.pair,
        worst.ratio,
        whole(worst)
    );
    let subject = Subject::Pair(worst.pair.clone());
    Some(finding(Severity::Note, subject, says, seen))
}

/// Pairs that failed once and were measured all the same. What befell a lost node is told of it.
fn failed_once(context: &Context<'_>) -> Option<Finding> {
    let pairs = context.ledger.pairs_with_a_failure();
    let passed = pairs
        .iter()
        .filter(|pair| matches!(pair.state(), PairState::Measured { .. }));
    let failed: Vec<_> = passed.filter_map(first_failure).collect();
    let (first, _) = failed.first()?;
    let more = match failed.len() - 1 {
        0 => String::new(),
        1 => " So did 1 other pair.".to_owned(),
        many => format!(" So did {many} others."),
    };
    let pair = &first.planned.pair;
    let says = format!("{pair} failed in one round and was measured in another.{more}");
    let proof = failed.iter().take(SHOWN).map(|(probe, why)| Evidence {
        saw: format!("{}: {why}", probe.planned.pair),
        from: probe.planned.probe.to_string(),
    });
    let (subject, proof) = (Subject::Pair(pair.clone()), proof.collect());
    let plain = plain(
        Rule::CameAndWent,
        Severity::Note,
        subject,
        says,
        proof,
        ABOUT.remedy,
    );
    Some(plain)
}

/// The first probe of a pair that failed by itself, and why.
fn first_failure<'a>(pair: &PairSummary<'a>) -> Option<(&'a Probe, &'a str)> {
    pair.attempts.iter().find_map(|probe| match &probe.outcome {
        Some(Outcome::Failed { why, .. }) if why != NODE_LOST => Some((*probe, why.as_str())),
        _ => None,
    })
}

fn worst<'o, 'a>(seen: &[&'o Observation<'a>]) -> Option<&'o Observation<'a>> {
    seen.iter()
        .copied()
        .min_by(|a, b| a.share().total_cmp(&b.share()))
}

fn finding(
    severity: Severity,
    subject: Subject,
    says: String,
    seen: &[&Observation<'_>],
) -> Finding {
    let mut shown = seen.to_vec();
    shown.sort_by(|a, b| a.share().total_cmp(&b.share()));
    let proof = shown
        .iter()
        .take(SHOWN)
        .map(|seen| evidence(seen))
        .collect();
    let plain = plain(
        Rule::CameAndWent,
        severity,
        subject,
        says,
        proof,
        ABOUT.remedy,
    );
    match worst(seen) {
        Some(worst) => measured(plain, worst),
        None => plain,
    }
}
