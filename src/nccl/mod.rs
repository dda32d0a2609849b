//! What NCCL and RCCL write in their logs, read for one question: which rank sends and receives
//! through which NIC, with GPUDirect RDMA or without, and why.

mod channel;
mod distance;
mod facts;
mod launch;
mod line;
mod lines;
mod message;
mod names;
mod ranks;
mod reader;
mod reading;
mod results;
mod support;
#[cfg(test)]
mod tests;
mod text;
mod verdict;
mod why;

pub use channel::Direction;
pub use launch::{MAX_OF_ALL, MAX_OF_NODE, NcclLaunch};
pub use lines::{Extent, MAX_LINE};
pub use ranks::MAX_USES;
pub use reader::{MAX_PROCESSES, MAX_RANKS, NcclReader};
pub use reading::{
    Device, GpuHca, Hca, Lacks, LeftOut, NcclLog, Place, Process, Rank, TroubleSeen, Use,
    pci_address,
};
pub use results::{TestResults, TestRow};
pub use verdict::{GdrState, Ground, Missing, Verdict};
pub use why::{DEBUG, Why};

/// Whether a line tells of GPUDirect RDMA, or is a result of nccl-tests.
pub fn bears(line: &str) -> bool {
    let text = line.as_bytes();
    let mut messages = message::Messages::of(text, true);
    messages.any(|said| line::message(said.text, said.is_whole).is_some())
        || line::bare(text, true).is_some()
        || results::is_result(line)
}
