//! What moving data costs, the memory of GPUs, the probes that took faults apart, and the settings of
//! the run.

use askama::Template;

use crate::judge::{CostReport, EndCost, Observation, PairCost, StepCost, observe};
use crate::ledger::Ledger;
use crate::model::{
    Completion, CostStep, Expect, Gbps, MemoryKind, Pattern, ProbeKind, ProbeSpec, Purpose,
    RailRule, RunSettings, SweepSettings,
};
use crate::report::gpu_memory::{GpuLine, gpu_lines};

/// Pairs of NICs whose cost is shown; of more those that are worst.
const MOST_PAIRS: usize = 12;

/// Isolating probes that are shown.
const MOST_PROBES: usize = 400;

/// The section of what moving data costs.
#[derive(Template)]
#[template(path = "cost.html")]
pub(super) struct Cost<'a> {
    pairs: Vec<PairCost<'a>>,
    more: usize,
    gaps: Vec<String>,
}

impl<'a> Cost<'a> {
    /// Of a run that measured it.
    pub(super) fn of(ledger: &'a Ledger) -> Option<Self> {
        let report = CostReport::of(ledger)?;
        let mut pairs = report.pairs;
        let more = pairs.len().saturating_sub(MOST_PAIRS);
        if more > 0 {
            pairs.sort_by(|a, b| badness(b).total_cmp(&badness(a)));
            pairs.truncate(MOST_PAIRS);
        }
        let gap = |gap: &crate::judge::CostGap| {
            let s = if gap.count == 1 { "" } else { "s" };
            format!("{} {}{s}: {}", gap.count, gap.of, gap.why)
        };
        Some(Self {
            pairs,
            more,
            gaps: report.gaps.iter().map(gap).collect(),
        })
    }
}

/// What an RDMA write takes of CPU time; a pair of which that is unknown is the worst.
fn badness(pair: &PairCost<'_>) -> f64 {
    let write = pair.step(CostStep::Write);
    let end = write.and_then(|write| write.ends[0].as_ref());
    end.map_or(f64::MAX, EndCost::ns_per_kib)
}

/// The line rate of a pair, in words.
fn line(pair: &PairCost<'_>) -> String {
    match pair.line.value() {
        Some(rate) => format!("line rate {rate}"),
        None => "line rate unknown".to_owned(),
    }
}

/// The columns of a way of moving data: of each number that of the initiator, then that of the target.
fn cells(pair: &PairCost<'_>, cost: &StepCost<'_>) -> Vec<Option<String>> {
    let [from, to] = [0, 1].map(|at| spent(pair, cost, at));
    let ends = |column: usize| [&from, &to].map(|end| Some(end.as_ref()?[column].clone()));
    (0..4).flat_map(ends).collect()
}

/// What an end spent: CPU time, what a core carries, cores for 100 Gb/s and for the line.
fn spent(pair: &PairCost<'_>, cost: &StepCost<'_>, at: usize) -> Option<[String; 4]> {
    let end = cost.ends[at].as_ref()?;
    let mark = match (cost.polls && at == 0, end.is_whole()) {
        _ if pair.is_software && !cost.is_tcp() => "software ",
        (true, _) => "≤ ",
        (false, false) => "≥ ",
        _ => "",
    };
    let or_none = |number: Option<f64>| number.map_or("–".to_owned(), three_digits);
    let line = pair.line.value().copied();
    Some([
        format!("{mark}{}", three_digits(end.ns_per_kib())),
        or_none(end.per_core().map(|rate| rate.0)),
        or_none(end.cores_for(Gbps(100.0))),
        or_none(line.and_then(|line| end.cores_for(line))),
    ])
}

fn three_digits(number: f64) -> String {
    match number.abs() {
        n if n >= 99.95 => format!("{number:.0}"),
        n if n >= 9.995 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// The section of what came of the memory of GPUs.
#[derive(Template)]
#[template(path = "gpu.html")]
pub(super) struct Gpus {
    lines: Vec<GpuLine>,
    more: usize,
}

impl Gpus {
    /// Of a run that was to probe it.
    pub(super) fn of(ledger: &Ledger) -> Option<Self> {
        let (lines, more) = gpu_lines(ledger);
        (!lines.is_empty()).then_some(Self { lines, more })
    }
}

/// The section of the probes that took faults apart.
#[derive(Template)]
#[template(path = "isolation.html")]
pub(super) struct Isolation {
    probes: Vec<Isolated>,
    more: usize,
}

struct Isolated {
    purpose: &'static str,
    from: String,
    to: String,
    rail: String,
    rate: Gbps,
    expected: Option<Gbps>,
    ratio: String,
}

impl Isolation {
    /// Of a run.
    pub(super) fn of(ledger: &Ledger) -> Self {
        let observed = observe(ledger);
        let all = &observed.isolating;
        let probe = |seen: &Observation<'_>| Isolated {
            purpose: purpose(seen.purpose),
            from: seen.pair.from.to_string(),
            to: seen.pair.to.to_string(),
            rail: seen.rail.to_string(),
            rate: seen.rate,
            expected: seen.expected.value().copied(),
            ratio: format!("{:.2}", seen.ratio),
        };
        Self {
            probes: all.iter().take(MOST_PROBES).map(probe).collect(),
            more: all.len().saturating_sub(MOST_PROBES),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.probes.len() + self.more
    }
}

fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Alone => "the other rails idle",
        Purpose::HostMemory => "from and to host memory",
        Purpose::OneWay => "one direction at a time",
        Purpose::Wide => "more queue pairs, larger messages",
        Purpose::Siblings => "with those on its PCIe switch",
        Purpose::Cabling => "to another rail",
        _ => "under the conditions of the run",
    }
}

