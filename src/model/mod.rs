//! The vocabulary: ids, units, facts, probes, expectations, findings, events.
//! Knows no clock, file, thread or colour, and imports no other room.

mod event;
mod fact;
mod facts;
mod finding;
mod gid;
mod gpu;
mod gpudirect;
mod host;
mod ids;
mod pcie;
mod probe;
mod settings;
#[cfg(test)]
pub mod testing;
mod text;
mod units;

pub use event::{Event, PlannedPair, PortAddress, RailNic, Record, Route, RunEnd, SCHEMA};
pub use fact::Fact;
pub use facts::{
    GidEntry, GidType, LinkLayer, Netdev, NodeFacts, Port, PortState, RdmaDevice, SoftwareRdma,
};
pub use finding::{CannotTell, Direction, Evidence, Finding, Rule, Severity, Subject, Verdict};
pub use gid::Gid;
pub use gpu::{AmdGpu, GpuFacts, NvidiaDriver, NvidiaGpu, Nvml, NvmlGpu};
pub use gpudirect::{GpuDirectFacts, GpuDirectStorage, PeerClient};
pub use host::{
    Access, FrequencyScaling, HostFacts, KernelLogKind, KernelLogLine, KernelModule, NumaNode,
    VerbsNode,
};
pub use ids::{NicId, NodeName, Pair, PciAddress, ProbeId, Rail};
pub use pcie::{
    AcsControl, DeviceControl, Iommu, LinkSpeed, LinkState, PciFunction, PciRole, PcieLink,
    PcieTree, VENDOR_AMD_GPU, VENDOR_NVIDIA, VENDOR_QEMU,
};
pub use probe::{
    Completion, CpuUse, Endpoint, HostCpu, LocalPort, Measurement, MemoryKind, NODE_LOST, Outcome,
    ProbeKind, ProbeSpec, ProbeStage, QueuePairAddress, RemoteMemory, Role, Verification, Window,
};
pub use settings::{Expect, RailRule, RunSettings};
pub use text::is_treacherous;
pub use units::{Bytes, Gbps, MemlockLimit, ParseUnitError};
