//! In what the nodes of a cluster should be alike.

use arcstr::literal;

use super::compare::{Among, Of, Property, Seen};
use crate::judge::{NicView, NodeView};
use crate::model::{
    AcsControl, DeviceControl, Gbps, Iommu, PciAddress, PciFunction, PciRole, PcieTree, Rule,
    Severity,
};
use crate::topology::{PathClass, path_class, pcie_limit};

/// All of them, in the order in which differences are told.
pub(super) const PROPERTIES: &[Property] = &[
    Property {
        what: "number of RDMA devices",
        severity: Severity::Warning,
        of: Of::Node(rdma_devices),
        told_by: Some((Rule::NoNic, Severity::NotJudged)),
        remedy: "Look for the missing card with lspci, and for its driver in the kernel log.",
    },
    Property {
        what: "number of GPUs",
        severity: Severity::Warning,
        of: Of::Node(gpus),
        told_by: None,
        remedy: "Look for the missing GPU with lspci, and for Xid 79 (fallen off the bus) in the kernel log.",
    },
    Property {
        what: "model",
        severity: Severity::Note,
        of: Of::Function(model_of_nic),
        told_by: None,
        remedy: "If that is not meant, swap the card.",
    },
    Property {
        what: "port rate",
        severity: Severity::Warning,
        of: Of::Nic(port_rate),
        told_by: None,
        remedy: "Check cable, transceiver and the switch port's speed; the slower end is all that the faster one gets.",
    },
    Property {
        what: "RDMA MTU",
        severity: Severity::Warning,
        of: Of::Nic(rdma_mtu),
        told_by: Some((Rule::Mtu, Severity::Warning)),
        remedy: "Give the interface the MTU that its siblings have: 4096 bytes of RDMA need 4200 or more there.",
    },
    Property {
        what: "interface MTU",
        severity: Severity::Warning,
        of: Of::Nic(netdev_mtu),
        told_by: Some((Rule::Mtu, Severity::Warning)),
        remedy: "Give the interface the MTU that its siblings have (ip link set dev … mtu …), in its configuration too.",
    },
    Property {
        what: "PCIe link",
        severity: Severity::Warning,
        of: Of::Function(pcie_link),
        told_by: Some((Rule::PcieLink, Severity::Warning)),
        remedy: "Reseat the card and riser, or move it to the slot that its siblings have it in.",
    },
    Property {
        what: "way to the GPUs",
        severity: Severity::Warning,
        of: Of::Function(way_to_gpus),
        told_by: Some((Rule::GpuNicPath, Severity::Fault)),
        remedy: "Move the card to the slot that its siblings have it in; compare linerate inspect on both.",
    },
    Property {
        what: "NUMA node",
        severity: Severity::Note,
        of: Of::Nic(numa_node),
        told_by: None,
        remedy: "If that is not meant, move the card to the slot that its siblings have it in.",
    },
    Property {
        what: "IOMMU mode",
        severity: Severity::Warning,
        of: Of::Function(iommu),
        told_by: Some((Rule::IommuTranslating, Severity::Warning)),
        remedy: "Give the node the kernel command line of its siblings (/proc/cmdline), iommu=pt on bare metal.",
    },
    Property {
        what: "ACS setting",
        severity: Severity::Warning,
        of: Of::Node(acs),
        told_by: Some((Rule::Acs, Severity::Warning)),
        remedy: "Give the node the BIOS setting and the start-up script (setpci) that its siblings have.",
    },
    Property {
        what: "PCIe packet size",
        severity: Severity::Warning,
        of: Of::Function(packet_size),
        told_by: Some((Rule::PayloadSize, Severity::Warning)),
        remedy: "Compare the BIOS settings, and pci= on the kernel command lines.",
    },
    Property {
        what: "relaxed ordering",
        severity: Severity::Warning,
        of: Of::Function(relaxed_ordering),
        told_by: Some((Rule::RelaxedOrdering, Severity::Warning)),
        remedy: "Compare the BIOS settings, and the firmware settings of the cards (mlxconfig, PCI_WR_ORDERING).",
    },
    Property {
        what: "limit of locked memory",
        severity: Severity::Warning,
        of: Of::Node(memlock),
        told_by: Some((Rule::Memlock, Severity::Warning)),
        remedy: "Give the node the limits of its siblings (limits.conf, LimitMEMLOCK of the service that starts jobs).",
    },
    Property {
        what: "firmware",
        severity: Severity::Note,
        of: Of::Nic(firmware),
        told_by: None,
        remedy: "Bring the cards of one model to one firmware.",
    },
    Property {
        what: "device name",
        severity: Severity::Note,
        of: Of::Nic(device_name),
        told_by: None,
        remedy: "Do not name the device in one NCCL_IB_HCA or UCX_NET_DEVICES for all nodes, or give it one name by a \
                 udev rule.",
    },
    Property {
        what: "driver",
        severity: Severity::Note,
        of: Of::Nic(driver),
        told_by: None,
        remedy: "Bring the nodes to one driver.",
    },
    Property {
        what: "kernel",
        severity: Severity::Note,
        of: Of::Node(kernel),
        told_by: None,
        remedy: "Bring the nodes to one kernel.",
    },
];

