//! `linerate accept` of the built binary, on records of simulated runs: what passes, what each kind of fault
//! fails, and what the operator is told.

use std::path::PathBuf;

use assert_cmd::assert::Assert;
use predicates::prelude::*;
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_linerate");

fn linerate(arguments: &[&str]) -> Assert {
    assert_cmd::Command::new(BINARY)
        .args(arguments)
        .env_remove("LINERATE_LOG")
        .env("NO_COLOR", "1")
        .assert()
}

fn says(words: &str) -> predicates::str::ContainsPredicate {
    predicate::str::contains(words)
}

/// A folder with records of simulated runs and profiles.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    /// Simulates six nodes of four rails with this in the scenario; the record's name.
    fn simulate(&self, name: &str, scenario: &str, more: &[&str]) -> String {
        let text = format!("nodes = 6\nrails = 4\n{scenario}");
        let scenario = self.file(&format!("{name}.toml"), &text);
        let record = self.path(&format!("{name}.jsonl")).display().to_string();
        let arguments = [
            "demo",
            "--scenario",
            &scenario,
            "--record",
            &record,
            "-f",
            "json",
        ];
        linerate(&[&arguments, more].concat());
        record
    }

    /// A profile of the healthy cluster, with what a site would add to it.
    fn profile(&self) -> String {
        let healthy = self.simulate("healthy", "", &["--full"]);
        let path = self.path("profile.toml").display().to_string();
        linerate(&["accept", &path, "--init", "--from", &healthy]).code(0);
        let text = std::fs::read_to_string(&path).expect("a profile");
        let more = "\n[check.cabling]\nof = \"findings\"\nrules = [\"wrong-rail\"]\ncannot_tell = \"borne\"\n";
        self.file("profile.toml", &format!("{text}{more}"))
    }

    fn json(&self, profile: &str, record: &str, code: i32) -> Value {
        let done = linerate(&["accept", profile, "--from", record, "-f", "json"]).code(code);
        serde_json::from_slice(&done.get_output().stdout).expect("JSON")
    }
}

