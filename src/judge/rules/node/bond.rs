//! An RDMA device on a bond: each queue pair stays on one member.

use std::collections::BTreeMap;

use super::Said;
use crate::judge::rules::{About, plain};
use crate::judge::{NicView, NodeView};
use crate::model::{Bond, Evidence, Fact, Finding, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::Bond,
    means: "The RDMA device sits on a bond of two or more ports. Each queue pair is bound to one of them, so \
            that one queue pair moves the rate of one port, and a few may all land on the same one: half \
            of the bond's rate is then no fault of the NIC.",
    detected: "The interface behind the RDMA port: /sys/class/net/X/bonding and the link master of a member, \
               with mode and transmit hash. A note, in a run once for each device name.",
    remedy: "Measure with several queue pairs (1, 2, 4, 8), set NCCL_IB_QPS_PER_CONNECTION=4 or more and \
             NCCL_IB_SPLIT_DATA_ON_QPS=1, and use a hash of layer3+4.",
};

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let alone = node.nics.iter().filter(|nic| nic.rail.is_none());
    said.findings.extend(alone.filter_map(|nic| note(nic, 0)));
}

/// A run's NICs on bonds, those of one name together.
pub(in crate::judge::rules) fn across(nodes: &[NodeView<'_>], said: &mut Said) {
    let mut by_name: BTreeMap<&str, Vec<&NicView<'_>>> = BTreeMap::new();
    for nic in nodes.iter().flat_map(|node| &node.nics) {
        if bond(nic).is_some() {
            by_name.entry(&nic.id.device).or_default().push(nic);
        }
    }
    let notes = by_name
        .values()
        .filter_map(|nics| note(nics.first()?, nics.len() - 1));
    said.findings.extend(notes);
}

fn bond<'a>(nic: &NicView<'a>) -> Option<&'a Fact<Bond>> {
    let bond = nic.port.netdev.value()?.settings.bond.as_ref()?;
    bond.value().is_some().then_some(bond)
}

fn note(nic: &NicView<'_>, others: usize) -> Option<Finding> {
    let fact = bond(nic)?;
    let bond = fact.value()?;
    let others = match others {
        0 => String::new(),
        1 => " (and on 1 more node)".to_owned(),
        others => format!(" (and on {others} more nodes)"),
    };
    let spreads = match bond.mode.value().map(String::as_str) {
        Some("active-backup") => "only one member carries traffic at a time",
        _ => "each queue pair stays on one member",
    };
    let mode = |fact: &Fact<String>| fact.value().map_or("unknown", String::as_str).to_owned();
    let members = match &bond.members {
        Fact::Known { value, .. } => value.join(", "),
        Fact::Unknown { .. } => "unknown".to_owned(),
    };
    Some(plain(
        Rule::Bond,
        Severity::Note,
        nic.subject(None),
        format!(
            "{}{others} sits on the bond {}: {spreads}.",
            nic.in_words(),
            bond.name
        ),
        vec![Evidence {
            saw: format!(
                "mode {}, hash {}, members {members}",
                mode(&bond.mode),
                mode(&bond.hash)
            ),
            from: fact.source().unwrap_or_default().to_owned(),
        }],
        ABOUT.remedy,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{inspect, judge};
    use crate::ledger::testing::{events, ledger};
    use crate::model::testing::{facts, port};
    use crate::model::{Event, Netdev, NodeName, Port};

    fn bonded(mode: &str) -> Fact<Netdev> {
        let bond = Bond {
            name: "bond0".into(),
            mode: Fact::known(mode.into(), "mode"),
            hash: Fact::known("layer3+4".into(), "xmit_hash_policy"),
            members: Fact::known(vec!["eth1".into(), "eth2".into()], "slaves"),
        };
        let mut netdev = Netdev {
            name: "bond0".into(),
            ..Netdev::default()
        };
        netdev.settings.bond = Some(Fact::known(bond, "/sys/class/net/bond0/bonding"));
        Fact::known(netdev, "ndevs")
    }

    fn told(netdev: Fact<Netdev>) -> Vec<Finding> {
        let port = Port { netdev, ..port() };
        let facts = facts(vec![("mlx5_bond_0", "0000:01:00.0", port)]);
        let mut said = inspect(&NodeName::from("node01"), &facts);
        said.findings.retain(|f| f.rule == Rule::Bond);
        said.findings
    }

    #[test]
    fn a_device_on_a_bond_is_noted() {
        let found = told(bonded("802.3ad"));
        assert_eq!(found[0].severity, Severity::Note);
        assert_eq!(
            found[0].says,
            "NIC mlx5_bond_0 of node01 sits on the bond bond0: each queue pair stays on one member."
        );
        assert_eq!(
            found[0].evidence[0].saw,
            "mode 802.3ad, hash layer3+4, members eth1, eth2"
        );
        assert!(
            told(bonded("active-backup"))[0]
                .says
                .contains("only one member")
        );
        assert!(told(Fact::known(Netdev::default(), "ndevs")).is_empty());
        assert!(told(Fact::unknown("no netdev")).is_empty());
    }

    #[test]
    fn a_run_says_it_once_for_a_name() {
        let mut events = events(4, 1, &|_, _, _| Some(391.0));
        for event in &mut events {
            if let Event::NodeSurveyed { facts, .. } = event
                && let Fact::Known { value, .. } = &mut facts.rdma
            {
                value[0].ports[0].netdev = bonded("802.3ad");
            }
        }
        let found = judge(&ledger(&events)).findings;
        let notes: Vec<_> = found.iter().filter(|f| f.rule == Rule::Bond).collect();
        assert_eq!(notes.len(), 1, "{found:#?}");
        assert!(
            notes[0].says.contains("(and on 3 more nodes)"),
            "{}",
            notes[0].says
        );
    }
}
