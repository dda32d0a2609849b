//! `linerate history`.

use std::path::PathBuf;

use clap::Args;

use super::{Color, PlainFormat};

const HISTORY_EXAMPLES: &str = "\
Examples:
  linerate history
      The newest recorded runs, with their verdicts.
  linerate history --limit 100 --format json
  linerate history --prune --keep-runs 50 --dry-run
      Which records would be removed, for only the newest 50 are to stay.
  linerate history --prune --config cluster.toml
      Removes what [record] of the cluster file does not keep, as is done after each run.

Removed are only records that linerate named itself, in its own folder; never the newest, and none
that a run is recorded to.

Exit codes:
  0  listed, or removed
  2  bad usage or configuration
  3  the folder cannot be read, or a record not be removed";

/// `linerate history`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub struct HistoryArgs {
    /// How many runs, the newest first; each is read and judged
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,

    /// What to write: text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    #[arg(hide_possible_values = true)]
    pub format: PlainFormat,

    /// Write it to this file, not to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Colour: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: Color,

    /// Remove the records that need not be kept, and list nothing
    #[arg(long, conflicts_with_all = ["format", "output"])]
    pub prune: bool,

    /// Only say which records would be removed
    #[arg(long, requires = "prune")]
    pub dry_run: bool,

    /// Keep the newest N runs
    #[arg(long, value_name = "N", requires = "prune")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_runs: Option<u32>,

    /// Keep runs that were last written to in the last D days
    #[arg(long, value_name = "D", requires = "prune")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_days: Option<u32>,

    /// The cluster file whose section on records says what is kept, where it is not said here
    #[arg(short, long, value_name = "FILE", requires = "prune")]
    pub config: Option<PathBuf>,
}
