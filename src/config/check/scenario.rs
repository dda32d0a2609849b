//! A scenario file: what is simulated, and what is wrong with it.

use super::super::problem::Problem;
use super::super::read::Read;
use super::super::scenario::{Ecmp, Generation, Outliers, Scenario};
use super::super::typed::{Typed, TypedEcmp, TypedOutliers, TypedScenario};
use super::fault::faults;
use super::{Checker, Operator, Value};
use crate::model::MemoryKind;

/// The most nodes: four times the largest cluster that is swept in one run.
const MAX_NODES: i64 = 16384;

/// The most NICs of a node.
const MAX_RAILS: i64 = 16;

/// The most noise: with more of it, healthy NICs read low by chance.
const MAX_NOISE: f64 = 0.05;

const GENERATIONS: [(&str, Generation); 4] = [
    ("100 Gb/s", Generation::Edr),
    ("200 Gb/s", Generation::Hdr),
    ("400 Gb/s", Generation::Ndr),
    ("800 Gb/s", Generation::Xdr),
];

const MEMORY: [(&str, MemoryKind); 2] = [("host", MemoryKind::Host), ("gpu", MemoryKind::Gpu)];

/// Checks what was read, with `defaults` for what was not typed; faults have none.
pub(in crate::config) fn check(
    text: &str,
    read: Read<TypedScenario>,
    defaults: TypedScenario,
) -> Result<Scenario, Vec<Problem>> {
    let nobody = Operator::default();
    let mut checker = Checker {
        text,
        operator: &nobody,
        unread: !read.problems.is_empty(),
        problems: read.problems,
        dropped: Problem::new(text, None, ""),
    };
    match scenario(&mut checker, read.typed, defaults) {
        Some(scenario) if checker.problems.is_empty() => Ok(scenario),
        _ => Err(checker.problems),
    }
}

fn scenario(
    checker: &mut Checker,
    mut typed: TypedScenario,
    default: TypedScenario,
) -> Option<Scenario> {
    let nodes = checker.need_whole("nodes", typed.nodes.take(), default.nodes, 1..=MAX_NODES);
    let rails = checker.need_whole("rails", typed.rails.take(), default.rails, 1..=MAX_RAILS);
    let (rate, default_rate) = (typed.line_rate.take(), default.line_rate);
    let generation = checker.need_choice("line_rate", rate, default_rate, &GENERATIONS);
    let mtu = checker.need("mtu", typed.mtu.take(), default.mtu);
    let mtu = mtu.and_then(|mtu| size(checker, &mtu));
    let (memory, default_memory) = (typed.memory.take(), default.memory);
    let memory = checker.need_choice("memory", memory, default_memory, &MEMORY);
    let noise = checker.need("noise", typed.noise.take(), default.noise);
    let noise = noise.and_then(|noise| within(checker, "noise", &noise, MAX_NOISE));
    let outliers = outliers(
        checker,
        std::mem::take(&mut typed.outliers.0),
        default.outliers.0,
    );
    let silent = checker.need("silent", typed.silent.take(), default.silent);
    let silent = silent.and_then(|silent| within(checker, "silent", &silent, 0.1));
    let leaf_size = leaf_size(checker, typed.leaf_size.take().or(default.leaf_size));
    let ecmp = ecmp(checker, std::mem::take(&mut typed.ecmp.0), default.ecmp.0);
    // What faults are about can be told only where that is right.
    let scenario = Scenario {
        nodes: nodes?.value,
        rails: rails?.value,
        generation: generation?,
        mtu: mtu?,
        memory: memory?,
        noise: noise?,
        outliers: outliers?,
        silent: silent?,
        leaf_size: leaf_size?,
        ecmp: ecmp?,
        faults: Vec::new(),
    };
    let faults = faults(checker, &scenario, typed);
    Some(Scenario { faults, ..scenario })
}

/// A generation by its line rate.
pub(super) fn generation(checker: &mut Checker, rate: &Value<String>) -> Option<Generation> {
    checker.choice("line_rate", rate, &GENERATIONS)
}

/// Nodes of a leaf; all of them where nothing is typed.
fn leaf_size(checker: &mut Checker, typed: Typed<i64>) -> Option<Option<u16>> {
    let Some(size) = typed.map(Value::typed) else {
        return Some(None);
    };
    checker.whole("leaf_size", &size, 1..=MAX_NODES).map(Some)
}

fn ecmp(checker: &mut Checker, typed: TypedEcmp, default: TypedEcmp) -> Option<Ecmp> {
    let share = checker.need("ecmp.collisions", typed.collisions, default.collisions);
    let share = share.and_then(|share| within(checker, "collisions", &share, 1.0));
    let ratio = checker.need("ecmp.ratio", typed.ratio, default.ratio);
    let ratio = ratio.and_then(|ratio| within(checker, "ratio", &ratio, 1.0));
    Some(Ecmp {
        collisions: share?,
        ratio: ratio?,
    })
}

/// An RDMA MTU in bytes (InfiniBand Architecture Specification, PortInfo:NeighborMTU).
pub(super) fn size(checker: &mut Checker, mtu: &Value<i64>) -> Option<u32> {
    let known = [256, 512, 1024, 2048, 4096];
    let found = known.into_iter().find(|size| i64::from(*size) == mtu.value);
    if found.is_none() {
        let message = format!("`mtu` is 256, 512, 1024, 2048 or 4096, not {}", mtu.value);
        checker.problem(mtu.span.clone(), message);
    }
    found
}

/// From 0 to `most`, which nan is not.
fn within(checker: &mut Checker, key: &str, value: &Value<f64>, most: f64) -> Option<f64> {
    let found = Some(value.value).filter(|value| (0.0..=most).contains(value));
    if found.is_none() {
        let message = format!("`{key}` is 0 to {most}, not {}", value.value);
        checker.problem(value.span.clone(), message);
    }
    found
}

fn outliers(
    checker: &mut Checker,
    typed: TypedOutliers,
    default: TypedOutliers,
) -> Option<Outliers> {
    let share = checker.need("outliers.share", typed.share, default.share);
    let share = share.and_then(|share| within(checker, "share", &share, 0.1));
    let depth = checker.need("outliers.depth", typed.depth, default.depth);
    let depth = depth.and_then(|depth| within(checker, "depth", &depth, 0.99));
    Some(Outliers {
        share: share?,
        depth: depth?,
    })
}
