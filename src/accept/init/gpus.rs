//! What a profile says of GPUs.

use std::collections::BTreeSet;

use super::{Proposed, check, counted, known, listed, quoted};
use crate::judge::{GpuWay, NicView, NodeView};
use crate::topology::{PathClass, path_class};

pub(super) fn of_gpus(
    views: &[&NodeView<'_>],
    nics: &[(&NodeView<'_>, &NicView<'_>)],
    all: &mut Vec<Proposed>,
) {
    let counts: Option<Vec<u64>> = views
        .iter()
        .map(|view| Some(view.pcie()?.gpus().count() as u64))
        .collect();
    let Some(counts) = counts.filter(|counts| counts.iter().any(|count| *count > 0)) else {
        return;
    };
    counted("gpus", "gpus", &counts, all);
    let nvml = known(views.iter().map(|view| &view.facts.gpu.nvml));
    let names = nvml.and_then(|nvml| {
        known(
            nvml.into_iter()
                .flat_map(|nvml| nvml.gpus.iter().map(|gpu| &gpu.name)),
        )
    });
    listed("gpu-model", "gpu-model", names, all);
    if let Some(drivers) = known(views.iter().map(|view| &view.facts.gpu.nvidia)) {
        let versions = drivers.into_iter().map(|driver| &driver.version).collect();
        listed("gpu-driver", "gpu-driver", Some(versions), all);
    }
    if let Some(class) = farthest(views, nics) {
        let saw = format!("{class} or nearer");
        all.push(check(
            "gpu-path",
            "gpu-path",
            format!("at_most = \"{class}\""),
            saw,
        ));
    }
    let pairs = views.iter().flat_map(|view| view.gpu_pairs());
    let ways: Option<BTreeSet<String>> = pairs
        .map(|pair| match pair.way.as_ref().ok()? {
            GpuWay::Peermem(_) => Some("peermem".to_owned()),
            GpuWay::Dmabuf => Some("dma-buf".to_owned()),
            GpuWay::None { .. } => None,
        })
        .collect();
    if let Some(ways) = ways.filter(|ways| !ways.is_empty()) {
        let saw = ways.iter().cloned().collect::<Vec<_>>().join(", ");
        all.push(check(
            "gpudirect",
            "gpudirect",
            format!("one_of = {}", quoted(&ways)),
            saw,
        ));
    }
}

/// The farthest that a NIC is from its nearest GPU, or a GPU from its nearest NIC.
fn farthest(views: &[&NodeView<'_>], nics: &[(&NodeView<'_>, &NicView<'_>)]) -> Option<PathClass> {
    let of_nics = nics.iter().map(|(view, nic)| {
        let (tree, address) = (view.pcie()?, nic.pci()?);
        tree.gpus()
            .filter_map(|gpu| path_class(tree, address, &gpu.address).ok())
            .min()
    });
    let of_gpus = views.iter().flat_map(|view| {
        let gpus = view
            .pcie()
            .into_iter()
            .flat_map(|tree| tree.gpus().map(move |gpu| (tree, gpu)));
        gpus.map(|(tree, gpu)| {
            let nics = view.nics.iter().filter_map(NicView::pci);
            nics.filter_map(|nic| path_class(tree, &gpu.address, nic).ok())
                .min()
        })
    });
    of_nics
        .chain(of_gpus)
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .max()
}
