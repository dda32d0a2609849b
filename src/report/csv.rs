//! Tables for spreadsheets and data frames: a row for each pair, or for each NIC of each node. What is not
//! known is an empty field, with the reason in the column `why`.

use std::collections::HashMap;
use std::io::{self, Write};

use csv::{Writer, WriterBuilder};
use serde::Serialize;

use super::Run;
use super::ends::{End, Ends, Is, why_not_reached};
use super::gpu_memory::{GpuFields, gpu_fields};
use super::json::state;
use crate::judge::expected;
use crate::ledger::{Ledger, PairState, PairSummary, Probe, Skipped};
use crate::model::{Fact, Gbps, MemoryWay, NicId, Outcome, RefusedWay, visible};

/// A row of [`csv_pairs`]; its fields are the columns.
#[derive(Debug, Default, Serialize)]
struct PairRow {
    simulated: &'static str,
    stand_in_gpu: &'static str,
    rail: u16,
    from_node: String,
    from_device: String,
    from_port: Option<u8>,
    to_node: String,
    to_device: String,
    to_port: Option<u8>,
    state: &'static str,
    gbps: Option<f64>,
    expected_gbps: Option<f64>,
    share_of_expected: Option<f64>,
    probes: usize,
    mtu_bytes: Option<u32>,
    measured_bytes: Option<u64>,
    measured_us: Option<u64>,
    bytes_checked: Option<u64>,
    bytes_wrong: Option<u64>,
    expected_from: String,
    why: String,
}

/// A row of [`csv_nodes`]; its fields are the columns.
#[derive(Debug, Default, Serialize)]
struct NodeRow {
    simulated: &'static str,
    stand_in_gpu: &'static str,
    node: String,
    node_state: &'static str,
    rail: Option<u16>,
    device: String,
    port: Option<u8>,
    tx_gbps: Option<f64>,
    tx_expected_gbps: Option<f64>,
    tx_share_of_expected: Option<f64>,
    tx_is: &'static str,
    rx_gbps: Option<f64>,
    rx_expected_gbps: Option<f64>,
    rx_share_of_expected: Option<f64>,
    rx_is: &'static str,
    gpu: String,
    gpu_name: String,
    gpu_memory: &'static str,
    gpu_memory_why: String,
    gpu_memory_way: Option<MemoryWay>,
    gpu_memory_refused: String,
    copy_to_gpu_gbps: Option<f64>,
    copy_from_gpu_gbps: Option<f64>,
    why: String,
}

/// Writes a row for each ordered pair of NICs that the run was to measure, by rail, sender and receiver;
/// those that never came into its plan follow. Rates are in Gb/s, 10^9 bits per second.
///
/// # Errors
/// Whatever `out` reports.
pub fn csv_pairs(run: &Run<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = table::<PairRow>(out)?;
    let of_run = |row| PairRow {
        simulated: simulated(run.ledger),
        stand_in_gpu: stand_in_gpu(run.ledger),
        ..row
    };
    for summary in run.ledger.pairs() {
        rows.serialize(of_run(pair(run.ledger, &summary)))?;
    }
    for skipped in run.ledger.unplanned_pairs() {
        rows.serialize(of_run(unplanned(&skipped)))?;
    }
    rows.flush()
}

fn pair(ledger: &Ledger, summary: &PairSummary<'_>) -> PairRow {
    let pair = summary.pair;
    let row = PairRow {
        rail: pair.rail.0,
        from_node: text(&pair.from.node.0),
        from_device: text(&pair.from.device),
        from_port: Some(pair.from.port),
        to_node: text(&pair.to.node.0),
        to_device: text(&pair.to.device),
        to_port: Some(pair.to.port),
        probes: summary.attempts.len(),
        ..PairRow::default()
    };
    match summary.state() {
        PairState::Measured { probe, rate } => measured(ledger, row, probe, rate),
        PairState::Failed { stage, node, why } => {
            let at = node.map(|node| format!("{node}: ")).unwrap_or_default();
            PairRow {
                state: "failed",
                why: text(&format!("{at}{stage}: {why}")),
                ..row
            }
        }
        PairState::NotRun { why } => PairRow {
            state: "not_run",
            why: text(why),
            ..row
        },
    }
}

fn measured(ledger: &Ledger, row: PairRow, probe: &Probe, rate: Gbps) -> PairRow {
    let expected = expected(ledger, probe);
    let ceiling = expected.value().copied();
    let row = PairRow {
        state: "measured",
        gbps: Some(rate.0),
        expected_gbps: ceiling.map(|rate| rate.0),
        share_of_expected: ceiling.and_then(|ceiling| rate.share_of(ceiling)),
        expected_from: text(expected.source().unwrap_or_default()),
        ..row
    };
    let Some(Outcome::Measured {
        measurement,
        verified,
    }) = &probe.outcome
    else {
        return row;
    };
    PairRow {
        mtu_bytes: Some(measurement.mtu),
        measured_bytes: Some(measurement.bytes),
        measured_us: Some(measurement.elapsed_us),
        bytes_checked: verified.value().map(|verified| verified.bytes_checked),
        bytes_wrong: verified.value().map(|verified| verified.bytes_wrong),
        why: text(&unknown(&expected, verified)),
        ..row
    }
}

/// Why columns of a pair that was measured are empty.
fn unknown<T, U>(expected: &Fact<T>, verified: &Fact<U>) -> String {
    let because = |what: &str, why: Option<&str>| why.map(|why| format!("{what}: {why}"));
    let expected = because("expected rate unknown", expected.why_unknown());
    let verified = because("bytes not checked", verified.why_unknown());
    let all: Vec<String> = expected.into_iter().chain(verified).collect();
    all.join("; ")
}

