//! Packets lost on a RoCE fabric while probes ran: go-back-N turns a little loss into much lost rate.

use std::collections::{BTreeMap, BTreeSet};

use super::{About, Context, names, plain};
use crate::judge::cost::is_burst;
use crate::ledger::{Ledger, Probe};
use crate::model::{
    Evidence, Fact, Finding, Grown, LinkLayer, NicId, Outcome, Rail, Rule, Severity, Subject,
};

pub(super) const ABOUT: About = About {
    rule: Rule::RoceLoss,
    means: "Packets were lost between NICs and had to be sent again. RoCE expects a fabric that drops \
            nothing: after each loss everything since is repeated, and the rate falls to a fraction.",
    detected: "Counters that grew while a probe ran: of the sender packet_seq_err, implied_nak_seq_err, \
               local_ack_timeout_err, roce_adp_retrans; of the receiver out_of_sequence; ten or more in a \
               probe. A low NIC's finding names them; without one it is a warning. Not looked at on \
               InfiniBand, for software RDMA, and where several send to one (incast), which is meant to fill \
               it; cannot be told of a port without hw_counters.",
    remedy: REMEDY,
};

const REMEDY: &str = "Check that PFC or ECN is configured for the same priority on NICs and switches (mlnx_qos, dcb, \
                      trust mode), look for drops on the switch ports between them, and at pause counters.";

/// A healthy fabric loses nothing; a few are what one flipped bit costs.
const MANY: u64 = 10;

/// Probes that are shown as evidence.
const SHOWN: usize = 4;

const AT_SENDER: &[&str] = &[
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "to_retransmits",
    "seq_err_naks_rcvd",
];
const AT_RECEIVER: &[&str] = &["out_of_sequence"];

/// What the counters of both ends tell of loss in one probe; `None` below [`MANY`], and where the
/// rule does not apply.
pub(super) fn of_probe(ledger: &Ledger, probe: &Probe) -> Option<Evidence> {
    let Some(Outcome::Measured {
        measurement,
        verified,
    }) = &probe.outcome
    else {
        return None;
    };
    let pair = &probe.planned.pair;
    let sender = grew(&measurement.counters, AT_SENDER);
    let at_target = verified.value().map(|verification| &verification.counters);
    let receiver = at_target.map_or(Vec::new(), |counters| grew(counters, AT_RECEIVER));
    let times = |grown: &[(&str, u64)]| {
        grown
            .iter()
            .fold(0u64, |sum, (_, by)| sum.saturating_add(*by))
    };
    if times(&sender).saturating_add(times(&receiver)) < MANY {
        return None;
    }
    // Last: of thousands of probes few have lost anything, and names take long to look up.
    if ![&pair.from, &pair.to]
        .iter()
        .all(|nic| is_roce(ledger, nic))
    {
        return None;
    }
    let told = |nic: &NicId, grown: &[(&str, u64)]| {
        let counts: Vec<_> = grown
            .iter()
            .map(|(name, by)| format!("{name} +{by}"))
            .collect();
        (!counts.is_empty()).then(|| format!("{nic}: {}", counts.join(", ")))
    };
    let ends = [told(&pair.from, &sender), told(&pair.to, &receiver)];
    let ends: Vec<String> = ends.into_iter().flatten().collect();
    Some(Evidence {
        saw: ends.join("; "),
        from: format!("{}, hw_counters before and after", probe.planned.probe),
    })
}

fn is_roce(ledger: &Ledger, nic: &NicId) -> bool {
    ledger.device(nic).is_some_and(|device| {
        let mut ports = device.ports.iter();
        let port = ports.find(|port| port.number == nic.port);
        let layer = port.and_then(|port| port.link_layer.value());
        device.software.is_none() && layer == Some(&LinkLayer::Ethernet)
    })
}

fn grew<'a>(counters: &'a Fact<Vec<Grown>>, wanted: &[&str]) -> Vec<(&'a str, u64)> {
    let all = counters.value().map_or(&[][..], Vec::as_slice);
    let mine = all
        .iter()
        .filter(|grown| wanted.contains(&grown.name.as_str()));
    // A node may name one twice: once each.
    let mut seen = BTreeSet::new();
    mine.filter(|grown| seen.insert(grown.name.as_str()))
        .filter_map(|grown| Some((grown.name.as_str(), grown.by?)))
        .collect()
}

