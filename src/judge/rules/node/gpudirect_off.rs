//! GPUs and fabric NICs in one node that cannot reach each other: every byte goes through the host.

use super::Said;
use crate::judge::gpudirect::cuda_says;
use crate::judge::rules::{About, in_a_row, plain};
use crate::judge::{GpuKind, GpuPair, GpuWay, NodeView, gpu_kind};
use crate::model::{CudaGpu, Evidence, Fact, Finding, Rule, Severity, VENDOR_AMD_GPU};

pub(super) const ABOUT: About = About {
    rule: Rule::GpuDirectOff,
    means: "The node has GPUs and fabric NICs, and the NICs cannot read or write the memory of the GPUs: \
            neither is a peer memory client registered, nor do both drivers know dma-buf. Everything that \
            NCCL or RCCL sends is copied through host memory first, and they say so only where debug \
            output is on.",
    detected: "Peer memory: /sys/kernel/mm/memory_peers and /sys/module/nvidia_peermem or nv_peer_mem. \
               dma-buf: NVIDIA's open kernel modules (/proc/driver/nvidia/version) or amdgpu on the one \
               side, where the CUDA driver's own answers about a GPU count for more (DMA_BUF_SUPPORTED, and \
               GPU_DIRECT_RDMA_SUPPORTED for peer memory); on the other a NIC whose driver looks at the file descriptor that \
               ibv_reg_dmabuf_mr is called with. A fault where both are missing. Boards that are not made \
               for it, and GPUs that share the host's memory, are not meant. Cannot be told where the \
               agent may not open the NIC, or libibverbs is older than rdma-core 34.",
    remedy: "Load nvidia-peermem (modprobe nvidia-peermem; it needs the ib_core of DOCA-OFED or of a kernel \
             with peer memory) and have it loaded at boot, or use NVIDIA's open kernel modules from version 515 \
             on Linux 5.12 or newer, whose memory NICs reach by dma-buf. With AMD GPUs, use the amdgpu of ROCm.",
};

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let counts = |pair: &&GpuPair<'_>| node.nics.iter().any(|nic| nic.id.device == pair.nic.name);
    let pairs: Vec<_> = node.gpu_pairs().iter().filter(counts).collect();
    let without: Vec<_> = pairs
        .iter()
        .copied()
        .filter(|pair| matches!(pair.way, Ok(GpuWay::None { .. })))
        .collect();
    let works = pairs
        .iter()
        .any(|pair| matches!(pair.way, Ok(GpuWay::Peermem(_) | GpuWay::Dmabuf)));
    // Without a run, a NIC that serves something else is no reason for alarm.
    let by_rail = node.nics.iter().any(|nic| nic.rail.is_some());
    if !without.is_empty() && (!works || by_rail) {
        return said.findings.push(finding(node, &pairs, &without));
    }
    let unknown = pairs.iter().find_map(|pair| pair.way.as_ref().err());
    if let (Some(why), false) = (unknown, works) {
        said.cannot_tell(Rule::GpuDirectOff, node.subject(), why);
    }
}

fn finding(node: &NodeView<'_>, all: &[&GpuPair<'_>], without: &[&GpuPair<'_>]) -> Finding {
    let severity = match without
        .iter()
        .any(|p| gpu_kind(p.gpu) == GpuKind::Accelerator)
    {
        true => Severity::Fault,
        false => Severity::Warning,
    };
    let gpus = in_a_row(without.iter().map(|pair| pair.gpu_name.as_str()));
    let nics = in_a_row(without.iter().map(|pair| pair.nic.name.as_str()));
    let share = match without.len() == all.len() {
        true => "off",
        false => "partly off",
    };
    let why = match without.first().map(|pair| &pair.way) {
        Some(Ok(GpuWay::None { peermem, dmabuf })) => format!("{peermem}, and {dmabuf}"),
        _ => "neither peer memory nor dma-buf is there".to_owned(),
    };
    plain(
        Rule::GpuDirectOff,
        severity,
        node.subject(),
        format!(
            "GPUDirect RDMA is {share} on {}: data between {gpus} and {nics} is copied through host memory, as {why}.",
            node.name
        ),
        evidence(node, without),
        remedy(node, without),
    )
}

