//! What each NIC carries now, and did in the last minutes: made of the samples of its node's counters.

use std::collections::{HashMap, VecDeque};

use crate::ledger::{NodeWatch, PortRates};
use crate::model::{Fact, NodeName, Quantity, Sample, SampleLayout};

/// So many of the last intervals are kept: three minutes of one second each.
const TRAIL: usize = 180;

/// So many counters of a port that moved are followed: more than ports have of them.
const MOST_MOVED: usize = 32;

/// A rate is no longer what is carried now once so many of its intervals have passed without another.
const QUIET_INTERVALS: u64 = 3;

/// What may be late by itself, in milliseconds.
const LATE_MS: u64 = 1000;

/// The quantities that are counted beside the data.
pub(super) const COUNTED: [(Quantity, &str); 5] = [
    (Quantity::Errors, "errors"),
    (Quantity::Discards, "discards"),
    (Quantity::Retransmissions, "resent"),
    (Quantity::Pauses, "pauses"),
    (Quantity::Waits, "waits"),
];

/// What one of [`COUNTED`] stood at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// In the last interval; unset where nothing counts it.
    pub now: Option<u64>,
    /// Since it is watched.
    pub sum: u64,
    /// Whether some counter of it could not be read or was reset: then it is at least that.
    pub at_least: bool,
}

/// A counter of errors or congestion that moved since it is watched.
#[derive(Debug, Clone)]
pub struct Moved {
    /// The name of its file.
    pub name: String,
    /// By how much, since it is watched.
    pub sum: u64,
    /// By how much in each of the last intervals, the newest at the end.
    trail: VecDeque<f32>,
}

impl Moved {
    /// By how much it moved in the last `count` intervals, the newest at the end.
    pub fn trail(&self, count: usize) -> impl Iterator<Item = f32> {
        let skip = self.trail.len().saturating_sub(count);
        self.trail.iter().skip(skip).copied()
    }
}

/// What a port does.
#[derive(Debug, Clone, Default)]
pub struct Lane {
    /// Its RDMA device.
    pub device: String,
    /// The port, from 1.
    pub port: u8,
    /// Gb/s sent and received in the last interval, where they are known.
    pub now: [Option<f32>; 2],
    /// The same of the last intervals, the newest at the end; 0 where unknown.
    trail: VecDeque<[f32; 2]>,
    /// The most of them that was seen since it is watched.
    pub peak: f32,
    /// What is counted beside, in the order of [`COUNTED`].
    pub counted: [Counted; COUNTED.len()],
    /// The counters beside that moved, in the order in which they did.
    pub moved: Vec<Moved>,
    /// Length of the last interval in milliseconds.
    interval_ms: u64,
    /// When it ended by this machine's clock, in milliseconds since 1970-01-01 UTC.
    at_ms: u64,
}

impl Lane {
    /// Whether its rates are of now.
    pub fn is_fresh(&self, now_ms: u64) -> bool {
        let quiet = self.interval_ms.saturating_mul(QUIET_INTERVALS);
        self.at_ms > 0 && now_ms.saturating_sub(self.at_ms) <= quiet.saturating_add(LATE_MS)
    }

    /// Whether packets were lost or damaged in the last interval.
    pub fn is_hurt(&self) -> bool {
        let lost = &self.counted[..3];
        lost.iter().any(|counted| counted.now > Some(0))
    }

    /// Gb/s of the last `count` intervals, the newest at the end: sent (0) or received (1).
    pub fn trail(&self, direction: usize, count: usize) -> impl Iterator<Item = f32> {
        let skip = self.trail.len().saturating_sub(count);
        let rates = self.trail.iter().skip(skip);
        rates.map(move |rates| rates.get(direction).copied().unwrap_or(0.0))
    }

    /// How many intervals are known of it.
    pub fn intervals(&self) -> usize {
        self.trail.len()
    }

    fn take_in(&mut self, rates: &PortRates<'_>, at_ms: u64) {
        let gbps = |rate: Fact<crate::model::Gbps>| rate.value().map(|rate| rate.0 as f32);
        self.now = [gbps(rates.tx()), gbps(rates.rx())];
        let both = self.now.map(|rate| rate.unwrap_or(0.0));
        self.peak = self.peak.max(both[0]).max(both[1]);
        if self.trail.len() == TRAIL {
            self.trail.pop_front();
        }
        self.trail.push_back(both);
        self.follow(rates);
        for (counted, (quantity, _)) in self.counted.iter_mut().zip(COUNTED) {
            let tally = rates.tally(quantity).value();
            counted.now = tally.map(|tally| tally.count);
            counted.sum = counted.sum.saturating_add(counted.now.unwrap_or(0));
            counted.at_least |= tally.is_some_and(|tally| !tally.missing.is_empty());
        }
        (self.interval_ms, self.at_ms) = (rates.elapsed_us / 1000, at_ms);
    }
}