/// A warning for each rail with lossy probes that no low NIC's finding tells of.
pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let told: BTreeSet<&NicId> = context
        .localised
        .accused
        .keys()
        .map(|end| &end.nic)
        .collect();
    let mut lossy: BTreeMap<Rail, Vec<(&Probe, Evidence)>> = BTreeMap::new();
    for probe in context.ledger.unclean() {
        let pair = &probe.planned.pair;
        // Many that send to one are meant to fill it: what they lose is told of the burst.
        if is_burst(context.ledger, probe) {
            continue;
        }
        // Most lost nothing: names are looked at last.
        if let Some(evidence) = of_probe(context.ledger, probe)
            && !told.contains(&pair.from)
            && !told.contains(&pair.to)
        {
            lossy.entry(pair.rail).or_default().push((probe, evidence));
        }
    }
    lossy
        .iter()
        .map(|(rail, probes)| finding(context, *rail, probes))
        .collect()
}

fn finding(context: &Context<'_>, rail: Rail, lossy: &[(&Probe, Evidence)]) -> Finding {
    let measured = context
        .ledger
        .probes()
        .filter(|probe| probe.planned.pair.rail == rail && probe.measurement().is_some());
    let of = format!(
        "in {} of {} probes of {rail}",
        lossy.len(),
        measured.count()
    );
    let (subject, says) = match common(lossy) {
        Some(nic) => (
            Subject::Nic(nic.clone(), rail, None),
            format!("Packets were lost {of}, each of which has NIC {nic} at one end."),
        ),
        None => {
            let nodes = lossy.iter().flat_map(|(probe, _)| {
                [&probe.planned.pair.from.node, &probe.planned.pair.to.node]
            });
            let says = format!("Packets were lost {of}, between {}.", names(nodes));
            (Subject::Rail(rail), says)
        }
    };
    let evidence = lossy
        .iter()
        .take(SHOWN)
        .map(|(_, evidence)| evidence.clone());
    plain(
        Rule::RoceLoss,
        Severity::Warning,
        subject,
        says,
        evidence.collect(),
        REMEDY,
    )
}

