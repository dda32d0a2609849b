//! No contiguous memory for a GPU that shares the host's: registering memory fails with ENOMEM.

use super::Said;
use crate::judge::rules::{About, plain};
use crate::judge::{GpuKind, NodeView, gpu_kind};
use crate::model::{Bytes, Evidence, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::CmaZero,
    means: "The kernel has no area for contiguous allocations (CMA), which the driver of a GPU that shares the host's \
            memory (GB10, DGX Spark) pins from. Registering its memory fails with \"Cannot allocate memory\" though \
            memory is free and the limit on locked memory is none.",
    detected: "CmaTotal of /proc/meminfo is 0 kB, the node has a GPU that shares the host's memory, and fabric NICs. A \
               warning: host memory registers. Nothing is said where /proc/meminfo has no such line.",
    remedy: REMEDY,
};

const REMEDY: &str = "Use a kernel that is built with CMA, such as NVIDIA's for DGX OS, or reserve an area with \
                      the kernel's argument cma=.";

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let cma = &node.facts.host.cma_total;
    let shares = |gpu| gpu_kind(gpu) == GpuKind::Integrated;
    let has_one = node.pcie().is_some_and(|tree| tree.gpus().any(shares));
    if !has_one || node.nics.is_empty() || cma.value() != Some(&Bytes(0)) {
        return;
    }
    said.findings.push(plain(
        Rule::CmaZero,
        Severity::Warning,
        node.subject(),
        format!(
            "{} has no contiguous memory (CMA) for its GPU: registering GPU memory may fail with \"Cannot allocate \
             memory\".",
            node.name
        ),
        vec![Evidence {
            saw: "CmaTotal: 0 kB".to_owned(),
            from: format!("{}: {}", node.name, cma.source().unwrap_or_default()),
        }],
        REMEDY,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::rules::node::testing::only;
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{Fact, NodeFacts};

    fn node(device: u16, cma: Fact<Bytes>) -> NodeFacts {
        let mut facts = TwoSockets::facts();
        if let Fact::Known { value, .. } = &mut facts.pcie {
            let gpus = value.functions.iter_mut();
            gpus.filter(|f| f.memory_window.is_some())
                .for_each(|gpu| gpu.device = Fact::known(device, "device"));
        }
        facts.host.cma_total = cma;
        facts
    }

    #[test]
    fn only_gpus_that_share_the_hosts_memory_need_it() {
        let of = |device, cma| only(&node(device, cma), Rule::CmaZero).is_some();
        let bytes = |bytes| Fact::known(Bytes(bytes), "/proc/meminfo");
        assert!(of(0x2e12, bytes(0)));
        assert!(!of(0x2e12, bytes(64 << 20)));
        assert!(!of(0x2330, bytes(0)));
        assert!(!of(0x2e12, Fact::unknown("it has no such line")));
    }
}
