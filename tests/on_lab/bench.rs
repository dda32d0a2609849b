//! The lab as the cases use it: cluster files made from the lab's own, changes to nodes that are undone,
//! and questions to nodes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use linerate_lab::control::{NodeStatus, Phase};
use linerate_lab::{Lab, Options};
use toml::{Table, Value};

use crate::accept;
use crate::lab_binary;
use crate::running::{Report, Running};

/// The longest that a process of linerate may outlive its controller on a node.
pub const GONE_WITHIN: Duration = Duration::from_secs(5);

/// All nodes of a lab of three.
pub const NODES: [&str; 3] = ["node01", "node02", "node03"];

/// All nodes of a lab of four.
pub const FOUR: [&str; 4] = ["node01", "node02", "node03", "node04"];

/// The rate of a healthy link of every lab here, in Gb/s.
pub const RATE: f64 = 0.008;

/// What sort of lab a case runs on; cases of one sort share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// How many nodes.
    pub nodes: usize,
    /// The nodes' PCIe tree.
    pub pcie: &'static str,
    /// Faults from the start.
    pub faults: &'static [&'static str],
}

/// A lab, what was changed in it, and room for files.
pub struct Bench {
    pub lab: Lab,
    dir: tempfile::TempDir,
    /// Scripts that undo what a case did, the last first, each with its node.
    undo: Vec<(String, String)>,
    case: &'static str,
    files: usize,
}

impl Bench {
    /// Brings a lab up, with these faults from the start, which goes down with this program however
    /// that ends.
    ///
    /// # Errors
    /// Why it does not come up.
    pub fn up(kind: &Kind) -> Result<Bench, String> {
        lab_binary::built()?;
        let dir = tempfile::Builder::new()
            .prefix("linerate-on-lab-")
            .tempdir()
            .map_err(|error| format!("no temporary directory: {error}"))?;
        let faults = kind
            .faults
            .iter()
            .map(|fault| fault.parse().expect("a fault"));
        let options = Options {
            nodes: kind.nodes,
            dir: dir.path().join("lab"),
            base_port: 0,
            tether: true,
            pcie: kind.pcie.to_owned(),
            faults: faults.collect(),
            ..Options::default()
        };
        let lab = Lab::up(&options).map_err(|error| error.to_string())?;
        Ok(Bench {
            lab,
            dir,
            undo: Vec::new(),
            case: "",
            files: 0,
        })
    }

    /// Names the case that comes next.
    pub fn begin(&mut self, case: &'static str) {
        self.case = case;
    }

    /// Copies the files of the case to a directory of its own below `to`.
    pub fn keep_files(&self, to: &Path) {
        let kept = (1..)
            .map(|number| to.join(format!("{}-{number}", self.case)))
            .find(|dir| !dir.exists());
        let Some(kept) = kept else { return };
        if let Err(error) = std::fs::create_dir_all(&kept) {
            return eprintln!("{}: {error}", kept.display());
        }
        let files = std::fs::read_dir(self.dir.path()).into_iter().flatten();
        for file in files.flatten() {
            let name = file.file_name();
            if name.to_string_lossy().starts_with(self.case) {
                let _ = std::fs::copy(file.path(), kept.join(name));
            }
        }
    }

