//! `linerate gpu-check`.

use clap::Args;

use super::{Color, PlainFormat};

/// The notes below the help.
pub(super) const GPU_CHECK_HELP: &str = "\
It starts the CUDA driver, allocates 33 MiB of each GPU for a moment, copies 16 MiB to and from it for about 50 ms
each way, and registers 1 MiB with each RDMA device by dma-buf and by peer memory. No data is sent; a job on a
GPU is slowed while its memory is copied.

Exit codes:
  0  every RDMA device takes memory of every GPU, in one way at least
  1  an RDMA device takes memory of a GPU in neither way
  3  could not tell: there is no CUDA driver, no GPU, no RDMA device, or one does not answer";

/// `linerate gpu-check`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct GpuCheckArgs {
    /// The format: text or json
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true
    )]
    pub format: PlainFormat,

    /// Colour: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: Color,
}
