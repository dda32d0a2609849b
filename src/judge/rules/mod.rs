//! One file for each kind of finding, and what they share.

mod about;
mod above_expected;
mod bandwidth;
mod came_and_went;
mod corrupt_data;
mod flow_collisions;
mod gpu_memory;
mod leaf_uplink;
mod line_rate_unknown;
mod link_lost;
mod load_limit;
mod nccl_tests;
mod no_nic;
mod node;
mod node_lost;
mod one_queue_pair;
mod port_down;
mod probe_failed;
mod rail_below_expected;
mod roce_loss;
mod siblings;
mod slow_pair;
mod slow_path;
mod tcp_limit;
mod wrong_rail;

pub use about::{About, about};
#[cfg(test)]
pub(super) use node::testing;

use std::collections::BTreeMap;

use super::cabling::Far;
use super::culprit::conditions;
use super::fabric::Fabric;
use super::{Localised, NcclTold, NodeView, Observation, Observed, Standings};
use crate::ledger::{Ledger, Probe};
use crate::model::{
    CannotTell, Direction, Evidence, Expect, Finding, NicId, NodeName, Purpose, Rule, Severity,
    Subject,
};
use crate::plan::Decision;

/// What a rule may look at.
pub(super) struct Context<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) expect: &'a Expect,
    pub(super) observed: &'a Observed<'a>,
    pub(super) localised: Localised<'a>,
    pub(super) standings: Standings,
    /// Where the cause of each accused NIC is, or what would tell.
    pub(super) culprits: BTreeMap<NicId, Decision>,
    /// The ways between leaf groups.
    pub(super) fabric: Fabric<'a>,
    /// NICs that are far from their neighbours.
    pub(super) far: Vec<Far<'a>>,
    /// What nccl-tests told.
    pub(super) nccl: Vec<NcclTold<'a>>,
}

/// What the rules say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// What a rule would have looked at and could not.
    pub cannot_tell: Vec<CannotTell>,
}

impl Said {
    fn cannot_tell(&mut self, rule: Rule, subject: Subject, why: impl Into<String>) {
        let why = why.into();
        self.cannot_tell.push(CannotTell { rule, subject, why });
    }

    fn sort(mut self) -> Self {
        let share = |finding: &Finding| finding.ratio.unwrap_or(0.0);
        self.findings.sort_by(|a, b| {
            a.severity
                .cmp(&b.severity)
                .then(share(a).total_cmp(&share(b)))
        });
        self.cannot_tell.sort();
        self.cannot_tell.dedup();
        self
    }
}

/// A rule on a run: what was measured, and what went wrong on the way.
struct RunRule {
    about: &'static [About],
    check: fn(&Context<'_>) -> Vec<Finding>,
}

/// All of them, in the order in which their findings are told.
const RUN_RULES: &[RunRule] = &[
    RunRule {
        about: &[node_lost::ABOUT],
        check: node_lost::check,
    },
    RunRule {
        about: &[no_nic::ABOUT],
        check: no_nic::check,
    },
    RunRule {
        about: &[port_down::ABOUT],
        check: port_down::check,
    },
    RunRule {
        about: &[corrupt_data::ABOUT],
        check: corrupt_data::check,
    },
    RunRule {
        about: &[bandwidth::HALF, bandwidth::DEGRADED],
        check: bandwidth::check,
    },
    RunRule {
        about: &[load_limit::SHARED, load_limit::NODE],
        check: load_limit::check,
    },
    RunRule {
        about: &[one_queue_pair::ABOUT],
        check: one_queue_pair::check,
    },
    RunRule {
        about: &[slow_pair::ABOUT],
        check: slow_pair::check,
    },
    RunRule {
        about: &[slow_path::ABOUT],
        check: slow_path::check,
    },
    RunRule {
        about: &[came_and_went::ABOUT],
        check: came_and_went::check,
    },
    RunRule {
        about: &[leaf_uplink::ABOUT],
        check: leaf_uplink::check,
    },
    RunRule {
        about: &[flow_collisions::ABOUT],
        check: flow_collisions::check,
    },
    RunRule {
        about: &[wrong_rail::ABOUT],
        check: wrong_rail::check,
    },
    RunRule {
        about: &[rail_below_expected::ABOUT],
        check: rail_below_expected::check,
    },
    RunRule {
        about: &[above_expected::ABOUT],
        check: above_expected::check,
    },
    RunRule {
        about: &[probe_failed::ABOUT],
        check: probe_failed::check,
    },
    RunRule {
        // Its text is with the rule on a node's facts.
        about: &[],
        check: link_lost::check,
    },
    RunRule {
        about: &[roce_loss::ABOUT],
        check: roce_loss::check,
    },
    RunRule {
        about: &[gpu_memory::COPIES],
        check: gpu_memory::check,
    },
    RunRule {
        about: &[nccl_tests::ABOUT],
        check: nccl_tests::check,
    },
    RunRule {
        about: &[tcp_limit::ABOUT],
        check: tcp_limit::check,
    },
    RunRule {
        about: &[line_rate_unknown::ABOUT],
        check: line_rate_unknown::check,
    },
];

/// The texts on all rules.
fn everything() -> Vec<&'static About> {
    let run = RUN_RULES.iter().flat_map(|rule| rule.about);
    let node = node::RULES.iter().flat_map(|rule| rule.about);
    let siblings = siblings::RULES.iter().flat_map(|rule| rule.about);
    run.chain(node).chain(siblings).collect()
}

