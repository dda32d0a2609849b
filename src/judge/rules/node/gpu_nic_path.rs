//! GPUs whose NICs are all behind the interconnect between sockets, while the node has enough of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::NodeView;
use crate::judge::rules::{About, Said, plain};
use crate::model::{
    Evidence, Fact, Finding, PciAddress, PcieTree, PortState, RdmaDevice, Rule, Severity,
};
use crate::topology::{PathClass, Sockets, path_class};

pub(super) const ABOUT: About = About {
    rule: Rule::GpuNicPath,
    means: "A GPU reaches its NICs only across the interconnect between sockets, though the node has \
            enough NICs for every socket: one of them sits in the wrong slot. GPUDirect across that \
            interconnect moves about half of what a NIC on the GPU's own side moves, or less.",
    detected: "The PCIe tree of /sys/bus/pci/devices with numa_node of each GPU and NIC, and the distances \
               in /sys/devices/system/node. A socket that has GPUs and no NIC is named where the node has \
               as many cards as sockets with GPUs; one that has fewer NICs than GPUs where there is one of \
               a kind for each GPU. A fault where most siblings have it better, else a warning. Cannot be \
               told where the NUMA node of a GPU or NIC is unknown.",
    remedy: REMEDY,
};

const REMEDY: &str = "Move the card to a slot of the socket (best: of the switch) that its GPU is on; compare the \
                      affinity matrix of linerate inspect with that of a sibling node.";

/// More are virtual functions, or made up.
const MOST_NICS: usize = 64;

/// How many devices a finding lists.
const SHOWN: usize = 8;

/// A GPU or a NIC, and where it is.
struct Place<'a> {
    name: String,
    address: &'a PciAddress,
    numa: u32,
    socket: usize,
}

/// What the node has of both.
struct Layout<'a> {
    tree: &'a PcieTree,
    gpus: Vec<Place<'a>>,
    /// One function of each card: a card with two ports is in one slot.
    nics: Vec<Place<'a>>,
    /// Whether the NICs are all of one model.
    one_model: bool,
}

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let Some(tree) = node.pcie() else { return };
    let nics = devices(node);
    if tree.gpus().next().is_none() || nics.is_empty() || nics.len() > MOST_NICS {
        return;
    }
    match layout(node, tree, &nics) {
        Ok(layout) => said.findings.extend(
            lacking(&layout)
                .into_iter()
                .map(|socket| finding(node, &layout, socket)),
        ),
        Err(why) => said.cannot_tell(Rule::GpuNicPath, node.subject(), why),
    }
}

/// RDMA devices that play a rail or could.
fn devices<'a>(node: &NodeView<'a>) -> Vec<&'a RdmaDevice> {
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

