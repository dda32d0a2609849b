//! Reads /sys, /proc and limits into facts. Below a root other than `/`, a snapshot of a node, the
//! facts that only a running kernel can tell are unknown.

mod conventional;
mod counters;
mod device;
mod efa;
mod errors;
mod ethernet;
mod gids;
mod gpu;
mod gpudirect;
mod host;
mod identity;
mod in_use;
mod interfaces;
mod netdev;
mod netlink;
mod nic_parse;
#[cfg(test)]
mod nic_tests;
mod numa;
mod parse;
mod pauses;
mod pcie;
mod place;
mod port;
mod queue_pairs;
mod root;
mod routes;
mod sample;
mod subnet;
#[cfg(test)]
mod tests;
mod traffic;
#[cfg(test)]
mod tree;

pub use errors::{grown, port_errors};
pub use in_use::in_use;
pub use pauses::{pauses, pausing};
pub use place::port_place;
pub use queue_pairs::queue_pairs;
pub use root::Root;
pub use sample::Sampler;

use crate::model::{CudaDriver, Fact, NodeFacts, Nvml};
use interfaces::Interfaces;
use netlink::Kernel;

/// Tells the path MTU in bytes of a port, by device name and port number.
pub type AskMtu<'a> = dyn Fn(&str, u8) -> Fact<u32> + 'a;
/// Tells the file that a library was loaded from.
pub type AskLibrary<'a> = dyn Fn() -> Fact<String> + 'a;

/// Tells whether an RDMA device takes the memory of other devices by dma-buf.
pub type AskDmabuf<'a> = dyn Fn(&str) -> Fact<bool> + 'a;
/// Tells what the NVIDIA Management Library lists.
pub type AskNvml<'a> = dyn Fn() -> Fact<Nvml> + 'a;
/// Tells what the CUDA driver says of its GPUs.
pub type AskCuda<'a> = dyn Fn() -> Fact<CudaDriver> + 'a;

/// Answers that sysfs does not have. Each is asked on the running system only; without it the fact
/// is unknown.
#[derive(Default, Clone, Copy)]
pub struct Sources<'a> {
    /// The path MTU in bytes that a port (device name, port number) runs at: `ibv_query_port`.
    pub active_mtu: Option<&'a AskMtu<'a>>,
    /// The file that libibverbs was loaded from, or why it was not.
    pub libibverbs: Option<&'a AskLibrary<'a>>,
    /// Whether an RDMA device takes a dma-buf: `ibv_reg_dmabuf_mr`.
    pub takes_dmabuf: Option<&'a AskDmabuf<'a>>,
    /// What the NVIDIA Management Library lists; asked only where there is a GPU of NVIDIA's.
    pub nvml: Option<&'a AskNvml<'a>>,
    /// What the CUDA driver says; asked only where there is a GPU of NVIDIA's.
    pub cuda: Option<&'a AskCuda<'a>>,
}

/// What is known of the node whose file system starts at `root`.
///
/// Never fails: what cannot be read is unknown, with the file and the system's error.
pub fn survey(root: &Root, sources: &Sources<'_>) -> NodeFacts {
    let (interfaces, kernel) = if root.is_live() {
        (Interfaces::live(), Kernel::Running)
    } else {
        let none = Interfaces::unknown(not_live("addresses come from getifaddrs"));
        (none, Kernel::Snapshot)
    };
    survey_with(&Survey {
        root,
        sources,
        interfaces,
        kernel,
    })
}

/// What the readers of one survey share.
struct Survey<'a> {
    root: &'a Root,
    sources: &'a Sources<'a>,
    interfaces: Interfaces,
    kernel: Kernel,
}

fn survey_with(survey: &Survey<'_>) -> NodeFacts {
    let mut rdma = device::devices(survey);
    let traffic = traffic::begin(survey.root, &mut rdma);
    queue_pairs::fill(survey.root, &mut rdma);
    let pcie = pcie::tree(survey.root, rdma.value().map_or(&[], Vec::as_slice));
    // Some drivers log what they refuse: without a GPU nobody wants to know.
    let has_gpu = pcie
        .value()
        .is_some_and(|tree| tree.gpus().next().is_some());
    if let (Fact::Known { value, .. }, true) = (&mut rdma, has_gpu) {
        for device in value {
            device.dmabuf = survey.takes_dmabuf(&device.name);
        }
    }
    traffic::end(survey.root, &traffic, &mut rdma);
    let devices = rdma.value().map_or(&[][..], Vec::as_slice);
    NodeFacts {
        hostname: host::hostname(survey.root),
        kernel: host::kernel(survey.root),
        arch: host::arch(survey.root),
        uptime_s: host::uptime_s(survey.root),
        memlock: host::memlock(survey.root),
        libibverbs: survey.libibverbs(),
        interfaces: conventional::interfaces(survey.root, devices),
        routing: routes::routing(survey),
        efa_provider: efa::provider(survey.root, devices),
        numa: numa::nodes(survey.root),
        host: host::facts(survey.root),
        gpu: gpu::facts(survey, pcie.value()),
        gpudirect: gpudirect::facts(survey.root),
        pcie,
        rdma,
    }
}

impl Survey<'_> {
    fn libibverbs(&self) -> Fact<String> {
        match self.sources.libibverbs {
            _ if !self.root.is_live() => Fact::unknown(not_live("libibverbs is loaded here")),
            Some(ask) => ask(),
            None => Fact::unknown("libibverbs was not asked for"),
        }
    }

    fn takes_dmabuf(&self, device: &str) -> Fact<bool> {
        match self.sources.takes_dmabuf {
            _ if !self.root.is_live() => Fact::unknown(not_live("only ibv_reg_dmabuf_mr tells")),
            Some(ask) => ask(device),
            None => Fact::unknown("only ibv_reg_dmabuf_mr tells, and libibverbs was not asked"),
        }
    }

    fn active_mtu(&self, device: &str, port: u8) -> Fact<u32> {
        match self.sources.active_mtu {
            _ if !self.root.is_live() => {
                Fact::unknown(not_live("sysfs has no RDMA MTU, only ibv_query_port"))
            }
            Some(ask) => ask(device, port),
            None => Fact::unknown("sysfs has no RDMA MTU, and libibverbs was not asked"),
        }
    }
}

/// Why a fact is unknown below a root that is a snapshot.
fn not_live(why: &str) -> String {
    format!("not the live system: {why}")
}
