//! Runs of which only the cost is measured, for tests.

use crate::ledger::Ledger;
use crate::ledger::testing::{events, ledger, measured};
use crate::model::*;
use crate::plan::{burst_specs, cost_probes, cost_tests};

/// The ways of moving data that tell the two savings apart.
pub const MAIN: [CostStep; 5] = [
    CostStep::Tcp,
    CostStep::TcpZeroCopy,
    CostStep::Write,
    CostStep::WritePoll,
    CostStep::WriteCopied,
];

/// CPU time of an end over a second, in cores: its threads, and software interrupts.
pub fn cpu(threads: f64, softirq: f64) -> CpuUse {
    let us = |cores: f64| (cores * 1e6) as u64;
    let host = |user, softirq| HostCpu {
        user_us: user,
        system_us: 0,
        softirq_us: softirq,
        irq_us: Some(0),
    };
    let idle = IdleCpu {
        elapsed_us: 1_000_000,
        host: host(10_000, 0),
    };
    CpuUse {
        user_us: us(threads),
        system_us: 0,
        host: Fact::known(host(us(threads) + 10_000, us(softirq)), "/proc/stat"),
        elapsed_us: Fact::known(1_000_000, "test"),
        idle: Fact::known(idle, "/proc/stat"),
        cycles: Fact::default(),
    }
}

/// What a step of these tests reaches, in Gb/s, and what its ends spend.
fn reaches(step: CostStep) -> (f64, CpuUse, CpuUse) {
    match step {
        CostStep::Tcp => (20.0, cpu(1.0, 0.5), cpu(1.0, 1.5)),
        CostStep::TcpStreams => (160.0, cpu(8.0, 4.0), cpu(8.0, 12.0)),
        CostStep::TcpZeroCopy => (20.0, cpu(0.5, 0.5), cpu(1.0, 1.5)),
        CostStep::WritePoll => (391.0, cpu(1.0, 0.0), cpu(0.0, 0.0)),
        CostStep::WriteCopied => (80.0, cpu(1.0, 0.0), cpu(0.0, 0.0)),
        CostStep::SizeTcp => (20.0, cpu(1.0, 0.5), cpu(1.0, 1.5)),
        _ => (390.0, cpu(0.4, 0.0), cpu(0.01, 0.0)),
    }
}

/// A run over so many pairs of nodes that measures these steps and nothing else.
pub fn run(nodes: usize, only: &[CostStep], change: &dyn Fn(CostStep, &mut Outcome)) -> Ledger {
    ledger(&events_of(nodes, only, change))
}

/// The events of such a run.
pub fn events_of(
    nodes: usize,
    only: &[CostStep],
    change: &dyn Fn(CostStep, &mut Outcome),
) -> Vec<Event> {
    let mut all = events(nodes, 1, &|_, _, _| None);
    let cost = CostSettings {
        only: only.to_vec(),
        ..cost_tests::settings()
    };
    let mut usual = None;
    let (mut planned, mut probe) = (Vec::new(), 0);
    for event in &mut all {
        if let Event::RunStarted { settings, .. } = event {
            settings.sweep.pattern = Pattern::Nothing;
            settings.cost = Some(cost.clone());
            usual = Some(settings.probe.clone());
        }
    }
    let usual = usual.expect("a run");
    let probes = cost_probes(&cost, &usual);
    let pairs = all.iter().filter_map(|event| match event {
        Event::RoundPlanned { pairs, .. } => Some(pairs[0].clone()),
        _ => None,
    });
    let pairs: Vec<PlannedPair> = pairs.collect();
    for (step, spec) in burst_specs(&cost, &usual) {
        // All to the first node; two of them are too few.
        let to = |like: &&PlannedPair| like.pair.to.node == pairs[0].pair.from.node;
        let first = probe;
        let of_burst = pairs.iter().filter(to).filter(|_| nodes > 2).map(|like| {
            probe += 1;
            PlannedPair {
                probe: ProbeId(probe - 1),
                purpose: Purpose::Cost,
                spec: Some(spec.clone()),
                ..like.clone()
            }
        });
        let of_burst: Vec<PlannedPair> = of_burst.collect();
        if of_burst.is_empty() {
            continue;
        }
        let many = of_burst.len() as f64;
        planned.push(Event::RoundPlanned {
            round: first as u32,
            pairs: of_burst,
        });
        for id in (first..probe).map(ProbeId) {
            let mut outcome = measured(reaches(step).0 / many);
            change(step, &mut outcome);
            planned.push(Event::ProbeStarted { probe: id });
            planned.push(Event::ProbeEnded { probe: id, outcome });
        }
    }
    for like in pairs {
        for what in &probes {
            let (rate, from, to) = reaches(what.step);
            let mut outcome = measured(rate);
            if let Outcome::Measured {
                measurement,
                verified,
            } = &mut outcome
            {
                measurement.cpu = from;
                if let Fact::Known { value, .. } = verified {
                    value.cpu = Fact::known(to, "test");
                }
            }
            change(what.step, &mut outcome);
            let id = ProbeId(probe);
            planned.push(Event::RoundPlanned {
                round: probe as u32,
                pairs: vec![PlannedPair {
                    probe: id,
                    purpose: Purpose::Cost,
                    spec: Some(what.spec.clone()),
                    ..like.clone()
                }],
            });
            planned.push(Event::ProbeStarted { probe: id });
            planned.push(Event::ProbeEnded { probe: id, outcome });
            probe += 1;
        }
    }
    all.retain(|event| {
        !matches!(
            event,
            Event::RoundPlanned { .. } | Event::ProbeStarted { .. } | Event::ProbeEnded { .. }
        )
    });
    let end = all.pop().expect("an end");
    all.extend(planned);
    all.push(end);
    all
}
