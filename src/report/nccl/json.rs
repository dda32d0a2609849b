//! The same for programs: fields are added, not changed, within one `schema`.

use std::io::{self, Write};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::because;
use crate::judge::NcclProblem;
use crate::nccl::{Direction, NcclLog, Rank, Use, pci_address};
use crate::report::REPORT_SCHEMA;
use crate::report::quiet;

/// Writes the reading as one JSON document.
///
/// # Errors
/// Those of `out`.
pub fn json(log: &NcclLog, problems: &[NcclProblem], out: &mut dyn Write) -> io::Result<()> {
    let verdict = log.verdict();
    let settings = log.settings.iter();
    let document = Document {
        schema: REPORT_SCHEMA,
        linerate: env!("CARGO_PKG_VERSION"),
        verdict: verdict.state().map_or("one_node", |state| state.name()),
        exit_code: verdict.exit_code(),
        because: because(verdict),
        versions: log.versions.iter().map(AsRef::as_ref).collect(),
        settings: settings
            .map(|(name, value)| json!({"name": &**name, "value": &**value}))
            .collect(),
        problems: problems.iter().map(problem).collect(),
        ranks: Ranks(log),
        bytes: log.extent.bytes,
        lines: log.extent.lines,
        left_out: left_out(log),
    };
    quiet::pretty(out, &document)
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    linerate: &'static str,
    verdict: &'static str,
    exit_code: u8,
    because: Option<String>,
    versions: Vec<&'a str>,
    settings: Vec<Value>,
    problems: Vec<Value>,
    ranks: Ranks<'a>,
    bytes: u64,
    lines: u64,
    left_out: Value,
}

/// Written one by one: all values of thousands of ranks would fill the memory.
struct Ranks<'a>(&'a NcclLog);

impl Serialize for Ranks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ranks = self.0.ranks.iter();
        serializer.collect_seq(ranks.map(|one| rank(self.0, one)))
    }
}

fn rank(log: &NcclLog, rank: &Rank) -> Value {
    let process = &log.processes[rank.process];
    // Some versions print theirs once, and nobody's name with it.
    let only = (log.versions.len() == 1).then(|| &log.versions[0]);
    let version = process.version.and_then(|at| log.versions.get(at)).or(only);
    json!({
        "rank": rank.rank,
        "ranks": rank.ranks,
        "node": process.host.as_deref(),
        "pid": process.host.is_some().then_some(process.pid),
        "communicator": rank.id.map(|id| format!("{id:#x}")),
        "version": version.map(|version| &**version),
        "gpu": {
            "cuda": rank.cuda,
            "nvml": rank.nvml,
            "pci": rank.bus.map(pci_address),
        },
        "sends": rank.state(Direction::Send).name(),
        "receives": rank.state(Direction::Receive).name(),
        "channels": rank.uses.iter().map(|one| used(log, rank, one)).collect::<Vec<_>>(),
        "channels_within_node": rank.local,
    })
}

fn used(log: &NcclLog, rank: &Rank, used: &Use) -> Value {
    let process = &log.processes[rank.process];
    json!({
        "direction": direction(used.direction),
        "network": &*used.network,
        "in_network": used.collective,
        "device": used.device,
        "nic": process.device(used).map(|name| &**name),
        "nic_of_rank": used.proxy,
        "state": used.state().name(),
        "gdrdma": used.direct,
        "gdrdma_pci": used.pci,
        "staged": used.staged,
        "why": log.why(rank, used).map(|why| why.to_string()),
        "file": &*used.place.file,
        "line": used.place.line,
    })
}

fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Send => "send",
        Direction::Receive => "receive",
    }
}

fn problem(problem: &NcclProblem) -> Value {
    let directions = problem.directions.iter();
    json!({
        "severity": problem.severity,
        "says": problem.says,
        "node": problem.node.as_deref(),
        "rank": problem.rank,
        "gpu": problem.gpu,
        "nic": problem.nic,
        "directions": directions.map(|way| direction(*way)).collect::<Vec<_>>(),
        "state": problem.state.map(|state| state.name()),
        "evidence": problem.evidence,
        "remedy": problem.remedy,
    })
}

fn left_out(log: &NcclLog) -> Value {
    let left_out = log.left_out;
    json!({
        "torn": left_out.torn,
        "long_lines": left_out.long,
        "processes": left_out.processes,
        "ranks": left_out.ranks,
        "channels": left_out.uses,
        "facts": left_out.facts,
    })
}
