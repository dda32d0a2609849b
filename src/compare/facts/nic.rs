//! What is compared of the NIC that plays a rail.

use super::{Of, Property, Run, Seen, Value, function, seen, unknown, words};
use crate::judge::{GpuWay, NicView, NodeView};
use crate::model::{Gbps, Lanes, Lossless, Netdev, PortState, Priorities, Trust};

pub(super) const PROPERTIES: &[Property] = &[
    Property::new("device name", Of::Nic(device_name)),
    Property::new("model", Of::Function(function::model)),
    Property::new("board", Of::Nic(board)),
    Property::identity("card (node GUID)", Of::Nic(guid)),
    Property::new("firmware", Of::Nic(firmware)),
    Property::new("driver", Of::Nic(driver)),
    Property::new("driver version", Of::Nic(driver_version)),
    Property::new("port state", Of::Nic(state)),
    Property::new("link layer", Of::Nic(link_layer)),
    Property::new("port rate", Of::Nic(rate)),
    Property::new("lanes", Of::Nic(lanes)),
    Property::new("RDMA MTU", Of::Nic(rdma_mtu)),
    Property::new("interface MTU", Of::Nic(netdev_mtu)),
    Property::new("error correction", Of::Nic(fec)),
    Property::new("protection from loss", Of::Nic(lossless)),
    Property::new("GID", Of::Nic(gid)),
    Property::new("PCIe link", Of::Function(function::link)),
    Property::new("PCIe packet size", Of::Function(function::packet_size)),
    Property::new("relaxed ordering", Of::Function(function::relaxed_ordering)),
    Property::new("IOMMU mode", Of::Function(function::iommu)),
    Property::new("NUMA node", Of::Nic(numa_node)),
    Property::new("way to the GPUs", Of::Function(function::way_to_gpus)),
    Property::new("GPUDirect RDMA", Of::Nic(gpudirect)),
];

fn device_name(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    Ok(Value::text(nic.id.device.to_string()))
}

fn board(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    words(&nic.device.identity.board_id)
}

fn guid(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    let guid = &nic.device.identity.node_guid;
    seen(guid, |guid| Value::text(guid.to_string()))
}

fn firmware(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    words(&nic.device.firmware)
}

fn driver(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    words(&nic.device.driver)
}

fn driver_version(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    words(&nic.device.identity.driver_version)
}

fn state(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    seen(&nic.port.state, |state| {
        let carries = matches!(state, PortState::Active | PortState::ActiveDefer);
        Value::worth(state.to_string(), carries.into())
    })
}

fn link_layer(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    let layer = &nic.port.link_layer;
    seen(layer, |layer| Value::text(layer.to_string()))
}

/// Software RDMA makes its rate up, and a port without a link shows the slowest there is.
fn rate(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    if nic.device.software.is_some() {
        return Err(unknown("it is software RDMA, which makes its rate up"));
    }
    if !nic.is_active() {
        return Err(unknown("its port has no link"));
    }
    seen(&nic.port.rate, |rate: &Gbps| {
        Value::worth(rate.to_string(), (rate.0 * 1e3) as u64)
    })
}

fn lanes(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    if !nic.is_active() {
        return Err(unknown("its port has no link"));
    }
    // As many faster lanes are told by the rate.
    seen(&nic.port.lanes, |lanes: &Lanes| {
        Value::text(lanes.to_string())
    })
}

fn rdma_mtu(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    seen(&nic.port.active_mtu, mtu)
}

fn netdev_mtu(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    seen(&netdev(nic)?.mtu, mtu)
}

fn mtu(mtu: &u32) -> Value {
    Value::worth(mtu.to_string(), (*mtu).into())
}

fn netdev<'a>(nic: &NicView<'a>) -> Result<&'a Netdev, super::Unknown> {
    let netdev = &nic.port.netdev;
    let found = netdev.value();
    found.ok_or_else(|| unknown(netdev.why_unknown().unwrap_or_default()))
}

fn fec(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    words(&netdev(nic)?.settings.fec)
}

/// What packets are told apart by, and which priorities are paused rather than dropped.
fn lossless(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    let Lossless { trust, pfc, .. } = &netdev(nic)?.settings.lossless;
    let trusts = match trust.value() {
        Some(Trust::Pcp) => "pcp",
        Some(Trust::Dscp) => "dscp",
        None => "unknown",
    };
    seen(pfc, |pfc: &Priorities| {
        Value::text(format!("trust {trusts}, PFC {pfc}"))
    })
}

/// The entry of the GID table that probes used. Its address is the node's own.
fn gid(run: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    let Some(index) = run.gids.get(&nic.id) else {
        return Err(unknown("no probe used it"));
    };
    let entry = nic.port.gids.iter().find(|entry| entry.index == *index);
    let Some(entry) = entry else {
        return Err(unknown(format!("the survey has no GID {index}")));
    };
    let [index, kind, ..] = entry.columns(nic.port.link_layer.value());
    Ok(Value::text(format!("{index} ({kind})")))
}

fn numa_node(_: &Run<'_>, _: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    let numa = &nic.device.numa_node;
    seen(numa, |node| Value::text(node.to_string()))
}

/// How it reaches the memory of the node's GPUs, and of how many.
fn gpudirect(_: &Run<'_>, node: &NodeView<'_>, nic: &NicView<'_>) -> Seen {
    let pairs = node.gpu_pairs().iter();
    let mine = pairs.filter(|pair| pair.nic.name == nic.device.name);
    let mut ways: Vec<String> = Vec::new();
    let (mut reached, mut of) = (0u64, 0u64);
    for pair in mine {
        of += 1;
        let way = match &pair.way {
            Ok(GpuWay::None { .. }) => continue,
            Ok(way) => way.to_string(),
            Err(why) => return Err(unknown(why.as_str())),
        };
        reached += 1;
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    match (of, reached) {
        (0, _) => Err(unknown("the node has no GPU that is capable of it")),
        (_, 0) => Ok(Value::worth("none", 0)),
        // How many there are is told by the GPUs themselves.
        (of, reached) => {
            let whose = match of == reached {
                true => "all GPUs".to_owned(),
                false => format!("{reached} of {of} GPUs"),
            };
            let share = 1000 * reached / of;
            Ok(Value::worth(
                format!("{} to {whose}", ways.join(", ")),
                share,
            ))
        }
    }
}
