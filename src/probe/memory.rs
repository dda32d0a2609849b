//! The memory of one end: the host's, in huge pages or not, or a GPU's, which the NIC reaches by itself
//! or by way of host memory.

use std::fmt::Write;
use std::sync::Arc;

use crate::gpu::{Cuda, CudaDevice, CudaError, GpuMemory, PinnedMemory};
use crate::model::{
    CopyRates, Fact, GpuUsed, LocalPort, MemoryKind, MemoryUsed, MemoryWay, PciAddress, RefusedWay,
};
use crate::verbs::{ForeignMemory, ForeignWay, MemoryOptions, MemoryRegion, ProtectionDomain};

use super::copies::copy_rates;
use super::error::ProbeError;

/// Registered memory, and whose it is.
pub(super) struct Obtained {
    /// What the NIC reads and writes.
    pub region: MemoryRegion,
    /// The GPU's memory that this stands for, where the NIC cannot be asked to reach it.
    pub stage: Option<Stage>,
    /// What is told of it.
    pub used: MemoryUsed,
}

/// Registers `length` bytes of a kind of memory, or a little more, for an end at `port`.
///
/// # Errors
/// It cannot be had or not be registered. Memory of a GPU is never replaced by the host's.
pub(super) fn obtain(
    domain: &ProtectionDomain,
    kind: MemoryKind,
    port: &LocalPort,
    length: usize,
    options: MemoryOptions,
) -> Result<Obtained, ProbeError> {
    match kind {
        MemoryKind::Host | MemoryKind::HostHuge => Ok(Obtained {
            region: MemoryRegion::new(domain, length, options)?,
            stage: None,
            used: MemoryUsed::of_host(options.huge_pages),
        }),
        MemoryKind::Gpu => direct(domain, &open(port)?, port, length, options),
        MemoryKind::GpuStaged => staged(domain, &open(port)?, length, options),
    }
}

/// A GPU that answers, and what is told of it.
struct Opened {
    device: CudaDevice,
    name: String,
    copies: Fact<CopyRates>,
}

impl Opened {
    fn used(&self, way: MemoryWay, tried: Vec<RefusedWay>) -> MemoryUsed {
        MemoryUsed {
            way,
            tried,
            gpu: Some(GpuUsed {
                address: self.device.address().clone(),
                name: self.name.clone(),
                copies: self.copies.clone(),
            }),
        }
    }
}

/// Opens the GPU that the controller names, and measures how fast it is copied from and to.
fn open(port: &LocalPort) -> Result<Opened, ProbeError> {
    let Some(address) = &port.gpu else {
        return Err(ProbeError::NoGpuMemory {
            of: format!("a GPU near {}", port.device),
            why: "none is known".to_owned(),
        });
    };
    // Said without the address, as of all GPUs alike.
    let cuda = Cuda::start().map_err(|error| ProbeError::NoGpuMemory {
        of: "any GPU".to_owned(),
        why: error.to_string(),
    })?;
    let opened = cuda.gpu_at(address).and_then(|device| {
        let name = device.name()?;
        Ok((device, name))
    });
    let (device, name) = opened.map_err(|error| absent(address, &error))?;
    let copies = copy_rates(&device);
    Ok(Opened {
        device,
        name,
        copies,
    })
}

fn absent(address: &PciAddress, error: &CudaError) -> ProbeError {
    ProbeError::NoGpuMemory {
        of: format!("GPU {address}"),
        why: error.to_string(),
    }
}

fn allocate(gpu: &Opened, length: usize) -> Result<Arc<GpuMemory>, ProbeError> {
    let memory = GpuMemory::new(&gpu.device, length);
    let memory = memory.map_err(|error| absent(gpu.device.address(), &error))?;
    Ok(Arc::new(memory))
}

/// A way, and what tries it.
type Attempt<'a> = (MemoryWay, &'a dyn Fn() -> Result<MemoryRegion, String>);

