//! Whether everybody was measured: every NIC of every node, each way.

use super::run::{NO_RAILS, Run};
use super::told::{Is, Told, Who, listed};
use crate::config::Select;
use crate::model::{Direction, NicId, NodeName, Rail, RunEnd};

const WAYS: [Direction; 2] = [Direction::Tx, Direction::Rx];

/// Nothing here fails: what was not measured cannot be judged.
pub(super) fn coverage(run: &Run<'_>, select: &Select, share: f64) -> Vec<Told> {
    let mut told: Vec<Told> = whole(run, select).into_iter().collect();
    if run.rails.is_empty() {
        told.push(Told::unknown(Who::cluster(), NO_RAILS));
        return told;
    }
    let nodes = run
        .nodes(select)
        .into_iter()
        .map(|node| of_node(run, select, node));
    let nodes: Vec<OfNode> = nodes.collect();
    if share >= 1.0 {
        told.extend(nodes.into_iter().map(OfNode::told));
        return told;
    }
    let measured: usize = nodes.iter().map(|node| node.measured).sum();
    let total: usize = nodes
        .iter()
        .map(|node| node.measured + node.missing.len())
        .sum();
    let saw = format!("{measured} of {total} NIC directions measured");
    let enough = total > 0 && measured as f64 >= share * total as f64;
    let mut all = Told::seen(Who::cluster(), enough, saw.clone());
    if !enough {
        all.is = Is::Unknown(saw);
    }
    for why in nodes.iter().flat_map(|node| &node.missing).take(8) {
        all = all.evidence(why, "the run");
    }
    told.push(all);
    told
}

/// What keeps a run from being whole.
fn whole(run: &Run<'_>, select: &Select) -> Option<Told> {
    let unknown = |why: &str| Some(Told::unknown(Who::cluster(), why));
    let Some(settings) = run.settings else {
        return unknown("the record does not say what was to be measured");
    };
    if settings.nodes.len() < 2 {
        return unknown("one node alone has nobody to be measured with");
    }
    let only = &settings.sweep.only_rails;
    if !only.is_empty() && select.rails.is_empty() {
        let why = format!("the run was asked for no more than {}", listed(only));
        return unknown(&why);
    }
    match run.ledger.end() {
        Some(RunEnd::Complete) => None,
        Some(RunEnd::Interrupted) => unknown("the run was interrupted"),
        Some(RunEnd::TimeUp) => unknown("the time budget was spent before everything was tried"),
        None => unknown("the run did not come to its end"),
    }
}

/// What was measured of a node.
struct OfNode {
    who: Who,
    measured: usize,
    /// Each direction that was not, with the reason.
    missing: Vec<String>,
}

impl OfNode {
    fn told(self) -> Told {
        let total = self.measured + self.missing.len();
        let saw = format!("{} of {total} NIC directions measured", self.measured);
        let mut told = Told::seen(self.who, self.missing.is_empty() && total > 0, saw.clone());
        if !told.holds() {
            let first = self.missing.first().map_or("there is none", String::as_str);
            told.is = Is::Unknown(format!("{saw}: {first}"));
        }
        for why in self.missing.iter().take(8) {
            told = told.evidence(why, "the run");
        }
        told
    }
}

fn of_node(run: &Run<'_>, select: &Select, node: &NodeName) -> OfNode {
    let mut found = OfNode {
        who: Who::node(node),
        measured: 0,
        missing: Vec::new(),
    };
    let only = Select {
        nodes: vec![node.clone()],
        rails: select.rails.clone(),
        groups: Vec::new(),
    };
    for place in run.places(&only) {
        match place {
            Ok((_, nic)) => {
                for way in WAYS {
                    match run.ends.seen(&run.observed, &nic.id, way).is_empty() {
                        false => found.measured += 1,
                        true => found.missing.push(why_not(run, &nic.id, nic.rail, way)),
                    }
                }
            }
            Err((who, why)) => {
                let why = |way| format!("{} {way}: {why}", who.words);
                found.missing.extend(WAYS.map(why));
            }
        }
    }
    found
}

/// Why a direction of a NIC was not measured.
fn why_not(run: &Run<'_>, nic: &NicId, rail: Option<Rail>, way: Direction) -> String {
    let told = run.ends.why_none(nic, way);
    let skipped = || rail.and_then(|rail| run.ends.why_skipped(&nic.node, rail, way));
    let why = told.or_else(skipped);
    let why = why.unwrap_or("it belongs to no pair that was measured");
    format!("{nic} {way}: {why}")
}
