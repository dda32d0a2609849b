//! A watch over nodes that answer in memory.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Fleet, FromNode, Limits, Onlooker, watch};
use crate::ledger::{Ledger, NodeState};
use crate::model::{
    Event, Fact, Gbps, NodeName, PortLayout, PortReading, Quantity, Sample, SampleLayout, Series,
};
use crate::wire::{FromAgent, PROTOCOL, ToAgent};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Well,
    Refused,
    OtherVersion,
    /// Says hello, and only heartbeats after.
    Mute,
    /// Dies after its first sample.
    Dies,
    /// Samples that are not made as it said.
    Odd,
    /// Samples faster than they are taken in.
    Flood,
}

struct Fake {
    kinds: Vec<Kind>,
    inbox: VecDeque<(usize, FromNode)>,
    said: std::rc::Rc<std::cell::RefCell<Vec<(usize, ToAgent)>>>,
    watched: Vec<bool>,
    clock_us: u64,
}

impl Fake {
    fn new(kinds: &[Kind]) -> Self {
        let start = |(node, kind): (usize, &Kind)| match kind {
            Kind::Refused => (node, FromNode::Gone("connection refused".into())),
            Kind::OtherVersion => (node, hello(PROTOCOL + 1)),
            _ => (node, hello(PROTOCOL)),
        };
        Self {
            kinds: kinds.to_vec(),
            inbox: kinds.iter().enumerate().map(start).collect(),
            said: Default::default(),
            watched: vec![false; kinds.len()],
            clock_us: 5,
        }
    }

    /// A second passes on every node: each sends 50 GB, in words of 4 bytes.
    fn pass(&mut self) {
        self.clock_us += 1_000_000;
        let value = Some((self.clock_us / 1_000_000) * 12_500_000_000);
        for node in 0..self.kinds.len() {
            if !self.watched[node] || self.kinds[node] == Kind::Mute {
                self.inbox
                    .push_back((node, FromNode::Said(FromAgent::Heartbeat)));
                continue;
            }
            let odd = self.kinds[node] == Kind::Odd;
            let port = PortReading {
                at_us: self.clock_us,
                values: if odd { vec![value; 3] } else { vec![value] },
            };
            let sample = Sample { ports: vec![port] };
            self.inbox
                .push_back((node, FromNode::Said(FromAgent::Sampled { sample })));
            if self.kinds[node] == Kind::Flood {
                self.inbox.push_back((node, FromNode::Dropped(3)));
            }
            if self.kinds[node] == Kind::Dies {
                self.watched[node] = false;
                let gone = FromNode::Gone("the connection broke".into());
                self.inbox.push_back((node, gone));
            }
        }
    }
}

impl Fleet for Fake {
    fn send(&mut self, node: usize, message: &ToAgent) {
        self.said.borrow_mut().push((node, message.clone()));
        if matches!(message, ToAgent::Watch { .. }) && self.kinds[node] != Kind::Mute {
            self.watched[node] = true;
            let layout = Box::new(layout());
            self.inbox
                .push_back((node, FromNode::Said(FromAgent::Watching { layout })));
        }
    }

    fn next(&mut self, timeout: Duration) -> Option<(usize, FromNode)> {
        let news = self.inbox.pop_front();
        if news.is_none() {
            std::thread::sleep(timeout.min(Duration::from_millis(2)));
            self.pass();
        }
        news
    }

    fn close(&mut self) {
        for node in 0..self.kinds.len() {
            self.send(node, &ToAgent::Bye);
        }
    }
}

fn hello(protocol: u32) -> FromNode {
    FromNode::Said(FromAgent::Hello {
        protocol,
        linerate: "0.1.0".into(),
        pid: 1,
    })
}

fn layout() -> SampleLayout {
    let series = Series {
        quantity: Quantity::TxBytes,
        from: "/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data".into(),
        unit: 4,
        saturates_at: None,
    };
    let port = PortLayout {
        device: "mlx5_0".into(),
        port: 1,
        series: vec![series],
        ..PortLayout::default()
    };
    SampleLayout {
        ports: Fact::known(vec![port], "/sys/class/infiniband"),
        left_out: 0,
    }
}

/// Looks on for so many ticks.
struct Eyes {
    ledger: Ledger,
    left: u32,
}

impl Onlooker for Eyes {
    type Error = Infallible;

