//! What may be typed: one file for each command's arguments, and what several of them share.

/// The exit codes, for every help text that has them.
macro_rules! exit_codes {
    () => {
        "\
Exit codes:
  0  everything that was measured runs at line rate
  1  faults were found
  2  bad usage or configuration
  3  could not judge: a node was not reached, or a pair not measured"
    };
}

mod accept;
mod compare;
mod cost;
mod dashboard;
mod demo;
mod explain;
mod gpu_check;
mod history;
mod inspect;
mod nccl_log;
mod output;
mod replay;
mod report;
mod run;
mod sweep;
mod watch;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use accept::AcceptArgs;
pub use compare::CompareArgs;
pub use cost::CostArgs;
pub use dashboard::{DashboardArgs, FaceArgs, ThemeArg};
pub use demo::DemoArgs;
pub use explain::ExplainArgs;
pub use gpu_check::GpuCheckArgs;
pub use history::HistoryArgs;
pub use inspect::InspectArgs;
pub use nccl_log::NcclLogArgs;
pub use output::{Color, Format, FormatArg, PlainFormat, ReportsArgs};
pub use replay::ReplayArgs;
pub use report::ReportArgs;
pub use run::{ClusterArgs, RunArgs};
pub use sweep::{MemoryArg, PairArg, PatternArg, PickArgs, RailsArg, SweepArgs};
pub use watch::WatchArgs;

const EXAMPLES: &str = concat!(
    "\
Examples:
  linerate sweep --config cluster.toml
  linerate report --config cluster.toml
  linerate report --config cluster.toml 'node[001-016]'
  linerate report --config cluster.toml --format text --format json=run.json
  linerate accept profile.toml --config cluster.toml
  linerate cost --config cluster.toml 'node[01-02]'
  linerate replay run.jsonl
  linerate compare latest~1
  linerate history
  linerate config check cluster.toml
  linerate watch --config cluster.toml
  linerate demo
  linerate inspect
  linerate nccl-log job.log
  linerate explain half-bandwidth

",
    exit_codes!()
);

/// Finds the NIC in a GPU cluster that is not running at line rate, and says why.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(name = "linerate", version, after_help = EXAMPLES, arg_required_else_help = true)]
#[command(max_term_width = 100, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What linerate can do.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Measure as report does, on a dashboard that fills while it runs
    Sweep(DashboardArgs),
    /// Measure NICs against each other on every rail and report what is not at line rate
    Report(ReportArgs),
    /// Hold an acceptance profile against a run, live or recorded, and say whether it holds
    Accept(AcceptArgs),
    /// Measure what moving data takes of CPU time by TCP and by RDMA, and what RDMA saves
    Cost(CostArgs),
    /// Report a recorded run once more, without a node
    Replay(ReplayArgs),
    /// Hold a recorded run against an earlier one: what is slower, faster, gone, new or changed
    Compare(CompareArgs),
    /// List the recorded runs with their verdicts, or remove old ones
    History(HistoryArgs),
    /// Show a report on a simulated cluster with planted faults; needs no cluster
    Demo(DemoArgs),
    /// Show what each NIC carries now, second by second, without traffic of its own
    Watch(WatchArgs),
    /// Show what linerate sees on this machine, without traffic, and what is wrong with it
    Inspect(InspectArgs),
    /// Try what this machine's NICs do with memory of its GPUs: allocate, copy, register
    #[command(after_help = gpu_check::GPU_CHECK_HELP)]
    GpuCheck(GpuCheckArgs),
    /// Read logs of NCCL or RCCL: which ranks go without GPUDirect RDMA between nodes, and why
    #[command(after_help = nccl_log::NCCL_LOG_HELP)]
    NcclLog(NcclLogArgs),
    /// Say what a rule means, how it is detected, and what to do
    Explain(ExplainArgs),
    /// Check a cluster file, or show the defaults
    Config {
        /// What to do with it.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Answer a controller on standard input and output; started by linerate itself
    #[command(hide = true)]
    Agent,
}

/// `linerate config`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ConfigCommand {
    /// Check a cluster file: every problem with its line, exit code 2 where there is one
    Check {
        /// The cluster file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print every key with its default, as a cluster file to start from
    ShowDefault,
}
