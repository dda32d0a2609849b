//! A safe layer over libibverbs, opened at run time.
//!
//! The binary never links libibverbs: the library is opened when it is first needed
//! ([`Library::get`]), with the struct layouts of the `ibverbs` crate's FFI. A node without
//! rdma-core still starts, surveys, and says what is missing.
//!
//! Every handle frees itself on drop and keeps alive what it stands on: a queue pair its
//! protection domain and completion queue, these the open device.

mod completion;
mod device;
mod dmabuf;
mod error;
mod explain;
mod facts;
mod foreign;
mod memory;
mod queue_pair;
mod sys;
mod work_request;

pub use completion::{Completion, CompletionMode, CompletionQueue, StallWatchdog, Wait};
pub use device::{Device, DeviceLimits, PathMtu, Port, device_names};
pub use dmabuf::takes_dmabuf;
pub use error::{Failure, VerbsError};
pub use explain::{
    Explanation, Operation, PathFacts, Situation, explain, explain_status, memlock_limit,
};
pub use facts::{active_mtu, library};
pub use foreign::{CopyError, ForeignMemory, ForeignWay};
pub use memory::{MemoryOptions, MemoryRegion, ProtectionDomain};
pub use queue_pair::{Path, QueuePair, QueuePairConfig, RemoteQueue, state};
pub use sys::Library;
pub use work_request::{MAX_BATCH, Opcode, Receive, RemoteSlot, WorkRequest};

#[cfg(test)]
mod layout_tests;
