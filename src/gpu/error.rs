//! What can go wrong with the CUDA driver, and what an operator makes of it.

/// The CUDA driver's library is not there, is another, or a call of it failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CudaError {
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
}

/// libloading's own words leave out why.
fn reason(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

/// What an error means to an operator, where its name does not say it (cuda.h, CUresult).
fn meaning(code: i32) -> &'static str {
    match code {
        34 => ": this is the toolkit's stub, not the driver's library",
        100 => ": the driver serves no GPU, or CUDA_VISIBLE_DEVICES hides it",
        802 => ": NVSwitch systems need nvidia-fabricmanager to run",
        803 => ": library and kernel driver are of different versions; reload the driver or reboot",
        804 => ": the library is a compatibility package that this GPU does not take",
        999 => ": look for Xid errors in the kernel log; /dev/nvidia-uvm may be missing",
        _ => "",
    }
}
