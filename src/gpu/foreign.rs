//! What CUDA allocated, as memory that a NIC registers.

use super::memory::{GPU_PAGE, GpuMemory, PinnedMemory};
use crate::verbs::{CopyError, ForeignMemory};

// SAFETY: allocated in `new`, freed by drop alone, and never moved: managed memory is refused. Nobody
// has references into it.
unsafe impl ForeignMemory for GpuMemory {
    fn address(&self) -> u64 {
        self.address()
    }

    fn length(&self) -> usize {
        self.len()
    }

    fn page_size(&self) -> usize {
        GPU_PAGE
    }

    fn copy_in(&self, offset: usize, bytes: &[u8]) -> Result<(), CopyError> {
        Ok(self.copy_in(offset, bytes)?)
    }

    fn copy_out(&self, offset: usize, into: &mut [u8]) -> Result<(), CopyError> {
        Ok(self.copy_out(offset, into)?)
    }
}

/// The driver allocates it in pages of the usual size.
const HOST_PAGE: usize = 4096;

// SAFETY: allocated in `new`, freed by drop alone, its pages pinned. Nobody has references into it.
unsafe impl ForeignMemory for PinnedMemory {
    fn address(&self) -> u64 {
        self.address()
    }

    fn length(&self) -> usize {
        self.len()
    }

    fn page_size(&self) -> usize {
        HOST_PAGE
    }

    fn copy_in(&self, offset: usize, bytes: &[u8]) -> Result<(), CopyError> {
        Ok(self.copy_in(offset, bytes)?)
    }

    fn copy_out(&self, offset: usize, into: &mut [u8]) -> Result<(), CopyError> {
        Ok(self.copy_out(offset, into)?)
    }
}
