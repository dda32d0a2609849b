//! The network interfaces of hardware: those that RDMA goes through, and conventional ones.

use super::device::natural;
use super::ethernet::master;
use super::root::Root;
use super::{nic_parse, parse};
use crate::model::{Fact, Interface, RdmaDevice};

/// The most interfaces kept: a NIC may have hundreds of representors.
const MAX_INTERFACES: usize = 256;

/// Those with a device below, in the order of their names; `rdma` are the node's RDMA devices.
pub(super) fn interfaces(root: &Root, rdma: &[RdmaDevice]) -> Fact<Vec<Interface>> {
    let class = root.path("sys/class/net");
    let mut names = match root.list(&class) {
        Ok(names) => names,
        Err(error) => return Fact::unknown(error.to_string()),
    };
    names.retain(|name| class.join(name).join("device").exists());
    names.sort_by(|a, b| natural(a).cmp(&natural(b)));
    names.truncate(MAX_INTERFACES);
    let interfaces = names.into_iter().map(|name| read(root, rdma, name));
    Fact::known(interfaces.collect(), class.display().to_string())
}

fn read(root: &Root, rdma: &[RdmaDevice], name: String) -> Interface {
    let dir = root.path("sys/class/net").join(&name);
    let device = dir.join("device");
    let pci = match root.real(&device) {
        Ok(real) => match parse::pci_function(root.inside(&real)) {
            Some((address, _)) => Fact::known(address, real.display().to_string()),
            None => Fact::unknown(format!("{} is below no PCI function", real.display())),
        },
        Err(error) => Fact::unknown(error.to_string()),
    };
    let driver = match root.link_name(&device.join("driver")) {
        Ok(name) => match parse::word(&name) {
            Ok(name) => Fact::known(name, device.join("driver").display().to_string()),
            Err(why) => Fact::unknown(why),
        },
        Err(error) => Fact::unknown(error.to_string()),
    };
    let id = |file: &str| match pci.value() {
        Some(address) => {
            let function = root.path("sys/bus/pci/devices").join(&address.0);
            root.fact(&function.join(file), super::pcie::id)
        }
        None => Fact::unknown(pci.why_unknown().unwrap_or_default()),
    };
    Interface {
        vendor: id("vendor"),
        device: id("device"),
        speed: root.fact(&dir.join("speed"), nic_parse::speed),
        operstate: root.fact(&dir.join("operstate"), parse::word),
        mtu: root.fact(&dir.join("mtu"), parse::whole),
        rdma: rdma_of(rdma, &name, &pci),
        bond: master(root, &name).and_then(|bond| bond.value().cloned()),
        driver,
        pci,
        name,
    }
}

/// The RDMA device whose port names the interface, else the one on the same function.
fn rdma_of(
    rdma: &[RdmaDevice],
    name: &str,
    pci: &Fact<crate::model::PciAddress>,
) -> Option<String> {
    let names = |device: &&RdmaDevice| {
        let netdevs = device.ports.iter().filter_map(|port| port.netdev.value());
        netdevs.into_iter().any(|netdev| netdev.name == name)
    };
    let on_function =
        |device: &&RdmaDevice| pci.value().is_some() && device.pci.value() == pci.value();
    let found = rdma.iter().find(names);
    let found = found.or_else(|| rdma.iter().find(on_function));
    found.map(|device| device.name.clone())
}
