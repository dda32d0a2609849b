//! What the supervisor is asked over its socket, and what it answers: one JSON line each.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::fault::Fault;
use crate::options::{Accel, NodePlan};
use crate::rate::Rate;
use crate::state::StateDir;
use crate::switch::Counters;

/// A request; the answer to each is a [`Reply`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// How the lab stands.
    Status,
    /// From now on the lab ends when this connection does.
    Hold,
    /// Takes [`Request::Hold`] back.
    Release,
    /// Adds a fault.
    Fault(Fault),
    /// Takes this fault away, or all.
    Heal(Option<Fault>),
    /// Pulls a node's plug.
    Kill(String),
    /// Boots a node that was killed.
    Start(String),
    /// Ends the lab.
    Down,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Done; this is how the lab stands now.
    Done(Box<Status>),
    /// Not done, and why.
    Refused(String),
}

/// Where a node's life stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// On its way up.
    Booting,
    /// Its sshds answer and its RDMA devices exist.
    Up,
    /// Killed on request.
    Stopped,
    /// Did not come up, or went down by itself: why.
    Failed(String),
}

/// How the lab stands; also what `lab.json` holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of this format.
    pub schema: u32,
    /// State directory.
    pub dir: PathBuf,
    /// Process of the supervisor.
    pub supervisor_pid: u32,
    /// `kvm` or `tcg`.
    pub accel: Accel,
    /// Release of the guests' kernel.
    pub kernel: String,
    /// Rate of every healthy link in each direction.
    pub rate: Option<Rate>,
    /// Faults now in effect.
    pub faults: Vec<Fault>,
    /// The nodes.
    pub nodes: Vec<NodeStatus>,
}

/// How one node stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Name, ports, rails.
    #[serde(flatten)]
    pub plan: NodePlan,
    /// Where its life stands.
    pub phase: Phase,
    /// Its QEMU, while that runs.
    pub pid: Option<u32>,
    /// Seconds from the start of QEMU until it was up.
    pub boot_s: Option<f64>,
    /// Its console's file.
    pub console: PathBuf,
    /// What crossed its link to each rail, in rail order.
    pub counters: Vec<Counters>,
}

/// A connection to a supervisor.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    dir: PathBuf,
}

impl Client {
    /// Connects to the lab of a state directory.
    ///
    /// # Errors
    /// [`LabError::Down`] when none runs there.
    pub fn connect(dir: &Path) -> Result<Client> {
        let path = StateDir::new(dir).control();
        let stream = UnixStream::connect(&path).map_err(|_| LabError::Down(dir.to_owned()))?;
        // Requests are answered at once; one that is not means a supervisor that hangs.
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .map_err(LabError::file("cannot use", &path))?;
        Ok(Client {
            stream: BufReader::new(stream),
            dir: dir.to_owned(),
        })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// When the supervisor refuses, does not answer, or is gone.
    pub fn ask(&mut self, request: &Request) -> Result<Status> {
        let gone = |e: String| {
            let log = StateDir::new(&self.dir).supervisor_log();
            LabError::Supervisor(format!("{e}; see {}", log.display()))
        };
        let mut line = serde_json::to_string(request).map_err(|e| gone(e.to_string()))?;
        line.push('\n');
        self.stream
            .get_mut()
            .write_all(line.as_bytes())
            .map_err(|e| gone(e.to_string()))?;
        let mut answer = String::new();
        if self
            .stream
            .read_line(&mut answer)
            .map_err(|e| gone(e.to_string()))?
            == 0
        {
            return Err(gone("it ended without an answer".into()));
        }
        match serde_json::from_str(&answer).map_err(|e| gone(e.to_string()))? {
            Reply::Done(status) => Ok(*status),
            Reply::Refused(why) => Err(LabError::Supervisor(why)),
        }
    }
}
