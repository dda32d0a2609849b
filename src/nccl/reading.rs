//! What a log comes to: processes, ranks, and which way each sends and receives.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::channel::Direction;
use super::lines::Extent;

/// A log, read.
#[derive(Debug, Default)]
pub struct NcclLog {
    /// The libraries' versions, `NCCL 2.22.3+cuda12.6`.
    pub versions: Vec<Arc<str>>,
    /// Who speaks in it. One without a host stands for all lines of a file without a head.
    pub processes: Vec<Process>,
    /// The ranks, in the order in which they were seen.
    pub ranks: Vec<Rank>,
    /// Variables of the environment and their values, as they were said.
    pub settings: Vec<(Arc<str>, Arc<str>)>,
    /// Transfers and registrations that failed.
    pub troubles: Vec<TroubleSeen>,
    /// How much was read.
    pub extent: Extent,
    /// How many messages bear on GPUDirect RDMA.
    pub messages: u64,
    /// What did not count.
    pub left_out: LeftOut,
    /// Of each node a few processes that say something of GPUs with devices.
    pub(super) by_host: BTreeMap<Arc<str>, Vec<usize>>,
}

/// A process that speaks.
#[derive(Debug, Default)]
pub struct Process {
    /// Its node; `None` where lines have no head.
    pub host: Option<Arc<str>>,
    /// Its number.
    pub pid: u32,
    /// Its version: a place in [`NcclLog::versions`].
    pub version: Option<usize>,
    /// The network it uses.
    pub network: Option<Arc<str>>,
    /// The devices of its networks.
    pub devices: Vec<Device>,
    /// What it says of devices and GPUDirect RDMA.
    pub hcas: Vec<Hca>,
    /// What it says of GPUs with devices.
    pub pairs: Vec<GpuHca>,
    /// What it lacks.
    pub lacks: Lacks,
    /// Whether some connection of its rings goes without GPUDirect RDMA, by its last word on them.
    pub rings_without: bool,
    /// GPUs by rank, from its topology.
    pub(super) gpus: Vec<(u32, u64)>,
    /// Its ranks, and the threads that spoke of them: the newest last.
    pub(super) members: Vec<usize>,
    pub(super) threads: Vec<(u32, usize)>,
}

/// What a process says it lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lacks {
    /// It found no RDMA device.
    pub device: bool,
    /// It found no plugin for another network.
    pub plugin: bool,
    /// It could not open libibverbs.
    pub library: bool,
    /// RCCL found no peer memory.
    pub peer_memory: bool,
    /// RCCL does not use dma-buf, because nobody told it to.
    pub dma_buf: bool,
}

/// A network's device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Whether it is a socket's interface.
    pub sockets: bool,
    /// Its number.
    pub number: u32,
    /// Its name; several RDMA devices that are one are joined with `+`.
    pub name: Arc<str>,
}

/// Whether a device can do GPUDirect RDMA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hca {
    /// Its number.
    pub number: Option<u32>,
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Whether it can.
    pub enabled: bool,
    /// Why not, where the log has it.
    pub why: Option<Arc<str>>,
}

/// Whether a GPU uses GPUDirect RDMA with a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuHca {
    /// The GPU in this version's numbers.
    pub gpu: Arc<str>,
    /// The device, in decimal or hexadecimal.
    pub device: Arc<str>,
    /// Whether it does.
    pub enabled: bool,
    /// How far they are from each other, in this version's numbers.
    pub distance: u32,
    /// How far they may be.
    pub limit: u32,
}

/// A rank of a communicator.
#[derive(Debug, Clone, Default)]
pub struct Rank {
    /// A place in [`NcclLog::processes`].
    pub process: usize,
    /// The communicator's address in its process.
    pub communicator: Option<u64>,
    /// The communicator's number on every rank.
    pub id: Option<u64>,
    /// Which rank it is.
    pub rank: u32,
    /// How many there are.
    pub ranks: Option<u32>,
    /// On how many nodes.
    pub nodes: Option<u32>,
    /// The GPU by CUDA's number.
    pub cuda: Option<u32>,
    /// The GPU by NVML's number.
    pub nvml: Option<u32>,
    /// The GPU's function: domain << 20 | bus << 12 | device << 4 | function.
    pub bus: Option<u64>,
    /// What it sends and receives through.
    pub uses: Vec<Use>,
    /// How many channels stay within the node.
    pub local: u64,
}

/// Channels of a rank, one way, through one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// Which way.
    pub direction: Direction,
    /// The network's name.
    pub network: Arc<str>,
    /// Whether it is sockets.
    pub sockets: bool,
    /// Whether switches reduce.
    pub collective: bool,
    /// The device's number.
    pub device: u32,
    /// The rank whose NIC it is, where that is another one's (PXN).
    pub proxy: Option<u32>,
    /// How many channels have GPUDirect RDMA.
    pub direct: u64,
    /// How many of them go through PCIe beside a chip-to-chip link.
    pub pci: u64,
    /// How many have not.
    pub staged: u64,
    /// Where the first such line is, and the first without GPUDirect RDMA where there is one.
    pub place: Place,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file as it was called.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u64,
}

/// Something that failed, once for each kind and node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TroubleSeen {
    /// The node.
    pub host: Option<Arc<str>>,
    /// Whether a registration failed, and not a transfer.
    pub register: bool,
    /// What was said.
    pub text: Arc<str>,
    /// How often.
    pub count: u64,
    /// Where first.
    pub place: Place,
}

/// What did not count: how many of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Channel lines that were torn.
    pub torn: u64,
    /// Lines longer than [`super::MAX_LINE`], whose rest was not read.
    pub long: u64,
    /// Messages of more processes than are kept.
    pub processes: u64,
    /// Messages of more ranks than are kept.
    pub ranks: u64,
    /// Channel lines of more devices than are kept.
    pub uses: u64,
    /// Names, devices, settings and reasons beyond those that are kept.
    pub facts: u64,
}

impl LeftOut {
    /// Whether a limit was reached, so that the reading may lack something.
    pub fn is_cut(&self) -> bool {
        let Self {
            torn: _,
            long: _,
            processes,
            ranks,
            uses,
            facts,
        } = *self;
        [processes, ranks, uses, facts]
            .iter()
            .any(|count| *count > 0)
    }
}

/// A PCI function's address, `0000:9a:00.0`, from NCCL's number of it.
pub fn pci_address(bus: u64) -> String {
    let (domain, function) = (bus >> 20, bus & 0xfffff);
    format!(
        "{domain:04x}:{:02x}:{:02x}.{:x}",
        function >> 12,
        function >> 4 & 0xff,
        function & 0xf
    )
}

impl Process {
    /// The name of a network's device, where a list had it.
    pub fn device(&self, used: &Use) -> Option<&Arc<str>> {
        let is_it = |d: &&Device| d.sockets == used.sockets && d.number == used.device;
        let listed = self.devices.iter().find(is_it).map(|device| &device.name);
        let said = || {
            let hca = self.hcas.iter().find(|hca| hca.number == Some(used.device));
            hca.and_then(|hca| hca.name.as_ref())
        };
        listed.or_else(|| (!used.sockets).then(said).flatten())
    }
}
