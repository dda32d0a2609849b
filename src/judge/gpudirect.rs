//! Whether a NIC can reach the memory of a GPU without the host's: by peer memory, or by dma-buf.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

use crate::model::{
    CudaGpu, Fact, NodeFacts, NvidiaDriver, PciFunction, RdmaDevice, VENDOR_AMD_GPU, VENDOR_NVIDIA,
    is_treacherous,
};

/// What a GPU is to GPUDirect RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuKind {
    /// Made for computing: GPUDirect RDMA is to be expected.
    Accelerator,
    /// A board for workstations, which is capable of it.
    Workstation,
    /// A consumer's board, or graphics in a processor: it is not made for it.
    Consumer,
    /// It shares the host's memory, which a NIC reaches anyway.
    Integrated,
}

/// Words in the names of the PCI ID Repository.
const INTEGRATED: [&str; 6] = ["GB10]", "GB20B", "Tegra", "Orin", "Xavier", "Thor"];
const CONSUMER: [&str; 7] = ["GeForce", "TITAN", "NVS ", "Mobile", "Max-Q", "GRID", " MX"];
const WORKSTATION: [&str; 6] = ["Quadro", "RTX", "[T400", "[T600", "[T1000", "[T500"];
const AMD_ACCELERATOR: [&str; 2] = ["Instinct", "Aqua Vanjaram"];
/// GB10, the GPU of DGX Spark, which the repository may not know yet.
const GB10: u16 = 0x2e12;

/// Judges by the name that the PCI ID Repository has for it. What it does not know is new, and new
/// functions of NVIDIA's with class "GPU" that somebody puts beside fabric NICs are accelerators.
pub fn gpu_kind(gpu: &PciFunction) -> GpuKind {
    let (Some(vendor), Some(device)) = (gpu.vendor.value(), gpu.device.value()) else {
        return GpuKind::Consumer;
    };
    // The repository is searched from its beginning, and a cluster has few kinds.
    thread_local! {
        static KINDS: RefCell<HashMap<[u16; 2], GpuKind>> = RefCell::default();
    }
    const MOST_KINDS: usize = 1024;
    KINDS.with_borrow_mut(|kinds| {
        if kinds.len() >= MOST_KINDS {
            kinds.clear();
        }
        let kind = kinds.entry([*vendor, *device]);
        *kind.or_insert_with(|| kind_by_name(*vendor, *device))
    })
}

fn kind_by_name(vendor: u16, device: u16) -> GpuKind {
    let known = pci_ids::Device::from_vid_pid(vendor, device);
    let name = known.map_or("", pci_ids::Device::name);
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    match vendor {
        // Nearly every AMD processor has graphics: only what is named counts.
        VENDOR_AMD_GPU if has(&AMD_ACCELERATOR) => GpuKind::Accelerator,
        VENDOR_AMD_GPU => GpuKind::Consumer,
        VENDOR_NVIDIA if device == GB10 || has(&INTEGRATED) => GpuKind::Integrated,
        VENDOR_NVIDIA if has(&CONSUMER) => GpuKind::Consumer,
        VENDOR_NVIDIA if has(&WORKSTATION) => GpuKind::Workstation,
        VENDOR_NVIDIA => GpuKind::Accelerator,
        _ => GpuKind::Consumer,
    }
}

/// How a NIC reaches the memory of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuWay {
    /// By a peer memory client of this name.
    Peermem(String),
    /// By dma-buf.
    Dmabuf,
    /// Not at all.
    None {
        /// Why peer memory is not there.
        peermem: String,
        /// Why dma-buf is not there.
        dmabuf: String,
    },
}

impl fmt::Display for GpuWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peermem(client) => write!(f, "peermem ({client})"),
            Self::Dmabuf => f.write_str("dma-buf"),
            Self::None { peermem, dmabuf } => write!(f, "none: {peermem}; {dmabuf}"),
        }
    }
}

