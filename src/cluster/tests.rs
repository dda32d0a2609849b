//! The conductor with nodes that answer in memory: what it says to whom, and what it makes of
//! answers, silence and lies.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Conductor, Fleet, FromNode, Limits};
use crate::judge::{Judgement, judge};
use crate::ledger::Ledger;
use crate::ledger::testing::{events, ledger, measured};
use crate::model::*;
use crate::wire::{FromAgent, PROTOCOL, ToAgent};

/// How a node of the fake fleet behaves.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Well,
    Refused,
    OtherVersion,
    /// Says hello and nothing more.
    Mute,
    /// Ends when it is asked to run or, as a target, to verify.
    DiesInProbe,
    /// Cannot register memory.
    NoMemlock,
    /// Reports more than can be.
    Boasts,
    /// Answers prepare and never again.
    Stuck,
    /// A job uses its first NIC.
    Busy,
    /// A job has begun to use its first NIC since it was surveyed.
    BusyNow,
}

pub(super) struct Fake {
    kinds: Vec<Kind>,
    facts: Vec<NodeFacts>,
    inbox: VecDeque<(usize, FromNode)>,
    rate: fn(usize, usize) -> f64,
    /// Messages said to each node.
    said: Vec<Vec<ToAgent>>,
    peers: std::collections::HashMap<ProbeId, [usize; 2]>,
    /// Whether its answers, which come at once, are held against the clock.
    real_time: bool,
}

impl Fake {
    pub(super) fn new(kinds: &[Kind], rate: fn(usize, usize) -> f64) -> Self {
        let mut facts = survey(kinds.len());
        let busy = |(_, kind): &(_, &Kind)| **kind == Kind::Busy;
        for (facts, _) in facts.iter_mut().zip(kinds).filter(busy) {
            if let Fact::Known { value, .. } = &mut facts.rdma {
                value[0].queue_pairs = Fact::known(vec![job()], "RDMA netlink");
            }
        }
        let start = |(node, kind): (usize, &Kind)| match kind {
            Kind::Refused => (node, FromNode::Gone("connection refused".into())),
            Kind::OtherVersion => (node, hello(PROTOCOL + 1)),
            _ => (node, hello(PROTOCOL)),
        };
        Self {
            kinds: kinds.to_vec(),
            facts,
            inbox: kinds.iter().enumerate().map(start).collect(),
            rate,
            said: vec![Vec::new(); kinds.len()],
            peers: Default::default(),
            real_time: false,
        }
    }

    fn reply(&mut self, node: usize, message: FromAgent) {
        self.inbox.push_back((node, FromNode::Said(message)));
    }

    fn die(&mut self, node: usize) {
        self.inbox
            .push_back((node, FromNode::Gone("the connection broke".into())));
    }

    fn prepare(&mut self, node: usize, probe: ProbeId, role: Role) {
        self.peers.entry(probe).or_default()[if role == Role::Initiator { 0 } else { 1 }] = node;
        if self.kinds[node] == Kind::NoMemlock {
            let why = "memlock is 64 KiB".to_owned();
            return self.reply(
                node,
                FromAgent::ProbeFailed {
                    probe,
                    stage: ProbeStage::Prepare,
                    why,
                },
            );
        }
        self.reply(
            node,
            FromAgent::Prepared {
                probe,
                endpoint: endpoint(node),
            },
        );
    }

    fn run(&mut self, node: usize, probe: ProbeId) {
        let [from, to] = self.peers[&probe];
        let rate = if self.kinds[node] == Kind::Boasts {
            1e9
        } else {
            (self.rate)(from, to)
        };
        let Outcome::Measured { measurement, .. } = measured(rate) else {
            unreachable!()
        };
        self.reply(node, FromAgent::Done { probe, measurement });
    }
}

impl Fleet for Fake {
    fn is_real_time(&self) -> bool {
        self.real_time
    }

