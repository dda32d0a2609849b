//! The checked configuration of a cluster.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::{
    CostSettings, Expect, LeafGroup, NcclSettings, NodeName, ProbeSpec, RailRule, Retention,
    RunSettings, SweepSettings,
};

use super::groups::GroupsFile;
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
    /// How the cost of moving data is measured, where that is asked for.
    pub cost: CostSettings,
    /// What is expected of it.
    pub expect: Expect,
    /// How a run goes through its pairs; its leaf groups may name nodes that are not among these.
    pub sweep: SweepSettings,
    /// How nccl-tests are started.
    pub nccl: NcclSettings,
    /// Whether every run starts them.
    pub tests_nccl: bool,
    /// Which recorded runs are kept.
    pub record: Retention,
    /// The file that tells the leaf groups, where they are not in the cluster file itself.
    pub groups_file: Option<GroupsFile>,
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
    /// A node to be left out that is not there anyway.
    #[error("{nodes} not among the nodes of the run{}", suggest(.meant.as_deref()))]
    NotInRun {
        /// The nodes, as a host list with its verb.
        nodes: String,
        /// A node of the run of nearly that name.
        meant: Option<String>,
    },
    /// No node is left.
    #[error("every node is excluded")]
    Nobody,
}

fn suggest(meant: Option<&str>) -> String {
    meant.map_or(String::new(), |name| format!(": did you mean `{name}`?"))
}

impl Cluster {
    /// The settings that a run is recorded with.
    pub fn settings(&self, seed: u64) -> RunSettings {
        RunSettings {
            nodes: self.names(),
            rails: self.rails.clone(),
            probe: self.probe.clone(),
            expect: self.expect.clone(),
            sweep: SweepSettings {
                groups: self.groups(),
                ..self.sweep.clone()
            },
            cost: None,
            nccl: self.tests_nccl.then(|| self.nccl.clone()),
            seed,
            force: false,
            simulated: false,
        }
    }

    /// The nodes' names, in the operator's order.
    pub fn names(&self) -> Vec<NodeName> {
        self.nodes.iter().map(|node| node.name.clone()).collect()
    }

    /// The leaf groups with only these nodes, those that have some.
    fn groups(&self) -> Vec<LeafGroup> {
        let there: HashSet<&NodeName> = self.nodes.iter().map(|node| &node.name).collect();
        let mut groups = self.sweep.groups.clone();
        for group in &mut groups {
            group.nodes.retain(|node| there.contains(node));
        }
        groups.retain(|group| !group.nodes.is_empty());
        groups
    }

    /// Whether anybody says which leaf groups there are.
    pub fn has_groups(&self) -> bool {
        self.groups_file.is_some() || !self.sweep.groups.is_empty()
    }

    /// The same cluster with only the nodes of these host lists, in the cluster's order.
    ///
    /// # Errors
    /// [`SelectError`] where a list cannot be read or names a node that the cluster has not.
    pub fn select(mut self, lists: &[String]) -> Result<Self, SelectError> {
        let wanted = unfolded(lists)?;
        if let Some((nodes, meant)) = self.missing(&wanted) {
            return Err(SelectError::NotListed { nodes, meant });
        }
        self.nodes
            .retain(|node| wanted.contains(node.name.0.as_str()));
        Ok(self)
    }

    /// The same cluster without the nodes of these host lists.
    ///
    /// # Errors
    /// [`SelectError`] where a list cannot be read, names a node that is not there, or nobody is left.
    pub fn without(mut self, lists: &[String]) -> Result<Self, SelectError> {
        let unwanted = unfolded(lists)?;
        if let Some((nodes, meant)) = self.missing(&unwanted) {
            return Err(SelectError::NotInRun { nodes, meant });
        }
        self.nodes
            .retain(|node| !unwanted.contains(node.name.0.as_str()));
        match self.nodes.is_empty() {
            true => Err(SelectError::Nobody),
            false => Ok(self),
        }
    }

    /// Which of these names the cluster has not, as a host list with its verb, and what may be meant.
    fn missing(&self, names: &HashSet<String>) -> Option<(String, Option<String>)> {
        let known: HashSet<&str> = self.nodes.iter().map(|node| node.name.0.as_str()).collect();
        let missing = names.iter().map(String::as_str);
        let mut missing: Vec<&str> = missing.filter(|name| !known.contains(name)).collect();
        missing.sort_unstable();
        let verb = if missing.len() == 1 { "is" } else { "are" };
        let meant = nearest_node(missing.first()?, known).map(str::to_owned);
        Some((format!("`{}` {verb}", hostlist::fold(&missing)), meant))
    }
}

fn unfolded(lists: &[String]) -> Result<HashSet<String>, HostListError> {
    let mut names = HashSet::new();
    for list in lists {
        names.extend(hostlist::expand(list)?);
    }
    Ok(names)
}