fn evidence(node: &NodeView<'_>, without: &[&GpuPair<'_>]) -> Vec<Evidence> {
    let facts = node.facts;
    let mut evidence = Vec::new();
    let mut add = |saw: String, from: Option<&str>| {
        let from = format!("{}: {}", node.name, from.unwrap_or_default());
        evidence.push(Evidence { saw, from });
    };
    let first = without.first();
    let cuda = first.and_then(|pair| Some((&pair.gpu_name, cuda_says(facts, pair.gpu)?)));
    match cuda {
        // Such a client may well be there, and is no help.
        Some((name, gpu)) if is_refused(gpu) => add(
            format!("no GPUDirect RDMA of {name}"),
            gpu.gpudirect.source(),
        ),
        _ => add(
            "no peer memory client of the GPUs".into(),
            facts.gpudirect.peer_clients.source(),
        ),
    }
    if let Some((name, gpu)) = cuda
        && let Fact::Known { value, from } = &gpu.dma_buf
    {
        let exports = if *value { "exports" } else { "does not export" };
        add(
            format!("the CUDA driver {exports} a dma-buf of {name}"),
            Some(from),
        );
    }
    if let Fact::Known { value, from } = &facts.gpu.nvidia {
        let kind = if value.open { "open" } else { "proprietary" };
        add(
            format!("{kind} NVIDIA driver {}", value.version),
            Some(from),
        );
    }
    if let Some(nic) = first.map(|pair| pair.nic)
        && let Fact::Known { value, from } = &nic.dmabuf
    {
        let takes = if *value { "takes" } else { "does not take" };
        add(format!("{} {takes} a dma-buf", nic.name), Some(from));
    }
    evidence
}

/// Whether the CUDA driver says that the GPU has no peer memory.
fn is_refused(gpu: &CudaGpu) -> bool {
    gpu.gpudirect.value() == Some(&false)
}

