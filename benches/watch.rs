//! What watching costs a node: CPU and memory of a process that samples eight NICs once a second.
//!
//! `cargo bench --bench watch [SECONDS]`, a minute without a number. The counters are files in memory,
//! so this is linerate's own cost; what the NIC's driver takes to answer comes on top of it. The
//! process also makes rates and writes them, which an agent does not.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails where it stands"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use procfs::process::Process;

/// What mlx5 counts of a port.
const COUNTERS: &[&str] = &[
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
];
const HW_COUNTERS: &[&str] = &[
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "rp_cnp_handled",
];

fn nic(root: &Path, number: usize) {
    let port = root.join(format!("sys/class/infiniband/mlx5_{number}/ports/1"));
    for (set, names) in [("counters", COUNTERS), ("hw_counters", HW_COUNTERS)] {
        fs::create_dir_all(port.join(set)).unwrap();
        for name in names {
            fs::write(port.join(set).join(name), "230539874932483\n").unwrap();
        }
    }
    fs::write(port.join("link_layer"), "Ethernet\n").unwrap();
}

/// CPU time of a process so far, in clock ticks, and its resident memory in bytes.
fn cost(process: &Process) -> (u64, u64) {
    let stat = process.stat().unwrap();
    let resident = stat.rss * procfs::page_size();
    (stat.utime + stat.stime, resident)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.find_map(|text| text.parse().ok()).unwrap_or(60);
    let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let root = root.unwrap();
    (0..8).for_each(|number| nic(root.path(), number));
    let mut watch = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(["watch", "--format", "json", "--root"])
        .arg(root.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // What starting costs is not the question.
    std::thread::sleep(Duration::from_secs(3));
    let process = Process::new(i32::try_from(watch.id()).unwrap()).unwrap();
    let (before, _) = cost(&process);
    std::thread::sleep(Duration::from_secs(seconds));
    let (after, resident) = cost(&process);
    watch.kill().unwrap();
    watch.wait().unwrap();
    let ticks = (after - before) as f64;
    let share = ticks / (procfs::ticks_per_second() as f64 * seconds as f64);
    println!(
        "8 NICs, {} counters each, once a second for {seconds} s: {:.2} % of a core, {:.1} MiB resident",
        COUNTERS.len() + HW_COUNTERS.len(),
        share * 100.0,
        resident as f64 / f64::from(1 << 20)
    );
}