    fn send(&mut self, node: usize, message: &ToAgent) {
        self.said[node].push(message.clone());
        let kind = self.kinds[node];
        match message {
            ToAgent::Survey if kind != Kind::Mute => {
                let facts = Box::new(self.facts[node].clone());
                self.reply(node, FromAgent::Facts { facts });
            }
            ToAgent::Prepare {
                probe, port, force, ..
            } if kind == Kind::BusyNow && !force && port.device == "mlx5_0" => {
                let (probe, why) = (*probe, "128 RC queue pairs of python3 (pid 4711)".into());
                self.reply(node, FromAgent::ProbeDeclined { probe, why });
            }
            ToAgent::Prepare { probe, role, .. } => self.prepare(node, *probe, *role),
            _ if kind == Kind::Stuck => {}
            ToAgent::Connect { probe, .. } => {
                self.reply(node, FromAgent::Connected { probe: *probe })
            }
            ToAgent::Run { .. } | ToAgent::Verify { .. } if kind == Kind::DiesInProbe => {
                self.die(node)
            }
            ToAgent::Run { probe } => self.run(node, *probe),
            ToAgent::Verify { probe } => {
                let verification = Verification {
                    bytes_checked: 1 << 20,
                    bytes_wrong: 0,
                    counters: Fact::default(),
                    pauses: Fact::default(),
                    cpu: Fact::default(),
                    memory: None,
                };
                self.reply(
                    node,
                    FromAgent::Verified {
                        probe: *probe,
                        verification,
                    },
                );
            }
            ToAgent::Release { probe } => self.reply(node, FromAgent::Released { probe: *probe }),
            _ => {}
        }
    }

    fn next(&mut self, timeout: Duration) -> Option<(usize, FromNode)> {
        let news = self.inbox.pop_front();
        if news.is_none() {
            std::thread::sleep(timeout.min(Duration::from_millis(5)));
            for node in 0..self.kinds.len() {
                if !matches!(self.kinds[node], Kind::Mute | Kind::Stuck | Kind::Refused) {
                    self.reply(node, FromAgent::Heartbeat);
                }
            }
        }
        news
    }

    fn close(&mut self) {}
}

fn hello(protocol: u32) -> FromNode {
    FromNode::Said(FromAgent::Hello {
        protocol,
        linerate: "0.1.0".into(),
        pid: 1,
    })
}

fn endpoint(node: usize) -> Endpoint {
    Endpoint {
        lid: 0,
        gid: "::ffff:10.101.0.1".parse().unwrap(),
        mtu: 4096,
        queue_pairs: vec![QueuePairAddress {
            number: node as u32 + 17,
            psn: 1,
        }],
        memory: RemoteMemory {
            address: 0x1000,
            rkey: 7,
            length: 1 << 20,
        },
        registration_us: 10,
        tcp: None,
        reads: 0,
    }
}

fn job() -> QueuePairHolder {
    QueuePairHolder {
        pid: Some(4711),
        name: "python3".into(),
        rc: 128,
        ud: 1,
        other: 0,
    }
}

fn survey(nodes: usize) -> Vec<NodeFacts> {
    let facts = events(nodes, 2, &|_, _, _| Some(1.0))
        .into_iter()
        .filter_map(|event| match event {
            Event::NodeSurveyed { facts, .. } => Some(*facts),
            _ => None,
        });
    facts.collect()
}

pub(super) fn settings(nodes: usize) -> RunSettings {
    ledger(&events(nodes, 2, &|_, _, _| Some(1.0)))
        .settings()
        .unwrap()
        .clone()
}

/// Short waits: the fake nodes answer at once or never.
pub(super) const LIMITS: Limits = Limits {
    step: Duration::from_millis(1500),
    silence: Duration::from_millis(1500),
};

pub(super) fn run(
    kinds: &[Kind],
    rate: fn(usize, usize) -> f64,
) -> (Ledger, Judgement, Vec<Event>) {
    run_with(kinds, rate, settings(kinds.len()), false)
}

fn run_with(
    kinds: &[Kind],
    rate: fn(usize, usize) -> f64,
    settings: RunSettings,
    real_time: bool,
) -> (Ledger, Judgement, Vec<Event>) {
    let mut events = Vec::new();
    let stop = AtomicBool::new(false);
    let mut emit = |event: Event| -> Result<(), Infallible> {
        events.push(event);
        Ok(())
    };
    let mut fleet = Fake::new(kinds, rate);
    fleet.real_time = real_time;
    Conductor::new(fleet, settings, LIMITS, &stop, &mut emit)
        .run()
        .unwrap();
    let ledger = ledger(&events);
    let judgement = judge(&ledger);
    (ledger, judgement, events)
}

fn rules(judgement: &Judgement) -> Vec<Rule> {
    judgement
        .findings
        .iter()
        .map(|finding| finding.rule)
        .collect()
}

pub(super) const FULL: f64 = 391.0;

