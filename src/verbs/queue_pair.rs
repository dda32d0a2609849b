//! Reliable-connection queue pairs, whose state is their type: INIT, then RTR, then RTS.

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use ibverbs_sys as ffi;

use super::completion::{Completion, CompletionQueue, QueueHandle};
use super::error::{Failure, VerbsError, call_error};
use super::explain::{Operation, PathFacts, Situation, explain_silence, explain_status};
use super::memory::{DomainHandle, ProtectionDomain};
use super::work_request::{MAX_BATCH, Receive, ReceiveList, RequestList, WorkRequest};

/// Retries after a lost packet. 7 is never used: with it rxe retries for ever when the peer is
/// gone; 6 reports the loss in seven time-outs (devices may take up to four times as long each).
const RETRY_COUNT: u8 = 6;
/// Retries when the receiver is not ready; 7 would mean for ever (IBA vol. 1 §9.7.5.2.8).
const RNR_RETRY: u8 = 6;
/// Local ACK timeout: 4.096 µs × 2^16 = 268 ms (IBA vol. 1 §9.7.6.1.3). perftest's 14, 67 ms, is
/// too short for soft-RoCE on busy hosts: it sends again what is only late, and rxe of Linux 6.1
/// then broke the connection with "remote invalid request" in 8 of 12 transfers on four queue
/// pairs (perftest in 2 of 4), with 16 in none of 6.
const ACK_TIMEOUT: u8 = 16;
/// Code 12: the receiver asks for 0.64 ms of patience (IBA vol. 1 table 45).
const MIN_RNR_TIMER: u8 = 12;
/// Routers that a packet may cross; RoCEv2 copies it to the IP time to live.
const HOP_LIMIT: u8 = 64;

/// The states of a queue pair, as types.
pub mod state {
    /// INIT: made, tied to a port, not connected.
    pub struct Initialised;
    /// RTR: takes what the peer sends.
    pub struct ReadyToReceive;
    /// RTS: sends, too.
    pub struct ReadyToSend;
}

/// What a new queue pair is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePairConfig {
    /// The device's port, from 1.
    pub port: u8,
    /// Work requests that may be outstanding.
    pub depth: u32,
    /// Receives that may be outstanding.
    pub receives: u32,
    /// Bytes that a request may carry to the device itself; as many as it takes where that is less.
    pub inline_bytes: u32,
    /// RDMA reads that it answers, and has in flight, at a time: from 1.
    pub reads: u8,
    /// Whether the peer may read.
    pub remote_read: bool,
    /// Packet sequence number that this end begins with (24 bits are used).
    pub packet_sequence: u32,
}

/// The peer's queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteQueue {
    /// Its number.
    pub number: u32,
    /// Packet sequence number that it begins with.
    pub packet_sequence: u32,
    /// RDMA reads that it answers at a time.
    pub reads: u8,
}

/// The way to the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Index of the local GID for a global route header: always on RoCE, and on InfiniBand
    /// between subnets. `None` addresses by LID alone.
    pub gid_index: Option<u8>,
    /// The peer's LID; 0 on RoCE.
    pub remote_lid: u16,
    /// GIDs and MTU.
    pub facts: PathFacts,
}

/// A queue pair in the state `S`. Wrong orders do not compile:
///
/// ```compile_fail
/// use linerate::verbs::{QueuePair, WorkRequest, state::Initialised};
/// fn too_early(queue_pair: &mut QueuePair<Initialised>, requests: &[WorkRequest<'_>]) {
///     queue_pair.post(requests);
/// }
/// ```
pub struct QueuePair<S> {
    handle: PairHandle,
    config: QueuePairConfig,
    situation: Situation,
    state: PhantomData<S>,
}

struct PairHandle {
    raw: NonNull<ffi::ibv_qp>,
    domain: Arc<DomainHandle>,
    /// Never read: keeps the completion queue alive.
    _completions: Arc<QueueHandle>,
}

// SAFETY: verbs calls on a queue pair are thread-safe.
unsafe impl Send for PairHandle {}

impl Drop for PairHandle {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; nothing else refers to it.
        unsafe { (self.domain.context.library.destroy_qp)(self.raw.as_ptr()) };
    }
}

impl PairHandle {
    fn number(&self) -> u32 {
        // SAFETY: the queue pair exists as long as the handle.
        unsafe { self.raw.as_ref().qp_num }
    }

