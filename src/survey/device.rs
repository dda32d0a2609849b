//! The RDMA devices of /sys/class/infiniband and the functions they sit on.

use std::path::{Path, PathBuf};

use super::root::{ReadError, Root, quote};
use super::{Survey, identity, parse, port};
use crate::model::{Fact, PciAddress, Port, RdmaDevice, SoftwareRdma};

/// One device's directory, and what lies below the device.
pub(super) struct DeviceDir {
    /// Its name.
    pub name: String,
    /// /sys/class/infiniband/NAME.
    pub path: PathBuf,
    /// The network interface that rxe was put on.
    pub parent: Option<Fact<String>>,
    /// Set where the kernel does the work.
    pub software: Option<SoftwareRdma>,
    /// The real directory of the device below, or why there is none.
    pub below: Result<PathBuf, String>,
}

/// All RDMA devices of the node.
pub(super) fn devices(survey: &Survey<'_>) -> Fact<Vec<RdmaDevice>> {
    let class = survey.root.path("sys/class/infiniband");
    let from = class.display().to_string();
    match survey.root.list(&class) {
        Ok(mut names) => {
            names.sort_by(|a, b| natural(a).cmp(&natural(b)));
            let devices = names.iter().map(|name| device(survey, &class, name));
            Fact::known(devices.collect(), from)
        }
        // Without /sys/class, sysfs is not mounted or the snapshot has none: no word on drivers.
        Err(error) if error.is_absent() && survey.root.path("sys/class").exists() => Fact::unknown(
            format!("{from} does not exist: no RDMA driver is loaded (ib_core)"),
        ),
        Err(error) => Fact::unknown(error.to_string()),
    }
}

/// mlx5_2 before mlx5_10: the text before the last digits, then their number.
pub(super) fn natural(name: &str) -> (&str, usize, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[stem.len()..].trim_start_matches('0');
    (stem, number.len(), number)
}

/// The directory of the device of this name in the class directory.
pub(super) fn dir(survey: &Survey<'_>, class: &Path, name: &str) -> DeviceDir {
    let path = class.join(name);
    let parent = rxe_parent(survey, &path);
    let below = below(survey, &path, parent.as_ref());
    let software = match parent {
        Some(_) => Some(SoftwareRdma::Rxe),
        None => is_siw(survey.root, &path).then_some(SoftwareRdma::Siw),
    };
    DeviceDir {
        name: name.to_owned(),
        path,
        parent,
        software,
        below,
    }
}

fn device(survey: &Survey<'_>, class: &Path, name: &str) -> RdmaDevice {
    let dir = dir(survey, class, name);
    let software = dir.software;
    let (ports, unread) = ports(survey, &dir);
    RdmaDevice {
        name: dir.name.clone(),
        efa_peer: efa_peer(survey, &dir),
        driver: driver(survey, &dir),
        identity: identity::identity(survey, &dir, software),
        software,
        firmware: firmware(survey, &dir, software),
        pci: pci(survey, &dir),
        numa_node: numa_node(survey, &dir),
        dmabuf: Fact::default(),
        ports,
        unread,
        ..RdmaDevice::default()
    }
}

/// The attribute `parent`, which only rxe has (drivers/infiniband/sw/rxe/rxe_verbs.c).
fn rxe_parent(survey: &Survey<'_>, device: &Path) -> Option<Fact<String>> {
    let path = device.join("parent");
    match survey.root.read(&path) {
        Err(error) if error.is_absent() => None,
        _ => Some(survey.root.fact(&path, parse::interface)),
    }
}

/// siw has no attribute of its own, but this text (SIW_NODE_DESC_COMMON in siw.h).
fn is_siw(root: &Root, device: &Path) -> bool {
    matches!(root.read(&device.join("node_desc")), Ok(text) if text == "Software iWARP stack")
}

/// Whether the kernel does the work of the device in this directory of /sys/class/infiniband.
pub(super) fn is_software(root: &Root, device: &Path) -> bool {
    device.join("parent").exists() || is_siw(root, device)
}

