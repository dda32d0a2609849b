//! The checked configuration of a cluster.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::{Expect, NodeName, ProbeSpec, RailRule, RunSettings, SweepSettings};

use super::hostlist::{self, HostListError};
use super::problem::nearest_node;

/// Who runs linerate: what a cluster file may leave to the machine it is read on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Operator {
    /// The user's name (`$USER`), for nodes that have no other.
    pub user: Option<String>,
    /// The user's home directory (`$HOME`), which `~/` stands for.
    pub home: Option<PathBuf>,
}

/// A node and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfig {
    /// As the operator calls it.
    pub name: NodeName,
    /// Host name or IP address to connect to; the node's name where nothing else was stated.
    pub address: String,
    /// Port of its SSH server.
    pub port: u16,
    /// The user to log in as.
    pub user: String,
}

/// How the agent is started on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CarrierConfig {
    /// linerate's own SSH client.
    Ssh,
    /// On this machine, without SSH.
    Local,
    /// Another program; the arguments, `{host}` in them stands for the node's address.
    Command(Vec<String>),
}

/// How nodes are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshConfig {
    /// Private keys to offer; `None` where the file names none: then the usual ones that exist.
    pub identity_files: Option<Vec<PathBuf>>,
    /// Whether keys of the SSH agent are offered.
    pub agent: bool,
    /// Files of known host keys, at least one; new keys are added to the first.
    pub known_hosts: Vec<PathBuf>,
    /// Whether a host that is not known yet is believed and remembered (never a changed one).
    pub accept_new: bool,
    /// How long a node may take from the first packet to the end of authentication.
    pub connect_timeout: Duration,
    /// How many nodes are being connected to at one time.
    pub concurrency: usize,
    /// Where a folder for the agent is made on nodes; `None` for the first usual place that takes it.
    pub directory: Option<String>,
    /// How the agent is started.
    pub carrier: CarrierConfig,
}

/// Everything that a cluster file says, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// The nodes, in the operator's order, at least one.
    pub nodes: Vec<NodeConfig>,
    /// How they are reached.
    pub ssh: SshConfig,
    /// How their NICs belong to rails.
    pub rails: RailRule,
    /// What each probe does.
    pub probe: ProbeSpec,
    /// What is expected of it.
    pub expect: Expect,
}

/// Why nodes could not be picked from a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// What was typed is no host list.
    #[error(transparent)]
    HostList(#[from] HostListError),
    /// A node that the cluster file does not list, or excludes.
    #[error("{nodes} not among the nodes of the cluster file{}", suggest(.meant.as_deref()))]
    NotListed {
        /// The nodes, as a host list with its verb.
        nodes: String,
        /// A listed node of nearly that name.
        meant: Option<String>,
    },
}

fn suggest(meant: Option<&str>) -> String {
    meant.map_or(String::new(), |name| format!(": did you mean `{name}`?"))
}

impl Cluster {
    /// The settings that a run is recorded with.
    pub fn settings(&self, seed: u64) -> RunSettings {
        RunSettings {
            nodes: self.nodes.iter().map(|node| node.name.clone()).collect(),
            rails: self.rails.clone(),
            probe: self.probe.clone(),
            expect: self.expect.clone(),
            sweep: SweepSettings::default(),
            seed,
            force: false,
            simulated: false,
        }
    }

    /// The same cluster with only the nodes of these host lists, in the cluster's order.
    ///
    /// # Errors
    /// [`SelectError`] where a list cannot be read or names a node that the cluster has not.
    pub fn select(mut self, lists: &[String]) -> Result<Self, SelectError> {
        // A wanted node is true once it was found.
        let mut wanted: HashMap<String, bool> = HashMap::new();
        for list in lists {
            wanted.extend(
                hostlist::expand(list)?
                    .into_iter()
                    .map(|name| (name, false)),
            );
        }
        let known: Vec<String> = self.nodes.iter().map(|node| node.name.0.clone()).collect();
        self.nodes.retain(|node| {
            let wanted = wanted.get_mut(&node.name.0).map(|found| *found = true);
            wanted.is_some()
        });
        let mut missing: Vec<&str> = wanted
            .iter()
            .filter(|(_, found)| !**found)
            .map(|(name, _)| name.as_str())
            .collect();
        if missing.is_empty() {
            return Ok(self);
        }
        missing.sort_unstable();
        let verb = if missing.len() == 1 { "is" } else { "are" };
        Err(SelectError::NotListed {
            nodes: format!("`{}` {verb}", hostlist::fold(&missing)),
            meant: nearest_node(missing[0], known.iter().map(String::as_str)).map(str::to_owned),
        })
    }
}
