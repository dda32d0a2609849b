//! A log of NCCL, and beside it what was surveyed of the same nodes: which ranks go without GPUDirect
//! RDMA, why, and what else the log says is wrong.

mod run;
mod survey;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

pub use run::{NcclTold, nccl_told};
pub use survey::NcclSurvey;

use crate::model::Severity;
use crate::nccl::{
    DEBUG, Direction, GdrState, Ground, NcclLog, Place, Rank, TroubleSeen, Use, Verdict, Why,
    pci_address,
};

/// Something that a log says is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct NcclProblem {
    /// How bad it is.
    pub severity: Severity,
    /// What kind it is: problems of one kind have the same cause.
    pub kind: String,
    /// The node, where the log names it.
    pub node: Option<Arc<str>>,
    /// The rank.
    pub rank: Option<u32>,
    /// The GPU's function.
    pub gpu: Option<String>,
    /// The NIC or network interface.
    pub nic: Option<String>,
    /// Which ways.
    pub directions: Vec<Direction>,
    /// How data goes.
    pub state: Option<GdrState>,
    /// The sentence.
    pub says: String,
    /// Where the log shows it.
    pub places: Vec<Place>,
    /// The same in words: file and line.
    pub evidence: Vec<String>,
    /// What to do.
    pub remedy: String,
}

const UNEXPLAINED: &str = "the log does not say why";

/// All that is wrong, the worst first. Without a survey, by the log alone.
pub fn nccl_problems(log: &NcclLog, survey: Option<&NcclSurvey<'_>>) -> Vec<NcclProblem> {
    let mut problems: Vec<_> = log.troubles.iter().map(trouble).collect();
    for rank in &log.ranks {
        problems.extend(of_rank(log, rank, survey));
    }
    problems.extend(said(log));
    // A GPU is in many communicators of a job, and goes the same way in each.
    let mut known = HashSet::new();
    problems.retain(|problem| known.insert(problem.says.clone()));
    problems.sort_by_key(|problem| match problem.severity {
        Severity::Fault => 0,
        Severity::Warning => 1,
        _ => 2,
    });
    problems
}

/// Each device through which a rank goes without GPUDirect RDMA, or from afar.
fn of_rank(log: &NcclLog, rank: &Rank, survey: Option<&NcclSurvey<'_>>) -> Vec<NcclProblem> {
    let mut by_device: BTreeMap<_, Vec<&Use>> = BTreeMap::new();
    for used in &rank.uses {
        let key = (used.sockets, used.device, used.state(), used.proxy);
        by_device.entry(key).or_default().push(used);
    }
    by_device
        .into_values()
        .filter_map(|uses| match uses[0].state() {
            GdrState::Gdrdma => far(log, rank, &uses, survey?),
            GdrState::Unknown => None,
            _ => Some(without(log, rank, &uses, survey)),
        })
        .collect()
}

/// A rank goes through a device without GPUDirect RDMA, or by sockets.
fn without(
    log: &NcclLog,
    rank: &Rank,
    uses: &[&Use],
    survey: Option<&NcclSurvey<'_>>,
) -> NcclProblem {
    let first = uses[0];
    let state = first.state();
    let why = log.why(rank, first);
    let how = match state {
        GdrState::Sockets => "by sockets, not RDMA".to_owned(),
        GdrState::Partial => {
            let staged: u64 = uses.iter().map(|used| used.staged).sum();
            let all: u64 = uses.iter().map(|used| used.staged + used.direct).sum();
            format!("without GDRDMA on {staged} of {all} channels")
        }
        _ => "without GDRDMA".to_owned(),
    };
    let reason = match &why {
        Some(why) => why.to_string(),
        None => UNEXPLAINED.to_owned(),
    };
    let known = survey.and_then(|survey| survey.beside(log, rank, first));
    let beside = known
        .as_ref()
        .map_or(String::new(), |known| format!(" {}", known.says));
    let mut problem = of_uses(log, rank, uses);
    problem.severity = Severity::Fault;
    let kind = match (&known, &why) {
        (Some(known), _) => known.kind.as_str(),
        (None, Some(Why::NoSupport(_))) => "no support",
        (None, _) => reason.as_str(),
    };
    problem.kind = format!("{state}: {kind}");
    problem.says = format!("{} {how}: {reason}.{beside}", problem.says);
    problem.remedy = match (known, why) {
        (Some(known), _) => known.remedy,
        (None, Some(why)) => why.remedy().to_owned(),
        (None, None) => format!(
            "Run with {DEBUG}, which shows why, or give --record with a run of linerate over these nodes."
        ),
    };
    problem
}