fn rdma_devices(node: &NodeView<'_>) -> Option<Seen> {
    let tree = node.pcie();
    let is_virtual = |function: &PciFunction| function.physical_function.is_some();
    Seen::fact(&node.facts.rdma, |devices| {
        // Virtual functions come and go with what runs on the node.
        let real = devices.iter().filter(|device| {
            let function = tree.zip(device.pci.value());
            let function = function.and_then(|(tree, address)| tree.function(address));
            !function.is_some_and(is_virtual)
        });
        real.count().to_string()
    })
}

fn gpus(node: &NodeView<'_>) -> Option<Seen> {
    let tree = node.pcie()?;
    // What could not be read may be a GPU.
    let seen = Seen::fact(&node.facts.pcie, |tree| tree.gpus().count().to_string());
    tree.unread.is_empty().then_some(seen)?
}

fn model_of_nic(tree: &PcieTree, nic: &PciAddress) -> Option<Seen> {
    let function = tree.function(nic)?;
    let device = function.device.value()?;
    Seen::fact(&function.vendor, |vendor| {
        format!("{vendor:04x}:{device:04x}")
    })
}

fn port_rate(node: &NodeView<'_>, nic: &NicView<'_>) -> Option<Seen> {
    // Software RDMA makes its rate up, and a port without a link shows the slowest there is.
    let counts = nic.device.software.is_none() && nic.is_active();
    let seen = Seen::fact(&nic.port.rate, Gbps::to_string)?;
    counts.then(|| seen.among(model(node, nic)))
}

fn rdma_mtu(_: &NodeView<'_>, nic: &NicView<'_>) -> Option<Seen> {
    Seen::fact(&nic.port.active_mtu, u32::to_string)
}

fn netdev_mtu(_: &NodeView<'_>, nic: &NicView<'_>) -> Option<Seen> {
    let seen = Seen::fact(&nic.port.netdev.value()?.mtu, u32::to_string)?;
    // Where the RDMA MTU follows from it, that is the one to tell.
    let rdma = nic.port.active_mtu.value();
    let also = rdma.map(u32::to_string).unwrap_or_default();
    let among = Among { model: None, also };
    Some(Seen { among, ..seen })
}

fn pcie_link(tree: &PcieTree, nic: &PciAddress) -> Option<Seen> {
    let limit = pcie_limit(tree, nic).ok()?;
    let state = limit.narrowest.current.ok()?;
    let end = limit.narrowest.below;
    (limit.unknown == 0).then(|| Seen {
        value: state.to_string(),
        from: arcstr::format!("/sys/bus/pci/devices/{end}/current_link_{{speed,width}}"),
        among: Among {
            model: model_at(tree, nic),
            also: String::new(),
        },
    })
}

/// How many GPUs are how near, whatever the order in which they are numbered.
fn way_to_gpus(tree: &PcieTree, nic: &PciAddress) -> Option<Seen> {
    let gpus: Vec<_> = tree.gpus().collect();
    let classes = gpus.iter().map(|gpu| path_class(tree, &gpu.address, nic));
    let classes: Vec<PathClass> = classes.collect::<Result<_, _>>().ok()?;
    let count = |class| classes.iter().filter(|other| **other == class).count();
    let parts = PathClass::ALL
        .into_iter()
        .filter_map(|class| match count(class) {
            0 => None,
            count => Some(format!("{class} to {count}")),
        });
    let word = |id: Option<u16>| id.map(|id| format!("{id:04x}")).unwrap_or_default();
    let models = gpus.iter().map(|gpu| model_of(gpu).map(word).join(":"));
    let models: Vec<String> = models.collect();
    (!gpus.is_empty()).then(|| Seen {
        value: parts.collect::<Vec<_>>().join(", "),
        from: literal!("/sys/bus/pci/devices, numa_node"),
        among: Among {
            model: model_at(tree, nic),
            also: models.join(" "),
        },
    })
}

