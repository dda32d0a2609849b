//! The PCIe tree: the functions of RDMA devices and GPUs, and the bridges above them.

mod config_space;
mod errors;
mod function;
mod parse;
#[cfg(test)]
mod tests;
mod virtual_machine;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::parse::is_pci_address;
use super::root::{Root, quote};
use crate::model::{
    Fact, LinkSpeed, LinkState, PciAddress, PciFunction, PciRole, PcieLink, PcieTree, RdmaDevice,
    VENDOR_AMD_GPU, VENDOR_NVIDIA, VENDOR_QEMU,
};

pub(in crate::survey) use parse::id;

/// The part of the tree that carries `rdma` and the node's GPUs.
pub(super) fn tree(root: &Root, rdma: &[RdmaDevice]) -> Fact<PcieTree> {
    let bus = root.path("sys/bus/pci/devices");
    let names = match root.list(&bus) {
        Ok(names) => names,
        Err(error) => return Fact::unknown(error.to_string()),
    };
    let mut walk = Walk {
        root,
        bus: &bus,
        only_numa_node: only_numa_node(root),
        found: BTreeMap::new(),
        unread: Vec::new(),
    };
    for device in rdma {
        if let Some(address) = device.pci.value() {
            walk.nic(address);
        }
    }
    for name in names.iter().filter(|name| is_pci_address(name)) {
        match is_gpu(root, &bus.join(name)) {
            Ok(false) => {}
            Ok(true) => walk.add(&PciAddress(name.clone()), PciRole::Gpu),
            Err(why) => walk.unread.push(why),
        }
    }
    let virtual_machine = virtual_machine::is_virtual(root);
    let mut functions: Vec<_> = walk.found.into_values().collect();
    hide_invented_links(&mut functions, virtual_machine.value() == Some(&true));
    let tree = PcieTree {
        virtual_machine,
        functions: functions.into(),
        unread: walk.unread,
    };
    Fact::known(tree, bus.display().to_string())
}

/// Whether a function is a GPU: NVIDIA's and AMD's display controllers (VGA, 3D, other), and what
/// AMD calls processing accelerators (MI300). Not the VGA of a management controller.
fn is_gpu(root: &Root, dir: &Path) -> Result<bool, String> {
    let read = |name: &str| dir.join(name);
    let vendor = match root.fact(&read("vendor"), id) {
        Fact::Known { value, .. } => value,
        Fact::Unknown { why } => return Err(format!("is this a GPU? {why}")),
    };
    if ![VENDOR_NVIDIA, VENDOR_AMD_GPU].contains(&vendor) {
        return Ok(false);
    }
    match root.fact(&read("class"), parse::class) {
        Fact::Known { value, .. } => Ok(match value >> 8 {
            0x0300 | 0x0302 | 0x0380 => true,
            0x1200 => vendor == VENDOR_AMD_GPU,
            _ => false,
        }),
        Fact::Unknown { why } => Err(format!("is this a GPU? {why}")),
    }
}

/// The node that everything is on, where there is only one; firmware then often states none.
fn only_numa_node(root: &Root) -> Option<Fact<u32>> {
    let online = root.path("sys/devices/system/node/online");
    let only = root.fact(&online, super::parse::numa_node);
    only.value().is_some().then_some(only)
}

/// Functions found so far, by the order of their addresses.
struct Walk<'a> {
    root: &'a Root,
    bus: &'a Path,
    only_numa_node: Option<Fact<u32>>,
    found: BTreeMap<(usize, String), PciFunction>,
    unread: Vec<String>,
}

impl Walk<'_> {
    /// Adds the function of an RDMA device, and the physical function where it is a virtual one.
    fn nic(&mut self, address: &PciAddress) {
        self.add(address, PciRole::Nic);
        let physical = self
            .found
            .get(&key(address))
            .and_then(|function| function.physical_function.as_ref()?.value().cloned());
        if let Some(physical) = physical {
            self.add(&physical, PciRole::Nic);
        }
    }

    /// Adds a function and the bridges above it.
    fn add(&mut self, address: &PciAddress, role: PciRole) {
        let link = self.bus.join(&address.0);
        let real = match self.root.real(&link) {
            Ok(real) => real,
            Err(error) => return self.unread.push(error.to_string()),
        };
        let (path, hung_from) = path_up(&real);
        if path.first() != Some(address) {
            let place = quote(&real.display().to_string());
            return self
                .unread
                .push(format!("{}: leads to {place}", link.display()));
        }
        for (depth, address) in path.iter().enumerate() {
            let role = if depth == 0 { role } else { PciRole::Bridge };
            let place = function::Place {
                root: self.root,
                dir: self.bus.join(&address.0),
                address,
                role,
                parent: path.get(depth + 1),
                hung_from: &hung_from,
                only_numa_node: self.only_numa_node.as_ref(),
            };
            self.found
                .entry(key(address))
                .or_insert_with(|| function::read(&place));
        }
    }
}

/// Sorts `10000:…` behind `ffff:…`.
fn key(address: &PciAddress) -> (usize, String) {
    (address.0.len(), address.0.clone())
}

/// The functions on a real directory below /sys/devices from the last up, and the root bus above.
fn path_up(real: &Path) -> (Vec<PciAddress>, Result<(String, PathBuf), String>) {
    let mut path = Vec::new();
    for dir in real.ancestors() {
        let name = dir.file_name().and_then(|name| name.to_str());
        match name {
            Some(name) if is_pci_address(name) => path.push(PciAddress(name.to_owned())),
            Some(name) if parse::is_root(name) => {
                return (path, Ok((name.to_owned(), dir.to_owned())));
            }
            _ => break,
        }
    }
    (
        path,
        Err(format!("{} is below no root bus", real.display())),
    )
}

/// Forgets the links that a hypervisor made up: at the lowest speed and width of all, where it or a
/// bridge of its own states them. They would look like faults.
fn hide_invented_links(functions: &mut [PciFunction], virtual_machine: bool) {
    const LOWEST: LinkState = LinkState {
        speed: LinkSpeed::Gen1,
        width: 1,
    };
    let emulated: Vec<_> = functions
        .iter()
        .filter(|f| f.is_emulated_bridge())
        .map(|f| f.address.clone())
        .collect();
    for function in functions {
        let below_one = function
            .parent
            .as_ref()
            .is_some_and(|parent| emulated.contains(parent));
        let made_up = virtual_machine || below_one || function.vendor.value() == Some(&VENDOR_QEMU);
        if made_up && function.link.current() == Some(LOWEST) {
            function.link = PcieLink::unknown(
                "2.5 GT/s x1 is what a hypervisor makes up: it hides the real link",
            );
        }
    }
}
