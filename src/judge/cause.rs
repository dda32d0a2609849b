//! Joins what was measured with what was surveyed: a cause is attached only where its arithmetic fits.

use crate::ledger::Ledger;
use crate::model::{Direction, End, Evidence, Gbps, LinkState, NicId, PcieTree, RdmaDevice};
use crate::topology::{LinkOnPath, PcieLimit, links_on_path, pcie_limit};

/// A measured rate fits a limit from here: protocol and other traffic take a little off it …
const FITS_FROM: f64 = 0.85;

/// … to here: nothing exceeds a limit by more than what its arithmetic leaves out.
const FITS_TO: f64 = 1.05;

/// Why an end is slow.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// In a sentence.
    pub says: String,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
}

/// The PCIe limit of a NIC; `None` where its place in the tree is unknown.
pub(super) fn limit(tree: &PcieTree, device: &RdmaDevice) -> Option<PcieLimit> {
    pcie_limit(tree, device.pci.value()?).ok()
}

/// The links above a NIC that run below what both of their ends are capable of.
pub(super) fn degraded(tree: &PcieTree, device: &RdmaDevice) -> Vec<LinkOnPath> {
    let Some(pci) = device.pci.value() else {
        return Vec::new();
    };
    let links = links_on_path(tree, pci).into_iter();
    links.filter(LinkOnPath::is_degraded).collect()
}

/// What the PCIe links above a NIC let through in a direction.
pub(super) fn share_of(limit: &PcieLimit, direction: Direction) -> Gbps {
    match direction {
        // A sender reads memory, a receiver writes it.
        Direction::Tx => limit.send,
        Direction::Rx => limit.receive,
    }
}

/// The survey's explanation of a measured shortfall, if it has one that fits: an x8 Gen5 link
/// explains 230 of 400 Gb/s, and not 120.
pub(super) fn explain(ledger: &Ledger, end: &End, measured: Gbps, expected: Gbps) -> Option<Cause> {
    let tree = ledger
        .get_node(&end.nic.node)?
        .facts
        .as_ref()?
        .pcie
        .value()?;
    let limit = limit(tree, ledger.device(&end.nic)?)?;
    let most = share_of(&limit, end.direction);
    let fits = (FITS_FROM..=FITS_TO).contains(&measured.share_of(most)?);
    if !fits || most.0 >= expected.0 {
        return None;
    }
    Some(Cause {
        says: format!("{}, which explains {most}.", in_words(&limit.narrowest)),
        evidence: vec![evidence(&limit.narrowest, &end.nic)],
    })
}

/// `Its PCIe link trained at Gen5 x8 (capable: Gen5 x16) at 0000:97:01.0`
pub(super) fn in_words(link: &LinkOnPath) -> String {
    let at = link.above.as_ref().unwrap_or(&link.below);
    let state = |state: Option<LinkState>| state.map_or("unknown".into(), |s| s.to_string());
    let now = state(link.current.clone().ok());
    match link.is_degraded() {
        true => format!(
            "Its PCIe link trained at {now} (capable: {}) at {at}",
            state(link.capable())
        ),
        false => format!("Its PCIe link at {at} is {now}, and its ends are capable of no more"),
    }
}

/// Where to look for it.
pub(super) fn evidence(link: &LinkOnPath, nic: &NicId) -> Evidence {
    let state = |state: Option<LinkState>| state.map_or("unknown".into(), |s| s.to_string());
    let above = match &link.above {
        Some(above) => format!(", of {above} above it {}", state(link.above_capable)),
        None => String::new(),
    };
    Evidence {
        saw: format!(
            "link of {} runs at {}; capability of {} {}{above}",
            link.below,
            state(link.current.clone().ok()),
            link.below,
            state(link.below_capable),
        ),
        from: format!(
            "{}: /sys/bus/pci/devices/*/current_link_{{speed,width}}",
            nic.node
        ),
    }
}