/// A GPU and a NIC of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuPair<'a> {
    /// `GPU0`, in the order of PCI addresses.
    pub gpu_name: String,
    /// The GPU.
    pub gpu: &'a PciFunction,
    /// The NIC.
    pub nic: &'a RdmaDevice,
    /// How it reaches the GPU's memory, or why that is unknown.
    pub way: Result<GpuWay, String>,
    /// Whether dma-buf is known to be a way, also beside peer memory.
    pub has_dmabuf: bool,
}

/// More GPUs and RDMA devices than sit in a node: a node may send any number.
const MAX_GPUS: usize = 64;
const MAX_NICS: usize = 256;

/// Every pair of a GPU that is capable of it and an RDMA device. What a virtual machine was given
/// (vfio-pci) is not the node's to use.
pub fn gpu_pairs<'a>(facts: &'a NodeFacts) -> Vec<GpuPair<'a>> {
    let Some(tree) = facts.pcie.value() else {
        return Vec::new();
    };
    let nics = facts.rdma.value().map_or(&[][..], Vec::as_slice);
    let given_away = |gpu: &PciFunction| gpu.driver.value().is_some_and(|d| d == "vfio-pci");
    let capable = |gpu: &PciFunction| {
        let kind = gpu_kind(gpu);
        matches!(kind, GpuKind::Accelerator | GpuKind::Workstation) && !given_away(gpu)
    };
    let gpus = tree.gpus().enumerate().filter(|(_, gpu)| capable(gpu));
    gpus.take(MAX_GPUS)
        .flat_map(|(index, gpu)| {
            nics.iter().take(MAX_NICS).map(move |nic| {
                let dmabuf = dmabuf(facts, gpu, nic);
                GpuPair {
                    gpu_name: format!("GPU{index}"),
                    gpu,
                    nic,
                    has_dmabuf: matches!(dmabuf, Part::Yes(_)),
                    way: way_of(facts, gpu, nic, dmabuf),
                }
            })
        })
        .collect()
}

/// How `nic` reaches the memory of `gpu`.
///
/// # Errors
/// Why that is unknown.
pub(super) fn way(
    facts: &NodeFacts,
    gpu: &PciFunction,
    nic: &RdmaDevice,
) -> Result<GpuWay, String> {
    way_of(facts, gpu, nic, dmabuf(facts, gpu, nic))
}

fn way_of(
    facts: &NodeFacts,
    gpu: &PciFunction,
    nic: &RdmaDevice,
    dmabuf: Part,
) -> Result<GpuWay, String> {
    match (peermem(facts, gpu), dmabuf) {
        (Part::Yes(client), _) => Ok(GpuWay::Peermem(client)),
        (_, Part::Yes(_)) => Ok(GpuWay::Dmabuf),
        // Amazon's driver has an interface of its own to NVIDIA's.
        _ if has_efa_peer(gpu, nic) => Ok(GpuWay::Peermem("efa".into())),
        _ if nic.driver.value().is_some_and(|driver| driver == "efa") => Err(format!(
            "{} is an EFA, whose driver does not say whether it found that of the GPU",
            nic.name
        )),
        (Part::No(peermem), Part::No(dmabuf)) => Ok(GpuWay::None { peermem, dmabuf }),
        (Part::Unknown(why), _) | (_, Part::Unknown(why)) => Err(why),
    }
}

fn has_efa_peer(gpu: &PciFunction, nic: &RdmaDevice) -> bool {
    let peer = nic.efa_peer.as_ref().and_then(Fact::value);
    gpu.vendor.value() == Some(&VENDOR_NVIDIA) && peer.is_some_and(|p| p.starts_with("NVIDIA"))
}

/// One of the two ways.
enum Part {
    /// It is there, under this name.
    Yes(String),
    /// It is not, because of this.
    No(String),
    /// It cannot be told, because of this.
    Unknown(String),
}

/// The names of NVIDIA's peer memory clients: of nvidia-peermem with and without persistent
/// registrations, and of nv_peer_mem.
const NVIDIA_CLIENTS: [&str; 3] = ["nv_mem", "nv_mem_nc", "nvidia-peermem"];
/// The modules that register them.
const NVIDIA_MODULES: [&str; 2] = ["nvidia_peermem", "nv_peer_mem"];

