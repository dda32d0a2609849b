//! The GID table of a port: gids/N, gid_attrs/types/N and gid_attrs/ndevs/N.

use std::path::Path;

use super::root::quote;
use super::{Survey, parse};
use crate::model::{Fact, Gid, GidEntry, GidType, LinkLayer};

/// How many unreadable entries are told one by one.
const MAX_TOLD: usize = 8;

/// The entries in use of the port's table, by index, and what could not be read of it.
pub(super) fn table(
    survey: &Survey<'_>,
    port: &Path,
    link_layer: Option<LinkLayer>,
) -> (Vec<GidEntry>, Vec<String>) {
    let dir = port.join("gids");
    let names = match survey.root.list(&dir) {
        Ok(names) => names,
        Err(error) => return (Vec::new(), vec![format!("no GID is known: {error}")]),
    };
    let mut entries = Vec::new();
    let mut unread = Vec::new();
    for name in names {
        let Ok(index) = name.parse::<u32>() else {
            unread.push(format!(
                "{}: {} is no GID index",
                dir.display(),
                quote(&name)
            ));
            continue;
        };
        match survey.root.fact(&dir.join(&name), parse::gid) {
            Fact::Known { value, .. } if is_unused(value, link_layer) => {}
            Fact::Known { value, .. } => {
                entries.push(entry(survey, port, link_layer, index, value));
            }
            Fact::Unknown { why } => unread.push(why.to_string()),
        }
    }
    entries.sort_by_key(|entry| entry.index);
    if unread.len() > MAX_TOLD {
        let rest = unread.len() - MAX_TOLD;
        unread.truncate(MAX_TOLD);
        unread.push(format!("{}: {rest} more entries unread", dir.display()));
    }
    (entries, unread)
}

/// Whether a slot holds no GID. On InfiniBand the kernel shows an unused slot as the subnet prefix
/// with a GUID of zero, which no port has.
fn is_unused(gid: Gid, link_layer: Option<LinkLayer>) -> bool {
    let no_guid = gid.bytes()[8..].iter().all(|byte| *byte == 0);
    gid.is_empty() || (no_guid && link_layer != Some(LinkLayer::Ethernet))
}

fn entry(
    survey: &Survey<'_>,
    port: &Path,
    link_layer: Option<LinkLayer>,
    index: u32,
    gid: Gid,
) -> GidEntry {
    let attribute = |name: &str| port.join("gid_attrs").join(name).join(index.to_string());
    let kind = survey.root.fact(&attribute("types"), parse::gid_type);
    let netdev = match link_layer {
        Some(LinkLayer::InfiniBand) => {
            Fact::unknown("a GID on InfiniBand belongs to no network interface")
        }
        _ => survey.root.fact(&attribute("ndevs"), parse::interface),
    };
    let prefix_len = match (&kind, &netdev) {
        (Fact::Known { value, .. }, _) if *value != GidType::RoceV2 => {
            Fact::unknown("only a RoCEv2 GID is an IP address")
        }
        (Fact::Unknown { why }, _) | (_, Fact::Unknown { why }) => Fact::unknown(why),
        (_, Fact::Known { value, .. }) => survey.interfaces.prefix_len(value, gid.ip()),
    };
    GidEntry {
        index,
        gid,
        kind,
        netdev,
        prefix_len,
    }
}
