//! Switches that send what a NIC and a GPU below them exchange up to the root and back.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::rules::{About, Said, listed, plain};
use crate::judge::{NicView, NodeView};
use crate::model::{
    AcsControl, Evidence, Finding, PciAddress, PciFunction, PcieTree, Rule, Severity,
};

pub(super) const ABOUT: About = About {
    rule: Rule::Acs,
    means: "Access Control Services on a switch above a GPU and a NIC send their traffic up to the root and \
            back, where it would turn round in the switch. GPUDirect then moves 56 to 65 % of the link, and \
            some platforms hang.",
    detected: "The ACS control of each bridge between a GPU and a NIC, or another GPU, and the switch that \
               they share (/sys/bus/pci/devices/*/config, P2P request and completion redirect). A fault on \
               bare metal where a GPU and a NIC share the switch; a warning where only GPUs do, where \
               translated requests go straight through, or where it is unknown whether the machine is \
               virtual. Not told in a virtual machine, or of GPUs that are given to one, which need ACS. Cannot be told without root.",
    remedy: REMEDY,
};

const REMEDY: &str = "On bare metal turn ACS off in the BIOS, or at every start with setpci -s BRIDGE ECAP_ACS+6.w=0 for \
                      each of these bridges. Where virtual machines get these devices, leave it on and turn on ATS.";

/// More are virtual functions, or made up.
const MOST_NICS: usize = 64;

/// How many bridges are listed.
const SHOWN: usize = 8;

/// The bridges that peers pass on the way to the switch that they share.
#[derive(Default)]
struct Shared<'a> {
    bridges: BTreeMap<&'a PciAddress, &'a PciFunction>,
    /// The devices, by the bridge.
    peers: BTreeMap<&'a PciAddress, BTreeSet<String>>,
    /// Bridges between a GPU and a NIC.
    to_nics: BTreeSet<&'a PciAddress>,
}

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let Some(tree) = node.pcie() else { return };
    if tree.virtual_machine.value() == Some(&true) {
        return;
    }
    let shared = shared(node, tree);
    let redirecting: Vec<_> = shared
        .bridges
        .values()
        .copied()
        .filter_map(|bridge| Some((bridge, redirects(bridge)?)))
        .collect();
    if !redirecting.is_empty() {
        said.findings
            .push(finding(node, tree, &shared, &redirecting));
        return;
    }
    let why = |bridge: &&PciFunction| Some(bridge.acs.as_ref()?.why_unknown()?.to_owned());
    if let Some(why) = shared.bridges.values().find_map(why) {
        said.cannot_tell(Rule::Acs, node.subject(), why);
    }
}

fn redirects(bridge: &PciFunction) -> Option<AcsControl> {
    let control = bridge.acs.as_ref()?.value().copied().flatten()?;
    control.redirects_peers().then_some(control)
}

/// A NIC's or GPU's name, its way up, and whether it is a NIC.
type Device<'a> = (String, Vec<&'a PciFunction>, bool);

fn shared<'a>(node: &NodeView<'a>, tree: &'a PcieTree) -> Shared<'a> {
    let gpus: Vec<Device<'_>> = tree
        .gpus()
        .enumerate()
        // What is given to a virtual machine needs ACS, and is no peer here.
        .filter(|(_, gpu)| gpu.driver.value().is_none_or(|driver| driver != "vfio-pci"))
        .map(|(index, gpu)| (format!("GPU{index}"), tree.chain(&gpu.address), false))
        .collect();
    let nic = |nic: &NicView<'a>| {
        let chain = tree.chain(nic.pci()?);
        (!chain.is_empty()).then(|| (nic.device.name.clone(), chain, true))
    };
    let nics: Vec<Device<'_>> = node.nics.iter().take(MOST_NICS).filter_map(nic).collect();
    let mut shared = Shared::default();
    for (index, gpu) in gpus.iter().enumerate() {
        for other in gpus[index + 1..].iter().chain(&nics) {
            shared.add(gpu, other);
        }
    }
    shared
}

impl<'a> Shared<'a> {
    /// Notes the bridges of both below the first that both have.
    fn add(&mut self, one: &Device<'a>, other: &Device<'a>) {
        let has = |chain: &[&PciFunction], bridge: &PciFunction| {
            chain
                .iter()
                .any(|function| function.address == bridge.address)
        };
        let common = |bridge: &&&PciFunction| has(&other.1[1..], bridge);
        if !one.1[1..].iter().any(|bridge| common(&bridge)) {
            return;
        }
        for (device, partner) in [(one, other), (other, one)] {
            for bridge in device.1[1..]
                .iter()
                .take_while(|bridge| !has(&partner.1, bridge))
            {
                self.bridges.insert(&bridge.address, bridge);
                let peers = self.peers.entry(&bridge.address).or_default();
                peers.extend([one.0.clone(), other.0.clone()]);
                if other.2 {
                    self.to_nics.insert(&bridge.address);
                }
            }
        }
    }
}

fn finding(
    node: &NodeView<'_>,
    tree: &PcieTree,
    shared: &Shared<'_>,
    redirecting: &[(&PciFunction, AcsControl)],
) -> Finding {
    let peers = redirecting
        .iter()
        .filter_map(|(bridge, _)| shared.peers.get(&bridge.address));
    let peers: BTreeSet<&String> = peers.flatten().collect();
    let bridges = redirecting.iter().map(|(bridge, _)| &bridge.address.0);
    let says = format!(
        "ACS of {} sends what {} exchange up to the root, at {}.",
        node.name,
        listed(peers),
        listed(bridges)
    );
    let shown = redirecting.iter().take(SHOWN);
    let evidence = shown.map(|(bridge, control)| evidence(node, bridge, *control));
    plain(
        Rule::Acs,
        severity(tree, shared, redirecting),
        node.subject(),
        says,
        evidence.collect(),
        REMEDY,
    )
}

