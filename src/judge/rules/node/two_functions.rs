//! A card with several ports on one PCIe link, or with one port on several.

use std::collections::BTreeMap;

use crate::judge::cause::evidence;
use crate::judge::rules::{About, Said, listed, plain};
use crate::judge::{NicView, NodeView};
use crate::model::{Evidence, Finding, Gbps, PciAddress, PcieTree, Rule, Severity};
use crate::topology::PcieLimit;

pub(super) const ABOUT: About = About {
    rule: Rule::TwoFunctions,
    means: "Several ports of one card share its PCIe link, which carries each of them and not all at once. \
            Where each port is a rail, all of them together reach no more than the link. Or the other way \
            round (Socket Direct): a card has a PCIe link on each socket, and whoever uses one function \
            alone gets half of its line.",
    detected: "RDMA devices whose PCI addresses differ in the function alone, ports of one device, and the \
               narrowest link on their way to the root, against the sum of their line rates: a warning \
               where they play rails, else a note. RDMA devices in several slots that state one \
               sys_image_guid, where a link carries less than the line: a warning. Says nothing where the \
               PCIe link is unknown.",
    remedy: REMEDY,
};

const REMEDY: &str = "Use one port for each card where jobs need the whole rate, or a slot with more lanes or a higher \
                      speed if the card can have them.";

/// Less of the sum than this costs more than headers do.
const ENOUGH: f64 = 0.95;

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let Some(tree) = node.pcie() else { return };
    for nics in cards(node).into_values().filter(|nics| nics.len() > 1) {
        said.findings.extend(shared(node, tree, &nics));
    }
    let split = node.nics.iter().filter_map(|nic| split(node, nic));
    said.findings.extend(split);
}

/// Domain, bus and device of a function's address.
fn slot(pci: &PciAddress) -> Option<&str> {
    pci.0.rsplit_once('.').map(|(slot, _)| slot)
}

/// A NIC whose link carries less than its line, and whose card has links in other slots.
fn split<'a>(node: &NodeView<'a>, nic: &NicView<'a>) -> Option<Finding> {
    let card = nic.device.identity.card.value()?;
    let own = most(node.above(nic.device)?.limit.as_ref()?);
    let line = *nic.line.value()?;
    let here = slot(nic.pci()?)?;
    if own.share_of(line)? >= ENOUGH {
        return None;
    }
    let mut others: BTreeMap<&str, (&str, Gbps)> = BTreeMap::new();
    for device in node.facts.rdma.value()?.iter().take(MOST_DEVICES) {
        let there = device.pci.value().and_then(slot);
        let above = node.above(device);
        let carries = above.and_then(|above| above.limit.as_ref().map(most));
        if let (Some(there), Some(carries)) = (there, carries)
            && device.identity.card.value() == Some(card)
            && there != here
        {
            others.entry(there).or_insert((&device.name, carries));
        }
    }
    let (_, first) = others.first_key_value()?;
    let together = Gbps(own.0 + others.values().map(|(_, carries)| carries.0).sum::<f64>());
    let says = format!(
        "{} is one of {} PCIe functions of its card in different slots: alone it carries {own} of the line \
         rate of {line}, together with {} {together}.",
        nic.in_words(),
        others.len() + 1,
        listed(others.values().map(|(name, _)| (*name).to_owned())),
    );
    let same = format!("sys_image_guid {card} of {} and {}", nic.id.device, first.0);
    let evidence = vec![Evidence {
        saw: same,
        from: nic.device.identity.card.source()?.to_owned(),
    }];
    let plain = plain(
        Rule::TwoFunctions,
        Severity::Warning,
        nic.subject(None),
        says,
        evidence,
        "Have jobs use all functions of the card, each from its own socket, or use a card in one slot that \
         carries the whole line.",
    );
    Some(Finding {
        expected: Some(line),
        expected_from: nic.line.source().map(str::to_owned),
        ratio: own.share_of(line),
        ..plain
    })
}

/// More RDMA devices than any node has; what a node sends may be longer.
const MOST_DEVICES: usize = 256;

/// The NICs by their card: domain, bus and device.
fn cards<'n, 'a>(node: &'n NodeView<'a>) -> BTreeMap<&'a str, Vec<&'n NicView<'a>>> {
    let mut cards: BTreeMap<&str, Vec<&NicView<'_>>> = BTreeMap::new();
    for nic in node.nics.iter().filter(|nic| nic.device.software.is_none()) {
        if let Some(card) = nic.pci().and_then(slot) {
            cards.entry(card).or_default().push(nic);
        }
    }
    cards
}

fn shared<'a>(node: &NodeView<'a>, tree: &PcieTree, nics: &[&NicView<'a>]) -> Option<Finding> {
    // Virtual functions share a port, and so its line.
    if nics.iter().any(|nic| is_virtual(tree, nic)) {
        return None;
    }
    let above = nics.iter().map(|nic| node.above(nic.device));
    let above: Vec<_> = above.collect::<Option<_>>()?;
    let limits = above.iter().map(|above| above.limit.as_ref());
    let limits: Vec<&PcieLimit> = limits.collect::<Option<_>>()?;
    let lines = nics.iter().map(|nic| nic.line.value().copied());
    let lines: Vec<Gbps> = lines.collect::<Option<_>>()?;
    let tightest = limits
        .iter()
        .min_by(|a, b| most(a).0.total_cmp(&most(b).0))?;
    let sum = Gbps(lines.iter().map(|line| line.0).sum());
    let share = most(tightest).share_of(sum)?;
    // A link that does not carry even one of them is told as that.
    let carries_each = lines.iter().all(|line| *line <= most(tightest));
    (share < ENOUGH && carries_each).then(|| finding(node, nics, tightest, sum, share))
}

