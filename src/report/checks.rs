//! The checks of an acceptance profile, as a list for whoever is about to run it.

use std::fmt::Write;

use crate::config::Profile;
use crate::model::{CostStep, Weight};

/// Each check on a line: its name, what it is of, what it demands, of whom, and where that stands.
pub fn checks(profile: &Profile) -> String {
    let mut text = format!("{}: {} checks\n", profile.name, profile.checks.len());
    let wide = profile
        .checks
        .iter()
        .map(|check| check.name.len())
        .max()
        .unwrap_or(0);
    let of_wide = profile
        .checks
        .iter()
        .map(|check| check.demand.of().len())
        .max()
        .unwrap_or(0);
    for check in &profile.checks {
        let weight = match check.weight {
            Weight::Must => "must",
            Weight::Should => "should",
        };
        let select = check.select.to_string();
        let select = if select.is_empty() {
            select
        } else {
            format!(" (only {select})")
        };
        let _ = writeln!(
            text,
            "  {weight:<6}  {:<wide$}  {:<of_wide$}  {}{select}  [{}]",
            check.name,
            check.demand.of(),
            check.demand,
            profile.place(check.line)
        );
    }
    for exception in &profile.exceptions {
        let names: Vec<&str> = exception.nodes.iter().map(|node| node.0.as_str()).collect();
        let of = match exception.checks.as_slice() {
            [] => "every check".to_owned(),
            checks => checks.join(", "),
        };
        let _ = writeln!(
            text,
            "  except  {of} of {}, until {}: {}  [{}]",
            crate::config::hostlist::fold(&names),
            exception.until,
            exception.reason,
            profile.place(Some(exception.line))
        );
    }
    let steps: Vec<&str> = profile
        .cost_steps()
        .into_iter()
        .map(CostStep::name)
        .collect();
    if !steps.is_empty() {
        let _ = writeln!(
            text,
            "What moving data costs is measured for it: {}.",
            steps.join(", ")
        );
    }
    text
}
