//! Links above NICs and GPUs that lose packets or send them again.

use std::collections::BTreeMap;

use crate::judge::rules::{About, Said, listed, plain};
use crate::judge::{NicView, NodeView};
use crate::model::{
    Evidence, Finding, PciAddress, PciFunction, PcieErrors, PcieTree, Rule, Severity, Subject,
};

pub(super) const ABOUT: About = About {
    rule: Rule::PcieErrors,
    means: "A PCIe function on the way of a NIC or GPU counted errors since the system started. Packets that \
            are damaged are sent again, which costs bandwidth while it happens; an uncorrectable error loses \
            a transaction, or takes the device off the bus.",
    detected: "aer_dev_fatal, aer_dev_nonfatal and aer_dev_correctable of each function from the NICs and GPUs \
               up to their roots (/sys/bus/pci/devices). Any uncorrectable error counts, but for UnsupReq that \
               lost nothing (software asked for what is not there, as it does at start). Of correctable errors \
               those of the link count, RxErr, BadTLP, BadDLLP, Rollover and Timeout, from 1000 on: a link \
               that trains counts a few. Cannot be told where the firmware keeps error reporting to itself.",
    remedy: REMEDY,
};

const REMEDY: &str = "Reseat the card, riser or cable of that link and clean its contacts; look at the counters again \
                      after an hour of load, and swap the part if they grow.";

/// Errors of the link itself: damaged packets, and what follows (PCI Express Base Specification,
/// 6.2.7). The others are those of software, or told by the device as advice.
const OF_THE_LINK: [&str; 5] = ["RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout"];

/// Training and resets leave up to some dozens; a link that needs its retries leaves thousands.
const MANY: u64 = 1000;

/// How many functions of one node are named.
const SHOWN: usize = 16;

/// Whose way a function is on.
#[derive(Default)]
struct Way<'n, 'a> {
    nics: Vec<&'n NicView<'a>>,
    gpus: Vec<String>,
}

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let Some(tree) = node.pcie() else { return };
    let ways = ways(node, tree);
    let mut known = 0;
    let mut findings = Vec::new();
    for function in &tree.functions {
        let (Some(way), Some(errors)) = (ways.get(&function.address), function.errors.value())
        else {
            continue;
        };
        known += 1;
        if let Some(what) = serious(errors) {
            findings.push(finding(node, function, way, &what));
        }
    }
    findings.truncate(SHOWN);
    said.findings.extend(findings);
    let mut hardware = node.nics.iter().filter(|nic| nic.device.software.is_none());
    let first = hardware.find_map(|nic| tree.function(nic.pci()?));
    if let (0, Some(first)) = (known, first)
        && tree.virtual_machine.value() == Some(&false)
    {
        let why = first.errors.why_unknown().unwrap_or_default();
        said.cannot_tell(Rule::PcieErrors, node.subject(), why);
    }
}

/// The functions that NICs and GPUs have above them, and themselves.
fn ways<'n, 'a>(
    node: &'n NodeView<'a>,
    tree: &'a PcieTree,
) -> BTreeMap<&'a PciAddress, Way<'n, 'a>> {
    let mut ways: BTreeMap<&PciAddress, Way<'n, 'a>> = BTreeMap::new();
    for nic in &node.nics {
        for function in nic.pci().map(|pci| tree.chain(pci)).unwrap_or_default() {
            ways.entry(&function.address).or_default().nics.push(nic);
        }
    }
    for (index, gpu) in tree.gpus().enumerate() {
        for function in tree.chain(&gpu.address) {
            let way = ways.entry(&function.address).or_default();
            way.gpus.push(format!("GPU{index}"));
        }
    }
    ways
}

