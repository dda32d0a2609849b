//! What NCCL and RCCL write in their logs, read for one question: which rank sends and receives
//! through which NIC, with GPUDirect RDMA or without, and why.

mod channel;
mod distance;
mod facts;
mod line;
mod lines;
mod message;
mod names;
mod ranks;
mod reader;
mod reading;
mod support;
#[cfg(test)]
mod tests;
mod text;
mod verdict;
mod why;

pub use channel::Direction;
pub use lines::{Extent, MAX_LINE};
pub use ranks::MAX_USES;
pub use reader::{MAX_PROCESSES, MAX_RANKS, NcclReader};
pub use reading::{
    Device, GpuHca, Hca, Lacks, LeftOut, NcclLog, Place, Process, Rank, TroubleSeen, Use,
    pci_address,
};
pub use verdict::{GdrState, Ground, Missing, Verdict};
pub use why::{DEBUG, Why};
