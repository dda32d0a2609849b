//! From an error number or completion status, and the situation, to cause and remedy. Pure.
//!
//! Sources: the manual pages of rdma-core (ibv_reg_mr, ibv_modify_qp, ibv_poll_cq), the
//! InfiniBand Architecture Specification vol. 1 §11.6.2 (completion return status), and what
//! rxe and mlx5 were seen to answer.

use std::fmt;

use ibverbs_sys::ibv_wc_status as status;
use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use crate::model::{Bytes, Gid, MemlockLimit};

use super::device::PathMtu;

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Listing the devices.
    ListDevices,
    /// Opening a device.
    OpenDevice,
    /// Querying a device, a port or a GID.
    Query,
    /// Allocating a protection domain.
    AllocateProtectionDomain,
    /// Registering memory.
    RegisterMemory,
    /// Registering memory of a GPU by its address.
    RegisterPeerMemory,
    /// Registering memory of a GPU by a descriptor of it.
    RegisterDmaBuf,
    /// Creating a completion channel or queue.
    CreateCompletionQueue,
    /// Creating a queue pair.
    CreateQueuePair,
    /// Moving a queue pair from RESET to INIT.
    Initialise,
    /// Moving a queue pair to RTR, where the way to the peer is resolved.
    ReadyToReceive,
    /// Moving a queue pair to RTS.
    ReadyToSend,
    /// Posting a work request.
    Post,
    /// Polling, arming or awaiting completions.
    Complete,
}

/// The limit on locked memory (RLIMIT_MEMLOCK, soft) of this process; `None` if it cannot be read.
pub fn memlock_limit() -> Option<MemlockLimit> {
    match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((RLIM_INFINITY, _)) => Some(MemlockLimit::Unlimited),
        Ok((soft, _)) => Some(MemlockLimit::Bytes(Bytes(soft))),
        Err(_) => None,
    }
}

/// The way between two queue pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathFacts {
    /// GID of this end.
    pub local_gid: Gid,
    /// GID of the other end.
    pub remote_gid: Gid,
    /// Path MTU in use.
    pub mtu: PathMtu,
}

impl fmt::Display for PathFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            local_gid,
            remote_gid,
            mtu,
        } = self;
        let mtu = mtu.bytes();
        write!(
            f,
            "the peer at GID {remote_gid} (from GID {local_gid}, path MTU {mtu})"
        )
    }
}

/// Where an error happened, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Situation {
    /// The device.
    pub device: String,
    /// Bytes that were to be registered.
    pub bytes: Option<usize>,
    /// The limit on locked memory, if it could be read.
    pub memlock: Option<MemlockLimit>,
    /// The way to the peer, once it is known.
    pub path: Option<PathFacts>,
}

/// Why something failed and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What happened, as a clause without a full stop.
    pub cause: String,
    /// What to do, as a clause without a full stop.
    pub remedy: String,
}

impl Explanation {
    fn new(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            cause: cause.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.cause, self.remedy)
    }
}

/// What error number `errno` means when `operation` met it in `situation`.
pub fn explain(operation: Operation, errno: i32, situation: &Situation) -> Explanation {
    use Operation::{
        CreateCompletionQueue, CreateQueuePair, Post, ReadyToReceive, ReadyToSend, RegisterDmaBuf,
        RegisterMemory, RegisterPeerMemory,
    };
    match (operation, Errno::from_raw(errno)) {
        (RegisterPeerMemory | RegisterDmaBuf, number) => gpu_memory(operation, number, situation),
        (RegisterMemory, Errno::ENOMEM | Errno::EPERM) => locked_memory(situation),
        (CreateCompletionQueue | CreateQueuePair, Errno::ENOMEM) => queue_memory(situation),
        (CreateCompletionQueue | CreateQueuePair, Errno::EINVAL) => Explanation::new(
            "the device refuses a queue of this size",
            "lower the depth or the number of queue pairs",
        ),
        (RegisterMemory, Errno::EFAULT | Errno::EINVAL) => Explanation::new(
            "the device or the kernel refuses this memory or these access flags",
            "try host memory without relaxed ordering",
        ),
        (RegisterMemory, Errno::EOPNOTSUPP) => Explanation::new(
            format!(
                "the driver of {} cannot register this kind of memory",
                situation.device
            ),
            "use host memory, or a driver with dma-buf support",
        ),
        (ReadyToReceive, number) => unresolved(number, situation),
        (ReadyToSend, _) => Explanation::new(
            "the queue pair left the state RTR on its own, or the device refuses the timers",
            "look for RDMA errors in the kernel log (dmesg)",
        ),
        (Post, Errno::ENOMEM) => Explanation::new(
            "more work requests were posted than the send queue holds",
            "this is a defect of linerate: report it",
        ),
        (_, number) => general(number, situation),
    }
}

