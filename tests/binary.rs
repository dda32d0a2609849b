//! The built binary on this machine, without a node: what it links to, what it says to bad usage.

use std::path::Path;
use std::process::Command;

use assert_cmd::assert::Assert;
use predicates::prelude::*;

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

/// A file in a folder that goes away with it.
fn file(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a temporary file");
    let path = dir.path().join("cluster.toml");
    std::fs::write(&path, text).expect("a temporary file");
    let path = path.display().to_string();
    (dir, path)
}

/// A node without rdma-core must still be able to start the agent.
#[test]
fn the_binary_does_not_need_libibverbs() {
    let output = match Command::new("readelf").arg("-d").arg(BINARY).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: readelf is missing (package binutils): {error}");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let needed: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .collect();
    assert!(
        needed.iter().any(|line| line.contains("libc.so")),
        "no libc? {text}"
    );
    assert!(
        !needed.iter().any(|line| line.contains("ibverbs")),
        "{needed:#?}"
    );
}

#[test]
fn help_names_the_commands_and_the_exit_codes() {
    let commands = [
        "report",
        "replay",
        "watch",
        "inspect",
        "config",
        "Exit codes:",
    ]
    .map(says);
    let help = linerate(&["--help"]).code(0);
    commands.into_iter().fold(help, Assert::stdout);
    // Without anything typed the same is shown, as an error.
    linerate(&[]).code(2).stderr(says("Usage: linerate"));
}

#[test]
fn a_wrong_flag_is_bad_usage_and_the_right_one_is_near() {
    linerate(&["report", "--confg", "cluster.toml"])
        .code(2)
        .stdout("")
        .stderr(says("unexpected argument '--confg'").and(says("--config")));
    linerate(&["repot"])
        .code(2)
        .stderr(says("repot").and(says("report")));
    linerate(&["report"])
        .code(2)
        .stderr(says("<NODES|--config <FILE>>"));
}

#[test]
fn a_bad_cluster_file_is_shown_where_it_is_bad() {
    let (_dir, path) = file("nodes = [\"node[01-02]\"]\n\n[probe]\nmesage_size = \"16 KiB\"\n");
    for command in [
        &["config", "check", &path][..],
        &["report", "--config", &path],
    ] {
        linerate(command)
            .code(2)
            .stdout("")
            .stderr(says(&format!("{path}:4:1")).and(says("message_size")));
    }
}

#[test]
fn a_cluster_file_that_is_not_there() {
    linerate(&["report", "--config", "/nonexistent/cluster.toml"])
        .code(2)
        .stderr(says(
            "linerate: cannot read /nonexistent/cluster.toml: No such file",
        ));
}

#[test]
fn a_good_cluster_file_is_called_good() {
    let (_dir, path) = file("nodes = [\"node[01-02]\"]\n[ssh]\nuser = \"operator\"\n");
    linerate(&["config", "check", &path])
        .code(0)
        .stdout(says("good: 2 nodes"));
}

#[test]
fn leaf_groups_come_from_a_file_that_is_named() {
    let (_dir, topology) = file("SwitchName=s1 Nodes=node[01-02]\nSwitchName=s2 Nodes=node03\n");
    let text = format!("nodes = [\"node[01-04]\"]\n[sweep]\ntopology_conf = {topology:?}\n");
    let (_other, path) = file(&text);
    let note = format!("note: node04 is in no leaf group of {topology}");
    linerate(&["config", "check", &path])
        .code(0)
        .stdout(says("; 2 leaf groups").and(says(&note)));
    std::fs::write(&topology, "SwitchName=s1 Nodes=node[01-02\n").unwrap();
    linerate(&["config", "check", &path])
        .code(2)
        .stderr(says(&format!("{topology}:1:25")).and(says("never closed")));
    std::fs::remove_file(&topology).unwrap();
    linerate(&["report", "--config", &path])
        .code(2)
        .stderr(says(&format!("linerate: cannot read {topology}")));
}

