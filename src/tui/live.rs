//! What each NIC carries now, and did in the last minutes: made of the samples of its node's counters.

use std::collections::{HashMap, VecDeque};

use crate::ledger::{NodeWatch, PortRates};
use crate::model::{Fact, NodeName, Quantity, Sample, SampleLayout};

/// So many of the last intervals are kept: three minutes of one second each.
const TRAIL: usize = 180;

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

    fn take_in(&mut self, rates: &PortRates<'_>, at_ms: u64) {
        let gbps = |rate: Fact<crate::model::Gbps>| rate.value().map(|rate| rate.0 as f32);
        self.now = [gbps(rates.tx()), gbps(rates.rx())];
        let both = self.now.map(|rate| rate.unwrap_or(0.0));
        self.peak = self.peak.max(both[0]).max(both[1]);
        if self.trail.len() == TRAIL {
            self.trail.pop_front();
        }
        self.trail.push_back(both);
        for (counted, (quantity, _)) in self.counted.iter_mut().zip(COUNTED) {
            let tally = rates.tally(quantity).value();
            counted.now = tally.map(|tally| tally.count);
            counted.sum = counted.sum.saturating_add(counted.now.unwrap_or(0));
            counted.at_least |= tally.is_some_and(|tally| !tally.missing.is_empty());
        }
        (self.interval_ms, self.at_ms) = (rates.elapsed_us / 1000, at_ms);
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
