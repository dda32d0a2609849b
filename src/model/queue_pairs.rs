//! Who holds queue pairs on a node's devices: whose traffic the counters show.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The holders of queue pairs on each device, by the device's name; those with the most first.
pub type QueuePairs = BTreeMap<String, Vec<QueuePairHolder>>;

/// A process, or a part of the kernel, that holds queue pairs on a device. The two management
/// queue pairs that every port has are nobody's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePairHolder {
    /// Its process id; none for the kernel.
    pub pid: Option<u32>,
    /// The process's command, or the kernel module's name; [`QueuePairHolder::UNSEEN`] of a process
    /// whose id cannot be told.
    pub name: String,
    /// Reliable connections.
    pub rc: u32,
    /// Unreliable datagrams.
    pub ud: u32,
    /// Other types.
    pub other: u32,
}

impl QueuePairHolder {
    /// The name of processes that the kernel tells no id of: the thread that made the queue pairs has
    /// ended, or belongs to another PID namespace.
    pub const UNSEEN: &str = "a process not seen from here";

    /// Whether it is a process, and no part of the kernel.
    pub fn is_process(&self) -> bool {
        self.pid.is_some() || self.name == Self::UNSEEN
    }

    /// How many it holds.
    pub fn total(&self) -> u32 {
        self.rc.saturating_add(self.ud).saturating_add(self.other)
    }
}

impl fmt::Display for QueuePairHolder {
    /// `128 RC of python3 (pid 4711)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [(self.rc, "RC"), (self.ud, "UD"), (self.other, "other")];
        let some = kinds.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = some
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        write!(f, "{} of {}", counts.join(" + "), self.name)?;
        match self.pid {
            Some(pid) => write!(f, " (pid {pid})"),
            None if self.is_process() => Ok(()),
            None => f.write_str(" (kernel)"),
        }
    }
}
