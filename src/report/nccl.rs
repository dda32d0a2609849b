//! What logs of NCCL say: the verdict, what is wrong and why, then who uses which NIC.

mod json;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::{self, Write};

pub use json::json;

use super::findings::paragraph;
use super::text::Style;
use crate::judge::NcclProblem;
use crate::model::Severity;
use crate::nccl::{DEBUG, GdrState, Ground, LeftOut, MAX_LINE, Missing, NcclLog, Rank, Verdict};

/// Problems of one kind that are shown in full; the ranks of the others are listed.
const IN_FULL: usize = 3;

/// Writes the reading as text.
///
/// # Errors
/// Those of `out`.
pub fn text(
    log: &NcclLog,
    problems: &[NcclProblem],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    headline(log, style, out)?;
    for kind in kinds(problems) {
        of_kind(&kind, style, out)?;
    }
    table::table(log, out)?;
    left_out(log, style, out)
}

fn headline(log: &NcclLog, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let verdict = log.verdict();
    let code = match verdict.exit_code() {
        0 => "1;32",
        1 => "1;31",
        _ => "1;33",
    };
    let (words, because) = (words(verdict), because(verdict));
    writeln!(out, "{}: {}.", style.paint(code, words), seen(log))?;
    match because {
        Some(because) => paragraph(out, style, "", "", &because),
        None => Ok(()),
    }
}

fn words(verdict: Verdict) -> &'static str {
    match verdict.state() {
        None => "NOTHING BETWEEN NODES",
        Some(GdrState::Gdrdma) => "GPUDIRECT RDMA IS USED",
        Some(GdrState::Partial) => "GPUDIRECT RDMA IS USED IN PART",
        Some(GdrState::Off) => "GPUDIRECT RDMA IS OFF",
        Some(GdrState::Sockets) => "SOCKETS ARE USED, NOT RDMA",
        Some(GdrState::Unknown) => "CANNOT TELL",
    }
}

/// On what the verdict rests, where that is not the channels themselves.
pub(super) fn because(verdict: Verdict) -> Option<String> {
    let shows = format!("{DEBUG} shows them");
    Some(match verdict {
        Verdict::Channels(_) => return None,
        Verdict::OneNode => "Every communicator is within one node.".to_owned(),
        Verdict::Said(_, ground) => {
            let by = match ground {
                Ground::Network => "the network that NCCL chose",
                Ground::Devices => "what NCCL says of its devices",
                Ground::Pairs => "what NCCL says of GPUs and devices",
                Ground::Rings => "what NCCL says of its rings",
            };
            format!("By {by}: no channel between nodes is in the log ({shows}).")
        }
        Verdict::Unknown(Missing::Lines) => {
            format!("There is no line of NCCL or RCCL that bears on it: {shows}.")
        }
        Verdict::Unknown(Missing::Channels) => {
            format!(
                "No channel between nodes is in the log: {shows}. A job that ended before has none."
            )
        }
        Verdict::Unknown(Missing::Torn) => {
            "Every line of a channel between nodes is torn: let each rank \
                                            write a file of its own (NCCL_DEBUG_FILE=nccl.%h.%p)."
                .to_owned()
        }
    })
}

/// `16 ranks on 2 nodes, NCCL 2.22.3+cuda12.2`.
fn seen(log: &NcclLog) -> String {
    let count = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    };
    let hosts: BTreeSet<_> = log
        .processes
        .iter()
        .filter_map(|p| p.host.as_ref())
        .collect();
    // A GPU has a rank in each of its communicators.
    let gpu = |rank: &Rank| (rank.process, rank.bus.ok_or(rank.rank));
    let gpus: BTreeSet<_> = log.ranks.iter().map(gpu).collect();
    let mut seen = match gpus.len() {
        0 => "no rank is named".to_owned(),
        gpus => count(gpus, "rank"),
    };
    if !hosts.is_empty() {
        seen = format!("{seen} on {}", count(hosts.len(), "node"));
    }
    let versions: Vec<_> = log.versions.iter().map(AsRef::as_ref).collect();
    match &versions[..] {
        [] => format!("{seen}, version unknown"),
        versions => format!("{seen}, {}", versions.join(", ")),
    }
}

/// Problems with the same cause, in the order of the first of each.
fn kinds(problems: &[NcclProblem]) -> Vec<Vec<&NcclProblem>> {
    let mut kinds: Vec<Vec<&NcclProblem>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for problem in problems {
        let place = *places
            .entry((problem.severity, problem.kind.as_str()))
            .or_insert(kinds.len());
        match kinds.get_mut(place) {
            Some(kind) => kind.push(problem),
            None => kinds.push(vec![problem]),
        }
    }
    kinds
}

fn of_kind(kind: &[&NcclProblem], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let (mark, code) = match kind[0].severity {
        Severity::Fault => ("FAULT", "1;31"),
        Severity::Note => ("NOTE", "1"),
        _ => ("WARNING", "1;33"),
    };
    // One more by number would save nothing.
    let full = match kind.len() {
        n if n <= IN_FULL + 1 => n,
        _ => IN_FULL,
    };
    writeln!(out)?;
    for (at, problem) in kind[..full].iter().enumerate() {
        match at {
            0 => {
                let mark = format!("{} ", style.paint(code, mark));
                paragraph(out, style, &mark, "  ", &problem.says)?;
            }
            _ => paragraph(out, style, "  ", "    ", &problem.says)?,
        }
        for evidence in &problem.evidence {
            paragraph(out, style, "    - ", "      ", evidence)?;
        }
    }
    let others: Vec<_> = kind[full..].iter().filter_map(|p| p.rank).collect();
    if !others.is_empty() {
        let text = format!(
            "{} more like these, of ranks {}",
            kind.len() - full,
            table::ranks(others)
        );
        paragraph(out, style, "  ", "  ", &text)?;
    }
    paragraph(out, style, "  What to do: ", "    ", &kind[0].remedy)
}

fn left_out(log: &NcclLog, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let LeftOut {
        torn,
        long,
        processes,
        ranks,
        uses,
        facts,
    } = log.left_out;
    let longer = format!("lines longer than {MAX_LINE} bytes, whose rest was not read");
    let counts = [
        (torn, "torn lines of channels, which do not count"),
        (long, longer.as_str()),
        (processes, "messages of more processes than are told apart"),
        (ranks, "messages of more ranks than are kept"),
        (uses, "lines of channels of more NICs than are kept"),
        (facts, "names and reasons beyond those that are kept"),
    ];
    let mut first = true;
    for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
        if std::mem::take(&mut first) {
            writeln!(out)?;
        }
        paragraph(out, style, "Note: ", "  ", &format!("{what}: {count}."))?;
    }
    Ok(())
}
