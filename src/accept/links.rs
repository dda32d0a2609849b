//! Ports, their links and PCIe, and the memory that may be locked.

use std::collections::BTreeMap;

use super::run::Run;
use super::told::{Is, Told, Who};
use crate::config::{Bounds, PcieDemand, Select};
use crate::judge::{NicView, NodeView};
use crate::model::{Fact, Gbps, GidEntry, GidType, LinkLayer, LinkState, MemlockLimit, NicId};
use crate::topology::{LinkOnPath, links_on_path};

/// Where a port's facts are, for whoever reads the evidence.
fn place(nic: &NicView<'_>) -> String {
    format!(
        "/sys/class/infiniband/{}/ports/{}",
        nic.id.device, nic.id.port
    )
}

pub(super) fn mtu(run: &Run<'_>, select: &Select, bounds: &Bounds<u64>) -> Vec<Told> {
    run.each_nic(select, |_, nic, who| {
        let holds = |mtu: &u32| bounds.holds(&u64::from(*mtu));
        vec![Told::fact(who, &nic.port.active_mtu, holds, u32::to_string)]
    })
}

pub(super) fn width(run: &Run<'_>, select: &Select, bounds: &Bounds<u64>) -> Vec<Told> {
    run.each_nic(select, |_, nic, who| {
        if nic.device.software.is_some() {
            return vec![Told::unknown(who, SOFTWARE)];
        }
        let lanes = &nic.port.lanes;
        let holds = |lanes: &crate::model::Lanes| bounds.holds(&u64::from(lanes.count));
        vec![Told::fact(who, lanes, holds, ToString::to_string)]
    })
}

const SOFTWARE: &str = "it is software RDMA, which has no link of its own";

pub(super) fn rate(run: &Run<'_>, select: &Select, bounds: &Bounds<Gbps>) -> Vec<Told> {
    run.each_nic(select, |_, nic, who| {
        if nic.device.software.is_some() {
            return vec![Told::unknown(who, SOFTWARE)];
        }
        let told = Told::fact(
            who,
            &nic.port.rate,
            |rate| bounds.holds(rate),
            Gbps::to_string,
        );
        let state = nic
            .port
            .state
            .value()
            .map_or_else(String::new, ToString::to_string);
        vec![match nic.is_active() {
            true => told,
            // A port without a link states the slowest rate there is.
            false => told.evidence(format!("the port is {state}"), place(nic)),
        }]
    })
}

pub(super) fn layer(run: &Run<'_>, select: &Select, layer: LinkLayer) -> Vec<Told> {
    run.each_nic(select, |_, nic, who| {
        let holds = |seen: &LinkLayer| *seen == layer;
        vec![Told::fact(
            who,
            &nic.port.link_layer,
            holds,
            ToString::to_string,
        )]
    })
}

/// Of the GIDs that the NIC's probes used.
pub(super) fn gid_type(
    run: &Run<'_>,
    select: &Select,
    kind: GidType,
    layer: LinkLayer,
) -> Vec<Told> {
    let mut used: BTreeMap<&NicId, Vec<u32>> = BTreeMap::new();
    for probe in run.ledger.probes() {
        let planned = &probe.planned;
        let ends = [
            (&planned.pair.from, planned.route.from.gid_index),
            (&planned.pair.to, planned.route.to.gid_index),
        ];
        for (nic, index) in ends {
            let mine = used.entry(nic).or_default();
            if !mine.contains(&index) {
                mine.push(index);
            }
        }
    }
    run.each_nic(select, |_, nic, who| {
        let Some(used) = used.get(&nic.id) else {
            return vec![Told::unknown(
                who,
                "no probe of it was planned, so no GID was used",
            )];
        };
        let told = used
            .iter()
            .map(|index| gid_of(nic, *index, kind, layer, who.clone()));
        // One that is not right outweighs the others, then one that is not known.
        let mut told: Vec<Told> = told.collect();
        told.sort_by_key(|told| match told.is {
            Is::Fails => 0,
            Is::Unknown(_) => 1,
            Is::Holds => 2,
        });
        told.truncate(1);
        told
    })
}

