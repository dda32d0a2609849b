//! A port whose link came up slower than that of the same card beside it.

use super::Said;
use crate::judge::rules::{About, plain};
use crate::judge::{NicView, NodeView};
use crate::model::{Evidence, Finding, Gbps, LinkLayer, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::PortSpeed,
    means: "The link of a port runs slower than those of the same board in the same node, or, on InfiniBand, on one \
            lane only. A bad cable, transceiver or switch port makes a link train down; nothing reports an error, \
            and the port is ACTIVE.",
    detected: "rate below /sys/class/infiniband/DEV/ports/N, with its lanes, compared among the active ports that \
               count of the same board (board_id, else hca_type) and link layer. A warning where more than half of \
               them are faster, a fault where that are three at least and the port plays a rail, or where it runs on \
               one lane of InfiniBand. Two lanes of NDR or HDR are usual behind a split cable, and not mentioned by \
               themselves; of two ports that differ it cannot be told which is meant.",
    remedy: "Reseat or change the cable or transceiver, look at the switch port's speed and at `mlxlink -d DEV` (or \
             `ethtool X`), and compare with a sibling.",
};

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    let cards: Vec<_> = node.nics.iter().filter(is_compared).collect();
    let found = |nic: &&NicView<'_>| one_lane(nic).or_else(|| below(nic, &cards));
    said.findings.extend(cards.iter().filter_map(found));
}

fn is_compared(nic: &&NicView<'_>) -> bool {
    nic.device.software.is_none() && nic.is_active()
}

/// InfiniBand on a single lane: no cable of today is made for that.
fn one_lane(nic: &NicView<'_>) -> Option<Finding> {
    let infiniband = nic.port.link_layer.value() == Some(&LinkLayer::InfiniBand);
    let lanes = nic
        .port
        .lanes
        .value()
        .filter(|lanes| infiniband && lanes.count == 1)?;
    let rate = nic.port.rate.value()?;
    let expected = Gbps(rate.0 * 4.0);
    let says = format!(
        "The link of {} runs on one lane ({lanes}), at {rate}: four are usual.",
        nic.in_words()
    );
    Some(found(
        nic,
        Severity::Fault,
        says,
        expected,
        "four lanes of the same speed",
    ))
}

/// Slower than most others of its kind.
fn below(nic: &NicView<'_>, cards: &[&NicView<'_>]) -> Option<Finding> {
    let rate = rate(nic)?;
    let alike: Vec<_> = cards
        .iter()
        .filter(|other| other.id != nic.id && is_same_board(nic, other))
        .filter_map(|other| self::rate(other))
        .collect();
    let best = alike
        .iter()
        .copied()
        .fold(Gbps(0.0), |a, b| if b.0 > a.0 { b } else { a });
    // The same signalling rate by another encoding is no difference.
    if best.0 * SAME_FROM <= rate.0 {
        return None;
    }
    let faster = alike
        .iter()
        .filter(|other| other.0 * SAME_FROM > rate.0)
        .count();
    // Of all, this one too.
    if faster * 2 <= alike.len() + 1 {
        return None;
    }
    let severity = match nic.rail {
        Some(_) if faster >= 3 => Severity::Fault,
        _ => Severity::Warning,
    };
    let lanes = nic.port.lanes.value();
    let lanes = lanes.map(|lanes| format!(" ({lanes})")).unwrap_or_default();
    let says = format!(
        "The link of {} runs at {rate}{lanes}; {faster} of {} others of the same board in this node run at up to \
         {best}.",
        nic.in_words(),
        alike.len()
    );
    Some(found(
        nic,
        severity,
        says,
        best,
        "others of the same board in this node",
    ))
}

/// Rates from this share of each other on are the same.
const SAME_FROM: f64 = 0.9;

fn rate(nic: &NicView<'_>) -> Option<Gbps> {
    nic.port
        .rate
        .value()
        .copied()
        .filter(|rate| rate.is_positive())
}

/// Board and settings agree (the PSID); where no board is stated the chip.
fn is_same_board(a: &NicView<'_>, b: &NicView<'_>) -> bool {
    let (one, other) = (&a.device.identity, &b.device.identity);
    let layer = |nic: &NicView<'_>| nic.port.link_layer.value().copied();
    let same = match (one.board_id.value(), other.board_id.value()) {
        (Some(one), Some(other)) => one == other,
        (None, None) => {
            let chip = one.hca_type.value();
            chip.is_some() && chip == other.hca_type.value()
        }
        _ => false,
    };
    same && layer(a) == layer(b)
}

