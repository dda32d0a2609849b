//! What GPU drivers know of a node's GPUs, beside what the PCIe tree shows.

use serde::{Deserialize, Serialize};

use super::{Bytes, Fact, PciAddress, is_stand_in};

/// The drivers' view of the GPUs. Where the node has no GPU of a maker, nobody looked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuFacts {
    /// NVIDIA's kernel driver.
    pub nvidia: Fact<NvidiaDriver>,
    /// The GPUs that NVIDIA's kernel driver has taken.
    pub nvidia_gpus: Fact<Vec<NvidiaGpu>>,
    /// What the NVIDIA Management Library lists.
    pub nvml: Fact<Nvml>,
    /// What the CUDA driver says.
    pub cuda: Fact<CudaDriver>,
    /// AMD's GPUs as amdgpu shows them, in the order of their addresses.
    pub amd: Fact<Vec<AmdGpu>>,
}

/// NVIDIA's kernel driver, from /proc/driver/nvidia/version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvidiaDriver {
    /// Its version, such as `550.54.15`.
    pub version: String,
    /// Whether these are the open kernel modules, which alone export GPU memory as a dma-buf.
    pub open: bool,
}

/// A GPU of NVIDIA's kernel driver, from /proc/driver/nvidia/gpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvidiaGpu {
    /// Its function.
    pub address: PciAddress,
    /// Its model.
    pub model: Fact<String>,
    /// Its UUID.
    pub uuid: Fact<String>,
}

/// The NVIDIA Management Library's view.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nvml {
    /// The driver's version.
    pub driver: Fact<String>,
    /// The newest CUDA that the driver supports, such as `12.4`.
    pub cuda: Fact<String>,
    /// The GPUs that it lists.
    pub gpus: Vec<NvmlGpu>,
    /// What `gpus` leaves out because it does not answer, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// A GPU as the NVIDIA Management Library lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmlGpu {
    /// Its function.
    pub address: PciAddress,
    /// Its model, such as `NVIDIA H100 80GB HBM3`.
    pub name: Fact<String>,
    /// Its UUID.
    pub uuid: Fact<String>,
    /// Its memory.
    pub memory: Fact<Bytes>,
    /// The window onto its memory: BAR1.
    pub bar1: Fact<Bytes>,
    /// The generation of its PCIe link: now, and at the most with this board and slot.
    pub pcie_generation: Fact<(u32, u32)>,
    /// The lanes of its PCIe link: now, and at the most with this board and slot.
    pub pcie_width: Fact<(u32, u32)>,
    /// The share of the last sample period in which it was busy, in percent.
    pub busy_percent: Fact<u32>,
}

impl Nvml {
    /// The GPU at an address.
    pub fn gpu(&self, address: &PciAddress) -> Option<&NvmlGpu> {
        self.gpus.iter().find(|gpu| gpu.address == *address)
    }
}

/// The CUDA driver's view, from libcuda.so.1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CudaDriver {
    /// The newest CUDA that it supports, such as `12.4`.
    pub version: Fact<String>,
    /// The GPUs that it serves.
    pub gpus: Vec<CudaGpu>,
    /// What `gpus` leaves out because it does not answer, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// A GPU as the CUDA driver serves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaGpu {
    /// Its function.
    pub address: PciAddress,
    /// Its model, such as `NVIDIA H100 80GB HBM3`.
    pub name: Fact<String>,
    /// Its memory.
    pub memory: Fact<Bytes>,
    /// Whether it has what peer memory needs (GPU_DIRECT_RDMA_SUPPORTED, from CUDA 11.3).
    pub gpudirect: Fact<bool>,
    /// Whether the driver exports its memory as a dma-buf (DMA_BUF_SUPPORTED, from CUDA 11.7).
    pub dma_buf: Fact<bool>,
}

impl CudaDriver {
    /// The GPU at an address. A node may send any number, and no more sit in one.
    pub fn gpu(&self, address: &PciAddress) -> Option<&CudaGpu> {
        const MAX_GPUS: usize = 64;
        let mut gpus = self.gpus.iter().take(MAX_GPUS);
        gpus.find(|gpu| gpu.address == *address)
    }

    /// Whether it is a library for tests, whose GPUs are none.
    pub fn has_stand_in(&self) -> bool {
        let mut names = self.gpus.iter().filter_map(|gpu| gpu.name.value());
        names.any(|name| is_stand_in(name))
    }
}

/// One of AMD's GPUs, from /sys/bus/pci/devices and /sys/class/kfd/kfd/topology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmdGpu {
    /// Its function.
    pub address: PciAddress,
    /// Its memory.
    pub memory: Fact<Bytes>,
    /// The id that tells it from its like.
    pub unique_id: Fact<String>,
    /// How many GPUs the compute driver makes of it: more than one where it is partitioned.
    #[serde(default)]
    pub compute_nodes: Fact<u32>,
    /// What compilers call its kind, such as `gfx942`.
    #[serde(default)]
    pub target: Fact<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_from_before_the_cuda_driver_was_asked_are_read() {
        let older = r#"{"nvml": {"unknown": "libnvidia-ml.so.1 is not installed"}}"#;
        let facts: GpuFacts = serde_json::from_str(older).unwrap();
        assert!(facts.nvml.was_asked() && !facts.cuda.was_asked());
        let empty: CudaDriver = serde_json::from_str("{}").unwrap();
        assert_eq!(empty, CudaDriver::default());
    }
}