#[test]
fn a_pattern_of_nodes_that_are_not_there_is_bad_usage() {
    linerate(&["demo", "--one", "node1"])
        .code(2)
        .stdout("")
        .stderr(says("did you mean `node001`?"));
    linerate(&["report", "n[1-2]", "--pairs", "n1:n3"])
        .code(2)
        .stderr(says("--pairs: `n3` is not among the nodes of the run"));
    linerate(&["report", "n[1-2]", "--exclude", "n[1-2]"])
        .code(2)
        .stderr(says("--exclude: every node is excluded"));
}

/// On any machine: without RDMA devices too.
#[test]
fn this_machine_can_be_inspected() {
    let name = nix::unistd::gethostname().unwrap().into_string().unwrap();
    linerate(&["inspect"]).code(0).stdout(says(&name));
    let json = linerate(&["inspect", "--format", "json"]).code(0);
    let facts: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert_eq!(facts["hostname"]["value"], name.as_str());
    // A fact is known, or says why it is not.
    for fact in ["libibverbs", "memlock", "rdma"] {
        let fact = &facts[fact];
        assert!(
            fact["value"].is_null() != fact["unknown"].is_null(),
            "{fact:#}"
        );
    }
}

#[test]
fn a_matrix_of_another_machine_can_be_read() {
    let (_dir, path) = file("\tGPU0\tNIC0\nGPU0\t X \tPIX\nNIC0\tPIX\t X \n\nNIC0: mlx5_3\n");
    let nearest = says("nearest: NIC0 (mlx5_3) (PIX)");
    linerate(&["inspect", "--topo", &path])
        .code(0)
        .stdout(nearest);
    let json = linerate(&["inspect", "--topo", &path, "--format", "json"]).code(0);
    let matrix: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert_eq!(matrix["devices"][0]["nearest"]["nics"][0], "NIC0");

    let (_dir, path) = file("GPU0 is fine\n");
    let refused = says("line 1: the text ends, and no line of it is a heading");
    linerate(&["inspect", "--topo", &path])
        .code(2)
        .stderr(refused);
    let missing = says("linerate: cannot read /nonexistent: No such file");
    linerate(&["inspect", "--topo", "/nonexistent"])
        .code(2)
        .stderr(missing);
    // Standard input is empty here.
    let empty = says("linerate: standard input: line 1: the text ends");
    linerate(&["inspect", "--topo", "-"]).code(2).stderr(empty);
}

/// Nothing but the binary is needed.
#[test]
fn a_demo_says_everywhere_that_it_is_simulated() {
    let text = linerate(&["demo"]).code(1).stderr("");
    text.stdout(predicate::str::starts_with("SIMULATED: ").and(says("FAULT half-bandwidth")));
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("run.jsonl");
    let wanted = ["demo", "--nodes", "3", "--rails", "1", "--format", "json"];
    let more = ["--record", record.to_str().unwrap()];
    let json = linerate(&[&wanted[..], &more].concat());
    let json = json
        .code(0)
        .stderr(says("faults of the scenario are left out"));
    let report: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert_eq!(report["simulated"], true);
    assert_eq!(report["coverage"]["measured"], 6);
    let record = std::fs::read_to_string(record).unwrap();
    assert!(record.contains("\"simulated\":true"), "{record}");
}

#[test]
fn a_scenario_is_simulated_and_a_bad_one_is_shown_where_it_is_bad() {
    let shown = linerate(&["demo", "--show-scenario"]).code(0);
    let shown = String::from_utf8_lossy(&shown.get_output().stdout).into_owned();
    let (_dir, path) = file(&shown);
    let own = linerate(&["demo", "--scenario", &path]).code(1);
    let built_in = linerate(&["demo"]).code(1);
    assert_eq!(own.get_output().stdout, built_in.get_output().stdout);
    let (_dir, path) = file("nodes = 4\n\n[[slow_nic]]\nnode = \"node9\"\n");
    linerate(&["demo", "--scenario", &path])
        .code(2)
        .stdout("")
        .stderr(says(&format!("{path}:4:8")).and(says("node001 to node004")));
}

