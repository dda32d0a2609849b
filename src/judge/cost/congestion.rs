//! What counters tell of congestion while the cost was measured, and what keeps a fabric from it.

use std::collections::BTreeMap;

use crate::ledger::Probe;
use crate::model::{Fact, Grown, LinkLayer, Measurement, Outcome, Verification};

/// A sign of congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// Time in which InfiniBand's link had no credits to send: what keeps it from loss, at work.
    CreditWaits,
    /// Frames that paused a link (PFC, or IEEE 802.3x).
    Pauses,
    /// Packets that a switch marked instead of dropping them (ECN).
    EcnMarks,
    /// Notifications that slow a sender down (CNP).
    Notifications,
    /// Packets that arrived out of order.
    OutOfOrder,
    /// Packets that were sent again.
    Retransmits,
    /// TCP segments that were sent again.
    TcpRetransmits,
}

/// Counters of each sign, by parts of their names in the order in which they are looked at.
const SIGNS: &[(&str, Sign)] = &[
    ("xmit_wait", Sign::CreditWaits),
    ("pause", Sign::Pauses),
    ("ecn_marked", Sign::EcnMarks),
    ("cnp", Sign::Notifications),
    ("out_of_seq", Sign::OutOfOrder),
    ("seq_err", Sign::Retransmits),
    ("retrans", Sign::Retransmits),
    ("ack_timeout", Sign::Retransmits),
];

impl Sign {
    /// Every sign.
    pub const ALL: [Self; 7] = [
        Self::CreditWaits,
        Self::Pauses,
        Self::EcnMarks,
        Self::Notifications,
        Self::OutOfOrder,
        Self::Retransmits,
        Self::TcpRetransmits,
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::CreditWaits => "credit_waits",
            Self::Pauses => "pauses",
            Self::EcnMarks => "ecn_marks",
            Self::Notifications => "cnps",
            Self::OutOfOrder => "out_of_order",
            Self::Retransmits => "retransmits",
            Self::TcpRetransmits => "tcp_retransmits",
        }
    }

    /// What it counts, for a person.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::CreditWaits => "ticks of waiting for credits",
            Self::Pauses => "pauses",
            Self::EcnMarks => "packets marked (ECN)",
            Self::Notifications => "congestion notifications (CNP)",
            Self::OutOfOrder => "packets out of order",
            Self::Retransmits => "RDMA packets sent again",
            Self::TcpRetransmits => "TCP segments sent again",
        }
    }

    /// The sign that a counter of this name counts.
    pub(super) fn of(counter: &str) -> Option<Self> {
        let counter = counter.to_ascii_lowercase();
        let found = SIGNS.iter().find(|(part, _)| counter.contains(part));
        found.map(|(_, sign)| *sign)
    }
}

/// What was counted at both ends of a pair, all its probes together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Congestion {
    /// How often each sign was seen that was seen at all.
    pub seen: BTreeMap<Sign, u64>,
    /// Ends of probes whose counters were read, and those whose were not.
    pub read: usize,
    /// Ends of probes whose counters could not be read.
    pub unread: usize,
}

impl Congestion {
    /// Takes in what a probe counted.
    pub(super) fn add(&mut self, probe: &Probe) {
        let Some(Outcome::Measured {
            measurement,
            verified,
        }) = &probe.outcome
        else {
            return;
        };
        self.add_sender(measurement);
        self.add_target(verified);
    }

    /// Takes in what the initiator of a probe counted.
    pub(super) fn add_sender(&mut self, measurement: &Measurement) {
        self.count(&measurement.counters);
        if let Some(tcp) = measurement.tcp.as_ref().filter(|tcp| tcp.retransmits > 0) {
            self.more(Sign::TcpRetransmits, tcp.retransmits);
        }
    }

    /// Takes in what its target counted.
    pub(super) fn add_target(&mut self, verified: &Fact<Verification>) {
        match verified.value() {
            Some(verified) => self.count(&verified.counters),
            None => self.unread += 1,
        }
    }

    /// Takes in another count of the same port over much the same time: of each sign the more.
    pub(super) fn most(&mut self, other: &Self) {
        for (sign, times) in &other.seen {
            let known = self.seen.entry(*sign).or_default();
            *known = (*known).max(*times);
        }
        self.read += other.read;
        self.unread += other.unread;
    }