    fn modify(
        &self,
        attributes: &mut ffi::ibv_qp_attr,
        mask: ffi::ibv_qp_attr_mask,
    ) -> Result<(), io::Error> {
        // SAFETY: the queue pair exists; the fields that the mask names are set. The mask's bits
        // are below 2^26, so the cast keeps them.
        let returned = unsafe {
            (self.domain.context.library.modify_qp)(self.raw.as_ptr(), attributes, mask.0 as i32)
        };
        if returned == 0 {
            Ok(())
        } else {
            Err(call_error(returned))
        }
    }
}

impl<S> QueuePair<S> {
    /// Its number, which the peer needs.
    pub fn number(&self) -> u32 {
        self.handle.number()
    }

    /// The packet sequence number that it begins with.
    pub fn packet_sequence(&self) -> u32 {
        self.config.packet_sequence & 0x00ff_ffff
    }

    fn modify_error(&self, to: &'static str, operation: Operation, e: io::Error) -> VerbsError {
        VerbsError::ModifyQueuePair {
            device: self.situation.device.clone(),
            queue_pair: self.number(),
            to,
            failure: Failure::new(e, operation, &self.situation),
        }
    }

    fn into_state<T>(self) -> QueuePair<T> {
        let Self {
            handle,
            config,
            situation,
            ..
        } = self;
        QueuePair {
            handle,
            config,
            situation,
            state: PhantomData,
        }
    }
}

impl QueuePair<state::Initialised> {
    /// Makes a queue pair whose completions go to `completions`, in the state INIT.
    ///
    /// # Errors
    /// The device has no resources for it, or refuses the port.
    pub fn new(
        domain: &ProtectionDomain,
        completions: &CompletionQueue,
        config: QueuePairConfig,
    ) -> Result<Self, VerbsError> {
        let domain = Arc::clone(&domain.handle);
        let situation = domain.context.situation();
        let mut wanted = ffi::ibv_qp_init_attr {
            send_cq: completions.handle.raw.as_ptr(),
            recv_cq: completions.handle.raw.as_ptr(),
            qp_type: ffi::ibv_qp_type::IBV_QPT_RC,
            ..Default::default()
        };
        wanted.cap.max_send_wr = config.depth;
        wanted.cap.max_send_sge = 1;
        wanted.cap.max_recv_wr = config.receives.max(1);
        wanted.cap.max_recv_sge = 1;
        wanted.cap.max_inline_data = config.inline_bytes;
        let mut raw = create(&domain, &mut wanted);
        if raw.is_none() && config.inline_bytes > 0 {
            // How much a device takes inline it tells by refusing more.
            wanted.cap.max_inline_data = 0;
            raw = create(&domain, &mut wanted);
        }
        let Some(raw) = raw else {
            let failure = Failure::new(
                io::Error::last_os_error(),
                Operation::CreateQueuePair,
                &situation,
            );
            return Err(VerbsError::CreateQueuePair {
                device: situation.device,
                failure,
            });
        };
        let config = QueuePairConfig {
            inline_bytes: wanted.cap.max_inline_data,
            ..config
        };
        let handle = PairHandle {
            raw,
            domain,
            _completions: Arc::clone(&completions.handle),
        };
        let pair = Self {
            handle,
            config,
            situation,
            state: PhantomData,
        };
        pair.initialise()?;
        Ok(pair)
    }

