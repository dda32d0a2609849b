//! Many-to-one bursts: what several senders get of one NIC, what holds them back, and whether it was seen
//! to.

use std::collections::{BTreeMap, BTreeSet};

use super::congestion::{Congestion, ROCE, Sign};
use super::together::{Together, together};
use super::{cost_probes, cost_step, layer};
use crate::judge::expected::line_rate;
use crate::ledger::{Ledger, Probe};
use crate::model::{
    CostStep, Fact, Gbps, LinkLayer, Measure, NicId, Outcome, Port, Priorities, Purpose, Rail,
};

/// Several NICs that sent to one at once.
#[derive(Debug, Clone)]
pub struct Incast<'a> {
    /// By which way.
    pub step: CostStep,
    /// Who received.
    pub to: &'a NicId,
    /// The rail.
    pub rail: Rail,
    /// The rate of the receiver's link.
    pub line: Fact<Gbps>,
    /// What its link is.
    pub layer: Option<LinkLayer>,
    /// Whether one of the NICs is software.
    pub is_software: bool,
    /// Who sent, and what each of them reached in its own time.
    pub senders: Vec<(&'a NicId, Gbps)>,
    /// What all of them reached together.
    pub together: Fact<Together>,
    /// Senders that were to take part, and of which nothing was measured.
    pub failed: usize,
    /// What counters of all senders told, together.
    pub at_senders: Congestion,
    /// What those of the receiver did.
    pub at_receiver: Congestion,
    /// Signs that neither the receiver's nor a sender's port counts; unknown where what they count is.
    pub not_counted: Fact<Vec<Sign>>,
    /// What is to hold senders back, as it is set up.
    pub held_by: String,
}

impl Incast<'_> {
    /// The slowest and the fastest sender.
    pub fn ends(&self) -> Option<[Gbps; 2]> {
        let rates = || self.senders.iter().map(|(_, rate)| rate.0);
        let (least, most) = (
            rates().min_by(f64::total_cmp)?,
            rates().max_by(f64::total_cmp)?,
        );
        Some([Gbps(least), Gbps(most)])
    }

    /// What the slowest sender got beside the fastest: 1 where all got the same.
    pub fn fairness(&self) -> Option<f64> {
        let [least, most] = self.ends()?;
        least.share_of(most)
    }

    /// Whether what is to hold senders back was seen to; unknown where no counter would show it.
    pub fn acted(&self) -> Fact<bool> {
        let signs = self.signs();
        let ends = [&self.at_senders, &self.at_receiver];
        let seen = |sign: &Sign| ends.iter().any(|end| end.seen.contains_key(sign));
        if signs.iter().any(seen) {
            return Fact::known(true, "counters of both ends");
        }
        if self.step == CostStep::IncastTcp {
            return Fact::known(false, "TCP_INFO of the senders");
        }
        if ends.iter().all(|end| end.read + end.pauses_read == 0) {
            return Fact::unknown("no counter of either end could be read");
        }
        match self.not_counted.value() {
            Some(not) if signs.iter().any(|sign| !not.contains(sign)) => {
                Fact::known(false, "counters of both ends")
            }
            Some(_) => Fact::unknown("no port of them counts it"),
            None => Fact::unknown("which counters their ports have is not known"),
        }
    }

    /// Whether pauses may hold its senders back: on RoCE, by hardware.
    pub fn has_pauses(&self) -> bool {
        let is_tcp = self.step == CostStep::IncastTcp;
        self.layer == Some(LinkLayer::Ethernet) && !is_tcp && !self.is_software
    }

    /// The signs of what holds senders back on this fabric.
    fn signs(&self) -> &'static [Sign] {
        match (self.step, self.layer) {
            (CostStep::IncastTcp, _) => &[Sign::TcpRetransmits],
            (_, Some(LinkLayer::InfiniBand)) => &[Sign::CreditWaits],
            _ => ROCE,
        }
    }
}

