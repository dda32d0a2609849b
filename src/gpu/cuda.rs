//! The GPUs that NVIDIA's CUDA driver serves, and what it says of their memory.

use std::ffi::{c_char, c_int};

use super::driver::Library;
use super::error::CudaError;
use crate::model::{Bytes, CudaDriver, CudaGpu, Fact, PciAddress};

/// The library of the driver; the toolkit's stub has the name without a number.
const SONAME: &str = "libcuda.so.1";
/// More GPUs than sit in a node.
const MAX_GPUS: c_int = 64;
/// The longest text that is kept of the library's, in characters, as of NVML's.
const MAX_TEXT: usize = 96;

/// A device attribute by its number and name (`CUdevice_attribute` in cuda.h).
type Attribute = (c_int, &'static str);
const GPU_DIRECT_RDMA: Attribute = (116, "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED");
const DMA_BUF: Attribute = (124, "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED");

/// What it says. The driver is started (`cuInit`, some hundred milliseconds), and neither is a context
/// made nor memory of a GPU allocated: a job on it is not disturbed.
pub fn cuda() -> Fact<CudaDriver> {
    ask(SONAME)
}

/// The same of a library by file name.
pub(super) fn ask(file: &str) -> Fact<CudaDriver> {
    let answer = Library::open(file).and_then(|library| {
        // SAFETY: no flags; may be called by any thread, any number of times.
        library.done("cuInit", unsafe { (library.init)(0) })?;
        listed(&library)
    });
    match answer {
        Ok(driver) => Fact::known(driver, file),
        Err(error @ CudaError::Call { .. }) => Fact::unknown(format!("{file}: {error}")),
        Err(error) => Fact::unknown(error.to_string()),
    }
}

fn listed(library: &Library) -> Result<CudaDriver, CudaError> {
    let mut count = 0;
    // SAFETY: `count` may be written.
    let code = unsafe { (library.device_count)(&raw mut count) };
    library.done("cuDeviceGetCount", code)?;
    let mut found = CudaDriver {
        version: fact("cuDriverGetVersion", version(library)),
        ..CudaDriver::default()
    };
    for ordinal in 0..count.min(MAX_GPUS) {
        match gpu(library, ordinal) {
            Ok(gpu) => found.gpus.push(gpu),
            Err(error) => found.unread.push(format!("GPU {ordinal}: {error}")),
        }
    }
    Ok(found)
}

/// `12040` is 12.4.
fn version(library: &Library) -> Result<String, CudaError> {
    let mut version = 0;
    // SAFETY: `version` may be written.
    let code = unsafe { (library.driver_version)(&raw mut version) };
    library.done("cuDriverGetVersion", code)?;
    Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
}

/// A GPU by its number at the driver; one whose address is not told is nobody's.
fn gpu(library: &Library, ordinal: c_int) -> Result<CudaGpu, CudaError> {
    let mut device = 0;
    // SAFETY: `device` may be written.
    let code = unsafe { (library.device)(&raw mut device, ordinal) };
    library.done("cuDeviceGet", code)?;
    let address = text(library, "cuDeviceGetPCIBusId", library.device_pci, device)?;
    let name = text(library, "cuDeviceGetName", library.device_name, device);
    Ok(CudaGpu {
        address: PciAddress(as_linux_has_it(&address)),
        name: fact("cuDeviceGetName", name),
        memory: fact("cuDeviceTotalMem", memory(library, device)),
        gpudirect: yes_or_no(library, GPU_DIRECT_RDMA, device),
        dma_buf: yes_or_no(library, DMA_BUF, device),
    })
}

fn memory(library: &Library, device: c_int) -> Result<Bytes, CudaError> {
    let mut bytes = 0;
    // SAFETY: `bytes` may be written.
    let code = unsafe { (library.device_memory)(&raw mut bytes, device) };
    library.done("cuDeviceTotalMem", code)?;
    Ok(Bytes(bytes as u64))
}

/// An attribute that an older driver does not know is unknown, and no no.
fn yes_or_no(library: &Library, (number, name): Attribute, device: c_int) -> Fact<bool> {
    /// `CUDA_ERROR_INVALID_VALUE`.
    const INVALID_VALUE: c_int = 1;
    let mut value = 0;
    // SAFETY: `value` may be written.
    let code = unsafe { (library.device_attribute)(&raw mut value, number, device) };
    let answer = match code {
        INVALID_VALUE => Err(CudaError::UnknownAttribute { attribute: name }),
        code => library.done("cuDeviceGetAttribute", code),
    };
    fact(name, answer.map(|()| value != 0))
}

fn text(
    library: &Library,
    call: &'static str,
    ask: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    device: c_int,
) -> Result<String, CudaError> {
    /// Longer than any name or address of a GPU, with a NUL that nobody overwrites.
    const ROOM: c_int = 256;
    let mut text = [0_u8; ROOM as usize + 1];
    // SAFETY: there is room for more bytes than are said to be.
    let code = unsafe { ask(text.as_mut_ptr().cast(), ROOM, device) };
    library.done(call, code)?;
    let bytes = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    Ok(text.chars().take(MAX_TEXT).collect())
}

fn fact<T>(call: &'static str, answer: Result<T, CudaError>) -> Fact<T> {
    match answer {
        Ok(value) => Fact::known(value, call),
        Err(error) => Fact::unknown(error.to_string()),
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
