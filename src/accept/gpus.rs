//! GPUs: how many, how near to their NICs, and whether NICs reach their memory.

use std::collections::BTreeMap;

use super::run::Run;
use super::told::{Is, Told, Who, listed};
use crate::config::{Bounds, GpuDirectWay, NumaDemand, Select};
use crate::judge::{GpuPair, GpuWay, NicView, NodeView};
use crate::model::{Fact, PciAddress, PciFunction, PcieTree};
use crate::topology::{PathClass, path_class};

/// Why nothing can be said of GPUs.
const NO_GPU: &str = "the node shows no GPU";

fn tree<'a>(view: &NodeView<'a>) -> Result<&'a PcieTree, String> {
    let why = view.facts.pcie.why_unknown();
    let why = why.unwrap_or("the PCIe tree is larger than that of any machine");
    view.pcie().ok_or_else(|| why.to_owned())
}

pub(super) fn count(run: &Run<'_>, select: &Select, bounds: &Bounds<u64>) -> Vec<Told> {
    run.each_node(select, |view| {
        let who = Who::node(view.name);
        let tree = match tree(view) {
            Ok(tree) => tree,
            Err(why) => return Told::unknown(who, why),
        };
        let count = tree.gpus().count() as u64;
        let mut told = Told::seen(who, bounds.holds(&count), format!("{count} GPUs"));
        let too_many = bounds.most.is_some_and(|most| count > most);
        // What could not be read may be a GPU, too.
        let enough = bounds.most.is_none() && told.holds();
        if let Some(why) = tree.unread.first().filter(|_| !too_many && !enough) {
            told.is = Is::Unknown(format!(
                "{count} GPUs, and a function could not be read: {why}"
            ));
        }
        told.from("/sys/bus/pci/devices")
    })
}

/// The nearest of some functions, with its class; how many classes are unknown, with a reason.
struct Nearest<'a> {
    best: Option<(PathClass, &'a PciFunction)>,
    unknown: Option<String>,
}

fn nearest<'a>(
    tree: &'a PcieTree,
    from: &PciAddress,
    to: impl Iterator<Item = &'a PciFunction>,
) -> Nearest<'a> {
    let mut found = Nearest {
        best: None,
        unknown: None,
    };
    for function in to {
        match path_class(tree, from, &function.address) {
            Ok(class) if found.best.is_none_or(|(best, _)| class < best) => {
                found.best = Some((class, function))
            }
            Ok(_) => {}
            Err(why) => found.unknown = Some(why),
        }
    }
    found
}

impl Nearest<'_> {
    /// Whether it is near enough: one that is unknown may be nearer.
    fn told(self, who: Who, most: PathClass) -> Told {
        match (self.best, self.unknown) {
            (Some((class, to)), _) if class <= most => {
                Told::seen(who, true, format!("{class} to {}", to.address))
            }
            (_, Some(why)) => Told::unknown(who, why),
            (Some((class, to)), None) => {
                let saw = format!("{class} to {}", to.address);
                Told::seen(who, false, saw)
                    .from(format!("/sys/bus/pci/devices: {}", class.meaning()))
            }
            (None, None) => Told::unknown(who, NO_GPU),
        }
    }
}

/// Each NIC has a GPU that is near enough, and each GPU a NIC.
pub(super) fn path(run: &Run<'_>, select: &Select, most: PathClass) -> Vec<Told> {
    let mut told = run.each_nic(select, |view, nic, who| {
        let looked = tree(view).and_then(|tree| Ok((tree, address(nic)?)));
        vec![match looked {
            Ok((tree, address)) => nearest(tree, address, tree.gpus()).told(who, most),
            Err(why) => Told::unknown(who, why),
        }]
    });
    for node in run.nodes(select) {
        let Some(view) = run.view(node) else { continue };
        let Ok(tree) = tree(view) else { continue };
        // NICs of the rails that are not asked about are some GPU's own, too.
        let nics = || view.nics.iter().filter_map(|nic| tree.function(nic.pci()?));
        for (number, gpu) in tree.gpus().enumerate().filter(|_| select.rails.is_empty()) {
            let mut who = Who::node(node);
            who.words = format!("GPU{number} of {node}");
            let unplaced = view.nics.iter().any(|nic| nic.pci().is_none());
            let mut near = nearest(tree, &gpu.address, nics());
            if unplaced && near.unknown.is_none() {
                near.unknown = Some("the function of a NIC is unknown".to_owned());
            }
            told.push(near.told(who, most));
        }
    }
    told
}

