//! Whether a measurement can be what it says: a node may be broken, or lie.

use std::time::Duration;

use super::round::STEP;
use crate::model::{
    Bytes, Fact, Measure, Measurement, PingPong, ProbeKind, ProbeSpec, Verification,
};

/// More than any real transfer reports, so that a broken clock or a lying agent is noticed.
const MAX_RATE_GBPS: f64 = 100_000.0;

/// No node measures longer than it was away, but for rounding.
const CLOCK_SLACK: f64 = 1.05;

/// Whether a node's clock runs no faster than ours: it would make every rate read too low, as that of
/// a virtual machine does which took the speed of its time stamp counter wrong.
pub(super) fn same_clock(measurement: &Measurement, took: Duration) -> Result<(), String> {
    let claimed = Duration::from_micros(measurement.elapsed_us);
    if claimed.as_secs_f64() <= took.as_secs_f64() * CLOCK_SLACK {
        return Ok(());
    }
    Err(format!(
        "it reports {:.2} s of transfer, {:.2} s after it was told to begin: its clock runs too fast, so that \
         the rates it measures read too low (look at its clock source)",
        claimed.as_secs_f64(),
        took.as_secs_f64()
    ))
}

/// Whether a measurement can be what it says: a node may be broken, or lie.
pub(super) fn believable(measurement: &Measurement, spec: &ProbeSpec) -> Result<(), String> {
    let longest_us = u64::from(spec.duration_ms) * 1000 + STEP.as_micros() as u64;
    match spec.measure {
        Measure::Rate => can_be_a_rate(measurement, longest_us),
        Measure::PingPong => can_be_a_latency(measurement.ping_pong.as_ref(), spec, longest_us),
    }
}

fn can_be_a_rate(measurement: &Measurement, longest_us: u64) -> Result<(), String> {
    let Measurement {
        bytes,
        elapsed_us,
        total_bytes,
        ..
    } = measurement;
    let Some(rate) = measurement.rate() else {
        return Err("it reports a transfer that took no time".into());
    };
    if bytes > total_bytes || *elapsed_us > longest_us || rate.0 > MAX_RATE_GBPS {
        let bytes = Bytes(*bytes);
        return Err(format!(
            "it reports what cannot be: {bytes} in {elapsed_us} µs ({rate})"
        ));
    }
    if *bytes == 0 {
        return Err("no data arrived while it was measured".into());
    }
    Ok(())
}

fn can_be_a_latency(
    told: Option<&PingPong>,
    spec: &ProbeSpec,
    longest_us: u64,
) -> Result<(), String> {
    let Some(told) = told.filter(|told| told.samples > 0) else {
        return Err("no message came back while that was measured".into());
    };
    let ns = [
        told.min_ns,
        told.median_ns,
        told.p99_ns,
        told.p999_ns,
        told.max_ns,
    ];
    let can_be = ns.is_sorted() && told.max_ns / 1000 <= longest_us;
    match can_be && told.bytes == spec.message_size.0 {
        true => Ok(()),
        false => Err(format!(
            "it reports what cannot be: messages of {} that took {ns:?} ns (shortest, median, 99 %, 99.9 %, \
             longest)",
            Bytes(told.bytes)
        )),
    }
}

/// What was found of the bytes: what an RDMA read fetched is at the initiator, which looked at it.
/// Nobody finds more wrong than it looked at.
pub(super) fn verified(
    kind: ProbeKind,
    measurement: &Measurement,
    found: Verification,
) -> Fact<Verification> {
    let (found, whose) = match (kind, measurement.fetched) {
        (ProbeKind::RdmaRead, None) => {
            return Fact::unknown("the initiator did not say what it fetched");
        }
        (ProbeKind::RdmaRead, Some(fetched)) => {
            let found = Verification {
                bytes_checked: fetched.bytes,
                bytes_wrong: fetched.wrong,
                ..found
            };
            (found, "compared at the initiator")
        }
        _ => (found, "compared at the target"),
    };
    let Verification {
        bytes_checked: of,
        bytes_wrong: wrong,
        ..
    } = found;
    match wrong <= of {
        true => Fact::known(found, whose),
        false => Fact::unknown(format!(
            "what was {whose} cannot be: {wrong} of {of} bytes are said to be wrong"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{events, ledger, measured};
    use crate::model::{Checked, Outcome};

    #[test]
    fn a_latency_is_believed_where_it_can_be_one() {
        let settings = ledger(&events(2, 1, &|_, _, _| None));
        let spec = ProbeSpec {
            kind: ProbeKind::RdmaSend,
            measure: Measure::PingPong,
            message_size: Bytes(64),
            ..settings.settings().unwrap().probe.clone()
        };
        let Outcome::Measured {
            mut measurement, ..
        } = measured(1.0)
        else {
            panic!("nothing was measured");
        };
        let good = PingPong {
            bytes: 64,
            min_ns: 1,
            median_ns: 2,
            p99_ns: 2,
            p999_ns: 9,
            max_ns: 10,
            samples: 3,
        };
        let mut said = |ping_pong: Option<PingPong>| {
            measurement.ping_pong = ping_pong;
            // No rate is asked of it.
            (measurement.bytes, measurement.elapsed_us) = (0, 0);
            believable(&measurement, &spec)
        };
        assert_eq!(said(Some(good)), Ok(()));
        let none = PingPong { samples: 0, ..good };
        for none in [None, Some(none)] {
            assert!(said(none).unwrap_err().contains("no message came back"));
        }
        let wrong = [
            PingPong { bytes: 65, ..good },
            PingPong { min_ns: 3, ..good },
            PingPong {
                max_ns: u64::MAX,
                ..good
            },
        ];
        for wrong in wrong {
            assert!(said(Some(wrong)).unwrap_err().contains("what cannot be"));
        }
    }

    #[test]
    fn nobody_finds_more_wrong_than_it_looked_at() {
        let Outcome::Measured {
            mut measurement,
            verified: Fact::Known { value: found, .. },
        } = measured(1.0)
        else {
            panic!("nothing was measured");
        };
        let landed = |kind, measurement: &Measurement, of, wrong| {
            let found = Verification {
                bytes_checked: of,
                bytes_wrong: wrong,
                ..found.clone()
            };
            verified(kind, measurement, found)
        };
        let write = landed(ProbeKind::RdmaWrite, &measurement, 9, 9);
        assert_eq!(write.value().unwrap().bytes_wrong, 9);
        let write = landed(ProbeKind::RdmaWrite, &measurement, 9, 10);
        assert!(write.why_unknown().unwrap().contains("10 of 9 bytes"));
        // What was read is at the initiator, and only then does it have the say.
        let read = landed(ProbeKind::RdmaRead, &measurement, 0, 0);
        assert!(read.why_unknown().unwrap().contains("did not say"));
        measurement.fetched = Some(Checked { bytes: 5, wrong: 1 });
        let read = landed(ProbeKind::RdmaRead, &measurement, 0, 0);
        assert_eq!(read.value().unwrap().bytes_wrong, 1);
        let write = landed(ProbeKind::RdmaWrite, &measurement, 9, 0);
        assert_eq!(write.value().unwrap().bytes_checked, 9);
        measurement.fetched = Some(Checked { bytes: 5, wrong: 6 });
        let read = landed(ProbeKind::RdmaRead, &measurement, 0, 0);
        assert!(read.why_unknown().unwrap().contains("initiator cannot be"));
    }
}
