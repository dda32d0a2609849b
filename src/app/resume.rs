//! `linerate report --resume`: whether a recorded run may go on with what was asked for, and from
//! where.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use super::failure::Failure;
use super::replay::{cut_off, recalled};
use crate::compare::setting_leaves;
use crate::config::hostlist;
use crate::ledger::Ledger;
use crate::model::{NodeName, RunEnd, RunSettings};
use crate::record::{Unfinished, Writer};

/// A run that was begun earlier.
pub(super) struct Begun {
    /// How far it came.
    pub(super) so_far: Ledger,
    /// What it is asked to do: the cluster's nodes in the cluster's order, the record's seed.
    pub(super) settings: RunSettings,
    /// Where it is recorded on; `None` where it is complete.
    pub(super) record: Option<Writer>,
}

/// Settings that only bound a run: what was measured under others stays what it is.
const BOUNDS: [&str; 3] = ["force", "sweep.max_load", "sweep.time_budget_s"];

/// Opens the record of a run that `asked` gives the settings of, by its seed. Nothing is changed in
/// it before all is checked.
pub(super) fn open(
    file: &Path,
    asked: &dyn Fn(u64) -> Result<RunSettings, Failure>,
) -> Result<Begun, Failure> {
    let usage = |error: crate::record::RecordError| Failure::usage(Failure::chain(&error));
    let unfinished = Unfinished::open(file).map_err(usage)?;
    let so_far = recalled(unfinished.records());
    let Some(recorded) = so_far.settings() else {
        return Err(Failure::usage(format!(
            "{} has no settings",
            file.display()
        )));
    };
    let settings = asked(recorded.seed)?;
    let differ = differences(recorded, &settings);
    if !differ.is_empty() {
        return Err(Failure::usage(format!(
            "{} is of a run with other settings, and a run goes on only with its own: {}",
            file.display(),
            differ.join("; ")
        )));
    }
    if let Some(torn) = unfinished.torn() {
        eprintln!("{}", cut_off(file, torn, &so_far));
    }
    let record = match so_far.end() {
        Some(RunEnd::Complete) => None,
        _ => Some(unfinished.go_on().map_err(usage)?),
    };
    Ok(Begun {
        so_far,
        settings,
        record,
    })
}

/// What the settings of a record and those asked for have different, a clause each, but for bounds.
/// The order of nodes is none, in leaf groups either: no result depends on it.
fn differences(recorded: &RunSettings, asked: &RunSettings) -> Vec<String> {
    let only = |these: &RunSettings, those: &RunSettings, who: &str| {
        let known: HashSet<&NodeName> = those.nodes.iter().collect();
        let only = these.nodes.iter().filter(|node| !known.contains(node));
        let only: Vec<&str> = only.map(|node| node.0.as_str()).collect();
        (!only.is_empty()).then(|| format!("{} only {who}", hostlist::fold(&only)))
    };
    let mut found: Vec<String> = [
        only(recorded, asked, "in the record"),
        only(asked, recorded, "in what is asked for"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let (then, now) = (leaves(recorded), leaves(asked));
    let keys: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let text = |value: Option<&String>| value.map_or("not stated".to_owned(), Clone::clone);
    for key in keys {
        let (then, now) = (then.get(key), now.get(key));
        if then != now {
            found.push(format!(
                "{key} is {} in the record, {} in what is asked for",
                text(then),
                text(now)
            ));
        }
    }
    found
}

/// Every setting but the nodes and the bounds, by its dotted name as records have it.
fn leaves(settings: &RunSettings) -> BTreeMap<String, String> {
    let mut found = setting_leaves(settings);
    found.retain(|name, _| !BOUNDS.contains(&name.as_str()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{events, ledger};
    use crate::model::{Bytes, Gbps, LeafGroup, RailRule};

    fn settings() -> RunSettings {
        let events = events(4, 1, &|_, _, _| Some(391.0));
        ledger(&events).settings().unwrap().clone()
    }

    #[test]
    fn settings_that_are_the_same_have_no_difference() {
        let mut asked = settings();
        asked.nodes.reverse();
        asked.expect.half_below = 0.1 + 0.2;
        let text = serde_json::to_string(&asked).unwrap();
        let recorded = serde_json::from_str(&text).unwrap();
        assert_eq!(differences(&recorded, &asked), Vec::<String>::new());
    }

    #[test]
    fn bounds_and_the_order_of_groups_may_differ() {
        let group = |name: &str, nodes: [&str; 2]| LeafGroup {
            name: name.to_owned(),
            nodes: nodes.map(NodeName::from).to_vec(),
        };
        let mut recorded = settings();
        recorded.sweep.groups = vec![
            group("leaf1", ["node01", "node02"]),
            group("leaf2", ["node03", "node04"]),
        ];
        let mut asked = recorded.clone();
        asked.force = true;
        asked.sweep.max_load = 0.5;
        asked.sweep.time_budget_s = Some(600);
        asked.sweep.groups = vec![
            group("leaf2", ["node04", "node03"]),
            group("leaf1", ["node01", "node02"]),
        ];
        assert_eq!(differences(&recorded, &asked), Vec::<String>::new());
        asked.sweep.groups[1] = group("leaf1", ["node01", "node03"]);
        asked.sweep.both_ways = true;
        let said = differences(&recorded, &asked).join("\n");
        assert!(
            said.starts_with("sweep.both_ways is false in the record, true in"),
            "{said}"
        );
        assert!(said.contains("\nsweep.groups is "), "{said}");
    }

    #[test]
    fn every_difference_is_said() {
        let recorded = settings();
        let mut asked = recorded.clone();
        asked.nodes = ["node01", "node02", "node05"].map(NodeName::from).to_vec();
        asked.rails = RailRule::Pci;
        asked.probe.message_size = Bytes(4096);
        asked.expect.line_rate = Some(Gbps(200.0));
        insta::assert_snapshot!(differences(&recorded, &asked).join("\n"), @r#"
        node[03-04] only in the record
        node05 only in what is asked for
        expect.line_rate is not stated in the record, 200.0 in what is asked for
        probe.message_size is 65536 in the record, 4096 in what is asked for
        rails.by is "device" in the record, "pci" in what is asked for
        rails.names is ["mlx5_0"] in the record, not stated in what is asked for
        "#);
    }
}
