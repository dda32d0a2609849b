//! nccl-tests of a run: whether NCCL used GPUDirect RDMA, and how fast it was. Problems are findings.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::findings::paragraph;
use super::text::Style;
use crate::config::hostlist;
use crate::judge::{NcclTold, nccl_told};
use crate::ledger::Ledger;
use crate::model::{Bytes, NcclTestExit, NodeName};
use crate::nccl::GdrState;

/// Lines: what each node has of its own would fill pages.
const MOST_LINES: usize = 16;

/// Writes what they told, nodes that are alike together; nothing where none were asked for.
pub(super) fn nccl_tests_text(
    ledger: &Ledger,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let told = nccl_told(ledger);
    let mut alike: BTreeMap<String, Vec<&NcclTold<'_>>> = BTreeMap::new();
    for told in told.iter().filter(|told| !told.test.command.is_empty()) {
        alike.entry(said(told)).or_default().push(told);
    }
    if alike.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNCCL, by nccl-tests (GB/s are 10^9 bytes a second):")?;
    for (said, told) in alike.iter().take(MOST_LINES) {
        let text = format!("{}: {said}{}", on(told), speed(told));
        paragraph(out, style, "  - ", "    ", &text)?;
    }
    match alike.len().saturating_sub(MOST_LINES) {
        0 => Ok(()),
        more => writeln!(out, "  - and {more} more (all in --format json)"),
    }
}

/// `node[01-04]`, or how they were launched.
fn on(told: &[&NcclTold<'_>]) -> String {
    let nodes = told.iter().flat_map(|told| &told.test.nodes);
    let names: Vec<&str> = nodes.map(|node: &NodeName| node.0.as_str()).collect();
    let folded = hostlist::fold(&names);
    match told {
        [one] if one.on.is_none() => format!("{folded}, by {}", one.program()),
        [_] => format!("{folded} by itself"),
        _ => format!("{folded}, each by itself"),
    }
}

fn said(told: &NcclTold<'_>) -> String {
    let state = match told.log.verdict().state() {
        None => "nothing went through NICs",
        Some(GdrState::Gdrdma) => "GPUDirect RDMA is used",
        Some(GdrState::Partial) => "GPUDirect RDMA is used in part",
        Some(GdrState::Off) => "GPUDirect RDMA is off",
        Some(GdrState::Sockets) => "sockets are used, not RDMA",
        Some(GdrState::Unknown) => "cannot tell whether GPUDirect RDMA is used",
    };
    let ranks = match told.log.ranks.len() {
        0 => String::new(),
        1 => " by 1 rank".to_owned(),
        ranks => format!(" by {ranks} ranks"),
    };
    let well = NcclTestExit::Exited { code: 0 };
    match &told.test.end {
        Some(end) if end.how == well => format!("{state}{ranks}"),
        Some(_) => format!("{state}{ranks}, and it failed"),
        None => format!("{state}{ranks} so far"),
    }
}

/// The slowest of them.
fn speed(told: &[&NcclTold<'_>]) -> String {
    let with_mean = told
        .iter()
        .filter_map(|told| Some((told.results.mean_bus_gb_per_s?, told)));
    let Some((mean, slowest)) = with_mean.min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return String::new();
    };
    let at_least = if told.len() > 1 { "at least " } else { "" };
    let largest = match slowest.results.largest {
        Some(row) => format!(
            ", {:.2} GB/s at {} ({:.2} GB/s of the algorithm)",
            row.bus_gb_per_s,
            Bytes(row.bytes),
            row.algorithm_gb_per_s
        ),
        None => String::new(),
    };
    format!("; bus bandwidth {at_least}{mean:.2} GB/s in the mean{largest}")
}

/// The same as values.
pub(super) fn nccl_tests_json(ledger: &Ledger) -> Vec<Value> {
    nccl_told(ledger).iter().map(value).collect()
}

fn value(told: &NcclTold<'_>) -> Value {
    let end = told.test.end.as_ref();
    let (code, why) = match end.map(|end| &end.how) {
        Some(NcclTestExit::Exited { code }) => (Some(*code), None),
        Some(NcclTestExit::Failed { why }) => (None, Some(why.as_str())),
        None => (None, Some("they have not ended")),
    };
    let verdict = told
        .log
        .verdict()
        .state()
        .map_or("one_node", GdrState::name);
    let largest = told.results.largest.map(|row| {
        json!({
            "bytes": row.bytes,
            "time_us": row.time_us,
            "algorithm_gb_per_s": row.algorithm_gb_per_s,
            "bus_gb_per_s": row.bus_gb_per_s,
        })
    });
    json!({
        "on": told.on,
        "nodes": told.test.nodes,
        "command": told.test.command,
        "exit_code": code,
        "failed": why,
        "last": end.map_or(&[][..], |end| end.last.as_slice()),
        "lines_left_out": end.map_or(0, |end| end.left_out),
        "verdict": verdict,
        "ranks": told.log.ranks.len(),
        "versions": told.log.versions.iter().map(AsRef::as_ref).collect::<Vec<&str>>(),
        "mean_bus_gb_per_s": told.results.mean_bus_gb_per_s,
        "largest": largest,
        "wrong_values": told.results.wrong,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::ledger::testing::{events, ledger};
    use crate::model::{Event, NcclTestEnd};

    const WROTE: &str = "\
n1:5:6 [0] NCCL INFO NCCL version 2.22.3+cuda12.6
n1:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA
n1:5:7 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [receive] via NET/IB/0/GDRDMA
   134217728      33554432     float     sum      -1   2601.0   51.60   96.75      0   2590.2   51.82   97.16      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 85.0807
";

    fn run() -> Ledger {
        let mut events = events(3, 1, &|_, _, _| Some(391.0));
        let end = events.pop();
        for (node, mean) in [("node01", "85.0807"), ("node02", "84.5")] {
            let on: Option<NodeName> = Some(node.into());
            events.push(Event::NcclTestStarted {
                on: on.clone(),
                nodes: vec![node.into()],
                command: vec!["all_reduce_perf".into(), "-g".into(), "2".into()],
            });
            let lines = WROTE
                .lines()
                .map(|line| line.replace("85.0807", mean))
                .collect();
            events.push(Event::NcclTestSaid {
                on: on.clone(),
                lines,
            });
            let how = NcclTestExit::Exited { code: 0 };
            events.push(Event::NcclTestEnded {
                on,
                end: NcclTestEnd {
                    how,
                    ..NcclTestEnd::failed("")
                },
            });
        }
        events.push(Event::NcclTestEnded {
            on: Some("node03".into()),
            end: NcclTestEnd::failed("its survey shows no GPU"),
        });
        events.extend(end);
        ledger(&events)
    }

    #[test]
    fn nodes_that_are_alike_are_a_line() {
        let mut out = Vec::new();
        let style = Style {
            color: false,
            width: 100,
        };
        nccl_tests_text(&run(), style, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn programs_read_the_same() {
        let ledger = run();
        let mut out = Vec::new();
        crate::report::json(&ledger, &judge(&ledger), &mut out).unwrap();
        let report: Value = serde_json::from_slice(&out).unwrap();
        insta::assert_json_snapshot!(report["nccl_tests"][0]);
        assert_eq!(report["nccl_tests"][2]["failed"], "its survey shows no GPU");
        assert_eq!(report["nccl_tests"][2]["exit_code"], Value::Null);
    }
}