/// The counters that matter, in words.
fn serious(errors: &PcieErrors) -> Option<String> {
    let mut parts = Vec::new();
    let mut add = |kind: &str, counters: Vec<(&String, &u64)>| {
        let counters = counters.into_iter().take(OF_THE_LINK.len());
        let text: Vec<_> = counters
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        if !text.is_empty() {
            parts.push(format!("{kind} errors ({})", text.join(", ")));
        }
    };
    add("fatal", errors.fatal.iter().collect());
    let lost = errors
        .nonfatal
        .iter()
        .filter(|(name, _)| *name != "UnsupReq");
    add("non-fatal", lost.collect());
    let of_the_link = errors.correctable.iter();
    let of_the_link = of_the_link.filter(|(name, _)| OF_THE_LINK.contains(&name.as_str()));
    let of_the_link: Vec<_> = of_the_link.collect();
    let sum = of_the_link
        .iter()
        .fold(0u64, |sum, (_, count)| sum.saturating_add(**count));
    if sum >= MANY {
        add("correctable", of_the_link);
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn finding(node: &NodeView<'_>, function: &PciFunction, way: &Way<'_, '_>, what: &str) -> Finding {
    let nics = way.nics.iter().map(|nic| nic.id.device.to_string());
    let mut served: Vec<String> = nics.chain(way.gpus.iter().cloned()).collect();
    served.dedup();
    let subject: Subject = match (&way.nics[..], &way.gpus[..]) {
        ([nic], _) => nic.subject(None),
        ([], [gpu]) => node.device(gpu.clone()),
        _ => node.subject(),
    };
    let (address, name) = (&function.address, node.name);
    plain(
        Rule::PcieErrors,
        Severity::Warning,
        subject,
        format!(
            "{address} of {name}, on the way of {}, counted {what} since the system started.",
            listed(served)
        ),
        vec![Evidence {
            saw: what.to_owned(),
            from: format!("{name}: /sys/bus/pci/devices/{address}/aer_dev_*"),
        }],
        REMEDY,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Said, inspect};
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{Fact, NodeFacts};

    /// The node with two sockets, one of whose functions counted this.
    fn said(at: &str, change: impl Fn(&mut PcieErrors)) -> Said {
        let mut facts = TwoSockets::facts();
        if let Fact::Known { value, .. } = &mut facts.pcie {
            let function = value
                .functions
                .iter_mut()
                .find(|f| f.address.0 == at)
                .unwrap();
            let mut errors = PcieErrors::default();
            change(&mut errors);
            function.errors = Fact::known(errors, "aer_dev_correctable");
        }
        of(&facts)
    }

    fn of(facts: &NodeFacts) -> Said {
        let mut said = inspect(&"node02".into(), facts);
        said.findings
            .retain(|finding| finding.rule == Rule::PcieErrors);
        said.cannot_tell
            .retain(|line| line.rule == Rule::PcieErrors);
        said
    }

    fn count(counters: &mut BTreeMap<String, u64>, name: &str, count: u64) {
        counters.insert(name.to_owned(), count);
    }

    #[test]
    fn a_link_that_retries_is_named_with_what_is_below_it() {
        let said = said("0000:12:00.0", |errors| {
            count(&mut errors.correctable, "BadTLP", 700);
            count(&mut errors.correctable, "Timeout", 300);
        });
        let [finding] = &said.findings[..] else {
            panic!("{said:#?}")
        };
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.subject.to_string(), "mlx5_0 of node02");
        assert_eq!(
            finding.says,
            "0000:12:00.0 of node02, on the way of mlx5_0, counted correctable errors (BadTLP 700, \
             Timeout 300) since the system started."
        );
        assert_eq!(
            finding.evidence[0].from,
            "node02: /sys/bus/pci/devices/0000:12:00.0/aer_dev_*"
        );
    }

    #[test]
    fn one_that_lost_something_is_named_at_the_first() {
        let said = said(TwoSockets::GPU2, |errors| {
            count(&mut errors.nonfatal, "CmpltTO", 1);
            count(&mut errors.fatal, "DLP", 2);
        });
        assert_eq!(said.findings[0].subject.to_string(), "GPU2 of node02");
        assert!(
            said.findings[0]
                .says
                .contains("fatal errors (DLP 2), non-fatal errors (CmpltTO 1)"),
            "{}",
            said.findings[0].says
        );
    }

    #[test]
    fn a_few_and_those_of_software_are_normal() {
        let quiet = said(TwoSockets::NIC0, |errors| {
            count(&mut errors.correctable, "BadDLLP", 999);
            count(&mut errors.correctable, "NonFatalErr", 100_000);
            count(&mut errors.nonfatal, "UnsupReq", 40);
        });
        assert_eq!(quiet, Said::default());
        let all = said(TwoSockets::NIC0, |errors| {
            count(&mut errors.correctable, "BadDLLP", u64::MAX);
            count(&mut errors.correctable, "RxErr", u64::MAX);
        });
        assert_eq!(all.findings.len(), 1);
    }

    #[test]
    fn without_counters_a_real_node_says_so_once() {
        let mut facts = TwoSockets::facts();
        let mut forget = |virtual_machine| {
            if let Fact::Known { value, .. } = &mut facts.pcie {
                value.virtual_machine = Fact::known(virtual_machine, "/proc/cpuinfo");
                for function in &mut value.functions {
                    function.errors = Fact::unknown("aer_dev_correctable does not exist");
                }
            }
            of(&facts)
        };
        let said = forget(false);
        assert_eq!(said.cannot_tell.len(), 1, "{said:#?}");
        assert_eq!(
            said.cannot_tell[0].why,
            "aer_dev_correctable does not exist"
        );
        assert_eq!(forget(true), Said::default());
    }
}
