//! What a message of NCCL or RCCL says, as far as it bears on GPUDirect RDMA.

use memchr::memmem;

use super::channel::{self, Channel, Read};
use super::support::{self, GpuSupport, HcaSupport, Refusal};
use super::text::{behind, hexadecimal, number, small, until, word};

/// A message, read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// How a channel goes to its peer.
    Channel(Channel<'a>),
    /// A channel line that was torn, so that it tells nothing.
    Torn,
    /// `NCCL version 2.22.3+cuda12.6`.
    Version(Version<'a>),
    /// A rank of a communicator.
    Member(Member),
    /// `NET/IB : Using [0]mlx5_0:1/IB …`: the devices of a network; [`devices`] reads them.
    Devices {
        /// Whether they are sockets' interfaces.
        sockets: bool,
        /// The list.
        list: &'a [u8],
    },
    /// A network's device by number, and its name.
    Device {
        /// Its number.
        device: u32,
        /// Its name.
        name: &'a [u8],
    },
    /// `NET/OFI NIC group 0 device #1 0000:51:00.0`: NICs that are one device.
    NicGroup {
        /// The device's number.
        device: u32,
        /// A NIC's PCI address.
        address: &'a [u8],
    },
    /// `Using network IB`.
    Network(&'a [u8]),
    /// `NET/IB : No device found.`
    NoDevice,
    /// No plugin for another network was found.
    NoPlugin,
    /// libibverbs could not be opened.
    NoLibrary,
    /// Whether a device can do GPUDirect RDMA at all.
    Hca(HcaSupport<'a>),
    /// Whether a GPU may use it with a device.
    Gpu(GpuSupport<'a>),
    /// A device was refused, with a reason (up to 2.5).
    Refused(Refusal<'a>),
    /// `CUDA Dev 0[0], IB NIC distance :  PIX NODE SYS SYS` (2.4).
    Distances {
        /// `IB`, `Socket`.
        network: &'a [u8],
    },
    /// RCCL finds no peer memory.
    NoPeerMemory,
    /// RCCL does not use dma-buf unless it is told to.
    DmaBufOff,
    /// `Connected all rings, use ring PXN 0 GDR 1` (from 2.24.3).
    Rings {
        /// Whether every connection of the rings uses GPUDirect RDMA; it starts as true.
        gdr: bool,
    },
    /// A variable of the environment that bears on it.
    Setting {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// `+ PCI[12.0] - GPU/80 (0)`: a rank's GPU in NCCL's topology.
    TopologyGpu {
        /// The rank.
        rank: u32,
        /// [`Member::bus`].
        bus: u64,
    },
    /// A transfer or a registration failed.
    Trouble(Trouble<'a>),
    /// `# Rank 0 Group 0 Pid 1134 on node1 device 0 [0x4c] NVIDIA H800`, from nccl-tests.
    Test(TestRank<'a>),
}

/// The library and its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version<'a> {
    /// Whether it is AMD's.
    pub rccl: bool,
    /// `2.22.3+cuda12.6`.
    pub text: &'a [u8],
}

/// `comm 0x55cc rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1c000 commId 0x65 - Init START`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Member {
    /// The communicator's address in its process; 0 where it was not said.
    pub communicator: u64,
    /// The rank.
    pub rank: u32,
    /// How many ranks the communicator has.
    pub ranks: Option<u32>,
    /// How many nodes it is on.
    pub nodes: Option<u32>,
    /// The GPU by CUDA's number.
    pub cuda: Option<u32>,
    /// The GPU by NVML's number.
    pub nvml: Option<u32>,
    /// The GPU's PCI function: domain << 20 | bus << 12 | device << 4 | function.
    pub bus: Option<u64>,
    /// The communicator's number, the same on every rank.
    pub id: Option<u64>,
}

/// Something that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble<'a> {
    /// A work completion with an error: its text from `error` or `status` on.
    Completion(&'a [u8]),
    /// Memory could not be registered: the whole text.
    Register(&'a [u8]),
}

/// A rank as nccl-tests lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestRank<'a> {
    /// The rank.
    pub rank: u32,
    /// Its process.
    pub process: u32,
    /// Its node.
    pub host: &'a [u8],
    /// [`Member::bus`].
    pub bus: u64,
}

/// Variables that decide whether GPUDirect RDMA is used.
const SETTINGS: [&[u8]; 13] = [
    b"NCCL_NET_GDR_LEVEL",
    b"NCCL_NET_GDR_READ",
    b"NCCL_NET_GDR_C2C",
    b"NCCL_IB_CUDA_SUPPORT",
    b"NCCL_IB_DISABLE",
    b"NCCL_IB_HCA",
    b"NCCL_IB_PCI_RELAXED_ORDERING",
    b"NCCL_NET",
    b"NCCL_NET_PLUGIN",
    b"NCCL_DMABUF_ENABLE",
    b"NCCL_DEBUG_SUBSYS",
    b"NCCL_TOPO_FILE",
    b"RCCL_FORCE_ENABLE_GDRDMA",
];

/// Reads what is behind `NCCL INFO ` or `NCCL WARN `. `is_whole` says whether its end was seen.
pub(super) fn message(text: &[u8], is_whole: bool) -> Option<Line<'_>> {
    let text = text.trim_ascii_start();
    match text.first()? {
        b'C' | b'R' if let Some(line) = channel(text, is_whole) => Some(line),
        b'N' if text.starts_with(b"NET/") => network(text),
        b'N' | b'R' => version(text).or_else(|| setting(text)),
        b'G' => support::gpu(text)
            .map(Line::Gpu)
            .or_else(|| no_peer_memory(text)),
        b'c' | b'n' | b'r' | b'I' => member(text).map(Line::Member),
        b'+' => topology_gpu(text),
        b'U' => using(text),
        b'C' => connected(text)
            .or_else(|| distances(text))
            .or_else(|| trouble(text)),
        b'D' if text.starts_with(b"Dmabuf feature disabled") => Some(Line::DmaBufOff),
        b'F' if text.starts_with(b"Failed to open libibverbs") => Some(Line::NoLibrary),
        _ => None,
    }
}

/// Reads a line in which nobody says `NCCL INFO`: excerpts, versions, the list of nccl-tests.
pub(super) fn bare(text: &[u8], is_whole: bool) -> Option<Line<'_>> {
    if let Some(at) = memmem::find(text, b"CCL version") {
        return version(&text[at.saturating_sub(1)..]);
    }
    if let Some(at) = memmem::find(text, b" via ") {
        let start = [&b"Channel "[..], b"Ring ", b"CollNet ", b"Coll "]
            .iter()
            .find_map(|word| memmem::rfind(&text[..at], word))?;
        return channel(text[start..].trim_ascii_end(), is_whole);
    }
    if let Some(at) = memmem::find(text, b"GPU Direct RDMA ") {
        let start = memmem::rfind(&text[..at], b"NET/").unwrap_or(at);
        return message(text[start..].trim_ascii_end(), is_whole);
    }
    test_rank(text).map(Line::Test)
}

fn channel(text: &[u8], is_whole: bool) -> Option<Line<'_>> {
    match channel::read(text, is_whole) {
        Read::Channel(channel) => Some(Line::Channel(channel)),
        Read::Torn => Some(Line::Torn),
        Read::Other => None,
    }
}

/// What begins with `NET/`.
fn network(text: &[u8]) -> Option<Line<'_>> {
    let rest = &text[4..];
    if let Some(line) = support::read(text) {
        return Some(line);
    }
    if let Some(group) = rest.strip_prefix(b"OFI NIC group ") {
        let (device, rest) = small(group)?;
        let (_, rest) = number(behind(rest, b"device #")?)?;
        let address = word(rest.strip_prefix(b" ")?);
        return Some(Line::NicGroup { device, address });
    }
    if rest.starts_with(b"Plugin") {
        let missing = [
            &b"No plugin found"[..],
            b"Could not find",
            b"cannot open shared",
        ];
        let is_missing = missing
            .iter()
            .any(|words| memmem::find(rest, words).is_some());
        return is_missing.then_some(Line::NoPlugin);
    }
    let (network, said) = until(rest, b":")?;
    let (sockets, said) = (network.trim_ascii() == b"Socket", said.trim_ascii_start());
    if said.starts_with(b"No device found") {
        return (!sockets).then_some(Line::NoDevice);
    }
    if let Some(list) = said.strip_prefix(b"Using ") {
        return list
            .starts_with(b"[")
            .then_some(Line::Devices { sockets, list });
    }
    if let Some(made) = said.strip_prefix(b"Made virtual device [") {
        let (device, rest) = small(made)?;
        let name = word(rest.strip_prefix(b"] name=")?);
        return Some(Line::Device { device, name });
    }
    if let Some(trouble) = trouble(said) {
        return Some(trouble);
    }
    // `NET/IB: [1] mlx5_3:1/IB`, a line for each, up to 2.3 and in TRACE builds.
    let (device, rest) = small(said.strip_prefix(b"[")?)?;
    let name = word(rest.strip_prefix(b"] ")?);
    let name = until(name, b":").map_or(name, |(name, _)| name);
    (!sockets).then_some(Line::Device { device, name })
}

/// The devices of a list: number and name, such as `[0]mlx5_0:1/IB/SHARP`.
pub(super) fn devices(list: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let one = |part: &'_ [u8]| -> Option<(u32, usize)> {
        let (number, rest) = small(part.strip_prefix(b"[")?)?;
        let name = rest.strip_prefix(b"]")?;
        (!name.is_empty()).then_some((number, part.len() - name.len()))
    };
    list.split(u8::is_ascii_whitespace)
        .take_while(|part| !part.starts_with(b";") && *part != b"OOB")
        .filter_map(move |part| {
            let (number, start) = one(part)?;
            let name = &part[start..];
            Some((number, until(name, b":").map_or(name, |(name, _)| name)))
        })
}

fn using(text: &[u8]) -> Option<Line<'_>> {
    let rest = text
        .strip_prefix(b"Using network ")
        .or_else(|| text.strip_prefix(b"Using internal Network "))
        .or_else(|| text.strip_prefix(b"Using internal network "))?;
    let name = until(rest, b" [cite").map_or(rest, |(name, _)| name);
    Some(Line::Network(name.trim_ascii()))
}

