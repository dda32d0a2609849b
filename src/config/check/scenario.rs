//! A scenario file: what is simulated, and what is wrong with it.

use super::super::problem::Problem;
use super::super::read::Read;
use super::super::scenario::{Generation, Outliers, Scenario};
use super::super::typed::{TypedOutliers, TypedScenario};
use super::fault::faults;
use super::{Checker, Operator, Value};

/// The most nodes: all pairs of more of them are millions of probes.
const MAX_NODES: i64 = 256;

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
    let noise = checker.need("noise", typed.noise.take(), default.noise);
    let noise = noise.and_then(|noise| within(checker, "noise", &noise, MAX_NOISE));
    let outliers = outliers(
        checker,
        std::mem::take(&mut typed.outliers.0),
        default.outliers.0,
    );
    // What faults are about can be told only where that is right.
    let scenario = Scenario {
        nodes: nodes?.value,
        rails: rails?.value,
        generation: generation?,
        mtu: mtu?,
        noise: noise?,
        outliers: outliers?,
        faults: Vec::new(),
    };
    let faults = faults(checker, &scenario, typed);
    Some(Scenario { faults, ..scenario })
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
