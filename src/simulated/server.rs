//! What a survey of a simulated server finds: two sockets, eight GPUs, and for each rail a NIC of
//! InfiniBand.

use super::pcie;
use crate::config::{Fault, Generation, Scenario};
use crate::model::{
    Access, Bytes, Fact, FrequencyScaling, Gbps, GidEntry, GidType, GpuDirectFacts, GpuFacts,
    HostFacts, Identity, KernelModule, Lanes, LinkLayer, MemlockLimit, NodeFacts, NodeName,
    NodeType, NumaNode, NvidiaDriver, NvidiaGpu, Nvml, NvmlGpu, PciAddress, PcieTree, PeerClient,
    Port, PortState, RdmaDevice, Subnet, VerbsNode,
};

/// Where everything here is from, in the place of a file.
const SCENARIO: &str = "the scenario";

const DRIVER: &str = "570.133.20";

/// The facts of the node at a place of the scenario's list, from 0.
pub(super) fn facts(scenario: &Scenario, number: u16, name: &NodeName) -> NodeFacts {
    let tree = pcie::tree(scenario, name);
    let direct = !scenario
        .faults
        .iter()
        .any(|fault| matches!(fault, Fault::NoGpuDirect { node } if node == name));
    let rails = 0..scenario.rails;
    let devices = rails.map(|rail| device(scenario, name, number, rail));
    NodeFacts {
        hostname: known(name.0.clone()),
        kernel: known("6.8.0-60-generic".to_owned()),
        arch: known("x86_64".to_owned()),
        uptime_s: known(1_209_600),
        memlock: known(MemlockLimit::Unlimited),
        libibverbs: known("libibverbs.so.1".to_owned()),
        rdma: known(devices.collect()),
        numa: known(vec![numa(0, "0-55"), numa(1, "56-111")]),
        host: host(scenario, direct),
        gpu: gpus(&tree, direct),
        gpudirect: gpudirect(direct),
        pcie: known(tree),
        ..NodeFacts::default()
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

fn device(scenario: &Scenario, node: &NodeName, number: u16, rail: u16) -> RdmaDevice {
    let hca = match scenario.generation {
        Generation::Edr | Generation::Hdr => "MT4123",
        Generation::Ndr => "MT4129",
        Generation::Xdr => "MT4131",
    };
    let guid = guid(number, rail);
    RdmaDevice {
        name: Scenario::device(rail),
        driver: known("mlx5_core".to_owned()),
        identity: Identity {
            hca_type: known(hca.to_owned()),
            node_type: known(NodeType::ChannelAdapter),
            node_desc: known(format!("{node} {}", Scenario::device(rail))),
            node_guid: parsed(&guid),
            card: parsed(&guid),
            ..Identity::default()
        },
        firmware: known("28.43.2026".to_owned()),
        pci: known(pcie::nic(rail)),
        numa_node: known(pcie::socket(rail, scenario.rails)),
        dmabuf: known(true),
        ports: vec![port(scenario, node, number, rail)],
        queue_pairs: known(Vec::new()),
        ..RdmaDevice::default()
    }
}

/// A GUID that no other NIC of the scenario has, with NVIDIA's prefix 94:6d:ae.
fn guid(number: u16, rail: u16) -> String {
    format!("946d:ae03:{number:04x}:{rail:04x}")
}

fn parsed<T: std::str::FromStr>(text: &str) -> Fact<T> {
    match text.parse() {
        Ok(value) => known(value),
        Err(_) => Fact::unknown("the scenario has none"),
    }
}

fn port(scenario: &Scenario, node: &NodeName, number: u16, rail: u16) -> Port {
    let is_down = |fault: &Fault| matches!(fault, Fault::PortDown { nic } if nic.node == *node && nic.rail == rail);
    let down = scenario.faults.iter().any(is_down);
    let line = scenario.generation.line_rate();
    // Without a link a port shows the slowest there is.
    let (state, physical, rate, word) = match down {
        true => (PortState::Down, "Polling", Gbps(10.0), "SDR"),
        false => (PortState::Active, "LinkUp", line, word(scenario.generation)),
    };
    let gids = format!("fe80::{}", guid(number, rail)).parse().map(|gid| {
        let index = 0;
        vec![GidEntry {
            index,
            gid,
            kind: known(GidType::IbOrRoceV1),
            netdev: Fact::unknown("InfiniBand"),
            prefix_len: Fact::unknown("InfiniBand"),
        }]
    });
    Port {
        number: 1,
        state: known(state),
        physical_state: known(physical.to_owned()),
        link_layer: known(LinkLayer::InfiniBand),
        rate: known(rate),
        lanes: known(Lanes {
            count: 4,
            speed: Some(word.to_owned()),
        }),
        active_mtu: known(mtu(scenario, node)),
        lid: known(number * 16 + rail + 2),
        subnet: Subnet {
            manager_lid: known(1),
            lid_mask_bits: known(0),
            partitions: known(vec![0xffff]),
        },
        netdev: Fact::unknown("the scenario has no IP over InfiniBand"),
        gids: gids.unwrap_or_default(),
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

/// The RDMA MTU of a node's ports, in bytes.
fn mtu(scenario: &Scenario, name: &NodeName) -> u32 {
    let other = scenario.faults.iter().find_map(|fault| match fault {
        Fault::SmallMtu { node, mtu } if node == name => Some(*mtu),
        _ => None,
    });
    other.unwrap_or(scenario.mtu)
}

fn host(scenario: &Scenario, direct: bool) -> HostFacts {
    let module = |name: &str| KernelModule {
        name: name.to_owned(),
        version: Fact::unknown("it states none"),
    };
    let mut modules = vec![module("ib_uverbs"), module("mlx5_ib"), module("nvidia")];
    if direct {
        modules.push(module("nvidia_peermem"));
    }
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
        modules: known(modules),
        kernel_log: known(Vec::new()),
        user: known(1000),
        memlock_exempt: known(false),
        verbs_access: known((0..scenario.rails).map(verbs).collect()),
        rdma_cm: known(Access::Usable),
        ..HostFacts::default()
    }
}

/// What NVIDIA's driver knows of the GPUs in the tree.
fn gpus(tree: &PcieTree, direct: bool) -> GpuFacts {
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
            open: direct,
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

fn gpudirect(direct: bool) -> GpuDirectFacts {
    let client = PeerClient {
        name: "nv_mem".to_owned(),
        version: Fact::unknown("it states none"),
    };
    GpuDirectFacts {
        peer_clients: known(if direct { vec![client] } else { Vec::new() }),
        ..GpuDirectFacts::default()
    }
}
