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
               with mode and transmit hash; where that is unknown the name that mlx5 gives such devices, \
               mlx5_bond_N. A note, in a run once for each device name.",
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
        if is_bonded(nic) {
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

/// By its interface, else by the name that mlx5 gives devices on a bond (mlx5_ib_alloc_lag_dev).
fn is_bonded(nic: &NicView<'_>) -> bool {
    bond(nic).is_some() || nic.id.device.starts_with("mlx5_bond_")
}

fn note(nic: &NicView<'_>, others: usize) -> Option<Finding> {
    if !is_bonded(nic) {
        return None;
    }
    let others = match others {
        0 => String::new(),
        1 => " (and on 1 more node)".to_owned(),
        others => format!(" (and on {others} more nodes)"),
    };
    let known = bond(nic).and_then(|fact| Some((fact.value()?, fact.source()?)));
    let mode = known.and_then(|(bond, _)| bond.mode.value());
    let spreads = match mode.map(String::as_str) {
        Some("active-backup") => "only one member carries traffic at a time",
        _ => "each queue pair stays on one member",
    };
    let name = known.map_or("a bond".to_owned(), |(bond, _)| {
        format!("the bond {}", bond.name)
    });
    Some(plain(
        Rule::Bond,
        Severity::Note,
        nic.subject(None),
        format!("{}{others} sits on {name}: {spreads}.", nic.in_words()),
        vec![match known {
            Some((bond, from)) => seen(bond, from),
            None => Evidence {
                saw: format!("the name {}", nic.id.device),
                from: "/sys/class/infiniband".into(),
            },
        }],
        ABOUT.remedy,
    ))
}

fn seen(bond: &Bond, from: &str) -> Evidence {
    let word = |fact: &Fact<String>| fact.value().map_or("unknown", String::as_str).to_owned();
    let members = match &bond.members {
        Fact::Known { value, .. } => value.join(", "),
        Fact::Unknown { .. } => "unknown".to_owned(),
    };
    Evidence {
        saw: format!(
            "mode {}, hash {}, members {members}",
            word(&bond.mode),
            word(&bond.hash)
        ),
        from: from.to_owned(),
    }
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
        told_of("mlx5_0", netdev)
    }

    fn told_of(name: &str, netdev: Fact<Netdev>) -> Vec<Finding> {
        let port = Port { netdev, ..port() };
        let facts = facts(vec![(name, "0000:01:00.0", port)]);
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
            "NIC mlx5_0 of node01 sits on the bond bond0: each queue pair stays on one member."
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
        let by_name = told_of("mlx5_bond_0", Fact::unknown("no netdev"));
        assert!(by_name[0].says.contains("sits on a bond: each"));
        assert_eq!(by_name[0].evidence[0].saw, "the name mlx5_bond_0");
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
