//! The shape of a probe that tells a NIC's limit from that of one queue pair.

use crate::ledger::Ledger;
use crate::model::{Bytes, Gbps, Pair, ProbeSpec};

/// A retest of a pair that stays low spreads its load over so many queue pairs: where one is not
/// enough for the line, that is not the NIC's fault (one core posts for it, a bond hashes it to one
/// member, a switch to one path).
const WIDE_QUEUE_PAIRS: u32 = 4;
/// … and asks for messages of up to this size, for which no cost per message counts.
const WIDE_MESSAGE: u64 = 8 << 20;
/// … but none that takes longer than this at the rate that was measured: a probe must end.
const WIDE_MESSAGE_S: f64 = 0.01;

/// How a pair that is low is measured with more queue pairs and larger messages; `None` where the
/// run's settings are as wide already, or nothing of it was measured.
pub fn wider(ledger: &Ledger, pair: &Pair) -> Option<ProbeSpec> {
    let ends = [ledger.number(&pair.from)?, ledger.number(&pair.to)?].map(|number| number as u32);
    let briefs = ledger.in_brief().map(|(brief, _)| brief);
    let mine = briefs.filter(|brief| brief.ends == ends && brief.rail == pair.rail);
    let rates = mine.filter_map(|brief| brief.rate);
    let best = rates.max_by(|a: &Gbps, b: &Gbps| a.0.total_cmp(&b.0))?;
    widened(&ledger.settings()?.probe, best)
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
    use crate::ledger::testing::{events, ledger};

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
}
