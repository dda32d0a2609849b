//! What a node has counted, in few words: errors of a port, and holders of queue pairs.

use std::io;

use super::Page;
use crate::model::{Counter, Counters, Fact, Port, QueuePairHolder, RdmaDevice};

/// Counters of errors that are not zero, the first few.
pub(super) fn errors(page: &mut Page<'_>, port: &Port) -> io::Result<()> {
    const SHOWN: usize = 6;
    let sets = [&port.counters, &port.hw_counters];
    let counted = sets.into_iter().filter_map(Fact::value);
    let mut errors: Vec<String> = counted.flat_map(Counters::errors).map(count).collect();
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

/// `link_downed 255 or more (saturated)`.
fn count(counter: &Counter) -> String {
    let more = match counter.is_saturated() {
        true => " or more (saturated)",
        false => "",
    };
    format!("{} {}{more}", counter.name, counter.value)
}

/// Who holds queue pairs, the first few; no line where nobody does, or it is not known.
pub(super) fn queue_pairs(page: &mut Page<'_>, device: &RdmaDevice) -> io::Result<()> {
    const SHOWN: usize = 4;
    let holders = device.queue_pairs.value().map_or(&[][..], Vec::as_slice);
    let mut said: Vec<String> = holders.iter().take(SHOWN).map(holder).collect();
    match holders.len().saturating_sub(SHOWN) {
        _ if said.is_empty() => return Ok(()),
        0 => {}
        more => said.push(format!("and {more} more")),
    }
    page.part("QPs", said.join(", "))
}

/// `128 RC of python3 (pid 4711)`.
pub(in crate::report) fn holder(holder: &QueuePairHolder) -> String {
    let kinds = [
        (holder.rc, "RC"),
        (holder.ud, "UD"),
        (holder.other, "other"),
    ];
    let some = kinds.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = some
        .map(|(count, kind)| format!("{count} {kind}"))
        .collect();
    let who = match holder.pid {
        Some(pid) => format!("{} (pid {pid})", holder.name),
        None if holder.is_process() => holder.name.clone(),
        None => format!("{} (kernel)", holder.name),
    };
    format!("{} of {who}", counts.join(" + "))
}