fn remedy(node: &NodeView<'_>, without: &[&GpuPair<'_>]) -> String {
    let facts = node.facts;
    let amd = |pair: &&GpuPair<'_>| pair.gpu.vendor.value() == Some(&VENDOR_AMD_GPU);
    let no_driver = facts.gpu.nvidia.value().is_none() && facts.host.module("nvidia").is_none();
    let refused = |pair: &&GpuPair<'_>| cuda_says(facts, pair.gpu).is_some_and(is_refused);
    if without.iter().all(refused) {
        "No module brings peer memory to a GPU whose driver says that it has none: it may be a virtual GPU, or a \
         board that is not made for it. Use whole GPUs that have it, or dma-buf, with NVIDIA's open kernel modules on \
         Linux 5.12 or newer and a CUDA driver from 11.7."
            .to_owned()
    } else if without.iter().all(amd) {
        "Use the amdgpu driver of ROCm with an ib_core that has peer memory, or a kernel and NIC driver that know \
         dma-buf (CONFIG_PCI_P2PDMA, CONFIG_DMABUF_MOVE_NOTIFY)."
            .to_owned()
    } else if no_driver {
        format!("Load NVIDIA's driver first. {}", ABOUT.remedy)
    } else {
        ABOUT.remedy.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::rules::node::testing::{all, only, without_gpudirect};
    use crate::judge::{inspect, judge};
    use crate::model::testing::facts;
    use crate::model::{
        CudaDriver, Event, NodeFacts, NodeName, NvidiaDriver, PciFunction, SoftwareRdma,
    };

    fn off(facts: &NodeFacts) -> Option<Finding> {
        only(facts, Rule::GpuDirectOff)
    }

    #[test]
    fn without_either_way_it_is_a_fault_that_says_what_is_missing() {
        let finding = off(&without_gpudirect()).unwrap();
        assert_eq!(finding.severity, Severity::Fault);
        assert_eq!(
            finding.says,
            "GPUDirect RDMA is off on node017: data between GPU0, GPU1, GPU2 and mlx5_0, mlx5_1, mlx5_2, mlx5_3 and \
             1 more is copied through host memory, as nvidia_peermem is not loaded, and NVIDIA's driver 550.54.15 \
             is the proprietary one, which exports no dma-buf."
        );
        assert_eq!(finding.evidence.len(), 3);
        assert!(finding.remedy.starts_with("Load nvidia-peermem"));
    }

    #[test]
    fn what_the_cuda_driver_refuses_no_module_brings() {
        let mut facts = without_gpudirect();
        let says = |answer| Fact::known(answer, "cuDeviceGetAttribute");
        let of = |gpu: &PciFunction| CudaGpu {
            address: gpu.address.clone(),
            name: Fact::default(),
            memory: Fact::default(),
            gpudirect: says(false),
            dma_buf: says(false),
        };
        let driver = CudaDriver {
            gpus: facts.pcie.value().unwrap().gpus().map(of).collect(),
            ..CudaDriver::default()
        };
        facts.gpu.cuda = Fact::known(driver, "libcuda.so.1");
        let finding = off(&facts).unwrap();
        let why =
            "as the CUDA driver says that the GPU does not support GPUDirect RDMA, and NVIDIA's";
        assert!(finding.says.contains(why), "{}", finding.says);
        let saw: Vec<_> = finding.evidence.iter().map(|e| e.saw.as_str()).collect();
        assert_eq!(
            saw[..2],
            [
                "no GPUDirect RDMA of GPU0",
                "the CUDA driver does not export a dma-buf of GPU0"
            ]
        );
        assert_eq!(finding.evidence[0].from, "node017: cuDeviceGetAttribute");
        assert!(
            finding.remedy.starts_with("No module brings"),
            "{}",
            finding.remedy
        );
    }

    #[test]
    fn dma_buf_alone_is_enough() {
        let mut facts = without_gpudirect();
        facts.gpu.nvidia = facts.gpu.nvidia.map(|driver| NvidiaDriver {
            open: true,
            ..driver
        });
        assert_eq!(off(&facts), None);
    }

    #[test]
    fn a_stand_in_without_a_driver_beside_software_rdma_is_named_too() {
        let mut facts = without_gpudirect();
        facts.host.modules = Fact::known(vec![], "/sys/module");
        facts.gpu.nvidia = Fact::unknown("/proc/driver/nvidia/version does not exist");
        if let Fact::Known { value, .. } = &mut facts.rdma {
            for nic in value {
                nic.software = Some(SoftwareRdma::Rxe);
                nic.dmabuf = Fact::known(false, "ibv_reg_dmabuf_mr");
            }
        }
        let finding = off(&facts).unwrap();
        assert!(
            finding
                .says
                .contains("NVIDIA's kernel driver is not loaded")
        );
        assert!(finding.remedy.starts_with("Load NVIDIA's driver first."));
    }

    #[test]
    fn who_has_no_gpu_or_no_nic_is_not_judged() {
        let none = facts(vec![]);
        assert_eq!(inspect(&NodeName::from("n"), &none).cannot_tell, []);
        let mut no_nic = without_gpudirect();
        no_nic.rdma = Fact::known(vec![], "/sys/class/infiniband");
        assert!(off(&no_nic).is_none());
        assert!(all(&no_nic).cannot_tell.is_empty());
    }

    #[test]
    fn consumer_boards_and_shared_memory_are_not_meant() {
        for device in [0x2204, 0x2e12] {
            let mut facts = without_gpudirect();
            if let Fact::Known { value, .. } = &mut facts.pcie {
                let gpus = value.functions.iter_mut();
                for gpu in gpus.filter(|f| f.memory_window.is_some()) {
                    gpu.device = Fact::known(device, "device");
                }
            }
            assert!(off(&facts).is_none(), "{device:04x}");
        }
    }

    #[test]
    fn what_was_not_asked_cannot_be_told_once() {
        let mut facts = without_gpudirect();
        facts.gpudirect.peer_clients = Fact::unknown("not the live system");
        let said = all(&facts);
        let rules: Vec<_> = said.cannot_tell.iter().map(|c| c.rule).collect();
        assert_eq!(rules, [Rule::GpuDirectOff]);
        assert!(off(&facts).is_none());
    }

    #[test]
    fn in_a_run_every_rail_counts() {
        use crate::ledger::testing::{events, ledger};
        let mut events = events(3, 2, &|_, _, _| Some(391.0));
        for event in &mut events {
            if let Event::NodeSurveyed { node, facts } = event {
                let gpus = without_gpudirect();
                (facts.pcie, facts.host, facts.gpudirect) = (gpus.pcie, gpus.host, gpus.gpudirect);
                facts.gpu.nvidia = gpus.gpu.nvidia.map(|driver| NvidiaDriver {
                    open: true,
                    ..driver
                });
                if let (Fact::Known { value, .. }, "node02") = (&mut facts.rdma, node.0.as_str()) {
                    value[1].dmabuf = Fact::known(false, "ibv_reg_dmabuf_mr");
                }
            }
        }
        let mut found = judge(&ledger(&events)).findings;
        found.retain(|finding| finding.rule == Rule::GpuDirectOff);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(
            found[0].says,
            "GPUDirect RDMA is partly off on node02: data between GPU0, GPU1, GPU2 and mlx5_1 is copied through \
             host memory, as nvidia_peermem is not loaded, and the driver of the NIC takes no dma-buf."
        );
    }

    #[test]
    fn a_nic_for_something_else_is_no_reason_for_alarm() {
        let mut facts = without_gpudirect();
        facts.gpu.nvidia = facts.gpu.nvidia.map(|driver| NvidiaDriver {
            open: true,
            ..driver
        });
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value[4].dmabuf = Fact::known(false, "ibv_reg_dmabuf_mr");
        }
        assert!(off(&facts).is_none());
    }
}