/// The bursts of a run, by rail, receiver and way.
pub(super) fn of(ledger: &Ledger) -> Vec<Incast<'_>> {
    let mut bursts: BTreeMap<(Rail, String, CostStep), Vec<&Probe>> = BTreeMap::new();
    for probe in cost_probes(ledger) {
        if let Some(step) = burst_step(ledger, probe) {
            let pair = &probe.planned.pair;
            let key = (pair.rail, pair.to.to_string(), step);
            bursts.entry(key).or_default().push(probe);
        }
    }
    let bursts = bursts.into_iter();
    bursts
        .filter_map(|((_, _, step), probes)| incast(ledger, step, &last_whole(probes)))
        .collect()
}

/// The step of a probe that is part of a burst.
pub(super) fn burst_step(ledger: &Ledger, probe: &Probe) -> Option<CostStep> {
    let spec = probe.planned.spec.as_ref()?;
    // Of a run's many probes most are plainly something else.
    if probe.planned.purpose != Purpose::Cost || spec.account || spec.measure != Measure::Rate {
        return None;
    }
    let step = cost_step(ledger.settings()?, spec)?;
    step.is_incast().then_some(step)
}

/// Whether a probe is part of a burst: of many that send to one at once.
pub fn is_burst(ledger: &Ledger, probe: &Probe) -> bool {
    burst_step(ledger, probe).is_some()
}

/// Of a burst that was made again, the last that something came of; else what there is.
fn last_whole(probes: Vec<&Probe>) -> Vec<&Probe> {
    let measured = probes.iter().filter(|probe| probe.rate().is_some());
    let last = measured.map(|probe| probe.round).max();
    let of_last = |probe: &&Probe| last.is_none_or(|last| probe.round == last);
    probes.into_iter().filter(of_last).collect()
}

/// Of the probes of one burst; `None` where none measured anything.
fn incast<'a>(ledger: &'a Ledger, step: CostStep, probes: &[&'a Probe]) -> Option<Incast<'a>> {
    let measured = probes.iter().filter_map(|probe| {
        let rate = probe.rate()?;
        Some((&probe.planned.pair.from, rate))
    });
    let mut senders: Vec<(&NicId, Gbps)> = measured.collect();
    senders.sort_by_key(|(nic, _)| *nic);
    let first = &probes.first()?.planned.pair;
    let (from, _) = senders.first()?;
    let (mut at_senders, mut at_receiver) = (Congestion::default(), Congestion::default());
    for probe in probes {
        if let Some(Outcome::Measured {
            measurement,
            verified,
        }) = &probe.outcome
        {
            at_senders.add_sender(measurement);
            // Each of its probes saw the same port meanwhile.
            let mut seen = Congestion::default();
            seen.add_target(verified);
            at_receiver.most(&seen);
        }
    }
    let sent = probes.iter().filter_map(|probe| probe.measurement());
    let nics: BTreeSet<&NicId> = senders
        .iter()
        .map(|(nic, _)| *nic)
        .chain([&first.to])
        .collect();
    let is_software = nics.iter().any(|nic| {
        let device = ledger.device(nic);
        device.is_some_and(|device| device.software.is_some())
    });
    Some(Incast {
        step,
        to: &first.to,
        rail: first.rail,
        line: line_rate(ledger, &first.to),
        layer: layer(ledger, first),
        is_software,
        failed: probes.len() - senders.len(),
        together: together(sent),
        not_counted: not_counted(ledger, step, &nics, [&at_senders, &at_receiver]),
        at_senders,
        at_receiver,
        held_by: held_by(ledger, step, [*from, &first.to], probes, is_software),
        senders,
    })
}

fn port<'a>(ledger: &'a Ledger, nic: &NicId) -> Option<&'a Port> {
    let ports = &ledger.device(nic)?.ports;
    ports.iter().find(|port| port.number == nic.port)
}

/// Signs that no port of these has a counter for. Those of pauses were read only while the burst ran.
fn not_counted(
    ledger: &Ledger,
    step: CostStep,
    nics: &BTreeSet<&NicId>,
    ends: [&Congestion; 2],
) -> Fact<Vec<Sign>> {
    if step == CostStep::IncastTcp {
        // The kernel tells them of every connection.
        return Fact::known(Vec::new(), "TCP_INFO of the senders");
    }
    let ports = nics.iter().filter_map(|nic| port(ledger, nic));
    let sets = ports.flat_map(|port| [&port.counters, &port.hw_counters]);
    let known: Vec<_> = sets.filter_map(Fact::value).collect();
    if known.is_empty() {
        return Fact::unknown("the survey has no counters of these ports");
    }
    let names = known.iter().flat_map(|set| &set.values);
    let counted: BTreeSet<Sign> = names
        .filter_map(|counter| Sign::of(&counter.name))
        .collect();
    let paused = ends.iter().any(|end| end.pauses_read > 0);
    let mut all = Sign::ALL.to_vec();
    all.retain(|sign| match sign {
        Sign::TcpRetransmits => false,
        sign if sign.is_pause() => !paused,
        sign => !counted.contains(sign),
    });
    Fact::known(all, "the survey")
}

