//! The GPU part of `linerate inspect`: drivers, and how NICs reach the memory of GPUs.

use std::io;

use serde_json::{Value, json};

use super::{Page, Summary};
use crate::judge::{GpuKind, GpuPair, GpuWay, gpu_kind, gpu_pairs};
use crate::model::{CudaDriver, Fact, GpuFacts, NodeFacts, PciAddress, PcieTree};
use crate::topology::{PathClass, path_class};

/// The drivers of the GPUs; nothing without GPUs.
pub(super) fn drivers(page: &mut Page<'_>, gpu: &GpuFacts) -> io::Result<()> {
    if !gpu.nvidia.was_asked() {
        return Ok(());
    }
    let mut summary = Summary::default();
    summary.add("driver", &gpu.nvidia, |driver| {
        let kind = match driver.open {
            true => "open",
            false => "proprietary",
        };
        format!("driver {} ({kind} kernel modules)", driver.version)
    });
    match &gpu.nvml {
        Fact::Known { value, .. } => {
            summary.add("CUDA", &value.cuda, |cuda| format!("CUDA up to {cuda}"));
            summary.known.push(match value.gpus.len() {
                1 => "1 GPU listed".to_owned(),
                count => format!("{count} GPUs listed"),
            });
            let unread = value.unread.iter().map(|why| ("unread", why.clone()));
            summary.unknown.extend(unread);
        }
        Fact::Unknown { why } => summary.unknown.push(("NVML", why.to_string())),
    }
    cuda(&mut summary, &gpu.cuda);
    let known = summary.known.join(", ");
    page.field(
        "NVIDIA",
        if known.is_empty() {
            "nothing known"
        } else {
            &known
        },
    )?;
    let mut unknown = summary.unknown.into_iter();
    unknown.try_for_each(|(what, why)| page.part(what, format!("unknown: {why}")))
}

/// What the CUDA driver serves; nothing where an older survey did not ask.
fn cuda(summary: &mut Summary, driver: &Fact<CudaDriver>) {
    match driver {
        Fact::Known { value, .. } => {
            summary.known.push(match value.gpus.len() {
                1 => "1 GPU served by CUDA".to_owned(),
                count => format!("{count} GPUs served by CUDA"),
            });
            summary.add("libcuda", &value.version, |version| {
                format!("libcuda {version}")
            });
            let unread = value.unread.iter().map(|why| ("unserved", why.clone()));
            summary.unknown.extend(unread);
        }
        Fact::Unknown { why } if driver.was_asked() => {
            summary.unknown.push(("libcuda", why.to_string()));
        }
        Fact::Unknown { .. } => {}
    }
}

/// What a GPU's own driver knows of it.
pub(super) fn known_to_its_driver(
    page: &mut Page<'_>,
    facts: &NodeFacts,
    address: &PciAddress,
) -> io::Result<()> {
    let mut summary = Summary::default();
    if let Some(gpu) = facts.gpu.nvml.value().and_then(|nvml| nvml.gpu(address)) {
        summary
            .add("memory", &gpu.memory, |memory| format!("memory {memory}"))
            .add("use", &gpu.busy_percent, |busy| format!("{busy} % busy"))
            .add("UUID", &gpu.uuid, Clone::clone);
    }
    known_to_cuda(&mut summary, facts, address);
    // The kernel's driver knows less, and answers without the library.
    let listed = facts.gpu.nvidia_gpus.value().map_or(&[][..], Vec::as_slice);
    if let Some(gpu) = listed.iter().find(|gpu| gpu.address == *address)
        && facts.gpu.nvml.value().is_none()
    {
        summary
            .add("model", &gpu.model, Clone::clone)
            .add("UUID", &gpu.uuid, Clone::clone);
    }
    let amd = facts.gpu.amd.value().map_or(&[][..], Vec::as_slice);
    if let Some(gpu) = amd.iter().find(|gpu| gpu.address == *address) {
        summary
            .add("memory", &gpu.memory, |memory| format!("memory {memory}"))
            .add("target", &gpu.target, Clone::clone)
            .add("compute", &gpu.compute_nodes, |nodes| match nodes {
                1 => "whole".to_owned(),
                nodes => format!("{nodes} compute nodes"),
            })
            .add("id", &gpu.unique_id, |id| format!("id {id}"));
    }
    match summary.known.is_empty() && summary.unknown.is_empty() {
        true => Ok(()),
        false => page.summary("GPU", summary),
    }
}

/// What the CUDA driver knows of a GPU: beside NVML only what that does not have.
fn known_to_cuda(summary: &mut Summary, facts: &NodeFacts, address: &PciAddress) {
    let Some(gpu) = facts.gpu.cuda.value().and_then(|cuda| cuda.gpu(address)) else {
        return;
    };
    if facts.gpu.nvml.value().is_none() {
        summary
            .add("memory", &gpu.memory, |memory| format!("memory {memory}"))
            .add("name", &gpu.name, Clone::clone);
    }
    let has = |what: &'static str| {
        move |yes: &bool| match yes {
            true => what.to_owned(),
            false => format!("no {what}"),
        }
    };
    summary
        .add("GPUDirect", &gpu.gpudirect, has("GPUDirect RDMA"))
        .add("dma-buf", &gpu.dma_buf, has("dma-buf"));
}

