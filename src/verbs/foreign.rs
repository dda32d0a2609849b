//! Registration of memory that another library has allocated, such as that of a GPU.

use std::error::Error;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ibverbs_sys as ffi;
use nix::libc;

use super::error::{Failure, VerbsError};
use super::explain::{Operation, Situation};
use super::memory::{
    Backing, DomainHandle, MemoryOptions, MemoryRegion, ProtectionDomain, access, register,
};

/// Why another library could not copy its memory.
pub type CopyError = Box<dyn Error + Send + Sync>;

/// Memory of another library.
///
/// # Safety
/// `address` and `length` name memory that is allocated, and stays where it is, until the value is
/// dropped; the NIC may read and write it, and so may anybody with its key, until then.
pub unsafe trait ForeignMemory: Send + Sync {
    /// Its virtual address: of the host, or of the device that owns it.
    fn address(&self) -> u64;
    /// Its length in bytes.
    fn length(&self) -> usize;
    /// Bytes of a page of it.
    fn page_size(&self) -> usize;
    /// Copies bytes of the host into it at `offset`.
    ///
    /// # Errors
    /// They do not fit, or the device refuses.
    fn copy_in(&self, offset: usize, bytes: &[u8]) -> Result<(), CopyError>;
    /// Copies the bytes at `offset` out into `into`.
    ///
    /// # Errors
    /// They are not all there, or the device refuses.
    fn copy_out(&self, offset: usize, into: &mut [u8]) -> Result<(), CopyError>;
}

/// How a NIC is to come to memory of another library.
#[derive(Debug)]
pub enum ForeignWay {
    /// It is host memory, only allocated by somebody else.
    Host,
    /// By its address, which a peer memory client in the kernel must know.
    PeerMemory,
    /// By a descriptor of it, which begins where the memory does.
    DmaBuf(OwnedFd),
}

impl ForeignWay {
    fn operation(&self) -> Operation {
        match self {
            Self::Host => Operation::RegisterMemory,
            Self::PeerMemory => Operation::RegisterPeerMemory,
            Self::DmaBuf(_) => Operation::RegisterDmaBuf,
        }
    }
}

impl MemoryRegion {
    /// Registers memory of another library for local and remote write, and keeps it alive.
    ///
    /// Relaxed ordering of PCIe writes is asked for where libibverbs knows it.
    ///
    /// # Errors
    /// Nobody knows the address, the descriptor is not taken, or a limit was met; the error says what
    /// that means.
    pub fn of_foreign(
        domain: &ProtectionDomain,
        memory: Arc<dyn ForeignMemory>,
        way: &ForeignWay,
        options: MemoryOptions,
    ) -> Result<Self, VerbsError> {
        let domain = Arc::clone(&domain.handle);
        let began = Instant::now();
        let (start, length) = (memory.address(), memory.length());
        let (raw, relaxed_ordering) = match way {
            ForeignWay::DmaBuf(descriptor) => {
                by_dma_buf(&domain, start, length, descriptor, options)?
            }
            _ => register(&domain, start as *mut c_void, length, options),
        };
        let registration = began.elapsed();
        let Some(raw) = NonNull::new(raw) else {
            let error = io::Error::last_os_error();
            return Err(refused(&domain, length, way, error));
        };
        Ok(Self {
            domain,
            raw,
            backing: Some(Backing::Foreign(memory)),
            prefault: Duration::ZERO,
            registration,
            relaxed_ordering,
        })
    }
}

/// Registers a descriptor of the memory, with relaxed ordering where the driver takes it.
fn by_dma_buf(
    domain: &DomainHandle,
    start: u64,
    length: usize,
    descriptor: &OwnedFd,
    options: MemoryOptions,
) -> Result<(*mut ffi::ibv_mr, bool), VerbsError> {
    let Some(call) = domain.context.library.reg_dmabuf_mr else {
        return Err(VerbsError::SymbolMissing {
            symbol: "ibv_reg_dmabuf_mr".to_owned(),
            version: "IBVERBS_1.12".to_owned(),
        });
    };
    let relaxed = access(options) | ffi::ibv_access_flags::IBV_ACCESS_RELAXED_ORDERING;
    let tries = [(relaxed, true), (access(options), false)];
    let mut region = std::ptr::null_mut();
    for (access, is_relaxed) in &tries[usize::from(options.in_order)..] {
        // Access flags are small positive numbers: the cast keeps the bits.
        let (descriptor, flags) = (descriptor.as_raw_fd(), access.0 as i32);
        // SAFETY: the domain is allocated, the descriptor open; the memory that it stands for outlives
        // the region (`Drop`), by the contract of `ForeignMemory`.
        region = unsafe { call(domain.raw.as_ptr(), 0, length, start, descriptor, flags) };
        let refused = io::Error::last_os_error().raw_os_error();
        if !region.is_null() || refused != Some(libc::EINVAL) {
            return Ok((region, *is_relaxed));
        }
    }
    Ok((region, false))
}

fn refused(domain: &DomainHandle, bytes: usize, way: &ForeignWay, source: io::Error) -> VerbsError {
    let situation = Situation {
        bytes: Some(bytes),
        ..domain.context.situation()
    };
    let (device, failure) = (
        domain.context.name.clone(),
        Failure::new(source, way.operation(), &situation),
    );
    match way {
        ForeignWay::Host => VerbsError::RegisterMemory {
            bytes,
            device,
            failure,
        },
        _ => VerbsError::RegisterGpuMemory {
            bytes,
            device,
            failure,
        },
    }
}