    fn learn(&mut self, event: Event) {
        self.ledger.apply(&event);
    }

    fn tick(&mut self) -> Result<ControlFlow<()>, Infallible> {
        self.ledger.turn();
        self.left = self.left.saturating_sub(1);
        Ok(match self.left {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
    }
}

fn run(kinds: &[Kind], ticks: u32) -> (Ledger, Vec<(usize, ToAgent)>) {
    let limits = Limits {
        step: Duration::from_secs(1),
        silence: Duration::from_secs(30),
    };
    let nodes: Vec<NodeName> = (1..=kinds.len())
        .map(|n| NodeName::from(format!("node{n:02}")))
        .collect();
    let mut eyes = Eyes {
        ledger: Ledger::default(),
        left: ticks,
    };
    let fleet = Fake::new(kinds);
    let said = std::rc::Rc::clone(&fleet.said);
    let stop = AtomicBool::new(false);
    let interval = Duration::from_millis(100);
    watch(fleet, &nodes, interval, limits, &stop, &mut eyes).unwrap();
    (eyes.ledger, said.take())
}

fn rate(ledger: &Ledger, node: &str) -> Option<Gbps> {
    let watch = ledger.get_node(&node.into())?.watch.as_ref()?;
    watch.rates().first()?.tx().value().copied()
}

fn lost<'a>(ledger: &'a Ledger, node: &str) -> &'a str {
    match &ledger.get_node(&node.into()).unwrap().state {
        NodeState::Lost { why } => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_node_is_watched_at_the_pace_asked_for_and_let_go() {
    let (ledger, said) = run(&[Kind::Well, Kind::Well], 2);
    for node in ["node01", "node02"] {
        assert_eq!(rate(&ledger, node), Some(Gbps(400.0)));
    }
    let to_second: Vec<_> = said.iter().filter(|(node, _)| *node == 1).collect();
    let watch = (1, ToAgent::Watch { interval_ms: 100 });
    assert_eq!(to_second, [&watch, &(1, ToAgent::Bye)]);
}

#[test]
fn a_node_that_is_lost_keeps_nobody_from_being_watched() {
    let kinds = [Kind::Refused, Kind::OtherVersion, Kind::Dies, Kind::Well];
    let (ledger, said) = run(&kinds, 2);
    assert_eq!(lost(&ledger, "node01"), "connection refused");
    assert!(lost(&ledger, "node02").contains("~/.cache/linerate"));
    assert_eq!(lost(&ledger, "node03"), "the connection broke");
    assert_eq!(rate(&ledger, "node04"), Some(Gbps(400.0)));
    assert!(said.contains(&(1, ToAgent::Bye)));
}

#[test]
fn an_agent_that_never_says_what_it_samples_is_given_up() {
    let (ledger, _) = run(&[Kind::Mute, Kind::Well], 15);
    assert!(lost(&ledger, "node01").starts_with("nothing was heard of it"));
    assert!(rate(&ledger, "node02").is_some());
}

#[test]
fn samples_that_are_made_otherwise_than_said_are_not_taken() {
    let (ledger, _) = run(&[Kind::Odd], 2);
    let watch = ledger.get_node(&"node01".into()).unwrap().watch.as_ref();
    assert!(watch.unwrap().rates().is_empty());
    assert_eq!(rate(&ledger, "node01"), None);
}

#[test]
fn samples_that_were_dropped_are_counted() {
    let (ledger, _) = run(&[Kind::Flood, Kind::Well], 2);
    assert!(ledger.readings_dropped() >= 3);
    assert_eq!(ledger.readings_dropped() % 3, 0);
    assert!(rate(&ledger, "node01").is_some());
}

#[test]
fn a_stopped_watch_lets_everybody_go() {
    let fleet = Fake::new(&[Kind::Well]);
    let said = std::rc::Rc::clone(&fleet.said);
    let stop = AtomicBool::new(true);
    let mut eyes = Eyes {
        ledger: Ledger::default(),
        left: u32::MAX,
    };
    let limits = Limits::default();
    let interval = Duration::from_secs(1);
    watch(fleet, &["n1".into()], interval, limits, &stop, &mut eyes).unwrap();
    assert!(stop.load(Ordering::Relaxed));
    assert_eq!(said.take(), [(0, ToAgent::Bye)]);
}
