//! What moving data costs: for each pair of NICs and each way of moving data the rate, the CPU time of both
//! ends, and what kernel bypass and zero copy save, each for itself.

mod congestion;
mod cpu;
mod gaps;
mod incast;
mod savings;
mod sizes;
#[cfg(test)]
pub mod testing;
mod together;
mod words;

pub use congestion::{Congestion, Sign};
pub use cpu::EndCost;
pub use gaps::CostGap;
use incast::burst_step;
pub use incast::{Incast, is_burst};
pub use savings::{Saving, Savings};
pub use sizes::{Crossover, SizeCost};
pub use together::Together;

use std::collections::BTreeMap;

use super::expected::{line_rate, narrower};
use crate::ledger::{Ledger, Probe};
use crate::model::{
    Bytes, Completion, CostSettings, CostStep, Fact, Gbps, LinkLayer, Outcome, Pair, PingPong,
    ProbeSpec, Purpose, Rail, Registration, RunEnd, RunSettings,
};
use crate::plan::{burst_specs, specs};

/// What a run measured of the cost of moving data.
#[derive(Debug, Clone)]
pub struct CostReport<'a> {
    /// Each pair of which something was measured, by rail, initiator and target.
    pub pairs: Vec<PairCost<'a>>,
    /// Bursts of many senders to one NIC, by rail, receiver and way.
    pub incasts: Vec<Incast<'a>>,
    /// What was not measured.
    pub gaps: Vec<CostGap>,
    /// What was not measured because hosts lack something that they may do without, and that nobody
    /// asked for by name: the run is complete without it.
    pub unavailable: Vec<CostGap>,
    /// Probes that were measured.
    pub measured: usize,
    /// Whether the run came to its end.
    pub is_over: bool,
}

/// One direction of a pair of NICs.
#[derive(Debug, Clone)]
pub struct PairCost<'a> {
    /// The NICs: the first is the initiator of every probe.
    pub pair: &'a Pair,
    /// The rate of the slower of its two links.
    pub line: Fact<Gbps>,
    /// What its links are.
    pub layer: Option<LinkLayer>,
    /// Whether one of its NICs is software: the kernel does then what a NIC would, and what RDMA costs
    /// means nothing.
    pub is_software: bool,
    /// The ways of moving data, in order.
    pub steps: Vec<StepCost<'a>>,
    /// What not copying and not going through the kernel save; nothing for software RDMA.
    pub savings: Savings,
    /// How long messages took, by size and way.
    pub latency: Vec<Latency>,
    /// TCP and RDMA writes by message size, the smallest first.
    pub sizes: Vec<SizeCost<'a>>,
    /// What counters told of congestion.
    pub congestion: Congestion,
    /// What registering memory took, in pages of each size.
    pub registrations: Vec<Registration>,
}

/// How long messages of a size took by one way of moving them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// The way.
    pub step: CostStep,
    /// How long.
    pub told: PingPong,
}

/// One way of moving data.
#[derive(Debug, Clone, PartialEq)]
pub struct StepCost<'a> {
    /// Which.
    pub step: CostStep,
    /// The probe.
    pub probe: &'a Probe,
    /// What arrived in a time.
    pub rate: Gbps,
    /// What the initiator spent, and the target; none where a node did not say.
    pub ends: [Option<EndCost>; 2],
    /// Whether the initiator polled: then it spent a core whatever there was to do.
    pub polls: bool,
}

impl<'a> StepCost<'a> {
    /// Of a probe that measured a rate.
    pub fn of(step: CostStep, probe: &'a Probe, spec: &ProbeSpec) -> Option<Self> {
        let Some(Outcome::Measured {
            measurement,
            verified,
        }) = &probe.outcome
        else {
            return None;
        };
        let rate = measurement.rate().filter(|rate| rate.is_positive())?;
        let bytes = measurement.total_bytes;
        // Warm-up included, as fast as the rest.
        let span_us = measurement.elapsed_us as f64 * bytes as f64 / measurement.bytes as f64;
        let target = verified.value().and_then(|verified| verified.cpu.value());
        let target = target.and_then(|cpu| EndCost::of(cpu, bytes, None));
        Some(Self {
            step,
            probe,
            rate,
            ends: [EndCost::of(&measurement.cpu, bytes, Some(span_us)), target],
            polls: spec.completion == Completion::Poll,
        })
    }

