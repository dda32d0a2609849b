//! Errors of a GPU that its driver logged and that no application causes.

use super::Said;
use crate::judge::NodeView;
use crate::judge::rules::{About, in_a_row, plain};
use crate::model::{Evidence, KernelLogKind, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::GpuErrors,
    means: "NVIDIA's driver logged an error of a GPU since boot (Xid) that points at the hardware, its memory or its \
            links, and not at an application. Such a GPU is slow or fails under load, and a collective waits for it.",
    detected: "\"NVRM: Xid\" in the kernel's log (/dev/kmsg) with one of the numbers 48, 62, 64, 74, 79, 95, 119, 120 \
               and 140; others, such as 13 and 31, are an application's. Nothing is said where the log may not be read.",
    remedy: REMEDY,
};

const REMEDY: &str = "Look the number up in NVIDIA's list of Xid errors, drain the node and reset the GPU; what comes \
                      back belongs to the vendor.";

/// Double-bit ECC, halted micro-controller, row remapper, NVLink, fallen off the bus, uncontained ECC,
/// the system processor, unrecovered ECC (NVIDIA, "XID Errors").
const HARDWARE: [u32; 9] = [48, 62, 64, 74, 79, 95, 119, 120, 140];

/// More lines than a survey keeps: a node may send any number.
const MAX_LINES: usize = 64;

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    if node.pcie().is_none_or(|tree| tree.gpus().next().is_none()) {
        return;
    }
    let host = &node.facts.host;
    let lines = host.logged(KernelLogKind::Xid);
    let serious: Vec<_> = lines
        .filter_map(|line| Some((xid(&line.text)?, line)))
        .filter(|((_, number), _)| HARDWARE.contains(number))
        .take(MAX_LINES)
        .collect();
    let Some(_) = serious.first() else {
        return;
    };
    let words: Vec<_> = serious
        .iter()
        .map(|((at, n), _)| format!("Xid {n} of {at}"))
        .collect();
    let from = host.kernel_log.source().unwrap_or_default();
    said.findings.push(plain(
        Rule::GpuErrors,
        Severity::Warning,
        node.subject(),
        format!(
            "{} logged errors of its GPUs since boot: {}.",
            node.name,
            in_a_row(words.iter().map(String::as_str))
        ),
        serious
            .iter()
            .take(4)
            .map(|(_, line)| Evidence {
                saw: line.text.clone(),
                from: format!("{}: {from}", node.name),
            })
            .collect(),
        REMEDY,
    ));
}

/// Address and number of `NVRM: Xid (PCI:0000:9a:00): 79, pid=…`.
fn xid(text: &str) -> Option<(&str, u32)> {
    let (_, rest) = text.split_once("Xid (PCI:")?;
    let (at, rest) = rest.split_once("): ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    (at.len() < 16).then_some((at, digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::rules::node::testing::only;
    use crate::model::testing::facts;
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{Fact, Finding, KernelLogLine};

    fn of(lines: &[&str], gpus: bool) -> Option<Finding> {
        let mut facts = if gpus {
            TwoSockets::facts()
        } else {
            facts(vec![])
        };
        let line = |text: &&str| KernelLogLine {
            kind: KernelLogKind::Xid,
            text: (*text).into(),
        };
        facts.host.kernel_log = Fact::known(lines.iter().map(line).collect(), "/dev/kmsg");
        only(&facts, Rule::GpuErrors)
    }

    const OFF: &str = "NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";
    const APPLICATION: &str = "NVRM: Xid (PCI:0000:17:00): 31, pid=4711, name=python, MMU Fault";

    #[test]
    fn errors_of_the_hardware_are_told_and_those_of_applications_are_not() {
        let finding = of(&[APPLICATION, OFF], true).unwrap();
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.says,
            "node017 logged errors of its GPUs since boot: Xid 79 of 0000:17:00."
        );
        assert_eq!(finding.evidence.len(), 1);
        assert!(of(&[APPLICATION], true).is_none());
        assert!(of(&[OFF], false).is_none());
    }

    #[test]
    fn torn_lines_are_no_errors() {
        for text in [
            "NVRM: Xid (PCI:0000:17:00)",
            "NVRM: Xid (PCI:0): x",
            "NVRM: Xid",
        ] {
            assert_eq!(xid(text), None, "{text}");
            assert!(of(&[text], true).is_none());
        }
    }
}
