//! What several senders reach together: of bytes and time, not of rates, as no two of them send at the very
//! same time.

use crate::model::{Fact, Gbps, Measurement};

/// What arrived at one NIC from all who sent to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Together {
    /// What arrived while any of them was measured, over all of that time. The sum of their own rates would
    /// count the time in which one had the link to itself as if the others had been there.
    pub rate: Gbps,
    /// That time, from the begin of the first to the end of the last, in microseconds.
    pub any_us: u64,
    /// How much of it all of them were measured in, in microseconds.
    pub all_us: u64,
}

/// By the time since each was told to begin, which all are at once: off by no more than messages to them
/// differ in how long they take. Unknown where they met for less than half of the time.
pub(super) fn together<'a>(sent: impl Iterator<Item = &'a Measurement>) -> Fact<Together> {
    let (mut bits, mut starts, mut ends) = (0.0, Vec::new(), Vec::new());
    for measurement in sent {
        let Some(began) = measurement.began_us else {
            return Fact::unknown("a sender does not say when it sent");
        };
        bits += measurement.bytes as f64 * 8.0;
        starts.push(began);
        ends.push(began.saturating_add(measurement.elapsed_us));
    }
    let limits = |times: &[u64]| Some((*times.iter().min()?, *times.iter().max()?));
    let (Some((first, latest)), Some((earliest, last))) = (limits(&starts), limits(&ends)) else {
        return Fact::unknown("nothing was sent");
    };
    let (any_us, all_us) = (last - first, earliest.saturating_sub(latest));
    if any_us == 0 || all_us < any_us / 2 {
        let [all, any] = [all_us, any_us].map(|us| us as f64 / 1e6);
        return Fact::unknown(format!(
            "all of them sent at once for only {all:.2} of {any:.2} s"
        ));
    }
    let rate = Gbps(bits / any_us as f64 / 1e3);
    Fact::known(
        Together {
            rate,
            any_us,
            all_us,
        },
        "bytes and times of all senders",
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ledger::testing::measured;
    use crate::model::Outcome;

    fn sent(bytes: u64, began_us: Option<u64>, elapsed_us: u64) -> Measurement {
        let Outcome::Measured { measurement, .. } = measured(1.0) else {
            unreachable!("it is measured");
        };
        Measurement {
            bytes,
            began_us,
            elapsed_us,
            ..measurement
        }
    }

    fn of(all: &[Measurement]) -> Fact<Together> {
        together(all.iter())
    }

    #[test]
    fn a_link_that_one_after_the_other_fills_is_not_counted_twice() {
        // 100 Gb/s each, of which a tenth of the time alone.
        let gb = 12_500_000_000;
        let all = [
            sent(gb, Some(0), 1_000_000),
            sent(gb, Some(100_000), 1_000_000),
        ];
        let known = *of(&all).value().unwrap();
        assert!((known.rate.0 - 200.0 / 1.1).abs() < 1e-6, "{known:?}");
        assert_eq!((known.any_us, known.all_us), (1_100_000, 900_000));
        let why = |all: &[Measurement]| of(all).why_unknown().map(str::to_owned).unwrap();
        let apart = [
            sent(gb, Some(0), 1_000_000),
            sent(gb, Some(700_000), 1_000_000),
        ];
        assert_eq!(
            why(&apart),
            "all of them sent at once for only 0.30 of 1.70 s"
        );
        let apart = [
            sent(gb, Some(0), 1_000_000),
            sent(gb, Some(u64::MAX), u64::MAX),
        ];
        assert!(why(&apart).starts_with("all of them sent at once for only 0.00 of"));
        assert_eq!(
            why(&[sent(gb, Some(0), 1), sent(gb, None, 1)]),
            "a sender does not say when it sent"
        );
        assert_eq!(
            why(&[sent(gb, Some(5), 0)]),
            "all of them sent at once for only 0.00 of 0.00 s"
        );
        assert_eq!(why(&[]), "nothing was sent");
    }

    proptest! {
        #[test]
        fn no_port_receives_more_than_its_line(
            spans in proptest::collection::vec((0u64..50, 1u64..100), 1..5),
        ) {
            // In each millisecond the port takes 600 kB, which those who send share.
            const LINE: u64 = 600_000;
            let is_in = |at: u64, (began, length): (u64, u64)| (began..began + length).contains(&at);
            let mut bytes = vec![0; spans.len()];
            for at in 0..150 {
                let senders: Vec<usize> = (0..spans.len()).filter(|n| is_in(at, spans[*n])).collect();
                senders.iter().for_each(|n| bytes[*n] += LINE / senders.len() as u64);
            }
            let all: Vec<Measurement> = spans
                .iter()
                .zip(bytes)
                .map(|((began, length), bytes)| sent(bytes, Some(began * 1000), length * 1000))
                .collect();
            if let Fact::Known { value, .. } = of(&all) {
                prop_assert!(value.rate.0 <= 4.8 + 1e-9, "{value:?}");
            }
        }
    }
}
