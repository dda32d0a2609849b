//! A NIC whose way to memory is narrower than its line: the classic half.

use super::Said;
use crate::judge::cause::{evidence, in_words, share_of};
use crate::judge::rules::{About, plain};
use crate::judge::{NicView, NodeView};
use crate::model::{Direction, Evidence, Finding, Gbps, KernelLogKind, Rule, Severity};
use crate::topology::{LinkOnPath, PcieLimit};

pub(super) const ABOUT: About = About {
    rule: Rule::PcieLink,
    means: "A PCIe link above the NIC trained at fewer lanes or a lower speed than both of its ends are \
            capable of, or the slot carries less than the NIC's line. A Gen5 x16 card in x8 moves about \
            230 of 400 Gb/s; nothing reports an error.",
    detected: "current_link_speed, current_link_width and their maxima of every hop from the NIC up to the \
               root (/sys/bus/pci/devices), with Max_Payload_Size for the packet headers. A fault where \
               the narrowest hop carries less than the line rate, a warning where the line still fits \
               through. Cannot be told where the tree is hidden by a hypervisor, or a hop states no speed.",
    remedy: REMEDY,
};

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    for nic in &node.nics {
        if let Some(why) = node.facts.pcie.why_unknown() {
            said.cannot_tell(Rule::PcieLink, nic.subject(None), why);
            continue;
        }
        let above = node.above(nic.device);
        let known = above.as_ref();
        let Some((above, limit)) = known.and_then(|above| Some((above, above.limit.as_ref()?)))
        else {
            // Software RDMA on no PCI function has no link that could be narrow.
            if nic.device.software.is_none() {
                let why = "the tree shows no link above it whose speed and width are known";
                said.cannot_tell(Rule::PcieLink, nic.subject(None), why);
            }
            continue;
        };
        let found = narrow(nic, limit).or_else(|| trained_down(nic, &above.degraded, limit));
        said.findings.extend(found.map(|mut finding| {
            finding.evidence.extend(logged(node, nic));
            finding
        }));
    }
}

/// What the kernel said of the NIC's link when it found it.
fn logged(node: &NodeView<'_>, nic: &NicView<'_>) -> Option<Evidence> {
    let host = &node.facts.host;
    let address = nic.pci()?;
    let mut lines = host.logged(KernelLogKind::PcieLimited);
    let line = lines.find(|line| line.text.contains(&format!("{address}: ")))?;
    Some(Evidence {
        saw: line.text.clone(),
        from: format!("{}: {}", node.name, host.kernel_log.source()?),
    })
}

/// The links let less through than the line carries.
fn narrow(nic: &NicView<'_>, limit: &PcieLimit) -> Option<Finding> {
    let line = &nic.line;
    let most = Gbps(limit.send.0.min(limit.receive.0));
    let share = most.share_of(*line.value()?)?;
    if share >= DEGRADED_BELOW {
        return None;
    }
    let (tx, rx) = (
        share_of(limit, Direction::Tx),
        share_of(limit, Direction::Rx),
    );
    let says = format!(
        "{} can send {tx} and receive {rx} at the most, of a line rate of {line}. {}.",
        nic.in_words(),
        in_words(&limit.narrowest)
    );
    let finding = plain(
        Rule::PcieLink,
        Severity::Fault,
        nic.subject(None),
        says,
        vec![evidence(&limit.narrowest, &nic.id)],
        REMEDY,
    );
    // The limit is computed: it is no measurement, and not shown as one.
    Some(Finding {
        expected: line.value().copied(),
        expected_from: line.source().map(str::to_owned),
        ratio: Some(share),
        ..finding
    })
}

/// A link runs below what its ends are capable of, yet the line fits through, or is not known.
fn trained_down(nic: &NicView<'_>, links: &[LinkOnPath], limit: &PcieLimit) -> Option<Finding> {
    let first = links.first()?;
    let most = Gbps(limit.send.0.min(limit.receive.0));
    let enough = match nic.line.value() {
        Some(line) if most >= *line => format!("It still carries the line rate of {line}."),
        Some(line) => format!("It carries {most} of the line rate of {line}."),
        None => "Whether that limits it cannot be told: its line rate is unknown.".to_owned(),
    };
    Some(plain(
        Rule::PcieLink,
        Severity::Warning,
        nic.subject(None),
        format!("{}: {}. {enough}", nic.in_words(), in_words(first)),
        links.iter().map(|link| evidence(link, &nic.id)).collect(),
        REMEDY,
    ))
}

/// A way to memory with less than this share of the line is a fault.
const DEGRADED_BELOW: f64 = 0.85;

const REMEDY: &str = "Reseat the card and riser, compare with a sibling node's slot, look at the BIOS setting of the \
                      slot (speed, bifurcation) and at the kernel log for \"available PCIe bandwidth, limited by\".";

#[cfg(test)]
mod tests {
    use crate::judge::{Judgement, judge};
    use crate::ledger::testing::{events, ledger};
    use crate::model::testing::pcie::{TwoSockets, address};
    use crate::model::{
        Event, Fact, KernelLogKind, KernelLogLine, NodeName, PciRole, Rule, Severity, Verdict,
    };

    const FULL: f64 = 391.0;

    /// Three nodes whose only NIC sits at `seat` in node 2 and at a full link elsewhere.
    fn judged(seat: &str, rate: &dyn Fn(usize, usize, u16) -> Option<f64>) -> Judgement {
        judge(&ledger(&narrowed(seat, rate)))
    }