/// How NICs reach the memory of GPUs, a line for each way.
pub(super) fn gpudirect(page: &mut Page<'_>, facts: &NodeFacts, tree: &PcieTree) -> io::Result<()> {
    // Without a GPU, or without a NIC, there is nobody to reach; an older survey did not look.
    if !facts.gpudirect.peer_clients.was_asked() {
        return Ok(());
    }
    if tree.gpus().next().is_none() || facts.rdma.value().is_none_or(Vec::is_empty) {
        return Ok(());
    }
    writeln!(page.out)?;
    let pairs = gpu_pairs(facts);
    let ways = by_way(&pairs);
    if ways.is_empty() {
        page.field("GPUDirect", not_meant(tree))?;
    }
    for (index, (way, gpus, nics)) in ways.iter().enumerate() {
        let label = if index == 0 { "GPUDirect" } else { "" };
        page.field(label, format!("{} ↔ {}", gpus.join(" "), nics.join(" ")))?;
        page.part("by", way)?;
    }
    if let Some(storage) = facts.gpudirect.storage.value().and_then(Option::as_ref) {
        let version = storage.version.value().map_or("", String::as_str);
        page.part("storage", format!("nvidia_fs {version}"))?;
    }
    Ok(())
}

/// Why none of the GPUs has a way.
fn not_meant(tree: &PcieTree) -> &'static str {
    let mut kinds = tree.gpus().map(gpu_kind);
    match kinds.any(|kind| kind == GpuKind::Integrated) {
        true => "the GPU shares the host's memory, which NICs reach anyway",
        false => "none of the GPUs is made for it",
    }
}

/// The GPUs and NICs that have each other by one way.
type Way<'a> = (String, Vec<&'a str>, Vec<&'a str>);

/// Pairs of the same way together, NICs with the same GPUs in one row.
fn by_way<'a>(pairs: &'a [GpuPair<'a>]) -> Vec<Way<'a>> {
    let mut of_nics: Vec<Way<'_>> = Vec::new();
    for pair in pairs {
        let way = match &pair.way {
            Ok(way) => way.to_string(),
            Err(why) => format!("unknown: {why}"),
        };
        let nic = pair.nic.name.as_str();
        match of_nics
            .iter_mut()
            .find(|(w, _, nics)| *w == way && nics[0] == nic)
        {
            Some((_, gpus, _)) => gpus.push(&pair.gpu_name),
            None => of_nics.push((way, vec![&pair.gpu_name], vec![nic])),
        }
    }
    let mut rows: Vec<Way<'_>> = Vec::new();
    for (way, gpus, nics) in of_nics {
        match rows.iter_mut().find(|(w, g, _)| *w == way && *g == gpus) {
            Some((_, _, all)) => all.extend(nics),
            None => rows.push((way, gpus, nics)),
        }
    }
    rows
}

/// The same, for programs: an object for each pair.
pub(super) fn paths(facts: &NodeFacts) -> Vec<Value> {
    let pairs = gpu_pairs(facts);
    let one = |pair: &GpuPair<'_>| {
        let mut path = json!({"gpu": pair.gpu_name, "nic": pair.nic.name});
        match &pair.way {
            Ok(GpuWay::Peermem(client)) => {
                path["path"] = json!("peermem");
                path["client"] = json!(client);
            }
            Ok(GpuWay::Dmabuf) => path["path"] = json!("dma-buf"),
            Ok(GpuWay::None { peermem, dmabuf }) => {
                path["path"] = json!("none");
                path["why"] = json!([peermem, dmabuf]);
            }
            Err(why) => path["unknown"] = json!(why),
        }
        match class(facts, pair) {
            Ok(class) => path["class"] = json!(class.to_string()),
            Err(why) => path["class_unknown"] = json!(why),
        }
        path
    };
    pairs.iter().map(one).collect()
}