    /// The share of its sends without a copy that the kernel copied all the same; 0 where it has none.
    fn share_copied(&self) -> f64 {
        let tcp = self.probe.measurement().and_then(|m| m.tcp.as_ref());
        let told = tcp.and_then(|tcp| tcp.zero_copy);
        told.filter(|told| told.completed > 0).map_or(0.0, |told| {
            (told.copied as f64 / told.completed as f64).min(1.0)
        })
    }

    /// Whether the data went through the kernel's TCP.
    pub fn is_tcp(&self) -> bool {
        let spec = self.probe.planned.spec.as_ref();
        spec.is_some_and(|spec| spec.kind.is_tcp())
    }

    /// Whether the kernel copied what was sent without a copy, as on loopback.
    pub fn copied_all_the_same(&self) -> bool {
        self.share_copied() > 0.5
    }

    /// How often each byte is copied at the initiator and at the target. TCP copies once into the kernel
    /// and once out of it; MSG_ZEROCOPY leaves the first out; RDMA copies only where it is made to.
    pub fn copies(&self) -> [f64; 2] {
        match self.step {
            CostStep::Tcp | CostStep::TcpStreams | CostStep::SizeTcp => [1.0, 1.0],
            CostStep::TcpZeroCopy => [self.share_copied(), 1.0],
            CostStep::WriteCopied => [1.0, 0.0],
            _ => [0.0, 0.0],
        }
    }

    /// Memory bandwidth that copies took at each end, in GB/s (10^9 bytes): each reads a byte and
    /// writes one. What caches keep from memory is not known.
    pub fn copied_gb_per_s(&self) -> [f64; 2] {
        self.copies().map(|copies| self.rate.0 / 8.0 * 2.0 * copies)
    }
}

impl<'a> PairCost<'a> {
    /// One way of moving data, where it was measured.
    pub fn step(&self, step: CostStep) -> Option<&StepCost<'a>> {
        self.steps.iter().find(|known| known.step == step)
    }

    /// From which message size on RDMA takes less CPU time than TCP.
    pub fn crossover(&self) -> Crossover {
        match self.is_software {
            true => Crossover::Unknown,
            false => Crossover::of(&self.sizes),
        }
    }
}

/// The probes of a pair.
type Probes<'a> = Vec<&'a Probe>;

impl<'a> CostReport<'a> {
    /// What a run measured; `None` where it was not asked to.
    pub fn of(ledger: &'a Ledger) -> Option<Self> {
        let pairs = pair_costs(ledger)?;
        let measured = cost_probes(ledger).filter(|probe| probe.measurement().is_some());
        let gaps = gaps::of(ledger);
        Some(Self {
            pairs,
            incasts: incast::of(ledger),
            gaps: gaps.missing,
            unavailable: gaps.unavailable,
            measured: measured.count(),
            is_over: ledger.end() == Some(RunEnd::Complete),
        })
    }

    /// Whether everything that was asked for was measured.
    pub fn is_complete(&self) -> bool {
        self.is_over && self.gaps.is_empty() && self.measured > 0
    }
}

/// Each pair of which something was measured, by rail, initiator and target; `None` where a run was not
/// asked to.
pub(super) fn pair_costs(ledger: &Ledger) -> Option<Vec<PairCost<'_>>> {
    let settings = ledger.settings()?;
    let cost = settings.cost.as_ref()?;
    let mut by_pair: BTreeMap<(Rail, String, String), Probes<'_>> = BTreeMap::new();
    // A burst measures no pair.
    let bursts: Vec<ProbeSpec> = burst_specs(cost, &settings.probe)
        .into_iter()
        .map(|(_, spec)| spec)
        .collect();
    let of_pairs = |probe: &&Probe| {
        let spec = probe.planned.spec.as_ref();
        spec.is_none_or(|spec| !bursts.contains(spec))
    };
    for probe in cost_probes(ledger).filter(of_pairs) {
        let Pair { from, to, rail } = &probe.planned.pair;
        let key = (*rail, from.to_string(), to.to_string());
        by_pair.entry(key).or_default().push(probe);
    }
    let pairs = by_pair.into_values();
    let pairs = pairs.filter_map(|probes| pair_cost(ledger, cost, &settings.probe, &probes));
    Some(pairs.collect())
}

/// The step that a probe of a run belongs to, by what it does; of several the first.
pub fn cost_step(settings: &RunSettings, spec: &ProbeSpec) -> Option<CostStep> {
    let cost = settings.cost.as_ref()?;
    let is_it = |step: &&CostStep| specs(**step, cost, &settings.probe).contains(spec);
    CostStep::ALL.iter().find(is_it).copied()
}

