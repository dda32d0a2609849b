//! Acceptance profiles as typed.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{Table, Tables, Typed, TypedList, TypedNumbers};

/// A value of any kind: what it may be depends on what is checked.
pub(in crate::config) type TypedValue = Typed<toml::Value>;

/// An acceptance profile.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedProfile {
    pub profile: Typed<String>,
    pub check: BTreeMap<Spanned<String>, Spanned<Table<TypedCheck>>>,
    pub except: Tables<TypedException>,
}

/// `[check.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedCheck {
    pub of: Typed<String>,
    pub is: TypedValue,
    pub at_least: TypedValue,
    pub at_most: TypedValue,
    pub one_of: Typed<Vec<Spanned<toml::Value>>>,
    pub same: Typed<bool>,
    pub module: Typed<String>,
    pub direction: Typed<String>,
    pub memory: Typed<String>,
    pub percentile: Typed<String>,
    pub message: Typed<String>,
    pub way: Typed<String>,
    pub end: Typed<String>,
    pub counters: TypedList,
    pub rules: TypedList,
    pub severity: TypedList,
    pub cannot_tell: Typed<String>,
    pub nodes: TypedList,
    pub rails: TypedNumbers,
    pub groups: TypedList,
    pub weight: Typed<String>,
}

/// `[[except]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct TypedException {
    pub nodes: TypedList,
    pub checks: TypedList,
    pub rails: TypedNumbers,
    pub reason: Typed<String>,
    pub until: TypedValue,
}
