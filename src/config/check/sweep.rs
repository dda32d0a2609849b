//! `[sweep]`: which pairs are measured, under which load, and which nodes are below one leaf switch.

use std::ops::Range;
use std::time::Duration;

use toml::Spanned;

use crate::model::{LeafGroup, Pattern, SweepSettings, is_treacherous};

use super::super::groups::{GroupsFile, Placed, distinct};
use super::super::hostlist::MAX_NAMES;
use super::super::typed::{NamedLists, Typed, TypedSweep};
use super::nodes::unfold;
use super::probe::share;
use super::ssh::path;
use super::{Checker, Value, items};

/// The longest time budget, a week: nobody waits longer for a sweep.
const MAX_BUDGET: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The longest name of a group, in characters.
const MAX_GROUP_NAME: usize = 100;

/// Makes a pattern: one that may name nodes is not copied.
type Make = fn() -> Pattern;

/// The patterns of a file; those that name nodes are for one run, on the command line.
const PATTERNS: [(&str, Make); 4] = [
    ("adaptive", || Pattern::Adaptive),
    ("quick", || Pattern::Quick),
    ("full", || Pattern::Full),
    ("ring", || Pattern::Ring),
];

/// The section, and the file that tells the groups where it names one; none where a problem was found.
pub(super) fn check(
    checker: &mut Checker,
    typed: TypedSweep,
    default: TypedSweep,
) -> Option<(SweepSettings, Option<GroupsFile>)> {
    let pattern = pattern(checker, typed.pattern, default.pattern);
    let (many, default_many) = (typed.matchings, default.matchings);
    let matchings = checker.need_whole("sweep.matchings", many, default_many, 1..=16);
    let (ways, default_ways) = (typed.directions, default.directions);
    let known = [("both", true), ("one", false)];
    let both_ways = checker.need_choice("sweep.directions", ways, default_ways, &known);
    let known = [("together", true), ("one by one", false)];
    let rails = checker.need_choice("sweep.rails", typed.rails, default.rails, &known);
    let fabric = checker.need("sweep.fabric", typed.fabric, default.fabric);
    let load = checker.need("sweep.max_load", typed.max_load, default.max_load);
    let max_load = load.and_then(|load| share(checker, "max_load", load));
    let time_budget_s = time_budget(checker, typed.time_budget);
    let sources = (typed.topology_conf, typed.ibnetdiscover, typed.groups);
    let (groups, groups_file) = groups(checker, sources)?;
    let known = !groups.is_empty() || groups_file.is_some();
    fabric_has_groups(checker, fabric.as_ref(), known)?;
    let sweep = SweepSettings {
        pattern: pattern?,
        matchings: matchings?.value,
        both_ways: both_ways?,
        rails_together: rails?,
        fabric: fabric?.value,
        groups,
        only_rails: Vec::new(),
        max_load: max_load?.value,
        time_budget_s: time_budget_s?,
    };
    Some((sweep, groups_file))
}

/// Between leaf groups is measured where some are told; which of them a run has shows when it begins.
fn fabric_has_groups(
    checker: &mut Checker,
    fabric: Option<&Value<bool>>,
    known: bool,
) -> Option<()> {
    let Some(fabric) = fabric.filter(|fabric| fabric.value && !known) else {
        return Some(());
    };
    let message = "`fabric` = true measures between leaf groups, and the file tells none";
    let problem = checker.problem(fabric.span.clone(), message.to_owned());
    problem.help(
        "tell which nodes are below one leaf switch: by `topology_conf` (Slurm's file), `ibnetdiscover` (what it \
         printed) or host lists under [sweep.groups]",
    );
    None
}

fn pattern(checker: &mut Checker, typed: Typed<String>, default: Typed<String>) -> Option<Pattern> {
    let word = checker.need("sweep.pattern", typed, default)?;
    let of_one_run = match word.value.as_str() {
        "one" => Some("--one NODE"),
        "pairs" => Some("--pairs A:B"),
        _ => None,
    };
    if let Some(flag) = of_one_run {
        let message = format!("`pattern` = {:?} names nodes of one run", word.value);
        let problem = checker.problem(word.span, message);
        problem.help(format!("ask for it on the command line: {flag}"));
        return None;
    }
    let pattern = checker.choice("pattern", &word, &PATTERNS)?;
    Some(pattern())
}

