//! `linerate gpu-check`.

use clap::Args;

use super::{Color, PlainFormat};

/// The notes below the help.
pub(super) const GPU_CHECK_HELP: &str = "\
It starts the CUDA driver, allocates 33 MiB of each GPU for a moment, copies 16 MiB to and
from it for about 50 ms each way, and registers 1 MiB with each RDMA device by dma-buf and
by peer memory. A job on a GPU is slowed while its memory is copied. No data is sent without
--transfer; with it each NIC sends to itself, at its full rate, for a second and a half with
each GPU and a quarter of a second without.

Exit codes:
  0  every RDMA device takes memory of every GPU, in one way at least; with --transfer, each GPU and
     its nearest NICs move data without the host's memory, and not slower than by way of it
  1  an RDMA device takes memory of a GPU in neither way, or what is said above does not hold, or
     bytes landed wrong
  3  could not tell: there is no CUDA driver, no GPU, no RDMA device, or one does not answer";

/// `linerate gpu-check`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct GpuCheckArgs {
    /// Move data as well: through each NIC and back into this machine, between host memory and each GPU
    /// both ways, from GPU to GPU, the same without relaxed ordering and staged through host memory;
    /// every byte is compared
    #[arg(long)]
    pub transfer: bool,

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