/// The only NIC that has a part in every one of several partners' probes.
fn common<'p>(lossy: &[(&'p Probe, Evidence)]) -> Option<&'p NicId> {
    let ends = |probe: &&'p Probe| {
        let pair = &probe.planned.pair;
        BTreeSet::from([&pair.from, &pair.to])
    };
    let mut probes = lossy.iter().map(|(probe, _)| ends(probe));
    let first = probes.next()?;
    let shared = probes.fold(first, |shared, ends| &shared & &ends);
    let mut shared = shared.into_iter();
    match (shared.next(), shared.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Judgement, cost_testing, judge};
    use crate::ledger::testing::{events, ledger};
    use crate::model::{CostStep, Event, SoftwareRdma, Verdict};

    const FULL: f64 = 391.0;

    fn grown(name: &str, by: Option<u64>) -> Grown {
        let name = name.to_owned();
        Grown { name, by }
    }

    /// Three nodes on one rail; every probe that sends from or to `bad` loses `times` packets.
    fn run(
        bad: &[&str],
        times: u64,
        rate: &dyn Fn(usize, usize, u16) -> Option<f64>,
    ) -> Vec<Event> {
        let mut events = events(3, 1, rate);
        let mut pairs = BTreeMap::new();
        for event in &mut events {
            match event {
                Event::RoundPlanned { pairs: planned, .. } => {
                    pairs.extend(planned.iter().map(|p| (p.probe, p.pair.clone())));
                }
                Event::ProbeEnded {
                    probe,
                    outcome:
                        Outcome::Measured {
                            measurement,
                            verified: Fact::Known { value, .. },
                        },
                } => {
                    let pair = &pairs[probe];
                    let ends = [&pair.from.node, &pair.to.node];
                    if ends.iter().any(|node| bad.contains(&node.0.as_str())) {
                        let sent = vec![grown("packet_seq_err", Some(times)), grown("x", None)];
                        measurement.counters = Fact::known(sent, "test");
                        let received = vec![grown("out_of_sequence", Some(times))];
                        value.counters = Fact::known(received, "test");
                    }
                }
                _ => {}
            }
        }
        events
    }

    fn losses(judgement: &Judgement) -> Vec<&Finding> {
        let findings = judgement.findings.iter();
        findings
            .filter(|finding| finding.rule == Rule::RoceLoss)
            .collect()
    }

    #[test]
    fn loss_without_a_shortfall_is_a_warning_about_the_nic_that_all_share() {
        let judgement = judge(&ledger(&run(&["node02"], 600, &|_, _, _| Some(FULL))));
        assert_eq!(judgement.verdict, Verdict::AtLineRate);
        let [finding] = losses(&judgement)[..] else {
            panic!("{:#?}", judgement.findings);
        };
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.says,
            "Packets were lost in 4 of 6 probes of rail 0, each of which has NIC mlx5_0 of node02 at one end."
        );
        assert_eq!(
            finding.evidence[0].saw,
            "mlx5_0 of node01: packet_seq_err +600; mlx5_0 of node02: out_of_sequence +600"
        );
    }

    #[test]
    fn loss_everywhere_is_the_rails() {
        let everyone = ["node01", "node02", "node03"];
        let judgement = judge(&ledger(&run(&everyone, 600, &|_, _, _| Some(FULL))));
        let [finding] = losses(&judgement)[..] else {
            panic!("{:#?}", judgement.findings);
        };
        assert_eq!(finding.subject, Subject::Rail(Rail(0)));
    }

    #[test]
    fn loss_with_a_shortfall_is_named_by_the_shortfall() {
        let slow = |i, j, _| Some(if i == 1 || j == 1 { 0.3 * FULL } else { FULL });
        let judgement = judge(&ledger(&run(&["node02"], 600, &slow)));
        assert!(losses(&judgement).is_empty(), "{:#?}", judgement.findings);
        for finding in &judgement.findings {
            assert_eq!(finding.rule, Rule::HalfBandwidth);
            let lost = "Packets were lost in 2 of its 2 low probes.";
            assert!(finding.says.ends_with(lost), "{}", finding.says);
            let evidence = finding.evidence.iter();
            assert!(
                evidence
                    .clone()
                    .any(|e| e.saw.contains("packet_seq_err +600"))
            );
        }
    }

    #[test]
    fn a_few_are_not_told_and_neither_is_infiniband_or_software() {
        let few = judge(&ledger(&run(&["node02"], 4, &|_, _, _| Some(FULL))));
        assert!(losses(&few).is_empty());
        let with = |change: &dyn Fn(&mut crate::model::RdmaDevice)| {
            let mut events = run(&["node02"], 600, &|_, _, _| Some(FULL));
            for event in &mut events {
                if let Event::NodeSurveyed { facts, .. } = event
                    && let Fact::Known { value, .. } = &mut facts.rdma
                {
                    value.iter_mut().for_each(change);
                }
            }
            losses(&judge(&ledger(&events))).len()
        };
        assert_eq!(with(&|_| {}), 1);
        assert_eq!(with(&|d| d.software = Some(SoftwareRdma::Rxe)), 0);
        let infiniband = || Fact::known(LinkLayer::InfiniBand, "test");
        assert_eq!(with(&|d| d.ports[0].link_layer = infiniband()), 0);
    }

    #[test]
    fn a_burst_may_lose_what_a_pair_may_not() {
        let lose = |_, outcome: &mut Outcome| {
            if let Outcome::Measured {
                measurement,
                verified: Fact::Known { value, .. },
            } = outcome
            {
                measurement.counters =
                    Fact::known(vec![grown("packet_seq_err", Some(5000))], "test");
                value.counters = Fact::known(vec![grown("out_of_sequence", Some(5000))], "test");
            }
        };
        let of = |step| {
            let events = cost_testing::events_of(4, &[step], &lose);
            losses(&judge(&ledger(&events))).len()
        };
        assert_eq!(of(CostStep::Write), 1);
        assert_eq!(of(CostStep::IncastWrite), 0);
    }

    #[test]
    fn a_node_that_counts_beyond_measure_does_no_harm() {
        let judgement = judge(&ledger(&run(&["node02"], u64::MAX, &|_, _, _| Some(FULL))));
        assert_eq!(losses(&judgement).len(), 1);
    }
}