#[test]
fn a_healthy_cluster_is_at_line_rate_and_needs_no_retest() {
    let (ledger, judgement, events) = run(&[Kind::Well; 4], |_, _| FULL);
    assert_eq!(
        judgement.verdict,
        Verdict::AtLineRate,
        "{:#?}",
        judgement.findings
    );
    assert_eq!(
        (judgement.coverage.measured, ledger.probes().count()),
        (24, 24)
    );
    assert!(matches!(events.first(), Some(Event::RunStarted { .. })));
    assert!(matches!(
        events.last(),
        Some(Event::RunFinished {
            end: RunEnd::Complete
        })
    ));
}

#[test]
fn a_nic_that_a_job_uses_is_left_alone_unless_forced() {
    // Known before the plan is made, such a NIC is not in it; later each of its probes is declined.
    for (kind, probes) in [(Kind::Busy, 8), (Kind::BusyNow, 12)] {
        let kinds = [Kind::Well, kind, Kind::Well];
        let (ledger, judgement, _) = run(&kinds, |_, _| FULL);
        assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
        // Of rail 0 only the two pairs without the busy NIC, of rail 1 all six.
        let coverage = &judgement.coverage;
        assert_eq!((coverage.measured, coverage.not_run), (8, 4));
        assert_eq!(coverage.failed, 0);
        let why = &coverage.gaps[0].why;
        let says = "mlx5_0 of node02 is in use: 128 RC queue pairs of python3 (pid 4711)";
        assert!(why.starts_with(says), "{why}");
        assert_eq!(ledger.probes().count(), probes);

        let forced = RunSettings {
            force: true,
            ..settings(3)
        };
        let (_, judgement, _) = run_with(&kinds, |_, _| FULL, forced, false);
        assert_eq!(judgement.verdict, Verdict::AtLineRate);
        assert_eq!(judgement.coverage.measured, 12);
    }
}

/// The fake nodes answer at once, and say that a second has passed.
#[test]
fn a_clock_that_runs_too_fast_is_not_believed() {
    let (_, judgement, _) = run_with(&[Kind::Well; 2], |_, _| FULL, settings(2), true);
    assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
    assert_eq!(judgement.coverage.measured, 0);
    let says = &judgement.findings[0].says;
    assert!(says.contains("its clock runs too fast"), "{says}");
}

#[test]
fn low_pairs_are_measured_again_before_anyone_is_named() {
    let (ledger, judgement, _) = run(
        &[Kind::Well; 3],
        |from, _| if from == 0 { FULL / 2.0 } else { FULL },
    );
    assert_eq!(
        rules(&judgement),
        [Rule::HalfBandwidth, Rule::HalfBandwidth]
    );
    let made = |purpose| {
        let of = ledger
            .probes()
            .filter(|probe| probe.planned.purpose == purpose);
        of.count()
    };
    // Where all pairs are measured each has two partners that prove it. Both rails of node 1 alone,
    // there and back, then with more queue pairs; everything twice.
    let purposes = [
        Purpose::Pattern,
        Purpose::Confirm,
        Purpose::Alone,
        Purpose::Wide,
    ];
    assert_eq!(purposes.map(made), [12, 0, 8, 8]);
    assert_eq!(ledger.probes().count(), 12 + 8 + 8);
    assert!(
        judgement
            .findings
            .iter()
            .all(|f| f.says.contains("the cause is in the NIC"))
    );
}

#[test]
fn a_node_that_is_not_reached_stops_nobody() {
    let (_, judgement, _) = run(
        &[Kind::Well, Kind::Refused, Kind::Well, Kind::Well],
        |_, _| FULL,
    );
    assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
    assert_eq!(judgement.coverage.measured, 12);
    assert_eq!(rules(&judgement), [Rule::NodeLost]);
    assert!(judgement.findings[0].says.contains("connection refused"));
}

#[test]
fn another_version_is_said_to_be_one() {
    let (_, judgement, _) = run(&[Kind::Well, Kind::OtherVersion, Kind::Well], |_, _| FULL);
    let says = &judgement.findings[0].says;
    assert!(
        says.contains(&format!("protocol {}", PROTOCOL + 1)) && says.contains("~/.cache/linerate"),
        "{says}"
    );
}

#[test]
fn a_mute_agent_is_given_up() {
    let (_, judgement, _) = run(&[Kind::Well, Kind::Well, Kind::Mute], |_, _| FULL);
    assert!(
        judgement.findings[0]
            .says
            .contains("nothing was heard of it"),
        "{:?}",
        judgement.findings
    );
    assert_eq!(judgement.coverage.measured, 4);
}

