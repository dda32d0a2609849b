//! Nodes with a server's PCIe tree and GPUs: what is planted inside them is named, and nothing else.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use linerate_lab::{Fault, judge};

use crate::accept::{PROFILE, made_of, rejects_each};
use crate::bench::{Bench, NODES};
use crate::running::Report;

/// One for each node and more: each is named by a rule of its own, most of them without any traffic.
pub const FAULTS: &[&str] = &[
    "narrow:node01:1:x8",
    "far:node02:1",
    "no-peermem:node03",
    "mtu:node03:0:1500",
];

/// The record of the nodes with their faults, for the profile that is made of them without.
static PLANTED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Runs, and holds the report against the faults in the way that the demo does.
fn judged(bench: &mut Bench) -> Report {
    let config = bench.config(|_| ());
    let report = bench.report(&config, &[]);
    report.measured(&NODES, 2);
    let faults = bench.lab.status().expect("the lab answers").faults;
    let code = report
        .status
        .code()
        .and_then(|code| u8::try_from(code).ok());
    if let Err(wrong) = judge::judge(&faults, &report.file, code) {
        panic!("{wrong}\n{report}");
    }
    report
}

/// The fact of a node at these keys, as its survey told it.
fn fact(report: &Report, node: usize, keys: &[&str]) -> serde_json::Value {
    let facts = report.json["nodes"][node]["facts"].clone();
    keys.iter()
        .fold(facts, |facts, key| match key.parse::<usize>() {
            Ok(index) => facts[index].clone(),
            Err(_) => facts[*key].clone(),
        })
}

pub fn what_is_planted_in_nodes_is_named(bench: &mut Bench) {
    for fault in FAULTS {
        let fault: Fault = fault.parse().expect("a fault");
        let there = bench.lab.status().expect("the lab answers").faults;
        if !there.contains(&fault) {
            bench.lab.fault(&fault).expect("the lab takes it");
        }
    }
    let report = judged(bench);
    report
        .shows("NIC rxe1 of node01 (rail 1): Its PCIe link trained at Gen4 x8 (capable: Gen4 x16)");
    *PLANTED.lock().expect("a path") = Some(report.record);
}

/// The same nodes without faults: stand-in GPUs and emulated bridges are no reason for a complaint.
pub fn a_healthy_server_has_no_finding(bench: &mut Bench) {
    bench.lab.heal().expect("the lab heals");
    let report = judged(bench);
    report.ends_with(0);
    let nic = ["rdma", "value", "1", "pci", "value"];
    assert_eq!(fact(&report, 0, &nic), fact(&report, 1, &nic), "{report}");
    let said: Vec<_> = report.findings();
    assert!(said.is_empty(), "not even notes: {said:?}");
    let profile = bench.path("healthy.toml");
    made_of(&report, &profile);
    let planted = PLANTED.lock().expect("a path").take();
    if let Some(planted) = planted {
        let checks = [
            ("pcie", "rxe1 of node01"),
            ("gpu-path", "GPU1 of node02"),
            ("gpudirect", "node03"),
            ("mtu", "rxe0 of node03"),
        ];
        rejects_each(&profile, &planted, &checks);
        let mtu = [("mtu", "rxe0 of node03")];
        rejects_each(Path::new(PROFILE), &planted, &mtu);
    }
}
