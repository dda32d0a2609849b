//! What a node has counted, in few words: errors of a port, and holders of queue pairs.

use std::io;

use super::Page;
use crate::model::{Counters, Fact, Port, RdmaDevice};

/// Counters of errors that are not zero, the first few.
pub(super) fn errors(page: &mut Page<'_>, port: &Port) -> io::Result<()> {
    const SHOWN: usize = 6;
    let sets = [&port.counters, &port.hw_counters];
    let counted = sets.into_iter().filter_map(Fact::value);
    let mut errors: Vec<String> = counted
        .flat_map(Counters::errors)
        .map(ToString::to_string)
        .collect();
    if errors.is_empty() {
        return Ok(());
    }
    let more = errors.len().saturating_sub(SHOWN);
    errors.truncate(SHOWN);
    if more > 0 {
        errors.push(format!("and {more} more"));
    }
    page.part("errors", errors.join(", "))
}

/// What the port carried, where it carried anything.
pub(super) fn traffic(page: &mut Page<'_>, port: &Port) -> io::Result<()> {
    match port.traffic.value() {
        Some(traffic) if traffic.tx.is_positive() || traffic.rx.is_positive() => page.part(
            "traffic",
            format!("sends {}, receives {} now", traffic.tx, traffic.rx),
        ),
        _ => Ok(()),
    }
}

/// Who holds queue pairs, the first few; no line where nobody does, or it is not known.
pub(super) fn queue_pairs(page: &mut Page<'_>, device: &RdmaDevice) -> io::Result<()> {
    const SHOWN: usize = 4;
    let holders = device.queue_pairs.value().map_or(&[][..], Vec::as_slice);
    let mut said: Vec<String> = holders
        .iter()
        .take(SHOWN)
        .map(ToString::to_string)
        .collect();
    match holders.len().saturating_sub(SHOWN) {
        _ if said.is_empty() => return Ok(()),
        0 => {}
        more => said.push(format!("and {more} more")),
    }
    page.part("QPs", said.join(", "))
}
