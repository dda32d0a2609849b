//! From what was typed, and the defaults for what was not, to a [`Cluster`] that can be relied on.
//! Each section has its file; what they share is here.

mod cost;
mod fault;
mod nccl;
mod nodes;
mod probe;
mod profile;
mod rails;
mod record;
mod scenario;
mod ssh;
mod sweep;

use std::fmt::{Debug, Display};
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use toml::Spanned;

use super::cluster::{Cluster, Operator};
use super::problem::{Problem, nearest};
use super::read::Read;
use super::typed::{Typed, TypedCluster, TypedList};

pub(super) use profile::check as check_profile;
#[cfg(test)]
pub(super) use profile::{examples as profile_examples, names as profile_kinds};
pub(super) use scenario::check as check_scenario;

/// A value that counts: with its place where it was typed, without where it is the default.
#[derive(Debug, Clone, PartialEq)]
struct Value<T> {
    value: T,
    span: Option<Range<usize>>,
}

impl<T> Value<T> {
    fn typed(spanned: Spanned<T>) -> Self {
        let span = Some(spanned.span());
        let value = spanned.into_inner();
        Self { value, span }
    }
}

/// Checks what was read, with `defaults` for what was not typed.
pub(super) fn check(
    text: &str,
    read: Read<TypedCluster>,
    defaults: TypedCluster,
    operator: &Operator,
) -> Result<Cluster, Vec<Problem>> {
    let mut checker = Checker {
        text,
        operator,
        unread: !read.problems.is_empty(),
        problems: read.problems,
        dropped: Problem::new(text, None, ""),
    };
    let typed = read.typed;
    let (login, ssh) = ssh::check(&mut checker, typed.ssh.0, defaults.ssh.0);
    let rails = rails::check(&mut checker, typed.rails.or(defaults.rails));
    let (mut of_probe, mut default_of_probe) = (typed.probe.0, defaults.probe.0);
    let tcp = std::mem::take(&mut of_probe.tcp.0);
    let default_tcp = std::mem::take(&mut default_of_probe.tcp.0);
    let of_cost = std::mem::take(&mut of_probe.cost.0);
    let default_of_cost = std::mem::take(&mut default_of_probe.cost.0);
    let probe = probe::check(&mut checker, of_probe, default_of_probe);
    let cost = cost::check(&mut checker, [tcp, default_tcp], [of_cost, default_of_cost]);
    let expect = probe::check_expect(&mut checker, typed.expect.0, defaults.expect.0);
    let sweep = sweep::check(&mut checker, typed.sweep.0, defaults.sweep.0);
    let nccl = nccl::check(&mut checker, typed.nccl.0, defaults.nccl.0);
    let record = record::check(&mut checker, typed.record.0);
    let lists = nodes::Lists {
        nodes: typed.nodes,
        exclude: typed.exclude,
        overrides: typed.node,
    };
    let nodes = nodes::check(&mut checker, lists, login.as_ref(), ssh.as_ref());
    match (
        nodes,
        ssh,
        rails,
        probe.zip(cost),
        expect.zip(record),
        sweep.zip(nccl),
    ) {
        (Some(nodes), Some(ssh), Some(rails), Some(probe), Some(expect), Some(sweep))
            if checker.problems.is_empty() =>
        {
            let ((sweep, groups_file), (nccl, tests_nccl)) = sweep;
            let (probe, cost) = probe;
            let (expect, record) = expect;
            Ok(Cluster {
                nodes,
                ssh,
                rails,
                probe,
                cost,
                expect,
                sweep,
                nccl,
                tests_nccl,
                record,
                groups_file,
            })
        }
        _ => Err(checker.problems),
    }
}

/// Collects problems; its methods give nothing where there is one.
struct Checker<'a> {
    text: &'a str,
    operator: &'a Operator,
    problems: Vec<Problem>,
    /// Whether some of what was typed could not be read.
    unread: bool,
    dropped: Problem,
}

