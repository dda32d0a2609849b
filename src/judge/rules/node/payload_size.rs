//! PCIe packets or read requests that are smaller than they could be.

use crate::judge::rules::{About, Said, plain};
use crate::judge::{NicView, NodeView};
use crate::model::{DeviceControl, Evidence, Fact, Finding, Gbps, PcieTree, Rule, Severity};
use crate::topology::{PayloadSize, PcieLimit, payload_capable, rates_with};

pub(super) const ABOUT: About = About {
    rule: Rule::PayloadSize,
    means: "The NIC's PCIe packets carry less than every hop is capable of (MaxPayload), or it asks for little \
            with each read (MaxReadRequest), so that headers and waiting take more of the link.",
    detected: "Device Control and Device Capabilities of each hop from the NIC up to the root \
               (/sys/bus/pci/devices/*/config). MaxPayload is told where it takes the limit of the links \
               below the line rate, which fits with what all hops are capable of. MaxReadRequest is \
               told below 512 bytes from 200 Gb/s on. Not told without root, or without a line rate.",
    remedy: REMEDY,
};

const REMEDY: &str = "Look at the BIOS setting of MaxPayload and at pci=pcie_bus_perf on the kernel command line; \
                      MaxReadRequest is the card's firmware setting, or setpci's (CAP_EXP+8).";

/// What Linux and drivers leave it at; cards are tuned to 4096.
const USUAL_READ_REQUEST: u16 = 512;

/// Above, reads of less than that need more requests under way than cards have been seen to keep.
const FAST: Gbps = Gbps(200.0);

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let Some(tree) = node.pcie() else { return };
    for nic in &node.nics {
        let Some(line) = nic.line.value().copied() else {
            continue;
        };
        let control = nic.pci().and_then(|pci| tree.function(pci));
        let Some((function, Fact::Known { value, from })) = control.map(|f| (f, &f.control)) else {
            continue;
        };
        // A virtual function's bits are reserved (SR-IOV specification, 3.5.4).
        if nic.device.software.is_some() || function.physical_function.is_some() {
            continue;
        }
        let above = node.above(nic.device);
        let Some(limit) = above.as_ref().and_then(|above| above.limit.as_ref()) else {
            continue;
        };
        let from = format!("{}: {from}", node.name);
        said.findings
            .extend(small_payload(nic, tree, limit, line, &from));
        said.findings
            .extend(small_requests(nic, limit, *value, line, from));
    }
}

fn small_payload(
    nic: &NicView<'_>,
    tree: &PcieTree,
    limit: &PcieLimit,
    line: Gbps,
    from: &str,
) -> Option<Finding> {
    let PayloadSize::Read(now) = limit.payload else {
        return None;
    };
    let capable = payload_capable(tree, nic.pci()?).filter(|capable| *capable > now)?;
    let (receive, _) = rates_with(limit, capable)?;
    // Where the line does not fit either way, the link is what is wrong.
    if limit.receive >= line || receive < line {
        return None;
    }
    let says = format!(
        "The PCIe packets of {} carry {now} bytes, and every hop is capable of {capable}: it can receive {} of \
         its line rate of {line}, where {receive} could be had.",
        nic.in_words(),
        limit.receive
    );
    let saw = format!("MaxPayload {now} on the way up, capability {capable}");
    let finding = finding(nic, says, saw, from.to_owned());
    Some(with_share(finding, nic, limit.receive, line))
}

fn small_requests(
    nic: &NicView<'_>,
    limit: &PcieLimit,
    control: DeviceControl,
    line: Gbps,
    from: String,
) -> Option<Finding> {
    let asks = control.max_read_request;
    if line < FAST || asks >= USUAL_READ_REQUEST {
        return None;
    }
    let says = format!(
        "{} asks for {asks} bytes with each PCIe read, where {USUAL_READ_REQUEST} is usual: it can send {} at the \
         most of its line rate of {line}, and less where memory is slow to answer.",
        nic.in_words(),
        limit.send
    );
    let saw = format!("MaxReadRequest {asks} of {}", nic.id);
    let finding = finding(nic, says, saw, from);
    match limit.send < line {
        true => Some(with_share(finding, nic, limit.send, line)),
        false => Some(finding),
    }
}

fn finding(nic: &NicView<'_>, says: String, saw: String, from: String) -> Finding {
    let evidence = vec![Evidence { saw, from }];
    let subject = nic.subject(None);
    plain(
        Rule::PayloadSize,
        Severity::Warning,
        subject,
        says,
        evidence,
        REMEDY,
    )
}

/// The limit is computed: it is no measurement.
fn with_share(finding: Finding, nic: &NicView<'_>, most: Gbps, line: Gbps) -> Finding {
    Finding {
        expected: Some(line),
        expected_from: nic.line.source().map(str::to_owned),
        ratio: most.share_of(line),
        ..finding
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{at, said};
    use super::*;
    use crate::model::NodeFacts;
    use crate::model::testing::pcie::TwoSockets;

    fn with(payload: u16, asks: u16, line: f64) -> NodeFacts {
        let mut facts = TwoSockets::with(|tree| {
            let control = DeviceControl {
                max_payload: payload,
                payload_capable: Some(512),
                max_read_request: asks,
                relaxed_ordering: true,
            };
            at(tree, TwoSockets::NIC1).control = Fact::known(control, "/sys/…/config");
        });
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value[1].ports[0].rate = Fact::known(Gbps(line), "rate");
        }
        facts
    }

    #[test]
    fn a_small_payload_is_told_where_the_line_no_longer_fits() {
        let said = |facts: &NodeFacts| said(Rule::PayloadSize, facts);
        // Gen5 x16 with 128 bytes receives 425.
        let found = said(&with(128, 4096, 440.0));
        let [finding] = &found.findings[..] else {
            panic!("{found:#?}")
        };
        assert_eq!(
            finding.says,
            "The PCIe packets of NIC mlx5_1 of node02 carry 128 bytes, and every hop is capable of 512: it can \
             receive 425 Gb/s of its line rate of 440 Gb/s, where 482 Gb/s could be had."
        );
        assert_eq!(finding.expected, Some(Gbps(440.0)));
        assert_eq!(said(&with(128, 4096, 400.0)), Said::default());
        assert_eq!(said(&with(256, 4096, 440.0)), Said::default());
    }

    #[test]
    fn small_read_requests_are_told_of_fast_nics() {
        let said = |facts: &NodeFacts| said(Rule::PayloadSize, facts);
        let found = said(&with(256, 128, 400.0));
        let [finding] = &found.findings[..] else {
            panic!("{found:#?}")
        };
        assert_eq!(finding.subject.to_string(), "mlx5_1 of node02");
        assert!(
            finding.says.contains("it can send 436 Gb/s at the most"),
            "{}",
            finding.says
        );
        assert_eq!(finding.ratio, None, "the line still fits");
        assert!(said(&with(256, 128, 450.0)).findings[0].ratio.is_some());
        assert_eq!(said(&with(256, 128, 100.0)), Said::default());
        assert_eq!(said(&with(256, 512, 400.0)), Said::default());
    }
}
