//! What the commands that make a run share: of which nodes, and what is kept of it.

use std::path::PathBuf;

use clap::Args;

/// Which nodes there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ClusterArgs {
    /// Only these nodes of the cluster file, as host lists such as 'node[001-128,140]'; without a
    /// cluster file, the nodes there are
    #[arg(value_name = "NODES")]
    pub nodes: Vec<String>,

    /// The cluster file: nodes, how to reach them, their rails, what is expected of them
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// How a run is kept, gone on with and repeated, and what may stand in its way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct RunArgs {
    /// Record the run in this new file [default: a file in $XDG_STATE_HOME/linerate/runs]
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Go on with the run in this record, which was cut off or interrupted, and record on there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "seed"])]
    pub resume: Option<PathBuf>,

    /// Believe the host key of a node that no known_hosts file has, and add it (never a changed one)
    #[arg(long)]
    pub accept_new: bool,

    /// Probe NICs that a job uses, too; without it they are left out, and the report says why
    #[arg(long)]
    pub force: bool,

    /// The seed of the schedule, to repeat a run's [default: a new one, which the record states]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}