/// What lies between a GPU and a NIC, or why that is unknown.
fn class(facts: &NodeFacts, pair: &GpuPair<'_>) -> Result<PathClass, String> {
    let unknown = || format!("the PCI function of {} is unknown", pair.nic.name);
    let at = pair.nic.pci.value().ok_or_else(unknown)?;
    let tree = facts.pcie.value().ok_or("the PCIe tree is unknown")?;
    path_class(tree, &pair.gpu.address, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Said;
    use crate::model::testing::pcie::{TwoSockets, address, flat};
    use crate::model::{Bytes, CudaGpu, NvidiaDriver, Nvml, NvmlGpu, PciRole, PeerClient};
    use crate::report::inspect::{json as document, write_facts};

    fn known<T>(value: T) -> Fact<T> {
        Fact::known(value, "test")
    }

    /// A GPU and two NICs on the root bus, of which one takes no dma-buf.
    fn node(open: bool) -> NodeFacts {
        let mut facts = TwoSockets::facts();
        let mut tree = flat(&[TwoSockets::NIC0, TwoSockets::NIC1, "0000:20:00.0"]);
        tree.functions[2].role = PciRole::Gpu;
        tree.functions[2].vendor = known(0x10de);
        tree.functions[2].device = known(0x2330);
        facts.pcie = known(tree);
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value.truncate(2);
            value[1].dmabuf = known(false);
        }
        let version = "550.54.15".into();
        facts.gpu.nvidia = known(NvidiaDriver { version, open });
        facts.gpu.nvml = known(Nvml {
            driver: known("550.54.15".into()),
            cuda: known("12.4".into()),
            gpus: vec![NvmlGpu {
                address: address("0000:20:00.0"),
                name: known("NVIDIA H100 80GB HBM3".into()),
                uuid: known("GPU-0b1c".into()),
                memory: known(Bytes(80 << 30)),
                bar1: known(Bytes(128 << 30)),
                pcie_generation: known((1, 5)),
                pcie_width: known((16, 16)),
                busy_percent: Fact::unknown("nvmlDeviceGetUtilizationRates: not supported"),
            }],
            unread: vec![],
        });
        facts.host.modules = known(vec![]);
        facts.gpudirect.peer_clients = known(vec![]);
        facts
    }

    fn print(facts: &NodeFacts) -> String {
        let mut out = Vec::new();
        write_facts(facts, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        // The NICs are other tests' business.
        let (_, gpus) = text.split_once("\nNVIDIA").unwrap();
        let (head, _) = gpus.split_once("\n\nmlx5_0").unwrap();
        let (_, tail) = gpus.split_once("\n\nGPU0").unwrap();
        format!("NVIDIA{head}\n\nGPU0{tail}")
    }

    #[test]
    fn each_way_has_its_row() {
        insta::assert_snapshot!(print(&node(true)));
    }

    #[test]
    fn what_the_cuda_driver_says_is_beside_it() {
        let mut facts = node(true);
        let gpu = CudaGpu {
            address: address("0000:20:00.0"),
            name: known("NVIDIA H100 80GB HBM3".into()),
            memory: known(Bytes(80 << 30)),
            gpudirect: known(true),
            dma_buf: known(false),
        };
        facts.gpu.cuda = known(CudaDriver {
            version: known("12.4".into()),
            gpus: vec![gpu],
            unread: vec!["GPU 1: cuDeviceGet failed".into()],
        });
        insta::assert_snapshot!(print(&facts));
        facts.gpu.nvml = Fact::unknown("libnvidia-ml.so.1 is not installed");
        let printed = print(&facts);
        let alone = "memory 80 GiB, NVIDIA H100 80GB HBM3, GPUDirect RDMA, no dma-buf";
        assert!(printed.contains(alone), "{printed}");
        facts.gpu.cuda = Fact::unknown("libcuda.so.1: cuInit failed");
        let printed = print(&facts);
        let line = "libcuda    unknown: libcuda.so.1: cuInit failed";
        assert!(printed.contains(line), "{printed}");
    }

    #[test]
    fn one_way_for_all_is_one_row() {
        let mut facts = node(false);
        let client = PeerClient {
            name: "nv_mem".into(),
            version: known("550.54.15".into()),
        };
        facts.gpudirect.peer_clients = known(vec![client]);
        let printed = print(&facts);
        let text = "GPUDirect    GPU0 ↔ mlx5_0 mlx5_1\n  by         peermem (nv_mem)\n";
        assert!(printed.contains(text), "{printed}");
    }

    #[test]
    fn boards_that_are_not_made_for_it_have_a_short_line() {
        let mut facts = node(true);
        let kind = |facts: &mut NodeFacts, device| {
            if let Fact::Known { value, .. } = &mut facts.pcie {
                value.functions[2].device = known(device);
            }
            print(facts)
        };
        let consumer = kind(&mut facts, 0x2204);
        assert!(
            consumer.contains("none of the GPUs is made for it"),
            "{consumer}"
        );
        let shared = kind(&mut facts, 0x2e12);
        assert!(shared.contains("shares the host's memory"), "{shared}");
    }

    #[test]
    fn programs_get_an_object_for_each_pair() {
        let mut out = Vec::new();
        document(&node(true), &Said::default(), &mut out).unwrap();
        let document: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            document["gpudirect_paths"],
            json!([
                {"gpu": "GPU0", "nic": "mlx5_0", "path": "dma-buf", "class": "PHB"},
                {"gpu": "GPU0", "nic": "mlx5_1", "path": "none", "class": "PHB", "why": [
                    "nvidia_peermem is not loaded", "the driver of the NIC takes no dma-buf"
                ]},
            ])
        );
    }
}