fn peermem(facts: &NodeFacts, gpu: &PciFunction) -> Part {
    if cuda_says(facts, gpu).is_some_and(|says| says.gpudirect.value() == Some(&false)) {
        return Part::No(
            "the CUDA driver says that the GPU does not support GPUDirect RDMA".into(),
        );
    }
    let (clients, modules): (&[&str], &[&str]) = match gpu.vendor.value() {
        Some(&VENDOR_AMD_GPU) => (&["amdkfd"], &[]),
        _ => (&NVIDIA_CLIENTS, &NVIDIA_MODULES),
    };
    if let Some(client) = facts.gpudirect.client(clients) {
        return Part::Yes(client.name.clone());
    }
    let host = &facts.host;
    if let Some(module) = modules.iter().find_map(|name| host.module(name)) {
        return Part::Yes(module.name.clone());
    }
    let unknown = [
        facts.gpudirect.peer_clients.why_unknown(),
        (!modules.is_empty())
            .then(|| host.modules.why_unknown())
            .flatten(),
    ];
    match unknown.into_iter().flatten().next() {
        Some(why) => Part::Unknown(format!("the peer memory clients are unknown: {why}")),
        None if modules.is_empty() => {
            Part::No("no peer memory client amdkfd is registered with ib_core".into())
        }
        None => Part::No("nvidia_peermem is not loaded".into()),
    }
}

/// Both sides have to know dma-buf: the GPU's driver exports, the NIC's imports.
fn dmabuf(facts: &NodeFacts, gpu: &PciFunction, nic: &RdmaDevice) -> Part {
    match (exports(facts, gpu), imports(facts, nic)) {
        (Part::No(why), _) | (_, Part::No(why)) => Part::No(why),
        (Part::Unknown(why), _) | (_, Part::Unknown(why)) => Part::Unknown(why),
        (Part::Yes(_), Part::Yes(_)) => Part::Yes("dma-buf".into()),
    }
}

/// What the CUDA driver says of one of NVIDIA's GPUs.
pub(super) fn cuda_says<'a>(facts: &'a NodeFacts, gpu: &PciFunction) -> Option<&'a CudaGpu> {
    let is_nvidias = gpu.vendor.value() == Some(&VENDOR_NVIDIA);
    facts
        .gpu
        .cuda
        .value()
        .filter(|_| is_nvidias)?
        .gpu(&gpu.address)
}

fn exports(facts: &NodeFacts, gpu: &PciFunction) -> Part {
    let bound = gpu.driver.value().map(String::as_str);
    if gpu.vendor.value() == Some(&VENDOR_AMD_GPU) {
        return match bound {
            Some("amdgpu") => Part::Yes("amdgpu".into()),
            _ => Part::No("amdgpu is not bound to the GPU".into()),
        };
    }
    // NCCL goes by what the driver says of the GPU, too; the kind of its modules only implies it, and
    // says better why not.
    let said = cuda_says(facts, gpu).and_then(|says| says.dma_buf.value());
    let proprietary = facts.gpu.nvidia.value().is_some_and(|driver| !driver.open);
    match (said, &facts.gpu.nvidia) {
        (Some(true), _) => Part::Yes("the CUDA driver".into()),
        (Some(false), _) if !proprietary => {
            Part::No("the CUDA driver says that the GPU exports no dma-buf".into())
        }
        (_, driver) => implied(facts, driver),
    }
}

/// Whether NVIDIA's driver exports dma-bufs, by the kind of its modules.
fn implied(facts: &NodeFacts, driver: &Fact<NvidiaDriver>) -> Part {
    match driver {
        Fact::Known { value, .. } if value.open => Part::Yes(value.version.clone()),
        Fact::Known { value, .. } => Part::No(format!(
            "NVIDIA's driver {} is the proprietary one, which exports no dma-buf",
            tidy(&value.version)
        )),
        Fact::Unknown { why } if facts.host.modules.value().is_none() => {
            Part::Unknown(format!("NVIDIA's driver is unknown: {why}"))
        }
        Fact::Unknown { .. } if facts.host.module("nvidia").is_none() => {
            Part::No("NVIDIA's kernel driver is not loaded".into())
        }
        Fact::Unknown { why } => Part::Unknown(format!("NVIDIA's driver is unknown: {why}")),
    }
}

