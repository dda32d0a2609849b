//! Cluster, scenario and profile files: as typed (unknown keys refused), then checked. Text comes in, a [`Cluster`]
//! (a [`Scenario`] to simulate one, a [`Profile`] to accept one), or every problem with its line and column goes out; files are read by others.
//!
//! ```text
//! text → read → typed ─┐
//! configs/default.toml ┴→ check → Cluster
//! ```

mod check;
mod cluster;
mod groups;
pub mod hostlist;
mod pattern;
mod problem;
mod profile;
mod read;
mod scenario;
mod typed;

#[cfg(test)]
mod profile_tests;
#[cfg(test)]
mod scenario_tests;
#[cfg(test)]
mod tests;

pub use cluster::{CarrierConfig, Cluster, NodeConfig, Operator, SelectError, SshConfig};
pub use groups::GroupsFile;
pub use pattern::{PatternError, check_pattern};
pub use problem::{ConfigErrors, Problem};
pub use profile::{
    Amount, BandwidthDemand, Bounds, CannotTellIs, Check, CountOf, CpuDemand, CpuEnds, Demand,
    Exception, FindingsDemand, GpuDirectWay, LatencyDemand, Memory, NumaDemand, PcieDemand,
    Percentile, Profile, Select, TextDemand, TextOf, Ways,
};
pub use scenario::{Ecmp, Fault, Generation, Outliers, Place, Scenario, Uplink};

/// The built-in defaults, commented: the only place where a default value of the file stands.
pub const DEFAULT: &str = include_str!("../../configs/default.toml");

/// The scenario of `linerate demo`, commented; the only place where defaults of scenario files stand.
pub const DEMO: &str = include_str!("../../configs/scenarios/demo.toml");

/// Reads and checks a cluster file's text; `path` is what messages call the file.
///
/// # Errors
/// [`ConfigErrors`] with every problem that could be told from the text.
pub fn read(text: &str, path: &str, operator: &Operator) -> Result<Cluster, ConfigErrors> {
    let failed = |problems| ConfigErrors::new(path, text, problems);
    let defaults = read::typed(DEFAULT)
        .map_err(|problem| ConfigErrors::new("built-in defaults", DEFAULT, vec![problem]))?;
    let read = read::typed(text).map_err(|problem| failed(vec![problem]))?;
    check::check(text, read, defaults.typed, operator).map_err(failed)
}

/// Reads and checks a scenario's text; `path` is what messages call the file.
///
/// # Errors
/// As [`read`].
pub fn read_scenario(text: &str, path: &str) -> Result<Scenario, ConfigErrors> {
    let failed = |problems| ConfigErrors::new(path, text, problems);
    let defaults = read::typed(DEMO)
        .map_err(|problem| ConfigErrors::new("built-in scenario", DEMO, vec![problem]))?;
    let read = read::typed(text).map_err(|problem| failed(vec![problem]))?;
    check::check_scenario(text, read, defaults.typed).map_err(failed)
}

/// Reads and checks an acceptance profile's text; `path` is what messages and reports call the file.
///
/// # Errors
/// As [`read`].
pub fn read_profile(text: &str, path: &str) -> Result<Profile, ConfigErrors> {
    let failed = |problems| ConfigErrors::new(path, text, problems);
    let read = read::typed(text).map_err(|problem| failed(vec![problem]))?;
    check::check_profile(text, path, read).map_err(failed)
}

/// A cluster of these nodes, given as host lists on the command line, with every default.
///
/// # Errors
/// As [`read`]; the path shown is `command line`.
pub fn from_host_lists(lists: &[String], operator: &Operator) -> Result<Cluster, ConfigErrors> {
    let nodes = toml::Value::from(lists.to_vec());
    read(&format!("nodes = {nodes}\n"), "command line", operator)
}
