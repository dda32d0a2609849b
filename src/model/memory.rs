//! Where the data of a probe lay, how the NIC came to it, and what was tried before.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CudaGpu, Fact, Gbps, PciAddress};

/// How a NIC came to the memory of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryWay {
    /// It is the host's, in pages of the usual size.
    Host,
    /// It is the host's, in huge pages.
    HostHuge,
    /// It is a GPU's, registered by its address, which a peer memory client knows.
    PeerMemory,
    /// It is a GPU's, registered by a dma-buf.
    DmaBuf,
    /// It is a GPU's, and was copied by way of host memory.
    Staged,
}

impl MemoryWay {
    /// Whether the NIC reaches the GPU without the host's memory.
    pub fn is_direct(self) -> bool {
        matches!(self, Self::PeerMemory | Self::DmaBuf)
    }
}

impl fmt::Display for MemoryWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Host => "host memory",
            Self::HostHuge => "huge pages",
            Self::PeerMemory => "peer memory",
            Self::DmaBuf => "dma-buf",
            Self::Staged => "staged through host memory",
        })
    }
}

/// A way that was not gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedWay {
    /// Which.
    pub way: MemoryWay,
    /// Why not: what refused it, or what says that it is not there.
    pub why: String,
}

/// The rates at which a GPU's memory is copied to and from pinned host memory, nothing else being
/// copied on the node meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CopyRates {
    /// From the host to the GPU.
    pub to_gpu: Gbps,
    /// From the GPU to the host.
    pub from_gpu: Gbps,
}

/// The memory of one end of a probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryUsed {
    /// How the NIC came to it.
    pub way: MemoryWay,
    /// What was tried before, and refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<RefusedWay>,
    /// Whose it is, where it is a GPU's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuUsed>,
}

/// The GPU whose memory was used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuUsed {
    /// Its function.
    pub address: PciAddress,
    /// Its model, as the driver has it.
    pub name: String,
    /// How fast its memory is copied, in 10^9 bits/s.
    #[serde(default)]
    pub copies: Fact<CopyRates>,
}

/// What the name of a GPU begins with that is none: memory of the host, handed out by a driver library
/// that was made for tests.
const STAND_IN_NAME: &str = "Stand-in";

impl MemoryUsed {
    /// Host memory in pages of the usual size, or huge ones.
    pub fn of_host(huge_pages: bool) -> Self {
        Self {
            way: match huge_pages {
                true => MemoryWay::HostHuge,
                false => MemoryWay::Host,
            },
            tried: Vec::new(),
            gpu: None,
        }
    }

    /// Whether the GPU is a stand-in, so that what was measured says nothing of one.
    pub fn is_stand_in(&self) -> bool {
        let name = self.gpu.as_ref().map(|gpu| gpu.name.as_str());
        name.is_some_and(is_stand_in)
    }
}

/// Whether a GPU of this name is none.
pub fn is_stand_in(name: &str) -> bool {
    name.starts_with(STAND_IN_NAME)
}

/// What came of registering memory of a GPU in one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempt {
    /// The NIC took it.
    Registered,
    /// It did not, or the driver had nothing to give it, because of this.
    Refused(String),
}

/// A NIC that was given memory of a GPU in both ways.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicAttempts {
    /// The RDMA device.
    pub device: String,
    /// By a descriptor.
    pub dma_buf: Attempt,
    /// By its address.
    pub peer_memory: Attempt,
}

impl NicAttempts {
    /// Whether it reaches the GPU in some way.
    pub fn is_direct(&self) -> bool {
        [&self.dma_buf, &self.peer_memory].contains(&&Attempt::Registered)
    }
}

/// A GPU of this machine whose memory was allocated, copied, and given to each NIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuTrial {
    /// What the driver says of it.
    pub gpu: CudaGpu,
    /// How fast its memory is copied, in 10^9 bits/s.
    pub copies: Fact<CopyRates>,
    /// The NICs, or why none could be tried.
    pub nics: Fact<Vec<NicAttempts>>,
}

/// What the reason begins with where a probe failed because the NIC refused memory of a GPU.
pub const GPU_MEMORY_REFUSED: &str = "GPU memory is not registered";

/// What the reason begins with where a probe failed because there was no memory of a GPU to be tried.
pub const NO_GPU_MEMORY: &str = "no GPU memory could be tried";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_in_is_known_by_its_name() {
        let of = |name: &str| {
            let gpu = GpuUsed {
                address: PciAddress("0000:9a:00.0".into()),
                name: name.into(),
                copies: Fact::default(),
            };
            MemoryUsed {
                gpu: Some(gpu),
                ..MemoryUsed::of_host(false)
            }
        };
        assert!(of("Stand-in GPU in host memory").is_stand_in());
        assert!(!of("NVIDIA H100 80GB HBM3").is_stand_in());
        assert!(!MemoryUsed::of_host(true).is_stand_in());
    }
}