fn layout<'a>(
    node: &NodeView<'a>,
    tree: &'a PcieTree,
    nics: &[&'a RdmaDevice],
) -> Result<Layout<'a>, String> {
    let numa = |address: &PciAddress| match tree.function(address).map(|f| &f.numa_node) {
        Some(Fact::Known { value, .. }) => Ok(*value),
        Some(Fact::Unknown { why }) => Err(format!("the NUMA node of {address} is unknown: {why}")),
        None => Err(format!("the PCIe tree of the node has no {address}")),
    };
    let mut gpus = Vec::new();
    for (index, gpu) in tree.gpus().enumerate() {
        gpus.push((format!("GPU{index}"), &gpu.address, numa(&gpu.address)?));
    }
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
        let card = card.map(|(card, _)| card);
        if cards.insert(card) {
            found.push((device.name.clone(), address, numa(address)?));
        }
    }
    let several: BTreeSet<u32> = gpus.iter().chain(&found).map(|(.., numa)| *numa).collect();
    let sockets = match &node.facts.numa {
        // One NUMA node is one socket, whatever the distances are.
        _ if several.len() < 2 => None,
        Fact::Known { value, .. } => Some(Sockets::of(value)),
        Fact::Unknown { why } => {
            return Err(format!(
                "which NUMA nodes are of one socket is unknown: {why}"
            ));
        }
    };
    let place = |(name, address, numa): (String, &'a PciAddress, u32)| {
        let socket = match &sockets {
            Some(sockets) => sockets
                .socket(numa)
                .ok_or_else(|| format!("the distances of NUMA node {numa} are unknown"))?,
            None => 0,
        };
        Ok::<_, String>(Place {
            name,
            address,
            numa,
            socket,
        })
    };
    Ok(Layout {
        tree,
        gpus: gpus.into_iter().map(place).collect::<Result<_, _>>()?,
        nics: found.into_iter().map(place).collect::<Result<_, _>>()?,
        one_model: models.len() == 1,
    })
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
fn lacking(layout: &Layout<'_>) -> Vec<usize> {
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
fn misplaced<'l, 'a>(layout: &'l Layout<'a>) -> Option<&'l Place<'a>> {
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

fn finding(node: &NodeView<'_>, layout: &Layout<'_>, socket: usize) -> Finding {
    let gpus: Vec<_> = layout
        .gpus
        .iter()
        .filter(|gpu| gpu.socket == socket)
        .collect();
    let misplaced = misplaced(layout);
    let nic =
        misplaced.and_then(|place| node.nics.iter().find(|nic| nic.device.name == place.name));
    let subject = match (nic, &gpus[..]) {
        (Some(nic), _) => nic.subject(None),
        (None, [gpu]) => node.device(gpu.name.clone()),
        (None, _) => node.subject(),
    };
    let evidence = gpus
        .iter()
        .copied()
        .take(SHOWN)
        .map(|gpu| classes(node, layout, gpu));
    let nics = layout.nics.iter().take(SHOWN).map(|nic| numa(node, nic));
    plain(
        Rule::GpuNicPath,
        Severity::Warning,
        subject,
        says(node, layout, &gpus, misplaced),
        evidence.chain(nics).collect(),
        REMEDY,
    )
}

fn says(
    node: &NodeView<'_>,
    layout: &Layout<'_>,
    gpus: &[&Place<'_>],
    misplaced: Option<&Place<'_>>,
) -> String {
    let own: Vec<_> = layout
        .nics
        .iter()
        .filter(|nic| nic.socket == gpus[0].socket)
        .collect();
    let others = layout
        .nics
        .iter()
        .filter(|nic| nic.socket != gpus[0].socket);
    let (names, elsewhere) = (list(gpus.iter().copied()), list(others));
    let reach = if gpus.len() == 1 { "reaches" } else { "reach" };
    let lack = match own.len() {
        0 => format!("{reach} every NIC only across the interconnect between sockets (SYS)"),
        count => format!("have {count} NICs on their socket"),
    };
    let hint = match misplaced {
        Some(nic) => format!(" {} is the nearest of no GPU there.", nic.name),
        None => String::new(),
    };
    let at = gpus[0].numa;
    format!(
        "{names} of {} (NUMA node {at}) {lack}; on another are {elsewhere}.{hint}",
        node.name
    )
}

/// `mlx5_0 (NUMA node 0), mlx5_1 (NUMA node 0) and 6 more`
fn list<'p, 'a: 'p>(places: impl Iterator<Item = &'p Place<'a>>) -> String {
    let names: Vec<&str> = places.map(|place| &*place.name).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}

/// A GPU's row of the matrix.
fn classes(node: &NodeView<'_>, layout: &Layout<'_>, gpu: &Place<'_>) -> Evidence {
    let class = |nic: &Place<'_>| match path_class(layout.tree, gpu.address, nic.address) {
        Ok(class) => format!("{} {class}", nic.name),
        Err(_) => format!("{} ?", nic.name),
    };
    let row: Vec<_> = layout.nics.iter().take(SHOWN).map(class).collect();
    Evidence {
        saw: format!(
            "{} ({}): NUMA node {}; {}",
            gpu.name,
            gpu.address,
            gpu.numa,
            row.join(", ")
        ),
        ..numa(node, gpu)
    }
}

fn numa(node: &NodeView<'_>, place: &Place<'_>) -> Evidence {
    Evidence {
        saw: format!(
            "{} ({}): NUMA node {}",
            place.name, place.address, place.numa
        ),
        from: format!(
            "{}: /sys/bus/pci/devices/{}/numa_node",
            node.name, place.address
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Said, inspect};
    use crate::model::NodeFacts;
    use crate::model::testing::pcie::{TwoSockets, numa};

    /// The node with two sockets, with these of its NICs and GPUs alone.
    fn with(devices: &[&str]) -> NodeFacts {
        use crate::model::PciRole::Bridge;
        let mut facts = TwoSockets::facts();
        if let Fact::Known { value, .. } = &mut facts.pcie {
            value
                .functions
                .retain(|f| f.role == Bridge || devices.contains(&&*f.address.0));
        }
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value.retain(|device| devices.contains(&&*device.pci.value().unwrap().0));
        }
        facts
    }

    fn said(facts: &NodeFacts) -> Said {
        let mut said = inspect(&"node02".into(), facts);
        said.findings
            .retain(|finding| finding.rule == Rule::GpuNicPath);
        said.cannot_tell
            .retain(|line| line.rule == Rule::GpuNicPath);
        said
    }

    const GPU0: &str = TwoSockets::GPU0;
    const GPU2: &str = TwoSockets::GPU2;
    const NIC0: &str = TwoSockets::NIC0;
    const NIC1: &str = TwoSockets::NIC1;

    #[test]
    fn a_nic_on_the_wrong_socket_is_named_with_the_gpu_that_lacks_it() {
        let said = said(&with(&[GPU0, GPU2, NIC0, NIC1]));
        let [finding] = &said.findings[..] else {
            panic!("{said:#?}")
        };
        assert_eq!(finding.subject.to_string(), "mlx5_1 of node02");
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.says,
            "GPU1 of node02 (NUMA node 1) reaches every NIC only across the interconnect between \
             sockets (SYS); on another are mlx5_0, mlx5_1. mlx5_1 is the nearest of no GPU there."
        );
        assert_eq!(
            finding.evidence[0].saw,
            "GPU1 (0000:c5:00.0): NUMA node 1; mlx5_0 SYS, mlx5_1 SYS"
        );
    }

    #[test]
    fn platforms_that_are_built_like_that_are_not_accused() {
        for devices in [
            // Fewer NICs than sockets with GPUs, also where the one card has two ports.
            &[GPU0, GPU2, NIC0][..],
            &[GPU0, GPU2, TwoSockets::NIC2, TwoSockets::NIC3],
            // Each socket has one; GPUs on one socket alone.
            &[GPU0, GPU2, NIC0, TwoSockets::NIC4],
            &[GPU0, TwoSockets::GPU1, NIC0, TwoSockets::NIC4],
            // More NICs than GPUs: what they are all for cannot be known.
            &[
                GPU0,
                TwoSockets::GPU1,
                GPU2,
                NIC0,
                NIC1,
                TwoSockets::NIC2,
                TwoSockets::NIC4,
            ],
        ] {
            assert_eq!(said(&with(devices)), Said::default(), "{devices:?}");
        }
    }

    #[test]
    fn parts_of_one_processor_are_no_sockets() {
        let mut facts = with(&[GPU0, GPU2, NIC0, NIC1]);
        facts.numa = numa(&[&[10, 12], &[12, 10]]);
        assert_eq!(said(&facts), Said::default());
        facts.numa = Fact::unknown("Permission denied");
        let said = said(&facts);
        assert!(said.findings.is_empty());
        assert_eq!(
            said.cannot_tell[0].why,
            "which NUMA nodes are of one socket is unknown: Permission denied"
        );
    }

    #[test]
    fn three_and_one_for_two_and_two_is_odd_if_they_are_of_one_kind() {
        let mut facts = with(&[GPU0, TwoSockets::GPU1, GPU2, NIC0, NIC1, TwoSockets::NIC2]);
        let found = said(&facts);
        assert_eq!(found.findings.len(), 1, "{found:#?}");
        assert!(found.findings[0].says.contains("GPU2 of node02"));
        // With one more GPU there, and a NIC, which is too few.
        let two = |facts: &mut NodeFacts, at: &str, to: &str| {
            if let Fact::Known { value, .. } = &mut facts.pcie {
                let mut copy = value
                    .functions
                    .iter()
                    .find(|f| f.address.0 == at)
                    .unwrap()
                    .clone();
                copy.address = PciAddress(to.into());
                value.functions.push(copy);
            }
        };
        two(&mut facts, GPU2, "0000:c6:00.0");
        two(&mut facts, GPU2, "0000:c7:00.0");
        if let Fact::Known { value, .. } = &mut facts.pcie {
            let last = value.functions.last_mut().unwrap();
            last.role = crate::model::PciRole::Nic;
            last.device = Fact::known(0x1021, "device");
            last.vendor = Fact::known(0x15b3, "vendor");
        }
        if let Fact::Known { value, .. } = &mut facts.rdma {
            let mut more = value[0].clone();
            more.name = "mlx5_9".into();
            more.pci = Fact::known(PciAddress("0000:c7:00.0".into()), "device");
            value.push(more);
        }
        let found = said(&facts);
        assert_eq!(found.findings.len(), 1, "{found:#?}");
        assert!(
            found.findings[0].says.contains("have 1 NICs"),
            "{}",
            found.findings[0].says
        );
        // A NIC of another model is for something else.
        if let Fact::Known { value, .. } = &mut facts.pcie {
            value.functions.last_mut().unwrap().device = Fact::known(0x101b, "device");
        }
        assert_eq!(said(&facts), Said::default());
    }
}
