//! How an interface answers ARP, from /proc/sys/net/ipv4/conf.

use super::{greater, nic_parse};
use crate::model::ArpSettings;
use crate::survey::root::Root;

/// In force is the greater of the value of `all` and the interface's own
/// (Documentation/networking/ip-sysctl.rst).
pub(super) fn settings(root: &Root, name: &str) -> ArpSettings {
    let conf = root.path("proc/sys/net/ipv4/conf");
    let in_force = |setting: &str| {
        let read = |of: &str| root.fact(&conf.join(of).join(setting), nic_parse::small);
        greater(read(name), read("all"))
    };
    ArpSettings {
        ignore: in_force("arp_ignore"),
        announce: in_force("arp_announce"),
        rp_filter: in_force("rp_filter"),
    }
}