fn severity(
    tree: &PcieTree,
    shared: &Shared<'_>,
    redirecting: &[(&PciFunction, AcsControl)],
) -> Severity {
    let between_gpu_and_nic = |(bridge, control): &(&PciFunction, AcsControl)| {
        shared.to_nics.contains(&bridge.address) && !control.direct_translated
    };
    let bare = tree.virtual_machine.value() == Some(&false);
    match bare && redirecting.iter().any(between_gpu_and_nic) {
        true => Severity::Fault,
        false => Severity::Warning,
    }
}

fn evidence(node: &NodeView<'_>, bridge: &PciFunction, control: AcsControl) -> Evidence {
    let sign = |on: bool| if on { '+' } else { '-' };
    Evidence {
        saw: format!(
            "ACS control of {}: ReqRedir{} CmpltRedir{} DirectTrans{}",
            bridge.address,
            sign(control.request_redirect),
            sign(control.completion_redirect),
            sign(control.direct_translated)
        ),
        from: format!(
            "{}: /sys/bus/pci/devices/{}/config",
            node.name, bridge.address
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{at, said};
    use super::*;
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{Fact, NodeFacts, PciRole};

    fn redirecting() -> AcsControl {
        AcsControl {
            source_validation: true,
            translation_blocking: false,
            request_redirect: true,
            completion_redirect: true,
            upstream_forwarding: true,
            egress_control: false,
            direct_translated: false,
        }
    }

    fn with(bridge: &str, change: impl FnOnce(&mut AcsControl, &mut PcieTree)) -> NodeFacts {
        TwoSockets::with(|tree| {
            let mut control = redirecting();
            change(&mut control, tree);
            at(tree, bridge).acs = Some(Fact::known(Some(control), "config"));
        })
    }

    /// The port of the first switch that mlx5_0 is below.
    const NIC_PORT: &str = "0000:12:00.0";
    /// The port of the second switch that GPU1 is below.
    const GPU_PORT: &str = "0000:16:00.0";

    #[test]
    fn a_switch_that_gpu_and_nic_share_is_a_fault_on_bare_metal() {
        let said = said(Rule::Acs, &with(NIC_PORT, |_, _| {}));
        let [finding] = &said.findings[..] else {
            panic!("{said:#?}")
        };
        assert_eq!(finding.severity, Severity::Fault);
        assert_eq!(
            finding.says,
            "ACS of node02 sends what GPU0, GPU1, mlx5_0 exchange up to the root, at 0000:12:00.0."
        );
        assert_eq!(
            finding.evidence[0].saw,
            "ACS control of 0000:12:00.0: ReqRedir+ CmpltRedir+ DirectTrans-"
        );
    }

    #[test]
    fn it_is_less_where_less_is_proved() {
        let severity = |facts: &NodeFacts| said(Rule::Acs, facts).findings[0].severity;
        let unknown = with(NIC_PORT, |_, tree| {
            tree.virtual_machine = Fact::unknown("no flags")
        });
        assert_eq!(severity(&unknown), Severity::Warning);
        let ats = with(NIC_PORT, |control, _| control.direct_translated = true);
        assert_eq!(severity(&ats), Severity::Warning);
        let mut gpus = with(GPU_PORT, |_, _| {});
        assert_eq!(severity(&gpus), Severity::Fault);
        gpus.rdma = Fact::unknown("no RDMA driver is loaded");
        assert_eq!(severity(&gpus), Severity::Warning);
    }

    #[test]
    fn what_no_peers_pass_and_what_guests_need_is_not_told() {
        // A root port; the only port above a NIC whose switch has no GPU; a virtual machine.
        assert_eq!(
            said(Rule::Acs, &with("0000:10:01.0", |_, _| {})),
            Said::default()
        );
        assert_eq!(
            said(Rule::Acs, &with("0000:10:02.0", |_, _| {})),
            Said::default()
        );
        let guest = with(NIC_PORT, |_, tree| {
            tree.virtual_machine = Fact::known(true, "cpuinfo")
        });
        assert_eq!(said(Rule::Acs, &guest), Said::default());
        let host = with(NIC_PORT, |_, tree| {
            for gpu in [TwoSockets::GPU0, TwoSockets::GPU1] {
                at(tree, gpu).driver = Fact::known("vfio-pci".into(), "driver");
            }
        });
        assert_eq!(said(Rule::Acs, &host), Said::default());
        let completions = with(NIC_PORT, |control, _| {
            control.request_redirect = false;
            control.completion_redirect = false;
        });
        assert_eq!(said(Rule::Acs, &completions), Said::default());
    }

    #[test]
    fn without_root_a_node_with_such_a_switch_says_so_once() {
        let cut = |tree: &mut PcieTree| {
            for function in tree.functions.iter_mut().filter(|f| f.acs.is_some()) {
                function.acs = Some(Fact::unknown("config needs root"));
            }
        };
        let said_of = |facts: &NodeFacts| said(Rule::Acs, facts).cannot_tell;
        let lines = said_of(&TwoSockets::with(cut));
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert_eq!(lines[0].why, "config needs root");
        let without_gpus = TwoSockets::with(|tree| {
            cut(tree);
            tree.functions.retain(|f| f.role != PciRole::Gpu);
        });
        assert!(said_of(&without_gpus).is_empty());
    }
}
