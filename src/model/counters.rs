//! Counters of a port or a network interface, as the kernel shows them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What was read of one set of counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Those that hold a number, by name.
    pub values: Vec<Counter>,
    /// Those that are there and hold none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadCounters>,
}

/// One counter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Its name, that of its file.
    pub name: String,
    /// What it stands at.
    pub value: u64,
    /// Where it stops counting, where it is known to: at that value it means "or more".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturates_at: Option<u64>,
}

/// Counters that could not be read, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadCounters {
    /// Their names.
    pub names: Vec<String>,
    /// Why.
    pub why: String,
}

impl Counters {
    /// The counter of this name, where it was read.
    pub fn get(&self, name: &str) -> Option<&Counter> {
        self.values.iter().find(|counter| counter.name == name)
    }

    /// Counters of errors that are not zero, in the order of their names.
    pub fn errors(&self) -> impl Iterator<Item = &Counter> {
        let counts = |counter: &&Counter| counter.value > 0 && is_error(&counter.name);
        self.values.iter().filter(counts)
    }
}

impl fmt::Display for Counter {
    /// `link_downed 255 or more (saturated)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = match self.is_saturated() {
            true => " or more (saturated)",
            false => "",
        };
        write!(f, "{} {}{more}", self.name, self.value)
    }
}

impl Counter {
    /// Whether it has stopped counting: as many, or any number more.
    pub fn is_saturated(&self) -> bool {
        self.saturates_at == Some(self.value)
    }
}

/// What became of a counter between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterStep {
    /// It went up by so much.
    By(u64),
    /// It is at its end and counts no more: by how much is not known.
    Ended,
    /// It went down: it was reset.
    Reset,
}

impl CounterStep {
    /// The step from `before` to `after` of a counter that stops at `saturates_at`, if it is no
    /// wider than that, or goes on from zero after 32 bits, if it `wraps`.
    ///
    /// Counters that the InfiniBand specification makes stop do not go over their end: one that went
    /// down was reset. Those of drivers do, and those of events have 32 bits in many (mlx5's Q
    /// counters).
    pub fn between(before: u64, after: u64, saturates_at: Option<u64>, wraps: bool) -> Self {
        let stops = saturates_at.filter(|most| before <= *most && after <= *most);
        match (after.checked_sub(before), stops) {
            (Some(_), Some(most)) if after == most => Self::Ended,
            (Some(more), _) => Self::By(more),
            (None, None) if wraps && is_over_the_end(before, after) => {
                Self::By(WRAP - before + after)
            }
            (None, _) => Self::Reset,
        }
    }
}

const WRAP: u64 = 1 << 32;

/// A counter of 32 bits that went from its last quarter to its first went over its end.
fn is_over_the_end(before: u64, after: u64) -> bool {
    const QUARTER: u64 = WRAP / 4;
    (WRAP - QUARTER..WRAP).contains(&before) && after < QUARTER
}

/// A counter that went up while a probe ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grown {
    /// Its name.
    pub name: String,
    /// By how much; none where it was reset, or reached its end.
    pub by: Option<u64>,
}

/// Where a counter of `ports/N/counters` stops counting, if it is no wider than the InfiniBand
/// Architecture Specification makes it (volume 1, 16.1.3.5, PortCounters: these do not wrap).
/// Drivers may have wider ones under the same name; a value above this shows it.
pub fn saturates_at(name: &str) -> Option<u64> {
    let bits = match name {
        "local_link_integrity_errors" | "excessive_buffer_overrun_errors" => 4,
        "link_error_recovery"
        | "link_downed"
        | "port_xmit_constraint_errors"
        | "port_rcv_constraint_errors" => 8,
        "symbol_error"
        | "port_rcv_errors"
        | "port_rcv_remote_physical_errors"
        | "port_rcv_switch_relay_errors"
        | "port_xmit_discards"
        | "VL15_dropped" => 16,
        // PortCountersExtended has 64 bits for the first four, under the same names.
        "port_xmit_data" | "port_rcv_data" | "port_xmit_packets" | "port_rcv_packets"
        | "port_xmit_wait" => 32,
        _ => return None,
    };
    Some((1 << bits) - 1)
}

/// Counters of what should not happen: of the link (InfiniBand Architecture Specification), and of
/// the transport (the drivers' hw_counters; mlx5, bnxt_re, irdma, EFA, rxe).
const ERRORS: &[&str] = &[
    "VL15_dropped",
    "completer_retry_err",
    "duplicate_request",
    "excessive_buffer_overrun_errors",
    "implied_nak_seq_err",
    "link_downed",
    "link_error_recovery",
    "local_ack_timeout_err",
    "local_link_integrity_errors",
    "out_of_buffer",
    "out_of_seq_request",
    "out_of_sequence",
    "packet_seq_err",
    "port_rcv_constraint_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "req_cqe_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "rx_icrc_encapsulated",
    "send_err",
    "send_rnr_err",
    "symbol_error",
];

/// Whether a counter of this name counts what should not happen, on the link or in the transport; those of
/// congestion count what may.
pub fn counts_errors(name: &str) -> bool {
    is_error(name)
}

fn is_error(name: &str) -> bool {
    ERRORS.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_widths_are_those_of_the_specification() {
        for (name, most) in [
            ("excessive_buffer_overrun_errors", Some(15)),
            ("link_downed", Some(255)),
            ("port_xmit_discards", Some(65_535)),
            ("port_xmit_data", Some(4_294_967_295)),
            ("port_xmit_data_64", None),
            ("out_of_sequence", None),
        ] {
            assert_eq!(saturates_at(name), most, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_counter_that_went_down_adds_nothing_that_was_not_counted(
            before in prop_oneof![0u64..300, any::<u64>(), WRAP - 300..WRAP],
            after in prop_oneof![0u64..300, any::<u64>()],
            saturates_at in prop_oneof![Just(None), (1u64..300).prop_map(Some)],
            wraps in any::<bool>(),
        ) {
            match CounterStep::between(before, after, saturates_at, wraps) {
                CounterStep::By(more) if before <= after => prop_assert_eq!(before + more, after),
                CounterStep::By(more) => {
                    // Only one that goes on from zero, and only from its end to its begin.
                    prop_assert!(wraps && more < WRAP / 2, "{}", more);
                    prop_assert_eq!((before + more) % WRAP, after);
                }
                CounterStep::Ended => prop_assert_eq!(Some(after), saturates_at),
                CounterStep::Reset => prop_assert!(after < before),
            }
        }
    }

    #[test]
    fn the_names_can_be_searched() {
        assert!(ERRORS.is_sorted());
        assert!(is_error("link_downed") && !is_error("port_xmit_data"));
    }
}