    /// Undoes what a case did.
    ///
    /// # Errors
    /// What could not be undone.
    pub fn restore(&mut self) -> Result<(), String> {
        self.lab.heal().map_err(|error| error.to_string())?;
        let status = self.lab.status().map_err(|error| error.to_string())?;
        let mut wrong = Vec::new();
        let down = |node: &&NodeStatus| matches!(node.phase, Phase::Stopped | Phase::Failed(_));
        for node in status.nodes.iter().filter(down) {
            let name = &node.plan.name;
            // A node that boots anew has nothing left to undo.
            self.undo.retain(|(changed, _)| changed != name);
            if let Err(error) = self.lab.start(name) {
                wrong.push(error.to_string());
            }
        }
        for (node, script) in std::mem::take(&mut self.undo).into_iter().rev() {
            if let Err(error) = self.try_root(&node, &script) {
                wrong.push(error);
            }
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong.join("; ")),
        }
    }

    /// How a node stands: its ports, its addresses.
    pub fn node(&mut self, name: &str) -> NodeStatus {
        let status = self.lab.status().expect("the lab answers");
        let node = status.nodes.into_iter().find(|node| node.plan.name == name);
        node.unwrap_or_else(|| panic!("no node {name}"))
    }

    /// A path for a new file of this case.
    pub fn path(&mut self, name: &str) -> PathBuf {
        self.files += 1;
        self.dir
            .path()
            .join(format!("{}-{}-{name}", self.case, self.files))
    }

    /// The lab's cluster file, edited, for cases that are not about rates: a machine that is busy otherwise
    /// slows emulated nodes down, and only these thresholds keep that from being found.
    pub fn config(&mut self, edit: impl FnOnce(&mut Table)) -> PathBuf {
        self.strict_config(|table| {
            set(table, &["expect", "half_below"], 0.2);
            set(table, &["expect", "degraded_below"], 0.3);
            edit(table);
        })
    }

    /// The lab's cluster file, edited.
    pub fn strict_config(&mut self, edit: impl FnOnce(&mut Table)) -> PathBuf {
        let text = std::fs::read_to_string(self.lab.cluster_toml()).expect("the lab wrote it");
        let mut table: Table = text.parse().expect("the lab wrote TOML");
        // A login to an emulated node takes seconds, and on a busy machine longer.
        set(&mut table, &["ssh", "connect_timeout"], "30s");
        edit(&mut table);
        let path = self.path("cluster.toml");
        std::fs::write(&path, table.to_string()).expect("a temporary file");
        path
    }

    /// A report over these nodes (all, if none is named) of a cluster file.
    pub fn report(&mut self, config: &Path, nodes: &[&str]) -> Report {
        self.start(config, nodes).finish()
    }

    /// The same, without waiting for it.
    pub fn start(&mut self, config: &Path, nodes: &[&str]) -> Running {
        let (json, record) = (self.path("report.json"), self.path("run.jsonl"));
        Running::start(self.case, config, nodes, json, record)
    }

    /// What moving data costs between all nodes of a cluster file.
    pub fn cost(&mut self, config: &Path, more: &[&str]) -> Report {
        let (json, record) = (self.path("cost.json"), self.path("run.jsonl"));
        Running::cost(self.case, config, more, json, record).finish()
    }

    /// Measures all nodes of a cluster file for the lab's profile: what becomes of that, and the report on
    /// the same run.
    pub fn accept(&mut self, config: &Path) -> (Report, Report) {
        let (json, record) = (self.path("accept.json"), self.path("run.jsonl"));
        let run = Running::accept(self.case, config, accept::PROFILE, json, record.clone());
        let accepted = run.finish();
        let json = self.path("report.json");
        let report = Running::replay(self.case, json, &record).finish();
        (accepted, report)
    }

    /// Goes on with a run that was cut off, and waits for its end.
    pub fn resume(&mut self, config: &Path, record: &Path) -> Report {
        let json = self.path("report.json");
        Running::resume(self.case, config, json, record).finish()
    }

    /// Changes a node as root; `undo` is run after the case.
    pub fn change(&mut self, node: &str, script: &str, undo: &str) {
        self.undo.push((node.to_owned(), undo.to_owned()));
        self.root(node, script);
    }

    /// What linerate prints when root runs it on a node, whatever it makes of what it finds.
    pub fn linerate_on(&mut self, node: &str, arguments: &str) -> String {
        const PLACE: &str = "/tmp/linerate";
        let mut ssh = self.lab.ssh_command("root", node).expect("a node");
        let mut ssh = ssh
            .arg(format!("gzip -dc > {PLACE} && chmod 755 {PLACE}"))
            .stdin(Stdio::piped())
            .spawn()
            .expect("ssh starts");
        let mut binary = File::open(env!("CARGO_BIN_EXE_linerate")).expect("the binary");
        let mut packed = GzEncoder::new(ssh.stdin.take().expect("a pipe"), Compression::fast());
        std::io::copy(&mut binary, &mut packed).expect("the node takes it");
        drop(packed.finish().expect("the node takes it"));
        assert!(ssh.wait().expect("ssh ends").success());
        let said = self.root(node, &format!("{PLACE} {arguments} || :"));
        self.root(node, &format!("rm {PLACE}"));
        said
    }

    /// What a script prints that root runs on a node and that must succeed.
    pub fn root(&mut self, node: &str, script: &str) -> String {
        self.try_root(node, script)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_root(&mut self, node: &str, script: &str) -> Result<String, String> {
        let output = self
            .lab
            .ssh_as("root", node, script)
            .map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(format!(
                "{node}: {script}: {}: {}",
                output.status,
                text(&output.stderr)
            )),
        }
    }

    /// Asserts that no process of the operator is left on these nodes before this time has passed.
    pub fn nothing_is_left_within(&mut self, time: Duration, nodes: &[&str]) {
        let end = Instant::now() + time;
        for node in nodes {
            // ps itself fails where it finds nothing.
            let mut look = || self.root(node, "ps -u operator -o pid=,args= || true");
            let mut processes = look();
            while !processes.trim().is_empty() {
                let late = Instant::now() > end;
                assert!(!late, "still on {node} {time:?} after the end: {processes}");
                std::thread::sleep(Duration::from_millis(500));
                processes = look();
            }
        }
    }

    /// Asserts that five seconds after `ended` no process of the operator is left on these nodes.
    pub fn nothing_is_left(&mut self, nodes: &[&str], ended: Instant) {
        std::thread::sleep((ended + GONE_WITHIN).saturating_duration_since(Instant::now()));
        for node in nodes {
            // ps itself fails where it finds nothing; sshd's own process of a session is told by its title.
            let processes = self.root(node, "ps -u operator -o pid=,args= || true");
            assert_eq!(
                processes.trim(),
                "",
                "still on {node} {GONE_WITHIN:?} after the end"
            );
        }
    }
}

/// Latency is measured of one message size alone.
pub fn one_latency(table: &mut Table) {
    set(table, &["probe", "cost", "latency_sizes"], vec!["2 B"]);
}

/// Sets a value in nested tables, which are made where they are missing.
pub fn set(table: &mut Table, path: &[&str], value: impl Into<Value>) {
    match path {
        [] => {}
        [key] => drop(table.insert((*key).to_owned(), value.into())),
        [key, rest @ ..] => {
            let entry = table
                .entry((*key).to_owned())
                .or_insert_with(|| Table::new().into());
            set(entry.as_table_mut().expect("a table"), rest, value);
        }
    }
}
