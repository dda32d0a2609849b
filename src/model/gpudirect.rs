//! What GPUDirect RDMA and GPUDirect Storage rest on: peer memory clients, and the storage driver.

use serde::{Deserialize, Serialize};

use super::Fact;

/// What the kernel has for direct access to GPU memory. Whether a NIC takes a dma-buf is with the
/// NIC ([`super::RdmaDevice::dmabuf`]), the modules are with the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuDirectFacts {
    /// The clients that GPU drivers registered with ib_core, by name; none where ib_core has no
    /// such interface, as in the mainline kernel.
    pub peer_clients: Fact<Vec<PeerClient>>,
    /// The driver of GPUDirect Storage; `Known(None)` where it is not loaded.
    pub storage: Fact<Option<GpuDirectStorage>>,
}

/// A peer memory client, a directory of /sys/kernel/mm/memory_peers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerClient {
    /// Its name: `nv_mem`, `nv_mem_nc`, `nvidia-peermem`, `amdkfd`.
    pub name: String,
    /// Its version.
    pub version: Fact<String>,
}

/// nvidia_fs, the driver of GPUDirect Storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuDirectStorage {
    /// Its version.
    pub version: Fact<String>,
    /// The first lines of /proc/driver/nvidia-fs/stats.
    pub stats: Fact<Vec<String>>,
}

impl GpuDirectFacts {
    /// The first registered client of these names.
    pub fn client(&self, names: &[&str]) -> Option<&PeerClient> {
        let clients = self.peer_clients.value()?;
        clients.iter().find(|c| names.contains(&c.name.as_str()))
    }
}
