//! The nodes of a log in a survey: where a rank's GPU and NIC sit, and which NIC it should use.

use std::collections::BTreeMap;

use crate::judge::gpudirect::{GpuWay, way};
use crate::ledger::Ledger;
use crate::model::{NodeFacts, NodeName, PciAddress, PciFunction, PcieTree, RdmaDevice};
use crate::nccl::{NcclLog, Rank, Use, pci_address};
use crate::topology::{PathClass, path_class};

/// More NICs than sit in a node: a node may send any number.
const MAX_NICS: usize = 256;

/// What a run surveyed, by the names that hosts call themselves.
#[derive(Debug)]
pub struct NcclSurvey<'a> {
    /// `None` where two nodes have one name.
    hosts: BTreeMap<String, Option<Surveyed<'a>>>,
}

/// A node and its facts.
type Surveyed<'a> = (&'a NodeName, &'a NodeFacts);

/// What the survey says of a GPU and the NIC that it uses.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Beside {
    /// A sentence.
    pub says: String,
    /// The same of all GPUs that have it so.
    pub kind: String,
    /// What to do.
    pub remedy: String,
    /// Whether another NIC is nearer.
    pub is_far: bool,
}

/// As NCCL cuts it: up to the first dot.
fn short(name: &str) -> String {
    let name = name.split('.').next().unwrap_or(name);
    name.to_ascii_lowercase()
}

impl<'a> NcclSurvey<'a> {
    /// Of the nodes that were surveyed.
    pub fn of(ledger: &'a Ledger) -> Self {
        let nodes = ledger.nodes();
        Self::of_nodes(nodes.filter_map(|(name, node)| Some((name, node.facts.as_ref()?))))
    }

    /// Of one node.
    pub(super) fn of_node(name: &'a NodeName, facts: &'a NodeFacts) -> Self {
        Self::of_nodes([(name, facts)].into_iter())
    }

    fn of_nodes(nodes: impl Iterator<Item = Surveyed<'a>>) -> Self {
        let mut hosts: BTreeMap<String, Option<Surveyed<'a>>> = BTreeMap::new();
        for (name, facts) in nodes {
            let own = facts.hostname.value().map(|own| short(own));
            let given = short(&name.0);
            let second = own.filter(|own| *own != given);
            for host in [Some(given), second].into_iter().flatten() {
                hosts
                    .entry(host)
                    .and_modify(|known| *known = None)
                    .or_insert(Some((name, facts)));
            }
        }
        Self { hosts }
    }

    /// Whether a node of this name was surveyed.
    pub fn knows(&self, host: &str) -> bool {
        self.facts(host).is_some()
    }

    /// The node that calls itself so.
    pub(super) fn name(&self, host: &str) -> Option<&'a NodeName> {
        Some(self.surveyed(host)?.0)
    }

    fn facts(&self, host: &str) -> Option<&'a NodeFacts> {
        Some(self.surveyed(host)?.1)
    }

    fn surveyed(&self, host: &str) -> Option<Surveyed<'a>> {
        *self.hosts.get(&short(host))?
    }

    /// What it says of a rank's GPU and the device it uses; `None` where it says nothing that explains.
    pub(super) fn beside(&self, log: &NcclLog, rank: &Rank, used: &Use) -> Option<Beside> {
        let process = log.processes.get(rank.process)?;
        let facts = self.facts(process.host.as_deref()?)?;
        let tree = facts.pcie.value()?;
        let address = PciAddress(pci_address(rank.bus?));
        let (index, gpu) = tree
            .gpus()
            .enumerate()
            .find(|(_, gpu)| gpu.address == address)?;
        let rdma = facts.rdma.value()?;
        // A device of several is as far as the first of them that is known.
        let name = process.device(used).filter(|_| !used.sockets)?;
        let nic = name.split('+').find_map(|name| named(rdma, name))?;
        let pair = Pair {
            facts,
            tree,
            gpu,
            gpu_name: format!("GPU{index}"),
            nic,
        };
        pair.far(rdma).or_else(|| pair.no_way())
    }
}

fn named<'a>(rdma: &'a [RdmaDevice], name: &str) -> Option<&'a RdmaDevice> {
    let is_it = |device: &&RdmaDevice| {
        let address = device.pci.value();
        device.name == name || address.is_some_and(|address| address.0 == name)
    };
    rdma.iter().take(MAX_NICS).find(is_it)
}

/// A GPU and the NIC it uses.
struct Pair<'a> {
    facts: &'a NodeFacts,
    tree: &'a PcieTree,
    gpu: &'a PciFunction,
    gpu_name: String,
    nic: &'a RdmaDevice,
}

impl Pair<'_> {
    fn class(&self, nic: &RdmaDevice) -> Option<PathClass> {
        path_class(self.tree, &self.gpu.address, nic.pci.value()?).ok()
    }

    /// They are far from each other, so that NCCL does not use GPUDirect RDMA unless it is told to
    /// (PXB is its default level).
    fn far(&self, rdma: &[RdmaDevice]) -> Option<Beside> {
        let class = self
            .class(self.nic)
            .filter(|class| *class > PathClass::Pxb)?;
        let others = rdma.iter().take(MAX_NICS);
        let classes = others.filter_map(|nic| Some((self.class(nic)?, nic.name.as_str())));
        let mut nearer: Vec<_> = classes.filter(|(other, _)| *other < class).collect();
        nearer.sort_unstable();
        let nearest = nearer.first().map(|(nearest, _)| *nearest);
        let affine: Vec<_> = nearer
            .iter()
            .take_while(|(class, _)| Some(*class) == nearest)
            .map(|(_, name)| *name)
            .take(4)
            .collect();
        let between = match class {
            PathClass::Sys => "are on different sockets".to_owned(),
            class => format!("have {} between them", class.meaning()),
        };
        let better = match (&affine[..], nearest) {
            ([], _) | (_, None) => "no NIC of the node is nearer".to_owned(),
            ([one], Some(at)) => format!("its affine NIC is {one} ({at})"),
            (several, Some(at)) => format!("its affine NICs are {} ({at})", several.join(", ")),
        };
        let (gpu, nic) = (&self.gpu_name, &self.nic.name);
        Some(Beside {
            says: format!("The survey: {gpu} and {nic} {between} ({class}); {better}."),
            kind: format!("GPU and NIC {between}"),
            remedy: match nearest {
                Some(_) => "Let the GPU use its affine NIC: give the job all NICs of the node (NCCL_IB_HCA, \
                            the devices of the container) and NCCL the real topology."
                    .to_owned(),
                None => "A NIC below the GPU's own PCIe switch is missing; NCCL_NET_GDR_LEVEL=SYS lets NCCL \
                         try all distances: compare the bandwidth."
                    .to_owned(),
            },
            is_far: nearest.is_some(),
        })
    }

    /// They are near, but neither peer memory nor dma-buf joins them.
    fn no_way(&self) -> Option<Beside> {
        let Ok(GpuWay::None { peermem, dmabuf }) = way(self.facts, self.gpu, self.nic) else {
            return None;
        };
        let (gpu, nic) = (&self.gpu_name, &self.nic.name);
        Some(Beside {
            says: format!("The survey: {nic} has no way to the memory of {gpu}: {peermem}; {dmabuf}."),
            kind: format!("{peermem}; {dmabuf}"),
            remedy: "Load nvidia_peermem, or use the open kernel modules of NVIDIA's driver with Linux 5.12 \
                     or newer: see linerate explain gpudirect-off."
                .to_owned(),
            is_far: false,
        })
    }
}