/// In seconds; `Some(None)` where there is no budget.
fn time_budget(checker: &mut Checker, typed: Typed<String>) -> Option<Option<u64>> {
    let Some(value) = typed.map(Value::typed) else {
        return Some(None);
    };
    let bounds = Duration::from_secs(1)..=MAX_BUDGET;
    let budget = checker.duration("time_budget", &value, bounds)?;
    Some(Some(budget.as_millis().div_ceil(1000).try_into().ok()?))
}

/// The groups, or the file that tells them: at most one of the three says what they are.
fn groups(
    checker: &mut Checker,
    (topology_conf, ibnetdiscover, groups): (Typed<String>, Typed<String>, Typed<NamedLists>),
) -> Option<(Vec<LeafGroup>, Option<GroupsFile>)> {
    let given = [
        ("topology_conf", topology_conf.as_ref().map(Spanned::span)),
        ("ibnetdiscover", ibnetdiscover.as_ref().map(Spanned::span)),
        ("groups", groups.as_ref().map(Spanned::span)),
    ];
    one_of(checker, given)?;
    let file = |checker: &mut Checker, key: &str, typed: Spanned<String>| {
        path(checker, key, Value::typed(typed))
    };
    if let Some(typed) = topology_conf {
        let path = file(checker, "topology_conf", typed)?;
        return Some((Vec::new(), Some(GroupsFile::TopologyConf(path))));
    }
    if let Some(typed) = ibnetdiscover {
        let path = file(checker, "ibnetdiscover", typed)?;
        return Some((Vec::new(), Some(GroupsFile::Ibnetdiscover(path))));
    }
    let typed = groups.map(Spanned::into_inner).unwrap_or_default();
    Some((named(checker, typed)?, None))
}

/// Refuses the second of these keys that is set.
fn one_of(checker: &mut Checker, keys: [(&str, Option<Range<usize>>); 3]) -> Option<()> {
    let set = keys
        .into_iter()
        .filter_map(|(key, span)| Some((key, span?)));
    let mut set: Vec<(&str, Range<usize>)> = set.collect();
    set.sort_by_key(|(_, span)| span.start);
    if let [(first, _), (second, span), ..] = set.as_slice() {
        let message = format!("`{first}` and `{second}` exclude each other");
        let problem = checker.problem(Some(span.clone()), message);
        problem.help("which nodes are below one leaf switch is told in one place");
        return None;
    }
    Some(())
}

/// `[sweep.groups]`, in the order of the file.
fn named(checker: &mut Checker, typed: NamedLists) -> Option<Vec<LeafGroup>> {
    let before = checker.problems.len();
    let mut typed: Vec<_> = typed.into_iter().collect();
    typed.sort_by_key(|(name, _)| name.span().start);
    let (mut placed, mut named) = (Vec::new(), 0);
    for (name, lists) in typed {
        let (name, at) = (name.get_ref().clone(), name.span());
        let fits = (1..=MAX_GROUP_NAME).contains(&name.chars().count());
        if !fits || name.chars().any(is_treacherous) {
            checker.problem(Some(at), format!("{name:?} cannot be the name of a group"));
            continue;
        }
        if lists.get_ref().is_empty() {
            checker.problem(Some(lists.span()), format!("the group `{name}` is empty"));
        }
        for list in items(lists, |item| Some(item.span())) {
            let Some(nodes) = unfold(checker, &list).filter(|_| named <= MAX_NAMES) else {
                continue;
            };
            named += nodes.len();
            placed.push(Placed {
                group: name.clone(),
                nodes,
                span: list.span.clone(),
            });
        }
    }
    let groups = distinct(checker.text, &placed, &mut checker.problems);
    (checker.problems.len() == before).then_some(groups)
}