/// The device that does the work: that of the netdev for rxe, else the link `device`.
fn below(
    survey: &Survey<'_>,
    device: &Path,
    parent: Option<&Fact<String>>,
) -> Result<PathBuf, String> {
    let name = match parent {
        None => {
            let real = survey.root.real(&device.join("device"));
            return real.map_err(|error| error.to_string());
        }
        Some(Fact::Known { value, .. }) => value,
        Some(Fact::Unknown { why }) => return Err(why.to_string()),
    };
    let netdev = survey.root.path("sys/class/net").join(name);
    match survey.root.real(&netdev.join("device")) {
        // A bond, a VLAN or lo, if it is there at all.
        Err(error) if error.is_absent() && netdev.exists() => Err(format!(
            "{name} is a virtual interface: {} does not exist",
            netdev.join("device").display()
        )),
        other => other.map_err(|error| error.to_string()),
    }
}

fn driver(survey: &Survey<'_>, dir: &DeviceDir) -> Fact<String> {
    let link = match &dir.below {
        Ok(below) => below.join("driver"),
        Err(why) => return Fact::unknown(why),
    };
    match survey.root.link_name(&link) {
        Ok(name) => match parse::word(&name) {
            Ok(name) => Fact::known(name, link.display().to_string()),
            Err(why) => Fact::unknown(format!("{} is {}: {why}", link.display(), quote(&name))),
        },
        Err(error) => Fact::unknown(error.to_string()),
    }
}

/// The attribute `p2p` of Amazon's own driver (efa_sysfs.c): `NVIDIA` or
/// `NVIDIA peermem` where it found that driver, else nothing.
fn efa_peer(survey: &Survey<'_>, dir: &DeviceDir) -> Option<Fact<String>> {
    let is_efa = driver(survey, dir)
        .value()
        .is_some_and(|name| name == "efa");
    let below = dir.below.as_ref().ok().filter(|_| is_efa)?;
    Some(survey.root.fact(&below.join("p2p"), parse::word))
}

fn firmware(survey: &Survey<'_>, dir: &DeviceDir, software: Option<SoftwareRdma>) -> Fact<String> {
    match software {
        Some(_) => Fact::unknown("software RDMA has no firmware"),
        None => survey.root.fact(&dir.path.join("fw_ver"), parse::word),
    }
}

fn pci(survey: &Survey<'_>, dir: &DeviceDir) -> Fact<PciAddress> {
    let below = match &dir.below {
        Ok(below) => below,
        Err(why) => return Fact::unknown(why),
    };
    match parse::pci_function(survey.root.inside(below)) {
        Some((address, _)) => Fact::known(address, below.display().to_string()),
        None => Fact::unknown(format!("{} is below no PCI function", below.display())),
    }
}

/// That of the PCI function, or of the device itself where it is none.
fn numa_node(survey: &Survey<'_>, dir: &DeviceDir) -> Fact<u32> {
    let below = match &dir.below {
        Ok(below) => below,
        Err(why) => return Fact::unknown(why),
    };
    let holder = parse::pci_function(below).map_or(below.as_path(), |(_, function)| function);
    survey
        .root
        .fact(&holder.join("numa_node"), parse::numa_node)
}

fn ports(survey: &Survey<'_>, dir: &DeviceDir) -> (Vec<Port>, Vec<String>) {
    let path = dir.path.join("ports");
    let names = match survey.root.list(&path) {
        Ok(names) => names,
        Err(error) => return (Vec::new(), vec![why_no_ports(&error)]),
    };
    let mut numbers = Vec::new();
    let mut unread = Vec::new();
    for name in &names {
        match name.parse::<u8>() {
            Ok(number) if number > 0 => numbers.push(number),
            _ => unread.push(format!(
                "{}: {} is no port number",
                path.display(),
                quote(name)
            )),
        }
    }
    numbers.sort_unstable();
    let ports = numbers
        .iter()
        .map(|number| port::port(survey, dir, *number));
    (ports.collect(), unread)
}

fn why_no_ports(error: &ReadError) -> String {
    format!("no port is known: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_ten_follows_device_nine() {
        let mut names = vec!["mlx5_10", "mlx5_bond_0", "mlx5_9", "rxe0", "mlx5_0"];
        names.sort_by(|a, b| natural(a).cmp(&natural(b)));
        assert_eq!(
            names,
            ["mlx5_0", "mlx5_9", "mlx5_10", "mlx5_bond_0", "rxe0"]
        );
    }
}
