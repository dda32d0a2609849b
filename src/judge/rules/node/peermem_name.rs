//! A peer memory module that is there under a name which older NCCL does not look for.

use super::Said;
use crate::judge::rules::{About, plain};
use crate::judge::{GpuPair, GpuWay, NodeView};
use crate::model::{Evidence, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::PeermemName,
    means: "The peer memory module is loaded, but not under the name that older NCCL looks for: up to 2.22.3 it \
            wants a client nv_mem of ib_core, and only from 2.23.4 on it also takes the module \
            nvidia_peermem for one. An older NCCL goes through host memory without a word.",
    detected: "/sys/kernel/mm/memory_peers has no nv_mem, while nv_mem_nc, nvidia-peermem or \
               /sys/module/nvidia_peermem is there. Nothing is said where the NICs also take a dma-buf, which \
               NCCL tries first, nor where no peer memory is there at all (gpudirect-off).",
    remedy: REMEDY,
};

const REMEDY: &str = "Use NCCL 2.23.4 or newer, or NVIDIA's open kernel modules with dma-buf. Whether GPUDirect \
                      is in use shows in NCCL's \"via NET/IB/…/GDRDMA\" lines (NCCL_DEBUG=INFO).";

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let counts = |pair: &GpuPair<'_>| node.nics.iter().any(|nic| nic.id.device == pair.nic.name);
    let pairs = node.gpu_pairs().iter();
    let name = pairs.filter(|pair| counts(pair)).find_map(|pair| {
        let name = match &pair.way {
            Ok(GpuWay::Peermem(name)) if !pair.has_dmabuf => name,
            _ => return None,
        };
        // The first that is found: where nv_mem is, it comes before the others.
        ["nv_mem_nc", "nvidia-peermem", "nvidia_peermem"]
            .contains(&name.as_str())
            .then_some(name)
    });
    let Some(name) = name else {
        return;
    };
    let clients = &node.facts.gpudirect.peer_clients;
    said.findings.push(plain(
        Rule::PeermemName,
        Severity::Note,
        node.subject(),
        format!(
            "{} has peer memory for its GPUs only as {name}, which NCCL before 2.23.4 may not look for.",
            node.name
        ),
        vec![Evidence {
            saw: format!("{name}, and no client nv_mem"),
            from: format!("{}: {}", node.name, clients.source().unwrap_or("/sys/module")),
        }],
        REMEDY,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::rules::node::testing::{module, only, without_gpudirect};
    use crate::model::{Fact, NodeFacts, NvidiaDriver, PeerClient};

    fn node(clients: &[&str]) -> NodeFacts {
        let mut facts = without_gpudirect();
        facts.host.modules = Fact::known(vec![module("nvidia_peermem")], "/sys/module");
        let client = |name: &&str| PeerClient {
            name: (*name).into(),
            version: Fact::unknown("none"),
        };
        let clients = clients.iter().map(client).collect();
        facts.gpudirect.peer_clients = Fact::known(clients, "/sys/kernel/mm/memory_peers");
        facts
    }

    #[test]
    fn a_name_that_older_nccl_does_not_know_is_worth_a_note() {
        let said = |clients: &[&str]| only(&node(clients), Rule::PeermemName);
        assert_eq!(said(&[]).unwrap().severity, Severity::Note);
        assert!(said(&["nv_mem_nc"]).unwrap().says.contains("nv_mem_nc"));
        assert!(said(&["nv_mem"]).is_none());
        assert!(said(&["nv_mem", "nv_mem_nc"]).is_none());
    }

    #[test]
    fn where_dma_buf_works_no_name_matters() {
        let mut facts = node(&[]);
        facts.gpu.nvidia = facts.gpu.nvidia.map(|driver| NvidiaDriver {
            open: true,
            ..driver
        });
        assert!(only(&facts, Rule::PeermemName).is_none());
        assert!(only(&without_gpudirect(), Rule::PeermemName).is_none());
    }
}
