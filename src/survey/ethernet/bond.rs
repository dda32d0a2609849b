//! Bonds: /sys/class/net/X/bonding, and the link `master` of their members.

use super::{nic_parse, parse};
use crate::model::{Bond, Fact};
use crate::survey::root::Root;

/// The bond that `name` is, or is a member of.
pub(super) fn of(root: &Root, name: &str) -> Option<Fact<Bond>> {
    let class = root.path("sys/class/net");
    if class.join(name).join("bonding").is_dir() {
        return Some(read(root, name));
    }
    match master(root, name)? {
        Fact::Known { value, .. } => {
            let is_bond = class.join(&value).join("bonding").is_dir();
            is_bond.then(|| read(root, &value))
        }
        Fact::Unknown { why } => Some(Fact::unknown(why)),
    }
}

/// The interface above `name`: a bond, a bridge, a team.
pub(in crate::survey) fn master(root: &Root, name: &str) -> Option<Fact<String>> {
    let link = root.path("sys/class/net").join(name).join("master");
    match root.link_name(&link) {
        Ok(name) => Some(match parse::interface(&name) {
            Ok(name) => Fact::known(name, link.display().to_string()),
            Err(why) => Fact::unknown(format!("{}: {why}", link.display())),
        }),
        Err(error) if error.is_absent() => None,
        Err(error) => Some(Fact::unknown(error.to_string())),
    }
}

fn read(root: &Root, name: &str) -> Fact<Bond> {
    let dir = root.path("sys/class/net").join(name).join("bonding");
    let bond = Bond {
        name: name.to_owned(),
        mode: root.fact(&dir.join("mode"), nic_parse::first_word),
        hash: root.fact(&dir.join("xmit_hash_policy"), nic_parse::first_word),
        members: root.fact(&dir.join("slaves"), nic_parse::names),
    };
    Fact::known(bond, dir.display().to_string())
}
