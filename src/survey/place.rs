//! Where an RDMA port sits in its host: the interface, address and processors of sockets on the same NIC.

use std::net::IpAddr;

use super::interfaces::Interfaces;
use super::netlink::Kernel;
use super::root::Root;
use super::{Sources, Survey, device, gids, netdev, not_live, parse};
use crate::model::{Fact, LinkLayer, LocalPort, PortPlace};

/// More processors than any machine has.
const MOST_CPUS: usize = 8192;

/// Where a port sits. `port` may come from elsewhere: of anything but a plain name nothing is known.
pub fn port_place(root: &Root, port: &LocalPort) -> PortPlace {
    let (interfaces, kernel) = match root.is_live() {
        true => (Interfaces::live(), Kernel::Running),
        false => {
            let none = Interfaces::unknown(not_live("addresses come from getifaddrs"));
            (none, Kernel::Snapshot)
        }
    };
    let sources = Sources::default();
    let survey = Survey {
        root,
        sources: &sources,
        interfaces,
        kernel,
    };
    place(&survey, port)
}

fn place(survey: &Survey<'_>, port: &LocalPort) -> PortPlace {
    if !parse::is_counter_name(&port.device) {
        return PortPlace::default();
    }
    let class = survey.root.path("sys/class/infiniband");
    let device = device::dir(survey, &class, &port.device);
    let dir = device.path.join("ports").join(port.port.to_string());
    let layer = survey.root.fact(&dir.join("link_layer"), parse::link_layer);
    let ethernet = layer.value() == Some(&LinkLayer::Ethernet);
    let (table, _) = gids::table(survey, &dir, layer.value().copied());
    let entry = table.iter().find(|entry| entry.index == port.gid_index);
    let interface = match entry.filter(|_| ethernet).map(|entry| &entry.netdev) {
        Some(Fact::Known { value, from }) => Fact::known(value.clone(), from.clone()),
        _ => netdev::name(survey, &device, port.port, &table),
    };
    let gid = entry.filter(|_| ethernet).map(|entry| entry.gid.ip());
    let (address, offloads) = match &interface {
        Fact::Known { value, .. } => (address(survey, value, gid), survey.kernel.offloads(value)),
        Fact::Unknown { why } => (Fact::unknown(why), Fact::unknown(why)),
    };
    let cpus = match &device.below {
        Ok(below) => cpus(survey.root, below),
        Err(why) => Fact::unknown(why),
    };
    PortPlace {
        interface,
        address,
        cpus,
        offloads,
    }
}

/// The address of the GID where the interface has it; else the first that it has, IPv4 before
/// global IPv6 before link-local: a port of InfiniBand has those of IPoIB.
fn address(survey: &Survey<'_>, interface: &str, gid: Option<IpAddr>) -> Fact<IpAddr> {
    let addresses = match survey.interfaces.of_interface(interface) {
        Fact::Known { value, .. } => value,
        Fact::Unknown { why } => return Fact::Unknown { why },
    };
    let rank = |ip: &IpAddr| match ip {
        _ if Some(*ip) == gid => 0,
        IpAddr::V4(_) => 1,
        IpAddr::V6(ip) if !ip.is_unicast_link_local() => 2,
        IpAddr::V6(_) => 3,
    };
    match addresses.iter().map(|address| address.ip).min_by_key(rank) {
        Some(ip) => Fact::known(ip, "getifaddrs"),
        None => Fact::unknown(format!("{interface} has no IP address (getifaddrs)")),
    }
}

/// Of the function, or of the one that it is a part of: virtio devices sit on a function's own.
fn cpus(root: &Root, below: &std::path::Path) -> Fact<Vec<u32>> {
    let own = root.fact(&below.join("local_cpulist"), cpu_list);
    match (&own, below.parent()) {
        (Fact::Unknown { .. }, Some(parent)) => {
            let above = root.fact(&parent.join("local_cpulist"), cpu_list);
            if above.value().is_some() { above } else { own }
        }
        _ => own,
    }
}

/// `0-31,64`.
fn cpu_list(text: &str) -> Result<Vec<u32>, &'static str> {
    const EXPECTED: &str = "not a list of processors such as `0-31,64`";
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (parse::whole(first), parse::whole(last)) else {
            return Err(EXPECTED);
        };
        let count = last.checked_sub(first).ok_or(EXPECTED)? as usize;
        if cpus.len() + count >= MOST_CPUS {
            return Err(EXPECTED);
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::super::interfaces::Address;
    use super::super::tree::Tree;
    use super::*;

    const PORT: &str = "sys/class/infiniband/mlx5_0/ports/1";

    fn of(tree: &Tree, addresses: &[&str]) -> PortPlace {
        let address = |ip: &&str| Address {
            interface: "eth2".to_owned(),
            ip: ip.parse().unwrap(),
            prefix_len: 24,
        };
        let (root, sources) = (tree.root(), Sources::default());
        let survey = Survey {
            root: &root,
            sources: &sources,
            interfaces: Interfaces::of(addresses.iter().map(address).collect()),
            kernel: Kernel::Snapshot,
        };
        let port = LocalPort {
            device: "mlx5_0".to_owned(),
            port: 1,
            gid_index: 3,
            gpu: None,
        };
        place(&survey, &port)
    }

    fn roce() -> Tree {
        let tree = Tree::new();
        tree.file(&format!("{PORT}/link_layer"), "Ethernet\n")
            .file(
                &format!("{PORT}/gids/3"),
                "0000:0000:0000:0000:0000:ffff:0a01:0007\n",
            )
            .file(&format!("{PORT}/gid_attrs/types/3"), "RoCE v2\n")
            .file(&format!("{PORT}/gid_attrs/ndevs/3"), "eth2\n");
        tree
    }

    #[test]
    fn a_port_of_roce_has_the_interface_and_the_address_of_its_gid() {
        let place = of(&roce(), &["10.1.0.1", "10.1.0.7"]);
        assert_eq!(place.interface.value().unwrap(), "eth2");
        assert_eq!(place.address.value().unwrap().to_string(), "10.1.0.7");
        assert!(place.offloads.value().is_none());
    }

    #[test]
    fn an_address_that_the_interface_has_serves_where_the_gids_is_not_one() {
        let place = of(&roce(), &["fe80::1", "fd00::1", "10.1.0.1"]);
        assert_eq!(place.address.value().unwrap().to_string(), "10.1.0.1");
        let none = of(&roce(), &[]);
        assert_eq!(
            none.address.why_unknown(),
            Some("eth2 has no IP address (getifaddrs)")
        );
    }

    #[test]
    fn lists_of_processors_are_bounded() {
        assert_eq!(cpu_list("0-2,8\n"), Ok(vec![0, 1, 2, 8]));
        for bad in ["", "3-1", "0-4294967295", "a"] {
            assert!(cpu_list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_that_is_no_device_is_not_looked_for() {
        let port = LocalPort {
            device: "../../etc".to_owned(),
            port: 1,
            gid_index: 0,
            gpu: None,
        };
        assert_eq!(port_place(&Root::live(), &port), PortPlace::default());
    }
}