/// Everything there is to say of a run, the worst first.
pub(super) fn of_run(context: &Context<'_>) -> Said {
    let mut said = Said::default();
    for rule in RUN_RULES {
        said.findings.extend((rule.check)(context));
    }
    let nodes = NodeView::of_run(context.ledger);
    let mut quiet = node::Quiet::default();
    for node in &nodes {
        quiet.of_node(node, &mut said);
    }
    for rule in siblings::RULES {
        (rule.check)(&nodes, &mut said);
    }
    gpu_memory::settle(context, &mut said);
    nccl_tests::settle(context, &mut said);
    // What a measured shortfall already names as its cause is not told a second time.
    said.findings.retain(|finding| match &finding.subject {
        Subject::Nic(nic, ..) if finding.rule == Rule::PcieLink => {
            !bandwidth::names_pcie(context, nic)
        }
        _ => true,
    });
    said.sort()
}

/// Everything that the facts of a node by itself say.
pub(super) fn of_node_alone(node: &NodeView<'_>) -> Said {
    let mut said = Said::default();
    of_node(node, &mut said);
    said.sort()
}

fn of_node(node: &NodeView<'_>, said: &mut Said) {
    for rule in node::RULES {
        (rule.check)(node, said);
    }
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
        from: format!(
            "{}, RDMA write{}{}",
            seen.probe.planned.probe,
            shape(seen.probe),
            conditions(seen.purpose).map_or(String::new(), |under| format!(", {under}"))
        ),
    }
}

/// Whether a pair was measured a single time.
fn once(context: &Context<'_>, seen: &Observation<'_>) -> bool {
    let same = context
        .observed
        .of_end(seen.ends[0], Direction::Tx)
        .into_iter();
    let same = same.filter(|other| other.ends == seen.ends);
    same.map(|other| other.samples).sum::<usize>() < 2
}

/// What sets a probe apart from the run's others.
fn shape(probe: &Probe) -> String {
    match &probe.planned.spec {
        Some(spec) if probe.planned.purpose == Purpose::Wide => {
            format!(", {} queue pairs x {}", spec.queue_pairs, spec.message_size)
        }
        _ => String::new(),
    }
}

/// Nodes in a row, in the order of their names.
fn names<'n>(nodes: impl IntoIterator<Item = &'n NodeName>) -> String {
    let mut all: Vec<&str> = nodes.into_iter().map(|node| node.0.as_str()).collect();
    all.sort_unstable();
    in_a_row(all)
}

/// Names in a row, each once: the first few and how many more there are.
fn in_a_row<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    const SHOWN: usize = 4;
    let mut once: Vec<&str> = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    let more = once.len().saturating_sub(SHOWN);
    once.truncate(SHOWN);
    match more {
        0 => once.join(", "),
        more => format!("{} and {more} more", once.join(", ")),
    }
}

/// Devices or rails in a row, the first few and how many more there are.
fn listed<T: AsRef<str>>(all: impl IntoIterator<Item = T>) -> String {
    const SHOWN: usize = 8;
    let all: Vec<T> = all.into_iter().collect();
    let shown: Vec<&str> = all.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match all.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A finding without a measurement.
fn plain(
    rule: Rule,
    severity: Severity,
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
