//! Whether a measurement can be what it says: a node may be broken, or lie.

use std::time::Duration;

use super::round::STEP;
use crate::model::{Bytes, Measurement, ProbeSpec};

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
    let Measurement {
        bytes,
        elapsed_us,
        total_bytes,
        ..
    } = measurement;
    let Some(rate) = measurement.rate() else {
        return Err("it reports a transfer that took no time".into());
    };
    let longest_us = u64::from(spec.duration_ms) * 1000 + STEP.as_micros() as u64;
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
