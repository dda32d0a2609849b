//! Nodes that cannot be measured, each for a reason that the operator reads; the others are measured.

use crate::accept::{cannot_judge, rejects_by};
use crate::bench::{Bench, set};
use crate::running::Report;

const BAD: &str = "node03";
const GOOD: [&str; 2] = ["node01", "node02"];

/// Everything except the bad node is measured, and it is not taken for a fault.
fn not_judged(bench: &mut Bench, findings: &[&str]) -> Report {
    let config = bench.config(|_| ());
    let report = bench.report(&config, &[]);
    report.ends_with(3);
    report.measured(&GOOD, 2);
    report.finds(findings);
    report
}

pub fn without_libibverbs_a_node_is_surveyed(bench: &mut Bench) {
    bench.change(
        BAD,
        "mkdir -p /run/lab/hidden && mv /usr/lib/*/libibverbs.so.1* /run/lab/hidden/",
        "mv /run/lab/hidden/* \"$(dirname \"$(ls -d /usr/lib/*/libibverbs)\")/\"",
    );
    let report = not_judged(bench, &["probe-failed node03"]);
    report.shows(
        "8 pairs between node03 and node01, node02 could not be measured. node03 reports: \
         libibverbs.so.1 is not installed on this node",
    );
    report.shows("install the packages libibverbs1 and ibverbs-providers (Debian, Ubuntu)");
    let facts = report.json["nodes"][2]["facts"].clone();
    assert!(facts["libibverbs"]["unknown"].is_string(), "{facts:#}");
    // What sysfs tells does not need the library.
    assert_eq!(facts["rdma"]["value"][0]["name"], "rxe0", "{facts:#}");
    assert_eq!(
        facts["rdma"]["value"][0]["ports"][0]["state"]["value"], "active",
        "{facts:#}"
    );
}

pub fn a_node_without_rdma_devices(bench: &mut Bench) {
    bench.change(
        BAD,
        "rdma link delete rxe0 && rdma link delete rxe1",
        "rdma link add rxe0 type rxe netdev eth1 && rdma link add rxe1 type rxe netdev eth2 && \
         chmod 666 /dev/infiniband/uverbs*",
    );
    let report = not_judged(bench, &["no-nic node03"]);
    cannot_judge(&report, &["node03"]);
    report.shows("No NIC of node03 plays rail 0");
}

pub fn a_port_that_is_down(bench: &mut Bench) {
    bench.change(BAD, "ip link set eth1 down", "ip link set eth1 up");
    let config = bench.config(|_| ());
    let report = bench.report(&config, &[]);
    report.ends_with(1);
    report.finds(&["port-down node03 rxe0"]);
    rejects_by(&report, &[("faults", "rxe0 of node03")]);
    report.shows("The port of rxe0 of node03 (rail 0) is DOWN (Disabled): it carries no traffic");
    report.shows(
        "2 NIC directions not run: the port of rxe0 of node03 is DOWN (Disabled), not ACTIVE",
    );
    // The other rail of that node is as good as any.
    report.measured(&GOOD, 2);
    let measured = report.json["coverage"]["measured"].as_u64();
    assert_eq!(measured, Some(10), "{report}");
}

pub fn too_little_locked_memory(bench: &mut Bench) {
    let port = bench.node(BAD).plan.memlock_port;
    let config = bench.config(|table| set(table, &["node", BAD, "port"], i64::from(port)));
    let report = bench.report(&config, &[]);
    report.ends_with(1);
    report.measured(&GOOD, 2);
    report.shows("node03 reports: cannot register 131072 bytes of memory with rxe0, rxe1");
    report.shows(
        "the limit on locked memory (RLIMIT_MEMLOCK) is 64 KiB, 131072 bytes were asked for",
    );
    report.shows("raise it to unlimited where the login gets it");
    report.finds(&["memlock node03", "probe-failed node03"]);
    rejects_by(&report, &[("memlock", "node03")]);
}

/// Where linerate would put its agent: each gets a file system of the case's own.
fn cover(bench: &mut Bench, options: &str) {
    let places = "/home/operator/.cache /tmp /var/tmp /dev/shm";
    let script = format!(
        "for place in {places}; do mkdir -p $place && mount -t tmpfs -o {options},mode=1777 test $place || exit; \
         done"
    );
    bench.change(
        BAD,
        &script,
        &format!("for place in {places}; do umount $place; done"),
    );
}

pub fn a_full_disk_on_a_node(bench: &mut Bench) {
    cover(bench, "size=64k");
    let report = not_judged(bench, &["node-lost node03"]);
    report.shows("node03 was not measured: no directory on the node can hold the agent: /home/operator/.cache/linerate: only");
    report.shows("Free space there");
}

pub fn a_node_that_lets_no_program_run(bench: &mut Bench) {
    cover(bench, "noexec");
    let report = not_judged(bench, &["node-lost node03"]);
    report.shows("/home/operator/.cache/linerate: programs may not run there (noexec)");
    report.shows("(directory under [ssh] in the cluster file)");

    bench.change(
        BAD,
        "install -d -o operator -m 755 /run/scratch",
        "rm -rf /run/scratch",
    );
    let config = bench.config(|table| set(table, &["ssh", "directory"], "/run/scratch"));
    let report = bench.report(&config, &["node02", BAD]);
    report.ends_with(0);
    let there = bench.root(BAD, "stat -c '%A %U %n' /run/scratch /run/scratch/linerate");
    assert_eq!(
        there,
        "drwxr-xr-x operator /run/scratch\ndrwx------ operator /run/scratch/linerate\n"
    );
}