    fn initialise(&self) -> Result<(), VerbsError> {
        use ffi::ibv_qp_attr_mask as field;
        let mut attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_INIT,
            pkey_index: 0,
            port_num: self.config.port,
            qp_access_flags: remote_access(self.config.remote_read).0,
            ..Default::default()
        };
        let mask = field::IBV_QP_STATE
            | field::IBV_QP_PKEY_INDEX
            | field::IBV_QP_PORT
            | field::IBV_QP_ACCESS_FLAGS;
        self.handle
            .modify(&mut attributes, mask)
            .map_err(|e| self.modify_error("INIT", Operation::Initialise, e))
    }

    /// Connects to the peer's queue pair: the state RTR.
    ///
    /// # Errors
    /// The way to the peer cannot be resolved, or the device refuses it.
    pub fn ready_to_receive(
        mut self,
        peer: RemoteQueue,
        path: &Path,
    ) -> Result<QueuePair<state::ReadyToReceive>, VerbsError> {
        use ffi::ibv_qp_attr_mask as field;
        self.situation.path = Some(path.facts.clone());
        let mut attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RTR,
            path_mtu: path.facts.mtu as ffi::ibv_mtu,
            dest_qp_num: peer.number,
            rq_psn: peer.packet_sequence & 0x00ff_ffff,
            max_dest_rd_atomic: self.config.reads.max(1),
            min_rnr_timer: MIN_RNR_TIMER,
            ah_attr: address(self.config.port, path),
            ..Default::default()
        };
        let mask = field::IBV_QP_STATE
            | field::IBV_QP_AV
            | field::IBV_QP_PATH_MTU
            | field::IBV_QP_DEST_QPN
            | field::IBV_QP_RQ_PSN
            | field::IBV_QP_MAX_DEST_RD_ATOMIC
            | field::IBV_QP_MIN_RNR_TIMER;
        self.handle
            .modify(&mut attributes, mask)
            .map_err(|e| self.modify_error("RTR", Operation::ReadyToReceive, e))?;
        // From here on it counts what this end has in flight: no more than the peer answers.
        self.config.reads = self.config.reads.min(peer.reads);
        Ok(self.into_state())
    }
}

/// Creates a queue pair as `wanted`, which then says what it got.
fn create(
    domain: &DomainHandle,
    wanted: &mut ffi::ibv_qp_init_attr,
) -> Option<NonNull<ffi::ibv_qp>> {
    // SAFETY: domain and completion queue are alive and of one device (checked by the kernel);
    // `wanted` is filled in.
    let raw = unsafe { (domain.context.library.create_qp)(domain.raw.as_ptr(), wanted) };
    NonNull::new(raw)
}

/// What a peer may do with the memory behind a queue pair.
pub(super) fn remote_access(read: bool) -> ffi::ibv_access_flags {
    let write = ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE;
    match read {
        true => write | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_READ,
        false => write,
    }
}

/// The address vector of the way: LID, and a global route header where there is a GID index.
fn address(port: u8, path: &Path) -> ffi::ibv_ah_attr {
    let mut address = ffi::ibv_ah_attr {
        dlid: path.remote_lid,
        port_num: port,
        ..Default::default()
    };
    if let Some(index) = path.gid_index {
        address.is_global = 1;
        address.grh.dgid = ffi::ibv_gid {
            raw: path.facts.remote_gid.bytes(),
        };
        address.grh.sgid_index = index;
        address.grh.hop_limit = HOP_LIMIT;
    }
    address
}

impl QueuePair<state::ReadyToReceive> {
    /// Lets it send: the state RTS.
    ///
    /// # Errors
    /// The device refuses.
    pub fn ready_to_send(self) -> Result<QueuePair<state::ReadyToSend>, VerbsError> {
        use ffi::ibv_qp_attr_mask as field;
        let mut attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RTS,
            sq_psn: self.packet_sequence(),
            timeout: ACK_TIMEOUT,
            retry_cnt: RETRY_COUNT,
            rnr_retry: RNR_RETRY,
            max_rd_atomic: self.config.reads.max(1),
            ..Default::default()
        };
        let mask = field::IBV_QP_STATE
            | field::IBV_QP_SQ_PSN
            | field::IBV_QP_TIMEOUT
            | field::IBV_QP_RETRY_CNT
            | field::IBV_QP_RNR_RETRY
            | field::IBV_QP_MAX_QP_RD_ATOMIC;
        self.handle
            .modify(&mut attributes, mask)
            .map_err(|e| self.modify_error("RTS", Operation::ReadyToSend, e))?;
        Ok(self.into_state())
    }
}