/// The text for a person, however its lines are broken.
fn flat(assert: &Assert) -> String {
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The subjects of a check that came out so.
fn of(document: &Value, check: &str, is: &str) -> Vec<String> {
    let results = document["results"].as_array().expect("results");
    let mine = results
        .iter()
        .filter(|result| result["check"] == check && result["outcome"]["is"] == is);
    mine.map(|result| result["subject"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_healthy_run_is_accepted_in_every_form() {
    let desk = Desk::new();
    let profile = desk.profile();
    let record = desk.path("healthy.jsonl").display().to_string();
    linerate(&["accept", &profile, "--from", &record])
        .code(0)
        .stdout(
            predicate::str::starts_with("SIMULATED: ")
                .and(says("\nACCEPTED by \"as of "))
                .and(says("bandwidth")),
        );
    let document = desk.json(&profile, &record, 0);
    assert_eq!(
        (&document["schema"], &document["kind"]),
        (&1.into(), &"acceptance".into())
    );
    assert_eq!(
        (&document["verdict"], &document["exit_code"]),
        (&"accepted".into(), &0.into())
    );
    assert_eq!(of(&document, "bandwidth", "passed").len(), 6 * 4 * 2);
    assert_eq!(document["must"]["failed"], 0);
    linerate(&["accept", &profile, "--from", &record, "--nagios"])
        .code(0)
        .stdout(
            predicate::str::is_match(
                "^LINERATE OK - .* \\| passed=\\d+ failed=0 not_judged=0 excepted=0\n",
            )
            .unwrap(),
        );
    linerate(&["accept", &profile, "--list"]).code(0).stdout(
        says("bandwidth")
            .and(says("at least 90% of median"))
            .and(says("profile.toml, line ")),
    );
    // Another run of the same cluster, and what it was before.
    let again = desk.simulate("again", "noise = 0.005", &["--seed", "7"]);
    linerate(&["accept", &profile, "--from", &again, "--since", &record])
        .code(0)
        .stdout(says("since-pcie"));
}

/// The fault, more arguments of the run, the exit code, the check that names it, how it comes out, and a subject.
type Case = (
    &'static str,
    &'static [&'static str],
    i32,
    &'static str,
    &'static str,
    &'static str,
);

const FAULTS: &[Case] = &[
    (
        "[[slow_nic]]\nnode = \"node002\"\nrail = 1\ndirection = \"tx\"\nratio = 0.5",
        &[],
        1,
        "bandwidth",
        "failed",
        "mlx5_1 of node002 tx",
    ),
    (
        "[[narrow_pcie]]\nnode = \"node002\"\nrail = 1\nwidth = 8",
        &[],
        1,
        "pcie",
        "failed",
        "mlx5_1 of node002",
    ),
    (
        "[[shared_switch]]\nnode = \"node003\"\nrails = [0, 1]\nratio = 0.5",
        &[],
        1,
        "bandwidth",
        "failed",
        "mlx5_0 of node003 tx",
    ),
    (
        "[[node_limit]]\nnode = \"node003\"\nratio = 0.6",
        &[],
        1,
        "bandwidth",
        "failed",
        "mlx5_3 of node003 rx",
    ),
    (
        "[[half_duplex]]\nnode = \"node004\"\nrail = 2\nratio = 0.5",
        &[],
        1,
        "bandwidth",
        "failed",
        "mlx5_2 of node004 tx",
    ),
    (
        "memory = \"gpu\"\n[[gpu_path]]\nnode = \"node004\"\nrail = 2\ndirection = \"both\"\nratio = 0.5",
        &[],
        1,
        "bandwidth",
        "failed",
        "mlx5_2 of node004 rx",
    ),
    (
        "[[one_queue_pair]]\nnode = \"node005\"\nrail = 0\nratio = 0.5",
        &[],
        1,
        "bandwidth",
        "failed",
        "mlx5_0 of node005 tx",
    ),
    (
        "[[dead_nic]]\nnode = \"node005\"\nrail = 3",
        &[],
        3,
        "coverage",
        "not_judged",
        "node005",
    ),
    (
        "[[swapped_cables]]\nnode = \"node006\"\nrails = [1, 0]",
        &[],
        1,
        "cabling",
        "failed",
        "mlx5_0 of node006",
    ),
    (
        "[[slow_line]]\nnodes = [\"node004\"]\nline_rate = \"200 Gb/s\"",
        &[],
        1,
        "link-rate",
        "failed",
        "mlx5_0 of node004",
    ),
    (
        "[[slow_path]]\nfrom = \"node001\"\nto = \"node003\"\nrail = 2\nratio = 0.6",
        &["--full"],
        1,
        "bandwidth",
        "failed",
        "mlx5_2 of node001 → mlx5_2 of node003",
    ),
    (
        "[[slow_rail]]\nrail = 3\nratio = 0.7",
        &[],
        1,
        "bandwidth",
        "failed",
        "mlx5_3 of node001 tx",
    ),
    (
        "leaf_size = 2\n[[leaf_uplink]]\nleaf = 1\nrail = 1\ndirection = \"up\"\nratio = 0.4",
        &["--fabric"],
        1,
        "faults",
        "failed",
        "leaf1 on rail 1 up",
    ),
    (
        "[[lost_node]]\nnode = \"node006\"",
        &[],
        1,
        "nodes",
        "failed",
        "the cluster",
    ),
    (
        "[[silent_node]]\nnode = \"node006\"",
        &[],
        1,
        "nodes",
        "failed",
        "the cluster",
    ),
    (
        "[[port_down]]\nnode = \"node002\"\nrail = 3",
        &[],
        1,
        "faults",
        "failed",
        "mlx5_3 of node002",
    ),
    (
        "[[small_mtu]]\nnode = \"node002\"\nmtu = 1024",
        &[],
        1,
        "mtu",
        "failed",
        "mlx5_0 of node002",
    ),
    (
        "[[no_gpudirect]]\nnode = \"node003\"",
        &[],
        1,
        "gpudirect",
        "failed",
        "mlx5_0 of node003",
    ),
];

#[test]
fn each_planted_fault_is_rejected_by_the_check_that_is_about_it() {
    let desk = Desk::new();
    let profile = desk.profile();
    let mut wrong = Vec::new();
    for (number, (scenario, more, code, check, is, subject)) in FAULTS.iter().enumerate() {
        let record = desk.simulate(&format!("fault{number}"), scenario, more);
        let arguments = ["accept", &profile, "--from", &record, "-f", "json"];
        let done = linerate(&arguments);
        let output = done.get_output();
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found = of(&document, check, is);
        if output.status.code() != Some(*code) || !found.iter().any(|found| found == subject) {
            wrong.push(format!(
                "{scenario}: {:?}, {check} {is}: {found:?}",
                output.status.code()
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_does_not_hold_is_told_with_what_was_seen_and_from_where() {
    let desk = Desk::new();
    let profile = desk.file(
        "profile.toml",
        "profile = \"small\"\n\n[check.mtu]\nof = \"mtu\"\nis = 4096\n\n[check.way]\nof = \"latency\"\nat_most = \"5 us\"\n",
    );
    let record = desk.simulate("mtu", "[[small_mtu]]\nnode = \"node002\"\nmtu = 1024", &[]);
    let text = flat(&linerate(&["accept", &profile, "--from", &record]).code(1));
    for words in [
        "NOT ACCEPTED by \"small\"",
        "FAILED mtu (4) mlx5_0 of node002: 1024; expected 4096 (",
        "profile.toml, line 5)",
        "NOT JUDGED (24)",
        "because the run did not measure what moving data costs (--cost)",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    linerate(&["accept", &profile, "--from", &record, "--nagios"])
        .code(2)
        .stdout(
            predicate::str::starts_with("LINERATE CRITICAL - small: ")
                .and(says("; mtu mlx5_0 of node002: 1024")),
        );
    // With the cost measured, it is judged.
    let cost = desk.simulate("cost", "", &["--cost"]);
    linerate(&["accept", &profile, "--from", &cost]).code(0);
    // A should warns.
    let should = desk.file(
        "should.toml",
        "profile = \"s\"\n[check.mtu]\nof = \"mtu\"\nis = 4096\nweight = \"should\"\n",
    );
    linerate(&["accept", &should, "--from", &record])
        .code(0)
        .stdout(says("SHOULD HOLD mtu (4)"));
    linerate(&["accept", &should, "--from", &record, "--nagios"])
        .code(1)
        .stdout(says("LINERATE WARNING"));
}

#[test]
fn a_record_that_was_cut_off_is_not_accepted() {
    let desk = Desk::new();
    let profile = desk.file(
        "p.toml",
        "profile = \"p\"\n[check.mtu]\nof = \"mtu\"\nis = 4096\n",
    );
    let record = desk.simulate("whole", "", &[]);
    let text = std::fs::read_to_string(&record).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let cut = desk.file("cut.jsonl", &lines[..lines.len() - 1].concat());
    linerate(&["accept", &profile, "--from", &record]).code(0);
    linerate(&["accept", &profile, "--from", &cut])
        .code(3)
        .stdout(says("COULD NOT JUDGE").and(says("the run did not come to its end")));
    linerate(&["accept", &profile, "--from", &cut, "--nagios"])
        .code(3)
        .stdout(says("LINERATE UNKNOWN"));
    // Nor is one that lost a node, whatever else the profile says.
    let lost = desk.simulate("lost", "[[lost_node]]\nnode = \"node006\"", &[]);
    let text = flat(&linerate(&["accept", &profile, "--from", &lost]).code(3));
    assert!(text.contains("node006 was lost"), "{text}");
}

#[test]
fn bad_usage_is_told_and_nothing_runs() {
    let desk = Desk::new();
    let bad = desk.file(
        "bad.toml",
        "profile = \"p\"\n[check.mtu]\nof = \"mtu\"\nis = 4096\nwieght = \"must\"\n",
    );
    for more in [&["--list"][..], &["--from", "/nonexistent"], &["node1"]] {
        linerate(&[&["accept", &bad], more].concat())
            .code(2)
            .stdout("")
            .stderr(says("bad.toml:5:1").and(says("did you mean `weight`?")));
    }
    // To Nagios nothing of that is critical.
    linerate(&["accept", &bad, "--from", "/nonexistent", "--nagios"])
        .code(3)
        .stdout(predicate::str::starts_with(
            "LINERATE UNKNOWN - the acceptance profile is not usable",
        ));
    let good = desk.file(
        "good.toml",
        "profile = \"p\"\n[check.mtu]\nof = \"mtu\"\nis = 4096\n",
    );
    linerate(&["accept", &good])
        .code(2)
        .stderr(says("--config <FILE>"));
    linerate(&["accept", &good, "--from", "/nonexistent/run.jsonl"])
        .code(2)
        .stderr(says("the record /nonexistent/run.jsonl cannot be opened"));
    linerate(&["accept", &good, "--from", "x", "--config", "y"])
        .code(2)
        .stderr(says("cannot be used with"));
    linerate(&["accept", &good, "--from", "x", "--nagios", "-f", "json"])
        .code(2 + 1)
        .stdout(says("LINERATE UNKNOWN - --nagios begins standard output"));
    // A report must not replace the record.
    let record = desk.simulate("kept", "", &[]);
    linerate(&["accept", &good, "--from", &record, "-o", &record])
        .code(2)
        .stderr(says("the report would overwrite the record"));
}

#[test]
fn a_profile_is_made_of_healthy_runs_only_and_replaces_nothing() {
    let desk = Desk::new();
    let slow = desk.simulate(
        "slow",
        "[[slow_nic]]\nnode = \"node002\"\nrail = 1\ndirection = \"tx\"\nratio = 0.5",
        &[],
    );
    let path = desk.path("new.toml").display().to_string();
    linerate(&["accept", &path, "--init", "--from", &slow])
        .code(3)
        .stderr(says("the run found 1 faults").and(says("--despite-faults")));
    assert!(!desk.path("new.toml").exists());
    linerate(&[
        "accept",
        &path,
        "--init",
        "--from",
        &slow,
        "--despite-faults",
    ])
    .code(0);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("# NOT HEALTHY") && text.contains("# SIMULATED"),
        "{text}"
    );
    linerate(&[
        "accept",
        &path,
        "--init",
        "--from",
        &slow,
        "--despite-faults",
    ])
    .code(2)
    .stderr(says("a profile is never overwritten"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn what_became_worse_since_an_earlier_run_is_told() {
    let desk = Desk::new();
    let profile = desk.file(
        "p.toml",
        "profile = \"p\"\n[check.nodes]\nof = \"nodes\"\nis = 6\n",
    );
    let before = desk.simulate("before", "", &[]);
    let now = desk.simulate(
        "now",
        "[[narrow_pcie]]\nnode = \"node002\"\nrail = 1\nwidth = 8",
        &[],
    );
    linerate(&["accept", &profile, "--from", &now]).code(0);
    let text = flat(&linerate(&["accept", &profile, "--from", &now, "--since", &before]).code(1));
    let words = "FAILED since-pcie (1) mlx5_1 of node002: PCIe carries ";
    assert!(
        text.contains(words) && text.contains("or more, as before"),
        "{text}"
    );
    linerate(&[
        "accept",
        &profile,
        "--from",
        &now,
        "--since",
        "/nonexistent",
    ])
    .code(2)
    .stderr(says("--since: the record /nonexistent"));
}

/// Through agents of their own processes: two nodes that are one machine have no NIC, or one that does not cross
/// the fabric.
#[test]
fn a_live_run_of_one_machine_is_not_accepted() {
    let desk = Desk::new();
    let directory = desk.0.path().display();
    let config = desk.file(
        "cluster.toml",
        &format!("nodes = [\"here[1-2]\"]\n[ssh]\ncarrier = \"local\"\nuser = \"operator\"\ndirectory = \"{directory}\"\n"),
    );
    let profile = desk.file(
        "p.toml",
        "profile = \"p\"\n[check.b]\nof = \"bandwidth\"\nat_least = \"1 kb/s\"\n",
    );
    let record = desk.path("live.jsonl").display().to_string();
    let live = linerate(&[
        "accept", &profile, "--config", &config, "--record", &record, "-f", "json",
    ])
    .code(3);
    let live: Value = serde_json::from_slice(&live.get_output().stdout).unwrap();
    assert_eq!(live["verdict"], "could_not_judge");
    let again = desk.json(&profile, &record, 3);
    assert_eq!(live, again, "a record is judged as the run was");
}
