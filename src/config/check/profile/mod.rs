//! An acceptance profile: what must hold, of whom, and what is borne for a while.

mod demand;
mod forms;
mod kinds;

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;

use super::super::hostlist::MAX_NAMES;
use super::super::problem::{Problem, nearest};
use super::super::profile::{Check, Demand, Exception, Profile, Select};
use super::super::read::Read;
use super::super::typed::{
    Typed, TypedCheck, TypedException, TypedList, TypedNumbers, TypedProfile,
};
use super::nodes::unfold;
use super::{Checker, Operator, Value};
use crate::model::{NodeName, Rail, Weight, is_treacherous};
use demand::Reader;
use forms::DAY;

/// The longest name of a profile or check, in characters.
const MAX_NAME: usize = 60;

/// The longest reason, in characters.
const MAX_REASON: usize = 200;

/// The highest rail there is, as in cluster files.
const MAX_RAIL: i64 = 63;

/// The name of the check that every profile has.
const COVERAGE: &str = "coverage";

/// What checks against an earlier run are called.
const SINCE: &str = "since-";

/// What a check may be of.
#[cfg(test)]
pub(in crate::config) fn names() -> Vec<&'static str> {
    kinds::KINDS.iter().map(|kind| kind.name).collect()
}

/// The same, each with a demand that is right.
#[cfg(test)]
pub(in crate::config) fn examples() -> Vec<(&'static str, &'static str)> {
    kinds::KINDS
        .iter()
        .map(|kind| (kind.name, kind.example))
        .collect()
}

/// Checks what was read; `file` is what reports call it.
pub(in crate::config) fn check(
    text: &str,
    file: &str,
    read: Read<TypedProfile>,
) -> Result<Profile, Vec<Problem>> {
    let nobody = Operator::default();
    let mut checker = Checker {
        text,
        operator: &nobody,
        unread: !read.problems.is_empty(),
        problems: read.problems,
        dropped: Problem::new(text, None, ""),
    };
    let typed = read.typed;
    let name = name(&mut checker, typed.profile);
    let mut typed_checks: Vec<_> = typed.check.into_iter().collect();
    typed_checks.sort_by_key(|(name, _)| name.span().start);
    if typed_checks.is_empty() {
        let problem = checker.absent(None, "the profile checks nothing");
        problem.help("write, for example:\n[check.bandwidth]\nof = \"bandwidth\"\nat_least = \"92% of ceiling\"");
    }
    let names: BTreeSet<String> = typed_checks
        .iter()
        .map(|(name, _)| name.get_ref().clone())
        .collect();
    let mut checks: Vec<Check> = Vec::new();
    for (name, typed) in typed_checks {
        checks.extend(one(&mut checker, &name, typed.into_inner().0));
    }
    let exceptions = typed.except.0.into_iter();
    let exceptions: Vec<Exception> = exceptions
        .filter_map(|typed| {
            let at = typed.span();
            exception(&mut checker, &at, typed.into_inner().0, &names)
        })
        .collect();
    if !checks
        .iter()
        .any(|check| matches!(check.demand, Demand::Coverage(_)))
    {
        checks.insert(0, everything());
    }
    match name {
        Some(name) if checker.problems.is_empty() => Ok(Profile {
            name,
            file: file.to_owned(),
            checks,
            exceptions,
        }),
        _ => Err(checker.problems),
    }
}

/// What every profile demands that says nothing of it.
fn everything() -> Check {
    Check {
        name: COVERAGE.to_owned(),
        line: None,
        weight: Weight::Must,
        demand: Demand::Coverage(1.0),
        select: Select::default(),
    }
}

fn name(checker: &mut Checker, typed: Typed<String>) -> Option<String> {
    let Some(name) = typed.map(Value::typed) else {
        let problem = checker.absent(None, "the profile has no name");
        problem.help("write at its top, for example: profile = \"HGX H100, NDR400\"");
        return None;
    };
    let text = name.value.trim();
    let fits = (1..=MAX_NAME).contains(&text.chars().count()) && !text.chars().any(is_treacherous);
    if !fits {
        let message = format!("{:?} cannot be the name of a profile", name.value);
        let problem = checker.problem(name.span, message);
        problem.help(format!("it is 1 to {MAX_NAME} characters on one line"));
        return None;
    }
    Some(text.to_owned())
}

