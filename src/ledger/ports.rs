//! Ports of NICs in brief: what is asked of thousands of them again and again, in one place in memory.

use crate::model::{
    Fact, Gbps, LinkLayer, NicId, NodeFacts, Port, PortState, RdmaDevice, SoftwareRdma,
};

/// A port as its node was surveyed.
#[derive(Debug, Clone, PartialEq)]
pub struct PortBrief {
    /// Its rate, as the port says it: for InfiniBand the signalling rate.
    pub rate: Fact<Gbps>,
    /// What its link speaks.
    pub layer: Option<LinkLayer>,
    /// The software that makes it up, where it is no hardware.
    pub software: Option<SoftwareRdma>,
    /// Whether it is known to carry no traffic.
    pub is_down: bool,
    /// The place of its device among those of its node, and its own among those of the device.
    place: [usize; 2],
}

impl PortBrief {
    /// A port in brief, wherever it is.
    pub fn of(device: &RdmaDevice, port: &Port) -> Self {
        let state = port.state.value();
        Self {
            rate: port.rate.clone(),
            layer: port.link_layer.value().copied(),
            software: device.software,
            is_down: state
                .is_some_and(|s| !matches!(s, PortState::Active | PortState::ActiveDefer)),
            place: [0; 2],
        }
    }

    /// The port that a NIC is, among the facts of its node.
    pub(super) fn look_for(nic: &NicId, facts: &NodeFacts) -> Option<Self> {
        let devices = facts.rdma.value()?;
        let at = devices.iter().position(|d| d.name == nic.device)?;
        let device = &devices[at];
        let mut ports = device.ports.iter();
        let port = ports.position(|port| port.number == nic.port)?;
        Some(Self {
            place: [at, port],
            ..Self::of(device, &device.ports[port])
        })
    }

    /// All of it, among the facts of its node.
    pub fn among<'f>(&self, facts: &'f NodeFacts) -> Option<(&'f RdmaDevice, &'f Port)> {
        let [device, port] = self.place;
        let device = facts.rdma.value()?.get(device)?;
        Some((device, device.ports.get(port)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{events, ledger};
    use super::*;
    use crate::model::Event;

    #[test]
    fn a_port_is_that_of_its_nic_also_after_a_survey_that_has_it_elsewhere() {
        let mut events = events(2, 3, &|_, _, _| Some(391.0));
        let surveyed = |event: &&Event| matches!(event, Event::NodeSurveyed { .. });
        let mut again = events.iter().find(surveyed).unwrap().clone();
        if let Event::NodeSurveyed { facts, .. } = &mut again
            && let Fact::Known { value, .. } = &mut facts.rdma
        {
            value.reverse();
            for device in &mut **value {
                device.ports[0].state = Fact::known(PortState::Down, "state");
            }
            value.pop();
        }
        let check = |events: &[Event], gone: usize, down: usize| {
            let ledger = ledger(events);
            let found = ledger.players().map(|(_, nic, number)| {
                let facts = ledger.get_node(&nic.node).unwrap().facts.as_ref().unwrap();
                let brief = ledger.port(number);
                let found = brief.and_then(|brief| brief.among(facts));
                assert_eq!(
                    found.map(|(device, _)| &device.name),
                    facts.device(nic, crate::model::Rail(0)).map(|d| &d.name)
                );
                assert_eq!(
                    brief.map(|b| b.rate.clone()),
                    found.map(|(_, p)| p.rate.clone())
                );
                [brief.is_none(), brief.is_some_and(|b| b.is_down)].map(usize::from)
            });
            let counted = found.fold([0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
            assert_eq!(counted, [gone, down]);
        };
        check(&events, 0, 0);
        events.push(again);
        check(&events, 1, 2);
    }
}