/// A rank reaches its NIC directly, but across sockets, while a nearer one is there.
fn far(log: &NcclLog, rank: &Rank, uses: &[&Use], survey: &NcclSurvey<'_>) -> Option<NcclProblem> {
    let known = survey
        .beside(log, rank, uses[0])
        .filter(|known| known.is_far)?;
    let mut problem = of_uses(log, rank, uses);
    problem.severity = Severity::Note;
    problem.kind = known.kind;
    problem.says = format!("{} with GDRDMA. {}", problem.says, known.says);
    problem.remedy = known.remedy;
    Some(problem)
}

/// What is common to a rank's problems; `says` is a sentence that is not finished.
fn of_uses(log: &NcclLog, rank: &Rank, uses: &[&Use]) -> NcclProblem {
    let process = &log.processes[rank.process];
    let first = uses[0];
    let gpu = rank.bus.map(pci_address);
    let nic = match process.device(first) {
        Some(name) => name.to_string(),
        None => format!("{} device {}", first.network, first.device),
    };
    let mut directions: Vec<_> = uses.iter().map(|used| used.direction).collect();
    directions.sort_unstable();
    directions.dedup();
    let way = match directions[..] {
        [Direction::Send] => "sends",
        [Direction::Receive] => "receives",
        _ => "sends and receives",
    };
    let at = match &process.host {
        Some(host) => format!(" on {host}"),
        None => String::new(),
    };
    let who = match &gpu {
        Some(gpu) => format!("GPU {gpu}"),
        None => "its GPU".to_owned(),
    };
    let whose = match first.proxy {
        Some(proxy) => format!(", the NIC of rank {proxy},"),
        None => String::new(),
    };
    NcclProblem {
        severity: Severity::Note,
        kind: String::new(),
        node: process.host.clone(),
        rank: Some(rank.rank),
        says: format!("rank {}{at}: {who} {way} through {nic}{whose}", rank.rank),
        gpu,
        nic: Some(nic),
        directions,
        state: Some(first.state()),
        places: uses.iter().map(|used| used.place.clone()).collect(),
        evidence: places(uses),
        remedy: String::new(),
    }
}

/// `job.log, line 3`, and of a second direction where it is elsewhere.
fn places(uses: &[&Use]) -> Vec<String> {
    match uses {
        [one, other] if one.place.file == other.place.file => vec![format!(
            "{}, lines {} and {}",
            one.place.file, one.place.line, other.place.line
        )],
        uses => uses.iter().map(|used| place(&used.place)).collect(),
    }
}

fn place(place: &Place) -> String {
    format!("{}, line {}", place.file, place.line)
}

/// A problem that is of no rank.
fn general(severity: Severity, kind: &str, says: String, remedy: String) -> NcclProblem {
    NcclProblem {
        severity,
        kind: kind.to_owned(),
        node: None,
        rank: None,
        gpu: None,
        nic: None,
        directions: Vec::new(),
        state: None,
        says,
        places: Vec::new(),
        evidence: Vec::new(),
        remedy,
    }
}