/// `[check.NAME]`.
fn one(checker: &mut Checker, name: &Spanned<String>, mut typed: TypedCheck) -> Option<Check> {
    let at = name.span();
    let word = name.get_ref();
    let named = is_name(checker, word, &at);
    let kind = kinds::kind_of(checker, &at, word, &mut typed)?;
    kinds::refuse_others(checker, kind, &typed);
    if word == COVERAGE && kind.name != COVERAGE {
        let message = format!(
            "every profile has a check `{COVERAGE}`, and this one is of {}",
            kind.name
        );
        checker
            .problem(Some(at.clone()), message)
            .help("give it another name");
    }
    let weight = weight(checker, typed.weight.take());
    let select = select(checker, &mut typed);
    let line = demanded_at(&typed).unwrap_or(at.clone());
    let mut reader = Reader {
        checker,
        kind,
        at,
        name: word.clone(),
    };
    let demand = reader.demand(&mut typed);
    let line = Problem::new(checker.text, Some(line), "")
        .place
        .map(|(line, _)| line);
    named.then_some(())?;
    Some(Check {
        name: word.clone(),
        line,
        weight: weight?,
        demand: demand?,
        select: select?,
    })
}

/// Where the demand of a check stands.
fn demanded_at(typed: &TypedCheck) -> Option<Range<usize>> {
    let single = [&typed.is, &typed.at_least, &typed.at_most];
    let single = single.into_iter().flatten().map(Spanned::span);
    let lists = [&typed.rules, &typed.severity, &typed.counters];
    let lists = lists.into_iter().flatten().map(Spanned::span);
    let more = [
        typed.one_of.as_ref().map(Spanned::span),
        typed.same.as_ref().map(Spanned::span),
    ];
    single
        .chain(lists)
        .chain(more.into_iter().flatten())
        .min_by_key(|span| span.start)
}

fn is_name(checker: &mut Checker, name: &str, at: &Range<usize>) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let fits = (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_part);
    if !fits {
        let message = format!("{name:?} cannot be the name of a check");
        let problem = checker.problem(Some(at.clone()), message);
        problem.help(format!(
            "it is 1 to {MAX_NAME} letters, digits, `-`, `_` and `.`"
        ));
    } else if name.starts_with(SINCE) {
        let message = format!("names that begin with `{SINCE}` are those of --since");
        checker
            .problem(Some(at.clone()), message)
            .help("give the check another name");
        return false;
    }
    fits
}

fn weight(checker: &mut Checker, typed: Typed<String>) -> Option<Weight> {
    let known = [("must", Weight::Must), ("should", Weight::Should)];
    match typed.map(Value::typed) {
        Some(word) => checker.choice("weight", &word, &known),
        None => Some(Weight::Must),
    }
}

fn select(checker: &mut Checker, typed: &mut TypedCheck) -> Option<Select> {
    let nodes = nodes(checker, "nodes", typed.nodes.take());
    let rails = rails(checker, typed.rails.take());
    let groups = texts(checker, "groups", typed.groups.take());
    Some(Select {
        nodes: nodes?,
        rails: rails?,
        groups: groups?.into_iter().map(|group| group.value).collect(),
    })
}

/// The nodes of host lists; none of them where nothing is typed.
fn nodes(checker: &mut Checker, key: &str, typed: TypedList) -> Option<Vec<NodeName>> {
    let mut nodes = Vec::new();
    for list in texts(checker, key, typed)? {
        let names = unfold(checker, &list)?;
        nodes.extend(names.into_iter().map(NodeName::from));
        if nodes.len() > MAX_NAMES {
            let problem = checker.problem(
                list.span,
                format!("`{key}` names more than {MAX_NAMES} nodes"),
            );
            problem.help("leave `nodes` out to mean all");
            return None;
        }
    }
    nodes.sort();
    nodes.dedup();
    Some(nodes)
}

