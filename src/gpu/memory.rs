//! Memory of NVIDIA GPUs, and host memory that they copy from and to at full speed.

use std::ffi::{c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd};

use super::cuda::{Cuda, CudaDevice};
use super::driver::{ContextHandle, DMA_BUF_FD, DevicePointer, IS_MANAGED, Memory, SYNC_MEMOPS};
use super::error::CudaError;

/// Pages of a GPU that a NIC maps are of 64 KiB (GPUDirect RDMA documentation, "Pinning GPU memory").
pub(super) const GPU_PAGE: usize = 64 * 1024;

/// The primary context of a GPU, which the process shares.
struct Context {
    cuda: Cuda,
    device: c_int,
    handle: ContextHandle,
}

// SAFETY: a context may be current to several threads at once (CUDA driver API, "Context Management").
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    fn retain(gpu: &CudaDevice) -> Result<Self, CudaError> {
        let cuda = gpu.cuda.clone();
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` may be written.
        let code = unsafe { (cuda.library.memory()?.retain_context)(&raw mut handle, gpu.number) };
        cuda.done("cuDevicePrimaryCtxRetain", code)?;
        Ok(Self {
            cuda,
            device: gpu.number,
            handle,
        })
    }

    /// Makes it that of the calling thread, which each call about memory needs; the functions.
    fn enter(&self) -> Result<&Memory, CudaError> {
        let memory = self.cuda.library.memory()?;
        // SAFETY: retained until drop.
        let code = unsafe { (memory.use_context)(self.handle) };
        self.cuda.done("cuCtxSetCurrent", code)?;
        Ok(memory)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Ok(memory) = self.cuda.library.memory() {
            // SAFETY: retained once, released once.
            unsafe { (memory.release_context)(self.device) };
        }
    }
}

/// Memory of a GPU, whole pages of it; let go by drop.
pub struct GpuMemory {
    context: Context,
    /// What was allocated, which may begin before the first whole page.
    allocated: DevicePointer,
    address: DevicePointer,
    length: usize,
}

impl GpuMemory {
    /// Allocates at least `length` bytes, rounded up to whole pages of the GPU, and has copies to and
    /// from them be over when they return: a NIC sees no half of one (SYNC_MEMOPS).
    ///
    /// # Errors
    /// The GPU is out of memory or gone, or the memory is not its own.
    pub fn new(gpu: &CudaDevice, length: usize) -> Result<Self, CudaError> {
        let context = Context::retain(gpu)?;
        let functions = context.enter()?;
        let length = length.max(1).next_multiple_of(GPU_PAGE);
        let mut allocated = 0;
        // SAFETY: `allocated` may be written; the context is current.
        let code = unsafe { (functions.allocate)(&raw mut allocated, length + GPU_PAGE) };
        context.cuda.done("cuMemAlloc", code)?;
        let memory = Self {
            context,
            allocated,
            // A page more was allocated than is needed.
            address: allocated.next_multiple_of(GPU_PAGE as u64),
            length,
        };
        memory.refuse_managed()?;
        memory.synchronise()?;
        Ok(memory)
    }

    /// Memory that moves to where it is touched looks like a GPU's, and has no fixed place.
    fn refuse_managed(&self) -> Result<(), CudaError> {
        let mut managed: u32 = 0;
        let get = self.context.enter()?.get_attribute;
        // SAFETY: the attribute is a boolean of at most 4 bytes; the address is one of the driver's.
        let code = unsafe { get((&raw mut managed).cast(), IS_MANAGED, self.address) };
        self.context.cuda.done("cuPointerGetAttribute", code)?;
        match managed {
            0 => Ok(()),
            _ => Err(CudaError::Managed),
        }
    }

    fn synchronise(&self) -> Result<(), CudaError> {
        let on: u32 = 1;
        let set = self.context.enter()?.set_attribute;
        // SAFETY: the attribute is a boolean of 4 bytes; the address is one of the driver's.
        let code = unsafe { set((&raw const on).cast(), SYNC_MEMOPS, self.address) };
        self.context.cuda.done("cuPointerSetAttribute", code)
    }

    /// Its virtual address, by which a NIC registers it (peer memory).
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes; it always has some.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn check(&self, offset: usize, length: usize) -> Result<(), CudaError> {
        within(offset, length, self.length)
    }

    /// Copies bytes of the host into it at `offset`.
    ///
    /// # Errors
    /// They do not fit, or the copy fails.
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) -> Result<(), CudaError> {
        self.check(offset, bytes.len())?;
        let copy = self.context.enter()?.to_device;
        let to = self.address + offset as u64;
        // SAFETY: both ranges are there: checked, and a slice.
        let code = unsafe { copy(to, bytes.as_ptr().cast(), bytes.len()) };
        self.context.cuda.done("cuMemcpyHtoD", code)
    }

    /// Copies the bytes at `offset` out into `into`.
    ///
    /// # Errors
    /// They are not all there, or the copy fails.
    pub fn copy_out(&self, offset: usize, into: &mut [u8]) -> Result<(), CudaError> {
        self.check(offset, into.len())?;
        let copy = self.context.enter()?.from_device;
        let from = self.address + offset as u64;
        // SAFETY: both ranges are there: checked, and a slice that nobody else has.
        let code = unsafe { copy(into.as_mut_ptr().cast(), from, into.len()) };
        self.context.cuda.done("cuMemcpyDtoH", code)
    }

    /// A file descriptor for all of it, by which a NIC registers it without a module of its own.
    ///
    /// # Errors
    /// The driver or the GPU has no dma-buf.
    pub fn dma_buf(&self) -> Result<OwnedFd, CudaError> {
        let Some(export) = self.context.cuda.library.handle_for_range else {
            let why =
                "libcuda.so.1 has no cuMemGetHandleForAddressRange (from CUDA 11.7)".to_owned();
            return Err(CudaError::NoDmaBuf { why });
        };
        self.context.enter()?;
        let mut descriptor: c_int = -1;
        let into: *mut c_void = (&raw mut descriptor).cast();
        // SAFETY: a descriptor may be written to `into`; the range is all of the memory.
        let code = unsafe { export(into, self.address, self.length, DMA_BUF_FD, 0) };
        let call = "cuMemGetHandleForAddressRange";
        let exported = self.context.cuda.done(call, code);
        exported.map_err(|error| CudaError::NoDmaBuf {
            why: error.to_string(),
        })?;
        if descriptor < 0 {
            let why = format!("{call} gave the descriptor {descriptor}");
            return Err(CudaError::NoDmaBuf { why });
        }
        // SAFETY: made for us just now, owned by nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        if let Ok(functions) = self.context.enter() {
            // SAFETY: allocated in `new`, freed once; whoever registered it holds it.
            unsafe { (functions.free)(self.allocated) };
        }
    }
}

/// Host memory that the GPU copies from and to at full speed: pages that stay where they are.
///
/// A NIC may write there at any moment, so no reference into it is ever given out.
pub struct PinnedMemory {
    context: Context,
    start: *mut u8,
    length: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for PinnedMemory {}
// SAFETY: shared use goes through raw copies, never through references.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    /// Allocates `length` bytes by a GPU's context.
    ///
    /// # Errors
    /// The host has no such memory left.
    pub fn new(gpu: &CudaDevice, length: usize) -> Result<Self, CudaError> {
        let context = Context::retain(gpu)?;
        let functions = context.enter()?;
        let mut start = std::ptr::null_mut();
        let length = length.max(1);
        // SAFETY: `start` may be written; no flags.
        let code = unsafe { (functions.allocate_pinned)(&raw mut start, length, 0) };
        context.cuda.done("cuMemHostAlloc", code)?;
        let start: *mut u8 = start.cast();
        // SAFETY: allocated just now with this length; written once so that it may be read.
        unsafe { std::ptr::write_bytes(start, 0, length) };
        Ok(Self {
            context,
            start,
            length,
        })
    }

    /// Its virtual address.
    pub fn address(&self) -> u64 {
        self.start as u64
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes; it always has some.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies bytes into it at `offset`.
    ///
    /// # Errors
    /// They do not fit.
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) -> Result<(), CudaError> {
        within(offset, bytes.len(), self.length)?;
        // SAFETY: there is room for them, checked, in memory that is never lent out.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset), bytes.len())
        };
        Ok(())
    }

    /// Copies the bytes at `offset` out into `into`.
    ///
    /// # Errors
    /// They are not all there.
    pub fn copy_out(&self, offset: usize, into: &mut [u8]) -> Result<(), CudaError> {
        within(offset, into.len(), self.length)?;
        // SAFETY: they are there, checked, in memory that is never lent out. A NIC may be writing
        // them: they are plain bytes, copied without a reference to them.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.add(offset), into.as_mut_ptr(), into.len())
        };
        Ok(())
    }

    /// Copies `length` bytes at `offset` to the same place of a GPU's memory.
    ///
    /// # Errors
    /// They are not in both, or the copy fails.
    pub fn push(&self, gpu: &GpuMemory, offset: usize, length: usize) -> Result<(), CudaError> {
        within(offset, length, self.length)?;
        gpu.check(offset, length)?;
        let copy = gpu.context.enter()?.to_device;
        // SAFETY: both ranges are there, checked.
        let code = unsafe {
            let from = self.start.add(offset);
            copy(gpu.address + offset as u64, from.cast(), length)
        };
        gpu.context.cuda.done("cuMemcpyHtoD", code)
    }

    /// Copies `length` bytes at `offset` of a GPU's memory to the same place here.
    ///
    /// # Errors
    /// They are not in both, or the copy fails.
    pub fn pull(&self, gpu: &GpuMemory, offset: usize, length: usize) -> Result<(), CudaError> {
        within(offset, length, self.length)?;
        gpu.check(offset, length)?;
        let copy = gpu.context.enter()?.from_device;
        // SAFETY: both ranges are there, checked, and none of this is lent out.
        let code = unsafe {
            let to = self.start.add(offset);
            copy(to.cast(), gpu.address + offset as u64, length)
        };
        gpu.context.cuda.done("cuMemcpyDtoH", code)
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if let Ok(functions) = self.context.enter() {
            // SAFETY: allocated in `new`, freed once; whoever registered it holds it.
            unsafe { (functions.free_pinned)(self.start.cast()) };
        }
    }
}

fn within(offset: usize, length: usize, size: usize) -> Result<(), CudaError> {
    match offset.checked_add(length) {
        Some(end) if end <= size => Ok(()),
        _ => Err(CudaError::OutsideMemory {
            offset,
            length,
            size,
        }),
    }
}