/// A folder with the counters of a NIC, and the file of what it has sent, in words of 4 bytes.
fn counters() -> (tempfile::TempDir, std::path::PathBuf) {
    let root = tempfile::tempdir().expect("a temporary folder");
    let port = root.path().join("sys/class/infiniband/mlx5_0/ports/1");
    std::fs::create_dir_all(port.join("counters")).expect("a folder of counters");
    for (name, text) in [
        ("link_layer", "InfiniBand"),
        ("counters/port_rcv_data", "0"),
        ("counters/link_downed", "255"),
        ("counters/port_xmit_data", "00000000000000001000"),
    ] {
        std::fs::write(port.join(name), text).expect("a folder of counters");
    }
    let sent = port.join("counters/port_xmit_data");
    (root, sent)
}

#[test]
fn a_watch_shows_what_the_counters_do() {
    let (root, sent) = counters();
    let watch = |format: &str| {
        let root = root.path().to_str().unwrap();
        let mut command = assert_cmd::Command::new(BINARY);
        command.args(["watch", "--root", root, "--format", format]);
        command.args(["--interval", "0.2", "--count", "3"]);
        command.assert().code(0)
    };
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let busy = std::thread::spawn(move || {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().write(true).open(sent).unwrap();
        let mut words: u64 = 1000;
        let pause = std::time::Duration::from_millis(5);
        while stopped.recv_timeout(pause).is_err() {
            words += 1_000_000;
            // In place: a reader never sees it empty, as it never sees a file of sysfs so.
            let text = format!("{words:020}");
            file.write_all_at(text.as_bytes(), 0).unwrap();
        }
    });
    let json = watch("json");
    let text = watch("text");
    stop.send(()).unwrap();
    busy.join().unwrap();

    let json = String::from_utf8_lossy(&json.get_output().stdout).into_owned();
    let ticks: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(ticks.len(), 3, "{json}");
    let nic = |tick: &serde_json::Value| tick["nodes"][0]["nics"][0].clone();
    assert!(
        ticks
            .iter()
            .any(|tick| nic(tick)["tx_gbps"].as_f64() > Some(0.0)),
        "{json}"
    );
    assert_eq!(nic(&ticks[2])["rx_gbps"], 0.0);
    let end = &nic(&ticks[2])["unknown"]["errors"];
    assert_eq!(end, "link_downed has reached its end and counts no more");
    text.stdout(says("tx Gb/s").and(says("mlx5_0")));
}

#[test]
fn ctrl_c_ends_a_watch_cleanly() {
    let (root, _sent) = counters();
    let root = root.path().to_str().unwrap();
    let child = Command::new(BINARY)
        .args(["watch", "--root", root, "--interval", "0.1"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.ends_with('\n') && text.contains("mlx5_0"), "{text}");
}

/// Through an agent of its own process, as on a node.
#[test]
fn an_agent_with_nothing_to_watch_says_so_and_ends() {
    let (dir, path) = file("");
    let directory = dir.path().display();
    let config = format!(
        "nodes = [\"here\"]\n[ssh]\ncarrier = \"local\"\nuser = \"operator\"\ndirectory = \"{directory}\"\n"
    );
    std::fs::write(&path, config).unwrap();
    if Path::new("/sys/class/infiniband").exists() {
        eprintln!("SKIPPED: this machine has RDMA devices");
        return;
    }
    linerate(&["watch", "--config", &path])
        .code(3)
        .stdout(says("here").and(says("nothing to watch: /sys/class/infiniband")));
}

/// The run would be lost: it is not even begun, which a record of it would show.
#[test]
fn a_report_that_cannot_be_written_stops_the_run_before_it_begins() {
    let (dir, path) = file("nodes = [\"nowhere\"]\n[ssh]\nuser = \"operator\"\n");
    let record = dir.path().join("run.jsonl");
    let missing = "/nonexistent/report.json";
    linerate(&[
        "report",
        "--config",
        &path,
        "--record",
        record.to_str().unwrap(),
        "-o",
        missing,
    ])
    .code(2)
    .stdout("")
    .stderr(says(
        "linerate: cannot write /nonexistent/report.json: No such file",
    ));
    assert!(!record.exists());
}

/// A record is never overwritten: it may be the only trace of another run.
#[test]
fn a_record_that_exists_is_left_alone() {
    let (_dir, path) = file("nodes = [\"nowhere\"]\n[ssh]\nuser = \"operator\"\n");
    linerate(&["report", "--config", &path, "--record", &path])
        .code(2)
        .stderr(says("exists already, and a record is never overwritten"));
    assert!(Path::new(&path).exists());
}

/// A cluster file of nodes that are all this machine, and a folder for what they make.
fn local(nodes: &str) -> (tempfile::TempDir, String) {
    let (dir, path) = file("");
    let directory = dir.path().display();
    let config = format!(
        "nodes = [\"{nodes}\"]\n[ssh]\ncarrier = \"local\"\nuser = \"operator\"\ndirectory = \"{directory}\"\n"
    );
    std::fs::write(&path, config).expect("a cluster file");
    (dir, path)
}

/// What a command wrote to standard output, and its exit code.
fn told(assert: &Assert) -> (String, Option<i32>) {
    let output = assert.get_output();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text, output.status.code())
}

