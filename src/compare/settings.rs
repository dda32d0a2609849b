//! What two runs were asked to do, and which differences keep their rates from being compared.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::model::RunSettings;

/// A setting that is not the same in both runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// Its dotted name, as records have it.
    pub name: String,
    /// What it was, as JSON; `None` where it was not stated.
    pub before: Option<String>,
    /// What it is.
    pub after: Option<String>,
}

/// Settings of probes that say how long one lasts, and nothing of how it moves data.
const LENGTHS: [&str; 2] = ["probe.duration_ms", "probe.stop_at"];

/// Settings of sweeps that say what is loaded beside a probe.
const LOADS: [&str; 3] = [
    "sweep.both_ways",
    "sweep.rails_together",
    "sweep.only_rails",
];

/// Settings that are a run's own: whichever they are, the same is measured.
const OWN: [&str; 2] = ["seed", "simulated"];

/// Every setting but the nodes, by its dotted name as records have it, with its value as JSON. The order
/// of nodes within leaf groups, and that of groups, is none.
pub fn setting_leaves(settings: &RunSettings) -> BTreeMap<String, String> {
    let mut settings = RunSettings {
        nodes: Vec::new(),
        ..settings.clone()
    };
    let groups = &mut settings.sweep.groups;
    groups.iter_mut().for_each(|group| group.nodes.sort());
    groups.sort_by(|one, other| one.nodes.cmp(&other.nodes));
    let mut found = BTreeMap::new();
    walk("", &serde_json::json!(settings), &mut found);
    found
}

fn walk(name: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let dot = if name.is_empty() { "" } else { "." };
                walk(&format!("{name}{dot}{key}"), value, found);
            }
        }
        Value::Null => {}
        other => {
            found.insert(name.to_owned(), other.to_string());
        }
    }
}

/// All that differ but for those that are a run's own, by name.
pub(super) fn changes(before: &RunSettings, after: &RunSettings) -> Vec<SettingChange> {
    let (then, now) = (setting_leaves(before), setting_leaves(after));
    let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let names = names
        .into_iter()
        .filter(|name| !OWN.contains(&name.as_str()));
    let change = |name: &String| {
        let (before, after) = (then.get(name), now.get(name));
        (before != after).then(|| SettingChange {
            name: name.clone(),
            before: before.cloned(),
            after: after.cloned(),
        })
    };
    names.filter_map(change).collect()
}

/// Why rates of the two runs cannot be compared: they moved data in other ways, or under another load.
pub(super) fn rates_differ_by_design(changes: &[SettingChange]) -> Option<String> {
    let matters = |change: &&SettingChange| {
        let name = change.name.as_str();
        let length = LENGTHS.iter().any(|length| name.starts_with(length));
        LOADS.contains(&name) || name.starts_with("probe.") && !length
    };
    let differ: Vec<String> = changes.iter().filter(matters).map(in_words).collect();
    let they = "the runs were not measured alike";
    (!differ.is_empty()).then(|| format!("{they}: {}", differ.join(", ")))
}

/// Whether NICs are called slow by other limits: then findings of rates come and go with those.
pub(super) fn expectations_differ(changes: &[SettingChange]) -> bool {
    changes
        .iter()
        .any(|change| change.name.starts_with("expect."))
}

/// `probe.memory "host" → "gpu"`.
fn in_words(change: &SettingChange) -> String {
    let word = |value: &Option<String>| value.clone().unwrap_or("not stated".into());
    let (before, after) = (word(&change.before), word(&change.after));
    format!("{} {before} → {after}", change.name)
}
