//! `linerate report`.

use clap::{ArgGroup, Args};

use super::{ClusterArgs, PickArgs, ReportsArgs, RunArgs, SweepArgs};

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
    /// Of which nodes.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// What is written, and where to.
    #[command(flatten)]
    pub reports: ReportsArgs,

    /// How the run is kept and repeated.
    #[command(flatten)]
    pub run: RunArgs,

    // Last: a heading lasts until the end.
    /// Which pairs are measured, and how.
    #[command(flatten, next_help_heading = "What is measured")]
    pub sweep: SweepArgs,

    /// On which nodes and rails.
    #[command(flatten, next_help_heading = "What is measured")]
    pub pick: PickArgs,
}