/// By dma-buf where the driver exports one and the NIC takes it, else by peer memory.
///
/// Both sides are asked by trying: a list of modules or attributes proves nothing.
fn direct(
    domain: &ProtectionDomain,
    gpu: &Opened,
    port: &LocalPort,
    length: usize,
    options: MemoryOptions,
) -> Result<Obtained, ProbeError> {
    let memory = allocate(gpu, length)?;
    let register = |way: &ForeignWay| {
        let memory: Arc<dyn ForeignMemory> = memory.clone();
        MemoryRegion::of_foreign(domain, memory, way, options).map_err(|error| error.to_string())
    };
    let dma_buf = || {
        let descriptor = export(gpu, &memory).map_err(|error| error.to_string())?;
        register(&ForeignWay::DmaBuf(descriptor))
    };
    let mut tried = Vec::new();
    let ways: [Attempt<'_>; 2] = [
        (MemoryWay::DmaBuf, &dma_buf),
        (MemoryWay::PeerMemory, &|| register(&ForeignWay::PeerMemory)),
    ];
    for (way, attempt) in ways {
        match attempt() {
            Ok(region) => {
                return Ok(Obtained {
                    region,
                    stage: None,
                    used: gpu.used(way, tried),
                });
            }
            Err(why) => tried.push(RefusedWay { way, why }),
        }
    }
    Err(ProbeError::GpuMemoryRefused {
        gpu: gpu.device.address().to_string(),
        device: port.device.clone(),
        tried: in_words(&tried),
    })
}

/// A descriptor of the memory, where the driver does not say that there is none.
fn export(gpu: &Opened, memory: &GpuMemory) -> Result<std::os::fd::OwnedFd, CudaError> {
    match gpu.device.has_dma_buf() {
        Ok(false) => Err(CudaError::NoDmaBuf {
            why: "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0".to_owned(),
        }),
        // An older driver does not know the question; it may know the answer.
        _ => memory.dma_buf(),
    }
}

fn in_words(tried: &[RefusedWay]) -> String {
    let mut words = String::new();
    for (at, RefusedWay { way, why }) in tried.iter().enumerate() {
        let separator = if at == 0 { "" } else { "; " };
        // Writing to a string does not fail.
        let _ = write!(words, "{separator}{way}: {why}");
    }
    words
}

/// Pinned host memory that the NIC works on, and the GPU's beside it.
fn staged(
    domain: &ProtectionDomain,
    gpu: &Opened,
    length: usize,
    options: MemoryOptions,
) -> Result<Obtained, ProbeError> {
    let memory = allocate(gpu, length)?;
    let pinned = PinnedMemory::new(&gpu.device, memory.len());
    let pinned = pinned.map_err(|error| absent(gpu.device.address(), &error))?;
    let pinned = Arc::new(pinned);
    let foreign: Arc<dyn ForeignMemory> = pinned.clone();
    Ok(Obtained {
        region: MemoryRegion::of_foreign(domain, foreign, &ForeignWay::Host, options)?,
        stage: Some(Stage {
            gpu: memory,
            pinned,
        }),
        used: gpu.used(MemoryWay::Staged, Vec::new()),
    })
}

/// Memory of a GPU, and the host memory by way of which it is sent and received.
pub(super) struct Stage {
    gpu: Arc<GpuMemory>,
    pinned: Arc<PinnedMemory>,
}

impl Stage {
    /// Writes bytes of the host into the GPU's memory.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), ProbeError> {
        Ok(self.gpu.copy_in(offset, bytes)?)
    }

    /// Reads the GPU's memory.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), ProbeError> {
        Ok(self.gpu.copy_out(offset, into)?)
    }

    /// Before it is sent: from the GPU to the host.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn fetch(&self, offset: usize, length: usize) -> Result<(), ProbeError> {
        Ok(self.pinned.pull(&self.gpu, offset, length)?)
    }

    /// After it came: from the host to the GPU.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn deliver(&self, offset: usize, length: usize) -> Result<(), ProbeError> {
        Ok(self.pinned.push(&self.gpu, offset, length)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_tried_is_told() {
        let refused = |way, why: &str| RefusedWay {
            way,
            why: why.to_owned(),
        };
        let tried = [
            refused(MemoryWay::DmaBuf, "the driver of rxe0 takes none"),
            refused(MemoryWay::PeerMemory, "no module"),
        ];
        assert_eq!(
            in_words(&tried),
            "dma-buf: the driver of rxe0 takes none; peer memory: no module"
        );
    }
}
