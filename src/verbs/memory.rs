//! Protection domains, and memory regions: over page-aligned, prefaulted host buffers, or over memory
//! that is not ours (`foreign.rs`).

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering, fence};
use std::time::{Duration, Instant};

use ibverbs_sys as ffi;
use nix::libc;

use super::device::{Context, Device};
use super::error::{Failure, VerbsError};
use super::explain::{Operation, Situation};
use super::foreign::ForeignMemory;
use super::queue_pair::remote_access;

/// The domain that ties queue pairs to the memory that they may touch.
#[derive(Clone)]
pub struct ProtectionDomain {
    pub(super) handle: Arc<DomainHandle>,
}

pub(super) struct DomainHandle {
    pub(super) context: Arc<Context>,
    pub(super) raw: NonNull<ffi::ibv_pd>,
}

// SAFETY: verbs calls on a protection domain are thread-safe, and the handle is never changed.
unsafe impl Send for DomainHandle {}
// SAFETY: as above.
unsafe impl Sync for DomainHandle {}

impl Drop for DomainHandle {
    fn drop(&mut self) {
        // SAFETY: allocated once, deallocated once; regions and queue pairs in it hold an Arc.
        unsafe { (self.context.library.dealloc_pd)(self.raw.as_ptr()) };
    }
}

impl ProtectionDomain {
    /// Allocates a protection domain on `device`.
    ///
    /// # Errors
    /// The device is out of resources or gone.
    pub fn new(device: &Device) -> Result<Self, VerbsError> {
        let context = Arc::clone(&device.context);
        // SAFETY: the context is open.
        let raw = unsafe { (context.library.alloc_pd)(context.raw.as_ptr()) };
        let Some(raw) = NonNull::new(raw) else {
            let source = io::Error::last_os_error();
            return Err(VerbsError::AllocateProtectionDomain {
                device: context.name.clone(),
                failure: context.failure(source, Operation::AllocateProtectionDomain),
            });
        };
        Ok(Self {
            handle: Arc::new(DomainHandle { context, raw }),
        })
    }
}

/// How a buffer is mapped and what a peer may do with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryOptions {
    /// In huge pages of the usual size, which must have been reserved.
    pub huge_pages: bool,
    /// Whether the peer may read; it may always write.
    pub remote_read: bool,
    /// Whether its bytes must land in order, as somebody watches the last one: no relaxed ordering.
    pub in_order: bool,
}

/// An anonymous mapping: page-aligned, zeroed, every page present.
pub(super) struct HostBuffer {
    start: NonNull<u8>,
    length: usize,
    /// Bytes that are mapped: whole pages where they are huge.
    mapped: usize,
    /// Bytes of a page.
    page: usize,
}

// SAFETY: the mapping belongs to this value alone and may be used from any thread.
unsafe impl Send for HostBuffer {}
// SAFETY: shared use goes through raw copies of `MemoryRegion`, never through references.
unsafe impl Sync for HostBuffer {}

