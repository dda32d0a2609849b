//! The network interface behind an RDMA port.

use super::device::DeviceDir;
use super::{Survey, counters, ethernet, parse};
use crate::model::{Fact, GidEntry, Netdev};

/// The interface of port `number`, whose GID table is `gids`.
pub(super) fn of_port(
    survey: &Survey<'_>,
    device: &DeviceDir,
    number: u8,
    gids: &[GidEntry],
) -> Fact<Netdev> {
    behind(survey, device, number, gids).map(|name| read(survey, name))
}

/// Its name: the one that software RDMA was put on, or the one that sits on the same hardware.
pub(super) fn behind(
    survey: &Survey<'_>,
    device: &DeviceDir,
    number: u8,
    gids: &[GidEntry],
) -> Fact<String> {
    match &device.parent {
        Some(parent) => parent.clone(),
        None => name(survey, device, number, gids),
    }
}

fn read(survey: &Survey<'_>, name: String) -> Netdev {
    let dir = survey.root.path("sys/class/net").join(&name);
    Netdev {
        mtu: survey.root.fact(&dir.join("mtu"), parse::whole),
        operstate: survey.root.fact(&dir.join("operstate"), parse::word),
        settings: ethernet::settings(survey, &name),
        counters: counters::of_netdev(survey.root, &dir),
        name,
    }
}

/// From the GIDs where they name one (a bond, not its members; a port, not its VLANs), else from
/// the PCI function (IPoIB).
pub(super) fn name(
    survey: &Survey<'_>,
    device: &DeviceDir,
    number: u8,
    gids: &[GidEntry],
) -> Fact<String> {
    let on_function = on_function(survey, device);
    let functions: &[String] = on_function.as_deref().unwrap_or_default();
    let mut on_gids = gids
        .iter()
        .filter(|entry| entry.netdev.value().is_some())
        .map(|entry| &entry.netdev);
    let is_own = |netdev: &&Fact<String>| netdev.value().is_some_and(|n| functions.contains(n));
    match on_gids.clone().find(is_own).or_else(|| on_gids.next()) {
        Some(named) => named.clone(),
        None => match on_function {
            Ok(names) => only_one(survey, device, number, &names),
            Err(why) => Fact::unknown(why),
        },
    }
}

/// The interfaces of this network namespace that sit on the device's function.
fn on_function(survey: &Survey<'_>, device: &DeviceDir) -> Result<Vec<String>, String> {
    let below = device.below.as_ref().map_err(Clone::clone)?;
    let net = below.join("net");
    match survey.root.list(&net) {
        Ok(names) => Ok(names),
        Err(error) if error.is_absent() => Err(format!(
            "no network interface of this namespace sits on {}",
            below.display()
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// The only interface of an only port; else the one whose dev_port, counted from 0, is the port.
fn only_one(survey: &Survey<'_>, device: &DeviceDir, number: u8, names: &[String]) -> Fact<String> {
    let class = survey.root.path("sys/class/net");
    let is_of_port = |name: &&String| {
        let dev_port = survey
            .root
            .fact(&class.join(name).join("dev_port"), parse::whole);
        dev_port.value() == Some(&u32::from(number).saturating_sub(1))
    };
    let of_port: Vec<_> = names.iter().filter(is_of_port).collect();
    let ports = survey.root.list(&device.path.join("ports"));
    let one_port = ports.is_ok_and(|ports| ports.len() == 1);
    let below = device.below.as_deref().unwrap_or(&device.path);
    let net = below.join("net").display().to_string();
    match (names, &of_port[..]) {
        ([name], _) if one_port => Fact::known(name.clone(), net),
        (_, [name]) => Fact::known((*name).clone(), net),
        ([], _) => Fact::unknown(format!("{net} is empty")),
        _ => Fact::unknown(format!(
            "which of {} in {net} belongs to port {number} cannot be told by dev_port",
            names.join(", ")
        )),
    }
}