/// Where there are GPUs, the way to them says more.
fn numa_node(node: &NodeView<'_>, nic: &NicView<'_>) -> Option<Seen> {
    let seen = Seen::fact(&nic.device.numa_node, u32::to_string)?;
    node.pcie()?.gpus().next().is_none().then_some(seen)
}

fn iommu(tree: &PcieTree, nic: &PciAddress) -> Option<Seen> {
    let say = |iommu: &Iommu| match iommu {
        Iommu::Off => "off".to_owned(),
        Iommu::Identity => "pass-through".to_owned(),
        Iommu::Translates { kind } => format!("translating ({kind})"),
        Iommu::Other(kind) => kind.clone(),
    };
    Seen::fact(tree.function(nic)?.iommu.as_ref()?, say)
}

/// Of all bridges above NICs and GPUs, where all are known.
fn acs(node: &NodeView<'_>) -> Option<Seen> {
    let bridges = node.pcie()?.functions.iter();
    let bridges = bridges.filter(|function| function.role == PciRole::Bridge);
    let mut seen = None;
    for bridge in bridges {
        let fact = bridge.acs.as_ref()?;
        let redirects = fact.value()?.is_some_and(AcsControl::redirects_peers);
        let say = |redirects| match redirects {
            true => "peer traffic goes up to the root".to_owned(),
            false => "peer traffic is not redirected".to_owned(),
        };
        if redirects || seen.is_none() {
            seen = Seen::fact(fact, |_| say(redirects));
        }
        if redirects {
            break;
        }
    }
    seen
}

fn packet_size(tree: &PcieTree, nic: &PciAddress) -> Option<Seen> {
    let say = |control: &DeviceControl| {
        let (payload, asks) = (control.max_payload, control.max_read_request);
        format!("MaxPayload {payload}, MaxReadRequest {asks}")
    };
    let seen = Seen::fact(&tree.function(nic)?.control, say)?;
    Some(seen.among(model_at(tree, nic)))
}

fn relaxed_ordering(tree: &PcieTree, nic: &PciAddress) -> Option<Seen> {
    let say = |control: &DeviceControl| match control.relaxed_ordering {
        true => "on".to_owned(),
        false => "off".to_owned(),
    };
    let seen = Seen::fact(&tree.function(nic)?.control, say)?;
    Some(seen.among(model_at(tree, nic)))
}

fn memlock(node: &NodeView<'_>) -> Option<Seen> {
    Seen::fact(&node.facts.memlock, ToString::to_string)
}

fn firmware(node: &NodeView<'_>, nic: &NicView<'_>) -> Option<Seen> {
    let seen = Seen::fact(&nic.device.firmware, Clone::clone)?;
    Some(seen.among(model(node, nic)))
}

fn driver(node: &NodeView<'_>, nic: &NicView<'_>) -> Option<Seen> {
    let seen = Seen::fact(&nic.device.driver, Clone::clone)?;
    Some(seen.among(model(node, nic)))
}

/// What a rail's device is called; where its model differs, so may its name.
fn device_name(node: &NodeView<'_>, nic: &NicView<'_>) -> Option<Seen> {
    let seen = Seen {
        value: nic.id.device.to_string(),
        from: literal!("/sys/class/infiniband"),
        among: Among::default(),
    };
    Some(seen.among(model(node, nic)))
}

fn kernel(node: &NodeView<'_>) -> Option<Seen> {
    Seen::fact(&node.facts.kernel, Clone::clone)
}

/// Vendor and device of a NIC's function, as far as they are known.
fn model(node: &NodeView<'_>, nic: &NicView<'_>) -> Option<[Option<u16>; 2]> {
    model_at(node.pcie()?, nic.pci()?)
}

fn model_at(tree: &PcieTree, address: &PciAddress) -> Option<[Option<u16>; 2]> {
    tree.function(address).map(model_of)
}

fn model_of(function: &PciFunction) -> [Option<u16>; 2] {
    [&function.vendor, &function.device].map(|id| id.value().copied())
}
