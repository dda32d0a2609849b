//! What to measure once more before anyone is accused: low pairs and failed ones.

use std::collections::HashSet;

use super::{Localised, Observation, localise, observe};
use crate::ledger::{Ledger, NodeState, PairState};
use crate::model::{Bytes, Gbps, Pair, ProbeSpec};

/// A retest of a pair that stays low spreads its load over so many queue pairs: where one is not
/// enough for the line, that is not the NIC's fault (one core posts for it, a bond hashes it to one
/// member, a switch to one path).
const WIDE_QUEUE_PAIRS: u32 = 4;
/// … and asks for messages of up to this size, for which no cost per message counts.
const WIDE_MESSAGE: u64 = 8 << 20;
/// … but none that takes longer than this at the rate that was measured: a probe must end.
const WIDE_MESSAGE_S: f64 = 0.01;

/// Pairs whose last word is not spoken: measured low, or failed although both nodes still answer.
pub fn retests(ledger: &Ledger) -> Vec<Pair> {
    let Some(settings) = ledger.settings() else {
        return Vec::new();
    };
    let observations = observe(ledger);
    let localised = localise(&observations, &settings.expect);
    let low: HashSet<&Pair> = low_observations(&localised).map(|seen| seen.pair).collect();
    let alive = |pair: &Pair| {
        [&pair.from, &pair.to]
            .into_iter()
            .all(|nic| answers(ledger, nic))
    };
    let again = ledger
        .pairs()
        .into_iter()
        .filter(|summary| match summary.state() {
            PairState::Measured { .. } => low.contains(summary.pair),
            PairState::Failed { .. } => true,
            PairState::NotRun { .. } => false,
        });
    again
        .map(|summary| summary.pair.clone())
        .filter(alive)
        .collect()
}

fn low_observations<'a>(found: &'a Localised<'a>) -> impl Iterator<Item = &'a Observation<'a>> {
    let accused = found.accused.values().flatten();
    accused.chain(&found.ambiguous).chain(&found.paths).copied()
}

fn answers(ledger: &Ledger, nic: &crate::model::NicId) -> bool {
    let node = ledger.get_node(&nic.node);
    node.is_some_and(|node| matches!(node.state, NodeState::Connected { .. }))
}

/// How a pair that was low twice is measured the last time: with more queue pairs and larger
/// messages. `None` where it is to be measured as the run's settings say.
pub fn wider(ledger: &Ledger, pair: &Pair) -> Option<ProbeSpec> {
    let mine = ledger.probes().filter(|probe| probe.planned.pair == *pair);
    let rates: Vec<Gbps> = mine
        .filter(|probe| probe.planned.spec.is_none())
        .filter_map(crate::ledger::Probe::rate)
        .collect();
    let best = rates.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let usual = &ledger.settings()?.probe;
    (rates.len() >= 2).then(|| widened(usual, best)).flatten()
}

/// As many bytes in flight as before, or two messages on each queue pair where that is more.
fn widened(usual: &ProbeSpec, rate: Gbps) -> Option<ProbeSpec> {
    let in_time = (rate.0 * 1e9 / 8.0 * WIDE_MESSAGE_S) as u64;
    let largest = in_time.min(WIDE_MESSAGE).max(usual.message_size.0);
    let in_flight = usual.message_size.0 * u64::from(usual.depth) * u64::from(usual.queue_pairs);
    let queue_pairs = usual.queue_pairs.max(WIDE_QUEUE_PAIRS);
    // A power of two times the usual size.
    let mut message_size = usual.message_size.0;
    while message_size * 2 <= largest {
        message_size *= 2;
    }
    let depth = (in_flight / message_size / u64::from(queue_pairs)).max(2);
    let wide = ProbeSpec {
        message_size: Bytes(message_size),
        depth: u32::try_from(depth).ok()?,
        queue_pairs,
        ..usual.clone()
    };
    (wide != *usual).then_some(wide)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{events, ledger, probed};
    use crate::model::{Event, ProbeId};

    fn usual() -> ProbeSpec {
        let events = events(2, 1, &|_, _, _| None);
        ledger(&events).settings().unwrap().probe.clone()
    }

    #[test]
    fn messages_grow_as_far_as_the_rate_lets_them_end() {
        let spec = ProbeSpec {
            message_size: Bytes(65_536),
            depth: 128,
            queue_pairs: 1,
            ..usual()
        };
        let shape = |rate| {
            let wide = widened(&spec, Gbps(rate)).unwrap();
            (wide.message_size.0, wide.depth, wide.queue_pairs)
        };
        assert_eq!(shape(200.0), (8 << 20, 2, 4));
        assert_eq!(shape(1.0), (1 << 20, 2, 4));
        assert_eq!(shape(0.008), (65_536, 32, 4));
        let wide = widened(&spec, Gbps(200.0)).unwrap();
        assert_eq!(widened(&wide, Gbps(200.0)), None, "it is wide already");
    }

    #[test]
    fn only_what_was_low_twice_is_widened() {
        let mut events = events(2, 1, &|_, _, _| Some(200.0));
        let pair = ledger(&events).pairs()[0].pair.clone();
        assert_eq!(wider(&ledger(&events), &pair), None);
        events.extend(probed(ProbeId(90), pair.clone(), Some(190.0)));
        let spec = wider(&ledger(&events), &pair).expect("a wider probe");
        let mut again = probed(ProbeId(91), pair.clone(), Some(195.0));
        if let Event::RoundPlanned { pairs, .. } = &mut again[0] {
            pairs[0].spec = Some(spec.clone());
        }
        events.extend(again);
        assert_eq!(wider(&ledger(&events), &pair), Some(spec));
    }
}
