//! The PCIe tree of a simulated server: two sockets, and for each NIC a switch that it shares with GPUs.

use crate::config::{Fault, Generation, Scenario};
use crate::model::{
    Bytes, DeviceControl, Fact, Iommu, LinkSpeed, NodeName, PciAddress, PciFunction, PciRole,
    PcieErrors, PcieLink, PcieTree, VENDOR_NVIDIA,
};

/// GPUs of each server.
const GPUS: u16 = 8;

/// Lanes of every link.
const LANES: u8 = 16;

/// PCI-SIG's vendor id of Mellanox.
const VENDOR_MELLANOX: u16 = 0x15b3;

/// The device id of the adapter of a generation (PCI ID Repository): ConnectX-6, -7 and -8.
fn adapter(generation: Generation) -> u16 {
    match generation {
        Generation::Edr | Generation::Hdr => 0x101b,
        Generation::Ndr => 0x1021,
        Generation::Xdr => 0x1023,
    }
}

/// The PCIe speed with which 16 lanes carry the line of a generation.
fn speed(generation: Generation) -> LinkSpeed {
    match generation {
        Generation::Edr => LinkSpeed::Gen3,
        Generation::Hdr => LinkSpeed::Gen4,
        Generation::Ndr => LinkSpeed::Gen5,
        Generation::Xdr => LinkSpeed::Gen6,
    }
}

/// The NUMA node of a rail's switch: the first half is on the first socket.
pub(super) fn socket(rail: u16, rails: u16) -> u32 {
    u32::from(rail) * 2 / u32::from(rails)
}

/// The first of the buses of a rail's switch: eight of them hold nine devices below the only one.
fn bus(rail: u16) -> u16 {
    0x10 + 8 * rail
}

/// The function of the NIC that plays a rail.
pub(super) fn nic(rail: u16) -> PciAddress {
    at(bus(rail) + 3, 0)
}

fn at(bus: u16, slot: u16) -> PciAddress {
    PciAddress(format!("0000:{bus:02x}:{slot:02x}.0"))
}

/// The tree of a node.
pub(super) fn tree(scenario: &Scenario, node: &NodeName) -> PcieTree {
    let mut functions: Vec<_> = (0..scenario.rails)
        .flat_map(|rail| branch(scenario, node, rail))
        .collect();
    functions.sort_by(|a, b| a.address.0.cmp(&b.address.0));
    PcieTree {
        virtual_machine: Fact::known(false, "/proc/cpuinfo"),
        functions,
        unread: Vec::new(),
    }
}

/// A root port, the switch below it, the NIC of the rail and the GPUs that share the switch.
fn branch(scenario: &Scenario, node: &NodeName, rail: u16) -> Vec<PciFunction> {
    let numa = socket(rail, scenario.rails);
    let speed = speed(scenario.generation);
    let (first, trunk) = (bus(rail), speed.max(LinkSpeed::Gen5));
    let (root, upper) = (at(first, 1), at(first + 1, 0));
    let place = |address: &PciAddress, parent: Option<&PciAddress>| Seat {
        address: address.clone(),
        parent: parent.cloned(),
        root: first,
        numa,
    };
    let mut functions = vec![
        place(&root, None).bridge(link(trunk, LANES)),
        place(&upper, Some(&root)).bridge(link(trunk, LANES)),
    ];
    let port = |slot: u16| at(first + 2, slot);
    let lanes = lanes(scenario, node, rail);
    functions.push(place(&port(0), Some(&upper)).bridge(link(speed, lanes)));
    let device = adapter(scenario.generation);
    functions.push(place(&nic(rail), Some(&port(0))).nic(device, link(speed, lanes)));
    let shares = |gpu: &u16| gpu * scenario.rails / GPUS == rail;
    // With more rails than GPUs some switches have none.
    for (slot, _) in (1..).zip((0..GPUS).filter(shares)) {
        let gpu = at(first + 3 + slot, 0);
        functions.push(place(&port(slot), Some(&upper)).bridge(link(LinkSpeed::Gen5, LANES)));
        functions.push(place(&gpu, Some(&port(slot))).gpu(link(LinkSpeed::Gen5, LANES)));
    }
    functions
}

/// The lanes that the link of a NIC trained at.
fn lanes(scenario: &Scenario, node: &NodeName, rail: u16) -> u8 {
    let narrow = scenario.faults.iter().find_map(|fault| match fault {
        Fault::NarrowPcie { nic, width } if nic.node == *node && nic.rail == rail => Some(*width),
        _ => None,
    });
    narrow.unwrap_or(LANES)
}

fn link(speed: LinkSpeed, lanes: u8) -> PcieLink {
    PcieLink {
        speed: Fact::known(speed, "current_link_speed"),
        max_speed: Fact::known(speed, "max_link_speed"),
        width: Fact::known(lanes, "current_link_width"),
        max_width: Fact::known(LANES, "max_link_width"),
    }
}

/// Where a function sits.
struct Seat {
    address: PciAddress,
    parent: Option<PciAddress>,
    root: u16,
    numa: u32,
}

impl Seat {
    fn bridge(self, link: PcieLink) -> PciFunction {
        let mut bridge = self.function(PciRole::Bridge, (0x1000, 0xc030), "pcieport", link);
        bridge.acs = Some(Fact::known(None, "config"));
        bridge
    }

    fn nic(self, device: u16, link: PcieLink) -> PciFunction {
        let mut nic = self.function(PciRole::Nic, (VENDOR_MELLANOX, device), "mlx5_core", link);
        nic.iommu = Some(Fact::known(Iommu::Identity, "iommu_group/type"));
        nic
    }

    fn gpu(self, link: PcieLink) -> PciFunction {
        let mut gpu = self.function(PciRole::Gpu, (VENDOR_NVIDIA, 0x2330), "nvidia", link);
        gpu.iommu = Some(Fact::known(Iommu::Identity, "iommu_group/type"));
        gpu.memory_window = Some(Fact::known(Bytes(128 << 30), "resource"));
        gpu
    }

    fn function(
        self,
        role: PciRole,
        (vendor, device): (u16, u16),
        driver: &str,
        link: PcieLink,
    ) -> PciFunction {
        let control = DeviceControl {
            max_payload: 256,
            payload_capable: Some(512),
            max_read_request: 512,
            relaxed_ordering: true,
        };
        PciFunction {
            address: self.address,
            role,
            parent: self.parent,
            root: Fact::known(format!("pci0000:{:02x}", self.root), "/sys/devices"),
            vendor: Fact::known(vendor, "vendor"),
            device: Fact::known(device, "device"),
            driver: Fact::known(driver.to_owned(), "driver"),
            numa_node: Fact::known(self.numa, "numa_node"),
            link,
            control: Fact::known(control, "config"),
            acs: None,
            iommu: None,
            physical_function: None,
            errors: Fact::known(PcieErrors::default(), "aer_dev_correctable"),
            memory_window: None,
        }
    }
}
