//! Runs that do not come to their end: interrupted, killed, out of disk. Nothing stays on the nodes.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::bench::{Bench, NODES};
use crate::running::{LINERATE, Running};

pub fn ctrl_c_leaves_a_part_of_the_report(bench: &mut Bench) {
    let config = bench.config(|_| ());
    let mut run = bench.start(&config, &[]);
    run.until("probe_ended", 2);
    run.until("probe_started", 3);
    let pressed = Instant::now();
    run.signal(Signal::SIGINT);
    let report = run.finish();
    let ended = Instant::now();
    assert!(
        ended - pressed < Duration::from_secs(15),
        "it took {:?}",
        ended - pressed
    );
    report.ends_with(3);
    report.finds(&[]);
    assert_eq!(report.json["run"], "interrupted", "{report}");
    report.shows("The run was interrupted: what follows is a part.");
    report.shows("the run was interrupted");
    let measured = report.json["coverage"]["measured"]
        .as_u64()
        .unwrap_or_default();
    assert!((2..12).contains(&measured), "{report}");
    bench.nothing_is_left(&NODES, ended);
}

/// The agents notice by themselves that nobody leads them, and let go of the devices.
pub fn kill_9_leaves_nothing_on_the_nodes(bench: &mut Bench) {
    let config = bench.config(|table| crate::bench::set(table, &["probe", "duration"], "20s"));
    let mut run = bench.start(&config, &[]);
    run.until("probe_started", 1);
    // Into the transfer.
    std::thread::sleep(Duration::from_secs(1));
    let running = bench.root("node01", "ps -u operator -o args=");
    assert!(
        running.contains("linerate-"),
        "no agent to leave behind: {running}"
    );
    run.signal(Signal::SIGKILL);
    run.wait();
    bench.nothing_is_left(&NODES, Instant::now());
    let held = bench.root("node01", "rdma resource show qp");
    let held: Vec<&str> = held
        .lines()
        .filter(|line| line.contains("linerate"))
        .collect();
    assert!(held.is_empty(), "queue pairs are held: {held:?}");
    let config = bench.config(|_| ());
    let report = bench.report(&config, &["node01", "node02"]);
    report.ends_with(0);
    report.measured(&["node01", "node02"], 2);
}

/// A run without a record would lose what it learns: it ends, and says how much it has.
pub fn a_full_disk_here_stops_the_run(bench: &mut Bench) {
    let disk = bench.path("disk");
    std::fs::create_dir(&disk).expect("a temporary directory");
    let script = "mount -t tmpfs -o size=16k tiny \"$1\" && shift && exec \"$@\"";
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ]);
        command.arg(&disk);
        command
    };
    let able = unshare("mount -t tmpfs -o size=16k tiny \"$1\"").output();
    if !able.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "SKIPPED: a full disk here: this user may not mount in a namespace (unshare -rm)"
        );
        return;
    }
    let config = bench.config(|_| ());
    let record = disk.join("run.jsonl");
    let mut command = unshare(script);
    command
        .arg(LINERATE)
        .arg("report")
        .arg("--config")
        .arg(config)
        .arg("--record")
        .arg(&record);
    let report =
        Running::spawn("a_full_disk_here", &mut command, disk.join("none"), record).finish();
    let ended = Instant::now();
    assert_eq!(report.status.code(), Some(3), "{report}");
    assert_eq!(report.text, "", "a report of a run that was not kept");
    assert!(
        report.said.starts_with(
            "linerate: the run was stopped, because what it learns cannot be kept: the disk is full"
        ) && report.said.contains("run.jsonl has the run's first"),
        "{report}"
    );
    bench.nothing_is_left(&NODES, ended);
}