/// The probes that were made to tell what moving data costs.
fn cost_probes(ledger: &Ledger) -> impl Iterator<Item = &Probe> {
    let all = ledger.probes();
    all.filter(|probe| probe.planned.purpose == Purpose::Cost)
}

/// Of the probes of one pair; `None` where none measured anything.
fn pair_cost<'a>(
    ledger: &'a Ledger,
    cost: &CostSettings,
    usual: &ProbeSpec,
    probes: &[&'a Probe],
) -> Option<PairCost<'a>> {
    let measured = |probe: &&&'a Probe| probe.measurement().is_some();
    let pair = &probes.iter().find(measured)?.planned.pair;
    let found = Found {
        probes,
        cost,
        usual,
    };
    let lines = [&pair.from, &pair.to].map(|nic| line_rate(ledger, nic));
    let line = lines[narrower(lines.each_ref())].clone();
    let devices = [&pair.from, &pair.to].map(|nic| ledger.device(nic));
    let is_software = devices
        .iter()
        .flatten()
        .any(|device| device.software.is_some());
    let steps = found.steps();
    let savings = match is_software {
        true => Savings::default(),
        false => Savings::of(&steps),
    };
    let mut congestion = Congestion::default();
    probes.iter().for_each(|probe| congestion.add(probe));
    Some(PairCost {
        pair,
        line,
        layer: layer(ledger, pair),
        is_software,
        savings,
        latency: found.latency(),
        sizes: found.sizes(),
        congestion,
        registrations: registrations(&steps),
        steps,
    })
}

fn layer(ledger: &Ledger, pair: &Pair) -> Option<LinkLayer> {
    let device = ledger.device(&pair.from)?;
    let port = device
        .ports
        .iter()
        .find(|port| port.number == pair.from.port)?;
    port.link_layer.value().copied()
}

/// What registering took, of the largest memory in pages of each size.
fn registrations(steps: &[StepCost<'_>]) -> Vec<Registration> {
    let mut largest: BTreeMap<u64, Registration> = BTreeMap::new();
    let told = steps
        .iter()
        .filter_map(|step| step.probe.measurement()?.registration);
    for told in told.filter(|told| told.bytes > 0) {
        let known = largest.entry(told.page_bytes).or_insert(told);
        if told.bytes > known.bytes {
            *known = told;
        }
    }
    largest.into_values().collect()
}

/// The probes of one pair, and what tells which step each belongs to.
struct Found<'a, 'p> {
    probes: &'p [&'a Probe],
    cost: &'p CostSettings,
    usual: &'p ProbeSpec,
}

