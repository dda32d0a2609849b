//! `linerate demo`.

use std::path::PathBuf;

use clap::Args;

use super::{FaceArgs, ReportsArgs, SweepArgs};

const DEMO_EXAMPLES: &str = concat!(
    "\
Examples:
  linerate demo
      16 nodes with 4 NICs each and a handful of faults. No packet is sent.
  linerate demo --tui
      The same on the dashboard of linerate sweep, at the pace of a real run.
  linerate demo --nodes 64 --rails 8 --format json
  linerate demo --show-scenario > scenario.toml
  linerate demo --scenario scenario.toml

Every report of it says first that it is simulated, in JSON by \"simulated\": true.

",
    exit_codes!()
);

/// `linerate demo`.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(after_help = DEMO_EXAMPLES)]
pub struct DemoArgs {
    /// Simulate so many nodes, 1 to 16384 [default: those of the scenario, 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16384))]
    pub nodes: Option<u16>,

    /// With so many NICs on each, 1 to 16 [default: those of the scenario, 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    pub rails: Option<u16>,

    /// What to simulate, and what is wrong with it [default: what --show-scenario prints]
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,

    /// Print the scenario that is simulated without --scenario, to start one from
    #[arg(long, exclusive = true)]
    pub show_scenario: bool,

    /// The seed of schedule and chance: the same seed, the same report
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Show it on the dashboard, at the pace of a real run
    #[arg(long)]
    pub tui: bool,

    /// On the dashboard, do not wait as long as a real run takes
    #[arg(long, requires = "tui")]
    pub fast: bool,

    /// How the dashboard looks.
    #[command(flatten)]
    pub face: FaceArgs,

    /// What is written, and where to.
    #[command(flatten)]
    pub reports: ReportsArgs,

    /// Record the run in this new file; it says that it is simulated
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    // Last: a heading lasts until the end.
    /// Which pairs are measured, and how.
    #[command(flatten, next_help_heading = "What is measured")]
    pub sweep: SweepArgs,
}
