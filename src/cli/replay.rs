//! `linerate replay`.

use std::path::PathBuf;

use clap::Args;

use super::ReportsArgs;

const REPLAY_EXAMPLES: &str = concat!(
    "\
Examples:
  linerate replay ~/.local/state/linerate/runs/2026-11-30T10-15-00Z-4711.jsonl
  linerate replay run.jsonl --format json -o run.json

A record that ends in the middle of a line is read up to there. No node is asked.

",
    exit_codes!()
);

/// `linerate replay`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub struct ReplayArgs {
    /// The record of a run, as `linerate report` keeps it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// What is written, and where to.
    #[command(flatten)]
    pub reports: ReportsArgs,
}
