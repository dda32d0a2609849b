//! `linerate cost`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::{ClusterArgs, PickArgs, ReportsArgs, RunArgs};
use crate::model::{CostStep, CostSteps};

const COST_EXAMPLES: &str = "\
Examples:
  linerate cost --config cluster.toml 'node[01-02]'
      What TCP and RDMA between these nodes take of CPU time, at both ends, on every rail.
  linerate cost --config cluster.toml --rails 0 --only tcp,write,latency
      Only these ways of moving data, on one rail.
  linerate cost --config cluster.toml --format json -o cost.json
  linerate cost --scenario scenario.toml
      On a simulated cluster, with numbers that are made up. `linerate demo --show-scenario` has one.

Steps: tcp, tcp-streams, tcp-zerocopy, write, write-poll, write-copied, read, send, write-imm,
  write-huge, latency-tcp, latency-write, latency-send, size-tcp, size-write, incast-write,
  incast-tcp (several nodes to one at once); `latency`, `size` and `incast` are all of theirs.

How it is measured is in [probe.tcp] and [probe.cost] of the cluster file.

What hosts may do without (huge pages, a third node for incast) is no failure where it is missing,
unless --only names the step.

Exit codes:
  0  everything that was asked for was measured
  2  bad usage or configuration
  3  something could not be measured; the report says what, and why";

/// `linerate cost`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = COST_EXAMPLES)]
#[command(group = ArgGroup::new("whose").args(["nodes", "config", "scenario"]).required(true).multiple(true))]
pub struct CostArgs {
    /// Of which nodes.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Simulate this scenario instead: no packet is sent
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "config", "resume", "accept_new", "force"])]
    pub scenario: Option<PathBuf>,

    /// Only these steps, by their names
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    pub only: Vec<CostSteps>,

    /// What is written, and where to.
    #[command(flatten)]
    pub reports: ReportsArgs,

    /// How the run is kept and repeated.
    #[command(flatten)]
    pub run: RunArgs,

    /// On which nodes and rails.
    #[command(flatten, next_help_heading = "What is measured")]
    pub pick: PickArgs,
}

impl CostArgs {
    /// The steps that are asked for, each once and in order; none where all are.
    pub fn steps(&self) -> Vec<CostStep> {
        let mut steps: Vec<CostStep> = self.only.iter().flat_map(|only| only.0.clone()).collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    }
}
