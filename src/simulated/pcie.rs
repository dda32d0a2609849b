//! The PCIe tree of a simulated server: two sockets, and for each NIC a switch that it shares with GPUs.

use crate::config::Generation;
use crate::model::{
    Bytes, DeviceControl, Fact, Gbps, Iommu, LinkSpeed, PciAddress, PciFunction, PciRole,
    PcieErrors, PcieLink, PcieTree, VENDOR_NVIDIA,
};
use crate::topology::pcie_limit;

/// GPUs of each server.
const GPUS: u16 = 8;

/// Lanes of every healthy link.
pub(super) const LANES: u8 = 16;

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

/// The tree of a node whose NICs are of a generation.
pub(super) fn tree(generation: Generation, rails: u16) -> PcieTree {
    let mut functions: Vec<_> = (0..rails)
        .flat_map(|rail| branch(generation, rail, rails))
        .collect();
    functions.sort_by(|a, b| a.address.0.cmp(&b.address.0));
    PcieTree {
        virtual_machine: Fact::known(false, "/proc/cpuinfo"),
        functions: functions.into(),
        unread: Vec::new(),
    }
}

/// A root port, the switch below it, the NIC of the rail and the GPUs that share the switch.
pub(super) fn branch(generation: Generation, rail: u16, rails: u16) -> Vec<PciFunction> {
    let numa = socket(rail, rails);
    let speed = speed(generation);
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
    functions.push(place(&port(rail, 0), Some(&upper)).bridge(link(speed, LANES)));
    let device = adapter(generation);
    functions.push(place(&nic(rail), Some(&port(rail, 0))).nic(device, link(speed, LANES)));
    let shares = |gpu: &u16| gpu * rails / GPUS == rail;
    // With more rails than GPUs some switches have none.
    for (slot, _) in (1..).zip((0..GPUS).filter(shares)) {
        let (gpu, port) = (at(first + 3 + slot, 0), port(rail, slot));
        functions.push(place(&port, Some(&upper)).bridge(link(LinkSpeed::Gen5, LANES)));
        functions.push(place(&gpu, Some(&port)).gpu(link(LinkSpeed::Gen5, LANES)));
    }
    functions
}

/// A lower port of a rail's switch.
fn port(rail: u16, slot: u16) -> PciAddress {
    at(bus(rail) + 2, slot)
}

/// Takes lanes from the link of a rail's NIC, at both of its ends.
pub(super) fn narrow(functions: &mut [PciFunction], rail: u16, lanes: u8) {
    let ends = [nic(rail), port(rail, 0)];
    for function in functions.iter_mut().filter(|f| ends.contains(&f.address)) {
        function.link.width = Fact::known(lanes, "current_link_width");
    }
}

/// Puts the NICs and GPUs of these rails below the switch of the first of them.
pub(super) fn share(functions: &mut Vec<PciFunction>, rails: &[u16]) {
    let Some((first, others)) = rails.split_first() else {
        return;
    };
    let upper = |rail: u16| at(bus(rail) + 1, 0);
    for rail in others {
        let above = [at(bus(*rail), 1), upper(*rail)];
        functions.retain(|function| !above.contains(&function.address));
        for function in functions.iter_mut().filter(|f| f.root == root(bus(*rail))) {
            function.root = root(bus(*first));
            if function.parent.as_ref() == Some(&above[1]) {
                function.parent = Some(upper(*first));
            }
        }
    }
}

/// What a link of so many lanes lets a NIC of a generation send, and receive.
pub(super) fn carries(generation: Generation, lanes: u8) -> [Gbps; 2] {
    let mut tree = tree(generation, 1);
    narrow(&mut tree.functions, 0, lanes);
    match pcie_limit(&tree, &nic(0)) {
        Ok(limit) => [limit.send, limit.receive],
        Err(_) => [Gbps(f64::INFINITY); 2],
    }
}

/// The root bus of a branch, by its number.
fn root(bus: u16) -> Fact<String> {
    Fact::known(format!("pci0000:{bus:02x}"), "/sys/devices")
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
            root: root(self.root),
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