    /// What was seen, such as `3 pauses, 9 packets marked (ECN)`; `None` where nothing was.
    pub fn counts(&self) -> Option<String> {
        let seen = self.seen.iter();
        let counts: Vec<String> = seen
            .map(|(sign, times)| format!("{times} {}", sign.in_words()))
            .collect();
        (!counts.is_empty()).then(|| counts.join(", "))
    }

    fn count(&mut self, counters: &Fact<Vec<Grown>>) {
        let Some(grown) = counters.value() else {
            self.unread += 1;
            return;
        };
        self.read += 1;
        for grown in grown {
            if let (Some(sign), Some(by)) = (Sign::of(&grown.name), grown.by) {
                self.more(sign, by);
            }
        }
    }

    fn more(&mut self, sign: Sign, by: u64) {
        let known = self.seen.entry(sign).or_default();
        *known = known.saturating_add(by);
    }

    /// What replaces TCP's congestion control on a fabric, and whether it was seen to act.
    pub fn in_words(&self, layer: Option<LinkLayer>, is_software: bool) -> String {
        let counts = self
            .counts()
            .map_or_else(String::new, |counts| format!(": {counts}"));
        if is_software {
            return format!(
                "In place of TCP's congestion control nothing holds senders back: software RDMA sends what \
                 is lost again{counts}."
            );
        }
        let signs = match layer {
            Some(LinkLayer::InfiniBand) => &[Sign::CreditWaits][..],
            _ => &[Sign::Pauses, Sign::EcnMarks, Sign::Notifications],
        };
        let what = match layer {
            Some(LinkLayer::InfiniBand) => "credits hold senders back (InfiniBand)",
            Some(LinkLayer::Ethernet) => {
                "pauses (PFC) and notifications (ECN, CNP) hold senders back (RoCE)"
            }
            _ => "what holds senders back is not known",
        };
        let acted = signs.iter().any(|sign| self.seen.contains_key(sign));
        let acted = match (acted, self.read) {
            (true, _) => "which was seen to act",
            (false, 0) => "and no counter that would show it could be read",
            (false, _) => "which was not seen to act",
        };
        format!("In place of TCP's congestion control {what}, {acted}{counts}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{events, ledger};

    #[test]
    fn counters_are_taken_for_what_they_count() {
        for (name, sign) in [
            ("port_xmit_wait", Some(Sign::CreditWaits)),
            ("rx_prio3_pause", Some(Sign::Pauses)),
            ("np_ecn_marked_roce_packets", Some(Sign::EcnMarks)),
            ("np_cnp_sent", Some(Sign::Notifications)),
            ("cnpHandled", Some(Sign::Notifications)),
            ("out_of_sequence", Some(Sign::OutOfOrder)),
            ("implied_nak_seq_err", Some(Sign::Retransmits)),
            ("roce_adp_retrans", Some(Sign::Retransmits)),
            ("symbol_error", None),
        ] {
            assert_eq!(Sign::of(name), sign, "{name}");
        }
    }

    #[test]
    fn whether_something_acted_is_told_only_where_it_was_looked_at() {
        let ledger = ledger(&events(2, 1, &|_, _, _| Some(391.0)));
        let mut seen = Congestion::default();
        ledger.probes().for_each(|probe| seen.add(probe));
        // The probes of these tests have no counters.
        assert_eq!((seen.read, seen.unread), (0, 4));
        let ethernet = Some(LinkLayer::Ethernet);
        assert!(
            seen.in_words(ethernet, false)
                .contains("no counter that would show")
        );
        let grown = |name: &str, by| Grown {
            name: name.into(),
            by,
        };
        let all = vec![
            grown("np_cnp_sent", Some(u64::MAX)),
            grown("np_cnp_sent", Some(9)),
        ];
        seen.count(&Fact::known(all, "test"));
        assert_eq!(seen.seen[&Sign::Notifications], u64::MAX);
        assert!(
            seen.in_words(ethernet, false)
                .contains("was seen to act: 18446")
        );
        let software = seen.in_words(ethernet, true);
        assert!(
            software.contains("nothing holds senders back"),
            "{software}"
        );
        let infiniband = seen.in_words(Some(LinkLayer::InfiniBand), false);
        assert!(
            infiniband.contains("which was not seen to act"),
            "{infiniband}"
        );
    }
}
