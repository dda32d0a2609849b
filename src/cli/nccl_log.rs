//! `linerate nccl-log`.

use std::path::PathBuf;

use clap::Args;

use super::{Color, PlainFormat};

/// What a log needs to have, and the exit codes for the one question that it answers.
pub(super) const NCCL_LOG_HELP: &str = "\
A log tells it where the job ran with NCCL_DEBUG=INFO, and why with
NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH.

Examples:
  linerate nccl-log job.log
  linerate nccl-log --record run.jsonl rank*.log
  kubectl logs job/train | linerate nccl-log -

Exit codes:
  0  every direction between nodes uses GPUDirect RDMA, or nothing goes between nodes
  1  a direction goes without it, or by sockets
  2  bad usage, or a file cannot be read
  3  the log does not tell";

/// `linerate nccl-log`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct NcclLogArgs {
    /// Logs of one job, in any order; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// What to write: text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    #[arg(hide_possible_values = true)]
    pub format: PlainFormat,

    /// A recorded run of linerate over the same nodes: what it surveyed says where GPUs and NICs sit
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Colour: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: Color,
}