fn address<'a>(nic: &NicView<'a>) -> Result<&'a PciAddress, String> {
    match &nic.device.pci {
        Fact::Known { value, .. } => Ok(value),
        Fact::Unknown { why } => Err(why.to_string()),
    }
}

pub(super) fn numa(run: &Run<'_>, select: &Select, demand: NumaDemand) -> Vec<Told> {
    run.each_nic(select, |view, nic, who| {
        let holds = match demand {
            NumaDemand::Is(number) => Ok((number, String::new())),
            NumaDemand::AsGpu => of_gpu(view, nic),
        };
        vec![match holds {
            Ok((number, of)) => {
                let told = Told::fact(
                    who,
                    &nic.device.numa_node,
                    |seen| *seen == number,
                    |seen| format!("NUMA node {seen}{of}"),
                );
                told.expected(format!("NUMA node {number}{of}"))
            }
            Err(why) => Told::unknown(who, why),
        }]
    })
}

/// The NUMA node of the nearest GPU.
fn of_gpu(view: &NodeView<'_>, nic: &NicView<'_>) -> Result<(u32, String), String> {
    let tree = tree(view)?;
    let near = nearest(tree, address(nic)?, tree.gpus());
    let Some((_, gpu)) = near.best else {
        return Err(near.unknown.unwrap_or_else(|| NO_GPU.to_owned()));
    };
    match &gpu.numa_node {
        Fact::Known { value, .. } => Ok((*value, format!(", as {} is", gpu.address))),
        Fact::Unknown { why } => Err(format!(
            "the NUMA node of {} is unknown: {why}",
            gpu.address
        )),
    }
}

/// Each NIC reaches the memory of every GPU of its node by one of these ways.
pub(super) fn direct(run: &Run<'_>, select: &Select, ways: &[GpuDirectWay]) -> Vec<Told> {
    run.each_nic(select, |view, nic, who| {
        if let Err(why) = tree(view) {
            return vec![Told::unknown(who, why)];
        }
        let mine = view
            .gpu_pairs()
            .iter()
            .filter(|pair| pair.nic.name == nic.device.name);
        vec![direct_of(mine, ways, who)]
    })
}

fn direct_of<'p>(
    pairs: impl Iterator<Item = &'p GpuPair<'p>>,
    ways: &[GpuDirectWay],
    who: Who,
) -> Told {
    let (mut good, mut bad, mut unknown) = (BTreeMap::new(), BTreeMap::new(), None);
    for pair in pairs {
        let way = match &pair.way {
            Ok(way) => way,
            Err(why) => {
                unknown = Some(format!("{}: {why}", pair.gpu_name));
                continue;
            }
        };
        let wants = |wanted| ways.contains(&wanted);
        let holds = match way {
            GpuWay::Peermem(_) => {
                wants(GpuDirectWay::Peermem) || (pair.has_dmabuf && wants(GpuDirectWay::Dmabuf))
            }
            GpuWay::Dmabuf => wants(GpuDirectWay::Dmabuf),
            GpuWay::None { .. } => false,
        };
        let of_kind = if holds { &mut good } else { &mut bad };
        of_kind
            .entry(way.to_string())
            .or_insert_with(Vec::new)
            .push(pair.gpu_name.clone());
    }
    // GPUs of one node mostly go one way: that is said once.
    let said = |ways: BTreeMap<String, Vec<String>>| {
        let ways = ways
            .into_iter()
            .map(|(way, gpus)| format!("{} by {way}", listed(gpus)));
        ways.collect::<Vec<_>>().join("; ")
    };
    if !bad.is_empty() {
        let saw = said(bad);
        return Told::seen(who, false, saw)
            .from("kernel modules, peer memory clients, ibv_reg_dmabuf_mr");
    }
    match (unknown, good.is_empty()) {
        (Some(why), _) => Told::unknown(who, why),
        (None, true) => Told::unknown(who, "the node shows no GPU that GPUDirect RDMA is for"),
        (None, false) => Told::seen(who, true, said(good)),
    }
}
