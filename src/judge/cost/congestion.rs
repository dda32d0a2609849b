//! What counters tell of congestion while the cost was measured, and what keeps a fabric from it.

use std::collections::BTreeMap;

use crate::ledger::Probe;
use crate::model::{Fact, Grown, LinkLayer, Measurement, Outcome, Verification};

/// A sign of congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// Time in which InfiniBand's link had no credits to send: what keeps it from loss, at work.
    CreditWaits,
    /// Frames that paused the link (PFC, or IEEE 802.3x): its neighbour held it back.
    PausesReceived,
    /// Frames with which the port paused its neighbour: it could not take more.
    PausesSent,
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
    ("ecn_marked", Sign::EcnMarks),
    ("cnp", Sign::Notifications),
    ("out_of_seq", Sign::OutOfOrder),
    ("seq_err", Sign::Retransmits),
    ("retrans", Sign::Retransmits),
    ("ack_timeout", Sign::Retransmits),
];

/// Those of what holds senders back on RoCE.
pub(super) const ROCE: &[Sign] = &[
    Sign::PausesReceived,
    Sign::PausesSent,
    Sign::EcnMarks,
    Sign::Notifications,
];

impl Sign {
    /// Every sign.
    pub const ALL: [Self; 8] = [
        Self::CreditWaits,
        Self::PausesReceived,
        Self::PausesSent,
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
            Self::PausesReceived => "pauses_received",
            Self::PausesSent => "pauses_sent",
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
            Self::PausesReceived => "pauses received",
            Self::PausesSent => "pauses sent",
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

    /// What a counter of pauses of this name counts: all drivers say the direction.
    fn of_pauses(counter: &str) -> Self {
        match counter.contains("tx") {
            true => Self::PausesSent,
            false => Self::PausesReceived,
        }
    }

    /// Whether it is one of pauses.
    pub(super) fn is_pause(self) -> bool {
        matches!(self, Self::PausesReceived | Self::PausesSent)
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
    /// Ends of probes whose pauses were read.
    pub pauses_read: usize,
    /// Why those of the others were not, as one of them says.
    pub pauses_unknown: Option<String>,
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
        self.count_pauses(&measurement.pauses);
        if let Some(tcp) = measurement.tcp.as_ref().filter(|tcp| tcp.retransmits > 0) {
            self.more(Sign::TcpRetransmits, tcp.retransmits);
        }
    }

    /// Takes in what its target counted.
    pub(super) fn add_target(&mut self, verified: &Fact<Verification>) {
        match verified.value() {
            Some(verified) => {
                self.count(&verified.counters);
                self.count_pauses(&verified.pauses);
            }
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
        self.pauses_read += other.pauses_read;
        self.pauses_unknown = self.pauses_unknown.take().or(other.pauses_unknown.clone());
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

    fn count_pauses(&mut self, pauses: &Fact<Vec<Grown>>) {
        let grown = match pauses {
            Fact::Known { value, .. } => value,
            Fact::Unknown { why } => {
                self.pauses_unknown.get_or_insert_with(|| why.to_string());
                return;
            }
        };
        self.pauses_read += 1;
        for grown in grown {
            if let Some(by) = grown.by {
                self.more(Sign::of_pauses(&grown.name), by);
            }
        }
    }

    /// Why pauses are not known at all; `None` where they are of some end.
    pub fn without_pauses(&self) -> Option<&str> {
        let why = self.pauses_unknown.as_deref();
        why.filter(|_| self.pauses_read == 0)
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
            _ => ROCE,
        };
        let what = match layer {
            Some(LinkLayer::InfiniBand) => "credits hold senders back (InfiniBand)",
            Some(LinkLayer::Ethernet) => {
                "pauses (PFC) and notifications (ECN, CNP) hold senders back (RoCE)"
            }
            _ => "what holds senders back is not known",
        };
        let acted = signs.iter().any(|sign| self.seen.contains_key(sign));
        let unknown = self.without_pauses();
        let unknown = unknown.filter(|_| layer == Some(LinkLayer::Ethernet));
        let acted = match (acted, self.read + self.pauses_read, unknown) {
            (true, ..) => "which was seen to act".to_owned(),
            (false, 0, _) => "and no counter that would show it could be read".to_owned(),
            (false, _, None) => "which was not seen to act".to_owned(),
            (false, _, Some(why)) => {
                format!("which was not seen to act (pauses are not known: {why})")
            }
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
        assert_eq!((seen.read, seen.unread, seen.pauses_read), (0, 4, 0));
        let ethernet = Some(LinkLayer::Ethernet);
        assert!(
            seen.in_words(ethernet, false)
                .contains("no counter that would show")
        );
        seen.count(&Fact::known(Vec::new(), "test"));
        let still = seen.in_words(ethernet, false);
        let unknown = "which was not seen to act (pauses are not known: ";
        assert!(still.contains(unknown), "{still}");
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
        let pauses = vec![
            grown("rx_prio3_pause", Some(7)),
            grown("link_xoff_tx.nic", Some(2)),
        ];
        seen.count_pauses(&Fact::known(pauses, "test"));
        let paused = seen.in_words(ethernet, false);
        assert!(
            paused.contains(": 7 pauses received, 2 pauses sent, 18446"),
            "{paused}"
        );
        assert!(!paused.contains("not known"), "{paused}");
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
