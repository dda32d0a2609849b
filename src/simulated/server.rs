//! What a survey of a simulated server finds: two sockets, eight GPUs, and for each rail a NIC of
//! InfiniBand.

use std::collections::HashMap;

use super::load::Nic;
use super::pcie;
use crate::config::{Fault, Generation, Scenario};
use crate::model::{
    Access, Bytes, Fact, FrequencyScaling, Gbps, Gid, GidEntry, GidType, GpuDirectFacts, GpuFacts,
    HostFacts, Identity, KernelModule, Lanes, LinkLayer, MemlockLimit, NodeFacts, NodeName,
    NodeType, NumaNode, NvidiaDriver, NvidiaGpu, Nvml, NvmlGpu, PciAddress, PciFunction, PcieTree,
    PeerClient, Port, PortState, RdmaDevice, Subnet, VerbsNode,
};

/// Where everything here is from, in the place of a file.
const SCENARIO: &str = "the scenario";

const DRIVER: &str = "570.133.20";

/// The highest address that a subnet gives to a port (InfiniBand Architecture Specification, unicast
/// local identifiers).
const MAX_LID: u32 = 0xbfff;

/// The servers of a scenario: one of each generation, of which the others are copies that differ in
/// their names and in what is wrong with them.
#[derive(Debug)]
pub(super) struct Servers {
    /// As many nodes and rails, without a fault.
    scenario: Scenario,
    models: HashMap<Generation, NodeFacts>,
    /// What the survey of a node shows of its faults.
    faults: HashMap<u16, Vec<Fault>>,
}

impl Servers {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let healthy = Scenario {
            faults: Vec::new(),
            ..scenario.clone()
        };
        let mut servers = Self {
            models: HashMap::new(),
            faults: HashMap::new(),
            scenario: healthy,
        };
        servers.model(scenario.generation);
        for fault in &scenario.faults {
            if let Fault::SlowLine { generation, .. } = fault {
                servers.model(*generation);
            }
            if let Some(node) = fault.node().and_then(|node| scenario.number(node)) {
                servers.faults.entry(node).or_default().push(fault.clone());
            }
        }
        servers
    }

    fn model(&mut self, generation: Generation) {
        let model = || model(&self.scenario, generation);
        self.models.entry(generation).or_insert_with(model);
    }

    /// The number of a node.
    pub(super) fn number(&self, node: &NodeName) -> Option<u16> {
        self.scenario.number(node)
    }

    /// What a survey of a node finds.
    pub(super) fn facts(&self, node: u16) -> NodeFacts {
        let model = self.models.get(&self.scenario.generation);
        let mut facts = model.cloned().unwrap_or_default();
        let faults = self.faults.get(&node).map_or(&[][..], Vec::as_slice);
        // Other ports come before what else is wrong with them.
        for fault in faults {
            self.replace(&mut facts, fault);
        }
        self.name(&mut facts, node);
        for fault in faults {
            plant(&mut facts, fault);
        }
        facts
    }

    /// Puts NICs of another generation in the place of a node's.
    fn replace(&self, facts: &mut NodeFacts, fault: &Fault) {
        let Fault::SlowLine {
            rail, generation, ..
        } = fault
        else {
            return;
        };
        let Some(other) = self.models.get(generation) else {
            return;
        };
        let Some(rail) = *rail else {
            *facts = other.clone();
            return;
        };
        if let (Fact::Known { value: mine, .. }, Some(theirs)) =
            (&mut facts.rdma, other.rdma.value())
            && let (Some(mine), Some(theirs)) = (
                mine.get_mut(usize::from(rail)),
                theirs.get(usize::from(rail)),
            )
        {
            *mine = theirs.clone();
        }
        let branch = pcie::branch(*generation, rail, self.scenario.rails);
        for function in functions(facts) {
            let other = branch.iter().find(|f| f.address == function.address);
            *function = other.cloned().unwrap_or_else(|| function.clone());
        }
    }

    /// What no other node has.
    fn name(&self, facts: &mut NodeFacts, node: u16) {
        let name = self.scenario.name(node);
        facts.hostname = known(name.to_string());
        for (rail, device) in (0..).zip(devices(facts)) {
            let nic = Nic { node, rail };
            device.identity.node_desc = known(format!("{name} {}", device.name));
            device.identity.node_guid = parsed(&guid(nic));
            device.identity.card = parsed(&guid(nic));
            for port in &mut device.ports {
                port.lid = known(self.lid(nic));
                port.gids = vec![entry(gid(nic))];
            }
        }
    }

    /// Where the ports of all rails are too many for one subnet, each rail is one.
    pub(super) fn lid(&self, nic: Nic) -> u16 {
        let (node, rail) = (u32::from(nic.node), u32::from(nic.rail));
        let one_subnet = u32::from(self.scenario.nodes) * 16 + 2 <= MAX_LID;
        let lid = if one_subnet { node * 16 + rail } else { node } + 2;
        u16::try_from(lid).unwrap_or(u16::MAX)
    }
}