/// What is to hold senders back: by TCP its congestion control, by InfiniBand credits, by RoCE what its
/// interfaces are set to.
fn held_by(
    ledger: &Ledger,
    step: CostStep,
    [from, to]: [&NicId; 2],
    probes: &[&Probe],
    is_software: bool,
) -> String {
    if step == CostStep::IncastTcp {
        let tcp = |probe: &&Probe| Some(probe.measurement()?.tcp.as_ref()?.congestion.clone());
        let control = probes.iter().find_map(tcp);
        return match control {
            Some(control) => format!("TCP's congestion control ({control})"),
            None => "TCP's congestion control".to_owned(),
        };
    }
    let layer = port(ledger, to).and_then(|port| port.link_layer.value());
    match layer {
        _ if is_software => {
            "nothing but that lost packets are sent again (software RDMA)".to_owned()
        }
        Some(LinkLayer::InfiniBand) => "credits of each link (InfiniBand)".to_owned(),
        Some(LinkLayer::Ethernet) => roce(port(ledger, from), port(ledger, to)),
        _ => "something that is not known, as its link layer is not".to_owned(),
    }
}

/// PFC and pauses at the receiver, and whether marks are answered there and heeded at the sender.
fn roce(from: Option<&Port>, to: Option<&Port>) -> String {
    let settings = |port: Option<&Port>| Some(port?.netdev.value()?.settings.clone());
    let (from, to) = (settings(from), settings(to));
    let on = |what: &str, fact: Option<&Fact<Priorities>>| match fact.and_then(Fact::value) {
        Some(set) if set.is_empty() => format!("{what} off"),
        Some(set) => format!("{what} on priority {set}"),
        None => format!("{what} not known"),
    };
    let pause = to.as_ref().and_then(|to| to.pause.value());
    let pause = match pause {
        Some(pause) if pause.tx => ", pauses of the whole link on",
        _ => "",
    };
    format!(
        "{}{pause}, {}, {} (RoCE)",
        on("PFC", to.as_ref().map(|to| &to.lossless.pfc)),
        on(
            "congestion notifications (ECN, DCQCN) sent by the receiver",
            to.as_ref().map(|to| &to.lossless.ecn_notify)
        ),
        on(
            "heeded by the senders",
            from.as_ref().map(|from| &from.lossless.ecn_react)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::CostReport;
    use super::super::testing::run;
    use super::*;
    use crate::model::{Counter, Counters, Event, Grown, TcpFacts};

    fn burst(nodes: usize, change: &dyn Fn(CostStep, &mut Outcome)) -> Ledger {
        run(nodes, &[CostStep::IncastWrite, CostStep::IncastTcp], change)
    }

    fn grown(name: &str, by: u64) -> Fact<Vec<Grown>> {
        let by = Some(by);
        let name = name.to_owned();
        Fact::known(vec![Grown { name, by }], "test")
    }

    #[test]
    fn senders_are_added_up_and_the_receiver_is_counted_once() {
        let marked = |step, outcome: &mut Outcome| {
            let Outcome::Measured {
                measurement,
                verified: Fact::Known { value, .. },
            } = outcome
            else {
                return;
            };
            if step == CostStep::IncastTcp {
                measurement.tcp = Some(Box::new(TcpFacts {
                    mss: 1448,
                    congestion: "bbr".into(),
                    retransmits: 7,
                    offloads: Fact::default(),
                    zero_copy: None,
                }));
                return;
            }
            measurement.counters = grown("rp_cnp_handled", 10);
            measurement.pauses = grown("rx_prio3_pause", 5);
            value.counters = grown("np_cnp_sent", 30);
            value.pauses = Fact::unknown("the driver of eth3 counts no pauses");
        };
        let ledger = burst(4, &marked);
        let report = CostReport::of(&ledger).unwrap();
        assert!(
            report.pairs.is_empty() && report.is_complete(),
            "{:?}",
            report.gaps
        );
        let [write, tcp] = &report.incasts[..] else {
            panic!("{:?}", report.incasts);
        };
        assert_eq!((write.senders.len(), write.failed), (3, 0));
        let all = write.together.value().unwrap();
        assert!((all.rate.0 - 390.0).abs() < 1e-6, "{write:?}");
        assert_eq!((all.any_us, all.all_us), (1_000_000, 1_000_000));
        assert!((write.fairness().unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(write.at_senders.seen[&Sign::Notifications], 30);
        assert_eq!(write.at_receiver.seen[&Sign::Notifications], 30);
        assert_eq!(write.at_senders.seen[&Sign::PausesReceived], 15);
        assert_eq!(write.at_senders.without_pauses(), None);
        let why = write.at_receiver.without_pauses();
        assert_eq!(why, Some("the driver of eth3 counts no pauses"));
        assert_eq!(write.acted().value(), Some(&true));
        assert!(write.held_by.contains("PFC"), "{}", write.held_by);
        assert_eq!(tcp.at_senders.seen[&Sign::TcpRetransmits], 21);
        assert_eq!(tcp.held_by, "TCP's congestion control (bbr)");
    }

    #[test]
    fn what_no_port_counts_is_not_said_to_have_been_still() {
        let acted_where = |counters: Option<&str>, pauses: &Fact<Vec<Grown>>| {
            let quiet = |_, outcome: &mut Outcome| {
                if let Outcome::Measured { measurement, .. } = outcome {
                    measurement.counters = Fact::known(Vec::new(), "test");
                    measurement.pauses = pauses.clone();
                }
            };
            let only = [CostStep::IncastWrite];
            let mut all = super::super::testing::events_of(3, &only, &quiet);
            for event in &mut all {
                if let (Event::NodeSurveyed { facts, .. }, Some(name)) = (event, counters)
                    && let Fact::Known { value, .. } = &mut facts.rdma
                {
                    let counter = Counter {
                        name: name.to_owned(),
                        value: 0,
                        saturates_at: None,
                    };
                    let values = vec![counter];
                    let unread = Vec::new();
                    value[0].ports[0].hw_counters =
                        Fact::known(Counters { values, unread }, "test");
                }
            }
            let ledger = crate::ledger::testing::ledger(&all);
            CostReport::of(&ledger).unwrap().incasts[0].acted()
        };
        let acted = |counters: Option<&str>| acted_where(counters, &Fact::default());
        let still = Fact::known(Vec::new(), "test");
        assert_eq!(acted(Some("np_cnp_sent")).value(), Some(&false));
        assert_eq!(
            acted_where(Some("link_downed"), &still).value(),
            Some(&false)
        );
        let why = |fact: Fact<bool>| fact.why_unknown().map(str::to_owned).unwrap();
        assert!(why(acted(Some("link_downed"))).contains("no port of them counts it"));
        assert!(why(acted(None)).contains("not known"));
    }

    #[test]
    fn a_sender_that_failed_is_counted_and_a_gap() {
        let fail = |step: CostStep, outcome: &mut Outcome| {
            if step == CostStep::IncastTcp {
                *outcome = Outcome::NotRun { why: "no".into() };
            }
        };
        let ledger = burst(4, &fail);
        let report = CostReport::of(&ledger).unwrap();
        assert_eq!(report.incasts.len(), 1);
        assert_eq!(report.gaps[0].count, 3);
        assert_eq!(report.gaps[0].why, "incast-tcp: no");
    }

    #[test]
    fn two_nodes_make_no_burst() {
        let two = run(2, &[], &|_, _| {});
        let report = CostReport::of(&two).unwrap();
        assert!(report.is_complete(), "{:?}", report.gaps);
        let why = &report.unavailable[0].why;
        assert!(why.contains("three nodes"), "{why}");
        // By name it was asked for.
        let asked = run(2, &[CostStep::Write, CostStep::IncastWrite], &|_, _| {});
        assert!(!CostReport::of(&asked).unwrap().is_complete());
    }
}
