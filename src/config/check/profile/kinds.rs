//! What a check may be of, and which keys belong to each.

use std::ops::Range;

use super::super::super::problem::nearest;
use super::super::super::typed::TypedCheck;
use super::super::{Checker, Value};

/// What a check may be of.
pub(super) struct Kind {
    /// The word after `of`.
    pub name: &'static str,
    /// The keys that say what must hold; none where nothing more is to be said.
    pub demands: &'static [&'static str],
    /// The keys that say more.
    pub options: &'static [&'static str],
    /// A demand that is right.
    pub example: &'static str,
    /// Whether it can be asked of some rails.
    pub by_rail: bool,
}

const BOUNDS: &[&str] = &["is", "at_least", "at_most"];
const TEXT: &[&str] = &["is", "one_of", "at_least", "same"];

const fn kind(
    name: &'static str,
    demands: &'static [&'static str],
    options: &'static [&'static str],
    example: &'static str,
    by_rail: bool,
) -> Kind {
    Kind {
        name,
        demands,
        options,
        example,
        by_rail,
    }
}

/// All of them.
pub(super) const KINDS: &[Kind] = &[
    kind("nodes", BOUNDS, &[], "at_least = 16", false),
    kind("nics", BOUNDS, &[], "is = 8", false),
    kind("gpus", BOUNDS, &[], "is = 8", false),
    kind("gpu-model", TEXT, &[], "is = \"NVIDIA H100*\"", false),
    kind("gpu-driver", TEXT, &[], "at_least = \"550.54\"", false),
    kind("kernel", TEXT, &[], "same = true", false),
    kind("module", TEXT, &["module"], "same = true", false),
    kind(
        "memlock",
        &["at_least", "is"],
        &[],
        "at_least = \"16 GiB\"",
        false,
    ),
    kind("nic-model", TEXT, &[], "one_of = [\"MT_0000000838\"]", true),
    kind("nic-driver", TEXT, &[], "same = true", true),
    kind("firmware", TEXT, &[], "at_least = \"28.39.1002\"", true),
    kind("link-layer", &["is"], &[], "is = \"InfiniBand\"", true),
    kind("link-rate", BOUNDS, &[], "at_least = \"400 Gb/s\"", true),
    kind("link-width", BOUNDS, &[], "is = 4", true),
    kind("mtu", BOUNDS, &[], "is = 4096", true),
    kind("gid-type", &["is"], &[], "is = \"RoCE v2\"", true),
    kind(
        "pcie",
        &["at_least", "is"],
        &[],
        "at_least = \"Gen5 x16\"",
        true,
    ),
    kind("numa", &["is"], &[], "is = \"as GPU\"", true),
    kind("gpu-path", &["at_most"], &[], "at_most = \"PXB\"", true),
    kind(
        "gpudirect",
        &["is", "one_of"],
        &[],
        "one_of = [\"peermem\", \"dma-buf\"]",
        true,
    ),
    kind(
        "bandwidth",
        &["at_least"],
        &["direction", "memory"],
        "at_least = \"92% of ceiling\"",
        true,
    ),
    kind("spread", &["at_most"], &[], "at_most = \"5%\"", true),
    kind(
        "rails-together",
        &["at_least"],
        &[],
        "at_least = \"95%\"",
        true,
    ),
    kind(
        "latency",
        &["at_most"],
        &["percentile", "message", "way"],
        "at_most = \"5 us\"",
        true,
    ),
    kind(
        "cpu",
        &["at_most"],
        &["way", "end"],
        "at_most = \"1 core\"",
        true,
    ),
    kind(
        "counters",
        &[],
        &["counters"],
        "counters = [\"link_downed\"]",
        true,
    ),
    kind(
        "findings",
        &[],
        &["rules", "severity", "cannot_tell"],
        "severity = [\"fault\"]",
        true,
    ),
    kind("coverage", &["at_least"], &[], "at_least = \"100%\"", true),
];

/// The kind that `of` names.
pub(super) fn kind_of(
    checker: &mut Checker,
    at: &Range<usize>,
    check: &str,
    typed: &mut TypedCheck,
) -> Option<&'static Kind> {
    let Some(of) = typed.of.take().map(Value::typed) else {
        let message = format!("the check `{check}` does not say what it is of");
        let problem = checker.absent(Some(at.clone()), message);
        problem.help("write, for example: of = \"bandwidth\"");
        return None;
    };
    let found = KINDS.iter().find(|kind| kind.name == of.value);
    if found.is_none() {
        let names = || KINDS.iter().map(|kind| kind.name);
        let help = match nearest(&of.value.to_lowercase(), names()) {
            Some(meant) => format!("did you mean \"{meant}\"?"),
            None => format!("there are: {}", names().collect::<Vec<_>>().join(", ")),
        };
        let message = format!("there is no check of {:?}", of.value);
        checker.problem(of.span, message).help(help);
    }
    found
}

/// Refuses keys that say nothing about this kind: they would mislead whoever reads the file.
pub(super) fn refuse_others(checker: &mut Checker, kind: &Kind, typed: &TypedCheck) {
    for (key, span) in given(typed) {
        if kind.demands.contains(&key) || kind.options.contains(&key) {
            continue;
        }
        let of = kind.name;
        let takes: Vec<String> = kind
            .demands
            .iter()
            .chain(kind.options)
            .map(|key| format!("`{key}`"))
            .collect();
        let message = match key {
            "rails" | "groups" | "nodes" => continue,
            _ => format!("`{key}` says nothing about {of}"),
        };
        let takes = takes.join(", ");
        checker
            .problem(Some(span), message)
            .help(format!("a check of {of} takes: {takes}"));
    }
    if let Some(rails) = typed.rails.as_ref().filter(|_| !kind.by_rail) {
        let message = format!("`rails` says nothing about {}", kind.name);
        let problem = checker.problem(Some(rails.span()), message);
        problem.help("it is the same for all rails of a node: leave `rails` out");
    }
}

/// The keys that were typed, each with its place.
fn given(typed: &TypedCheck) -> Vec<(&'static str, Range<usize>)> {
    fn at<T>(value: &Option<toml::Spanned<T>>) -> Option<Range<usize>> {
        value.as_ref().map(toml::Spanned::span)
    }
    let all = [
        ("is", at(&typed.is)),
        ("at_least", at(&typed.at_least)),
        ("at_most", at(&typed.at_most)),
        ("one_of", at(&typed.one_of)),
        ("same", at(&typed.same)),
        ("module", at(&typed.module)),
        ("direction", at(&typed.direction)),
        ("memory", at(&typed.memory)),
        ("percentile", at(&typed.percentile)),
        ("message", at(&typed.message)),
        ("way", at(&typed.way)),
        ("end", at(&typed.end)),
        ("counters", at(&typed.counters)),
        ("rules", at(&typed.rules)),
        ("severity", at(&typed.severity)),
        ("cannot_tell", at(&typed.cannot_tell)),
    ];
    all.into_iter()
        .filter_map(|(key, span)| Some((key, span?)))
        .collect()
}