/// `/GDRDMA` is written before the first byte: what fails later is told by a warning only.
fn trouble(trouble: &TroubleSeen) -> NcclProblem {
    let at = match &trouble.host {
        Some(host) => format!(" on {host}"),
        None => String::new(),
    };
    let times = match trouble.count {
        1 => String::new(),
        count => format!(", {count} times"),
    };
    let (kind, what, remedy) = match trouble.register {
        true => (
            "registration",
            "memory could not be registered",
            "Cannot allocate memory: raise the memlock limit of the job; on GB10 look at CmaTotal in \
             /proc/meminfo. Bad address: the peer memory client does not know the GPU's memory.",
        ),
        false => (
            "completion",
            "a transfer failed",
            "Local protection errors (4) where channels have GDRDMA: look for ACS and a translating \
             IOMMU, as linerate inspect does, and try NCCL_NET_GDR_LEVEL=LOC. Errors 12 and 13: the way \
             between the NICs, or a peer that ended.",
        ),
    };
    let says = format!("{what}{at}{times}: {}.", trouble.text.trim_end_matches('.'));
    NcclProblem {
        node: trouble.host.clone(),
        places: vec![trouble.place.clone()],
        evidence: vec![place(&trouble.place)],
        ..general(Severity::Warning, kind, says, remedy.to_owned())
    }
}

/// What NCCL says where no channel between nodes is in the log.
fn said(log: &NcclLog) -> Option<NcclProblem> {
    match log.verdict() {
        Verdict::Said(_, Ground::Network) => {
            let mut processes = log.processes.iter();
            let why = processes.find_map(|process| log.why_sockets(process));
            let reason = why.as_ref().map_or(UNEXPLAINED.to_owned(), Why::to_string);
            Some(general(
                Severity::Fault,
                "sockets",
                format!("Sockets are the only network: {reason}."),
                why.map_or(format!("Run with {DEBUG}."), |why| why.remedy().to_owned()),
            ))
        }
        Verdict::Said(_, Ground::Devices) => Some(devices_off(log, Severity::Fault)),
        Verdict::OneNode if log.processes.iter().any(|p| p.hcas.iter().any(|h| !h.enabled)) => {
            Some(devices_off(log, Severity::Note))
        }
        Verdict::Said(_, Ground::Pairs) => Some(pairs_off(log)),
        Verdict::Said(_, Ground::Rings) => Some(general(
            Severity::Fault,
            "rings",
            "The rings were connected with GDR 0: some connection between nodes goes without GDRDMA.".into(),
            format!("Run with {DEBUG}, which shows which and why."),
        )),
        _ => None,
    }
}

/// NCCL says of devices that they cannot.
fn devices_off(log: &NcclLog, severity: Severity) -> NcclProblem {
    let hcas = log.processes.iter().flat_map(|process| &process.hcas);
    let mut names: Vec<_> = hcas
        .filter(|hca| !hca.enabled)
        .filter_map(|hca| hca.name.as_deref())
        .collect();
    names.sort_unstable();
    names.dedup();
    let why = Why::NoSupport("them".into());
    general(
        severity,
        "devices",
        format!(
            "NCCL says that GPUDirect RDMA is disabled for {}: it found neither peer memory nor dma-buf.",
            listed(&names)
        ),
        why.remedy().to_owned(),
    )
}

/// NCCL says of pairs of GPU and device that they are too far.
fn pairs_off(log: &NcclLog) -> NcclProblem {
    let mut pairs = log.processes.iter().flat_map(|process| &process.pairs);
    let example = pairs.next();
    let says = example.map_or(String::new(), |pair| {
        format!(
            "NCCL says that GPUDirect RDMA is disabled for GPU {} with HCA {}: distance {}, more than {} \
             that the level allows.",
            pair.gpu, pair.device, pair.distance, pair.limit
        )
    });
    let remedy = match log.level() {
        Some(level) => level.remedy(),
        None => "Unset NCCL_NET_GDR_LEVEL, or let each GPU use a NIC below its own PCIe switch.",
    };
    general(Severity::Fault, "pairs", says, remedy.to_owned())
}

/// The first few.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 8;
    match names.len() {
        0 => "its devices".to_owned(),
        n if n > SHOWN => format!("{} and {} more", names[..SHOWN].join(", "), n - SHOWN),
        _ => names.join(", "),
    }
}
