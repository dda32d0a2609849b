//! A link that goes down again and again: a fault in waiting, and error 12 in whatever runs meanwhile.

use super::Said;
use crate::judge::rules::{About, plain};
use crate::judge::{NicView, NodeView};
use crate::model::{Counter, Evidence, Fact, Finding, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::LinkFlapping,
    means: "The NIC's link was lost or had to recover again and again: a cable, a transceiver or a switch \
            port that is about to fail. Each time, transfers stall for seconds or end with error 12.",
    detected: "link_downed and link_error_recovery of the port, and carrier_changes of its network interface \
               (two for each loss), against the node's uptime: five or more, and five or more a day. What a \
               link did long ago does not count; what it does while a probe runs always does. Cannot be told where there were five or more and the uptime \
               is unknown.",
    remedy: REMEDY,
};

/// Others alarm at five losses in 24 hours; bringing a node up takes one or two.
const A_DAY: u64 = 5;

const DAY_S: u64 = 86_400;

pub(in crate::judge::rules) const REMEDY: &str = "Reseat or swap the cable and the transceiver, look at the switch port's log and error counters, \
                      and compare with siblings on the same switch.";

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    for nic in &node.nics {
        let seen = losses(nic);
        if seen.iter().all(|loss| loss.times < A_DAY) {
            continue;
        }
        let uptime_s = match &node.facts.uptime_s {
            Fact::Known { value, .. } => *value,
            Fact::Unknown { why } => {
                let times = seen.iter().map(|loss| loss.times).max().unwrap_or(0);
                let why = format!(
                    "its link was lost {times} times, and for how long the node is up is unknown: {why}"
                );
                said.cannot_tell(Rule::LinkFlapping, nic.subject(None), why);
                continue;
            }
        };
        let often: Vec<Loss> = seen
            .into_iter()
            .filter(|loss| is_often(loss.times, uptime_s))
            .collect();
        said.findings.extend(finding(nic, &often, uptime_s));
    }
}

/// How often a link was lost, by one counter.
struct Loss {
    times: u64,
    verb: &'static str,
    evidence: Evidence,
}

fn is_often(times: u64, uptime_s: u64) -> bool {
    // A node that is up for less than a day is given a whole one.
    let days = uptime_s.div_ceil(DAY_S).max(1);
    times >= days.saturating_mul(A_DAY)
}

fn losses(nic: &NicView<'_>) -> Vec<Loss> {
    let port = &nic.port.counters;
    let netdev = nic.port.netdev.value().map(|netdev| &netdev.counters);
    let loss = |set: Option<&Fact<_>>, name: &str, each: u64, verb| {
        let Fact::Known { value, from } = set? else {
            return None;
        };
        let value: &crate::model::Counters = value;
        let counter = value.get(name)?;
        Some(Loss {
            times: counter.value / each,
            verb,
            evidence: Evidence {
                saw: in_words(counter),
                from: format!("{}: {from}", nic.id.node),
            },
        })
    };
    let found = [
        loss(Some(port), "link_downed", 1, "was lost"),
        loss(Some(port), "link_error_recovery", 1, "had to recover"),
        loss(netdev, "carrier_changes", 2, "lost its carrier"),
    ];
    found.into_iter().flatten().collect()
}

/// `link_downed is 255 or more`.
fn in_words(counter: &Counter) -> String {
    let more = match counter.is_saturated() {
        true => " or more",
        false => "",
    };
    format!("{} is {}{more}", counter.name, counter.value)
}

fn finding(nic: &NicView<'_>, often: &[Loss], uptime_s: u64) -> Option<Finding> {
    let worst = often.iter().max_by_key(|loss| loss.times)?;
    let says = format!(
        "{}: its link {} {} times, and the node is up for {}.",
        nic.in_words(),
        worst.verb,
        worst.times,
        span(uptime_s)
    );
    let evidence = often.iter().map(|loss| loss.evidence.clone()).collect();
    Some(plain(
        Rule::LinkFlapping,
        Severity::Warning,
        nic.subject(None),
        says,
        evidence,
        REMEDY,
    ))
}

