//! Memory of GPUs that are none: a driver library for tests hands out host memory, and the real verbs move
//! it. What the library is made to do wrong is what the report says, and that it is a stand-in.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use toml::Table;

use crate::bench::{Bench, set};
use crate::running::Report;

const TWO: [&str; 2] = ["node01", "node02"];

/// The stand-in for libcuda, which serves these GPUs, with something wrong with it.
fn compiled(bench: &mut Bench, gpus: &str, wrong: &str) -> Vec<u8> {
    let library = bench.path("libcuda.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/cuda.c");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-DWHOLE", "-o"])
        .arg(&library)
        .arg(format!("-DWRONG=\"{wrong}\""))
        .arg(format!("-DPCI=\"{gpus}\""))
        .arg(source)
        .status()
        .expect("a C compiler");
    assert!(status.success());
    std::fs::read(library).expect("it was made")
}

/// Puts it where the loader of a node finds it.
fn install(bench: &mut Bench, node: &str, wrong: &str) {
    let gpus = bench.root(
        node,
        "cd /sys/bus/pci/devices && grep -l 0x10de */vendor | cut -d/ -f1 | paste -sd, | tr -d '\\n'",
    );
    let bytes = compiled(bench, &gpus, wrong);
    let octal: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
    let place = "/usr/lib/libcuda.so.1";
    // Printed in parts: the argument of a command is limited.
    let mut script = format!(": > {place}");
    for part in octal.as_bytes().chunks(4 * 8192) {
        let part = String::from_utf8_lossy(part);
        script = format!("{script} && printf '{part}' >> {place}");
        bench.change(node, &script, &format!("rm -f {place}"));
        script = ":".to_owned();
    }
}

/// A report over two nodes with this stand-in, in this memory.
fn report(bench: &mut Bench, wrong: [Option<&str>; 2], memory: &str) -> Report {
    report_with(bench, wrong, |table| {
        set(table, &["probe", "memory"], memory);
    })
}

/// The same with another cluster file.
fn report_with(
    bench: &mut Bench,
    wrong: [Option<&str>; 2],
    edit: impl FnOnce(&mut Table),
) -> Report {
    bench.lab.heal().expect("the lab heals");
    for (node, wrong) in TWO.iter().zip(wrong) {
        if let Some(wrong) = wrong {
            install(bench, node, wrong);
        }
    }
    let config = bench.config(edit);
    bench.report(&config, &TWO)
}

fn both(bench: &mut Bench, wrong: &str, memory: &str) -> Report {
    report(bench, [Some(wrong); 2], memory)
}

/// What is told of each NIC.
fn told(report: &Report) -> &[Value] {
    let told = report.json["gpu_memory"].as_array();
    told.map_or(&[], Vec::as_slice)
}

/// Asserts that all data was moved in this way, and compared.
fn moved(report: &Report, way: &str) {
    report.measured(&TWO, 2);
    assert!(report.text.starts_with("STAND-IN: "), "{report}");
    assert_eq!(report.json["stand_in_gpu"], true, "{report}");
    for pair in report.json["pairs"].as_array().expect("pairs") {
        let landed = &pair["verified"]["value"];
        assert_eq!(landed["bytes_wrong"], 0, "{pair:#}");
        assert!(landed["bytes_checked"].as_u64() > Some(0), "{pair:#}");
        for memory in [&pair["memory"], &landed["memory"]] {
            assert_eq!(memory["way"], way, "{pair:#}");
        }
    }
}

/// One driver exports no dma-buf, one NIC takes none, and the link of one node's GPUs is slow.
pub fn gpu_memory_is_moved_by_peer_memory(bench: &mut Bench) {
    let report = report(bench, [Some("slow"), Some("nodmabuf")], "gpu");
    moved(&report, "peer_memory");
    report.shows("direct, by peer memory (Stand-in GPU in host memory); dma-buf was refused: ");
    report.shows("takes no dma-buf");
    report.shows("dma-buf was refused: the CUDA driver exports no dma-buf");
    assert_eq!(told(&report).len(), 4, "{report}");
    let is_slow = |finding: &String| finding.starts_with("gpu-copy-slow");
    let slow: Vec<String> = report.findings().into_iter().filter(is_slow).collect();
    assert_eq!(slow, ["gpu-copy-slow node01"; 2], "{report}");
    each_nic_sends_to_itself(bench, "node02");
}

