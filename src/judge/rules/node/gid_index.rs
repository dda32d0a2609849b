//! Which entry of the GID table RoCE goes out under: whether there is a good one, and whether its
//! index is the same everywhere.

use std::collections::BTreeMap;

use super::Said;
use crate::judge::rules::{About, plain};
use crate::judge::{NicView, NodeView};
use crate::model::{Evidence, Finding, GidEntry, GidType, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::GidIndex,
    means: "RoCE addresses a peer by an entry of the GID table. A port without a RoCEv2 entry that is more \
            than link-local reaches nobody beyond its own switch. Where the index of the good entry \
            differs between NICs, a fixed NCCL_IB_GID_INDEX picks a wrong one on some of them: \
            connections fail at once with error 12, or go out as RoCEv1.",
    detected: "The table below /sys/class/infiniband/DEV/ports/N: gids, gid_attrs/types, gid_attrs/ndevs. A \
               note where an active port has no such entry, and one where the first entry for RoCEv2 \
               over IPv4 (else IPv6) has not the same index at every NIC that plays a rail. Not told \
               of ports whose table could not be read.",
    remedy: "Give the interface an IP address, and let NCCL choose by itself (2.21 and later: leave \
             NCCL_IB_GID_INDEX unset, set NCCL_IB_ADDR_FAMILY or NCCL_IB_ADDR_RANGE where it must be told).",
};

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let roce = node.nics.iter().filter(|nic| is_readable(nic));
    let lost = roce.filter(|nic| best(nic).is_none());
    said.findings.extend(lost.map(without_any));
}

fn is_readable(nic: &NicView<'_>) -> bool {
    let entries = &nic.port.gids;
    nic.is_active()
        && nic.is_roce()
        && nic.port.unread.is_empty()
        && entries.iter().all(|entry| entry.kind.value().is_some())
}

/// The first entry for RoCEv2 that a router forwards: over IPv4, else over IPv6.
fn best<'a>(nic: &NicView<'a>) -> Option<&'a GidEntry> {
    let routable = |entry: &&GidEntry| {
        entry.kind.value() == Some(&GidType::RoceV2) && !entry.gid.is_link_local()
    };
    let entries = || nic.port.gids.iter().filter(routable);
    entries()
        .find(|entry| entry.gid.ipv4().is_some())
        .or_else(|| entries().next())
}

fn without_any(nic: &NicView<'_>) -> Finding {
    let table = format!(
        "/sys/class/infiniband/{}/ports/{}/gids",
        nic.id.device, nic.id.port
    );
    let saw = match nic.port.gids.len() {
        0 => "an empty GID table".to_owned(),
        count => format!("{count} entries, none of RoCEv2 with more than a link-local address"),
    };
    plain(
        Rule::GidIndex,
        Severity::Note,
        nic.subject(None),
        format!(
            "{} has no RoCEv2 GID with an address that a router forwards: it reaches its own switch at the most.",
            nic.in_words()
        ),
        vec![Evidence { saw, from: table }],
        "Give its interface an IP address, or do not let NCCL use it (NCCL_IB_HCA).",
    )
}