/// A server without a name.
fn model(scenario: &Scenario, generation: Generation) -> NodeFacts {
    let tree = pcie::tree(generation, scenario.rails);
    let rails = 0..scenario.rails;
    let devices = rails.map(|rail| device(scenario, generation, rail));
    NodeFacts {
        kernel: known("6.8.0-60-generic".to_owned()),
        arch: known("x86_64".to_owned()),
        uptime_s: known(1_209_600),
        memlock: known(MemlockLimit::Unlimited),
        libibverbs: known("libibverbs.so.1".to_owned()),
        rdma: known(devices.collect()),
        numa: known(vec![numa(0, "0-55"), numa(1, "56-111")]),
        host: host(scenario),
        gpu: gpus(&tree),
        gpudirect: gpudirect(),
        pcie: known(tree),
        ..NodeFacts::default()
    }
}

/// What the survey shows of a fault.
fn plant(facts: &mut NodeFacts, fault: &Fault) {
    match fault {
        Fault::NarrowPcie { nic, width } => {
            if let Fact::Known { value, .. } = &mut facts.pcie {
                pcie::narrow(&mut value.functions, nic.rail, *width);
            }
        }
        Fault::SharedSwitch { rails, .. } => {
            if let Fact::Known { value, .. } = &mut facts.pcie {
                pcie::share(&mut value.functions, rails);
            }
        }
        Fault::PortDown { nic } => {
            if let Some(device) = devices(facts).get_mut(usize::from(nic.rail)) {
                device.ports.iter_mut().for_each(without_link);
            }
        }
        Fault::SmallMtu { mtu, .. } => {
            let ports = devices(facts).iter_mut().flat_map(|d| &mut d.ports);
            ports.for_each(|port| port.active_mtu = known(*mtu));
        }
        Fault::NoGpuDirect { .. } => without_gpudirect(facts),
        _ => {}
    }
}

/// Without a link a port shows the slowest there is.
fn without_link(port: &mut Port) {
    port.state = known(PortState::Down);
    port.physical_state = known("Polling".to_owned());
    port.rate = known(Gbps(10.0));
    port.lanes = known(Lanes {
        count: 4,
        speed: Some("SDR".to_owned()),
    });
}

fn without_gpudirect(facts: &mut NodeFacts) {
    if let Fact::Known { value, .. } = &mut facts.host.modules {
        value.retain(|module| module.name != "nvidia_peermem");
    }
    if let Fact::Known { value, .. } = &mut facts.gpu.nvidia {
        value.open = false;
    }
    facts.gpudirect.peer_clients = known(Vec::new());
}

fn devices(facts: &mut NodeFacts) -> &mut [RdmaDevice] {
    match &mut facts.rdma {
        Fact::Known { value, .. } => value,
        Fact::Unknown { .. } => &mut [],
    }
}

fn functions(facts: &mut NodeFacts) -> &mut [PciFunction] {
    match &mut facts.pcie {
        Fact::Known { value, .. } => &mut value.functions,
        Fact::Unknown { .. } => &mut [],
    }
}

fn known<T>(value: T) -> Fact<T> {
    Fact::known(value, SCENARIO)
}

fn numa(number: u32, cpus: &str) -> NumaNode {
    NumaNode {
        number,
        distances: if number == 0 {
            vec![10, 21]
        } else {
            vec![21, 10]
        },
        cpus: known(cpus.to_owned()),
        memory: known(Bytes(1 << 40)),
    }
}

fn device(scenario: &Scenario, generation: Generation, rail: u16) -> RdmaDevice {
    let hca = match generation {
        Generation::Edr | Generation::Hdr => "MT4123",
        Generation::Ndr => "MT4129",
        Generation::Xdr => "MT4131",
    };
    RdmaDevice {
        name: Scenario::device(rail),
        driver: known("mlx5_core".to_owned()),
        identity: Identity {
            hca_type: known(hca.to_owned()),
            node_type: known(NodeType::ChannelAdapter),
            ..Identity::default()
        },
        firmware: known("28.43.2026".to_owned()),
        pci: known(pcie::nic(rail)),
        numa_node: known(pcie::socket(rail, scenario.rails)),
        dmabuf: known(true),
        ports: vec![port(scenario, generation)],
        queue_pairs: known(Vec::new()),
        ..RdmaDevice::default()
    }
}

/// A GUID that no other NIC of the scenario has, with NVIDIA's prefix 94:6d:ae.
fn guid(nic: Nic) -> String {
    format!("946d:ae03:{:04x}:{:04x}", nic.node, nic.rail)
}

