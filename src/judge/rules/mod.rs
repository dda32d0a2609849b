//! One file for each kind of finding, and what they share.

mod above_expected;
mod bandwidth;
mod corrupt_data;
mod line_rate_unknown;
mod no_nic;
mod node_lost;
mod pcie_link;
mod port_down;
mod probe_failed;
mod rail_below_expected;
mod slow_pair;
mod slow_path;

use super::{Localised, Observation};
use crate::ledger::Ledger;
use crate::model::{Evidence, Expect, Finding, NodeName, Subject};

/// What a rule may look at.
pub(super) struct Context<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) expect: &'a Expect,
    pub(super) observations: &'a [Observation<'a>],
    pub(super) localised: Localised<'a>,
}

/// Everything there is to say, the worst first.
pub(super) fn findings(context: &Context<'_>) -> Vec<Finding> {
    let rules: [fn(&Context<'_>) -> Vec<Finding>; 12] = [
        node_lost::check,
        no_nic::check,
        port_down::check,
        corrupt_data::check,
        bandwidth::check,
        pcie_link::check,
        slow_pair::check,
        slow_path::check,
        rail_below_expected::check,
        above_expected::check,
        probe_failed::check,
        line_rate_unknown::check,
    ];
    let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(context)).collect();
    let share = |finding: &Finding| finding.ratio.unwrap_or(0.0);
    findings.sort_by(|a, b| {
        a.severity
            .cmp(&b.severity)
            .then(share(a).total_cmp(&share(b)))
    });
    findings
}

/// What a share of an observation is a share of: nobody's expectation where none is known.
fn whole(seen: &Observation<'_>) -> &'static str {
    match seen.expected.value() {
        Some(_) => "expected",
        None => "what its rail's best reach",
    }
}

/// An observation as evidence: the rate, its share, and the probe that it is from.
fn evidence(seen: &Observation<'_>) -> Evidence {
    let of = whole(seen);
    let best_of = match seen.samples {
        0 | 1 => String::new(),
        samples => format!(", the best of {samples} probes"),
    };
    let (from, to) = (&seen.pair.from, &seen.pair.to);
    Evidence {
        saw: format!(
            "{from} → {to}: {}, {:.2} of {of}{best_of}",
            seen.rate, seen.ratio
        ),
        from: format!("{}, RDMA write", seen.probe.planned.probe),
    }
}

/// Names in a row, the first few and how many more there are.
fn names<'n>(nodes: impl IntoIterator<Item = &'n NodeName>) -> String {
    const SHOWN: usize = 4;
    let mut all: Vec<&str> = nodes.into_iter().map(|node| node.0.as_str()).collect();
    all.sort_unstable();
    all.dedup();
    let more = all.len().saturating_sub(SHOWN);
    all.truncate(SHOWN);
    match more {
        0 => all.join(", "),
        more => format!("{} and {more} more", all.join(", ")),
    }
}

/// A finding without a measurement.
fn plain(
    rule: crate::model::Rule,
    severity: crate::model::Severity,
    subject: Subject,
    says: String,
    evidence: Vec<Evidence>,
    remedy: impl Into<String>,
) -> Finding {
    Finding {
        rule,
        severity,
        subject,
        says,
        measured: None,
        expected: None,
        expected_from: None,
        ratio: None,
        evidence,
        remedy: remedy.into(),
    }
}

/// A finding that rests on a measured pair.
fn measured(finding: Finding, seen: &Observation<'_>) -> Finding {
    Finding {
        measured: Some(seen.rate),
        expected: seen.expected.value().copied(),
        expected_from: seen.expected.source().map(str::to_owned),
        ratio: Some(seen.ratio),
        ..finding
    }
}
