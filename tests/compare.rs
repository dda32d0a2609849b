//! Recorded runs through the built binary: compared, listed, and removed.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::assert::Assert;
use predicates::prelude::*;
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_linerate");

/// A state folder of its own.
struct State(tempfile::TempDir);

impl State {
    fn new() -> Self {
        let state = Self(tempfile::tempdir().expect("a temporary folder"));
        fs::create_dir_all(state.runs()).expect("a folder");
        state
    }

    fn runs(&self) -> PathBuf {
        self.0.path().join("linerate/runs")
    }

    fn linerate(&self, arguments: &[&str]) -> Assert {
        assert_cmd::Command::new(BINARY)
            .args(arguments)
            .env("XDG_STATE_HOME", self.0.path())
            .env("NO_COLOR", "1")
            .assert()
    }

    /// A simulated run recorded under a name, as if on a day of November; its exit code.
    fn demo(&self, day: u32, seed: u32, scenario: &str) -> PathBuf {
        let path = self
            .runs()
            .join(format!("2026-11-{day:02}T10-15-00Z-{seed}.jsonl"));
        let text = format!("nodes = 8\nrails = 2\n{scenario}");
        let file = self.0.path().join("scenario.toml");
        fs::write(&file, text).expect("a scenario");
        let (file, record) = (file.display().to_string(), path.display().to_string());
        let seed = seed.to_string();
        let words = [
            "demo",
            "--scenario",
            &file,
            "--seed",
            &seed,
            "--record",
            &record,
        ];
        self.linerate(&words);
        assert!(path.is_file(), "{record} was not recorded");
        path
    }
}

fn says(words: &str) -> predicates::str::ContainsPredicate {
    predicate::str::contains(words)
}

const HALF: &str = "[[slow_nic]]\nnode = \"node005\"\nrail = 1\ndirection = \"tx\"\nratio = 0.5\n";

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn two_seeds_are_alike_and_a_half_nic_is_a_regression() {
    let state = State::new();
    let first = state.demo(27, 1, "");
    let second = state.demo(28, 2, "");
    let half = state.demo(29, 3, HALF);
    state
        .linerate(&["compare", &text(&first), &text(&second)])
        .code(0)
        .stdout(says("SIMULATED").and(says("NO REGRESSION")));
    state
        .linerate(&["compare", "latest~1"])
        .code(1)
        .stdout(says("1 REGRESSION:").and(says("SLOWER mlx5_1 of node005 (rail 1) sends")))
        .stdout(says("half-bandwidth is found now"));
    // The other way round it is faster.
    state
        .linerate(&["compare", "latest", "latest~2"])
        .code(0)
        .stdout(says("FASTER mlx5_1 of node005"))
        .stderr(says("began after"));
    let out = state.0.path().join("changes.json");
    let words = [
        "compare",
        &text(&first),
        "2026-11-29",
        "--format",
        "json",
        "-o",
        &text(&out),
    ];
    state.linerate(&words).code(1).stdout("");
    let json: Value = serde_json::from_slice(&fs::read(&out).expect("a file")).expect("JSON");
    assert_eq!(
        (&json["schema"], &json["exit_code"]),
        (&Value::from(1), &Value::from(1))
    );
    assert_eq!(json["rates"]["changes"][0]["of"], "nic_direction");
    assert_eq!(json["rates"]["changes"][0]["node"], "node005");
    assert_eq!(json["simulated"], true);
    let over = ["compare", &text(&first), "latest", "-o", &text(&half)];
    state
        .linerate(&over)
        .code(2)
        .stderr(says("would overwrite the record"));
}

#[test]
fn a_lost_node_and_a_run_of_fewer_nodes_cannot_be_compared() {
    let state = State::new();
    let first = state.demo(27, 1, "");
    state.demo(28, 2, "[[lost_node]]\nnode = \"node008\"\n");
    state.linerate(&["compare", &text(&first)]).code(3).stdout(
        says("COULD NOT COMPARE EVERYTHING")
            .and(says("node, node008: because it was not reached after")),
    );
}

