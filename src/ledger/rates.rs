//! Rates from two samples, by the node's own clock. A counter that was reset, has stopped counting
//! or could not be read makes no rate, and is said to be missing.

use super::{Ledger, NodeState};
use crate::model::{
    CounterStep, Fact, Gbps, NodeName, PortLayout, PortReading, Quantity, QueuePairs, Sample,
    SampleLayout, Series,
};

/// The most ports, and counters of each, that a layout may have; agents send half of it at most.
const MAX_PORTS: usize = 64;
const MAX_SERIES: usize = 128;

/// What a node's samples show.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeWatch {
    layout: SampleLayout,
    /// The sample that the next interval begins with.
    from: Option<Sample>,
    /// The last sample, if one came since the interval began.
    last: Option<Sample>,
    /// Both ends of the last whole interval.
    interval: Option<(Sample, Sample)>,
    quiet: u32,
    queue_pairs: Fact<QueuePairs>,
}

/// How often a quantity happened between two samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    /// How often, as far as it was counted.
    pub count: u64,
    /// Counters that are missing from it, with the reason: then it happened at least so often.
    pub missing: Vec<String>,
}

/// What a port did between two samples.
#[derive(Debug, Clone, PartialEq)]
pub struct PortRates<'a> {
    /// The port.
    pub layout: &'a PortLayout,
    /// The time between the two samples in microseconds.
    pub elapsed_us: u64,
    moved: Vec<(&'a Series, u64)>,
    tallies: Vec<(Quantity, Fact<Tally>)>,
}

impl NodeWatch {
    /// A watch of a node whose samples are made like this. Who describes more than a node can have
    /// is not watched.
    pub fn new(layout: &SampleLayout) -> Self {
        let ports = layout.ports.value().map_or(&[][..], Vec::as_slice);
        let can_be = |port: &PortLayout| {
            port.series.len() <= MAX_SERIES && port.uncounted.len() <= Quantity::ALL.len()
        };
        let layout = match ports.len() <= MAX_PORTS && ports.iter().all(can_be) {
            true => layout.clone(),
            false => SampleLayout {
                ports: Fact::unknown("its agent tells of more counters than a node can have"),
                left_out: 0,
            },
        };
        Self {
            layout,
            ..Self::default()
        }
    }

    /// Takes in the next sample, if it is made as the layout has it.
    pub fn apply(&mut self, sample: &Sample) {
        if !self.fits(sample) {
            return;
        }
        match self.from {
            None => self.from = Some(sample.clone()),
            Some(_) => self.last = Some(sample.clone()),
        }
    }

    /// An interval is over. Each sample ends one and begins the next, so that no count is told twice
    /// or lost, however early or late samples come.
    pub fn turn(&mut self) {
        match self.last.take() {
            None => self.quiet = self.quiet.saturating_add(1),
            Some(last) => {
                let from = self.from.replace(last.clone());
                self.interval = from.map(|from| (from, last));
                self.quiet = 0;
            }
        }
    }

    /// Takes in who holds queue pairs now.
    pub(super) fn hold(&mut self, queue_pairs: &Fact<QueuePairs>) {
        self.queue_pairs = queue_pairs.clone();
    }

    /// Who holds queue pairs on each device.
    pub fn queue_pairs(&self) -> &Fact<QueuePairs> {
        &self.queue_pairs
    }

    fn fits(&self, sample: &Sample) -> bool {
        let ports = self.layout.ports.value().map_or(&[][..], Vec::as_slice);
        let mut both = ports.iter().zip(&sample.ports);
        ports.len() == sample.ports.len()
            && both.all(|(port, reading)| port.series.len() == reading.values.len())
    }

    /// What the samples are made of.
    pub fn layout(&self) -> &SampleLayout {
        &self.layout
    }

    /// How many intervals have ended without a sample since the one that [`NodeWatch::rates`] is of.
    pub fn quiet(&self) -> u32 {
        self.quiet
    }

    /// What each port did in the last interval that had samples; nothing before there was one.
    pub fn rates(&self) -> Vec<PortRates<'_>> {
        let Some((before, last)) = &self.interval else {
            return Vec::new();
        };
        let ports = self.layout.ports.value().map_or(&[][..], Vec::as_slice);
        let readings = before.ports.iter().zip(&last.ports);
        let rates = ports.iter().zip(readings);
        rates
            .filter_map(|(layout, (before, last))| PortRates::between(layout, before, last))
            .collect()
    }
}

