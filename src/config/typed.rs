//! Cluster and scenario files as typed: every key that may stand in it, each with its place in the text.
//! Nothing here says what a value may be; `check` does.

mod profile;
mod scenario;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

pub(super) use profile::*;
pub(super) use scenario::*;

/// A value with its place, where the key was typed.
pub(super) type Typed<T> = Option<Spanned<T>>;

/// A list with the place of each of its items, and its own.
pub(super) type TypedList = Typed<Vec<Spanned<String>>>;

/// Lists by their names, each with its place.
pub(super) type NamedLists = BTreeMap<Spanned<String>, Spanned<Vec<Spanned<String>>>>;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TypedCluster {
    pub nodes: TypedList,
    pub exclude: TypedList,
    pub node: BTreeMap<Spanned<String>, Table<TypedNode>>,
    pub ssh: Table<TypedSsh>,
    pub rails: Typed<Table<TypedRails>>,
    pub probe: Table<TypedProbe>,
    pub sweep: Table<TypedSweep>,
    pub expect: Table<TypedExpect>,
    pub nccl: Table<TypedNccl>,
    pub record: Table<TypedRecord>,
}

/// `[node.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TypedNode {
    pub address: Typed<String>,
    pub port: Typed<i64>,
    pub user: Typed<String>,
}

/// `[ssh]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TypedSsh {
    pub user: Typed<String>,
    pub port: Typed<i64>,
    pub identity_files: TypedList,
    pub agent: Typed<bool>,
    pub known_hosts: TypedList,
    pub accept_new: Typed<bool>,
    pub connect_timeout: Typed<String>,
    pub concurrency: Typed<i64>,
    pub directory: Typed<String>,
    pub carrier: Typed<String>,
    pub command: TypedList,
}

/// `[rails]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TypedRails {
    pub by: Typed<String>,
    pub names: TypedList,
    pub subnets: TypedList,
}

/// `[probe]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TypedProbe {
    pub message_size: Typed<String>,
    pub depth: Typed<i64>,
    pub queue_pairs: Typed<i64>,
    pub duration: Typed<String>,
    pub completion: Typed<String>,
    pub memory: Typed<String>,
    pub tcp: Table<TypedTcp>,
    pub cost: Table<TypedCost>,
}

/// `[probe.tcp]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TypedTcp {
    pub streams: Typed<i64>,
    pub message_size: Typed<String>,
}

/// `[probe.cost]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TypedCost {
    pub duration: Typed<String>,
    pub sizes: TypedList,
    pub latency_sizes: TypedList,
}

/// `[sweep]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TypedSweep {
    pub pattern: Typed<String>,
    pub matchings: Typed<i64>,
    pub directions: Typed<String>,
    pub rails: Typed<String>,
    pub fabric: Typed<bool>,
    pub max_load: Typed<f64>,
    pub time_budget: Typed<String>,
    pub topology_conf: Typed<String>,
    pub ibnetdiscover: Typed<String>,
    pub groups: Typed<NamedLists>,
}

/// `[expect]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TypedExpect {
    pub line_rate: Typed<String>,
    pub half_below: Typed<f64>,
    pub degraded_below: Typed<f64>,
}

/// `[nccl]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TypedNccl {
    pub enabled: Typed<bool>,
    pub command: TypedList,
    pub launcher: TypedList,
    pub timeout: Typed<String>,
}

/// `[record]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TypedRecord {
    pub keep_runs: Typed<i64>,
    pub keep_days: Typed<i64>,
}

/// A table and nothing else: serde alone would take a list for one, its items in the order of the
/// fields.
#[derive(Debug, Default)]
pub(super) struct Table<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OnlyTables<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyTables<T> {
            type Value = Table<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Table)
            }
        }

        deserializer.deserialize_map(OnlyTables(PhantomData))
    }
}

/// A list of tables, each in double brackets, with the place of each.
#[derive(Debug)]
pub(super) struct Tables<T>(pub Vec<Spanned<Table<T>>>);

impl<T> Default for Tables<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Tables<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OnlyLists<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyLists<T> {
            type Value = Tables<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tables in double brackets: [[…]]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Tables)
            }
        }

        deserializer.deserialize_seq(OnlyLists(PhantomData))
    }
}