fn version(text: &[u8]) -> Option<Line<'_>> {
    let (rccl, rest) = match text.strip_prefix(b"RCCL version") {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix(b"NCCL version")?),
    };
    let rest = rest.trim_ascii_start();
    let rest = rest.strip_prefix(b":").unwrap_or(rest).trim_ascii_start();
    let text = word(rest);
    let (_, dot) = number(text)?;
    dot.starts_with(b".")
        .then_some(Line::Version(Version { rccl, text }))
}

/// `NCCL_IB_DISABLE set by environment to 1.`
fn setting(text: &[u8]) -> Option<Line<'_>> {
    let name = word(text);
    let rest = text[name.len()..].strip_prefix(b" set ")?;
    let rest = rest.strip_prefix(b"by environment ").unwrap_or(rest);
    let value = rest.strip_prefix(b"to ")?.trim_ascii();
    let value = until(value, b" [cite").map_or(value, |(value, _)| value);
    let value = value.strip_suffix(b".").unwrap_or(value);
    SETTINGS
        .contains(&name)
        .then_some(Line::Setting { name, value })
}

fn no_peer_memory(text: &[u8]) -> Option<Line<'_>> {
    text.starts_with(b"GDRDMA not enabled")
        .then_some(Line::NoPeerMemory)
}