/// What it means that memory of a GPU is not registered.
///
/// A kernel that finds no peer memory client for an address takes it for one of the host's, which it is
/// not (EFAULT; EINVAL where a client is there and refuses it). The length of what can be mapped ends
/// where the GPU's window onto its memory does (BAR1).
fn gpu_memory(operation: Operation, number: Errno, situation: &Situation) -> Explanation {
    let device = &situation.device;
    match (operation, number) {
        (Operation::RegisterPeerMemory, Errno::EFAULT | Errno::EINVAL) => Explanation::new(
            "no peer memory module takes this address",
            "load nvidia_peermem (modprobe nvidia-peermem); where it is loaded, look in the kernel log \
             (dmesg) why it refuses, and whether it was built for this ib_core",
        ),
        (Operation::RegisterDmaBuf, Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT | Errno::ENOSYS) => {
            Explanation::new(
                format!("the driver of {device} takes no dma-buf"),
                "use peer memory (nvidia_peermem), or a kernel and NIC driver that know dma-buf",
            )
        }
        (Operation::RegisterDmaBuf, Errno::EBADF | Errno::EINVAL) => Explanation::new(
            format!("{device} does not take this descriptor for a dma-buf"),
            "check that NVIDIA's open kernel modules and libcuda are of one version",
        ),
        (_, Errno::ENOMEM | Errno::ENOSPC) => Explanation::new(
            "the GPU's window onto its memory (BAR1), the limit on locked memory or the translation table \
             of the NIC is too small for it",
            "look at BAR1 in nvidia-smi -q, and lower size × depth × QPs",
        ),
        (_, other) => general(other, situation),
    }
}

/// Registration met a limit on memory: the lock limit if there is one, else the machine's.
fn locked_memory(situation: &Situation) -> Explanation {
    let wanted = situation
        .bytes
        .map_or(String::new(), |b| format!(", {b} bytes were asked for"));
    match situation.memlock {
        Some(MemlockLimit::Bytes(limit)) => Explanation::new(
            format!(
                "the limit on locked memory (RLIMIT_MEMLOCK) is {}{wanted}",
                limit
            ),
            RAISE_MEMLOCK,
        ),
        Some(MemlockLimit::Unlimited) => Explanation::new(
            format!(
                "locked memory is unlimited, so the memory of the machine, its control group or \
                 the translation table of {} is exhausted{wanted}",
                situation.device
            ),
            "lower size × depth × QPs, or free memory",
        ),
        None => Explanation::new(
            format!(
                "a limit on memory was met; the limit on locked memory could not be read{wanted}"
            ),
            RAISE_MEMLOCK,
        ),
    }
}

/// Where the limit is raised: each way in to a node has its own.
const RAISE_MEMLOCK: &str = "raise it to unlimited where the login gets it: `* - memlock \
     unlimited` in /etc/security/limits.conf (needs pam_limits and UsePAM yes in sshd_config), \
     LimitMEMLOCK=infinity in the systemd unit of sshd or slurmd, then log in again; \
     `ulimit -l` shows it";

fn queue_memory(situation: &Situation) -> Explanation {
    match situation.memlock {
        Some(MemlockLimit::Bytes(limit)) => Explanation::new(
            format!(
                "no memory for the queue; queues are locked memory too, and the limit on it \
                 (RLIMIT_MEMLOCK) is {}",
                limit
            ),
            RAISE_MEMLOCK,
        ),
        _ => Explanation::new(
            "the kernel or the device has no memory for the queue",
            "lower the depth or the number of queue pairs, or end other RDMA programs",
        ),
    }
}

/// The way to the peer could not be resolved on going to RTR.
fn unresolved(number: Errno, situation: &Situation) -> Explanation {
    let peer = match &situation.path {
        Some(path) => path.to_string(),
        None => "the peer".to_owned(),
    };
    match number {
        Errno::ETIMEDOUT | Errno::EHOSTUNREACH | Errno::ENETUNREACH | Errno::ENOENT => {
            Explanation::new(
                format!("the Ethernet address of {peer} could not be resolved"),
                "check that the two interfaces are in one subnet or routed, `ping -I` between \
                 them, VLANs, and that the GID is of the network meant",
            )
        }
        Errno::EINVAL => Explanation::new(
            format!("the way to {peer} is refused"),
            "check that both GIDs are of one type (RoCE v1, v2) and address family, and that \
             the path MTU is at most the port's active MTU",
        ),
        other => general(other, situation),
    }
}

