//! What can go wrong with the CUDA driver, and what an operator makes of it.

/// The CUDA driver's library is not there, is another, or a call of it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// No library, so no driver.
    #[error(
        "{file} is not installed ({}); it comes with NVIDIA's driver",
        reason(source)
    )]
    Load {
        /// Its file name.
        file: String,
        /// Why not.
        source: libloading::Error,
    },
    /// The library lacks a function.
    #[error("{file} has no {function}: it is not NVIDIA's, or older than CUDA 6")]
    Lacks {
        /// Its file name.
        file: String,
        /// Which.
        function: &'static str,
        /// What the loader says.
        source: libloading::Error,
    },
    /// A call failed.
    #[error("{call} failed: {name} ({code}){}", meaning(*code))]
    Call {
        /// Which.
        call: &'static str,
        /// The library's number for it (`CUresult` in cuda.h).
        code: i32,
        /// The library's name for it.
        name: String,
    },
    /// A device attribute that only newer drivers know.
    #[error("cuDeviceGetAttribute: this driver does not know {attribute}")]
    UnknownAttribute {
        /// Its name in cuda.h.
        attribute: &'static str,
    },
    /// The library can tell of GPUs, but not allocate their memory.
    #[error("libcuda.so.1 has no {function}: NVIDIA's driver is older than CUDA 11, update it")]
    TooOld {
        /// The function that is missing.
        function: &'static str,
    },
    /// The driver did not start in time, and may never do.
    #[error(
        "the CUDA driver did not answer cuInit within {seconds} s; look for Xid errors and hung tasks \
         in the kernel log"
    )]
    Silent {
        /// For how long it was waited.
        seconds: u64,
    },
    /// The thread that was to start the driver could not, or broke.
    #[error("no thread could start the CUDA driver: {why}")]
    Thread {
        /// Why not.
        why: String,
    },
    /// There is no GPU at this PCI address among those that the driver serves.
    #[error("the CUDA driver serves no GPU at {address}, only {served}")]
    NoSuchGpu {
        /// The address.
        address: String,
        /// The addresses of those that are served.
        served: String,
    },
    /// A range beyond the memory that was allocated.
    #[error("{length} bytes at {offset} are not within {size} bytes of GPU memory")]
    OutsideMemory {
        /// Where it begins.
        offset: usize,
        /// Its length.
        length: usize,
        /// What there is.
        size: usize,
    },
    /// The driver cannot hand out a file descriptor for its memory.
    #[error("the CUDA driver exports no dma-buf: {why}")]
    NoDmaBuf {
        /// Why not.
        why: String,
    },
    /// Memory that the GPU and the host share by moving pages cannot be registered as a GPU's own.
    #[error(
        "the memory is managed memory, which moves between host and GPU: what is measured with it is \
         not GPUDirect"
    )]
    Managed,
}

/// libloading's own words leave out why.
fn reason(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

/// What an error means to an operator, where its name does not say it (cuda.h, CUresult).
fn meaning(code: i32) -> &'static str {
    match code {
        2 => ": the GPU has no memory left, or other work holds it",
        34 => ": this is the toolkit's stub, not the driver's library",
        100 => ": the driver serves no GPU, or CUDA_VISIBLE_DEVICES hides it",
        802 => ": NVSwitch systems need nvidia-fabricmanager to run",
        803 => ": library and kernel driver are of different versions; reload the driver or reboot",
        804 => ": the library is a compatibility package that this GPU does not take",
        999 => ": look for Xid errors in the kernel log; /dev/nvidia-uvm may be missing",
        _ => "",
    }
}