impl<'a> PortRates<'a> {
    /// What happened between two readings; `None` where the node's clock did not go on.
    pub fn between(
        layout: &'a PortLayout,
        before: &PortReading,
        after: &PortReading,
    ) -> Option<Self> {
        let elapsed_us = after.at_us.checked_sub(before.at_us).filter(|us| *us > 0)?;
        let tally = |quantity: &Quantity| (*quantity, tally(layout, *quantity, before, after));
        Some(Self {
            layout,
            elapsed_us,
            moved: moved(layout, before, after),
            tallies: Quantity::ALL.iter().map(tally).collect(),
        })
    }

    /// How often a quantity happened.
    pub fn tally(&self, quantity: Quantity) -> &Fact<Tally> {
        const NOT_LISTED: &Fact<Tally> = &Fact::Unknown {
            why: arcstr::literal!(""),
        };
        let found = self.tallies.iter().find(|(listed, _)| *listed == quantity);
        found.map_or(NOT_LISTED, |(_, tally)| tally)
    }

    /// How often a quantity happened for each second.
    pub fn per_second(&self, quantity: Quantity) -> Fact<f64> {
        let elapsed = self.elapsed_us as f64;
        let rate = |tally: Tally| tally.count as f64 * 1e6 / elapsed;
        self.tally(quantity).clone().map(rate)
    }

    /// The counters of errors and congestion that moved, and by how many of their quantity.
    pub fn moved(&self) -> &[(&'a Series, u64)] {
        &self.moved
    }

    /// The rate at which data was sent.
    pub fn tx(&self) -> Fact<Gbps> {
        self.gbps(Quantity::TxBytes)
    }

    /// The rate at which data was received.
    pub fn rx(&self) -> Fact<Gbps> {
        self.gbps(Quantity::RxBytes)
    }

    fn gbps(&self, bytes: Quantity) -> Fact<Gbps> {
        let per_second = self.per_second(bytes);
        per_second.map(|bytes| Gbps(bytes * 8.0 / 1e9))
    }
}

impl Ledger {
    /// An interval of a watch is over.
    pub fn turn(&mut self) {
        let watched = self.nodes.values_mut();
        watched
            .filter_map(|node| node.watch.as_mut())
            .for_each(NodeWatch::turn);
    }

    /// The nodes that are watched or were to be, each with its samples where there are some.
    pub fn watched(&self) -> impl Iterator<Item = (&NodeName, &NodeState, Option<&NodeWatch>)> {
        self.nodes()
            .map(|(name, node)| (name, &node.state, node.watch.as_ref()))
    }
}

/// What became of a counter between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    By(u64),
    Missing(&'static str),
}

/// The step from `before` to `after`. Bytes and packets are counted in 64 bits, events in 32 too.
fn step(series: &Series, before: Option<u64>, after: Option<u64>) -> Step {
    let (Some(before), Some(after)) = (before, after) else {
        return Step::Missing("could not be read");
    };
    let wraps = is_event(series.quantity);
    match CounterStep::between(before, after, series.saturates_at, wraps) {
        CounterStep::By(more) => Step::By(more),
        CounterStep::Ended => Step::Missing("has reached its end and counts no more"),
        CounterStep::Reset => Step::Missing("was reset"),
    }
}

fn is_event(quantity: Quantity) -> bool {
    use Quantity::{RxBytes, RxPackets, TxBytes, TxPackets};
    !matches!(quantity, TxBytes | RxBytes | TxPackets | RxPackets)
}

fn moved<'a>(
    layout: &'a PortLayout,
    before: &PortReading,
    after: &PortReading,
) -> Vec<(&'a Series, u64)> {
    let series = layout.series.iter().enumerate();
    let events = series.filter(|(_, series)| is_event(series.quantity));
    let moved = events.filter_map(|(n, series)| {
        let value = |reading: &PortReading| reading.values.get(n).copied().flatten();
        match step(series, value(before), value(after)) {
            Step::By(steps @ 1..) => Some((series, steps.saturating_mul(u64::from(series.unit)))),
            _ => None,
        }
    });
    moved.collect()
}

