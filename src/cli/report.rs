//! `linerate report`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::{PickArgs, ReportsArgs, SweepArgs};

const REPORT_EXAMPLES: &str = concat!(
    "\
Examples:
  linerate report --config cluster.toml
      Every node and rail of the cluster file; text on standard output.
  linerate report --config cluster.toml 'node[001-016]' node140
      Only these nodes of it. Quote host lists: brackets mean something to the shell.
  linerate report --config cluster.toml --full --exclude 'node[017,099]' --rails 0,3-5
      Every pair of nodes, without two of them, on four rails.
  linerate report --config cluster.toml --one node017
      Only this node, with each of the others; --pairs node01:node02 measures named pairs.
  linerate report 'node[01-04]'
      No cluster file: these nodes, with the defaults of `linerate config show-default`.
  linerate report --config cluster.toml --format json -o run.json
  linerate report --config cluster.toml --format text --format json=run.json
      Text on standard output, and JSON in a file.
  linerate report --config cluster.toml --resume run.jsonl
      Goes on with a run that was cut off: what its record has is not measured again.

",
    exit_codes!()
);

/// `linerate report`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = REPORT_EXAMPLES)]
#[command(group = ArgGroup::new("where").args(["nodes", "config"]).required(true).multiple(true))]
pub struct ReportArgs {
    /// Only these nodes of the cluster file, as host lists such as 'node[001-128,140]'; without a
    /// cluster file, the nodes there are
    #[arg(value_name = "NODES")]
    pub nodes: Vec<String>,

    /// The cluster file: nodes, how to reach them, their rails, what is expected of them
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What is written, and where to.
    #[command(flatten)]
    pub reports: ReportsArgs,

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

    /// The seed of the schedule, to repeat a run's [default: a new one, which the report states]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    // Last: a heading lasts until the end.
    /// Which pairs are measured, and how.
    #[command(flatten, next_help_heading = "What is measured")]
    pub sweep: SweepArgs,

    /// On which nodes and rails.
    #[command(flatten, next_help_heading = "What is measured")]
    pub pick: PickArgs,
}