fn found(
    nic: &NicView<'_>,
    severity: Severity,
    says: String,
    expected: Gbps,
    from: &str,
) -> Finding {
    let seen = |saw: String, source: Option<&str>| {
        Some(Evidence {
            saw,
            from: source?.to_owned(),
        })
    };
    let (rate, board) = (&nic.port.rate, &nic.device.identity.board_id);
    let evidence = [
        rate.value()
            .and_then(|value| seen(format!("rate {value}"), rate.source())),
        board
            .value()
            .and_then(|value| seen(format!("board {value}"), board.source())),
    ];
    let evidence = evidence.into_iter().flatten().collect();
    let finding = plain(
        Rule::PortSpeed,
        severity,
        nic.subject(None),
        says,
        evidence,
        ABOUT.remedy,
    );
    Finding {
        expected: Some(expected),
        expected_from: Some(from.to_owned()),
        ratio: rate.value().and_then(|rate| rate.share_of(expected)),
        ..finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{inspect, judge};
    use crate::ledger::testing::{events, ledger};
    use crate::model::testing::{facts, port};
    use crate::model::{Event, Fact, Lanes, NodeFacts, NodeName, Port, RdmaDevice};

    /// Ports of these rates on cards of one board.
    fn node(rates: &[f64]) -> NodeFacts {
        let names: Vec<_> = (0..rates.len()).map(|n| format!("mlx5_{n}")).collect();
        let with = |rate: f64| Port {
            rate: Fact::known(Gbps(rate), "rate"),
            ..port()
        };
        let devices = names.iter().zip(rates);
        let devices = devices.map(|(name, rate)| (&**name, "0000:01:00.0", with(*rate)));
        let mut facts = facts(devices.collect());
        each(&mut facts, |device| {
            device.identity.board_id = Fact::known("MT_0838".into(), "board_id");
        });
        facts
    }

    fn each(facts: &mut NodeFacts, change: impl Fn(&mut RdmaDevice)) {
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value.iter_mut().for_each(change);
        }
    }

    fn told(facts: &NodeFacts) -> Vec<Finding> {
        let mut said = inspect(&NodeName::from("node01"), facts);
        said.findings.retain(|f| f.rule == Rule::PortSpeed);
        said.findings
    }

    #[test]
    fn one_port_of_four_at_half_speed_is_named() {
        let found = told(&node(&[400.0, 400.0, 200.0, 400.0]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].severity, Severity::Warning);
        assert_eq!(
            found[0].says,
            "The link of NIC mlx5_2 of node01 runs at 200 Gb/s; 3 of 3 others of the same board in this node run at \
             up to 400 Gb/s."
        );
        assert_eq!(
            (found[0].expected, found[0].ratio),
            (Some(Gbps(400.0)), Some(0.5))
        );
    }

    #[test]
    fn what_is_no_shortfall_is_not_mentioned() {
        for rates in [
            &[400.0, 400.0, 400.0, 400.0][..],
            // As many slow as fast: two kinds of use, not a bad cable.
            &[400.0, 400.0, 200.0, 200.0],
            // The odd one is the faster one.
            &[200.0, 200.0, 200.0, 400.0],
            &[200.0],
        ] {
            assert!(told(&node(rates)).is_empty(), "{rates:?}");
        }
        // A storage NIC beside those of the fabric is another board.
        let mut facts = node(&[400.0, 400.0, 400.0, 100.0]);
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value[3].identity.board_id = Fact::known("MT_0359".into(), "board_id");
        }
        assert!(told(&facts).is_empty());
        let mut facts = node(&[400.0, 400.0, 400.0, 200.0]);
        each(&mut facts, |device| {
            device.software = Some(crate::model::SoftwareRdma::Rxe)
        });
        assert!(told(&facts).is_empty());
    }

    #[test]
    fn one_lane_is_a_fault_on_infiniband_and_two_are_a_split_cable() {
        let with = |count, layer, speed: &str, gbps| {
            let mut facts = node(&[gbps]);
            each(&mut facts, |device| {
                device.ports[0].lanes = Fact::known(
                    Lanes {
                        count,
                        speed: Some(speed.into()),
                    },
                    "rate",
                );
                device.ports[0].link_layer = Fact::known(layer, "link_layer");
            });
            told(&facts)
        };
        let found = with(1, LinkLayer::InfiniBand, "NDR", 100.0);
        assert_eq!(found[0].severity, Severity::Fault);
        assert!(found[0].says.contains("one lane (1X NDR), at 100 Gb/s"));
        assert!(with(2, LinkLayer::InfiniBand, "NDR", 200.0).is_empty());
        assert!(with(1, LinkLayer::Ethernet, "EDR", 25.0).is_empty());
    }

    #[test]
    fn on_a_rail_the_odd_one_is_a_fault() {
        let mut events = events(2, 4, &|_, _, _| Some(391.0));
        for event in &mut events {
            if let Event::NodeSurveyed { node, facts } = event {
                each(facts, |device| {
                    device.identity.board_id = Fact::known("MT_0838".into(), "board_id");
                    if *node == NodeName::from("node02") && device.name == "mlx5_1" {
                        device.ports[0].rate = Fact::known(Gbps(200.0), "rate");
                    }
                });
            }
        }
        let found = judge(&ledger(&events)).findings;
        let told: Vec<_> = found.iter().filter(|f| f.rule == Rule::PortSpeed).collect();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].severity, Severity::Fault);
        assert!(
            told[0]
                .says
                .starts_with("The link of NIC mlx5_1 of node02 (rail 1)")
        );
    }
}