/// Every NIC with every GPU of a node, in every way, by the real binary there.
fn each_nic_sends_to_itself(bench: &mut Bench, node: &str) {
    let out = bench.linerate_on(node, "gpu-check --transfer --format json");
    let check: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}"));
    assert_eq!(check["stand_in_gpu"], true, "{check:#}");
    let transfers = check["transfers"].as_array().expect("transfers");
    // Two NICs, each with two GPUs in five ways, and without one.
    assert_eq!(transfers.len(), 2 * (1 + 2 * 5), "{check:#}");
    for transfer in transfers {
        assert_eq!(transfer["bytes_wrong"], 0, "{transfer:#}");
        assert!(transfer["bytes_checked"].as_u64() > Some(0), "{transfer:#}");
        assert!(transfer["gbps"].as_f64() > Some(0.0), "{transfer:#}");
    }
    let pairs = check["pairs"].as_array().expect("pairs");
    let told = |pair: &Value| format!("{} {}", pair["path"], pair["is_nearest"]);
    let mut places: Vec<String> = pairs.iter().map(told).collect();
    places.sort();
    let (near, far) = ("\"PIX\" true", "\"SYS\" false");
    assert_eq!(places, [near, near, far, far], "{check:#}");
    for pair in pairs {
        assert_eq!(pair["verdict"], "direct", "{pair:#}");
        assert_eq!(pair["says"], "direct, by peer memory", "{pair:#}");
    }
}

/// What stands in the place of nccl-tests, and what it writes.
const NCCL: &str = "/tmp/all_reduce_perf";
const NCCL_SAYS: &str = "\
node01:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA
node01:5:7 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [receive] via NET/IB/0/GDRDMA
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 84.5
";

/// In the same run nccl-tests are started, which only one of the nodes has.
pub fn gpu_memory_is_moved_by_way_of_the_host(bench: &mut Bench) {
    let script =
        format!("cat > {NCCL} <<'END'\n#!/bin/sh\necho '{NCCL_SAYS}'\nEND\nchmod 755 {NCCL}");
    // Healing starts nodes anew, and what was put there is gone.
    bench.lab.heal().expect("the lab heals");
    bench.change("node01", &script, &format!("rm -f {NCCL}"));
    let report = report_with(bench, [Some(""); 2], |table| {
        set(table, &["probe", "memory"], "gpu-staged");
        set(table, &["nccl", "enabled"], true);
        set(table, &["nccl", "command"], vec![NCCL]);
    });
    report.ends_with(3);
    report.shows("node01 by itself: GPUDirect RDMA is used by 2 ranks");
    report.shows("/tmp/all_reduce_perf is not installed: there is no such file");
    moved(&report, "staged");
    report.shows("staged through host memory, as it was asked for");
}

/// As on a node where the module is loaded and refuses all the same.
pub fn memory_that_no_module_takes_is_refused(bench: &mut Bench) {
    let report = both(bench, "nopeer", "gpu");
    report.ends_with(1);
    // Whichever end fails first ends the probe.
    let found = report.findings();
    let is_off = |finding: &String| finding.starts_with("gpudirect-off node0");
    assert!(found.iter().any(is_off), "{report}");
    report.shows("GPUDirect RDMA does not work on node0");
    report.shows("memory of the GPUs, though by the survey it would work by peermem");
    report.shows("no peer memory module takes this address; load nvidia_peermem");
    let is_refused = |nic: &Value| nic["verdict"] == "not_available";
    assert!(told(&report).iter().any(is_refused), "{report}");
}

/// Nothing was tried, so nothing is known.
pub fn gpu_memory_that_cannot_be_had_is_not_replaced(bench: &mut Bench) {
    for (wrong, words) in [
        (None, "libcuda.so.1 is not installed"),
        (Some("managed"), "managed memory"),
    ] {
        let report = report(bench, [wrong; 2], "gpu");
        report.ends_with(3);
        report.shows("no GPU memory could be tried of");
        let is_stand_in = report.text.starts_with("STAND-IN: ");
        assert_eq!(is_stand_in, wrong.is_some(), "{report}");
        report.shows(words);
        assert!(!told(&report).is_empty(), "{report}");
        for nic in told(&report) {
            assert_eq!(nic["verdict"], "cannot_tell", "{nic:#}");
        }
    }
}
