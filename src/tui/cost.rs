//! What it takes of processors to drive a NIC, by what a probe measured.

use crate::judge::{StepCost, cost_step, expected};
use crate::ledger::{Ledger, Probe};
use crate::model::{Completion, CostStep, Gbps, Measurement, ProbeSpec, Purpose};

/// Below so many cores, 0.1 ms in a second, nothing can be divided by.
const LEAST: f64 = 1e-4;

/// What sending took, by one probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// What was sent, over the whole transfer.
    pub rate: Gbps,
    /// User time of the thread that drove it, in cores.
    pub user: f64,
    /// System time of that thread, in cores.
    pub system: f64,
    /// Software interrupts of the whole host meanwhile, in cores, where known.
    pub softirq: Option<f64>,
    /// How that thread learned that work was done.
    pub completion: Completion,
}

impl Cost {
    /// Of a measurement; `None` where no time passed.
    pub fn of(measured: &Measurement, spec: &ProbeSpec) -> Option<Self> {
        let span_us = span_us(measured)?;
        let cores = |us: u64| us as f64 / span_us;
        let host = measured.cpu.host.value();
        Some(Self {
            rate: Gbps(measured.total_bytes as f64 * 8.0 / 1e3 / span_us),
            user: cores(measured.cpu.user_us),
            system: cores(measured.cpu.system_us),
            softirq: host.map(|host| cores(host.softirq_us)),
            completion: spec.completion,
        })
    }

    /// The cores that the driving thread took.
    pub fn thread(&self) -> f64 {
        self.user + self.system
    }

    /// What one core of the driving thread's work would send.
    pub fn per_core(&self) -> Option<Gbps> {
        let rate = Gbps(self.rate.0 / self.thread());
        (self.thread() > LEAST && rate.is_positive()).then_some(rate)
    }

    /// The cores of that work which it takes to send at a rate.
    pub fn cores_for(&self, rate: Gbps) -> Option<f64> {
        rate.share_of(self.per_core()?)
    }
}

/// What one way of moving data took of processors at one end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weighed {
    /// What was moved in a time.
    pub rate: Gbps,
    /// Cores for 100 Gb/s.
    pub per_100: f64,
    /// Cores for what the links carry, where that is known.
    pub fills: Option<f64>,
    /// Whether what the kernel spent beside the threads is known and counted.
    pub is_whole: bool,
    /// Whether less was spent than that: it is hidden in ticks of 10 ms.
    pub is_hidden: bool,
}

/// TCP beside RDMA at one NIC; of each what sending took, then what receiving took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Compared {
    /// One TCP connection.
    pub tcp: [Option<Weighed>; 2],
    /// RDMA writes whose completions are waited for.
    pub write: [Option<Weighed>; 2],
}

impl Compared {
    /// Takes in what a probe says of the end of it that sends (0) or receives (1).
    pub fn take(&mut self, step: CostStep, end: usize, weighed: Option<Weighed>) {
        match step {
            CostStep::Tcp => self.tcp[end] = weighed,
            CostStep::Write => self.write[end] = weighed,
            _ => {}
        }
    }
}

/// What sending by TCP and by RDMA takes at the median NIC of a node.
pub fn of_node<'a>(cells: impl Iterator<Item = &'a Compared>) -> [Option<Weighed>; 2] {
    let cells: Vec<&Compared> = cells.collect();
    let median = |of: &dyn Fn(&Compared) -> Option<Weighed>| {
        let mut all: Vec<Weighed> = cells.iter().filter_map(|cell| of(cell)).collect();
        all.sort_by(|a, b| a.per_100.total_cmp(&b.per_100));
        all.get(all.len() / 2).copied()
    };
    [median(&|cell| cell.tcp[0]), median(&|cell| cell.write[0])]
}

impl Weighed {
    /// What one core sends, in Gb/s; more where it is hidden. `None` where next to nothing was spent.
    pub fn per_core(&self) -> Option<Gbps> {
        (self.per_100 > LEAST).then(|| Gbps(100.0 / self.per_100))
    }
}

/// What a probe of the cost says of its two ends; nothing of any other.
pub fn weighed(probe: &Probe, ledger: &Ledger) -> Option<(CostStep, [Option<Weighed>; 2])> {
    let planned = &probe.planned;
    let spec = planned.spec.as_ref()?;
    if planned.purpose != Purpose::Cost {
        return None;
    }
    let step = cost_step(ledger.settings()?, spec)?;
    let cost = StepCost::of(step, probe, spec)?;
    let line = expected(ledger, probe).value().copied();
    let end = |at: usize| {
        let end = cost.ends[at].as_ref().filter(|end| !end.is_unknown())?;
        let is_hidden = end.is_hidden();
        let most = end.at_most();
        let end = if is_hidden { &most } else { end };
        Some(Weighed {
            rate: cost.rate,
            per_100: end.cores_for(Gbps(100.0))?,
            fills: line.and_then(|line| end.cores_for(line)),
            is_whole: end.is_whole(),
            is_hidden,
        })
    };
    Some((step, [end(0), end(1)]))
}

/// How long the whole transfer took, warm-up included; from its windows, or from what was sent by then.
fn span_us(measured: &Measurement) -> Option<f64> {
    let last = measured.windows.last();
    let end = last.map(|window| window.start_us.saturating_add(window.length_us));
    let after_warm_up = measured.elapsed_us as f64;
    let whole = match end {
        Some(end) => end as f64,
        None if measured.bytes > 0 => {
            after_warm_up * measured.total_bytes as f64 / measured.bytes as f64
        }
        None => after_warm_up,
    };
    (whole > 0.0).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{events, ledger, measured};
    use crate::model::{Fact, HostCpu, Outcome};

    fn cost(change: impl FnOnce(&mut Measurement)) -> Option<Cost> {
        let Outcome::Measured {
            mut measurement, ..
        } = measured(200.0)
        else {
            return None;
        };
        change(&mut measurement);
        let ledger = ledger(&events(2, 1, &|_, _, _| None));
        Cost::of(&measurement, &ledger.settings()?.probe)
    }

    #[test]
    fn cores_are_those_of_the_whole_transfer() {
        // A fifth more was sent in the warm-up: 1.2 s in all.
        let of = cost(|m| {
            m.total_bytes = m.bytes / 5 * 6;
            m.cpu.user_us = 240_000;
            m.cpu.system_us = 60_000;
            let host = HostCpu {
                user_us: 0,
                system_us: 0,
                softirq_us: 600_000,
                irq_us: None,
            };
            m.cpu.host = Fact::known(host, "/proc/stat");
        });
        let of = of.unwrap();
        assert!((of.thread() - 0.25).abs() < 1e-6, "{of:?}");
        assert!((of.softirq.unwrap() - 0.5).abs() < 1e-6, "{of:?}");
        assert!((of.rate.0 - 200.0).abs() < 1e-3, "{of:?}");
        assert!((of.per_core().unwrap().0 - 800.0).abs() < 1e-2, "{of:?}");
        assert!((of.cores_for(Gbps(400.0)).unwrap() - 0.5).abs() < 1e-6);
    }

    #[test]
    fn what_took_no_time_or_no_cpu_tells_nothing() {
        assert_eq!(cost(|m| m.elapsed_us = 0), None);
        let idle = cost(|m| (m.cpu.user_us, m.cpu.system_us) = (0, 0)).unwrap();
        assert_eq!((idle.per_core(), idle.cores_for(Gbps(1.0))), (None, None));
    }
}
