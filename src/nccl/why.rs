//! Why a direction has no GPUDirect RDMA, as far as the log has it, and what to do.

use std::fmt;
use std::sync::Arc;

use super::distance;
use super::reading::{GpuHca, NcclLog, Process, Rank, Use};

/// What shows it, and what shows why.
pub const DEBUG: &str = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH";

/// A reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The GPU and the NIC are too far from each other for this level.
    TooFar {
        /// How far they are, in NCCL's numbers.
        distance: u32,
        /// The word for it, where the version is known.
        word: Option<&'static str>,
        /// How far they may be.
        limit: u32,
        /// The word for that.
        limit_word: Option<&'static str>,
    },
    /// `NCCL_NET_GDR_LEVEL` forbids it at any distance.
    Level(Arc<str>),
    /// NCCL found neither peer memory nor dma-buf for this device.
    NoSupport(Arc<str>),
    /// NCCL's own words for why it refused a device (up to 2.5).
    Refused(Arc<str>),
    /// RCCL found no peer memory.
    NoPeerMemory,
    /// RDMA is switched off by `NCCL_IB_DISABLE`.
    IbDisabled,
    /// Sockets were asked for by `NCCL_NET`.
    Asked,
    /// libibverbs could not be opened.
    NoLibrary,
    /// There is no RDMA device that NCCL may use, and no plugin for another network.
    NoDevice,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFar {
                distance,
                word,
                limit,
                limit_word,
            } => {
                let named = |word: &Option<&str>| match word {
                    Some(word) => format!(" ({word})"),
                    None => String::new(),
                };
                write!(
                    f,
                    "NCCL puts GPU and NIC at distance {distance}{}, and the level allows {limit}{}",
                    named(word),
                    named(limit_word)
                )
            }
            Self::Level(value) => write!(f, "NCCL_NET_GDR_LEVEL={value} never uses it"),
            Self::NoSupport(name) => {
                write!(f, "NCCL found neither peer memory nor dma-buf for {name}")
            }
            Self::Refused(words) => write!(f, "NCCL says: {words}"),
            Self::NoPeerMemory => f.write_str("RCCL found no memory_peers directory of the kernel"),
            Self::IbDisabled => f.write_str("NCCL_IB_DISABLE is set"),
            Self::Asked => f.write_str("NCCL_NET asks for sockets"),
            Self::NoLibrary => f.write_str("NCCL could not open libibverbs.so"),
            Self::NoDevice => {
                f.write_str("NCCL found no RDMA device and no plugin for another network")
            }
        }
    }
}

impl Why {
    /// What to do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::TooFar { .. } => {
                "Let each GPU use a NIC below its own PCIe switch; where there is none, NCCL_NET_GDR_LEVEL=SYS \
                 lets NCCL try all distances: compare the bandwidth."
            }
            Self::Level(_) => "Unset NCCL_NET_GDR_LEVEL, or set it to PXB or PHB.",
            Self::NoSupport(_) | Self::Refused(_) => {
                "Load nvidia_peermem, or use the open kernel modules of NVIDIA's driver, which export \
                 dma-buf; linerate inspect says what is missing on a node. GPUs that are not made for \
                 GPUDirect RDMA cannot have it."
            }
            Self::NoPeerMemory => {
                "Load amdgpu with its peer memory client (the DKMS package), or set NCCL_DMABUF_ENABLE=1."
            }
            Self::IbDisabled => "Unset NCCL_IB_DISABLE where the nodes have RDMA.",
            Self::Asked => "Unset NCCL_NET where the nodes have RDMA.",
            Self::NoLibrary => {
                "Install libibverbs1 and the provider of the NIC in the image that the job runs in."
            }
            Self::NoDevice => {
                "Where the nodes have RDMA, give the container its devices (/dev/infiniband), or the \
                 plugin of the network (libnccl-net.so): linerate inspect shows what is there."
            }
        }
    }
}

impl NcclLog {
    /// Why `used`, which is one of `rank`'s, is without GPUDirect RDMA; `None` where the log does not say.
    pub fn why(&self, rank: &Rank, used: &Use) -> Option<Why> {
        let process = self.processes.get(rank.process)?;
        match used.sockets {
            true => self.why_sockets(process),
            false => self
                .too_far(process, rank, used)
                .or_else(|| self.level())
                .or_else(|| no_support(process, used))
                .or_else(|| process.lacks.peer_memory.then_some(Why::NoPeerMemory)),
        }
    }

