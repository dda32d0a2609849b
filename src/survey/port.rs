//! The ports of an RDMA device.

use std::path::Path;

use super::device::DeviceDir;
use super::{Survey, counters, gids, netdev, nic_parse, parse, subnet};
use crate::model::{Fact, Lanes, LinkLayer, Port, RoceDefaults};

/// Port `number` of the device.
pub(super) fn port(survey: &Survey<'_>, device: &DeviceDir, number: u8) -> Port {
    let dir = device.path.join("ports").join(number.to_string());
    let link_layer = survey.root.fact(&dir.join("link_layer"), parse::link_layer);
    let (gids, unread) = gids::table(survey, &dir, link_layer.value().copied());
    let lid = match link_layer.value() {
        Some(LinkLayer::Ethernet) => Fact::unknown("an Ethernet port has no LID"),
        _ => survey.root.fact(&dir.join("lid"), parse::lid),
    };
    Port {
        number,
        state: survey.root.fact(&dir.join("state"), parse::state),
        physical_state: survey
            .root
            .fact(&dir.join("phys_state"), parse::physical_state),
        lanes: lanes(survey, device, &dir),
        subnet: subnet::subnet(survey.root, &dir, link_layer.value().copied()),
        roce: roce(survey, device, number, link_layer.value().copied()),
        link_layer,
        rate: survey.root.fact(&dir.join("rate"), parse::rate),
        active_mtu: survey.active_mtu(&device.name, number),
        lid,
        netdev: netdev::of_port(survey, device, number, &gids),
        gids,
        // What it carries is told when its counters are read a second time.
        traffic: Fact::unknown("its data counters were not read twice"),
        counters: counters::of_port(survey.root, &dir),
        hw_counters: counters::of_driver(survey.root, &dir),
        unread,
    }
}

fn lanes(survey: &Survey<'_>, device: &DeviceDir, dir: &Path) -> Fact<Lanes> {
    match device.software {
        Some(_) => Fact::unknown("software RDMA has no lanes"),
        None => survey.root.fact(&dir.join("rate"), nic_parse::lanes),
    }
}

fn roce(
    survey: &Survey<'_>,
    device: &DeviceDir,
    number: u8,
    layer: Option<LinkLayer>,
) -> RoceDefaults {
    match (layer, device.software) {
        (Some(LinkLayer::Ethernet), None) => subnet::roce(survey.root, &device.path, number),
        _ => RoceDefaults::default(),
    }
}