impl Lane {
    /// Follows the counters that moved, each for as long as the rates.
    fn follow(&mut self, rates: &PortRates<'_>) {
        let intervals = self.trail.len();
        for moved in &mut self.moved {
            if moved.trail.len() == TRAIL {
                moved.trail.pop_front();
            }
            moved.trail.push_back(0.0);
        }
        for &(series, count) in rates.moved() {
            let name = series.from.rsplit('/').next().unwrap_or_default();
            let known = self.moved.iter().position(|moved| moved.name == name);
            let place = known.unwrap_or(self.moved.len());
            if place >= MOST_MOVED {
                continue;
            }
            if known.is_none() {
                self.moved.push(Moved {
                    name: name.to_owned(),
                    sum: 0,
                    trail: vec![0.0; intervals].into(),
                });
            }
            let moved = &mut self.moved[place];
            moved.sum = moved.sum.saturating_add(count);
            if let Some(last) = moved.trail.back_mut() {
                *last += count as f32;
            }
        }
    }
}

/// A node that is watched.
#[derive(Debug, Clone)]
struct Watched {
    watch: NodeWatch,
    lanes: Vec<Lane>,
}

/// All nodes that are watched.
#[derive(Debug, Clone, Default)]
pub struct Live {
    nodes: HashMap<NodeName, Watched>,
}

impl Live {
    /// Takes in which counters of a node will be read.
    pub fn watched(&mut self, node: &NodeName, layout: &SampleLayout) {
        let watch = NodeWatch::new(layout);
        let mut before = self.nodes.remove(node).map_or(Vec::new(), |was| was.lanes);
        let ports = watch.layout().ports.value().map_or(&[][..], Vec::as_slice);
        let lane = |port: &crate::model::PortLayout| {
            let is_it = |lane: &Lane| lane.device == port.device && lane.port == port.port;
            let known = before.iter().position(is_it).map(|n| before.swap_remove(n));
            known.unwrap_or_else(|| Lane {
                device: port.device.clone(),
                port: port.port,
                ..Lane::default()
            })
        };
        let lanes = ports.iter().map(lane).collect();
        self.nodes.insert(node.clone(), Watched { watch, lanes });
    }

    /// Takes in what a node's counters stood at: each sample ends an interval.
    pub fn sampled(&mut self, node: &NodeName, sample: &Sample, at_ms: u64) {
        let Some(Watched { watch, lanes }) = self.nodes.get_mut(node) else {
            return;
        };
        watch.apply(sample);
        watch.turn();
        if watch.quiet() > 0 {
            return;
        }
        for rates in watch.rates() {
            let is_it = |lane: &&mut Lane| {
                (&lane.device, lane.port) == (&rates.layout.device, rates.layout.port)
            };
            if let Some(lane) = lanes.iter_mut().find(is_it) {
                lane.take_in(&rates, at_ms);
            }
        }
    }

    /// A node is gone: nothing of it is of now.
    pub fn lost(&mut self, node: &NodeName) {
        self.nodes.remove(node);
    }

    /// Whether anything was ever watched.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The ports of a node.
    pub fn lanes(&self, node: &NodeName) -> &[Lane] {
        self.nodes.get(node).map_or(&[], |node| &node.lanes)
    }