fn is_virtual(tree: &PcieTree, nic: &NicView<'_>) -> bool {
    let function = nic.pci().and_then(|pci| tree.function(pci));
    function.is_some_and(|function| function.physical_function.is_some())
}

fn finding(
    node: &NodeView<'_>,
    nics: &[&NicView<'_>],
    tightest: &PcieLimit,
    sum: Gbps,
    share: f64,
) -> Finding {
    let name = |nic: &&NicView<'_>| match nic.id.port {
        1 => nic.id.device.to_string(),
        port => format!("{} port {port}", nic.id.device),
    };
    let says = format!(
        "{} of {} share one PCIe link, which carries {} of the {sum} that they have together.",
        listed(nics.iter().map(name)),
        node.name,
        most(tightest)
    );
    let severity = match nics.iter().all(|nic| nic.rail.is_some()) {
        true => Severity::Warning,
        false => Severity::Note,
    };
    let evidence = vec![evidence(&tightest.narrowest, &nics[0].id)];
    let subject = node.subject();
    let finding = plain(
        Rule::TwoFunctions,
        severity,
        subject,
        says,
        evidence,
        REMEDY,
    );
    Finding {
        expected: Some(sum),
        expected_from: Some("the sum of their line rates".to_owned()),
        ratio: Some(share),
        ..finding
    }
}

fn most(limit: &PcieLimit) -> Gbps {
    Gbps(limit.send.0.min(limit.receive.0))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{at, said};
    use super::*;
    use crate::model::testing::pcie::{TwoSockets, address, link};
    use crate::model::{Fact, NodeFacts};

    /// `mlx5_2` and `mlx5_3` are functions of one card at Gen5 x16.
    fn with(line: f64) -> NodeFacts {
        let mut facts = TwoSockets::facts();
        if let Fact::Known { value, .. } = &mut facts.rdma {
            for device in value {
                device.ports[0].rate = Fact::known(Gbps(line), "rate");
            }
        }
        facts
    }

    #[test]
    fn two_ports_of_a_card_are_added_up() {
        let found = said(Rule::TwoFunctions, &with(400.0));
        let [finding] = &found.findings[..] else {
            panic!("{found:#?}")
        };
        assert_eq!(
            finding.says,
            "mlx5_2, mlx5_3 of node02 share one PCIe link, which carries 461 Gb/s of the 800 Gb/s that they \
             have together."
        );
        assert_eq!(finding.severity, Severity::Note);
        assert_eq!(said(Rule::TwoFunctions, &with(200.0)), Said::default());
        // Not even one fits: that is another rule's.
        assert_eq!(said(Rule::TwoFunctions, &with(800.0)), Said::default());
    }

    /// `mlx5_0` on socket 0 and `mlx5_4` on socket 1, at Gen3 x16 each.
    fn socket_direct(same_card: bool) -> NodeFacts {
        let mut facts = with(200.0);
        let gen3 = (crate::model::LinkSpeed::Gen3, 16);
        if let Fact::Known { value, .. } = &mut facts.pcie {
            for nic in [TwoSockets::NIC0, TwoSockets::NIC4, "0000:c2:00.0"] {
                at(value, nic).link = link(gen3, gen3);
            }
        }
        if let Fact::Known { value, .. } = &mut facts.rdma {
            for (number, device) in value.iter_mut().enumerate() {
                let card = if same_card && number == 4 { 0 } else { number };
                let guid = format!("b83f:d203:00e5:000{card}").parse().unwrap();
                device.identity.card = Fact::known(guid, format!("{}/sys_image_guid", device.name));
            }
        }
        facts
    }

    #[test]
    fn a_card_in_two_slots_is_told_with_what_both_carry() {
        let found = said(Rule::TwoFunctions, &socket_direct(true)).findings;
        let says: Vec<_> = found.iter().map(|finding| &*finding.says).collect();
        assert_eq!(
            says,
            [
                "NIC mlx5_0 of node02 is one of 2 PCIe functions of its card in different slots: alone it \
                 carries 115 Gb/s of the line rate of 200 Gb/s, together with mlx5_4 230 Gb/s.",
                "NIC mlx5_4 of node02 is one of 2 PCIe functions of its card in different slots: alone it \
                 carries 115 Gb/s of the line rate of 200 Gb/s, together with mlx5_0 230 Gb/s.",
            ]
        );
        assert_eq!(found[0].severity, Severity::Warning);
        assert_eq!(
            said(Rule::TwoFunctions, &socket_direct(false)),
            Said::default()
        );
    }

    #[test]
    fn virtual_functions_share_a_line() {
        let mut facts = with(400.0);
        if let Fact::Known { value, .. } = &mut facts.pcie {
            at(value, TwoSockets::NIC3).physical_function =
                Some(Fact::known(address(TwoSockets::NIC2), "physfn"));
        }
        assert_eq!(said(Rule::TwoFunctions, &facts), Said::default());
    }
}
