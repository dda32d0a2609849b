//! RoCE without anything that keeps its packets from being dropped.

use super::Said;
use crate::judge::rules::{About, plain};
use crate::judge::{NicView, NodeView};
use crate::model::{Evidence, Fact, Finding, Lossless, NetdevSettings, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::LossyRoce,
    means: "On a RoCE port no priority is paused (PFC), the link is not paused as a whole, and nothing slows down \
            on congestion marks (ECN, DCQCN). When several senders meet at one port the switch drops packets, \
            and RoCE resends from the lost one on: throughput falls to almost nothing, though a pair by \
            itself runs at line rate.",
    detected: "PFC by DCB netlink, pause by ethtool netlink, ECN in /sys/class/net/X/ecn/roce_{np,rp}/enable \
               (MLNX_OFED and DOCA). A warning where all are known to be off. Cannot be told where none is on \
               and one is unknown: ECN is, with the kernel's own driver. Not asked of virtual machines, whose \
               host has the say, nor of software RDMA.",
    remedy: "Trust DSCP and pause one priority (mlnx_qos -i X --trust dscp --pfc 0,0,0,1,0,0,0,0), mark RoCE with a \
             DSCP of that priority (traffic class 106 is DSCP 26), enable ECN for it, and set the switches alike; \
             or use a congestion control made for lossy fabrics.",
};

/// Whether anything holds loss off.
#[derive(Debug, PartialEq)]
enum Held {
    /// Something does.
    Yes,
    /// Nothing does.
    No,
    /// Nothing known does, and this is unknown.
    Unknown(&'static str),
}

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let tree = node.pcie();
    // A guest's settings are its host's business.
    if tree.is_none_or(|tree| tree.virtual_machine.value() != Some(&false)) {
        return;
    }
    let mut lossy = Vec::new();
    for nic in &node.nics {
        let is_card = nic.device.software.is_none() && nic.is_active() && nic.is_roce();
        let Some(netdev) = nic.port.netdev.value().filter(|_| is_card) else {
            continue;
        };
        match held(&netdev.settings) {
            Held::Yes => {}
            Held::No => lossy.push((nic, &netdev.settings.lossless)),
            Held::Unknown(why) => said.cannot_tell(Rule::LossyRoce, nic.subject(None), why),
        }
    }
    said.findings.extend(finding(node, &lossy));
}

fn held(settings: &NetdevSettings) -> Held {
    let lossless = &settings.lossless;
    let on = |fact: &Fact<_>| {
        fact.value()
            .map(|p: &crate::model::Priorities| !p.is_empty())
    };
    let pause = settings.pause.value().map(|pause| pause.rx || pause.tx);
    let (pfc, react) = (on(&lossless.pfc), on(&lossless.ecn_react));
    match (pfc, pause, react) {
        (Some(true), ..) | (_, Some(true), _) | (.., Some(true)) => Held::Yes,
        (Some(false), Some(false), Some(false)) => Held::No,
        (None, ..) => Held::Unknown(
            "neither DCB nor MLNX_OFED says whether a priority is paused (PFC): ask mlnx_qos or the maker's tool",
        ),
        (_, None, _) => {
            Held::Unknown("PFC is off, and whether the link is paused is unknown: ask ethtool -a")
        }
        (.., None) => Held::Unknown(
            "PFC and pause are off, and only MLNX_OFED and DOCA tell whether ECN is on",
        ),
    }
}

/// One finding for the node: its NICs are set alike.
fn finding(node: &NodeView<'_>, lossy: &[(&NicView<'_>, &Lossless)]) -> Option<Finding> {
    const TOLD: usize = 8;
    lossy.first()?;
    let names: Vec<_> = lossy
        .iter()
        .map(|(nic, _)| nic.id.device.as_str())
        .collect();
    let evidence = lossy.iter().take(TOLD).flat_map(|(nic, lossless)| {
        let seen = |what: &str, fact: &Fact<crate::model::Priorities>| {
            Some(Evidence {
                saw: format!("{} of {}: {}", what, nic.id.device, fact.value()?),
                from: fact.source()?.to_owned(),
            })
        };
        [
            seen("priorities with PFC", &lossless.pfc),
            seen("priorities with ECN", &lossless.ecn_react),
        ]
    });
    Some(plain(
        Rule::LossyRoce,
        Severity::Warning,
        node.subject(),
        format!(
            "Nothing keeps RoCE of {} of {} from being dropped: PFC, pause and ECN are off.",
            names.join(", "),
            node.name
        ),
        evidence.flatten().collect(),
        ABOUT.remedy,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::inspect;
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{Netdev, NodeFacts, NodeName, Pause, Priorities};

    fn with(pfc: Fact<Priorities>, pause: Fact<Pause>, ecn: Fact<Priorities>) -> NodeFacts {
        let mut netdev = Netdev::default();
        netdev.settings.lossless.pfc = pfc;
        netdev.settings.lossless.ecn_react = ecn;
        netdev.settings.pause = pause;
        let mut facts = TwoSockets::facts();
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value.truncate(2);
            for device in value {
                device.ports[0].netdev = Fact::known(netdev.clone(), "ndevs");
            }
        }
        facts
    }

    fn told(facts: &NodeFacts) -> Said {
        let mut said = inspect(&NodeName::from("node01"), facts);
        said.findings.retain(|f| f.rule == Rule::LossyRoce);
        said.cannot_tell.retain(|c| c.rule == Rule::LossyRoce);
        said
    }

    fn set(bits: u8) -> Fact<Priorities> {
        Fact::known(Priorities(bits), "test")
    }

    fn pause(on: bool) -> Fact<Pause> {
        Fact::known(Pause { rx: on, tx: on }, "ethtool pause")
    }

    #[test]
    fn a_port_with_everything_off_is_warned_of_once_for_the_node() {
        let said = told(&with(set(0), pause(false), set(0)));
        assert_eq!(said.findings.len(), 1);
        assert_eq!(said.findings[0].severity, Severity::Warning);
        assert_eq!(
            said.findings[0].says,
            "Nothing keeps RoCE of mlx5_0, mlx5_1 of node01 from being dropped: PFC, pause and ECN are off."
        );
        assert_eq!(said.findings[0].evidence.len(), 4);
    }

    #[test]
    fn one_thing_that_holds_loss_off_is_enough() {
        let unknown = Fact::unknown("test");
        for facts in [
            with(set(8), pause(false), unknown.clone()),
            with(set(0), pause(true), unknown.clone()),
            with(unknown, pause(false), set(255)),
        ] {
            assert_eq!(told(&facts), Said::default());
        }
    }

    #[test]
    fn what_is_unknown_is_said_for_hardware_only() {
        let off = || with(set(0), pause(false), Fact::unknown("no OFED"));
        let said = told(&off());
        assert!(said.findings.is_empty());
        assert!(said.cannot_tell[0].why.contains("whether ECN is on"));
        assert_eq!(
            said.cannot_tell[0].why, said.cannot_tell[1].why,
            "they share a line"
        );

        let mut software = off();
        if let Fact::Known { value, .. } = &mut software.rdma {
            for device in value {
                device.software = Some(crate::model::SoftwareRdma::Rxe);
            }
        }
        assert_eq!(told(&software), Said::default());
        let mut guest = off();
        if let Fact::Known { value, .. } = &mut guest.pcie {
            value.virtual_machine = Fact::known(true, "/proc/cpuinfo");
        }
        assert_eq!(told(&guest), Said::default());
    }
}
