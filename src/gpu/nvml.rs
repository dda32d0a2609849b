//! NVIDIA's Management Library: the GPUs that its driver serves.

use std::error::Error;
use std::ffi::OsStr;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml as Library, cuda_driver_version_major, cuda_driver_version_minor};

use crate::model::{Bytes, Fact, Nvml, NvmlGpu, PciAddress};

/// The library, by the name that every driver since 2012 installs.
const SONAME: &str = "libnvidia-ml.so.1";
/// More GPUs than sit in a node.
const MAX_GPUS: u32 = 64;
/// The longest text that is kept of the library's, in characters (NVML_DEVICE_NAME_V2_BUFFER_SIZE).
const MAX_TEXT: usize = 96;

/// What it lists. The library is loaded, asked, and let go.
pub fn nvml() -> Fact<Nvml> {
    ask(SONAME)
}

/// The same of a library by file name.
pub(super) fn ask(file: &str) -> Fact<Nvml> {
    let library = match Library::builder().lib_path(OsStr::new(file)).init() {
        Ok(library) => library,
        Err(error) => return Fact::unknown(why_not(file, &error)),
    };
    match library.device_count() {
        Ok(count) => Fact::known(listed(&library, count), file),
        Err(error) => Fact::unknown(format!("{file}: nvmlDeviceGetCount: {error}")),
    }
}

/// Why the library does not start, in the words of an operator.
fn why_not(file: &str, error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(error) => {
            let reason = error
                .source()
                .map_or(error.to_string(), ToString::to_string);
            format!("{file} is not installed ({reason}); it comes with NVIDIA's driver")
        }
        NvmlError::DriverNotLoaded => format!("{file}: NVIDIA's kernel driver is not loaded"),
        NvmlError::LibRmVersionMismatch => format!(
            "{file} is of another version than the kernel driver that is loaded: reload the driver or reboot"
        ),
        other => format!("{file}: {other}"),
    }
}

fn listed(library: &Library, count: u32) -> Nvml {
    let mut found = Nvml {
        driver: fact("nvmlSystemGetDriverVersion", library.sys_driver_version()).map(short),
        cuda: fact(
            "nvmlSystemGetCudaDriverVersion",
            library.sys_cuda_driver_version(),
        )
        .map(cuda),
        ..Nvml::default()
    };
    for index in 0..count.min(MAX_GPUS) {
        let device = library.device_by_index(index);
        match device.and_then(|device| Ok((device.pci_info()?, device))) {
            Ok((pci, device)) => {
                let address = format!("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
                found.gpus.push(gpu(PciAddress(address), &device));
            }
            // One that fell off the bus still has its number.
            Err(error) => found.unread.push(format!("GPU {index}: {error}")),
        }
    }
    found
}

fn gpu(address: PciAddress, device: &Device<'_>) -> NvmlGpu {
    let both = |now: Result<u32, NvmlError>, most: Result<u32, NvmlError>| Ok((now?, most?));
    NvmlGpu {
        address,
        name: fact("nvmlDeviceGetName", device.name()).map(short),
        uuid: fact("nvmlDeviceGetUUID", device.uuid()).map(short),
        memory: fact("nvmlDeviceGetMemoryInfo_v2", device.memory_info()).map(|m| Bytes(m.total)),
        bar1: fact("nvmlDeviceGetBAR1MemoryInfo", device.bar1_memory_info())
            .map(|bar| Bytes(bar.total)),
        pcie_generation: fact(
            "nvmlDeviceGetCurrPcieLinkGeneration",
            both(device.current_pcie_link_gen(), device.max_pcie_link_gen()),
        ),
        pcie_width: fact(
            "nvmlDeviceGetCurrPcieLinkWidth",
            both(
                device.current_pcie_link_width(),
                device.max_pcie_link_width(),
            ),
        ),
        busy_percent: fact("nvmlDeviceGetUtilizationRates", device.utilization_rates())
            .map(|rates| rates.gpu),
    }
}

fn fact<T>(call: &str, answer: Result<T, NvmlError>) -> Fact<T> {
    match answer {
        Ok(value) => Fact::known(value, call),
        Err(error) => Fact::unknown(format!("{call}: {error}")),
    }
}

fn short(text: String) -> String {
    text.chars().take(MAX_TEXT).collect()
}

/// `12040` as `12.4`.
fn cuda(version: i32) -> String {
    let (major, minor) = (
        cuda_driver_version_major(version),
        cuda_driver_version_minor(version),
    );
    format!("{major}.{minor}")
}
