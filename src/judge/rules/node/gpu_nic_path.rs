//! GPUs whose NICs are all behind the interconnect between sockets, while the node has enough of them.

use super::layout::{Layout, MOST_NICS, Place, counting, lacking, layout, misplaced};
use crate::judge::NodeView;
use crate::judge::rules::{About, Said, listed, plain};
use crate::model::{Evidence, Finding, Rule, Severity};
use crate::topology::path_class;

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

/// How many devices a finding lists.
const SHOWN: usize = 8;

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let Some(tree) = node.pcie() else { return };
    let nics = counting(node);
    if tree.gpus().next().is_none() || nics.is_empty() || nics.len() > MOST_NICS {
        return;
    }
    match layout(node, tree, &nics) {
        Ok(layout) => {
            let sockets = lacking(&layout).into_iter();
            let findings = sockets.map(|socket| finding(node, &layout, socket));
            said.findings.extend(findings);
        }
        Err(why) => said.cannot_tell(Rule::GpuNicPath, node.subject(), why),
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
    let nics = layout.nics.iter();
    let (own, others): (Vec<_>, Vec<_>) = nics.partition(|nic| nic.socket == gpus[0].socket);
    let (verb, have) = match gpus.len() {
        1 => ("reaches", "has"),
        _ => ("reach", "have"),
    };
    let lack = match &own[..] {
        [] => format!("{verb} every NIC only across the interconnect between sockets (SYS)"),
        own => format!("{have} only {} on their socket", list(own)),
    };
    let (be, another) = match others.len() {
        1 => ("is", list(&others)),
        _ => ("are", list(&others)),
    };
    let hint = match misplaced {
        Some(nic) if others.len() > 1 => format!(" Of these {} is near no GPU.", nic.name),
        _ => String::new(),
    };
    let (names, at) = (list(gpus), gpus[0].numa);
    format!(
        "{names} of {} (NUMA node {at}) {lack}; {another} {be} on another socket.{hint}",
        node.name
    )
}

fn list(places: &[&Place<'_>]) -> String {
    listed(places.iter().map(|place| &place.name))
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
    use crate::judge::inspect;
    use crate::model::NodeFacts;
    use crate::model::testing::pcie::{TwoSockets, numa};
    use crate::model::{Fact, PciAddress};

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
             sockets (SYS); mlx5_0, mlx5_1 are on another socket. Of these mlx5_1 is near no GPU."
        );
        assert_eq!(
            finding.evidence[0].saw,
            "GPU1 (0000:c5:00.0): NUMA node 1; mlx5_0 SYS, mlx5_1 SYS"
        );
    }

    #[test]
    fn it_is_known_of_software_rdma_in_a_guest_that_is_shown_its_sockets() {
        let mut facts = with(&[GPU0, GPU2, NIC0, NIC1]);
        if let Fact::Known { value, .. } = &mut facts.pcie {
            value.virtual_machine = Fact::known(true, "/proc/cpuinfo");
        }
        if let Fact::Known { value, .. } = &mut facts.rdma {
            for device in value {
                device.software = Some(crate::model::SoftwareRdma::Rxe);
            }
        }
        let said = said(&facts);
        assert_eq!(said.findings.len(), 1, "{said:#?}");
        assert_eq!(said.findings[0].subject.to_string(), "mlx5_1 of node02");
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
            found.findings[0]
                .says
                .contains("have only mlx5_9 on their socket"),
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