#[test]
fn a_node_that_dies_in_a_probe_takes_no_partner_with_it() {
    let (_, judgement, _) = run(
        &[Kind::Well, Kind::DiesInProbe, Kind::Well, Kind::Well],
        |_, _| FULL,
    );
    assert!(
        !rules(&judgement)
            .iter()
            .any(|rule| matches!(rule, Rule::HalfBandwidth | Rule::SlowPair))
    );
    assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
    // The three others among each other, on both rails.
    assert!(
        judgement.coverage.measured >= 12,
        "{:?}",
        judgement.coverage
    );
}

#[test]
fn what_an_end_reports_is_passed_on_as_one_finding() {
    let (_, judgement, _) = run(&[Kind::Well, Kind::NoMemlock, Kind::Well], |_, _| FULL);
    assert_eq!(
        rules(&judgement),
        [Rule::ProbeFailed],
        "{:#?}",
        judgement.findings
    );
    assert!(
        judgement.findings[0]
            .says
            .contains("node02 reports: memlock is 64 KiB")
    );
    assert_eq!(
        (judgement.coverage.measured, judgement.coverage.failed),
        (4, 8)
    );
}

#[test]
fn what_cannot_be_is_not_believed() {
    let (_, judgement, _) = run(&[Kind::Well, Kind::Boasts, Kind::Well], |_, _| FULL);
    assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
    assert!(
        judgement.findings[0].says.contains("what cannot be"),
        "{:?}",
        judgement.findings
    );
}

#[test]
fn a_stuck_agent_is_lost_and_the_run_goes_on() {
    let (_, judgement, _) = run(
        &[Kind::Well, Kind::Stuck, Kind::Well, Kind::Well],
        |_, _| FULL,
    );
    assert!(
        rules(&judgement).contains(&Rule::NodeLost),
        "{:#?}",
        judgement.findings
    );
    assert!(judgement.coverage.measured >= 6, "{:?}", judgement.coverage);
}

#[test]
fn an_interrupted_run_says_so() {
    let mut seen = Vec::new();
    let stop = AtomicBool::new(false);
    let mut emit = |event: Event| -> Result<(), Infallible> {
        if matches!(event, Event::ProbeEnded { .. }) {
            stop.store(true, Ordering::Relaxed);
        }
        seen.push(event);
        Ok(())
    };
    let fleet = Fake::new(&[Kind::Well; 4], |_, _| FULL);
    Conductor::new(fleet, settings(4), LIMITS, &stop, &mut emit)
        .run()
        .unwrap();
    let ledger = ledger(&seen);
    assert_eq!(ledger.end(), Some(RunEnd::Interrupted));
    let judgement = judge(&ledger);
    assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
    assert!(
        judgement
            .coverage
            .gaps
            .iter()
            .any(|gap| gap.why.contains("interrupted"))
    );
    assert!(judgement.coverage.measured > 0);
}

#[test]
fn when_nothing_can_be_kept_nothing_more_is_probed() {
    let mut left = 20;
    let stop = AtomicBool::new(false);
    let mut emit = |_: Event| -> Result<(), std::io::Error> {
        left -= 1;
        if left == 0 {
            Err(std::io::Error::other("disk full"))
        } else {
            Ok(())
        }
    };
    let fleet = Fake::new(&[Kind::Well; 4], |_, _| FULL);
    let error = Conductor::new(fleet, settings(4), LIMITS, &stop, &mut emit)
        .run()
        .unwrap_err();
    assert!(error.to_string().contains("cannot be kept"));
    assert_eq!(left, 0);
}

#[test]
fn a_spent_time_budget_ends_a_run_with_what_it_has() {
    let mut settings = settings(3);
    settings.sweep.time_budget_s = Some(0);
    let (ledger, judgement, _) = run_with(&[Kind::Well; 3], |_, _| FULL, settings, false);
    assert_eq!(ledger.end(), Some(RunEnd::TimeUp));
    assert_eq!(judgement.verdict, Verdict::CouldNotJudge);
    assert_eq!(
        (judgement.coverage.measured, judgement.coverage.not_run),
        (0, 12)
    );
    let why = &judgement.coverage.gaps[0].why;
    assert_eq!(why, "the run ended before this pair was planned");
}
