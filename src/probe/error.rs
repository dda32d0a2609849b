//! What can go wrong with a probe besides the verbs themselves.

use crate::gpu::CudaError;
use crate::model::{GPU_MEMORY_REFUSED, NO_GPU_MEMORY};
use crate::verbs::VerbsError;

/// A probe that went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The device, or the way to the peer.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// What was asked for cannot be done.
    #[error("this probe cannot be done: {why}")]
    Spec {
        /// Why not.
        why: String,
    },
    /// What the peer said of itself cannot be.
    #[error("the peer's endpoint is not usable: {why}")]
    Peer {
        /// Why not.
        why: String,
    },
    /// A step that belongs to the other end.
    #[error("only the {owner} of a probe can {step}")]
    WrongRole {
        /// The step.
        step: &'static str,
        /// Whose step it is.
        owner: &'static str,
    },
    /// There is no memory of a GPU that a NIC could be given.
    #[error("{NO_GPU_MEMORY} of {of}: {why}")]
    NoGpuMemory {
        /// Whose it would be.
        of: String,
        /// Why there is none.
        why: String,
    },
    /// A NIC does not take memory of a GPU, in whatever way.
    #[error("{GPU_MEMORY_REFUSED}, of GPU {gpu} with {device}: {tried}")]
    GpuMemoryRefused {
        /// The GPU's address.
        gpu: String,
        /// The RDMA device.
        device: String,
        /// The ways, each with what refused it.
        tried: String,
    },
    /// The CUDA driver failed while the probe ran.
    #[error(transparent)]
    Gpu(#[from] CudaError),
    /// The stop flag was set.
    #[error("the probe was stopped before its end")]
    Stopped,
    /// After the end of the transfer the last work requests did not complete in time.
    #[error(
        "{outstanding} bytes were still on their way {seconds} s after the end of the transfer; \
         the link is very slow: lower size × depth × QPs to measure it"
    )]
    Drain {
        /// Bytes posted and not completed.
        outstanding: u64,
        /// For how long completions were awaited.
        seconds: u64,
    },
    /// A socket, or a thread for it.
    #[error("TCP: {0}")]
    Tcp(#[source] std::io::Error),
    /// The CPU time of this thread could not be read.
    #[error("cannot read the CPU time of this thread: {0}")]
    CpuTime(#[source] nix::errno::Errno),
}
