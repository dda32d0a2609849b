//! A node as the rules see it that need no traffic: its facts, and the NICs that count.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::expected::line_rate_of;
use super::gpudirect::{GpuPair, gpu_pairs};
use super::links::{Above, Links};
use crate::ledger::{Ledger, PortBrief};
use crate::model::{
    Direction, Fact, Gbps, LinkLayer, NicId, NodeFacts, NodeName, NodeType, PciAddress, PcieTree,
    Port, PortState, Rail, RdmaDevice, SoftwareRdma, Subject,
};

/// One node.
pub struct NodeView<'a> {
    /// Its name in the run.
    pub name: &'a NodeName,
    /// What its survey found.
    pub facts: &'a NodeFacts,
    /// The NICs that play a rail; without a run, those whose port is active.
    pub nics: Vec<NicView<'a>>,
    tree: Option<&'a PcieTree>,
    links: Rc<Links<'a>>,
    gpu_pairs: OnceCell<Vec<GpuPair<'a>>>,
}

/// One port of one of its NICs.
pub struct NicView<'a> {
    /// Which.
    pub id: NicId,
    /// The rail it plays; `None` where there is no run.
    pub rail: Option<Rail>,
    /// Its device.
    pub device: &'a RdmaDevice,
    /// Its port.
    pub port: &'a Port,
    /// What its link carries.
    pub line: Fact<Gbps>,
}

impl<'a> NodeView<'a> {
    /// The surveyed nodes of a run, in the order of their names.
    pub fn of_run(ledger: &'a Ledger) -> Vec<Self> {
        let stated = ledger.settings().and_then(|s| s.expect.line_rate);
        let mut rails: HashMap<&NodeName, Vec<(Rail, &NicId)>> = HashMap::new();
        for (rail, nic, _) in ledger.players() {
            rails.entry(&nic.node).or_default().push((rail, nic));
        }
        let nics = |name: &NodeName, facts: &'a NodeFacts| {
            let mine = rails.get(name).into_iter().flatten();
            mine.filter_map(|(rail, nic)| NicView::new((*nic).clone(), Some(*rail), facts, stated))
                .collect()
        };
        let links = Rc::default();
        let view = |(name, node): (&'a NodeName, &'a crate::ledger::Node)| {
            let facts = node.facts.as_ref()?;
            let nics = nics(name, facts);
            Some(Self {
                name,
                facts,
                nics,
                tree: tree(facts),
                links: Rc::clone(&links),
                gpu_pairs: OnceCell::new(),
            })
        };
        ledger.nodes().filter_map(view).collect()
    }

    /// A node by itself, every active port of it a NIC that counts.
    pub fn alone(name: &'a NodeName, facts: &'a NodeFacts) -> Self {
        let devices = facts.rdma.value().map_or(&[][..], Vec::as_slice);
        let active = |port: &&Port| {
            let state = port.state.value();
            state.is_some_and(|s| matches!(s, PortState::Active | PortState::ActiveDefer))
        };
        let ports = devices.iter().flat_map(|device| {
            let id = |port: &Port| NicId {
                node: name.clone(),
                device: device.name.as_str().into(),
                port: port.number,
            };
            device.ports.iter().filter(active).map(id)
        });
        let nics = ports.filter_map(|id| NicView::new(id, None, facts, None));
        Self {
            name,
            facts,
            nics: nics.collect(),
            tree: tree(facts),
            links: Rc::default(),
            gpu_pairs: OnceCell::new(),
        }
    }

    /// Its GPUs and RDMA devices by twos, looked at once for all rules.
    pub fn gpu_pairs(&self) -> &[GpuPair<'a>] {
        self.gpu_pairs.get_or_init(|| gpu_pairs(self.facts))
    }

    /// Its PCIe tree, where it was read and is not larger than that of any machine: what a node
    /// sends must not keep the judge busy.
    pub fn pcie(&self) -> Option<&'a PcieTree> {
        self.tree
    }

    /// The PCIe links above a device of it; `None` where its function or the tree is unknown.
    pub(super) fn above(&self, device: &'a RdmaDevice) -> Option<Rc<Above>> {
        self.links.above(self.facts.pcie.value()?, device)
    }

    /// The node as a whole.
    pub fn subject(&self) -> Subject {
        Subject::Node(self.name.clone())
    }

    /// A device of it that plays no rail, such as a GPU.
    pub fn device(&self, device: impl Into<String>) -> Subject {
        Subject::Device(self.name.clone(), device.into())
    }
}

fn tree(facts: &NodeFacts) -> Option<&PcieTree> {
    const MOST_FUNCTIONS: usize = 2048;
    const MOST_GPUS: usize = 64;
    let tree = facts.pcie.value()?;
    let can_be = tree.functions.len() <= MOST_FUNCTIONS && tree.gpus().count() <= MOST_GPUS;
    can_be.then_some(tree)
}

impl<'a> NicView<'a> {
    fn new(
        id: NicId,
        rail: Option<Rail>,
        facts: &'a NodeFacts,
        stated: Option<Gbps>,
    ) -> Option<Self> {
        let device = match rail {
            Some(rail) => facts.device(&id, rail)?,
            None => {
                let mut devices = facts.rdma.value()?.iter();
                devices.find(|device| device.name == id.device)?
            }
        };
        let port = device.ports.iter().find(|port| port.number == id.port)?;
        let line = line_rate_of(&id, &PortBrief::of(device, port), stated);
        Some(Self {
            id,
            rail,
            device,
            port,
            line,
        })
    }

    /// The function it sits on, where that is known.
    pub fn pci(&self) -> Option<&'a PciAddress> {
        self.device.pci.value()
    }

    /// Whether its port carries traffic, as far as is known.
    pub fn is_active(&self) -> bool {
        let state = self.port.state.value();
        state.is_none_or(|s| matches!(s, PortState::Active | PortState::ActiveDefer))
    }

    /// Whether it speaks RoCE: over Ethernet, and neither iWARP nor a maker's own protocol.
    pub fn is_roce(&self) -> bool {
        let kind = self.device.identity.node_type.value();
        self.port.link_layer.value() == Some(&LinkLayer::Ethernet)
            && self.device.software != Some(SoftwareRdma::Siw)
            && kind.is_none_or(|kind| *kind == NodeType::ChannelAdapter)
    }

    /// Whom a finding about it is about.
    pub fn subject(&self, direction: Option<Direction>) -> Subject {
        match self.rail {
            Some(rail) => Subject::Nic(self.id.clone(), rail, direction),
            None => Subject::Device(self.id.node.clone(), self.id.device.to_string()),
        }
    }

    /// `NIC mlx5_3 of node017 (rail 3)`, for the beginning of a sentence.
    pub fn in_words(&self) -> String {
        match self.rail {
            Some(rail) => format!("NIC {} ({rail})", self.id),
            None => format!("NIC {}", self.id),
        }
    }
}