impl QueuePair<state::ReadyToSend> {
    /// Posts work requests in order; up to [`MAX_BATCH`] at a time go to the device together.
    ///
    /// # Errors
    /// The send queue is full, or the memory named lies outside its region.
    pub fn post(&mut self, requests: &[WorkRequest<'_>]) -> Result<(), VerbsError> {
        for batch in requests.chunks(MAX_BATCH) {
            self.post_batch(batch)?;
        }
        Ok(())
    }

    fn post_batch(&mut self, batch: &[WorkRequest<'_>]) -> Result<(), VerbsError> {
        let mut list = RequestList::default();
        match self.post_list(list.link(batch)?) {
            0 => Ok(()),
            returned => Err(VerbsError::PostWorkRequest {
                device: self.situation.device.clone(),
                queue_pair: self.number(),
                failure: Failure::new(call_error(returned), Operation::Post, &self.situation),
            }),
        }
    }

    fn post_list(&mut self, first: *mut ffi::ibv_send_wr) -> i32 {
        if first.is_null() {
            return 0;
        }
        // SAFETY: the context of a live queue pair is open; every provider fills in `post_send`.
        let post_send = unsafe { self.handle.domain.context.raw.as_ref().ops.post_send };
        let mut bad = std::ptr::null_mut();
        match post_send {
            // SAFETY: the queue pair is in RTS. `first` heads a list that ends in null and is read
            // before the call returns; its memory is registered, and deregistering it ends the
            // device's access, so it need not outlive the requests.
            Some(call) => unsafe { call(self.handle.raw.as_ptr(), first, &mut bad) },
            None => nix::libc::EOPNOTSUPP,
        }
    }

    /// Posts receives in order, as [`QueuePair::post`] does requests.
    ///
    /// # Errors
    /// The receive queue is full, or the memory named lies outside its region.
    pub fn post_receives(&mut self, receives: &[Receive<'_>]) -> Result<(), VerbsError> {
        for batch in receives.chunks(MAX_BATCH) {
            let mut list = ReceiveList::default();
            let returned = self.post_receive_list(list.link(batch)?);
            if returned != 0 {
                return Err(VerbsError::PostWorkRequest {
                    device: self.situation.device.clone(),
                    queue_pair: self.number(),
                    failure: Failure::new(call_error(returned), Operation::Post, &self.situation),
                });
            }
        }
        Ok(())
    }

    fn post_receive_list(&mut self, first: *mut ffi::ibv_recv_wr) -> i32 {
        if first.is_null() {
            return 0;
        }
        // SAFETY: as in `post_list`.
        let post_recv = unsafe { self.handle.domain.context.raw.as_ref().ops.post_recv };
        let mut bad = std::ptr::null_mut();
        match post_recv {
            // SAFETY: as in `post_list`.
            Some(call) => unsafe { call(self.handle.raw.as_ptr(), first, &mut bad) },
            None => nix::libc::EOPNOTSUPP,
        }
    }

    /// Bytes that a request may carry to the device itself.
    pub fn inline_bytes(&self) -> u32 {
        self.config.inline_bytes
    }

    /// The error that a failed completion is, in words; `None` if it succeeded.
    pub fn completion_error(&self, completion: &Completion) -> Option<VerbsError> {
        let (status, vendor_error) = completion.outcome.err()?;
        Some(VerbsError::WorkCompletion {
            device: self.situation.device.clone(),
            status,
            vendor_error,
            explanation: explain_status(status, vendor_error, &self.situation),
        })
    }

    /// The error that `silence` with `outstanding` work requests is.
    pub fn stall_error(&self, silence: Duration, outstanding: u64) -> VerbsError {
        VerbsError::Stalled {
            device: self.situation.device.clone(),
            silence,
            outstanding,
            explanation: explain_silence(&self.situation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::device::PathMtu;
    use super::*;
    use crate::model::Gid;

    fn path(gid_index: Option<u8>) -> Path {
        let facts = PathFacts {
            local_gid: Gid::from_bytes([1; 16]),
            remote_gid: Gid::from_bytes([2; 16]),
            mtu: PathMtu::Mtu1024,
        };
        Path {
            gid_index,
            remote_lid: 7,
            facts,
        }
    }

    #[test]
    fn a_path_with_a_gid_index_is_global_and_one_without_goes_by_lid() {
        let global = address(1, &path(Some(3)));
        assert_eq!(
            (
                global.is_global,
                global.grh.sgid_index,
                global.grh.hop_limit
            ),
            (1, 3, 64)
        );
        assert_eq!(
            (global.grh.traffic_class, global.sl, global.port_num),
            (0, 0, 1)
        );
        // SAFETY: both members of the union are 16 plain bytes.
        let dgid = unsafe { global.grh.dgid.raw };
        assert_eq!(Gid::from_bytes(dgid), Gid::from_bytes([2; 16]));
        let local = address(1, &path(None));
        assert_eq!(
            (local.is_global, local.dlid, local.grh.hop_limit),
            (0, 7, 0)
        );
    }

    #[test]
    fn retries_end() {
        // 7 means "for ever" for receiver-not-ready retries, and on rxe for both.
        const { assert!(RETRY_COUNT < 7 && RNR_RETRY < 7) };
    }
}
