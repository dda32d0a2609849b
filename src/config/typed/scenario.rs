//! Scenario files as typed.

use serde::Deserialize;
use toml::Spanned;

use super::{Table, Tables, Typed, TypedList};

/// Whole numbers, with their place.
pub(in crate::config) type TypedNumbers = Typed<Vec<Spanned<i64>>>;

/// A scenario file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedScenario {
    pub nodes: Typed<i64>,
    pub rails: Typed<i64>,
    pub line_rate: Typed<String>,
    pub mtu: Typed<i64>,
    pub memory: Typed<String>,
    pub noise: Typed<f64>,
    pub outliers: Table<TypedOutliers>,
    pub silent: Typed<f64>,
    pub leaf_size: Typed<i64>,
    pub ecmp: Table<TypedEcmp>,
    pub slow_nic: Tables<TypedSlowNic>,
    pub narrow_pcie: Tables<TypedNarrow>,
    pub shared_switch: Tables<TypedSwitch>,
    pub node_limit: Tables<TypedOnNodeRatio>,
    pub half_duplex: Tables<TypedNicRatio>,
    pub gpu_path: Tables<TypedSlowNic>,
    pub one_queue_pair: Tables<TypedNicRatio>,
    pub flaky_nic: Tables<TypedFlaky>,
    pub dead_nic: Tables<TypedNic>,
    pub swapped_cables: Tables<TypedSwapped>,
    pub slow_line: Tables<TypedLine>,
    pub leaf_uplink: Tables<TypedUplink>,
    pub slow_path: Tables<TypedPath>,
    pub slow_rail: Tables<TypedRail>,
    pub lost_node: Tables<TypedEnd>,
    pub silent_node: Tables<TypedEnd>,
    pub port_down: Tables<TypedNic>,
    pub small_mtu: Tables<TypedMtu>,
    pub no_gpudirect: Tables<TypedOnNode>,
}

/// `[outliers]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedOutliers {
    pub share: Typed<f64>,
    pub depth: Typed<f64>,
}

/// `[ecmp]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedEcmp {
    pub collisions: Typed<f64>,
    pub ratio: Typed<f64>,
}

/// `[[slow_nic]]` and `[[gpu_path]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedSlowNic {
    pub node: Typed<String>,
    pub rail: Typed<i64>,
    pub direction: Typed<String>,
    pub ratio: Typed<f64>,
}

/// `[[narrow_pcie]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedNarrow {
    pub node: Typed<String>,
    pub rail: Typed<i64>,
    pub width: Typed<i64>,
}

/// `[[shared_switch]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedSwitch {
    pub node: Typed<String>,
    pub rails: TypedNumbers,
    pub ratio: Typed<f64>,
}

/// `[[node_limit]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedOnNodeRatio {
    pub node: Typed<String>,
    pub ratio: Typed<f64>,
}

/// `[[half_duplex]]` and `[[one_queue_pair]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedNicRatio {
    pub node: Typed<String>,
    pub rail: Typed<i64>,
    pub ratio: Typed<f64>,
}

/// `[[flaky_nic]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedFlaky {
    pub node: Typed<String>,
    pub rail: Typed<i64>,
    pub share: Typed<f64>,
    pub ratio: Typed<f64>,
}

/// `[[dead_nic]]` and `[[port_down]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedNic {
    pub node: Typed<String>,
    pub rail: Typed<i64>,
}

/// `[[swapped_cables]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedSwapped {
    pub node: Typed<String>,
    pub rails: TypedNumbers,
}

/// `[[slow_line]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedLine {
    pub nodes: TypedList,
    pub rail: Typed<i64>,
    pub line_rate: Typed<String>,
}

/// `[[leaf_uplink]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedUplink {
    pub leaf: Typed<i64>,
    pub rail: Typed<i64>,
    pub direction: Typed<String>,
    pub ratio: Typed<f64>,
}

/// `[[slow_path]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedPath {
    pub from: Typed<String>,
    pub to: Typed<String>,
    pub rail: Typed<i64>,
    pub ratio: Typed<f64>,
}

/// `[[slow_rail]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedRail {
    pub rail: Typed<i64>,
    pub ratio: Typed<f64>,
}

/// `[[lost_node]]` and `[[silent_node]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedEnd {
    pub node: Typed<String>,
    pub round: Typed<i64>,
}

/// `[[small_mtu]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedMtu {
    pub node: Typed<String>,
    pub mtu: Typed<i64>,
}

/// `[[no_gpudirect]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedOnNode {
    pub node: Typed<String>,
}