    fn narrowed(seat: &str, rate: &dyn Fn(usize, usize, u16) -> Option<f64>) -> Vec<Event> {
        let mut events = events(3, 1, rate);
        for event in &mut events {
            if let Event::NodeSurveyed { node, facts } = event {
                let here = if *node == NodeName::from("node02") {
                    seat
                } else {
                    TwoSockets::NIC0
                };
                let mut tree = TwoSockets::tree();
                // What differs on the way to them is another rule's.
                tree.functions.retain(|f| f.role != PciRole::Gpu);
                facts.pcie = Fact::known(tree, "/sys/bus/pci/devices");
                if let Fact::Known { value, .. } = &mut facts.rdma {
                    value[0].pci = Fact::known(address(here), "device");
                }
            }
        }
        events
    }

    #[test]
    fn a_measured_half_is_joined_with_the_link_that_explains_it() {
        let slow = |i, j, _| Some(if i == 1 || j == 1 { 229.0 } else { FULL });
        let judgement = judged(TwoSockets::NIC4, &slow);
        let rules: Vec<_> = judgement.findings.iter().map(|f| f.rule).collect();
        assert_eq!(
            rules,
            [Rule::HalfBandwidth, Rule::HalfBandwidth],
            "{:#?}",
            judgement.findings
        );
        for finding in &judgement.findings {
            let says = &finding.says;
            assert!(
                says.contains("trained at Gen5 x8 (capable: Gen5 x16) at 0000:c2:00.0"),
                "{says}"
            );
            assert!(says.contains("which explains 23"), "{says}");
        }
    }

    #[test]
    fn what_does_not_fit_is_not_the_cause() {
        // An x8 link explains 230, and not 120: both are said, neither of the other.
        let slow = |i, _, _| Some(if i == 1 { 120.0 } else { FULL });
        let judgement = judged(TwoSockets::NIC4, &slow);
        let rules: Vec<_> = judgement.findings.iter().map(|f| f.rule).collect();
        assert_eq!(rules, [Rule::HalfBandwidth, Rule::PcieLink]);
        assert!(
            !judgement.findings[0].says.contains("PCIe"),
            "{}",
            judgement.findings[0].says
        );
    }

    #[test]
    fn a_narrow_link_is_told_without_any_traffic() {
        let judgement = judged(TwoSockets::NIC4, &|i, j, _| {
            (i != 1 && j != 1).then_some(FULL)
        });
        let finding = judgement
            .findings
            .iter()
            .find(|f| f.rule == Rule::PcieLink)
            .unwrap();
        assert_eq!(finding.severity, Severity::Fault);
        assert_eq!(
            finding.measured, None,
            "the limit is computed, not measured"
        );
        assert_eq!(
            finding.says,
            "NIC mlx5_0 of node02 (rail 0) can send 234 Gb/s and receive 230 Gb/s at the most, of a line rate \
             of 400 Gb/s. Its PCIe link trained at Gen5 x8 (capable: Gen5 x16) at 0000:c2:00.0."
        );
    }

    #[test]
    fn what_the_kernel_said_of_the_link_is_evidence_too() {
        let line = |address: &str| KernelLogLine {
            kind: KernelLogKind::PcieLimited,
            text: format!("mlx5_core {address}: 252.048 Gb/s available PCIe bandwidth, limited by"),
        };
        let mut events = narrowed(TwoSockets::NIC4, &|i, j, _| {
            (i != 1 && j != 1).then_some(FULL)
        });
        for event in &mut events {
            if let Event::NodeSurveyed { facts, .. } = event {
                let lines = vec![line(TwoSockets::GPU0), line(TwoSockets::NIC4)];
                facts.host.kernel_log = Fact::known(lines, "/dev/kmsg");
            }
        }
        let findings = judge(&ledger(&events)).findings;
        let finding = findings.iter().find(|f| f.rule == Rule::PcieLink).unwrap();
        let logged = finding.evidence.iter().filter(|e| e.from.ends_with("kmsg"));
        assert_eq!(logged.count(), 1, "the line on the other device is not");
        assert!(finding.evidence[1].saw.contains(TwoSockets::NIC4));
        assert_eq!(finding.evidence[1].from, "node02: /dev/kmsg");
    }

    #[test]
    fn a_warning_claims_no_more_than_the_link_carries() {
        let said = |line: f64| {
            let mut events = narrowed(TwoSockets::NIC4, &|_, _, _| Some(0.97 * line));
            if let Event::RunStarted { settings, .. } = &mut events[0] {
                settings.expect.line_rate = Some(crate::model::Gbps(line));
            }
            let findings = judge(&ledger(&events)).findings;
            assert_eq!(findings[0].severity, Severity::Warning, "{findings:#?}");
            findings[0].says.clone()
        };
        assert!(said(200.0).ends_with("It still carries the line rate of 200 Gb/s."));
        assert!(said(250.0).ends_with("It carries 230 Gb/s of the line rate of 250 Gb/s."));
    }

    #[test]
    fn full_links_are_not_mentioned() {
        let judgement = judged(TwoSockets::NIC1, &|_, _, _| Some(FULL));
        assert_eq!(judgement.verdict, Verdict::AtLineRate);
        assert!(judgement.findings.is_empty(), "{:#?}", judgement.findings);
    }
}
