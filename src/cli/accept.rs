//! `linerate accept`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::{ClusterArgs, PickArgs, ReportArgs, ReportsArgs, RunArgs, SweepArgs};

const ACCEPT_EXAMPLES: &str = "\
Examples:
  linerate accept configs/profiles/hgx-h100-ndr400-ib.toml --config cluster.toml
      Measures the cluster as linerate report does, and says whether the profile holds.
  linerate accept profile.toml --from run.jsonl
      Holds it against a recorded run. No node is asked.
  linerate accept profile.toml --config cluster.toml --since yesterday.jsonl
      What is there, links and counters of link errors must not have become worse since that run, either.
  linerate accept profile.toml --list
      The checks, and what each demands. Nothing runs.
  linerate accept new.toml --init --config cluster.toml
      Writes the profile new.toml: the cluster as it is now, if it is healthy.
  linerate accept profile.toml --nagios --quick --config cluster.toml 'node[01-02]'
      A line and an exit code as Nagios and its like want them from a plugin.

Exit codes (stable):
  0  every must of the profile holds
  1  a must does not hold
  2  bad usage, configuration or profile
  3  a must could not be judged, and none was seen not to hold

With --nagios instead: 0 OK (all hold), 1 WARNING (a should does not hold or could not be judged),
  2 CRITICAL (a must does not hold), 3 UNKNOWN (a must could not be judged, or linerate could not work).";

/// `linerate accept`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = ACCEPT_EXAMPLES)]
#[command(
    override_usage = "linerate accept [OPTIONS] <PROFILE> <NODES|--config <FILE>|--from <RUN>|--list>"
)]
#[command(group = ArgGroup::new("whom").args(["nodes", "config", "from", "list"]).required(true).multiple(true))]
pub struct AcceptArgs {
    /// The acceptance profile: what must hold; with --init, the file that it is written to
    #[arg(value_name = "PROFILE")]
    pub profile: PathBuf,

    /// Of which nodes.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Judge the run of this record, and measure nothing
    #[arg(long, value_name = "RUN", conflicts_with_all = ["nodes", "config", "list", "record", "resume", "accept_new",
        "force", "seed", "exclude", "rails", "which", "matchings", "one_way", "fabric", "cost", "max_load",
        "time_budget"])]
    pub from: Option<PathBuf>,

    /// What was there in the run of this record, its links and its counters of link errors must not
    /// be worse now; rates are not compared
    #[arg(long, value_name = "RUN", conflicts_with_all = ["list", "init"])]
    pub since: Option<PathBuf>,

    /// Print the checks with what they demand, without running
    #[arg(long, conflicts_with_all = ["init", "nagios"])]
    pub list: bool,

    /// Write a profile of the cluster as it is now; refused where the run found faults
    #[arg(long, conflicts_with = "nagios")]
    pub init: bool,

    /// With --init, write it whatever the run found
    #[arg(long, requires = "init")]
    pub despite_faults: bool,

    /// Begin with a line as Nagios plugins print it, and exit with their codes
    #[arg(long)]
    pub nagios: bool,

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

impl AcceptArgs {
    /// The run that is made: that of a report.
    pub fn report(&self) -> ReportArgs {
        ReportArgs {
            cluster: self.cluster.clone(),
            reports: self.reports.clone(),
            run: self.run.clone(),
            sweep: self.sweep.clone(),
            pick: self.pick.clone(),
        }
    }
}
