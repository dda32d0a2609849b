//! `linerate sweep`, and how every dashboard looks.

use clap::{Args, ValueEnum};

use super::ReportArgs;

const SWEEP_EXAMPLES: &str = concat!(
    "\
Examples:
  linerate sweep --config cluster.toml
      The grid of nodes and NICs fills while the sweep runs; Enter leads to the cause, ? to the keys.
  linerate sweep 'node[001-128]'
  linerate sweep --config cluster.toml -f json=run.json
      Writes a report as well, when the dashboard is left.
  linerate sweep --config cluster.toml --resume run.jsonl

Without a terminal: linerate report.

",
    exit_codes!()
);

/// `linerate sweep`: what `linerate report` takes, and how it looks.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = SWEEP_EXAMPLES)]
pub struct DashboardArgs {
    /// How it looks.
    #[command(flatten)]
    pub face: FaceArgs,

    /// What is run.
    #[command(flatten)]
    pub run: ReportArgs,
}

/// How a dashboard looks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct FaceArgs {
    /// The terminal's background: auto (by COLORFGBG, else dark), dark or light
    #[arg(long, value_name = "GROUND", default_value = "auto")]
    #[arg(hide_possible_values = true)]
    pub theme: ThemeArg,

    /// Draw with ASCII only [default: where the locale is not UTF-8]
    #[arg(long)]
    pub ascii: bool,
}

/// A background.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ThemeArg {
    /// What the terminal says
    #[default]
    Auto,
    /// Dark
    Dark,
    /// Light
    Light,
}