impl HostBuffer {
    fn new(length: usize, huge_pages: bool) -> Result<Self, VerbsError> {
        let failed = |source| match huge_pages {
            true => VerbsError::HugePages {
                bytes: length,
                source,
            },
            false => VerbsError::AllocateBuffer {
                bytes: length,
                source,
            },
        };
        let page = page_size(huge_pages).map_err(failed)?;
        let (mapped, huge) = match huge_pages {
            // Unmapping takes whole huge pages only.
            true => (length.checked_next_multiple_of(page), libc::MAP_HUGETLB),
            false => (Some(length), 0),
        };
        let too_large = || failed(io::Error::from_raw_os_error(libc::ENOMEM));
        let mapped = mapped.ok_or_else(too_large)?;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches
        // nothing that exists. MAP_POPULATE faults the pages in now, so that registration does
        // not have to (10 to 100 times slower on untouched memory).
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE | huge,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(failed(io::Error::last_os_error()));
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| failed(io::Error::other("NULL")))?;
        Ok(Self {
            start,
            length,
            mapped,
            page,
        })
    }

    /// The address of `length` bytes at `offset`, if they lie inside.
    fn at(&self, offset: usize, length: usize) -> Result<*mut u8, VerbsError> {
        match offset.checked_add(length) {
            Some(end) if end <= self.length => {
                // SAFETY: `offset` is at most the length of the mapping.
                Ok(unsafe { self.start.as_ptr().add(offset) })
            }
            _ => Err(VerbsError::OutsideBuffer {
                offset,
                length,
                size: self.length,
            }),
        }
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

/// Bytes of a page: of the usual ones, or of the huge ones that are mapped without asking for a size.
fn page_size(huge: bool) -> io::Result<usize> {
    let odd = || io::Error::other("the size of a page is not known");
    if huge {
        let all = std::fs::read_to_string("/proc/meminfo")?;
        return huge_page_size(&all).ok_or_else(odd);
    }
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?;
    size.and_then(|size| usize::try_from(size).ok())
        .ok_or_else(odd)
}

/// `Hugepagesize:       2048 kB`.
fn huge_page_size(meminfo: &str) -> Option<usize> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("Hugepagesize:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).filter(|size| size.is_power_of_two())
}

/// The memory behind a region.
pub(super) enum Backing {
    Host(HostBuffer),
    /// Of another library.
    Foreign(Arc<dyn ForeignMemory>),
}

impl Backing {
    fn length(&self) -> usize {
        match self {
            Self::Host(buffer) => buffer.length,
            Self::Foreign(memory) => memory.length(),
        }
    }

    fn address(&self) -> u64 {
        match self {
            Self::Host(buffer) => buffer.start.as_ptr() as u64,
            Self::Foreign(memory) => memory.address(),
        }
    }

    /// The address of `length` bytes at `offset`, if they lie inside.
    fn at(&self, offset: usize, length: usize) -> Result<u64, VerbsError> {
        let size = self.length();
        match offset.checked_add(length) {
            Some(end) if end <= size => Ok(self.address() + offset as u64),
            _ => Err(VerbsError::OutsideBuffer {
                offset,
                length,
                size,
            }),
        }
    }
}

/// Memory that a device may read and a peer with its key may write.
///
/// The peer may write at any moment, so no reference into the buffer is ever given out: bytes are
/// copied in and out.
pub struct MemoryRegion {
    pub(super) domain: Arc<DomainHandle>,
    pub(super) raw: NonNull<ffi::ibv_mr>,
    pub(super) backing: Option<Backing>,
    pub(super) prefault: Duration,
    pub(super) registration: Duration,
    pub(super) relaxed_ordering: bool,
}

// SAFETY: verbs calls on a memory region are thread-safe; what is behind it is Send and Sync.
unsafe impl Send for MemoryRegion {}
// SAFETY: as above.
unsafe impl Sync for MemoryRegion {}

impl MemoryRegion {
    /// Maps, prefaults and registers a buffer of `length` bytes for local and remote write.
    ///
    /// Relaxed ordering of PCIe writes is asked for where libibverbs knows it.
    ///
    /// # Errors
    /// No memory, or the limit on locked memory is too low, which the error then says.
    pub fn new(
        domain: &ProtectionDomain,
        length: usize,
        options: MemoryOptions,
    ) -> Result<Self, VerbsError> {
        let began = Instant::now();
        let buffer = HostBuffer::new(length, options.huge_pages)?;
        let prefault = began.elapsed();
        let domain = Arc::clone(&domain.handle);
        let began = Instant::now();
        let start: *mut c_void = buffer.start.as_ptr().cast();
        let (raw, relaxed_ordering) = register(&domain, start, buffer.length, options);
        let registration = began.elapsed();
        let Some(raw) = NonNull::new(raw) else {
            return Err(registration_error(
                &domain.context,
                length,
                io::Error::last_os_error(),
            ));
        };
        Ok(Self {
            domain,
            raw,
            backing: Some(Backing::Host(buffer)),
            prefault,
            registration,
            relaxed_ordering,
        })
    }

    fn backing(&self) -> Result<&Backing, VerbsError> {
        // Only `drop` takes what is behind it, after which nobody calls this.
        self.backing.as_ref().ok_or(VerbsError::OutsideBuffer {
            offset: 0,
            length: 0,
            size: 0,
        })
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.backing.as_ref().map_or(0, Backing::length)
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its virtual address, which a peer's remote write names.
    pub fn address(&self) -> u64 {
        self.backing.as_ref().map_or(0, Backing::address)
    }

    /// The key that a peer presents.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: the region is registered as long as `self` lives.
        unsafe { self.raw.as_ref().rkey }
    }

    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { self.raw.as_ref().lkey }
    }

    /// The address of `length` bytes at `offset`, for a work request.
    pub(super) fn slice_address(&self, offset: usize, length: usize) -> Result<u64, VerbsError> {
        self.backing()?.at(offset, length)
    }

    /// Bytes of a page of it.
    pub fn page_size(&self) -> usize {
        match &self.backing {
            Some(Backing::Host(buffer)) => buffer.page,
            Some(Backing::Foreign(memory)) => memory.page_size(),
            None => 0,
        }
    }

    /// How long mapping and faulting in the pages took.
    pub fn prefault_time(&self) -> Duration {
        self.prefault
    }

    /// How long registration alone took.
    pub fn registration_time(&self) -> Duration {
        self.registration
    }

    /// Whether relaxed ordering was asked for (the kernel may still ignore it).
    pub fn relaxed_ordering(&self) -> bool {
        self.relaxed_ordering
    }

    /// Copies `bytes` into the memory at `offset`.
    ///
    /// # Errors
    /// [`VerbsError::OutsideBuffer`], or [`VerbsError::CopyMemory`] where it is another library's.
    pub fn copy_in(&mut self, offset: usize, bytes: &[u8]) -> Result<(), VerbsError> {
        let buffer = match self.backing()? {
            Backing::Host(buffer) => buffer,
            Backing::Foreign(memory) => {
                return memory
                    .copy_in(offset, bytes)
                    .map_err(VerbsError::CopyMemory);
            }
        };
        let target = buffer.at(offset, bytes.len())?;
        // SAFETY: `target` has room for `bytes`, which cannot overlap a mapping never lent out.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// The byte at `offset` as it is now; later copies see what the peer wrote before it.
    ///
    /// # Errors
    /// [`VerbsError::OutsideBuffer`]; another library's memory cannot be watched.
    pub fn load(&self, offset: usize) -> Result<u8, VerbsError> {
        let Backing::Host(buffer) = self.backing()? else {
            return Err(VerbsError::CopyMemory(
                "only host memory can be watched byte by byte".into(),
            ));
        };
        let at = buffer.at(offset, 1)?;
        // SAFETY: the byte lies inside the mapping, which lives as long as `self`; all who touch it
        // while it is watched do so by whole bytes.
        Ok(unsafe { AtomicU8::from_ptr(at) }.load(Ordering::Acquire))
    }

    /// Copies the bytes at `offset` out into `into`.
    ///
    /// # Errors
    /// [`VerbsError::OutsideBuffer`], or [`VerbsError::CopyMemory`] where it is another library's.
    pub fn copy_out(&self, offset: usize, into: &mut [u8]) -> Result<(), VerbsError> {
        let buffer = match self.backing()? {
            Backing::Host(buffer) => buffer,
            Backing::Foreign(memory) => {
                return memory
                    .copy_out(offset, into)
                    .map_err(VerbsError::CopyMemory);
            }
        };
        let source = buffer.at(offset, into.len())?;
        fence(Ordering::SeqCst);
        // SAFETY: `source` has `into.len()` readable bytes. The device may be writing them: they
        // are plain bytes, copied without a reference to them.
        unsafe { std::ptr::copy_nonoverlapping(source, into.as_mut_ptr(), into.len()) };
        Ok(())
    }
}

/// What the NIC and a peer may do.
pub(super) fn access(options: MemoryOptions) -> ffi::ibv_access_flags {
    ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE | remote_access(options.remote_read)
}

/// Registers `length` bytes at `start` with relaxed ordering where the library can, else without. The
/// caller keeps the memory for as long as the region lives.
pub(super) fn register(
    domain: &DomainHandle,
    start: *mut c_void,
    length: usize,
    options: MemoryOptions,
) -> (*mut ffi::ibv_mr, bool) {
    let library = domain.context.library;
    let access = access(options);
    if let Some(reg_mr_iova2) = library.reg_mr_iova2.filter(|_| !options.in_order) {
        let access = access | ffi::ibv_access_flags::IBV_ACCESS_RELAXED_ORDERING;
        // SAFETY: the domain is allocated; the memory outlives the region (`Drop`). An address that is
        // no memory of this process is refused by the kernel.
        let region =
            unsafe { reg_mr_iova2(domain.raw.as_ptr(), start, length, start as u64, access.0) };
        if !region.is_null() || io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
            return (region, true);
        }
    }
    // Access flags are small positive numbers: the cast keeps the bits.
    let flags = access.0 as i32;
    // SAFETY: as above.
    let region = unsafe { (library.reg_mr)(domain.raw.as_ptr(), start, length, flags) };
    (region, false)
}