/// The items of a list; nothing where nothing is typed, a problem where it is empty.
fn texts(checker: &mut Checker, key: &str, typed: TypedList) -> Option<Vec<Value<String>>> {
    if typed.is_none() {
        return Some(Vec::new());
    }
    let span = typed.as_ref().map(Spanned::span);
    if typed.as_ref().is_some_and(|list| list.get_ref().is_empty()) {
        let problem = checker.problem(span, format!("`{key}` is empty, and would mean nobody"));
        problem.help(format!("leave `{key}` out to mean all"));
        return None;
    }
    Some(checker.some(key, typed, None)?.value)
}

fn rails(checker: &mut Checker, typed: TypedNumbers) -> Option<Vec<Rail>> {
    let Some(list) = typed else {
        return Some(Vec::new());
    };
    if list.get_ref().is_empty() {
        let problem = checker.problem(Some(list.span()), "`rails` is empty, and would mean none");
        problem.help("leave `rails` out to mean all");
        return None;
    }
    let mut rails = Vec::new();
    for number in list.into_inner() {
        let number = Value::typed(number);
        rails.push(Rail(checker.whole("rails", &number, 0..=MAX_RAIL)?));
    }
    rails.sort_unstable();
    rails.dedup();
    Some(rails)
}

/// `[[except]]`.
fn exception(
    checker: &mut Checker,
    at: &Range<usize>,
    typed: TypedException,
    names: &BTreeSet<String>,
) -> Option<Exception> {
    let missing = |checker: &mut Checker, key: &str, example: &str| {
        let problem = checker.absent(Some(at.clone()), format!("`{key}` is missing here"));
        problem.help(format!("write, for example: {example}"));
    };
    if typed.nodes.is_none() {
        missing(checker, "nodes", "nodes = [\"node017\"]");
    }
    if typed.reason.is_none() {
        missing(
            checker,
            "reason",
            "reason = \"cable is on order, ticket 4711\"",
        );
    }
    if typed.until.is_none() {
        missing(checker, "until", "until = 2027-03-31");
    }
    let nodes = nodes(checker, "nodes", typed.nodes);
    let checks = checks(checker, typed.checks, names);
    let rails = rails(checker, typed.rails);
    let reason = typed
        .reason
        .and_then(|reason| self::reason(checker, Value::typed(reason)));
    let until = typed
        .until
        .and_then(|until| DAY.of(checker, "until", &until));
    let line = Problem::new(checker.text, Some(at.clone()), "").place;
    Some(Exception {
        nodes: nodes.filter(|nodes| !nodes.is_empty())?,
        checks: checks?,
        rails: rails?,
        reason: reason?,
        until: until?,
        line: line.map_or(0, |(line, _)| line),
    })
}

fn reason(checker: &mut Checker, reason: Value<String>) -> Option<String> {
    let text = reason.value.trim();
    let fits =
        (1..=MAX_REASON).contains(&text.chars().count()) && !text.chars().any(is_treacherous);
    if !fits {
        let problem = checker.problem(reason.span, "`reason` does not say why");
        problem.help(format!("it is 1 to {MAX_REASON} characters on one line"));
        return None;
    }
    Some(text.to_owned())
}

/// The checks that an exception is of, each of which the profile has.
fn checks(
    checker: &mut Checker,
    typed: TypedList,
    names: &BTreeSet<String>,
) -> Option<Vec<String>> {
    let list = texts(checker, "checks", typed)?;
    let known = || names.iter().map(String::as_str).chain([COVERAGE]);
    let mut whole = true;
    for check in &list {
        // Checks against an earlier run are there with --since only.
        if known().any(|name| name == check.value) || check.value.starts_with(SINCE) {
            continue;
        }
        whole = false;
        let problem = checker.problem(
            check.span.clone(),
            format!("the profile has no check `{}`", check.value),
        );
        problem.help(match nearest(&check.value, known()) {
            Some(meant) => format!("did you mean \"{meant}\"?"),
            None => format!("there are: {}", known().collect::<Vec<_>>().join(", ")),
        });
    }
    whole.then(|| list.into_iter().map(|check| check.value).collect())
}