impl<'a> Found<'a, '_> {
    /// The probes of a step that measured something, the last of each kind, with what they did.
    fn of(&self, step: CostStep) -> Vec<(&'a Probe, ProbeSpec)> {
        let specs = specs(step, self.cost, self.usual);
        let find = |spec: ProbeSpec| {
            let mut last = self.probes.iter().rev();
            let is_it = |probe: &&&Probe| {
                probe.measurement().is_some() && probe.planned.spec.as_ref() == Some(&spec)
            };
            Some((*last.find(is_it)?, spec))
        };
        specs.into_iter().filter_map(find).collect()
    }

    fn steps(&self) -> Vec<StepCost<'a>> {
        let is_one = |step: &&CostStep| !step.is_by_size() && !step.is_incast();
        let steps = CostStep::ALL.iter().filter(is_one);
        let found = steps.filter_map(|step| {
            let (probe, spec) = self.of(*step).pop()?;
            StepCost::of(*step, probe, &spec)
        });
        found.collect()
    }

    fn latency(&self) -> Vec<Latency> {
        let steps = CostStep::ALL.iter().filter(|step| step.is_latency());
        let found = steps.flat_map(|step| {
            let found = self.of(*step).into_iter();
            found.map(move |found| (*step, found))
        });
        let told = found.filter_map(|(step, (probe, _))| {
            let told = probe.measurement()?.ping_pong?;
            Some(Latency { step, told })
        });
        let mut all: Vec<Latency> = told.collect();
        all.sort_by_key(|latency| (latency.told.bytes, latency.step));
        all
    }

    fn sizes(&self) -> Vec<SizeCost<'a>> {
        let mut sizes: BTreeMap<Bytes, SizeCost<'a>> = BTreeMap::new();
        for step in [CostStep::SizeTcp, CostStep::SizeWrite] {
            for (probe, spec) in self.of(step) {
                let size = spec.message_size;
                let new = || SizeCost {
                    size,
                    tcp: None,
                    write: None,
                };
                let at = sizes.entry(size).or_insert_with(new);
                let found = StepCost::of(step, probe, &spec);
                match step {
                    CostStep::SizeTcp => at.tcp = found,
                    _ => at.write = found,
                }
            }
        }
        sizes.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{MAIN, cpu, run};
    use super::*;

    fn rules(ledger: &Ledger) -> Vec<crate::model::Rule> {
        let findings = crate::judge::judge(ledger).findings;
        findings.iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_tcp_limit_is_not_the_networks() {
        let ledger = run(2, &MAIN, &|_, _| {});
        let findings = crate::judge::judge(&ledger).findings;
        let found = findings
            .iter()
            .find(|f| f.rule == crate::model::Rule::TcpLimit);
        let found = found.unwrap();
        assert_eq!(found.severity, crate::model::Severity::Note);
        assert!(
            found.says.contains("20.0 Gb/s by TCP and 391 Gb/s by RDMA"),
            "{}",
            found.says
        );
        assert!(
            found.says.contains("2 of 2 pairs of NICs are like that"),
            "{}",
            found.says
        );
        // Several connections fill the half of it; or RDMA is no better.
        let with_streams = [CostStep::Tcp, CostStep::TcpStreams, CostStep::Write];
        let enough = run(2, &with_streams, &|step, outcome| {
            if let (CostStep::TcpStreams, Outcome::Measured { measurement, .. }) = (step, outcome) {
                measurement.bytes *= 2;
                measurement.total_bytes *= 2;
            }
        });
        assert!(!rules(&enough).contains(&crate::model::Rule::TcpLimit));
        let both_low = run(2, &MAIN, &|_, outcome| {
            if let Outcome::Measured { measurement, .. } = outcome {
                measurement.bytes /= 20;
            }
        });
        assert!(!rules(&both_low).contains(&crate::model::Rule::TcpLimit));
    }

    #[test]
    fn where_the_kernel_copies_all_the_same_zero_copy_saves_nothing() {
        let copied = |step, outcome: &mut Outcome| {
            if let (CostStep::TcpZeroCopy, Outcome::Measured { measurement, .. }) = (step, outcome)
            {
                measurement.tcp = Some(Box::new(crate::model::TcpFacts {
                    mss: 65483,
                    congestion: "cubic".into(),
                    retransmits: 0,
                    offloads: Fact::default(),
                    zero_copy: Some(crate::model::ZeroCopy {
                        completed: 100,
                        copied: 100,
                    }),
                }));
            }
        };
        let ledger = run(2, &MAIN, &copied);
        let report = CostReport::of(&ledger).unwrap();
        let pair = &report.pairs[0];
        assert_eq!(pair.savings.zero_copy_in_kernel, None);
        assert_eq!(pair.savings.bypass_without_copy, None);
        assert!(pair.savings.zero_copy_past_kernel.is_some());
        assert_eq!(
            pair.step(CostStep::TcpZeroCopy).unwrap().copies(),
            [1.0, 1.0]
        );
    }

    #[test]
    fn a_target_that_says_nothing_leaves_the_initiators_cost() {
        let silent = |_, outcome: &mut Outcome| {
            if let Outcome::Measured { verified, .. } = outcome {
                *verified = Fact::unknown("it was lost");
            }
        };
        let ledger = run(2, &MAIN, &silent);
        let report = CostReport::of(&ledger).unwrap();
        let pair = &report.pairs[0];
        let together = pair.savings.together.unwrap();
        assert!(!together.both_ends && together.share().unwrap() > 0.9);
        assert!(
            pair.says()
                .iter()
                .any(|says| says.contains("of the sender"))
        );
    }

    #[test]
    fn rdma_is_worth_it_from_a_size_on() {
        // Small writes cost by the message, TCP by the byte.
        let by_size = |step, outcome: &mut Outcome| {
            if let (CostStep::SizeWrite, Outcome::Measured { measurement, .. }) = (step, outcome) {
                measurement.cpu = cpu(300.0, 0.0);
            }
        };
        let sizes = [CostStep::Tcp, CostStep::SizeTcp, CostStep::SizeWrite];
        let of = |change: &dyn Fn(CostStep, &mut Outcome)| {
            let ledger = run(2, &sizes, change);
            CostReport::of(&ledger).unwrap().pairs[0].crossover()
        };
        assert_eq!(of(&by_size), Crossover::Nowhere);
        assert_eq!(of(&|_, _| {}), Crossover::Everywhere);
    }
}