impl Checker<'_> {
    fn problem(&mut self, span: Option<Range<usize>>, message: impl Into<String>) -> &mut Problem {
        let last = self.problems.len();
        self.problems.push(Problem::new(self.text, span, message));
        &mut self.problems[last]
    }

    /// A problem about something that is not there. Beside keys that could not be read it is dropped:
    /// they may be what was meant.
    fn absent(&mut self, span: Option<Range<usize>>, message: impl Into<String>) -> &mut Problem {
        if self.unread {
            self.dropped = Problem::new(self.text, None, "");
            return &mut self.dropped;
        }
        self.problem(span, message)
    }

    /// The typed value, else the default. That there is one, a test over default.toml holds.
    fn need<T>(&mut self, key: &str, typed: Typed<T>, default: Typed<T>) -> Option<Value<T>> {
        let default = default.map(|value| Value {
            value: value.into_inner(),
            span: None,
        });
        let value = typed.map(Value::typed).or(default);
        if value.is_none() {
            self.problem(None, format!("`{key}` is not set and has no default"));
        }
        value
    }

    fn whole<T: TryFrom<i64>>(
        &mut self,
        key: &str,
        value: &Value<i64>,
        range: RangeInclusive<i64>,
    ) -> Option<T> {
        let checked = Some(value.value).filter(|value| range.contains(value));
        let checked = checked.and_then(|value| T::try_from(value).ok());
        if checked.is_none() {
            let (low, high) = (range.start(), range.end());
            let message = format!("`{key}` is {low} to {high}, not {}", value.value);
            self.problem(value.span.clone(), message);
        }
        checked
    }

    /// [`Checker::need`], then [`Checker::whole`].
    fn need_whole<T: TryFrom<i64>>(
        &mut self,
        key: &str,
        typed: Typed<i64>,
        default: Typed<i64>,
        range: RangeInclusive<i64>,
    ) -> Option<Value<T>> {
        let number = self.need(key, typed, default)?;
        let value = self.whole(short(key), &number, range)?;
        let span = number.span;
        Some(Value { value, span })
    }

    /// [`Checker::need`], then [`Checker::duration`].
    fn need_duration(
        &mut self,
        key: &str,
        typed: Typed<String>,
        default: Typed<String>,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let length = self.need(key, typed, default)?;
        self.duration(short(key), &length, range)
    }

    /// [`Checker::need`], then [`Checker::choice`].
    fn need_choice<T: Copy>(
        &mut self,
        key: &str,
        typed: Typed<String>,
        default: Typed<String>,
        known: &[(&str, T)],
    ) -> Option<T> {
        let word = self.need(key, typed, default)?;
        self.choice(short(key), &word, known)
    }

    fn parsed<T: FromStr<Err: Display>>(&mut self, key: &str, value: &Value<String>) -> Option<T> {
        match value.value.parse() {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                self.problem(value.span.clone(), format!("`{key}`: {error}"));
                None
            }
        }
    }

    fn duration(
        &mut self,
        key: &str,
        value: &Value<String>,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let Ok(duration) = value.value.parse::<SignedDuration>() else {
            let typed = &value.value;
            self.problem(
                value.span.clone(),
                format!("`{key}`: {typed:?} is not a length of time"),
            )
            .help("write it with its unit: \"500ms\", \"30s\", \"2min\"");
            return None;
        };
        let checked = Duration::try_from(duration)
            .ok()
            .filter(|duration| range.contains(duration))
            .filter(|duration| duration.subsec_nanos().is_multiple_of(1_000_000));
        if checked.is_none() {
            let (low, high) = (range.start(), range.end());
            let message = format!(
                "`{key}` is {low:?} to {high:?} in whole milliseconds, not {:?}",
                value.value
            );
            self.problem(value.span.clone(), message);
        }
        checked
    }

    fn choice<T: Copy>(
        &mut self,
        key: &str,
        value: &Value<String>,
        known: &[(&str, T)],
    ) -> Option<T> {
        let typed = value.value.as_str();
        let chosen = known.iter().find(|(word, _)| *word == typed);
        if chosen.is_none() {
            let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
            let list = words.join("\" or \"");
            let problem = self.problem(
                value.span.clone(),
                format!("`{key}` is \"{list}\", not {typed:?}"),
            );
            if let Some(meant) = nearest(typed, words).filter(|_| known.len() > 1) {
                problem.help(format!("did you mean \"{meant}\"?"));
            }
        }
        chosen.map(|(_, value)| *value)
    }

    /// The items of a list that must have some; none, without a word, where it is not set at all.
    fn some(
        &mut self,
        key: &str,
        typed: TypedList,
        default: TypedList,
    ) -> Option<Value<Vec<Value<String>>>> {
        let default = default.map(|list| Value {
            value: items(list, |_| None),
            span: None,
        });
        let typed = typed.map(|list| Value {
            span: Some(list.span()),
            value: items(list, |item| Some(item.span())),
        });
        let list = typed.or(default)?;
        if list.value.is_empty() {
            self.problem(list.span, format!("`{key}` is empty"));
            return None;
        }
        Some(list)
    }

    /// The place of a byte within a text of the file.
    fn place_inside(&self, value: &Value<String>, at: usize) -> Option<Range<usize>> {
        let span = value.span.clone()?;
        // A place in the text is one in the file where it stands in quotes as it is, unescaped.
        let quoted = self.text.get(span.start + 1..span.end.saturating_sub(1));
        if quoted != Some(&value.value) {
            return Some(span);
        }
        let rest = value.value.get(at..).unwrap_or("");
        let length = rest.chars().next().map_or(1, char::len_utf8);
        let start = span.start + 1 + at;
        Some(start..start + length)
    }
}

/// The key without its section, as it stands in the file.
fn short(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn items(
    list: Spanned<Vec<Spanned<String>>>,
    span: impl Fn(&Spanned<String>) -> Option<Range<usize>>,
) -> Vec<Value<String>> {
    let items = list.into_inner().into_iter();
    items
        .map(|item| Value {
            span: span(&item),
            value: item.into_inner(),
        })
        .collect()
}
