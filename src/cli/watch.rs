//! `linerate watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{FaceArgs, PlainFormat};

const WATCH_EXAMPLES: &str = "\
Examples:
  linerate watch
      This machine, on a dashboard that is drawn again every second; ? leads to its keys.
  linerate watch --table
      The same as a plain table. What is no terminal gets rows below each other.
  linerate watch --config cluster.toml 'node[001-016]'
  linerate watch --config cluster.toml --interval 5 --count 12 --format json

tx and rx are what the NIC's own counters show, everybody's traffic together. Errors, discards,
packets sent again, pauses, waits for credits and congestion notifications (sent/obeyed) are
counted since the reading before. `?` is not known; `3+` is at least 3.

Exit codes:
  0  stopped, or the readings asked for were made
  2  bad usage or configuration
  3  there was nothing to watch: no node was reached, or none has an RDMA device";

/// `linerate watch`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = WATCH_EXAMPLES)]
pub struct WatchArgs {
    /// Only these nodes of the cluster file, as host lists; without a cluster file, the nodes there
    /// are; without either, this machine
    #[arg(value_name = "NODES")]
    pub nodes: Vec<String>,

    /// The cluster file: nodes, and how to reach them
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The time from one reading to the next, from 0.1 to 60
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,

    /// End after so many readings [default: go on until Ctrl-C]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// What to write: text, or json with one document on a line for each reading
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    #[arg(hide_possible_values = true)]
    pub format: PlainFormat,

    /// On a terminal, the table that is drawn again at each reading, in place of the dashboard; so does
    /// --count
    #[arg(long)]
    pub table: bool,

    /// How the dashboard looks
    #[command(flatten)]
    pub face: FaceArgs,

    /// Believe the host key of a node that no known_hosts file has, and add it (never a changed one)
    #[arg(long)]
    pub accept_new: bool,

    /// Watch the sys/ below this folder, not this machine's
    #[arg(long, value_name = "DIR", conflicts_with_all = ["nodes", "config"])]
    pub root: Option<PathBuf>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    seconds
        .filter(|seconds| (0.1..=60.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "a number of seconds from 0.1 to 60 is wanted".to_owned())
}