/// `3 days`, `5 hours`, `12 minutes`.
fn span(seconds: u64) -> String {
    let (number, unit) = match seconds {
        s if s >= 2 * DAY_S => (s / DAY_S, "days"),
        s if s >= 7200 => (s / 3600, "hours"),
        s => (s / 60, "minutes"),
    };
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::inspect;
    use crate::model::testing::{facts, port};
    use crate::model::{Counters, Netdev, NodeFacts};

    fn counters(values: &[(&str, u64, Option<u64>)]) -> Fact<Counters> {
        let counter = |(name, value, saturates_at): &(&str, u64, Option<u64>)| Counter {
            name: (*name).into(),
            value: *value,
            saturates_at: *saturates_at,
        };
        let values = values.iter().map(counter).collect();
        let unread = Vec::new();
        Fact::known(Counters { values, unread }, "/sys/x/counters")
    }

    fn node(
        port_counters: &[(&str, u64, Option<u64>)],
        carrier: u64,
        uptime_s: Fact<u64>,
    ) -> NodeFacts {
        let mut port = port();
        port.counters = counters(port_counters);
        port.netdev = Fact::known(
            Netdev {
                name: "eth1".into(),
                counters: counters(&[("carrier_changes", carrier, None)]),
                ..Netdev::default()
            },
            "test",
        );
        let mut facts = facts(vec![("mlx5_0", "0000:01:00.0", port)]);
        facts.uptime_s = uptime_s;
        facts
    }

    fn said(facts: &NodeFacts) -> Said {
        let mut said = inspect(&"n1".into(), facts);
        said.findings.retain(|f| f.rule == Rule::LinkFlapping);
        said.cannot_tell.retain(|c| c.rule == Rule::LinkFlapping);
        said
    }

    fn up(days: u64) -> Fact<u64> {
        Fact::known(days * DAY_S, "/proc/uptime")
    }

    #[test]
    fn a_link_that_is_lost_five_times_a_day_is_told_with_its_totals() {
        let found = said(&node(&[("link_downed", 31, Some(255))], 2, up(3)));
        let finding = &found.findings[0];
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.says,
            "NIC mlx5_0 of n1: its link was lost 31 times, and the node is up for 3 days."
        );
        assert_eq!(finding.evidence[0].saw, "link_downed is 31");
    }

    #[test]
    fn a_carrier_that_came_and_went_counts_once() {
        let found = said(&node(&[], 9, up(0)));
        assert!(found.findings.is_empty(), "{found:?}");
        let found = said(&node(&[], 10, up(0)));
        assert!(found.findings[0].says.contains("lost its carrier 5 times"));
    }

    #[test]
    fn a_healthy_start_and_an_old_story_are_no_finding() {
        for (downed, carrier, uptime) in [(2, 2, up(0)), (4, 9, up(1)), (40, 80, up(100))] {
            let found = said(&node(
                &[("link_downed", downed, Some(255))],
                carrier,
                uptime,
            ));
            assert_eq!(found, Said::default());
        }
    }

    #[test]
    fn without_an_uptime_many_losses_cannot_be_told() {
        let unknown = || Fact::unknown("/proc/uptime: Permission denied");
        let few = said(&node(&[("link_downed", 2, Some(255))], 2, unknown()));
        assert_eq!(few, Said::default());
        let many = said(&node(&[("link_downed", 7, Some(255))], 2, unknown()));
        assert!(many.findings.is_empty());
        assert!(many.cannot_tell[0].why.contains("7 times"), "{many:?}");
    }

    #[test]
    fn no_value_is_too_large() {
        let all = u64::MAX;
        let found = said(&node(
            &[("link_downed", all, None)],
            all,
            Fact::known(all, "x"),
        ));
        assert!(found.findings.len() <= 1);
    }
}
