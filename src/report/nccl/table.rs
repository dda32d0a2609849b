//! Who uses which NIC, ranks that do the same in one row.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use crate::nccl::{Direction, GdrState, NcclLog, Rank};

/// Rows that are shown; a cluster whose nodes are alike has as many as a node has NICs.
const ROWS: usize = 64;

/// Ranges of ranks that a row lists.
const RANGES: usize = 4;

/// What ranks have in common: NIC, network, how they send, how they receive.
type Key = (String, String, GdrState, GdrState);

/// The ranks of a row, their nodes, and how many channels have GPUDirect RDMA of how many.
#[derive(Default)]
struct Row<'a> {
    ranks: Vec<u32>,
    nodes: BTreeSet<&'a str>,
    direct: u64,
    all: u64,
}

const HEAD: [&str; 7] = [
    "NIC", "network", "sends", "receives", "GDRDMA", "nodes", "ranks",
];

/// Writes the table; nothing where no rank uses a network.
pub(super) fn table(log: &NcclLog, out: &mut dyn Write) -> io::Result<()> {
    let rows = rows(log);
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(rows.iter().take(ROWS).map(|(key, row)| cells(key, row)));
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    for line in &lines {
        let mut text = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            text.push_str(&format!("{cell:<width$}  "));
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    match rows.len().saturating_sub(ROWS) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more rows (all in --format json)"),
    }
}

fn cells((nic, network, send, receive): &Key, row: &Row<'_>) -> [String; 7] {
    let state = |state: &GdrState| match state {
        GdrState::Unknown => "-".to_owned(),
        state => state.to_string(),
    };
    let nodes = match row.nodes.len() {
        0 => "?".to_owned(),
        1 => row.nodes.iter().copied().collect(),
        many => many.to_string(),
    };
    [
        nic.clone(),
        network.clone(),
        state(send),
        state(receive),
        format!("{}/{}", row.direct, row.all),
        nodes,
        ranks(row.ranks.clone()),
    ]
}

fn rows(log: &NcclLog) -> BTreeMap<Key, Row<'_>> {
    let mut rows: BTreeMap<Key, Row<'_>> = BTreeMap::new();
    for rank in &log.ranks {
        let host = log.processes[rank.process].host.as_deref();
        for ((nic, network), (send, receive, direct, all)) in of_rank(log, rank) {
            let row = rows.entry((nic, network, send, receive)).or_default();
            row.ranks.push(rank.rank);
            row.nodes.extend(host);
            row.direct += direct;
            row.all += all;
        }
    }
    rows
}

type OfNic = (GdrState, GdrState, u64, u64);

/// What a rank does through each NIC.
fn of_rank(log: &NcclLog, rank: &Rank) -> BTreeMap<(String, String), OfNic> {
    let mut nics: BTreeMap<(String, String), OfNic> = BTreeMap::new();
    let process = &log.processes[rank.process];
    for used in &rank.uses {
        let nic = match process.device(used) {
            Some(name) => name.to_string(),
            None => format!("device {}", used.device),
        };
        let network = match used.collective {
            true => format!("{} (in-network)", used.network),
            false => used.network.to_string(),
        };
        let unknown = (GdrState::Unknown, GdrState::Unknown, 0, 0);
        let of_nic = nics.entry((nic, network)).or_insert(unknown);
        match used.direction {
            Direction::Send => of_nic.0 = of_nic.0.and(used.state()),
            Direction::Receive => of_nic.1 = of_nic.1.and(used.state()),
        }
        of_nic.2 += used.direct;
        of_nic.3 += used.direct + used.staged;
    }
    nics
}

/// `0-7, 16`.
pub(super) fn ranks(mut ranks: Vec<u32>) -> String {
    ranks.sort_unstable();
    ranks.dedup();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let shown = ranges
        .iter()
        .take(RANGES)
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
    let shown: Vec<_> = shown.collect();
    let others = ranges.iter().skip(RANGES);
    let more: u64 = others
        .map(|(first, last)| u64::from(last - first) + 1)
        .sum();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
