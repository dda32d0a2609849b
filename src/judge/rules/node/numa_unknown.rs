//! A machine with several sockets whose firmware does not say where its NICs and GPUs are.

use crate::judge::NodeView;
use crate::judge::rules::{About, Said, plain};
use crate::model::{Evidence, PciRole, Rule, Severity};
use crate::topology::Sockets;

pub(super) const ABOUT: About = About {
    rule: Rule::NumaUnknown,
    means: "The node has several sockets, and its firmware does not say which of them a NIC or GPU is on. \
            Jobs then place processes and memory by chance, and NCCL may choose a NIC across the \
            interconnect between sockets.",
    detected: "numa_node of each NIC and GPU below /sys/bus/pci/devices, where /sys/devices/system/node has \
               NUMA nodes of more than one socket. Not told in a virtual machine, whose hypervisor \
               decides what there is to see.",
    remedy: REMEDY,
};

const REMEDY: &str = "Update the BIOS, or turn on the setting that gives PCIe root bridges their NUMA node (ACPI _PXM).";

/// How many functions are listed.
const SHOWN: usize = 4;

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let (Some(tree), Some(numa)) = (node.pcie(), node.facts.numa.value()) else {
        return;
    };
    if Sockets::of(numa).count() < 2 || tree.virtual_machine.value() == Some(&true) {
        return;
    }
    let ends = tree.functions.iter().filter(|f| f.role != PciRole::Bridge);
    let unknown: Vec<_> = ends
        .filter_map(|function| Some((function, function.numa_node.why_unknown()?)))
        .collect();
    let Some((first, _)) = unknown.first() else {
        return;
    };
    let which = match unknown.len() {
        1 => first.address.to_string(),
        count => format!("{} and {} more", first.address, count - 1),
    };
    let evidence = unknown.iter().take(SHOWN).map(|(function, why)| Evidence {
        saw: (*why).to_owned(),
        from: format!(
            "{}: /sys/bus/pci/devices/{}/numa_node",
            node.name, function.address
        ),
    });
    said.findings.push(plain(
        Rule::NumaUnknown,
        Severity::Note,
        node.subject(),
        format!(
            "{} has several sockets, and does not say which of them {which} is on.",
            node.name
        ),
        evidence.collect(),
        REMEDY,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::inspect;
    use crate::model::testing::pcie::{TwoSockets, numa};
    use crate::model::{Fact, NodeFacts};

    fn says(facts: &NodeFacts) -> Option<String> {
        let said = inspect(&"node02".into(), facts);
        let found = said
            .findings
            .into_iter()
            .find(|f| f.rule == Rule::NumaUnknown);
        found.map(|finding| finding.says)
    }

    #[test]
    fn only_where_there_is_more_than_one_socket() {
        let mut facts = TwoSockets::facts();
        assert_eq!(says(&facts), None);
        if let Fact::Known { value, .. } = &mut facts.pcie {
            for function in &mut value.functions {
                function.numa_node =
                    Fact::unknown("numa_node holds `-1`: the platform states none");
            }
        }
        assert_eq!(
            says(&facts).unwrap(),
            "node02 has several sockets, and does not say which of them 0000:13:00.0 and 7 more is on."
        );
        facts.numa = numa(&[&[10, 12], &[12, 10]]);
        assert_eq!(says(&facts), None);
        facts.numa = Fact::default();
        assert_eq!(says(&facts), None);
    }
}