fn tally(
    layout: &PortLayout,
    quantity: Quantity,
    before: &PortReading,
    after: &PortReading,
) -> Fact<Tally> {
    let mut counted = Vec::new();
    let mut tally = Tally {
        count: 0,
        missing: Vec::new(),
    };
    for (n, series) in layout.series.iter().enumerate() {
        if series.quantity != quantity {
            continue;
        }
        let value = |reading: &PortReading| reading.values.get(n).copied().flatten();
        let name = series.from.rsplit('/').next().unwrap_or_default();
        match step(series, value(before), value(after)) {
            Step::By(steps) => {
                let more = steps.saturating_mul(u64::from(series.unit));
                tally.count = tally.count.saturating_add(more);
                counted.push(series.from.as_str());
            }
            Step::Missing(why) => tally.missing.push(format!("{name} {why}")),
        }
    }
    if counted.is_empty() {
        return Fact::unknown(why_none(layout, quantity, &tally));
    }
    Fact::known(tally, counted.join(", "))
}

fn why_none(layout: &PortLayout, quantity: Quantity, tally: &Tally) -> String {
    let uncounted = layout.uncounted.iter().find(|u| u.quantity == quantity);
    match uncounted {
        Some(uncounted) => uncounted.why.clone(),
        None if tally.missing.is_empty() => "its counters could not be opened".into(),
        None => tally.missing.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Uncounted;
    use proptest::prelude::*;

    fn series(quantity: Quantity, name: &str, unit: u32, saturates_at: Option<u64>) -> Series {
        Series {
            quantity,
            from: format!("/sys/x/{name}"),
            unit,
            saturates_at,
        }
    }

    fn layout(series: Vec<Series>) -> PortLayout {
        PortLayout {
            device: "mlx5_0".into(),
            port: 1,
            series,
            ..PortLayout::default()
        }
    }

    fn reading(at_us: u64, values: &[u64]) -> PortReading {
        PortReading {
            at_us,
            values: values.iter().copied().map(Some).collect(),
        }
    }

    #[test]
    fn words_become_a_rate_by_the_nodes_clock() {
        let layout = layout(vec![series(Quantity::TxBytes, "port_xmit_data", 4, None)]);
        // 50 GB in 1.0 s at the node.
        let (before, after) = (reading(7, &[10]), reading(1_000_007, &[12_500_000_010]));
        let rates = PortRates::between(&layout, &before, &after).unwrap();
        assert_eq!(rates.tx().value(), Some(&Gbps(400.0)));
        assert_eq!(rates.tx().source(), Some("/sys/x/port_xmit_data"));
        assert!(rates.rx().why_unknown().is_some());
    }

    #[test]
    fn a_clock_that_stands_or_goes_back_makes_no_rate() {
        let layout = layout(vec![series(Quantity::TxBytes, "tx_bytes", 1, None)]);
        for (before, after) in [(5, 5), (5, 4), (u64::MAX, 0)] {
            let rates = PortRates::between(&layout, &reading(before, &[1]), &reading(after, &[2]));
            assert_eq!(rates, None);
        }
    }

    #[test]
    fn resets_ends_and_wraps_differ() {
        let free = series(Quantity::Errors, "a", 1, None);
        let stops = series(Quantity::Errors, "b", 1, Some(255));
        let go = |series, before, after| step(series, Some(before), Some(after));
        assert_eq!(go(&free, 7, 9), Step::By(2));
        assert_eq!(go(&free, 4_294_967_290, 4), Step::By(10));
        assert_eq!(go(&free, 9, 7), Step::Missing("was reset"));
        let bytes = series(Quantity::TxBytes, "tx_bytes", 1, None);
        let reset = Step::Missing("was reset");
        assert_eq!(
            go(&bytes, 4_294_967_290, 4),
            reset,
            "a driver that was loaded anew"
        );
        assert_eq!(go(&free, 1 << 40, 7), Step::Missing("was reset"));
        let full = Step::Missing("has reached its end and counts no more");
        assert_eq!(go(&stops, 255, 255), full);
        assert_eq!(go(&stops, 250, 255), full);
        assert_eq!(go(&stops, 255, 0), Step::Missing("was reset"));
        // More than the field holds: it is wider than the specification has it.
        assert_eq!(go(&stops, 255, 300), Step::By(45));
        let unread = step(&free, None, Some(7));
        assert_eq!(unread, Step::Missing("could not be read"));
    }

    #[test]
    fn a_counter_at_its_end_leaves_the_others_counting() {
        let layout = layout(vec![
            series(Quantity::Errors, "symbol_error", 1, Some(65_535)),
            series(
                Quantity::Errors,
                "excessive_buffer_overrun_errors",
                1,
                Some(15),
            ),
        ]);
        let (before, after) = (reading(0, &[3, 15]), reading(1_000_000, &[5, 15]));
        let rates = PortRates::between(&layout, &before, &after).unwrap();
        let tally = rates.tally(Quantity::Errors).value().unwrap();
        assert_eq!(tally.count, 2);
        assert_eq!(
            tally.missing,
            ["excessive_buffer_overrun_errors has reached its end and counts no more"]
        );
    }

    #[test]
    fn what_nothing_counts_says_why() {
        let mut layout = layout(Vec::new());
        layout.uncounted.push(Uncounted {
            quantity: Quantity::Pauses,
            why: "sysfs does not count pauses".into(),
        });
        let rates = PortRates::between(&layout, &reading(0, &[]), &reading(1, &[])).unwrap();
        let why = rates.tally(Quantity::Pauses).why_unknown();
        assert_eq!(why, Some("sysfs does not count pauses"));
    }

    #[test]
    fn samples_that_come_early_or_late_are_each_told_once() {
        let layout = SampleLayout {
            ports: Fact::known(
                vec![layout(vec![series(
                    Quantity::Errors,
                    "symbol_error",
                    1,
                    None,
                )])],
                "test",
            ),
            left_out: 0,
        };
        let mut watch = NodeWatch::new(&layout);
        let mut told = 0;
        let mut seconds = 0;
        for samples in [1, 0, 2, 1, 0, 3] {
            for _ in 0..samples {
                seconds += 1;
                let ports = vec![reading(seconds * 1_000_000, &[seconds * 10])];
                watch.apply(&Sample { ports });
            }
            watch.turn();
            if watch.quiet() == 0 {
                let tally = watch.rates()[0].tally(Quantity::Errors).clone();
                told += tally.value().unwrap().count;
            }
        }
        assert_eq!(told, (seconds - 1) * 10);
    }

    #[test]
    fn a_layout_beyond_measure_is_not_taken() {
        let one = || series(Quantity::Errors, "a", 1, None);
        let many = |ports, series| SampleLayout {
            ports: Fact::known(
                vec![layout(std::iter::repeat_with(one).take(series).collect()); ports],
                "test",
            ),
            left_out: 0,
        };
        let taken = |layout: SampleLayout| NodeWatch::new(&layout).layout().ports.value().is_some();
        assert!(taken(many(MAX_PORTS, MAX_SERIES)));
        assert!(!taken(many(MAX_PORTS + 1, 1)));
        assert!(!taken(many(1, MAX_SERIES + 1)));
    }

    proptest! {
        #[test]
        fn steps_add_up_whatever_the_width(start: u64, steps in proptest::collection::vec(0u64..1 << 29, 1..20), wide: bool) {
            // A counter that goes over its end shows the same total as one that does not.
            let width = if wide { u64::MAX } else { u64::from(u32::MAX) };
            let series = series(Quantity::Errors, "a", 1, None);
            let mut at = if wide { start / 2 } else { start & width };
            let mut total = 0;
            for more in &steps {
                let next = if wide { at + more } else { (at + more) & width };
                match step(&series, Some(at), Some(next)) {
                    Step::By(steps) => total += steps,
                    missing => prop_assert!(false, "{at} to {next}: {missing:?}"),
                }
                at = next;
            }
            prop_assert_eq!(total, steps.iter().sum::<u64>());
        }

        #[test]
        fn nothing_that_a_node_sends_panics(
            at in any::<[u64; 2]>(),
            before in proptest::collection::vec(any::<Option<u64>>(), 0..5),
            after in proptest::collection::vec(any::<Option<u64>>(), 0..5),
            unit: u32,
            saturates_at in any::<Option<u64>>(),
        ) {
            let layout = layout(vec![
                series(Quantity::TxBytes, "a", unit, saturates_at),
                series(Quantity::Errors, "b", unit, None),
                series(Quantity::Errors, "c", unit, saturates_at),
            ]);
            let reading = |at_us, values: &Vec<Option<u64>>| PortReading { at_us, values: values.clone() };
            let rates = PortRates::between(&layout, &reading(at[0], &before), &reading(at[1], &after));
            if let Some(rates) = rates {
                prop_assert!(rates.tx().value().is_none_or(|rate| rate.0.is_finite() && rate.0 >= 0.0));
                for quantity in Quantity::ALL {
                    let _ = rates.per_second(*quantity);
                }
            }
        }

        #[test]
        fn a_counter_that_stops_never_tells_more_than_it_shows(before in 0u64..=255, after in 0u64..=255) {
            let series = series(Quantity::Errors, "link_downed", 1, Some(255));
            if let Step::By(steps) = step(&series, Some(before), Some(after)) {
                prop_assert_eq!(before + steps, after);
                prop_assert!(after < 255);
            }
        }
    }
}