fn parsed<T: std::str::FromStr>(text: &str) -> Fact<T> {
    match text.parse() {
        Ok(value) => known(value),
        Err(_) => Fact::unknown("the scenario has none"),
    }
}

/// The only GID of a NIC: the link-local one of its GUID.
pub(super) fn gid(nic: Nic) -> Gid {
    let [node, rail] = [nic.node, nic.rail];
    std::net::Ipv6Addr::new(0xfe80, 0, 0, 0, 0x946d, 0xae03, node, rail).into()
}

fn entry(gid: Gid) -> GidEntry {
    GidEntry {
        index: 0,
        gid,
        kind: known(GidType::IbOrRoceV1),
        netdev: Fact::unknown("InfiniBand"),
        prefix_len: Fact::unknown("InfiniBand"),
    }
}

fn port(scenario: &Scenario, generation: Generation) -> Port {
    Port {
        number: 1,
        state: known(PortState::Active),
        physical_state: known("LinkUp".to_owned()),
        link_layer: known(LinkLayer::InfiniBand),
        rate: known(generation.line_rate()),
        lanes: known(Lanes {
            count: 4,
            speed: Some(word(generation).to_owned()),
        }),
        active_mtu: known(scenario.mtu),
        subnet: Subnet {
            manager_lid: known(1),
            lid_mask_bits: known(0),
            partitions: known(vec![0xffff]),
        },
        netdev: Fact::unknown("the scenario has no IP over InfiniBand"),
        ..Port::default()
    }
}

fn word(generation: Generation) -> &'static str {
    match generation {
        Generation::Edr => "EDR",
        Generation::Hdr => "HDR",
        Generation::Ndr => "NDR",
        Generation::Xdr => "XDR",
    }
}

fn host(scenario: &Scenario) -> HostFacts {
    let module = |name: &str| KernelModule {
        name: name.to_owned(),
        version: Fact::unknown("it states none"),
    };
    let modules = ["ib_uverbs", "mlx5_ib", "nvidia", "nvidia_peermem"].map(module);
    let verbs = |rail| VerbsNode {
        device: Scenario::device(rail),
        path: format!("/dev/infiniband/uverbs{rail}"),
        access: Access::Usable,
    };
    HostFacts {
        cpu: known("Intel(R) Xeon(R) Platinum 8480C".to_owned()),
        cpus_online: known(112),
        scaling: known(FrequencyScaling {
            driver: known("intel_pstate".to_owned()),
            governors: [("performance".to_owned(), 112)].into(),
            unread: 0,
        }),
        clock_source: known("tsc".to_owned()),
        container: known(None),
        kernel_arguments: known(vec!["iommu=pt".to_owned()]),
        modules: known(modules.into()),
        kernel_log: known(Vec::new()),
        user: known(1000),
        memlock_exempt: known(false),
        verbs_access: known((0..scenario.rails).map(verbs).collect()),
        rdma_cm: known(Access::Usable),
        ..HostFacts::default()
    }
}

/// What NVIDIA's driver knows of the GPUs in the tree.
fn gpus(tree: &PcieTree) -> GpuFacts {
    let addresses: Vec<&PciAddress> = tree.gpus().map(|gpu| &gpu.address).collect();
    let model = "NVIDIA H100 80GB HBM3";
    let uuid = |index: usize| Fact::unknown(format!("the scenario has none for GPU{index}"));
    let listed = |(index, address): (usize, &&PciAddress)| NvidiaGpu {
        address: (*address).clone(),
        model: known(model.to_owned()),
        uuid: uuid(index),
    };
    let managed = |(index, address): (usize, &&PciAddress)| NvmlGpu {
        address: (*address).clone(),
        name: known(model.to_owned()),
        uuid: uuid(index),
        memory: known(Bytes(80 << 30)),
        bar1: known(Bytes(128 << 30)),
        pcie_generation: known((5, 5)),
        pcie_width: known((16, 16)),
        busy_percent: known(0),
    };
    GpuFacts {
        nvidia: known(NvidiaDriver {
            version: DRIVER.to_owned(),
            open: true,
        }),
        nvidia_gpus: known(addresses.iter().enumerate().map(listed).collect()),
        nvml: known(Nvml {
            driver: known(DRIVER.to_owned()),
            cuda: known("12.8".to_owned()),
            gpus: addresses.iter().enumerate().map(managed).collect(),
            unread: Vec::new(),
        }),
        ..GpuFacts::default()
    }
}

fn gpudirect() -> GpuDirectFacts {
    let client = PeerClient {
        name: "nv_mem".to_owned(),
        version: Fact::unknown("it states none"),
    };
    GpuDirectFacts {
        peer_clients: known(vec![client]),
        ..GpuDirectFacts::default()
    }
}
