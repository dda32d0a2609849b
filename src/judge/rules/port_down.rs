//! A NIC whose port carries no traffic.

use super::{About, Context, plain};
use crate::model::{Evidence, Finding, PortState, Rule, Severity, Subject};

pub(super) const ABOUT: About = About {
    rule: Rule::PortDown,
    means: "The port of a NIC that plays a rail is not ACTIVE: no traffic goes through it. Ports that play no rail may be down: nobody uses them.",
    detected: "state and phys_state below /sys/class/infiniband/DEV/ports/N.",
    remedy: "Check cable, transceiver and switch port, and that the interface is up; on InfiniBand in INIT, that a subnet manager runs.",
};

pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let ledger = context.ledger;
    let down = ledger.players().filter_map(|(rail, nic, number)| {
        let brief = ledger.port(number).filter(|port| port.is_down)?;
        let facts = ledger.get_node(&nic.node)?.facts.as_ref()?;
        let (_, port) = brief.among(facts)?;
        let state = port.state.value()?;
        let physical = port
            .physical_state
            .value()
            .map(|p| format!(" ({p})"))
            .unwrap_or_default();
        let from = port.state.source().unwrap_or_default().to_owned();
        Some(plain(
            Rule::PortDown,
            Severity::Fault,
            Subject::Nic(nic.clone(), rail, None),
            format!("The port of {nic} ({rail}) is {state}{physical}: it carries no traffic."),
            vec![Evidence {
                saw: format!("state {state}{physical}"),
                from,
            }],
            remedy(*state),
        ))
    });
    down.collect()
}

fn remedy(state: PortState) -> &'static str {
    match state {
        PortState::Init | PortState::Armed => {
            "The link is up but not configured: is a subnet manager running on this fabric?"
        }
        _ => "Check cable, transceiver and switch port, and that the interface is up (ip link).",
    }
}