fn registration_error(context: &Context, bytes: usize, source: io::Error) -> VerbsError {
    let situation = Situation {
        bytes: Some(bytes),
        ..context.situation()
    };
    VerbsError::RegisterMemory {
        bytes,
        device: context.name.clone(),
        failure: Failure::new(source, Operation::RegisterMemory, &situation),
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: registered once, deregistered once. Deregistration ends the device's access to
        // the pages, also of work requests still outstanding (they complete in error).
        let returned = unsafe { (self.domain.context.library.dereg_mr)(self.raw.as_ptr()) };
        if returned != 0 {
            // The device may still write there: leaking the memory is the safe choice.
            std::mem::forget(self.backing.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_page_aligned_and_zeroed_and_keeps_to_its_bounds() {
        let buffer = HostBuffer::new(10_000, false).expect("a buffer");
        assert_eq!(buffer.start.as_ptr() as usize % 4096, 0);
        // SAFETY: the byte lies inside the mapping.
        assert_eq!(unsafe { *buffer.at(9_999, 1).expect("the last byte") }, 0);
        assert!(buffer.at(0, 10_000).is_ok());
        for (offset, length) in [(0, 10_001), (9_999, 2), (usize::MAX, 2), (2, usize::MAX)] {
            assert!(buffer.at(offset, length).is_err(), "{offset} {length}");
        }
    }

    #[test]
    fn a_buffer_that_cannot_be_had_is_an_error() {
        let Err(error) = HostBuffer::new(1 << 60, false) else {
            panic!("an exbibyte was mapped")
        };
        assert!(
            error.to_string().contains("cannot allocate a buffer"),
            "{error}"
        );
        assert!(HostBuffer::new(0, false).is_err());
    }

    #[test]
    fn huge_pages_are_whole_or_it_is_said_how_to_have_them() {
        assert_eq!(
            huge_page_size("HugePages_Free: 0\nHugepagesize:       2048 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(huge_page_size("Hugepagesize: 3 kB"), None);
        match HostBuffer::new(10_000, true) {
            Ok(buffer) => assert_eq!(buffer.mapped % buffer.page, 0),
            Err(error) => assert!(error.to_string().contains("vm.nr_hugepages"), "{error}"),
        }
        assert!(HostBuffer::new(usize::MAX, true).is_err());
    }
}