/// Through agents of their own processes; two nodes that are one machine.
#[test]
fn a_run_is_replayed_and_goes_on_where_it_was_cut() {
    let (dir, config) = local("here[1-2]");
    let record = dir.path().join("run.jsonl");
    let file = record.to_str().unwrap();
    let live = [
        "report", "--config", &config, "--record", file, "-f", "json",
    ];
    let (json, code) = told(&linerate(&live));
    assert_ne!(code, Some(2), "{json}");
    let replay = ["replay", file, "-f", "json"];
    assert_eq!(told(&linerate(&replay)), (json.clone(), code));
    let whole = std::fs::read_to_string(&record).unwrap();
    let resume = [
        "report", "--config", &config, "--resume", file, "-f", "json",
    ];
    let complete = linerate(&resume).stderr(says("the run is complete, so nothing is measured"));
    assert_eq!(told(&complete), (json.clone(), code));
    assert_eq!(std::fs::read_to_string(&record).unwrap(), whole);

    // Without its last line and half of the one before.
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let kept: usize = lines[..lines.len() - 2].iter().map(|line| line.len()).sum();
    std::fs::write(&record, &whole[..kept + 20]).unwrap();
    let torn = says("the record ends in the middle of a line: the run was cut off");
    linerate(&replay).code(3).stderr(torn.clone());
    let (_other_dir, other) = local("here[1,3]");
    linerate(&["report", "--config", &other, "--resume", file])
        .code(2)
        .stdout("")
        .stderr(says(
            "here2 only in the record; here3 only in what is asked for",
        ));
    assert_eq!(std::fs::metadata(&record).unwrap().len(), kept as u64 + 20);
    let (again, again_code) = told(&linerate(&resume).stderr(torn));
    assert_eq!(again_code, code, "{again}");
    let seed = |json: &str| {
        let report: serde_json::Value = serde_json::from_str(json).unwrap();
        (
            report["run"].clone(),
            report["settings"].clone(),
            report["coverage"].clone(),
        )
    };
    assert_eq!(seed(&again), seed(&json));
    let now = std::fs::read_to_string(&record).unwrap();
    assert!(
        now.starts_with(&whole[..kept]) && now[kept..].contains("run_resumed"),
        "{now}"
    );
    assert_eq!(told(&linerate(&replay)), (again, code));
}

/// However far it came: a record that has one line goes on.
#[test]
fn a_run_that_is_killed_goes_on() {
    let (dir, config) = local("here[1-2]");
    let record = dir.path().join("run.jsonl");
    let file = record.to_str().unwrap();
    let mut child = Command::new(BINARY)
        .args(["report", "--config", &config, "--record", file])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let lines = || std::fs::read_to_string(&record).map_or(0, |text| text.lines().count());
    while lines() < 2 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let resume = ["report", "--config", &config, "--resume", file];
    let (text, code) = told(&linerate(&resume));
    assert!(text.contains("2 of 2 nodes"), "{text}");
    assert_eq!(told(&linerate(&["replay", file])), (text, code));
}