fn connected(text: &[u8]) -> Option<Line<'_>> {
    let rest = text.strip_prefix(b"Connected all rings, use ring PXN ")?;
    let (gdr, _) = number(behind(rest, b" GDR ")?)?;
    Some(Line::Rings { gdr: gdr != 0 })
}

fn distances(text: &[u8]) -> Option<Line<'_>> {
    let rest = text.strip_prefix(b"CUDA Dev ")?;
    let (_, rest) = until(rest, b", ")?;
    let (network, _) = until(rest, b" NIC distance")?;
    Some(Line::Distances { network })
}

/// A rank of a communicator, in the words of any version. What is torn lacks the rank or its end.
fn member(text: &[u8]) -> Option<Member> {
    let rest = match text.strip_prefix(b"rank ") {
        // 2.3: `rank 0 nranks 8`.
        Some(_) => text,
        None => behind(text, b"comm 0x").map(|_| text)?,
    };
    let communicator = match behind(rest, b"comm 0x") {
        Some(address) => hexadecimal(address)?.0,
        None => 0,
    };
    let field = |name: &[u8]| behind(rest, name).and_then(small).map(|(value, _)| value);
    let hex = |name: &[u8]| {
        behind(rest, name)
            .and_then(hexadecimal)
            .map(|(value, _)| value)
    };
    let ranks = field(b" nranks ").or_else(|| field(b" nRanks "))?;
    let rank = field(b"rank ")?;
    (rank < ranks).then_some(Member {
        communicator,
        rank,
        ranks: Some(ranks),
        nodes: field(b" nNodes "),
        cuda: field(b" cudaDev "),
        nvml: field(b" nvmlDev "),
        bus: hex(b" busId "),
        id: hex(b" commId "),
    })
}

