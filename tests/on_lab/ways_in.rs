//! The way to a node: logins that are refused, host keys that are wrong, shells that talk, nodes that are
//! down.

use std::fmt::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use toml::Table;

use crate::bench::{Bench, set};
use crate::closed_port::ClosedPort;

const GOOD: [&str; 2] = ["node01", "node02"];

pub fn a_talkative_login_shell(bench: &mut Bench) {
    let talk = "for i in $(seq 1000); do echo \"$i: the cluster is down on Monday\"; done";
    bench.change(
        "node01",
        &format!("echo '{talk}' > /home/operator/.bashrc"),
        "rm -f /home/operator/.bashrc",
    );
    let config = bench.config(|_| ());
    let report = bench.report(&config, &GOOD);
    report.ends_with(0);
    report.measured(&GOOD, 2);
    assert!(
        !report.text.contains("Monday") && report.said.is_empty(),
        "{report}"
    );
}

/// Every way to be turned away, at once: each needs only an address.
pub fn nodes_that_do_not_let_linerate_in(bench: &mut Bench) {
    let memlock_port = |bench: &mut Bench, node| bench.node(node).plan.memlock_port;
    let unknown = memlock_port(bench, "node01");
    let changed = memlock_port(bench, "node02");
    let revoked = memlock_port(bench, "node03");
    let wrong_user = bench.node("node03").plan.port;
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let silent_port = silent.local_addr().expect("an address").port();
    let refused = ClosedPort::take();
    let refused_port = refused.address.port();
    let known_hosts = known_hosts(bench, unknown, changed, revoked);
    let config = bench.config(|table| {
        add(table, "unknown", unknown, "operator");
        add(table, "changed", changed, "operator");
        add(table, "revoked", revoked, "operator");
        set(table, &["node", "node03", "user"], "nobody");
        add(table, "silent", silent_port, "operator");
        add(table, "refused", refused_port, "operator");
        let file = known_hosts.to_string_lossy().into_owned();
        set(table, &["ssh", "known_hosts"], vec![file]);
        set(table, &["ssh", "connect_timeout"], "15s");
    });
    let report = bench.report(&config, &[]);
    report.ends_with(3);
    report.measured(&GOOD, 2);
    report.finds(&[
        "node-lost changed",
        "node-lost node03",
        "node-lost refused",
        "node-lost revoked",
        "node-lost silent",
        "node-lost unknown",
    ]);
    let file = known_hosts.display();
    report.shows(&format!(
        "unknown was not measured: the host key for [127.0.0.1]:{unknown} is not known (ED25519 SHA256:"
    ));
    report.shows(&format!(
        "then add it to {file}, or accept new keys with --accept-new"
    ));
    report.shows(&format!(
        "changed was not measured: the host key for [127.0.0.1]:{changed} has CHANGED"
    ));
    report.shows(&format!(
        "ssh-keygen -f '{file}' -R '[127.0.0.1]:{changed}'"
    ));
    report.shows(&format!(
        "revoked was not measured: the host key for [127.0.0.1]:{revoked} is REVOKED"
    ));
    report.shows(&format!(
        "node03 was not measured: nobody@127.0.0.1:{wrong_user} refused every key."
    ));
    report.shows("into ~nobody/.ssh/authorized_keys on the node");
    report.shows(&format!(
        "silent was not measured: 127.0.0.1:{silent_port} accepted the connection but said nothing within 15 s"
    ));
    report.shows(&format!(
        "refused was not measured: 127.0.0.1:{refused_port} refused the connection"
    ));
}

fn add(table: &mut Table, name: &str, port: u16, user: &str) {
    let nodes = table
        .get_mut("nodes")
        .and_then(|nodes| nodes.as_array_mut());
    nodes.expect("a list of nodes").push(name.into());
    set(table, &["node", name, "address"], "127.0.0.1");
    set(table, &["node", name, "port"], i64::from(port));
    set(table, &["node", name, "user"], user);
}

/// The lab's known_hosts, wrong about three of its ports.
fn known_hosts(bench: &mut Bench, unknown: u16, changed: u16, revoked: u16) -> PathBuf {
    let path = bench.path("known_hosts");
    let right = std::fs::read_to_string(bench.lab.dir().known_hosts()).expect("the lab wrote it");
    let of = |line: &str, port: u16| line.starts_with(&format!("[127.0.0.1]:{port} "));
    let mut wrong = String::new();
    for line in right
        .lines()
        .filter(|line| !of(line, unknown) && !of(line, changed))
    {
        let mark = if of(line, revoked) { "@revoked " } else { "" };
        writeln!(wrong, "{mark}{line}").expect("a string");
    }
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let key = another_key(&path.with_extension(kind), kind);
        writeln!(wrong, "[127.0.0.1]:{changed} {key}").expect("a string");
    }
    std::fs::write(&path, wrong).expect("a temporary file");
    path
}

fn another_key(path: &Path, kind: &str) -> String {
    let mut keygen = std::process::Command::new("ssh-keygen");
    keygen.args(["-q", "-N", "", "-t", kind, "-f"]).arg(path);
    assert!(keygen.status().expect("ssh-keygen").success());
    let text = std::fs::read_to_string(format!("{}.pub", path.display())).expect("a public key");
    text.split_whitespace()
        .take(2)
        .collect::<Vec<_>>()
        .join(" ")
}

/// In the middle of a run, and before the next.
pub fn a_node_that_goes_down(bench: &mut Bench) {
    let config = bench.config(|_| ());
    let mut run = bench.start(&config, &[]);
    run.until("probe_started", 1);
    bench.lab.kill("node03").expect("it was up");
    let report = run.finish();
    report.ends_with(3);
    report.measured(&GOOD, 2);
    report.finds(&["node-lost node03"]);
    report.shows("node03 was lost: the connection to the node was lost while the agent ran");
    report.shows("The node may have gone down");

    let port = bench.node("node03").plan.port;
    let report = bench.report(&config, &[]);
    report.ends_with(3);
    report.measured(&GOOD, 2);
    report.finds(&["node-lost node03"]);
    report.shows("COULD NOT JUDGE EVERYTHING: 2 of 3 nodes, 8 of 12 NIC directions measured");
    report.shows(&format!(
        "node03 was not measured: 127.0.0.1:{port} refused the connection: nothing listens there"
    ));
    report.shows("node03 was lost");
}