    /// One port of a node.
    pub fn lane(&self, node: &NodeName, device: &str, port: u8) -> Option<&Lane> {
        let lanes = self.lanes(node).iter();
        { lanes }.find(|lane| lane.port == port && lane.device == device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PortLayout, PortReading, Series};

    fn layout(devices: &[&str]) -> SampleLayout {
        let series = |quantity, from: &str| Series {
            quantity,
            from: from.to_owned(),
            unit: 1,
            saturates_at: None,
        };
        let port = |device: &&str| PortLayout {
            device: (*device).to_owned(),
            port: 1,
            series: vec![
                series(Quantity::TxBytes, "tx"),
                series(Quantity::Errors, "errors"),
            ],
            ..PortLayout::default()
        };
        SampleLayout {
            ports: Fact::known(devices.iter().map(port).collect(), "test"),
            left_out: 0,
        }
    }

    fn sample(at_us: u64, values: [u64; 2]) -> Sample {
        let values = values.map(Some).to_vec();
        Sample {
            ports: vec![PortReading { at_us, values }],
        }
    }

    #[test]
    fn each_sample_ends_an_interval_and_what_is_unknown_stays_so() {
        let (mut live, node) = (Live::default(), NodeName::from("node01"));
        live.watched(&node, &layout(&["mlx5_0"]));
        live.sampled(&node, &sample(1_000_000, [0, 7]), 1_000);
        assert!(!live.lanes(&node)[0].is_fresh(1_000));
        live.sampled(&node, &sample(2_000_000, [50_000_000_000, 9]), 2_000);
        let lane = live.lane(&node, "mlx5_0", 1).unwrap();
        assert_eq!(lane.now, [Some(400.0), None]);
        assert_eq!(lane.trail(0, 9).collect::<Vec<_>>(), [400.0]);
        assert_eq!((lane.counted[0].now, lane.counted[0].sum), (Some(2), 2));
        assert_eq!(lane.counted[3].now, None, "pauses are not counted");
        assert_eq!((&*lane.moved[0].name, lane.moved[0].sum), ("errors", 2));
        assert!(lane.is_hurt());
        assert!(lane.is_fresh(6_000) && !lane.is_fresh(6_001));
    }

    #[test]
    fn a_port_keeps_its_past_when_another_comes() {
        let (mut live, node) = (Live::default(), NodeName::from("node01"));
        live.watched(&node, &layout(&["mlx5_1"]));
        live.sampled(&node, &sample(1, [0, 0]), 1);
        live.sampled(&node, &sample(1_000_001, [125_000_000, 3]), 1_001);
        live.watched(&node, &layout(&["mlx5_0", "mlx5_1"]));
        assert_eq!(live.lane(&node, "mlx5_1", 1).unwrap().counted[0].sum, 3);
        assert_eq!(live.lane(&node, "mlx5_0", 1).unwrap().counted[0].sum, 0);
    }

    #[test]
    fn a_counter_that_moves_late_has_stood_still_before() {
        let (mut live, node) = (Live::default(), NodeName::from("node01"));
        live.watched(&node, &layout(&["mlx5_0"]));
        let stood = |second: u64| if second < 199 { 5 } else { 8 };
        for second in 0..=200 {
            live.sampled(
                &node,
                &sample(second * 1_000_000, [second, stood(second)]),
                second,
            );
        }
        let lane = &live.lanes(&node)[0];
        assert_eq!(lane.intervals(), TRAIL);
        let [moved] = &lane.moved[..] else {
            panic!("{:?}", lane.moved)
        };
        assert_eq!(moved.trail.len(), TRAIL);
        assert_eq!(moved.trail(3).collect::<Vec<_>>(), [0.0, 3.0, 0.0]);
        assert_eq!(moved.sum, 3);
    }

    #[test]
    fn no_node_has_more_counters_followed_than_ports_have() {
        let (mut live, node) = (Live::default(), NodeName::from("node01"));
        let mut layout = layout(&["mlx5_0"]);
        if let Fact::Known { value, .. } = &mut layout.ports {
            let series = value[0].series[1].clone();
            value[0].series = (0..100)
                .map(|n| Series {
                    from: n.to_string(),
                    ..series.clone()
                })
                .collect();
        }
        live.watched(&node, &layout);
        for second in 0..3 {
            let values = vec![Some(second << 40); 100];
            let at_us = second * 1_000_000;
            live.sampled(
                &node,
                &Sample {
                    ports: vec![PortReading { at_us, values }],
                },
                second,
            );
        }
        assert_eq!(live.lanes(&node)[0].moved.len(), MOST_MOVED);
    }

    #[test]
    fn what_does_not_fit_the_layout_changes_nothing() {
        let (mut live, node) = (Live::default(), NodeName::from("node01"));
        live.sampled(&node, &sample(1, [0, 0]), 1);
        live.watched(&node, &layout(&["mlx5_0"]));
        live.sampled(&node, &Sample::default(), 1);
        live.sampled(&node, &sample(9, [0, 0]), 1);
        // The node's clock goes back.
        live.sampled(&node, &sample(3, [9, 9]), 2);
        assert_eq!(live.lanes(&node)[0].now, [None, None]);
    }
}