/// What an error number means whatever was being done.
fn general(number: Errno, situation: &Situation) -> Explanation {
    match number {
        Errno::EACCES | Errno::EPERM => Explanation::new(
            "this user may not use /dev/infiniband/uverbs*",
            "give access: udev rules of rdma-core make it mode 0666; in a container pass \
             /dev/infiniband; in a job check that the device cgroup allows it",
        ),
        Errno::ENODEV | Errno::EIO | Errno::ENXIO => Explanation::new(
            format!(
                "device {} went away or is in a fatal state",
                situation.device
            ),
            "look for a reset or firmware error in the kernel log (dmesg)",
        ),
        Errno::ENOENT => Explanation::new(
            "the device file /dev/infiniband/uverbs* is missing",
            "load ib_uverbs; in a container pass /dev/infiniband",
        ),
        Errno::ENOSYS => Explanation::new(
            "this kernel has no RDMA support loaded",
            "load ib_uverbs and the driver of the NIC",
        ),
        Errno::ENOMEM => Explanation::new(
            "the kernel or the device is out of memory",
            "free memory, or end other RDMA programs on this node",
        ),
        Errno::EMFILE | Errno::ENFILE => Explanation::new(
            "too many open files",
            "raise the limit on open files (`ulimit -n`)",
        ),
        other => Explanation::new(
            format!("{} answered {}", situation.device, other.desc()),
            "look for RDMA errors in the kernel log (dmesg)",
        ),
    }
}

/// What a work completion status (`enum ibv_wc_status`) means on the way in `situation`.
///
/// `vendor_error` is the provider's syndrome; it is told where the status alone says little.
pub fn explain_status(wc_status: u32, vendor_error: u32, situation: &Situation) -> Explanation {
    let peer = match &situation.path {
        Some(path) => path.to_string(),
        None => "the peer".to_owned(),
    };
    let device = &situation.device;
    match wc_status {
        status::IBV_WC_RETRY_EXC_ERR => no_answer(&peer, "transport retry counter exceeded"),
        status::IBV_WC_RESP_TIMEOUT_ERR => no_answer(&peer, "response timeout"),
        status::IBV_WC_RNR_RETRY_EXC_ERR => Explanation::new(
            format!("{peer} had no receive posted in time (receiver not ready, retries exceeded)"),
            "the node is overloaded or its process stopped: look at its load",
        ),
        status::IBV_WC_REM_ACCESS_ERR => Explanation::new(
            format!("{peer} refused access to its memory (remote access error)"),
            "its end of the probe was torn down or registered other memory: run the probe again; \
             if it stays, look at IOMMU and ACS faults in its kernel log",
        ),
        status::IBV_WC_REM_INV_REQ_ERR => Explanation::new(
            format!("{peer} took the request as invalid (remote invalid request)"),
            "check that both ends run the same version and that the message size is at most \
             the port's limit",
        ),
        status::IBV_WC_REM_OP_ERR => Explanation::new(
            format!("{peer} could not carry out the request (remote operation error)"),
            "look for RDMA, PCIe or IOMMU errors in its kernel log",
        ),
        status::IBV_WC_LOC_PROT_ERR | status::IBV_WC_LOC_ACCESS_ERR => Explanation::new(
            format!("{device} was refused access to local memory (local protection error)"),
            "look at IOMMU faults in the kernel log",
        ),
        status::IBV_WC_LOC_LEN_ERR => Explanation::new(
            "a message is longer than the port or the receive allows (local length error)",
            "lower the message size",
        ),
        status::IBV_WC_WR_FLUSH_ERR => Explanation::new(
            "the queue pair was in error already, so the request was flushed",
            "an earlier error is the cause: look in the kernel log of both nodes",
        ),
        status::IBV_WC_FATAL_ERR => Explanation::new(
            format!("{device} is in a fatal state"),
            "look for a reset or firmware error in the kernel log",
        ),
        other => Explanation::new(
            format!(
                "work completion status {other} ({}), vendor syndrome {vendor_error:#x}, on the \
                 way to {peer}",
                status_name(other)
            ),
            "look for RDMA errors in the kernel log of both nodes",
        ),
    }
}

/// What it means when nothing completes: the peer's silence, in the words of the path.
pub(super) fn explain_silence(situation: &Situation) -> Explanation {
    match &situation.path {
        Some(path) => no_answer(&path.to_string(), "no completion"),
        None => no_answer("the peer", "no completion"),
    }
}

fn no_answer(peer: &str, symptom: &str) -> Explanation {
    Explanation::new(
        format!("{peer} did not answer ({symptom})"),
        "check that the node is up and its link too, that each end can reach the other's GID \
         (for RoCEv2 UDP port 4791 must pass), and that the switches carry the path MTU",
    )
}

fn status_name(wc_status: u32) -> &'static str {
    match wc_status {
        status::IBV_WC_LOC_QP_OP_ERR => "local QP operation error",
        status::IBV_WC_LOC_EEC_OP_ERR => "local EE context operation error",
        status::IBV_WC_MW_BIND_ERR => "memory window bind error",
        status::IBV_WC_BAD_RESP_ERR => "bad response",
        status::IBV_WC_REM_ABORT_ERR => "remote aborted",
        status::IBV_WC_GENERAL_ERR => "general error",
        _ => "not a status of a reliable connection",
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