fn gid_of(nic: &NicView<'_>, index: u32, kind: GidType, layer: LinkLayer, who: Who) -> Told {
    let is_it = |gid: &&GidEntry| gid.index == index;
    let Some(gid) = nic.port.gids.iter().find(is_it) else {
        return Told::unknown(who, format!("GID {index} of {} was not read", nic.id));
    };
    let Some(speaks) = nic.port.link_layer.value() else {
        let why = nic.port.link_layer.why_unknown().unwrap_or_default();
        return Told::unknown(who, format!("the link layer is unknown: {why}"));
    };
    let [_, word, address, _] = gid.columns(Some(speaks));
    let holds = |seen: &GidType| *seen == kind && *speaks == layer;
    Told::fact(who, &gid.kind, holds, |_| {
        format!("{word} (GID {index}, {address})")
    })
}

pub(super) fn memlock(run: &Run<'_>, select: &Select, least: MemlockLimit) -> Vec<Told> {
    run.each_node(select, |view| {
        let holds = |seen: &MemlockLimit| match (seen, least) {
            (MemlockLimit::Unlimited, _) => true,
            (MemlockLimit::Bytes(_), MemlockLimit::Unlimited) => false,
            (MemlockLimit::Bytes(seen), MemlockLimit::Bytes(least)) => *seen >= least,
        };
        Told::fact(
            Who::node(view.name),
            &view.facts.memlock,
            holds,
            ToString::to_string,
        )
    })
}

/// Every link from a NIC up to its root.
pub(super) fn pcie(run: &Run<'_>, select: &Select, demand: PcieDemand) -> Vec<Told> {
    run.each_nic(select, |view, nic, who| {
        vec![pcie_of(view, nic, demand, who)]
    })
}

fn pcie_of(view: &NodeView<'_>, nic: &NicView<'_>, demand: PcieDemand, who: Who) -> Told {
    let Some(tree) = view.pcie() else {
        let why = view.facts.pcie.why_unknown();
        return Told::unknown(
            who,
            why.unwrap_or("the PCIe tree is larger than that of any machine"),
        );
    };
    let address = match &nic.device.pci {
        Fact::Known { value, .. } => value,
        Fact::Unknown { why } => return Told::unknown(who, why.as_str()),
    };
    let links = links_on_path(tree, address);
    match tree.chain(address).last() {
        None => return Told::unknown(who, format!("the PCIe tree of the node has no {address}")),
        Some(last) if last.parent.is_some() => {
            let why = format!("what is above {} in the PCIe tree is unknown", last.address);
            return Told::unknown(who, why);
        }
        Some(_) => {}
    }
    let told: Vec<_> = links
        .iter()
        .map(|link| (link, link_holds(link, demand)))
        .collect();
    let name = |link: &LinkOnPath| {
        format!(
            "/sys/bus/pci/devices/{}/current_link_{{speed,width}}",
            link.below
        )
    };
    if let Some((link, Ok((_, saw)))) = told
        .iter()
        .find(|(_, holds)| matches!(holds, Ok((false, _))))
    {
        let saw = format!("{saw} above {}", link.below);
        return Told::seen(who, false, saw).from(name(link));
    }
    if let Some((link, Err(why))) = told.iter().find(|(_, holds)| holds.is_err()) {
        return Told::unknown(
            who,
            format!("the link above {} is unknown: {why}", link.below),
        );
    }
    let all: Vec<&str> = told
        .iter()
        .filter_map(|(_, holds)| Some(holds.as_ref().ok()?.1.as_str()))
        .collect();
    Told::seen(who, true, all.join(", "))
}

/// Whether a link is what it should be, and what it is.
fn link_holds(link: &LinkOnPath, demand: PcieDemand) -> Result<(bool, String), String> {
    let current: LinkState = link.current.clone()?;
    match demand {
        PcieDemand::AtLeast { speed, width } => {
            let fast = speed.is_none_or(|speed| current.speed >= speed);
            let wide = width.is_none_or(|width| current.width >= width);
            Ok((fast && wide, current.to_string()))
        }
        PcieDemand::Capable => {
            // An upper end that is not told of is none: the root bus, or a hypervisor's.
            let capable = link.below_capable.and_then(|_| link.capable());
            let capable = capable.ok_or("what it is capable of was not read")?;
            let holds = current.speed >= capable.speed && current.width >= capable.width;
            let saw = match holds {
                true => current.to_string(),
                false => format!("{current}, capable of {capable}"),
            };
            Ok((holds, saw))
        }
    }
}