fn imports(facts: &NodeFacts, nic: &RdmaDevice) -> Part {
    match &nic.dmabuf {
        Fact::Known { value: true, .. } => Part::Yes(nic.name.clone()),
        Fact::Known { .. } => {
            let old = facts
                .kernel
                .value()
                .filter(|release| is_before_5_12(release));
            let kernel = match old {
                Some(release) => format!(" (Linux {}: that came with 5.12)", tidy(release)),
                None => String::new(),
            };
            Part::No(format!("the driver of the NIC takes no dma-buf{kernel}"))
        }
        Fact::Unknown { why } => Part::Unknown(format!(
            "whether {} takes a dma-buf is unknown: {why}",
            nic.name
        )),
    }
}

/// RDMA registers dma-bufs from Linux 5.12 on; enterprise kernels of older number may, too.
fn is_before_5_12(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < (5, 12),
        _ => false,
    }
}

/// A short word of a node's, fit for a sentence.
fn tidy(text: &str) -> String {
    let visible = text.chars().filter(|c| !is_treacherous(*c));
    visible.take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::rules::testing::{module, without_gpudirect};
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{CudaDriver, PciAddress, PeerClient};

    fn driver(open: bool) -> Fact<NvidiaDriver> {
        let version = "550.54.15".into();
        Fact::known(
            NvidiaDriver { version, open },
            "/proc/driver/nvidia/version",
        )
    }

    fn takes_dmabuf(facts: &mut NodeFacts, takes: Fact<bool>) {
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value.iter_mut().for_each(|nic| nic.dmabuf = takes.clone());
        }
    }

    fn of(facts: &NodeFacts) -> Result<GpuWay, String> {
        let pairs = gpu_pairs(facts);
        assert_eq!(pairs.len(), 3 * 5);
        pairs[0].way.clone()
    }

    #[test]
    fn each_part_of_either_way_counts() {
        let mut facts = without_gpudirect();
        let none = GpuWay::None {
            peermem: "nvidia_peermem is not loaded".into(),
            dmabuf: "NVIDIA's driver 550.54.15 is the proprietary one, which exports no dma-buf"
                .into(),
        };
        assert_eq!(of(&facts), Ok(none));
        facts.gpu.nvidia = driver(true);
        assert_eq!(of(&facts), Ok(GpuWay::Dmabuf));
        takes_dmabuf(&mut facts, Fact::known(false, "ibv_reg_dmabuf_mr"));
        facts.kernel = Fact::known("5.4.0-150-generic".into(), "uname");
        let Ok(GpuWay::None { dmabuf, .. }) = of(&facts) else {
            panic!("{:?}", of(&facts))
        };
        assert!(
            dmabuf.contains("takes no dma-buf (Linux 5.4.0-150-generic"),
            "{dmabuf}"
        );
        // The module alone, as where ib_core lists no clients.
        facts.host.modules = Fact::known(vec![module("nvidia_peermem")], "/sys/module");
        assert_eq!(of(&facts), Ok(GpuWay::Peermem("nvidia_peermem".into())));
        let client = PeerClient {
            name: "nv_mem".into(),
            version: Fact::unknown("none"),
        };
        facts.gpudirect.peer_clients = Fact::known(vec![client], "memory_peers");
        assert_eq!(of(&facts), Ok(GpuWay::Peermem("nv_mem".into())));
    }

    /// The CUDA driver's answers about the first GPU: peer memory, and dma-buf.
    fn cuda(gpudirect: Fact<bool>, dma_buf: Fact<bool>) -> Fact<CudaDriver> {
        let gpu = CudaGpu {
            address: PciAddress(TwoSockets::GPU0.into()),
            name: Fact::default(),
            memory: Fact::default(),
            gpudirect,
            dma_buf,
        };
        let driver = CudaDriver {
            gpus: vec![gpu],
            ..CudaDriver::default()
        };
        Fact::known(driver, "libcuda.so.1")
    }

    fn says(answer: bool) -> Fact<bool> {
        Fact::known(answer, "cuDeviceGetAttribute")
    }

    #[test]
    fn the_cuda_driver_is_believed_before_the_kind_of_its_modules() {
        let dmabuf = |open: bool, cuda: Fact<CudaDriver>| {
            let mut facts = without_gpudirect();
            (facts.gpu.nvidia, facts.gpu.cuda) = (driver(open), cuda);
            match of(&facts) {
                Ok(GpuWay::None { dmabuf, .. }) => dmabuf,
                other => format!("{other:?}"),
            }
        };
        let yes = "Ok(Dmabuf)";
        assert_eq!(dmabuf(false, cuda(says(true), says(true))), yes);
        let no = dmabuf(true, cuda(says(true), says(false)));
        assert_eq!(no, "the CUDA driver says that the GPU exports no dma-buf");
        // Both say no: the modules say why.
        let no = dmabuf(false, cuda(says(true), says(false)));
        assert!(no.contains("is the proprietary one"), "{no}");
        // An older driver does not know: the modules tell.
        let old = || cuda(says(true), Fact::unknown("this driver does not know it"));
        assert_eq!(dmabuf(true, old()), yes);
        let no = dmabuf(false, old());
        assert!(no.contains("is the proprietary one"), "{no}");
        let stub = Fact::unknown("libcuda.so.1: CUDA_ERROR_STUB_LIBRARY (34)");
        assert_eq!(dmabuf(true, stub), yes);
    }

    #[test]
    fn a_gpu_without_gpudirect_has_no_peer_memory_whatever_is_loaded() {
        let mut facts = without_gpudirect();
        facts.host.modules = Fact::known(vec![module("nvidia_peermem")], "/sys/module");
        facts.gpu.cuda = cuda(says(false), says(false));
        let none = GpuWay::None {
            peermem: "the CUDA driver says that the GPU does not support GPUDirect RDMA".into(),
            dmabuf: "NVIDIA's driver 550.54.15 is the proprietary one, which exports no dma-buf"
                .into(),
        };
        assert_eq!(of(&facts), Ok(none));
        // Of the others it said nothing.
        let other = gpu_pairs(&facts).last().unwrap().way.clone();
        assert_eq!(other, Ok(GpuWay::Peermem("nvidia_peermem".into())));
        facts.gpu.cuda = cuda(Fact::unknown("an older driver"), says(true));
        assert_eq!(of(&facts), Ok(GpuWay::Peermem("nvidia_peermem".into())));
    }

    #[test]
    fn a_driver_of_any_number_of_gpus_is_judged_in_time() {
        let mut facts = without_gpudirect();
        facts.gpu.cuda = cuda(says(true), says(true)).map(|driver| CudaDriver {
            gpus: vec![driver.gpus[0].clone(); 100_000],
            ..driver
        });
        assert_eq!(of(&facts), Ok(GpuWay::Dmabuf));
        let elsewhere = facts.gpu.cuda.value().unwrap();
        assert_eq!(elsewhere.gpu(&PciAddress("elsewhere".into())), None);
    }

    #[test]
    fn what_was_not_asked_is_unknown_and_never_missing() {
        let mut facts = without_gpudirect();
        facts.gpu.nvidia = driver(true);
        takes_dmabuf(&mut facts, Fact::unknown("needs rdma-core 34"));
        assert!(of(&facts).unwrap_err().contains("needs rdma-core 34"));
        let mut facts = without_gpudirect();
        facts.gpudirect.peer_clients = Fact::default();
        assert!(of(&facts).is_err());
        let mut facts = without_gpudirect();
        facts.host.modules = Fact::default();
        assert!(of(&facts).is_err());
        assert!(of(&TwoSockets::facts()).is_err());
    }

    #[test]
    fn a_node_with_any_number_of_devices_is_judged_in_time() {
        let mut facts = without_gpudirect();
        if let Fact::Known { value, .. } = &mut facts.rdma {
            *value = vec![value[0].clone(); 1000];
        }
        if let Fact::Known { value, .. } = &mut facts.pcie {
            let gpu = value.gpus().next().unwrap().clone();
            value.functions.extend(vec![gpu; 1000]);
        }
        assert_eq!(gpu_pairs(&facts).len(), MAX_GPUS * MAX_NICS);
    }

    #[test]
    fn an_efa_goes_its_own_way() {
        let mut facts = without_gpudirect();
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value
                .iter_mut()
                .for_each(|nic| nic.driver = Fact::known("efa".into(), "driver"));
        }
        assert!(of(&facts).unwrap_err().contains("EFA"));
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value[0].efa_peer = Some(Fact::known("NVIDIA peermem".into(), "p2p"));
        }
        assert_eq!(of(&facts), Ok(GpuWay::Peermem("efa".into())));
    }

    #[test]
    fn boards_are_told_by_their_name() {
        let kind = |vendor: u16, device: u16| {
            let mut tree = TwoSockets::tree();
            let gpu = tree
                .functions
                .iter_mut()
                .find(|f| f.address.0 == TwoSockets::GPU0);
            let gpu = gpu.unwrap();
            gpu.vendor = Fact::known(vendor, "vendor");
            gpu.device = Fact::known(device, "device");
            gpu_kind(gpu)
        };
        for (vendor, device, expected) in [
            (VENDOR_NVIDIA, 0x2330, GpuKind::Accelerator),
            (VENDOR_NVIDIA, 0x20b0, GpuKind::Accelerator),
            (VENDOR_NVIDIA, 0x2941, GpuKind::Accelerator),
            (VENDOR_NVIDIA, 0x26b9, GpuKind::Accelerator),
            // New, so that the repository does not know it.
            (VENDOR_NVIDIA, 0xfff0, GpuKind::Accelerator),
            (VENDOR_NVIDIA, 0x2204, GpuKind::Consumer),
            (VENDOR_NVIDIA, 0x2bb1, GpuKind::Workstation),
            (VENDOR_NVIDIA, 0x2e12, GpuKind::Integrated),
            (VENDOR_AMD_GPU, 0x74a1, GpuKind::Accelerator),
            (VENDOR_AMD_GPU, 0x164e, GpuKind::Consumer),
            (VENDOR_AMD_GPU, 0xfff0, GpuKind::Consumer),
        ] {
            assert_eq!(kind(vendor, device), expected, "{vendor:04x}:{device:04x}");
        }
    }

    #[test]
    fn amd_has_a_client_and_dma_buf_too() {
        let mut facts = without_gpudirect();
        if let Fact::Known { value, .. } = &mut facts.pcie {
            for gpu in value
                .functions
                .iter_mut()
                .filter(|f| f.memory_window.is_some())
            {
                gpu.vendor = Fact::known(VENDOR_AMD_GPU, "vendor");
                gpu.device = Fact::known(0x74a1, "device");
                gpu.driver = Fact::known("amdgpu".into(), "driver");
            }
        }
        assert_eq!(of(&facts), Ok(GpuWay::Dmabuf));
        takes_dmabuf(&mut facts, Fact::known(false, "ibv_reg_dmabuf_mr"));
        assert!(matches!(of(&facts), Ok(GpuWay::None { .. })));
        let client = PeerClient {
            name: "amdkfd".into(),
            version: Fact::unknown("none"),
        };
        facts.gpudirect.peer_clients = Fact::known(vec![client], "memory_peers");
        assert_eq!(of(&facts), Ok(GpuWay::Peermem("amdkfd".into())));
    }

    #[test]
    fn a_gpu_that_was_given_to_a_guest_is_not_the_nodes() {
        let mut facts = without_gpudirect();
        if let Fact::Known { value, .. } = &mut facts.pcie {
            for gpu in value
                .functions
                .iter_mut()
                .filter(|f| f.memory_window.is_some())
            {
                gpu.driver = Fact::known("vfio-pci".into(), "driver");
            }
        }
        assert!(gpu_pairs(&facts).is_empty());
    }

    #[test]
    fn kernels_are_compared_by_number() {
        for (release, before) in [
            ("5.4.0-150-generic", true),
            ("5.11.0", true),
            ("5.12.0", false),
            ("6.8.0-45-generic", false),
            ("5.15-rc1", false),
            ("x", false),
        ] {
            assert_eq!(is_before_5_12(release), before, "{release}");
        }
    }
}