fn unplanned(skipped: &Skipped) -> PairRow {
    PairRow {
        rail: skipped.rail.0,
        from_node: text(&skipped.from.0),
        to_node: text(&skipped.to.0),
        state: "not_run",
        why: text(&skipped.why),
        ..PairRow::default()
    }
}

/// Writes a row for each node and rail, by node and rail; a node of which no NIC is known has one row.
/// Rates are in Gb/s, 10^9 bits per second: the best that was measured in each direction.
///
/// # Errors
/// Whatever `out` reports.
pub fn csv_nodes(run: &Run<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = table::<NodeRow>(out)?;
    let ends = Ends::of(run).all;
    let gpus: HashMap<&NicId, GpuFields<'_>> = gpu_fields(run.ledger).collect();
    // Both directions of a NIC follow each other.
    let mut slots = ends.chunks(2).peekable();
    for (name, node) in run.ledger.nodes() {
        let row = || NodeRow {
            simulated: simulated(run.ledger),
            stand_in_gpu: stand_in_gpu(run.ledger),
            node: text(&name.0),
            node_state: state(&node.state),
            ..NodeRow::default()
        };
        let mut any = false;
        while let Some(ways) = slots.next_if(|ways| ways[0].node == name) {
            any = true;
            let gpu = ways[0].nic.and_then(|nic| gpus.get(nic));
            rows.serialize(with_gpu(slot(row(), ways), gpu))?;
        }
        if !any {
            let why = why_not_reached(&node.state);
            let why = text(why.unwrap_or("none of its NICs was to be measured"));
            rows.serialize(NodeRow { why, ..row() })?;
        }
    }
    rows.flush()
}

fn slot(row: NodeRow, ways: &[End<'_>]) -> NodeRow {
    let [tx, rx] = ways else { return row };
    let word = |end: &End<'_>| match end.is {
        Is::AtLineRate => "at_line_rate",
        Is::Low(_) => "fault",
        Is::NotJudged(..) => "not_judged",
    };
    NodeRow {
        rail: Some(tx.rail.0),
        device: tx.nic.map_or_else(String::new, |nic| text(&nic.device)),
        port: tx.nic.map(|nic| nic.port),
        tx_gbps: tx.rate.map(|rate| rate.0),
        tx_expected_gbps: tx.expected().map(|rate| rate.0),
        tx_share_of_expected: tx.share(),
        tx_is: word(tx),
        rx_gbps: rx.rate.map(|rate| rate.0),
        rx_expected_gbps: rx.expected().map(|rate| rate.0),
        rx_share_of_expected: rx.share(),
        rx_is: word(rx),
        why: text(&why(tx, rx)),
        ..row
    }
}

/// The same with what came of the memory of its GPU, where that was to be probed.
fn with_gpu(row: NodeRow, gpu: Option<&GpuFields<'_>>) -> NodeRow {
    let Some(gpu) = gpu else { return row };
    let refused = |refused: &RefusedWay| format!("{}: {}", refused.way, refused.why);
    let refused: Vec<String> = gpu.tried.iter().map(refused).collect();
    let copies = gpu.copies.value();
    NodeRow {
        gpu: gpu
            .gpu
            .as_ref()
            .map_or_else(String::new, |gpu| text(&gpu.0)),
        gpu_name: text(gpu.gpu_name.as_deref().unwrap_or_default()),
        gpu_memory: gpu.verdict,
        gpu_memory_why: text(gpu.why.as_deref().unwrap_or_default()),
        gpu_memory_way: gpu.way,
        gpu_memory_refused: text(&refused.join("; ")),
        copy_to_gpu_gbps: copies.map(|copies| copies.to_gpu.0),
        copy_from_gpu_gbps: copies.map(|copies| copies.from_gpu.0),
        ..row
    }
}

/// Why a NIC is not at line rate, or cannot be judged; once where both directions say the same.
fn why(tx: &End<'_>, rx: &End<'_>) -> String {
    match (tx.is.why(), rx.is.why()) {
        (None, None) => String::new(),
        (Some(tx), None) => format!("tx: {tx}"),
        (None, Some(rx)) => format!("rx: {rx}"),
        (Some(tx), Some(rx)) if tx == rx => tx.to_owned(),
        (Some(tx), Some(rx)) => format!("tx: {tx}; rx: {rx}"),
    }
}

/// A table that has its header, also where no row follows.
fn table<R: Serialize + Default>(out: &mut dyn Write) -> io::Result<Writer<&mut dyn Write>> {
    let mut header = Writer::from_writer(Vec::new());
    header.serialize(R::default())?;
    let header = header.into_inner().map_err(|error| error.into_error())?;
    let end = header.iter().position(|byte| *byte == b'\n');
    out.write_all(&header[..end.map_or(header.len(), |end| end + 1)])?;
    Ok(WriterBuilder::new().has_headers(false).from_writer(out))
}

fn simulated(ledger: &Ledger) -> &'static str {
    yes_no(ledger.settings().is_some_and(|s| s.simulated))
}

fn stand_in_gpu(ledger: &Ledger) -> &'static str {
    yes_no(ledger.has_stand_in())
}

fn yes_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// A stranger's text for a spreadsheet: without what steers a terminal, and with an apostrophe before what
/// would be a formula.
fn text(text: &str) -> String {
    let seen = visible(text);
    match seen.trim_start().chars().next() {
        Some('=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠') => format!("'{seen}"),
        _ => seen,
    }
}
