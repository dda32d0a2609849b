//! Path classes: what lies between two devices, in the words of `nvidia-smi topo -m`.

use std::fmt;

use crate::model::{PciAddress, PciFunction, PcieTree};

/// What lies between two devices, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathClass {
    /// At most one PCIe bridge: functions of one card, or below one switch.
    Pix,
    /// Several PCIe bridges, but no host bridge.
    Pxb,
    /// A PCIe host bridge: below one root bus of the CPU.
    Phb,
    /// The interconnect between the host bridges of one NUMA node.
    Node,
    /// The interconnect between NUMA nodes.
    Sys,
}

impl PathClass {
    /// All, nearest first.
    pub const ALL: [Self; 5] = [Self::Pix, Self::Pxb, Self::Phb, Self::Node, Self::Sys];

    /// What a legend says of it.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Pix => "at most one PCIe bridge (one switch)",
            Self::Pxb => "several PCIe bridges, no host bridge",
            Self::Phb => "a PCIe host bridge of the CPU",
            Self::Node => "several host bridges of one NUMA node",
            Self::Sys => "the interconnect between NUMA nodes",
        }
    }
}

impl fmt::Display for PathClass {
    /// NVIDIA's word.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
        })
    }
}

/// The class of the path between two functions.
///
/// # Errors
/// Why it is unknown: no such function, no NUMA node where only that would tell, or a hypervisor
/// that hangs every device from the root and so tells nothing.
pub fn path_class(tree: &PcieTree, a: &PciAddress, b: &PciAddress) -> Result<PathClass, String> {
    let (a, b) = (way_up(tree, a)?, way_up(tree, b)?);
    if let Some((left, right)) = below_common_bridge(&a, &b) {
        // A switch is two bridges on the way, a port above and one below: one below the common
        // port on each side is a single switch.
        return Ok(match (left, right) {
            (0 | 1, 0 | 1) => PathClass::Pix,
            _ => PathClass::Pxb,
        });
    }
    let (one, other) = (root(&a)?, root(&b)?);
    let numa = (numa(&a), numa(&b));
    if one != other && matches!(numa, (Ok(left), Ok(right)) if left != right) {
        return Ok(PathClass::Sys);
    }
    for way in [&a, &b] {
        if is_flattened(tree, way) {
            return Err(format!(
                "{} hangs from the root in a virtual machine: the hypervisor hides where it is",
                way[0].address
            ));
        }
    }
    if one == other {
        return Ok(PathClass::Phb);
    }
    match numa {
        (Ok(_), Ok(_)) => Ok(PathClass::Node),
        (Err(why), _) | (_, Err(why)) => Err(why),
    }
}

/// The function and the bridges above it.
fn way_up<'a>(tree: &'a PcieTree, address: &PciAddress) -> Result<Vec<&'a PciFunction>, String> {
    let way = tree.chain(address);
    match way.last() {
        None => Err(format!("the PCIe tree of the node has no {address}")),
        Some(last) if last.parent.is_some() => Err(format!(
            "what is above {} in the PCIe tree is unknown",
            last.address
        )),
        Some(_) => Ok(way),
    }
}

/// How many bridges each way has below the first bridge that both have; `None` without such.
fn below_common_bridge(a: &[&PciFunction], b: &[&PciFunction]) -> Option<(usize, usize)> {
    if a[0].address == b[0].address {
        return Some((0, 0));
    }
    let (a, b) = (&a[1..], &b[1..]);
    a.iter().enumerate().find_map(|(left, bridge)| {
        let right = b.iter().position(|other| other.address == bridge.address)?;
        Some((left, right))
    })
}

fn root<'a>(way: &[&'a PciFunction]) -> Result<&'a String, String> {
    let last = way.last().map(|last| &last.root);
    let root = last.ok_or("an empty path")?;
    root.value().ok_or_else(|| why(root.why_unknown()))
}

fn numa(way: &[&PciFunction]) -> Result<u32, String> {
    let node = &way[0].numa_node;
    node.value().copied().ok_or_else(|| {
        let why = why(node.why_unknown());
        format!("the NUMA node of {} is unknown: {why}", way[0].address)
    })
}

fn why(why: Option<&str>) -> String {
    why.unwrap_or_default().to_owned()
}