#[test]
fn a_record_that_another_run_writes_to_is_left_alone() {
    let (dir, config) = local("here[1-2]");
    let record = dir.path().join("run.jsonl");
    let held = std::fs::File::create(&record).unwrap();
    held.lock().unwrap();
    linerate(&[
        "report",
        "--config",
        &config,
        "--resume",
        record.to_str().unwrap(),
    ])
    .code(2)
    .stderr(says("another linerate writes to").and(says("one run at a time")));
}

#[test]
fn what_is_no_record_is_not_replayed() {
    let (_dir, foreign) = file("nodes = [\"n1\"]\n");
    linerate(&["replay", &foreign])
        .code(2)
        .stdout("")
        .stderr(says("line 1: no event").and(says("nodes = ")));
    let (_dir, empty) = file("");
    linerate(&["replay", &empty])
        .code(2)
        .stderr(says("does not begin with the start of a run"));
    linerate(&["replay", "/nonexistent/run.jsonl"])
        .code(2)
        .stderr(says(
            "the record /nonexistent/run.jsonl cannot be opened: No such file",
        ));
}

/// A full disk, or a reader that left, is an error like others and no panic.
#[test]
fn output_that_nobody_takes_is_told() {
    for arguments in [&["inspect"][..], &["config", "show-default"]] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = Command::new(BINARY)
            .args(arguments)
            .stdout(full)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.starts_with("linerate: cannot write"), "{said}");
        assert!(said.contains("No space left on device"), "{said}");
    }
}

/// A driver library for tests, whose GPUs are host memory, in a folder for LD_LIBRARY_PATH. `None`, loudly,
/// where there is no compiler.
fn stand_in_for_cuda(wrong: &str) -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/cuda.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-DWHOLE"])
        .arg(format!("-DWRONG=\"{wrong}\""))
        .arg("-o")
        .arg(dir.path().join("libcuda.so.1"))
        .arg(source)
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "cc failed on {source}"),
        Err(error) => {
            eprintln!("SKIPPED: no C compiler: {error}");
            return None;
        }
    }
    Some(dir)
}

#[test]
fn gpus_that_are_none_are_said_to_be_that() {
    let Some(dir) = stand_in_for_cuda("") else {
        return;
    };
    let check = |format: &str| {
        let mut command = assert_cmd::Command::new(BINARY);
        let command = command.args(["gpu-check", "--format", format]);
        command.env("LD_LIBRARY_PATH", dir.path()).output()
    };
    let text = check("text").expect("it runs");
    let shown = String::from_utf8_lossy(&text.stdout);
    assert!(shown.starts_with("STAND-IN: "), "{shown}");
    assert!(shown.contains("GPU 0000:9a:00.0  Stand-in GPU"), "{shown}");
    assert!(
        shown.contains("copies: ") && !shown.contains("copies: unknown"),
        "{shown}"
    );
    let json = check("json").expect("it runs");
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(report["stand_in_gpu"], true);
    let to_gpu = &report["gpus"][0]["copies"]["value"]["to_gpu"];
    assert!(to_gpu.as_f64() > Some(0.0), "{report:#}");
}

#[test]
fn without_a_driver_nothing_is_claimed_of_gpus() {
    let nowhere = tempfile::tempdir().expect("a temporary folder");
    let mut command = assert_cmd::Command::new(BINARY);
    let checked = command
        .arg("gpu-check")
        .env("LD_LIBRARY_PATH", nowhere.path())
        .assert();
    // A machine with NVIDIA's driver has its own to say.
    if checked.get_output().status.code() == Some(3) {
        checked.stderr(says("libcuda.so.1").or(says("cuInit")));
    }
}

/// Nothing breaks cuInit off, and the libraries' destructors may wait for it: the process ends all the same.
#[test]
fn a_driver_that_hangs_holds_nobody() {
    let Some(dir) = stand_in_for_cuda("wedged") else {
        return;
    };
    assert_cmd::Command::new(BINARY)
        .arg("gpu-check")
        .env("LD_LIBRARY_PATH", dir.path())
        .timeout(std::time::Duration::from_secs(120))
        .assert()
        .code(3)
        .stderr(says("the CUDA driver did not answer cuInit within 10 s"));
}
