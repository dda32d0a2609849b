//! NVIDIA's CUDA driver: started once, in bounded time, and the GPUs that it serves.

use std::ffi::{c_char, c_int};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::Builder;
use std::time::Duration;

use super::driver::Library;
use super::error::CudaError;
use crate::model::{Bytes, PciAddress};

/// The library of the driver; the toolkit's stub has the name without a number.
pub(super) const SONAME: &str = "libcuda.so.1";
/// More GPUs than sit in a node.
const MAX_GPUS: c_int = 64;
/// The longest text that is kept of the library's, in characters, as of NVML's.
const MAX_TEXT: usize = 96;
/// How long the driver may take to start. A node of eight GPUs without persistence takes some seconds;
/// one whose driver is wedged never ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// A device attribute by its number and name (`CUdevice_attribute` in cuda.h).
pub(super) type Attribute = (c_int, &'static str);
/// Whether NICs may reach the memory by a peer memory client.
pub(super) const GPU_DIRECT_RDMA: Attribute =
    (116, "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED");
/// Whether the memory can be exported as a dma-buf.
pub(super) const DMA_BUF: Attribute = (124, "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED");

/// The driver, started.
#[derive(Clone)]
pub struct Cuda {
    pub(super) library: Arc<Library>,
}

/// What became of the driver in this process.
enum Start {
    Running(Cuda),
    /// Its thread still waits, and another would wait as well.
    Silent,
}

static START: Mutex<Option<Start>> = Mutex::new(None);

impl Cuda {
    /// The driver of this node, started once for the life of the process (some hundred milliseconds).
    ///
    /// # Errors
    /// There is no library, or the driver does not start within 10 s, of which nobody is made to wait
    /// twice.
    pub fn start() -> Result<Self, CudaError> {
        let mut start = START.lock().unwrap_or_else(PoisonError::into_inner);
        match &*start {
            Some(Start::Running(cuda)) => return Ok(cuda.clone()),
            Some(Start::Silent) => return Err(silent(PATIENCE)),
            None => {}
        }
        let started = Self::open(SONAME, PATIENCE);
        *start = match &started {
            Ok(cuda) => Some(Start::Running(cuda.clone())),
            Err(CudaError::Silent { .. }) => Some(Start::Silent),
            // It may be there the next time.
            Err(_) => None,
        };
        started
    }

    /// Opens and starts the driver in another file, on a thread of its own: `cuInit` has no end of its
    /// own where the kernel's part hangs, and nothing can break it off.
    pub(super) fn open(file: &str, patience: Duration) -> Result<Self, CudaError> {
        let (answer, started) = sync_channel(1);
        let file = file.to_owned();
        let thread = Builder::new().name("cuInit".to_owned()).spawn(move || {
            // Nobody listens any more where it took too long.
            let _ = answer.send(init(&file));
        });
        thread.map_err(|error| CudaError::Thread {
            why: error.to_string(),
        })?;
        match started.recv_timeout(patience) {
            Ok(started) => started,
            Err(RecvTimeoutError::Timeout) => Err(silent(patience)),
            Err(RecvTimeoutError::Disconnected) => Err(CudaError::Thread {
                why: "it broke".to_owned(),
            }),
        }
    }

    /// The CUDA version of the driver: `12040` is 12.4.
    ///
    /// # Errors
    /// The call fails.
    pub fn version(&self) -> Result<String, CudaError> {
        let mut version = 0;
        // SAFETY: `version` may be written.
        let code = unsafe { (self.library.devices.driver_version)(&raw mut version) };
        self.done("cuDriverGetVersion", code)?;
        Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    /// How many GPUs it serves; no more than sit in a node.
    ///
    /// # Errors
    /// The call fails.
    pub fn count(&self) -> Result<i32, CudaError> {
        let mut count = 0;
        // SAFETY: `count` may be written.
        let code = unsafe { (self.library.devices.device_count)(&raw mut count) };
        self.done("cuDeviceGetCount", code)?;
        Ok(count.clamp(0, MAX_GPUS))
    }

    /// A GPU by its number at the driver; one whose address is not told is nobody's.
    ///
    /// # Errors
    /// A call fails.
    pub fn gpu(&self, ordinal: i32) -> Result<CudaDevice, CudaError> {
        let mut number = 0;
        // SAFETY: `number` may be written.
        let code = unsafe { (self.library.devices.device)(&raw mut number, ordinal) };
        self.done("cuDeviceGet", code)?;
        let ask = self.library.devices.device_pci;
        let address = self.text("cuDeviceGetPCIBusId", ask, number)?;
        Ok(CudaDevice {
            cuda: self.clone(),
            number,
            address: PciAddress(as_linux_has_it(&address)),
        })
    }

    /// The GPU at a PCI address, as sysfs has it.
    ///
    /// # Errors
    /// It is not served, or a call fails.
    pub fn gpu_at(&self, address: &PciAddress) -> Result<CudaDevice, CudaError> {
        let mut served = Vec::new();
        for ordinal in 0..self.count()? {
            match self.gpu(ordinal) {
                Ok(gpu) if gpu.address == *address => return Ok(gpu),
                Ok(gpu) => served.push(gpu.address.to_string()),
                Err(error) => {
                    served.push(format!("GPU {ordinal}, which does not answer ({error})"))
                }
            }
        }
        Err(CudaError::NoSuchGpu {
            address: address.to_string(),
            served: match served.as_slice() {
                [] => "none at all".to_owned(),
                some => some.join(", "),
            },
        })
    }

    fn text(
        &self,
        call: &'static str,
        ask: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
        device: c_int,
    ) -> Result<String, CudaError> {
        /// Longer than any name or address of a GPU, with a NUL that nobody overwrites.
        const ROOM: c_int = 256;
        let mut text = [0_u8; ROOM as usize + 1];
        // SAFETY: there is room for more bytes than are said to be.
        let code = unsafe { ask(text.as_mut_ptr().cast(), ROOM, device) };
        self.done(call, code)?;
        let bytes = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        Ok(text.chars().take(MAX_TEXT).collect())
    }

    pub(super) fn done(&self, call: &'static str, code: c_int) -> Result<(), CudaError> {
        self.library.done(call, code)
    }
}

/// Ends the process where the driver hangs, or is being waited for; else returns.
///
/// The usual end runs the destructors of every library, and those of the driver's may wait for what
/// hangs.
pub fn leave_if_hung(code: i32) {
    let hangs = match START.try_lock() {
        Ok(start) => matches!(*start, Some(Start::Silent)),
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Poisoned(_)) => false,
    };
    if hangs {
        // SAFETY: ends the process at once; what is to be written has been.
        unsafe { nix::libc::_exit(code) };
    }
}

/// Runs on a thread of its own.
fn init(file: &str) -> Result<Cuda, CudaError> {
    let library = Arc::new(Library::open(file)?);
    // SAFETY: no flags; may be called by any thread, any number of times.
    library.done("cuInit", unsafe { (library.devices.init)(0) })?;
    Ok(Cuda { library })
}

fn silent(patience: Duration) -> CudaError {
    CudaError::Silent {
        seconds: patience.as_secs(),
    }
}

/// A GPU that the driver serves.
#[derive(Clone)]
pub struct CudaDevice {
    pub(super) cuda: Cuda,
    /// Its number at the driver (`CUdevice`).
    pub(super) number: c_int,
    address: PciAddress,
}

impl CudaDevice {
    /// Where it is.
    pub fn address(&self) -> &PciAddress {
        &self.address
    }

    /// Its model, such as `NVIDIA H100 80GB HBM3`.
    ///
    /// # Errors
    /// The call fails.
    pub fn name(&self) -> Result<String, CudaError> {
        let ask = self.cuda.library.devices.device_name;
        self.cuda.text("cuDeviceGetName", ask, self.number)
    }

    /// Its memory.
    ///
    /// # Errors
    /// The call fails.
    pub fn memory(&self) -> Result<Bytes, CudaError> {
        let mut bytes = 0;
        let ask = self.cuda.library.devices.device_memory;
        // SAFETY: `bytes` may be written.
        let code = unsafe { ask(&raw mut bytes, self.number) };
        self.cuda.done("cuDeviceTotalMem", code)?;
        Ok(Bytes(bytes as u64))
    }

    /// Whether the driver exports its memory as a dma-buf (DMA_BUF_SUPPORTED).
    ///
    /// # Errors
    /// The driver is too old to say, or the call fails.
    pub fn has_dma_buf(&self) -> Result<bool, CudaError> {
        self.attribute(DMA_BUF)
    }

    /// A yes or no. An attribute that an older driver does not know is unknown, and no no.
    pub(super) fn attribute(&self, (number, name): Attribute) -> Result<bool, CudaError> {
        /// `CUDA_ERROR_INVALID_VALUE`.
        const INVALID_VALUE: c_int = 1;
        let mut value = 0;
        let ask = self.cuda.library.devices.device_attribute;
        // SAFETY: `value` may be written.
        let code = unsafe { ask(&raw mut value, number, self.number) };
        if code == INVALID_VALUE {
            return Err(CudaError::UnknownAttribute { attribute: name });
        }
        self.cuda.done("cuDeviceGetAttribute", code)?;
        Ok(value != 0)
    }
}

/// `0000:3B:00.0` in the letters that sysfs has; the domain is written in four digits or eight.
fn as_linux_has_it(address: &str) -> String {
    let address = address.to_ascii_lowercase();
    match address.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && domain.starts_with("0000") => {
            format!("{}:{rest}", &domain[4..])
        }
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_sysfs() {
        for (driver, linux) in [
            ("0000:3B:00.0", "0000:3b:00.0"),
            ("00000000:9A:00.0", "0000:9a:00.0"),
            ("0001:00:00.0", "0001:00:00.0"),
            ("éééé:00.0", "éééé:00.0"),
            ("", ""),
        ] {
            assert_eq!(as_linux_has_it(driver), linux);
        }
    }
}
