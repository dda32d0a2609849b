//! `linerate replay`.

use std::path::PathBuf;

use clap::Args;

use super::{FaceArgs, ReportsArgs};

const REPLAY_EXAMPLES: &str = concat!(
    "\
Examples:
  linerate replay ~/.local/state/linerate/runs/2026-11-30T10-15-00Z-4711.jsonl
  linerate replay run.jsonl --tui
      On the dashboard, as fast as the run was; + and - make it faster and slower.
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

    /// Show it on the dashboard, at the pace of the run
    #[arg(long)]
    pub tui: bool,

    /// On the dashboard, go to its end at once
    #[arg(long, requires = "tui")]
    pub fast: bool,

    /// How the dashboard looks.
    #[command(flatten)]
    pub face: FaceArgs,

    /// What is written, and where to.
    #[command(flatten)]
    pub reports: ReportsArgs,
}
