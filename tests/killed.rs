//! The controller is killed at random moments, and the run goes on from its record: no agent is left, no
//! line is lost, nothing is measured twice, and the verdict is that of a run that was not cut.
//!
//! Through agents of their own processes on this machine, so that a kill costs little. The same with
//! traffic is a case of the lab.

#[path = "support/record.rs"]
mod record;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use record::Recorded;

const BINARY: &str = env!("CARGO_BIN_EXE_linerate");

/// The longest that an agent may outlive its controller: its lease is 15 s.
const GONE_WITHIN: Duration = Duration::from_secs(20);

const KILLS: usize = 20;

/// Two nodes that are both this machine, with a folder for what they make.
struct Cluster {
    dir: tempfile::TempDir,
    config: PathBuf,
}

impl Cluster {
    fn new() -> Cluster {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let config = dir.path().join("cluster.toml");
        let text = format!(
            "nodes = [\"here[1-2]\"]\n[ssh]\ncarrier = \"local\"\nuser = \"operator\"\ndirectory = {:?}\n",
            dir.path().display().to_string()
        );
        std::fs::write(&config, text).expect("a cluster file");
        Cluster { dir, config }
    }

    fn report(&self, how: &str, record: &Path) -> Command {
        let mut command = Command::new(BINARY);
        command
            .arg("report")
            .arg("--config")
            .arg(&self.config)
            .arg(how)
            .arg(record)
            .args(["-f", "json"]);
        command
    }

    /// Processes whose program lies in the folder: agents.
    fn agents(&self) -> Vec<String> {
        let mut found = Vec::new();
        for process in std::fs::read_dir("/proc").expect("processes").flatten() {
            let program = std::fs::read_link(process.path().join("exe"));
            if program.is_ok_and(|program| program.starts_with(self.dir.path())) {
                found.push(process.file_name().to_string_lossy().into_owned());
            }
        }
        found
    }

    /// Runs this to its end; agents must show meanwhile, or nothing would be learned of none.
    fn has_agents_while(&self, mut run: Command) {
        let mut run = run.stdout(Stdio::null()).spawn().expect("it starts");
        let mut seen = false;
        while run.try_wait().expect("a child").is_none() {
            seen = seen || !self.agents().is_empty();
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(seen, "no agent was seen in {}", self.dir.path().display());
    }

    fn no_agent_is_left(&self, moment: &str) {
        let end = Instant::now() + GONE_WITHIN;
        loop {
            let agents = self.agents();
            if agents.is_empty() {
                return;
            }
            assert!(
                Instant::now() < end,
                "{moment}: agents are left: {agents:?}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// What a report states, without what differs from run to run.
fn verdict(output: &Output) -> serde_json::Value {
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let keep = |key: &str| report[key].clone();
    serde_json::json!({
        "code": output.status.code(),
        "run": keep("run"),
        "verdict": keep("verdict"),
        "findings": keep("findings"),
        "coverage": keep("coverage"),
    })
}

#[test]
fn a_run_goes_on_wherever_it_was_killed() {
    let cluster = Cluster::new();
    let path = |name: &str| cluster.dir.path().join(name);
    // The first also puts the agent in place; the second is as long as those that are killed.
    cluster.has_agents_while(cluster.report("--record", &path("first")));
    let began = Instant::now();
    let whole = cluster.report("--record", &path("whole")).output().unwrap();
    let length = began.elapsed();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for time in 0..KILLS {
        let after = length.mul_f64(random.f64());
        let moment = format!("kill {time} after {after:?} of {length:?}, seed {seed}");
        let record = path(&format!("cut{time}"));
        let mut run = cluster.report("--record", &record);
        let mut run = run
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(after);
        run.kill().unwrap();
        run.wait().unwrap();
        cluster.no_agent_is_left(&moment);
        let before = std::fs::read(&record).unwrap_or_default();
        let Some(last) = before.iter().rposition(|byte| *byte == b'\n') else {
            // Before the run was there at all.
            continue;
        };
        let resumed = cluster.report("--resume", &record).output().unwrap();
        assert_eq!(verdict(&resumed), verdict(&whole), "{moment}");
        let after = std::fs::read(&record).unwrap();
        assert!(
            after.starts_with(&before[..=last]),
            "{moment}: lines are lost"
        );
        let again = Recorded::read(&record).measured_again();
        assert!(again.is_empty(), "{moment}: {again:?}");
        cluster.no_agent_is_left(&moment);
    }
}
