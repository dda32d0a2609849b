//! `linerate compare`.

use std::path::PathBuf;

use clap::Args;

use super::{Color, PlainFormat};

const COMPARE_EXAMPLES: &str = "\
Examples:
  linerate compare latest~1
      The newest recorded run held against the one before; `linerate history` lists them.
  linerate compare before-upgrade.jsonl after-upgrade.jsonl
      Two records. Each is a baseline: keep one in a place of its own.
  linerate compare baseline.jsonl latest --common --format json -o changes.json
      Only the nodes that both runs were asked for, as JSON in a file.

Rates of a NIC and direction are compared by the middle of its probes with partners that are proved
good. A change counts where it is more than 3 % and more than chance makes of the spread within and
between both runs; what a cluster, rail or node did as a whole is told once. What one run has not
measured cannot be compared, and never counts as equal. Runs that moved data in other ways (memory,
message size, queue pairs, load) are not compared by their rates.

Exit codes:
  0  nothing is worse, and everything that matters was compared
  1  something is worse: slower, gone, narrower, or a fault or warning is found that was not
  2  bad usage, a file cannot be read, or a simulated run beside a real one
  3  nothing is seen to be worse, but something that matters could not be compared";

/// `linerate compare`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub struct CompareArgs {
    /// The earlier run: a record, or a recorded run by its name (latest, latest~1, or as history
    /// lists it; the beginning is enough)
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,

    /// The later run, held against it
    #[arg(value_name = "AFTER", default_value = "latest")]
    pub after: PathBuf,

    /// Compare only the nodes that both runs were asked for
    #[arg(long)]
    pub common: bool,

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
}