/// Whether a hypervisor put the device on a root port of its own or right on the root bus, with
/// which it says nothing about the machine below. A switch that it shows is one it was told to show.
fn is_flattened(tree: &PcieTree, way: &[&PciFunction]) -> bool {
    let virtual_machine = tree.virtual_machine.value() == Some(&true);
    let made_up = way.iter().any(|function| function.is_emulated_bridge());
    (virtual_machine || made_up) && way.len() <= 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Fact;
    use crate::model::testing::pcie::{TwoSockets, address, flat};

    fn class(tree: &PcieTree, a: &str, b: &str) -> Result<PathClass, String> {
        let class = path_class(tree, &address(a), &address(b));
        // It is the same from both ends.
        assert_eq!(
            class.is_ok(),
            path_class(tree, &address(b), &address(a)).is_ok()
        );
        class
    }

    #[test]
    fn every_class_is_told_from_its_neighbours() {
        let tree = TwoSockets::tree();
        for (a, b, expected) in [
            // Below one switch; functions of one card.
            (TwoSockets::NIC0, TwoSockets::GPU0, PathClass::Pix),
            (TwoSockets::NIC2, TwoSockets::NIC3, PathClass::Pix),
            // A switch below a switch.
            (TwoSockets::NIC0, TwoSockets::GPU1, PathClass::Pxb),
            // Another root port of the same root bus.
            (TwoSockets::GPU0, TwoSockets::NIC1, PathClass::Phb),
            // Another root bus of the same NUMA node.
            (TwoSockets::GPU0, TwoSockets::NIC2, PathClass::Node),
            (TwoSockets::GPU0, TwoSockets::NIC4, PathClass::Sys),
            (TwoSockets::GPU2, TwoSockets::NIC4, PathClass::Pix),
        ] {
            assert_eq!(class(&tree, a, b), Ok(expected), "{a} {b}");
            assert_eq!(class(&tree, b, a), Ok(expected), "{b} {a}");
        }
    }

    #[test]
    fn without_numa_nodes_what_lies_between_roots_is_unknown() {
        let mut tree = TwoSockets::tree();
        for function in &mut tree.functions {
            function.numa_node = Fact::unknown("the platform states none");
        }
        let why = class(&tree, TwoSockets::GPU0, TwoSockets::NIC4).unwrap_err();
        assert!(why.contains("the platform states none"), "{why}");
        assert_eq!(
            class(&tree, TwoSockets::GPU0, TwoSockets::NIC0),
            Ok(PathClass::Pix)
        );
        assert_eq!(
            class(&tree, TwoSockets::GPU0, TwoSockets::NIC1),
            Ok(PathClass::Phb)
        );
    }

    #[test]
    fn a_flat_tree_is_real_on_a_machine_and_unknown_in_a_guest() {
        let (gpu, nic) = ("0000:00:05.0", "0000:00:06.0");
        let mut tree = flat(&[gpu, nic]);
        assert_eq!(class(&tree, gpu, nic), Ok(PathClass::Phb));
        tree.virtual_machine = Fact::known(true, "/proc/cpuinfo");
        let why = class(&tree, gpu, nic).unwrap_err();
        assert!(why.contains("hypervisor"), "{why}");
    }

    #[test]
    fn a_switch_that_a_guest_is_shown_counts() {
        let mut tree = TwoSockets::tree();
        tree.virtual_machine = Fact::known(true, "/proc/cpuinfo");
        assert_eq!(
            class(&tree, TwoSockets::NIC0, TwoSockets::GPU0),
            Ok(PathClass::Pix)
        );
        assert_eq!(
            class(&tree, TwoSockets::GPU0, TwoSockets::NIC4),
            Ok(PathClass::Sys)
        );
    }

    #[test]
    fn what_is_not_in_the_tree_has_no_class() {
        let mut tree = TwoSockets::tree();
        assert!(
            class(&tree, TwoSockets::GPU0, "0000:ff:00.0")
                .unwrap_err()
                .contains("0000:ff:00.0")
        );
        // A node may send a tree with holes, or one that goes round.
        let port = tree.chain(&address(TwoSockets::NIC1))[1].address.clone();
        tree.functions.retain(|function| function.address != port);
        assert!(class(&tree, TwoSockets::GPU0, TwoSockets::NIC1).is_err());
        let mut round = flat(&["0000:00:05.0", "0000:00:06.0"]);
        round.functions[0].parent = Some(address("0000:00:05.0"));
        assert!(class(&round, "0000:00:05.0", "0000:00:06.0").is_err());
    }
}
