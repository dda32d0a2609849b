//! The vocabulary: ids, units, facts, probes, expectations, findings, events.
//! Knows no clock, file, thread or colour, and imports no other room.

mod acceptance;
mod command;
mod cost;
mod counters;
mod cpu;
mod event;
mod fabric;
mod fact;
mod facts;
mod finding;
mod gid;
mod gpu;
mod gpudirect;
mod host;
mod ids;
mod in_use;
mod loop_back;
mod memory;
mod nccl;
mod netdev;
mod nic;
mod pcie;
mod probe;
mod queue_pairs;
mod retention;
mod sample;
mod settings;
mod shared;
mod standing;
mod sweep;
mod tcp;
#[cfg(test)]
pub mod testing;
mod text;
mod units;

pub use acceptance::{Acceptance, AcceptanceVerdict, CheckOutcome, CheckResult, Weight};
pub use command::Command;
pub use cost::{CostSettings, CostStep, CostSteps, NO_HUGE_PAGES, NoSuchStep};
pub use counters::{
    Counter, CounterStep, Counters, Grown, UnreadCounters, counts_errors, saturates_at,
};
pub use cpu::{CpuUse, Cycles, HostCpu, IdleCpu, PingPong, Registration};
pub use event::{Event, PlannedPair, PortAddress, RailNic, Record, Route, RunEnd, SCHEMA, Span};
pub use fabric::{FabricStanding, LeafEnd, LeafStanding, Stray};
pub use fact::Fact;
pub use facts::{
    GidEntry, GidType, LinkLayer, Netdev, NodeFacts, NumaNode, Port, PortState, RdmaDevice,
    SoftwareRdma, Traffic,
};
pub use finding::{CannotTell, Direction, Evidence, Finding, Rule, Severity, Subject, Verdict};
pub use gid::Gid;
pub use gpu::{AmdGpu, CudaDriver, CudaGpu, GpuFacts, NvidiaDriver, NvidiaGpu, Nvml, NvmlGpu};
pub use gpudirect::{GpuDirectFacts, GpuDirectStorage, PeerClient};
pub use host::{
    Access, FrequencyScaling, HostFacts, KernelLogKind, KernelLogLine, KernelModule, VerbsNode,
};
pub use ids::{NicId, NodeName, Pair, PciAddress, ProbeId, Rail};
pub use in_use::{busy_with, held_by_a_job, is_left_alone, left_alone};
pub use loop_back::{LoopMoved, LoopTransfer, LoopWay};
pub use memory::{
    Attempt, CopyRates, GPU_MEMORY_REFUSED, GpuTrial, GpuUsed, MemoryUsed, MemoryWay,
    NO_GPU_MEMORY, NicAttempts, RefusedWay, is_stand_in,
};
pub use nccl::{NcclSettings, NcclTestEnd, NcclTestExit};
pub use netdev::{
    ArpSettings, Bond, Interface, Lossless, NetdevSettings, Pause, Priorities, Routing,
    SubnetRoute, Subnetwork, Trust,
};
pub use nic::{DriverOrigin, Guid, Identity, Lanes, NodeType, RoceDefaults, Subnet};
pub use pcie::{
    AcsControl, DeviceControl, Iommu, LinkSpeed, LinkState, PciFunction, PciRole, PcieErrors,
    PcieLink, PcieTree, VENDOR_AMD_GPU, VENDOR_NVIDIA, VENDOR_QEMU,
};
pub use probe::{
    Checked, Completion, Endpoint, Latency, LocalPort, Measure, Measurement, MemoryKind, NODE_LOST,
    Outcome, ProbeKind, ProbeSpec, ProbeStage, QueuePairAddress, RemoteMemory, Role, StopAt,
    TransferEnd, Verification, Window,
};
pub use queue_pairs::{QueuePairHolder, QueuePairs};
pub use retention::Retention;
pub use sample::{PortLayout, PortReading, Quantity, Sample, SampleLayout, Series, Uncounted};
pub use settings::{Expect, RailRule, RunSettings};
pub use shared::Shared;
pub use standing::{Doubt, EndStanding, NicStanding, NodeStanding, RailStanding, Standing, Trial};
pub use sweep::{End, LeafGroup, Pattern, Purpose, SweepSettings};
pub use tcp::{PortPlace, TcpAddress, TcpFacts, ZeroCopy};
pub use text::{is_treacherous, visible};
pub use units::{Bytes, Gbps, MemlockLimit, ParseUnitError};
