//! When a NIC is in use: a probe would take the bandwidth of somebody's work, and measure what that
//! leaves.

use super::{Gbps, NicId, QueuePairHolder, Traffic};

/// A port that carries more than this share of its line is in use …
const BUSY_FROM: f64 = 0.01;

/// … and where no line rate is known, one that carries more than this, in Gb/s.
const BUSY_FROM_GBPS: f64 = 0.1;

/// Whose work the queue pairs of a device are, if any's: that of processes with reliable connections.
///
/// Daemons such as a subnet manager hold datagram queue pairs only, and file systems of the kernel
/// keep connections that are mostly idle: they count by their traffic.
pub fn held_by_a_job(holders: &[QueuePairHolder]) -> Option<String> {
    let is_job = |holder: &&QueuePairHolder| holder.is_process() && holder.rc > 0;
    let mut jobs = holders.iter().filter(is_job);
    let first = jobs.next()?;
    let more = match jobs.count() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let pid = first
        .pid
        .map_or_else(String::new, |pid| format!(" (pid {pid})"));
    Some(format!(
        "{} RC queue pairs of {}{pid}{more}",
        first.rc, first.name
    ))
}

/// What a port carries, if that is somebody's work. `line` is its rate, where that means something.
pub fn busy_with(traffic: &Traffic, line: Option<Gbps>) -> Option<String> {
    let limit = match line {
        Some(line) if line.is_positive() => Gbps(line.0 * BUSY_FROM),
        _ => Gbps(BUSY_FROM_GBPS),
    };
    let busy = traffic.tx > limit || traffic.rx > limit;
    busy.then(|| format!("it sent {} and received {}", traffic.tx, traffic.rx))
}

/// Why a NIC that is in use is not probed.
pub fn left_alone(nic: &NicId, why: &str) -> String {
    format!("{nic} is in use: {why} (--force probes it all the same)")
}