/// Compares the NICs that play rails, of all nodes: one setting is for all of them.
pub(in crate::judge::rules) fn across(nodes: &[NodeView<'_>], said: &mut Said) {
    let mut by_index: BTreeMap<u32, Vec<&NicView<'_>>> = BTreeMap::new();
    for nic in nodes.iter().flat_map(|node| &node.nics) {
        if let Some(entry) = best(nic).filter(|_| is_readable(nic)) {
            by_index.entry(entry.index).or_default().push(nic);
        }
    }
    // The usual one last; of two alike the lower.
    let mut groups: Vec<_> = by_index.into_iter().collect();
    groups.sort_by_key(|(index, nics)| (nics.len(), std::cmp::Reverse(*index)));
    if groups.len() > 1 {
        said.findings.extend(differing(&groups));
    }
}

fn differing(groups: &[(u32, Vec<&NicView<'_>>)]) -> Option<Finding> {
    let (_, odd) = groups.first()?;
    let told = |(index, nics): &(u32, Vec<&NicView<'_>>)| {
        let first = nics.first()?;
        let more = match nics.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!("index {index} at {}{more}", first.id))
    };
    let texts: Vec<_> = groups.iter().rev().filter_map(told).take(4).collect();
    let first = odd.first()?;
    let gid = best(first)?;
    Some(plain(
        Rule::GidIndex,
        Severity::Note,
        first.subject(None),
        format!(
            "The RoCEv2 GID has not the same index everywhere: {}. A fixed NCCL_IB_GID_INDEX is wrong on some.",
            texts.join(", ")
        ),
        vec![Evidence {
            saw: format!("GID {} of {}: {}", gid.index, first.id, gid.gid.ip()),
            from: format!(
                "/sys/class/infiniband/{}/ports/{}/gids/{}",
                first.id.device, first.id.port, gid.index
            ),
        }],
        "Leave NCCL_IB_GID_INDEX unset (NCCL 2.21 and later choose by address), or give the addresses of \
         all nodes in the same order.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Judgement, inspect, judge};
    use crate::ledger::testing::{events, ledger};
    use crate::model::testing::{facts, gid, port};
    use crate::model::{Event, Fact, LinkLayer, NodeName, Port};

    fn told(port: Port) -> Vec<Finding> {
        let facts = facts(vec![("mlx5_0", "0000:01:00.0", port)]);
        let mut said = inspect(&NodeName::from("node01"), &facts);
        said.findings.retain(|f| f.rule == Rule::GidIndex);
        said.findings
    }

    #[test]
    fn a_port_with_only_link_local_gids_is_noted() {
        let local = |kind| gid(1, "fe80::1", kind, 64);
        let with = |gids| Port { gids, ..port() };
        let v1 = gid(2, "::ffff:10.0.0.1", GidType::IbOrRoceV1, 24);
        let found = told(with(vec![local(GidType::RoceV2), v1]));
        assert_eq!(found[0].severity, Severity::Note);
        assert!(found[0].evidence[0].saw.starts_with("2 entries, none"));
        assert_eq!(told(with(vec![])).len(), 1);

        let v6 = gid(10, "fd00::1", GidType::RoceV2, 64);
        assert!(told(with(vec![local(GidType::RoceV2), v6])).is_empty());
        // A table that could not be read says nothing; InfiniBand has no such choice.
        let mut torn = with(vec![]);
        torn.unread = vec!["gids/3 is empty".into()];
        assert!(told(torn).is_empty());
        let mut infiniband = with(vec![]);
        infiniband.link_layer = Fact::known(LinkLayer::InfiniBand, "link_layer");
        assert!(told(infiniband).is_empty());
    }

    fn judged(index_of_node02: u32) -> Judgement {
        let mut events = events(3, 2, &|_, _, _| Some(391.0));
        for event in &mut events {
            if let Event::NodeSurveyed { node, facts } = event
                && *node == NodeName::from("node02")
                && let Fact::Known { value, .. } = &mut facts.rdma
            {
                value[1].ports[0].gids[0].index = index_of_node02;
            }
        }
        judge(&ledger(&events))
    }

    #[test]
    fn an_index_that_differs_is_noted_once() {
        let judgement = judged(5);
        assert_eq!(judgement.findings.len(), 1, "{:#?}", judgement.findings);
        let finding = &judgement.findings[0];
        assert_eq!(
            finding.says,
            "The RoCEv2 GID has not the same index everywhere: index 3 at mlx5_0 of node01 and 4 more, index 5 \
             at mlx5_1 of node02. A fixed NCCL_IB_GID_INDEX is wrong on some."
        );
        assert_eq!(finding.severity, Severity::Note);
        assert!(judged(3).findings.is_empty());
    }
}