    /// Why a process uses sockets.
    pub fn why_sockets(&self, process: &Process) -> Option<Why> {
        if self.is_set("NCCL_IB_DISABLE", &|value| value != "0") {
            return Some(Why::IbDisabled);
        }
        if self.is_set("NCCL_NET", &|value| value.eq_ignore_ascii_case("socket")) {
            return Some(Why::Asked);
        }
        let lacks = process.lacks;
        match (lacks.library, lacks.device) {
            (true, _) => Some(Why::NoLibrary),
            (_, true) => Some(Why::NoDevice),
            _ => None,
        }
    }

    /// `NCCL_NET_GDR_LEVEL`, where it forbids everything.
    pub fn level(&self) -> Option<Why> {
        let is_never = |value: &str| value == "0" || value.eq_ignore_ascii_case("LOC");
        let mut levels = self.values("NCCL_NET_GDR_LEVEL");
        let value = levels.next().filter(|value| is_never(value))?;
        levels.all(|value| is_never(value)).then_some(())?;
        Some(Why::Level(value.clone()))
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        let of = move |setting: &&(Arc<str>, Arc<str>)| *setting.0 == *name;
        self.settings.iter().filter(of).map(|(_, value)| value)
    }

    fn is_set(&self, name: &str, is_so: &dyn Fn(&str) -> bool) -> bool {
        self.values(name).any(|value| is_so(value))
    }

    /// The process's version, or that of the log where it has only one.
    fn numbers(&self, process: &Process) -> Option<(u32, u32, u32)> {
        let own = process.version.and_then(|at| self.versions.get(at));
        let only = (self.versions.len() == 1).then(|| self.versions.first());
        distance::version(own.or_else(|| only.flatten())?)
    }

    fn too_far(&self, process: &Process, rank: &Rank, used: &Use) -> Option<Why> {
        let version = self.numbers(process);
        let is_it = |pair: &&GpuHca| {
            !pair.enabled && is_gpu(&pair.gpu, rank, version) && is_device(&pair.device, used)
        };
        let own = process.pairs.iter().find(is_it);
        // A process may say it of all GPUs of its node.
        let of_node = || {
            let others = self.by_host.get(process.host.as_ref()?)?;
            let pairs = |other: &usize| self.processes[*other].pairs.iter();
            others.iter().flat_map(pairs).find(is_it)
        };
        let pair = own.or_else(of_node)?;
        let word = |number| version.and_then(|version| distance::word(version, number));
        Some(Why::TooFar {
            distance: pair.distance,
            word: word(pair.distance),
            limit: pair.limit,
            limit_word: word(pair.limit),
        })
    }
}

/// Whether NCCL's word for a GPU is this rank's: CUDA's number in 2.4, then a bus id, then the rank.
fn is_gpu(gpu: &str, rank: &Rank, version: Option<(u32, u32, u32)>) -> bool {
    let number = gpu.parse().ok();
    let is_rank = number == Some(rank.rank);
    let is_bus = rank.bus.is_some() && u64::from_str_radix(gpu, 16).ok() == rank.bus;
    match version {
        Some(version) if version < (2, 5, 0) => number.is_some() && number == rank.cuda,
        Some(version) if version < (2, 24, 3) => is_bus,
        Some(_) => is_rank,
        None => is_rank || is_bus,
    }
}

fn is_device(device: &str, used: &Use) -> bool {
    // From 2.21.5 on it has the node's number in its upper bits, in hexadecimal.
    const LOCAL: u64 = (1 << 56) - 1;
    let wanted = u64::from(used.device);
    device.parse() == Ok(wanted)
        || u64::from_str_radix(device, 16).is_ok_and(|number| number & LOCAL == wanted)
}

fn no_support(process: &Process, used: &Use) -> Option<Why> {
    let name = process.device(used);
    let is_it = |number: Option<u32>, other: Option<&Arc<str>>| {
        number == Some(used.device) || (other.is_some() && other == name)
    };
    let hca = process
        .hcas
        .iter()
        .find(|hca| !hca.enabled && is_it(hca.number, hca.name.as_ref()))?;
    if let Some(words) = &hca.why {
        return Some(Why::Refused(words.clone()));
    }
    let name = hca.name.clone().or_else(|| name.cloned());
    Some(Why::NoSupport(name.unwrap_or_else(|| "the NIC".into())))
}
