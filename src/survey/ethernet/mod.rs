//! How a network interface is set: link, bond, addresses, ARP, and what keeps RoCE from loss.

mod arp;
mod bond;
mod lossless;

use super::root::Root;
use super::{Survey, nic_parse, parse};
use crate::model::{Bond, Fact, NetdevSettings};

pub(super) use bond::master;

/// The settings of the interface `name`.
pub(super) fn settings(survey: &Survey<'_>, name: &str) -> NetdevSettings {
    let root = survey.root;
    let dir = root.path("sys/class/net").join(name);
    let bond = bond::of(root, name);
    // A bond has neither queues nor a transceiver: its members, which are set alike, have them.
    let port = bond.as_ref().and_then(|bond| first_member(bond.value()?));
    let port = port.unwrap_or(name);
    let (fec, pause) = survey.kernel.ethtool(port);
    NetdevSettings {
        speed: root.fact(&dir.join("speed"), nic_parse::speed),
        duplex: root.fact(&dir.join("duplex"), parse::word),
        carrier: root.fact(&dir.join("carrier"), nic_parse::flag),
        addresses: survey.interfaces.of_interface(name),
        arp: arp::settings(root, name),
        lossless: lossless::read(survey, port),
        fec,
        pause,
        bond,
    }
}

fn first_member(bond: &Bond) -> Option<&str> {
    bond.members.value()?.first().map(String::as_str)
}

/// The members of the bond that `name` is; `None` where it is none, or they are not known.
pub(super) fn members(root: &Root, name: &str) -> Option<Vec<String>> {
    let bond = bond::of(root, name)?;
    let bond = bond.value().filter(|bond| bond.name == name)?;
    bond.members
        .value()
        .filter(|members| !members.is_empty())
        .cloned()
}

/// The greater of two facts; unknown where one of them is.
fn greater(a: Fact<u8>, b: Fact<u8>) -> Fact<u8> {
    match (a.value(), b.value()) {
        (Some(x), Some(y)) if x >= y => a,
        (Some(_), _) => b,
        (None, _) => a,
    }
}
