//! An error counter at its end: it says "at least", and what happens now no longer shows in it.

use super::Said;
use crate::judge::rules::{About, plain};
use crate::judge::{NicView, NodeView};
use crate::model::{Counter, Evidence, Fact, Finding, Rule, Severity};

pub(super) const ABOUT: About = About {
    rule: Rule::CounterSaturated,
    means: "An error counter of the port stands at the end of its field and counts no more: how often it \
            really happened is unknown, and so is whether it still happens.",
    detected: "Counters in ports/N/counters at the largest value of their field in the InfiniBand \
               specification (8 bits of link_downed, 16 of symbol_error). Those of 4 bits are left out, which \
               are full after 15 events, and those of data and waiting.",
    remedy: REMEDY,
};

const REMEDY: &str = "Reset the port's counters (perfquery -R on InfiniBand) and look again after a day; until then \
                      watch the link by the switch's own counters.";

/// Fields of errors that say something when they are full.
const TELLING: &[&str] = &[
    "VL15_dropped",
    "link_downed",
    "link_error_recovery",
    "port_rcv_constraint_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "symbol_error",
];

pub(super) fn check(node: &NodeView<'_>, said: &mut Said) {
    said.findings.extend(node.nics.iter().filter_map(finding));
}

fn finding(nic: &NicView<'_>) -> Option<Finding> {
    let Fact::Known { value, from } = &nic.port.counters else {
        return None;
    };
    let is_full =
        |counter: &&Counter| counter.is_saturated() && TELLING.contains(&counter.name.as_str());
    let full: Vec<&Counter> = value.values.iter().filter(is_full).collect();
    let names: Vec<&str> = full.iter().map(|counter| counter.name.as_str()).collect();
    let says = match names.as_slice() {
        [] => return None,
        [name] => format!(
            "{}: {name} has reached the end of its field and counts no more.",
            nic.in_words()
        ),
        names => format!(
            "{}: {} have reached the end of their fields and count no more.",
            nic.in_words(),
            names.join(", ")
        ),
    };
    let evidence = full.iter().map(|counter| Evidence {
        saw: format!("{} is {} or more", counter.name, counter.value),
        from: format!("{}: {from}", nic.id.node),
    });
    Some(plain(
        Rule::CounterSaturated,
        Severity::Note,
        nic.subject(None),
        says,
        evidence.collect(),
        REMEDY,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::inspect;
    use crate::model::Counters;
    use crate::model::testing::{facts, port};

    fn said(values: &[(&str, u64, Option<u64>)]) -> Vec<Finding> {
        let counter = |(name, value, saturates_at): &(&str, u64, Option<u64>)| Counter {
            name: (*name).into(),
            value: *value,
            saturates_at: *saturates_at,
        };
        let mut port = port();
        let values = values.iter().map(counter).collect();
        let unread = Vec::new();
        port.counters = Fact::known(Counters { values, unread }, "/sys/x/counters");
        let facts = facts(vec![("mlx5_0", "0000:01:00.0", port)]);
        let mut said = inspect(&"n1".into(), &facts).findings;
        said.retain(|finding| finding.rule == Rule::CounterSaturated);
        said
    }

    #[test]
    fn full_fields_are_told_once_for_a_nic() {
        let said = said(&[
            ("link_downed", 255, Some(255)),
            ("port_xmit_discards", 65_535, Some(65_535)),
            ("symbol_error", 3, Some(65_535)),
        ]);
        assert_eq!(said.len(), 1);
        assert_eq!(
            said[0].says,
            "NIC mlx5_0 of n1: link_downed, port_xmit_discards have reached the end of their fields \
             and count no more."
        );
        assert_eq!(said[0].severity, Severity::Note);
        assert_eq!(said[0].evidence[0].saw, "link_downed is 255 or more");
    }

    #[test]
    fn small_wide_and_busy_counters_are_not() {
        let said = said(&[
            ("excessive_buffer_overrun_errors", 15, Some(15)),
            (
                "port_xmit_wait",
                u64::from(u32::MAX),
                Some(u64::from(u32::MAX)),
            ),
            ("link_downed", 255, None),
        ]);
        assert_eq!(said, []);
    }
}
