//! The main job: the NIC and direction that are slow are named, and nothing else is.

use std::collections::BTreeSet;

use linerate_lab::Fault;

use crate::accept::accepts;
use crate::bench::{Bench, NODES, one_latency};
use crate::running::Report;

fn slow(bench: &mut Bench, fault: &str) -> Report {
    let fault: Fault = fault.parse().expect("a fault");
    bench.lab.fault(&fault).expect("the lab takes it");
    let config = bench.strict_config(|_| ());
    let report = bench.report(&config, &[]);
    report.ends_with(1);
    report.measured(&NODES, 2);
    report
}

/// The finding rests on both partners, and on each of them being good with the other.
fn evidence_is_whole(report: &Report) {
    let finding = &report.json["findings"][0];
    // One measurement may prove two partners. What was measured to confirm the fault and to take it
    // apart is told beside it.
    let of_pattern = |evidence: &&serde_json::Value| {
        let from = evidence["from"].as_str().unwrap_or_default();
        !from.contains("idle") && !from.contains("loaded") && !from.contains("beside")
    };
    let evidence = finding["evidence"].as_array().expect("a list").iter();
    let evidence: BTreeSet<&str> = evidence
        .filter(of_pattern)
        .filter_map(|evidence| evidence["saw"].as_str())
        .collect();
    let share = |saw: &str| -> f64 {
        let (before, _) = saw.split_once(" of expected").expect("a share");
        let word = before.rsplit(' ').next().unwrap_or_default();
        word.parse().unwrap_or_else(|_| panic!("no share in {saw}"))
    };
    let low = evidence.iter().filter(|saw| share(saw) < 0.65).count();
    let good = evidence.iter().filter(|saw| share(saw) > 0.85).count();
    assert_eq!((low, good), (2, 2), "{evidence:#?}");
    let ratio = finding["ratio"].as_f64().expect("a ratio");
    assert!((0.4..0.65).contains(&ratio), "{ratio}");
}

pub fn a_slow_sender_is_named(bench: &mut Bench) {
    let report = slow(bench, "half:node02:1:tx");
    report.complains(&["half-bandwidth node02 rxe1 tx"]);
    report.shows("1 FAULT FOUND: 3 of 3 nodes, 12 of 12 NIC directions measured");
    report.shows("NIC rxe1 of node02 (rail 1) sends at 0.5");
    report.shows("of expected to 2 of 2 partners (node01, node03), who receive at");
    evidence_is_whole(&report);
}

pub fn a_healthy_cluster_has_no_finding(bench: &mut Bench) {
    let config = bench.strict_config(one_latency);
    let (accepted, report) = bench.accept(&config);
    accepts(&accepted);
    report.ends_with(0);
    report.complains(&[]);
    report.measured(&NODES, 2);
    report.shows("ALL AT LINE RATE: 3 of 3 nodes, 12 of 12 NIC directions measured");
    assert_eq!(report.json["coverage"]["complete"], true, "{report}");
    assert_eq!(report.json["verdict"], "at_line_rate", "{report}");
}

/// The two ends of a probe meet over the connections that linerate has already. Rates are not looked at:
/// looking at an emulated node's sockets slows it down.
pub fn a_probe_opens_no_listening_port(bench: &mut Bench) {
    let nodes = ["node01", "node02"];
    let config = bench.config(|_| ());
    let mut watches: Vec<_> = nodes.iter().map(|node| Watch::start(bench, node)).collect();
    let report = bench.report(&config, &nodes);
    for watch in &mut watches {
        watch.opened_nothing();
    }
    report.measured(&nodes, 2);
}

/// Looks at a node's listening TCP sockets again and again.
struct Watch {
    node: &'static str,
    child: std::process::Child,
    file: std::path::PathBuf,
}

impl Watch {
    fn start(bench: &mut Bench, node: &'static str) -> Watch {
        let file = bench.path(node);
        let output = std::fs::File::create(&file).expect("a temporary file");
        let mut ssh = bench.lab.ssh_command("root", node).expect("a node");
        // Nothing here starts a program: on an emulated node that would take from what is measured. It
        // ends at the first line that nobody takes.
        ssh.arg(
            "mkfifo /run/lab/never && exec 9<>/run/lab/never && rm /run/lab/never && \
             while echo look && printf '%s\\n' \"$(</proc/net/tcp)\" \"$(</proc/net/tcp6)\"; do \
             read -t 0.5 -u 9; done",
        )
        .stdin(std::process::Stdio::null())
        .stdout(output);
        let child = ssh.spawn().expect("ssh starts");
        let mut watch = Watch { node, child, file };
        watch.wait_for_a_look();
        watch
    }

    fn wait_for_a_look(&mut self) {
        for _ in 0..600 {
            if self.looks().len() > 1 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{}: its sockets cannot be seen", self.node);
    }

    /// The ports that listened at each look, in hexadecimal; the last look may be half a one.
    fn looks(&self) -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let port = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // sl, local address, remote address, state: 0A is LISTEN (include/net/tcp_states.h).
            let listens = fields.get(3) == Some(&"0A");
            listens.then(|| fields[1].rsplit(':').next().unwrap_or_default().to_owned())
        };
        let look = |text: &str| {
            let mut ports: Vec<String> = text.lines().filter_map(port).collect();
            ports.sort();
            ports
        };
        text.split("look\n").skip(1).map(look).collect()
    }

    fn opened_nothing(&mut self) {
        let mut looks = self.looks();
        looks.pop();
        let before = looks.first().cloned().unwrap_or_default();
        // Both sshds are there to be seen: 22 and 23.
        assert_eq!(before, ["0016", "0017"], "{}", self.node);
        assert!(
            looks.len() >= 10,
            "only {} looks at {}",
            looks.len(),
            self.node
        );
        for look in looks {
            assert_eq!(look, before, "{} listened", self.node);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