/// The section of the settings.
#[derive(Template)]
#[template(path = "settings.html")]
pub(super) struct Settings {
    rows: Vec<(&'static str, String)>,
}

impl Settings {
    /// Of a run.
    pub(super) fn of(ledger: &Ledger) -> Self {
        Self {
            rows: ledger.settings().map(rows).unwrap_or_default(),
        }
    }
}

fn rows(settings: &RunSettings) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("Nodes asked for", settings.nodes.len().to_string()),
        ("Rails", rail_rule(&settings.rails)),
        ("Seed of the schedule", settings.seed.to_string()),
        (
            "NICs in use by others",
            match settings.force {
                true => "probed all the same",
                false => "left out",
            }
            .to_owned(),
        ),
    ];
    rows.extend(of_sweep(&settings.sweep));
    rows.extend(of_probe(&settings.probe));
    rows.extend(of_expect(&settings.expect));
    rows
}

/// How the run went through its pairs.
fn of_sweep(sweep: &SweepSettings) -> Vec<(&'static str, String)> {
    let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let mut rows = vec![
        ("Pairs", pattern(&sweep.pattern)),
        ("Both directions at once", yes_no(sweep.both_ways)),
        ("All rails at once", yes_no(sweep.rails_together)),
        ("Between leaf groups", yes_no(sweep.fabric)),
    ];
    if !sweep.groups.is_empty() {
        rows.push(("Leaf groups", sweep.groups.len().to_string()));
    }
    if !sweep.only_rails.is_empty() {
        let rails = sweep.only_rails.iter().map(|rail| rail.0.to_string());
        rows.push(("Only these rails", rails.collect::<Vec<_>>().join(", ")));
    }
    if sweep.max_load < 1.0 {
        let load = format!("{:.2} of all, at most", sweep.max_load);
        rows.push(("Nodes loaded at a time", load));
    }
    if let Some(seconds) = sweep.time_budget_s {
        rows.push(("Time budget", format!("{seconds} s")));
    }
    rows
}

/// What each probe did.
fn of_probe(probe: &ProbeSpec) -> Vec<(&'static str, String)> {
    let in_flight = format!(
        "{} on each of {}",
        probe.depth,
        queue_pairs(probe.queue_pairs)
    );
    vec![
        ("Probe", kind(probe.kind).to_owned()),
        ("Message size", probe.message_size.to_string()),
        ("In flight", in_flight),
        ("Duration", format!("{} ms", probe.duration_ms)),
        ("Completions", completion(probe.completion).to_owned()),
        ("Memory", memory(probe.memory).to_owned()),
    ]
}

/// What NICs were held against.
fn of_expect(expect: &Expect) -> Vec<(&'static str, String)> {
    let line = match expect.line_rate {
        Some(rate) => format!("{rate}, as the configuration states"),
        None => "as each port says".to_owned(),
    };
    let below = |share: f64| format!("{share:.2} of expected");
    vec![
        ("Line rate", line),
        ("Degraded below", below(expect.degraded_below)),
        ("Half bandwidth below", below(expect.half_below)),
    ]
}

fn queue_pairs(count: u32) -> String {
    match count {
        1 => "1 queue pair".to_owned(),
        count => format!("{count} queue pairs"),
    }
}

fn rail_rule(rule: &RailRule) -> String {
    match rule {
        RailRule::Device { names } => format!("by device: {}", names.join(", ")),
        RailRule::Netdev { names } => format!("by network interface: {}", names.join(", ")),
        RailRule::Pci => "active ports in the order of their PCI addresses".to_owned(),
        RailRule::Subnet { subnets } => format!("by subnet: {}", subnets.join(", ")),
    }
}

fn pattern(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Adaptive => "adaptive: a few matchings, then what is in doubt".to_owned(),
        Pattern::Quick => "quick: one matching, then what is in doubt".to_owned(),
        Pattern::Full => "every ordered pair of nodes".to_owned(),
        Pattern::Ring => "each node with the next".to_owned(),
        Pattern::One { node } => format!("{node} with all others"),
        Pattern::Pairs { pairs } => format!("{} pairs of nodes", pairs.len()),
        Pattern::Nothing => "none: only what moving data costs".to_owned(),
    }
}

fn kind(kind: ProbeKind) -> &'static str {
    match kind {
        ProbeKind::RdmaWrite => "RDMA write",
        ProbeKind::RdmaWriteImm => "RDMA write with immediate",
        ProbeKind::RdmaRead => "RDMA read",
        ProbeKind::RdmaSend => "RDMA send",
        ProbeKind::RdmaWriteCopied => "RDMA write of copied data",
        ProbeKind::Tcp => "TCP",
        ProbeKind::TcpZeroCopy => "TCP with MSG_ZEROCOPY",
    }
}

fn completion(completion: Completion) -> &'static str {
    match completion {
        Completion::Poll => "polled for",
        Completion::Event => "waited for",
    }
}

fn memory(memory: MemoryKind) -> &'static str {
    match memory {
        MemoryKind::Host => "host memory",
        MemoryKind::HostHuge => "host memory in huge pages",
        _ => "GPU memory",
    }
}
