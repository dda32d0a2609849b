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
    /// The same, and a receive of the peer completes.
    WriteWithImmediate,
    /// RDMA read: remote bytes to local memory; the peer's CPU is not involved.
    Read,
    /// Send: local bytes to where the peer's next receive says.
    Send,
}

impl Opcode {
    fn raw(self) -> ffi::ibv_wr_opcode::Type {
        match self {
            Self::Write => ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE,
            Self::WriteWithImmediate => ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
            Self::Read => ffi::ibv_wr_opcode::IBV_WR_RDMA_READ,
            Self::Send => ffi::ibv_wr_opcode::IBV_WR_SEND,
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
    /// The remote memory; a send has none.
    pub remote: RemoteSlot,
    /// Whether success is reported too; errors always are.
    pub signalled: bool,
    /// Whether the bytes go to the device with the request, which must have room for them.
    pub inline: bool,
}

/// Where one message of the peer goes.
pub struct Receive<'a> {
    /// Comes back in the completion.
    pub id: u64,
    /// The local memory, where in it, and how many bytes; `None` where no bytes come by it, as of a
    /// write with immediate.
    pub place: Option<(&'a MemoryRegion, usize, u32)>,
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
    let flag = |on: bool, flag: ffi::ibv_send_flags| if on { flag.0 } else { 0 };
    entry.send_flags = flag(request.signalled, ffi::ibv_send_flags::IBV_SEND_SIGNALED)
        | flag(request.inline, ffi::ibv_send_flags::IBV_SEND_INLINE);
    entry.wr.rdma = ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
        remote_addr: request.remote.address,
        rkey: request.remote.key,
    };
}

/// Room for a batch of receives in the form that the device takes.
pub(super) struct ReceiveList {
    pieces: [ffi::ibv_sge; MAX_BATCH],
    entries: [ffi::ibv_recv_wr; MAX_BATCH],
}

impl Default for ReceiveList {
    fn default() -> Self {
        Self {
            pieces: [ffi::ibv_sge::default(); MAX_BATCH],
            entries: [ffi::ibv_recv_wr::default(); MAX_BATCH],
        }
    }
}

impl ReceiveList {
    /// Links at most [`MAX_BATCH`] receives; returns the first, or null for none.
    ///
    /// The pointer is good until `self` moves or is linked anew.
    pub fn link(&mut self, batch: &[Receive<'_>]) -> Result<*mut ffi::ibv_recv_wr, VerbsError> {
        let mut next = std::ptr::null_mut();
        let places = self.entries.iter_mut().zip(&mut self.pieces);
        for ((entry, piece), receive) in places.zip(batch).rev() {
            entry.wr_id = receive.id;
            entry.sg_list = piece;
            entry.num_sge = 0;
            if let Some((memory, offset, length)) = receive.place {
                piece.addr = memory.slice_address(offset, length as usize)?;
                piece.length = length;
                piece.lkey = memory.local_key();
                entry.num_sge = 1;
            }
            entry.next = next;
            next = entry;
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receives_without_memory_are_linked_in_order() {
        let receives: Vec<Receive<'_>> = (0..3).map(|id| Receive { id, place: None }).collect();
        let mut list = ReceiveList::default();
        let mut at = list.link(&receives).unwrap();
        let mut ids = Vec::new();
        while !at.is_null() {
            // SAFETY: the list has not moved since it was linked, and ends in null.
            let entry = unsafe { &*at };
            assert_eq!(entry.num_sge, 0);
            ids.push(entry.wr_id);
            at = entry.next;
        }
        assert_eq!(ids, [0, 1, 2]);
        assert!(list.link(&[]).unwrap().is_null());
    }
}
