//! Data that left a memory of a node through a NIC and came back through it into another.

use std::fmt;

use serde::Serialize;

use super::{Gbps, MemoryKind, MemoryWay, PciAddress};

/// From which memory into which, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopWay {
    /// From host memory to host memory: what the NIC does without a GPU.
    HostToHost,
    /// The NIC reads the GPU and writes host memory.
    GpuToHost,
    /// The NIC reads host memory and writes the GPU.
    HostToGpu,
    /// The NIC reads and writes the GPU.
    GpuToGpu,
    /// The same, without asking for relaxed ordering of PCIe writes.
    InOrder,
    /// From the GPU to the GPU, by way of host memory at both ends: what there is without GPUDirect RDMA.
    Staged,
}

impl LoopWay {
    /// Those that touch a GPU, in the order in which they are tried.
    pub const OF_A_GPU: [Self; 5] = [
        Self::GpuToHost,
        Self::HostToGpu,
        Self::GpuToGpu,
        Self::InOrder,
        Self::Staged,
    ];

    /// The memory that is sent from, and the one that is written to.
    pub fn ends(self) -> (MemoryKind, MemoryKind) {
        use MemoryKind::{Gpu, GpuStaged, Host};
        match self {
            Self::HostToHost => (Host, Host),
            Self::GpuToHost => (Gpu, Host),
            Self::HostToGpu => (Host, Gpu),
            Self::GpuToGpu | Self::InOrder => (Gpu, Gpu),
            Self::Staged => (GpuStaged, GpuStaged),
        }
    }
}

impl fmt::Display for LoopWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HostToHost => "host to host",
            Self::GpuToHost => "GPU to host",
            Self::HostToGpu => "host to GPU",
            Self::GpuToGpu => "GPU to GPU",
            Self::InOrder => "in order",
            Self::Staged => "staged",
        })
    }
}

/// What was moved.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopMoved {
    /// Its rate, 10^9 bits/s; the NIC carries as much in each direction.
    pub gbps: Gbps,
    /// Bytes that were compared with what was sent.
    pub bytes_checked: u64,
    /// How many of them differ.
    pub bytes_wrong: u64,
    /// How the NIC came to the memory that was sent from, and to the one that was written to.
    pub ways: (MemoryWay, MemoryWay),
}

/// One transfer through a NIC back into its own node.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopTransfer {
    /// The RDMA device.
    pub device: String,
    /// Its port.
    pub port: u8,
    /// The GPU, where one took part.
    pub gpu: Option<PciAddress>,
    /// From where to where.
    pub way: LoopWay,
    /// What was moved, or why nothing was.
    pub outcome: Result<LoopMoved, String>,
}
