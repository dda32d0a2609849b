//! A peer memory module that the kernel refused, because it was built against another ib_core.

use super::Said;
use crate::judge::rules::{About, plain};
use crate::judge::{GpuWay, NodeView};
use crate::model::{Evidence, KernelLogKind, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::PeermemSymbol,
    means: "The kernel refused to load the peer memory module: it was built against another ib_core than the one \
            that is loaded, as after an installation of OFED without a new build of NVIDIA's driver, or the other \
            way round. modprobe nvidia-peermem says \"Invalid argument\", and GPUDirect RDMA is off.",
    detected: "The kernel's log (/dev/kmsg) has \"disagrees about version of symbol \
               ib_register_peer_memory_client\" or \"Unknown symbol\", and no peer memory client is there since. \
               A fault where dma-buf is no way either, else a note. Nothing is said where the log may not be read \
               or no longer reaches back: gpudirect-off holds without it.",
    remedy: REMEDY,
};

const REMEDY: &str = "Install NVIDIA's driver again after OFED, so that nvidia-peermem is built against its ib_core \
                      (Module.symvers of /usr/src/ofa_kernel), then modprobe nvidia-peermem.";

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let mut refused = node.facts.host.logged(KernelLogKind::PeerSymbolMismatch);
    let Some(line) = refused.next() else {
        return;
    };
    let pairs = node.gpu_pairs();
    let by_peermem = |way: &Result<GpuWay, String>| matches!(way, Ok(GpuWay::Peermem(_)));
    if node.nics.is_empty() || pairs.is_empty() || pairs.iter().any(|p| by_peermem(&p.way)) {
        return;
    }
    let severity = match pairs.iter().any(|pair| pair.has_dmabuf) {
        true => Severity::Note,
        false => Severity::Fault,
    };
    said.findings.push(plain(
        Rule::PeermemSymbol,
        severity,
        node.subject(),
        format!(
            "{} could not load the peer memory module for its GPUs: it was built against another ib_core than the \
             one that is loaded.",
            node.name
        ),
        vec![Evidence {
            saw: line.text.clone(),
            from: format!(
                "{}: {}",
                node.name,
                node.facts.host.kernel_log.source().unwrap_or_default()
            ),
        }],
        REMEDY,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::rules::node::testing::{module, only, without_gpudirect};
    use crate::model::{Fact, KernelLogLine, NodeFacts, NvidiaDriver};

    fn refused() -> NodeFacts {
        let mut facts = without_gpudirect();
        let line = KernelLogLine {
            kind: KernelLogKind::PeerSymbolMismatch,
            text:
                "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client"
                    .into(),
        };
        facts.host.kernel_log = Fact::known(vec![line], "/dev/kmsg");
        facts
    }

    fn severity(facts: &NodeFacts) -> Option<Severity> {
        only(facts, Rule::PeermemSymbol).map(|finding| finding.severity)
    }

    #[test]
    fn a_refused_module_is_a_fault_unless_something_else_works() {
        let mut facts = refused();
        assert_eq!(severity(&facts), Some(Severity::Fault));
        facts.gpu.nvidia = facts.gpu.nvidia.map(|driver| NvidiaDriver {
            open: true,
            ..driver
        });
        assert_eq!(severity(&facts), Some(Severity::Note));
        // Loaded since.
        facts.host.modules = Fact::known(vec![module("nvidia_peermem")], "/sys/module");
        assert_eq!(severity(&facts), None);
    }

    #[test]
    fn without_the_line_or_the_nics_nothing_is_said() {
        assert_eq!(severity(&without_gpudirect()), None);
        let mut facts = refused();
        facts.rdma = Fact::known(vec![], "/sys/class/infiniband");
        assert_eq!(severity(&facts), None);
    }
}