#[test]
fn what_is_no_run_is_bad_usage() {
    let state = State::new();
    state
        .linerate(&["compare", "latest"])
        .code(2)
        .stderr(says("there is no `latest`"));
    state.demo(27, 1, "");
    state
        .linerate(&["compare", "latest~1"])
        .code(2)
        .stderr(says("only 1 run that is over is"));
    state
        .linerate(&["compare", "latest~x"])
        .code(2)
        .stderr(says("stands a number"));
    state
        .linerate(&["compare", "nowhere"])
        .code(2)
        .stderr(says("no file and no recorded run `nowhere`"));
    state
        .linerate(&["compare", "/nowhere/run.jsonl"])
        .code(2)
        .stderr(says("cannot be opened"));
    let junk = state.0.path().join("junk.jsonl");
    fs::write(&junk, "no record\n").expect("a file");
    state
        .linerate(&["compare", &text(&junk)])
        .code(2)
        .stderr(says("line 1: no event"));
    fs::write(&junk, "").expect("a file");
    state
        .linerate(&["compare", &text(&junk)])
        .code(2)
        .stderr(says("does not begin with the start of a run"));
    state
        .linerate(&["compare", "latest", "latest", "-f", "xml"])
        .code(2)
        .stderr(says("text, json"));
}

#[test]
fn a_history_lists_whatever_is_there() {
    let state = State::new();
    state
        .linerate(&["history"])
        .code(0)
        .stdout(says("No run is on record."));
    state.demo(27, 1, "");
    let torn = state.demo(28, 2, HALF);
    let whole = fs::read(&torn).expect("a record");
    fs::write(&torn, &whole[..whole.len() - 20]).expect("a record");
    let changed = state.demo(29, 3, "");
    let lines = fs::read_to_string(&changed).expect("a record");
    fs::write(&changed, lines.replacen("\"seq\":5,", "\"seq\":6,", 1)).expect("a record");
    fs::write(state.runs().join("notes.txt"), "mine").expect("a file");
    let list = state.linerate(&["history"]).code(0);
    list.stdout(
        says("latest")
            .and(says("at line rate"))
            .and(says("cut off, torn")),
    )
    .stdout(
        says("Not read:")
            .and(says("the record was changed"))
            .and(says("notes.txt")),
    );
    let list = state
        .linerate(&["history", "--format", "json", "--limit", "1"])
        .code(0);
    let json: Value = serde_json::from_slice(&list.get_output().stdout).expect("JSON");
    assert_eq!(json["left_out"], 2);
}

#[test]
fn only_what_is_not_kept_is_removed() {
    let state = State::new();
    let runs: Vec<PathBuf> = (1..=3).map(|n| state.demo(20 + n, n, "")).collect();
    let mine = state.runs().join("baseline.jsonl");
    fs::copy(&runs[0], &mine).expect("a copy");
    let left = || runs.iter().filter(|path| path.exists()).count();
    state
        .linerate(&["history", "--prune"])
        .code(2)
        .stderr(says("nothing says what to keep"));
    state.linerate(&["history", "--keep-runs", "1"]).code(2);
    let dry = ["history", "--prune", "--keep-runs", "2", "--dry-run"];
    state
        .linerate(&dry)
        .code(0)
        .stdout(says("1 recorded run would be removed"));
    assert_eq!(left(), 3);
    let config = state.0.path().join("cluster.toml");
    fs::write(&config, "nodes = [\"n1\"]\n[record]\nkeep_runs = 1\n").expect("a file");
    state
        .linerate(&["history", "--prune", "--config", &text(&config)])
        .code(0)
        .stdout(says("2 recorded runs removed"));
    assert!(left() == 1 && runs[2].exists() && mine.exists());
    let none = ["history", "--prune", "--keep-days", "30"];
    state
        .linerate(&none)
        .code(0)
        .stdout("no recorded run needs to be removed\n");
    fs::write(
        &config,
        "nodes = [\"n1\"]\n[record]\nkeep_runs = 0\nkepe_days = 3\n",
    )
    .expect("a file");
    state
        .linerate(&["config", "check", &text(&config)])
        .code(2)
        .stderr(says(&format!("{}:3:13", text(&config))).and(says("keep_days")));
}