/// `GPU/80 (0)`, or `GPU/0-80 (0)` with the node's number before it.
fn topology_gpu(text: &[u8]) -> Option<Line<'_>> {
    let rest = behind(text, b"] - GPU/")?;
    let (first, rest) = hexadecimal(rest)?;
    let (bus, rest) = match rest.strip_prefix(b"-") {
        Some(rest) => hexadecimal(rest)?,
        None => (first, rest),
    };
    let (rank, end) = small(rest.strip_prefix(b" (")?)?;
    end.starts_with(b")")
        .then_some(Line::TopologyGpu { rank, bus })
}

fn trouble(text: &[u8]) -> Option<Line<'_>> {
    if text.starts_with(b"Got completion") {
        let start = [&b"error "[..], b"status="]
            .iter()
            .find_map(|word| memmem::find(text, word))?;
        return Some(Line::Trouble(Trouble::Completion(&text[start..])));
    }
    let call = text.strip_prefix(b"Call to ")?;
    call.starts_with(b"ibv_reg_")
        .then_some(Line::Trouble(Trouble::Register(text)))
}

fn test_rank(text: &[u8]) -> Option<TestRank<'_>> {
    let rest = behind(text, b"#")?.trim_ascii_start();
    let (rank, rest) = small(rest.strip_prefix(b"Rank")?.trim_ascii_start())?;
    let (process, rest) = small(behind(rest, b" Pid ")?.trim_ascii_start())?;
    let host = word(rest.strip_prefix(b" on ")?.trim_ascii_start());
    let place = behind(rest, b" [")?;
    let (place, _) = until(place, b"]")?;
    let bus = match place.strip_prefix(b"0x") {
        Some(bus) => hexadecimal(bus)?.0.checked_mul(1 << 12)?,
        None => function(place)?,
    };
    Some(TestRank {
        rank,
        process,
        host,
        bus,
    })
}

/// `0000:11:00` as in [`Member::bus`].
fn function(text: &[u8]) -> Option<u64> {
    let (domain, rest) = hexadecimal(text)?;
    let (bus, rest) = hexadecimal(rest.strip_prefix(b":")?)?;
    let (device, _) = hexadecimal(rest.strip_prefix(b":")?)?;
    (domain <= 0xffff_ffff && bus <= 0xff && device <= 0x1f)
        .then_some(domain << 20 | bus << 12 | device << 4)
}
