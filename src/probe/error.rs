//! What can go wrong with a probe besides the verbs themselves.

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
