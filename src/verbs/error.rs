//! What can go wrong with verbs, one variant per operation, in words for the operator.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::model::{NO_HUGE_PAGES, PortState};

use super::explain::{Explanation, Operation, Situation, explain};

/// The error number of a verbs call, with what it means in the situation it happened in.
#[derive(Debug)]
pub struct Failure {
    /// The error that the kernel or the provider gave.
    pub source: io::Error,
    /// What it means here and what to do.
    pub explanation: Explanation,
}

impl Failure {
    /// Explains `source`, which `operation` met in `situation`.
    pub fn new(source: io::Error, operation: Operation, situation: &Situation) -> Self {
        let explanation = explain(operation, source.raw_os_error().unwrap_or(0), situation);
        Self {
            source,
            explanation,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.explanation)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// A failed verbs operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// There is no libibverbs.
    #[error(
        "libibverbs.so.1 is not installed on this node ({reason}); install the packages \
         libibverbs1 and ibverbs-providers (Debian, Ubuntu) or libibverbs (RHEL, SLES)"
    )]
    NotInstalled {
        /// The dynamic loader's own words.
        reason: String,
        /// The loader's error.
        source: libloading::Error,
    },
    /// libibverbs is there, but the loader refuses it.
    #[error("libibverbs.so.1 cannot be loaded ({reason}); reinstall the package it comes from")]
    NotLoadable {
        /// The dynamic loader's own words.
        reason: String,
        /// The loader's error.
        source: libloading::Error,
    },
    /// libibverbs lacks a function that is needed.
    #[error("libibverbs.so.1 has no {symbol}@{version}; it is older than rdma-core 15, update it")]
    SymbolMissing {
        /// The C function.
        symbol: String,
        /// Its symbol version.
        version: String,
    },
    /// The library is there, the kernel's RDMA support is not.
    #[error(
        "libibverbs is installed, but this kernel has no RDMA support loaded ({source}); load \
         ib_uverbs and the driver of the NIC (mlx5_ib, bnxt_re, irdma, …)"
    )]
    NoKernelSupport {
        /// What listing the devices gave, normally ENOSYS.
        source: io::Error,
    },
    /// The list of RDMA devices could not be had.
    #[error("cannot list the RDMA devices: {0}")]
    ListDevices(#[source] Failure),
    /// No device of that name.
    #[error("there is no RDMA device {name} on this node; present: {}", present_list(.present))]
    DeviceNotFound {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        present: Vec<String>,
    },
    /// A device could not be opened.
    #[error("cannot open RDMA device {device}: {failure}")]
    OpenDevice {
        /// The device.
        device: String,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// The limits of a device could not be read.
    #[error("cannot query RDMA device {device}: {failure}")]
    QueryDevice {
        /// The device.
        device: String,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// A port could not be queried.
    #[error("cannot query port {port} of {device}: {failure}")]
    QueryPort {
        /// The device.
        device: String,
        /// The port number, from 1.
        port: u8,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// A port is not in the state ACTIVE.
    #[error(
        "port {port} of {device} is {state}, not ACTIVE; check cable, switch port and \
         `ip link` (RoCE) or the subnet manager (InfiniBand)"
    )]
    PortNotActive {
        /// The device.
        device: String,
        /// The port number, from 1.
        port: u8,
        /// The state it is in.
        state: PortState,
    },
    /// A GID could not be read.
    #[error("cannot read GID {index} of {device} port {port}: {failure}")]
    QueryGid {
        /// The device.
        device: String,
        /// The port number, from 1.
        port: u8,
        /// The index in the port's GID table.
        index: u8,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// The entry of the GID table is empty.
    #[error(
        "GID {index} of {device} port {port} is empty: its interface has no such address (any \
         more)"
    )]
    GidEmpty {
        /// The device.
        device: String,
        /// The port number, from 1.
        port: u8,
        /// The index in the port's GID table.
        index: u8,
    },
    /// A protection domain could not be had.
    #[error("cannot allocate a protection domain on {device}: {failure}")]
    AllocateProtectionDomain {
        /// The device.
        device: String,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// The buffer itself could not be had.
    #[error("cannot allocate a buffer of {bytes} bytes: {source}; lower size × depth × QPs")]
    AllocateBuffer {
        /// Its size.
        bytes: usize,
        /// Why.
        source: io::Error,
    },
    /// There are not enough huge pages for the buffer.
    #[error(
        "{none} for {bytes} bytes ({source}): sysctl vm.nr_hugepages=N reserves N of them",
        none = NO_HUGE_PAGES
    )]
    HugePages {
        /// Its size.
        bytes: usize,
        /// Why.
        source: io::Error,
    },
    /// A buffer could not be registered.
    #[error("cannot register {bytes} bytes of memory with {device}: {failure}")]
    RegisterMemory {
        /// The size of the buffer.
        bytes: usize,
        /// The device.
        device: String,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// Memory of a GPU could not be registered.
    #[error("{device} does not register {bytes} bytes of GPU memory: {failure}")]
    RegisterGpuMemory {
        /// The size of the memory.
        bytes: usize,
        /// The device.
        device: String,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// Another library did not copy its memory.
    #[error("cannot copy the memory of the probe: {0}")]
    CopyMemory(#[source] super::foreign::CopyError),
    /// An access outside a buffer was asked for.
    #[error("{length} bytes at offset {offset} lie outside the buffer of {size} bytes")]
    OutsideBuffer {
        /// Where the access begins.
        offset: usize,
        /// Its length in bytes.
        length: usize,
        /// The size of the buffer.
        size: usize,
    },
    /// A completion channel could not be made.
    #[error("cannot create a completion channel on {device}: {failure}")]
    CreateCompletionChannel {
        /// The device.
        device: String,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// A completion queue could not be made.
    #[error("cannot create a completion queue of {entries} entries on {device}: {failure}")]
    CreateCompletionQueue {
        /// Entries that were asked for.
        entries: u32,
        /// The device.
        device: String,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// More was asked for than the device can do.
    #[error("{device} takes at most {limit} {what}, {asked} were asked for")]
    BeyondDeviceLimit {
        /// The device.
        device: String,
        /// What is limited.
        what: &'static str,
        /// The device's limit.
        limit: u64,
        /// What was asked for.
        asked: u64,
    },
    /// The completion queue could not be read.
    #[error("cannot poll the completion queue of {device}: {failure}")]
    PollCompletions {
        /// The device.
        device: String,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// The completion queue could not be armed, or its events not be read.
    #[error("cannot wait for completions on {device}: {failure}")]
    AwaitCompletions {
        /// The device.
        device: String,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// A queue pair could not be made.
    #[error("cannot create a queue pair on {device}: {failure}")]
    CreateQueuePair {
        /// The device.
        device: String,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// A queue pair could not be moved on.
    #[error("cannot bring queue pair {queue_pair:#08x} of {device} to {to}: {failure}")]
    ModifyQueuePair {
        /// The device.
        device: String,
        /// The queue pair's number.
        queue_pair: u32,
        /// The state that was wanted: INIT, RTR or RTS.
        to: &'static str,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// A work request was not taken.
    #[error("cannot post a work request on queue pair {queue_pair:#08x} of {device}: {failure}")]
    PostWorkRequest {
        /// The device.
        device: String,
        /// The queue pair's number.
        queue_pair: u32,
        /// Why.
        #[source]
        failure: Failure,
    },
    /// A work request completed with an error.
    #[error("transfer on {device} failed: {explanation}")]
    WorkCompletion {
        /// The device.
        device: String,
        /// The work completion status (`enum ibv_wc_status`).
        status: u32,
        /// The provider's own syndrome.
        vendor_error: u32,
        /// What it means.
        explanation: Explanation,
    },
    /// Nothing completed for too long.
    #[error(
        "no completion on {device} for {:.1} s while {outstanding} work requests were \
         outstanding: {explanation}", silence.as_secs_f64()
    )]
    Stalled {
        /// The device.
        device: String,
        /// For how long nothing completed.
        silence: Duration,
        /// Work requests posted and not completed.
        outstanding: u64,
        /// Who did not answer.
        explanation: Explanation,
    },
}

fn present_list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// The messages of an error's sources: some errors' own text leaves the reason out.
fn source_chain(error: &dyn Error) -> String {
    let mut text = String::new();
    let mut next = error.source();
    while let Some(source) = next {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&source.to_string());
        next = source.source();
    }
    if text.is_empty() {
        error.to_string()
    } else {
        text
    }
}

/// The error of a library that the loader did not load.
pub(super) fn load_error(source: libloading::Error) -> VerbsError {
    let reason = source_chain(&source);
    // The loader has no error numbers, but these are the words of ENOENT (dlopen(3)).
    if reason.contains("No such file or directory") {
        VerbsError::NotInstalled { reason, source }
    } else {
        VerbsError::NotLoadable { reason, source }
    }
}

/// The error of a verbs call that returns an error number, or -1 with errno, or minus the number.
pub(super) fn call_error(returned: i32) -> io::Error {
    match returned {
        -1 => io::Error::last_os_error(),
        n => io::Error::from_raw_os_error(n.saturating_abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_convention_of_return_values_yields_the_error_number() {
        assert_eq!(call_error(22).raw_os_error(), Some(22));
        assert_eq!(call_error(-110).raw_os_error(), Some(110));
    }

    #[test]
    fn an_absent_device_is_told_with_the_present_ones() {
        let error = VerbsError::DeviceNotFound {
            name: "mlx5_9".into(),
            present: vec![],
        };
        assert_eq!(
            error.to_string(),
            "there is no RDMA device mlx5_9 on this node; present: none"
        );
        let present = vec!["mlx5_0".to_owned(), "mlx5_1".to_owned()];
        let error = VerbsError::DeviceNotFound {
            name: "mlx5_9".into(),
            present,
        };
        assert!(error.to_string().ends_with("present: mlx5_0, mlx5_1"));
    }
}
