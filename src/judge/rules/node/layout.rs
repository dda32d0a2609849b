//! Where a node's GPUs and NICs are, by socket.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::NodeView;
use crate::model::{Fact, PciAddress, PcieTree, PortState, RdmaDevice};
use crate::topology::{PathClass, Sockets, path_class};

/// More are virtual functions, or made up.
pub(super) const MOST_NICS: usize = 64;

/// A GPU or a NIC, and where it is.
pub(super) struct Place<'a> {
    /// `GPU0`, or the RDMA device's name.
    pub name: String,
    /// Its function.
    pub address: &'a PciAddress,
    /// Its NUMA node.
    pub numa: u32,
    /// The socket of that, from 0.
    pub socket: usize,
}

/// What a node has of both.
pub(super) struct Layout<'a> {
    /// Where they hang.
    pub tree: &'a PcieTree,
    /// In the order of their addresses.
    pub gpus: Vec<Place<'a>>,
    /// One function of each card: a card with two ports is in one slot.
    pub nics: Vec<Place<'a>>,
    /// Whether the NICs are all of one model.
    one_model: bool,
}

/// A device before its socket is known.
type Named<'a> = (String, &'a PciAddress, u32);

/// RDMA devices that play a rail or could.
pub(super) fn counting<'a>(node: &NodeView<'a>) -> Vec<&'a RdmaDevice> {
    let all = node
        .facts
        .rdma
        .value()
        .map_or(&[][..], Vec::as_slice)
        .iter();
    let is_up = |device: &RdmaDevice| {
        let mut states = device.ports.iter().filter_map(|port| port.state.value());
        states.any(|state| matches!(state, PortState::Active | PortState::ActiveDefer))
    };
    let counts = |device: &&RdmaDevice| {
        is_up(device) || node.nics.iter().any(|nic| nic.device.name == device.name)
    };
    all.filter(counts).collect()
}

/// Where these NICs and the node's GPUs are.
///
/// # Errors
/// Why the NUMA node or the socket of one of them is unknown.
pub(super) fn layout<'a>(
    node: &NodeView<'a>,
    tree: &'a PcieTree,
    nics: &[&'a RdmaDevice],
) -> Result<Layout<'a>, String> {
    let gpus = tree.gpus().enumerate();
    let gpus = gpus.map(|(index, gpu)| {
        let at = &gpu.address;
        Ok((format!("GPU{index}"), at, numa(tree, at)?))
    });
    let gpus: Vec<Named<'_>> = gpus.collect::<Result<_, String>>()?;
    let (nics, one_model) = cards(tree, nics)?;
    let numa: BTreeSet<u32> = gpus.iter().chain(&nics).map(|(.., numa)| *numa).collect();
    let sockets = match &node.facts.numa {
        // One NUMA node is one socket, whatever the distances are.
        _ if numa.len() < 2 => None,
        Fact::Known { value, .. } => Some(Sockets::of(value)),
        Fact::Unknown { why } => {
            let what = "which NUMA nodes are of one socket is unknown";
            return Err(format!("{what}: {why}"));
        }
    };
    let place = |named| place(named, sockets.as_ref());
    Ok(Layout {
        tree,
        gpus: gpus.into_iter().map(place).collect::<Result<_, _>>()?,
        nics: nics.into_iter().map(place).collect::<Result<_, _>>()?,
        one_model,
    })
}

fn place<'a>(
    (name, address, numa): Named<'a>,
    sockets: Option<&Sockets>,
) -> Result<Place<'a>, String> {
    let socket = match sockets {
        Some(sockets) => sockets
            .socket(numa)
            .ok_or_else(|| format!("the distances of NUMA node {numa} are unknown"))?,
        None => 0,
    };
    Ok(Place {
        name,
        address,
        numa,
        socket,
    })
}

/// One function of each card, and whether all are of one model.
fn cards<'a>(
    tree: &'a PcieTree,
    nics: &[&'a RdmaDevice],
) -> Result<(Vec<Named<'a>>, bool), String> {
    let (mut cards, mut models, mut found) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for device in nics {
        // Software RDMA on a virtual interface is on no card.
        let Some(address) = device.pci.value() else {
            continue;
        };
        let Some(function) = tree.function(address) else {
            continue;
        };
        models.insert((function.vendor.value(), function.device.value()));
        let physical = function.physical_function.as_ref().and_then(Fact::value);
        let card = physical.unwrap_or(address).0.rsplit_once('.');
        if cards.insert(card.map(|(card, _)| card)) {
            found.push((device.name.clone(), address, numa(tree, address)?));
        }
    }
    Ok((found, models.len() == 1))
}

fn numa(tree: &PcieTree, address: &PciAddress) -> Result<u32, String> {
    match tree.function(address).map(|function| &function.numa_node) {
        Some(Fact::Known { value, .. }) => Ok(*value),
        Some(Fact::Unknown { why }) => Err(format!("the NUMA node of {address} is unknown: {why}")),
        None => Err(format!("the PCIe tree of the node has no {address}")),
    }
}

/// How many of these are on each socket.
fn by_socket(places: &[Place<'_>]) -> BTreeMap<usize, usize> {
    let mut count = BTreeMap::new();
    for place in places {
        *count.entry(place.socket).or_default() += 1;
    }
    count
}

/// The sockets whose GPUs lack NICs that are on another. Platforms with fewer NICs than sockets, or
/// with NICs for storage too, are built like that.
pub(super) fn lacking(layout: &Layout<'_>) -> Vec<usize> {
    let (gpus, nics) = (by_socket(&layout.gpus), by_socket(&layout.nics));
    let enough = layout.nics.len() >= gpus.len();
    // A NIC beside no GPU at all is meant for something else.
    let beside = nics.keys().all(|socket| gpus.contains_key(socket));
    let one_each = layout.nics.len() == layout.gpus.len() && layout.one_model && beside;
    let lacks = |(socket, gpus): (&usize, &usize)| {
        let own = nics.get(socket).copied().unwrap_or(0);
        let lacks = (own == 0 && enough) || (own < *gpus && one_each);
        lacks.then_some(*socket)
    };
    gpus.iter().filter_map(lacks).collect()
}

/// The NIC that is nearest to no GPU of its own: one whose socket has more than its share, and which
/// is farther from every GPU than the others there.
pub(super) fn misplaced<'l, 'a>(layout: &'l Layout<'a>) -> Option<&'l Place<'a>> {
    let (gpus, nics) = (by_socket(&layout.gpus), by_socket(&layout.nics));
    let share = |socket: &usize| {
        let own = gpus.get(socket).copied().unwrap_or(0);
        (layout.nics.len() * own / layout.gpus.len().max(1)).max(own.min(1))
    };
    let too_many =
        |place: &&Place<'_>| nics.get(&place.socket).copied().unwrap_or(0) > share(&place.socket);
    let nearest = |place: &Place<'_>| {
        let classes = layout
            .gpus
            .iter()
            .filter_map(|gpu| path_class(layout.tree, gpu.address, place.address).ok());
        classes.min()
    };
    let mut there: Vec<(Option<PathClass>, &Place<'_>)> = layout
        .nics
        .iter()
        .filter(too_many)
        .map(|place| (nearest(place), place))
        .collect();
    there.sort_by_key(|(class, _)| *class);
    match there[..] {
        [(_, only)] => Some(only),
        [.., (before, _), (last, place)] if last > before => Some(place),
        _ => None,
    }
}
