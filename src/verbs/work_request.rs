//! Work requests, and the linked list of them that a queue pair takes.

use ibverbs_sys as ffi;

use super::error::VerbsError;
use super::memory::MemoryRegion;

/// Work requests that go to the device in one call.
pub const MAX_BATCH: usize = 16;

/// What a work request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// RDMA write: local bytes to remote memory; the peer's CPU is not involved.
    Write,
}

impl Opcode {
    fn raw(self) -> ffi::ibv_wr_opcode::Type {
        match self {
            Self::Write => ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE,
        }
    }
}

/// A place in the peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteSlot {
    /// Virtual address in the peer's process.
    pub address: u64,
    /// The key of the peer's memory region.
    pub key: u32,
}

/// One work request over one contiguous piece of local memory.
pub struct WorkRequest<'a> {
    /// Comes back in the completion.
    pub id: u64,
    /// What to do.
    pub opcode: Opcode,
    /// The local memory.
    pub memory: &'a MemoryRegion,
    /// Where in it.
    pub offset: usize,
    /// How many bytes.
    pub length: u32,
    /// The remote memory.
    pub remote: RemoteSlot,
    /// Whether success is reported too; errors always are.
    pub signalled: bool,
}

/// Room for a batch of requests in the form that the device takes.
pub(super) struct RequestList {
    pieces: [ffi::ibv_sge; MAX_BATCH],
    entries: [ffi::ibv_send_wr; MAX_BATCH],
}

impl Default for RequestList {
    fn default() -> Self {
        Self {
            pieces: [ffi::ibv_sge::default(); MAX_BATCH],
            entries: [ffi::ibv_send_wr::default(); MAX_BATCH],
        }
    }
}

impl RequestList {
    /// Links at most [`MAX_BATCH`] requests; returns the first, or null for none.
    ///
    /// The pointer is good until `self` moves or is linked anew.
    pub fn link(&mut self, batch: &[WorkRequest<'_>]) -> Result<*mut ffi::ibv_send_wr, VerbsError> {
        let mut next = std::ptr::null_mut();
        // From the last to the first, so that each can point to its successor.
        let places = self.entries.iter_mut().zip(&mut self.pieces);
        for ((entry, piece), request) in places.zip(batch).rev() {
            piece.addr = request
                .memory
                .slice_address(request.offset, request.length as usize)?;
            piece.length = request.length;
            piece.lkey = request.memory.local_key();
            fill_in(entry, request);
            entry.sg_list = piece;
            entry.next = next;
            next = entry;
        }
        Ok(next)
    }
}

/// What the request says, except for its memory and its successor.
fn fill_in(entry: &mut ffi::ibv_send_wr, request: &WorkRequest<'_>) {
    entry.wr_id = request.id;
    entry.num_sge = 1;
    entry.opcode = request.opcode.raw();
    if request.signalled {
        entry.send_flags = ffi::ibv_send_flags::IBV_SEND_SIGNALED.0;
    }
    entry.wr.rdma = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
        remote_addr: request.remote.address,
        rkey: request.remote.key,
    };
}
