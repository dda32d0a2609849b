//! The values of a fault: which node, rail or leaf, and what is left of it.

use std::collections::BTreeSet;
use std::ops::Range;

use super::super::super::hostlist;
use super::super::super::problem::nearest_node;
use super::super::super::scenario::{Place, Uplink};
use super::super::super::typed::{Typed, TypedEnd, TypedList, TypedNumbers};
use super::super::Value;
use super::Faults;
use crate::model::{Direction, NodeName};

impl Faults<'_, '_> {
    /// A key that a fault has no default for.
    pub(super) fn given<T>(
        &mut self,
        at: &Range<usize>,
        key: &str,
        typed: Typed<T>,
    ) -> Option<Value<T>> {
        if typed.is_none() {
            self.checker
                .absent(Some(at.clone()), format!("`{key}` is missing here"));
        }
        typed.map(Value::typed)
    }

    pub(super) fn node(
        &mut self,
        at: &Range<usize>,
        key: &str,
        typed: Typed<String>,
    ) -> Option<NodeName> {
        let name = self.given(at, key, typed)?;
        self.known(key, name.span, NodeName::from(name.value))
    }

    fn known(&mut self, key: &str, span: Option<Range<usize>>, name: NodeName) -> Option<NodeName> {
        if self.scenario.number(&name).is_some() {
            return Some(name);
        }
        let [first, last] = [self.names.first(), self.names.last()]
            .map(|name| name.map_or("", |name| name.0.as_str()));
        let message = format!("`{key}` is {first} to {last}, not {:?}", name.0);
        let meant = nearest_node(&name.0, self.names.iter().map(|name| name.0.as_str()));
        let meant = meant.map(|meant| format!("did you mean \"{meant}\"?"));
        let problem = self.checker.problem(span, message);
        if let Some(meant) = meant {
            problem.help(meant);
        }
        None
    }

    /// The nodes of host lists.
    pub(super) fn nodes(&mut self, at: &Range<usize>, typed: TypedList) -> Option<Vec<NodeName>> {
        let lists = self.given(at, "nodes", typed)?;
        let (before, mut nodes) = (self.checker.problems.len(), Vec::new());
        for list in lists.value {
            let span = list.span();
            match hostlist::expand(list.get_ref()) {
                Ok(names) => {
                    let known =
                        |name| self.known("nodes", Some(span.clone()), NodeName::from(name));
                    // One that is not there says enough of a list.
                    nodes.extend(names.into_iter().map_while(known));
                }
                Err(error) => {
                    self.checker.problem(Some(span), error.to_string());
                }
            }
        }
        (self.checker.problems.len() == before).then_some(nodes)
    }

    pub(super) fn rail(&mut self, at: &Range<usize>, typed: Typed<i64>) -> Option<u16> {
        let rail = self.given(at, "rail", typed)?;
        let last = i64::from(self.scenario.rails) - 1;
        self.checker.whole("rail", &rail, 0..=last)
    }

    pub(super) fn place(
        &mut self,
        at: &Range<usize>,
        key: &str,
        node: Typed<String>,
        rail: Typed<i64>,
    ) -> Option<Place> {
        let node = self.node(at, key, node);
        let rail = self.rail(at, rail);
        Some(Place {
            node: node?,
            rail: rail?,
        })
    }

    /// Different rails, as many as `fits` takes; `many` says how many.
    pub(super) fn rails(
        &mut self,
        at: &Range<usize>,
        typed: TypedNumbers,
        many: &str,
        fits: fn(usize) -> bool,
    ) -> Option<Vec<u16>> {
        let list = self.given(at, "rails", typed)?;
        let last = i64::from(self.scenario.rails) - 1;
        let numbers = list.value.into_iter().map(Value::typed);
        let whole = numbers.map(|rail| self.checker.whole("rails", &rail, 0..=last));
        let rails: Vec<u16> = whole.collect::<Option<_>>()?;
        let different: BTreeSet<u16> = rails.iter().copied().collect();
        if different.len() != rails.len() || !fits(rails.len()) {
            let message = format!("`rails` is a list of {many}, none of them twice");
            self.checker.problem(list.span, message);
            return None;
        }
        Some(rails)
    }

    /// A leaf, counted from 1 in the file and from 0 here.
    pub(super) fn leaf(&mut self, at: &Range<usize>, typed: Typed<i64>) -> Option<u16> {
        let leaf = self.given(at, "leaf", typed)?;
        let last = i64::from(self.scenario.leafs());
        let number: u16 = self.checker.whole("leaf", &leaf, 1..=last)?;
        Some(number - 1)
    }

    pub(super) fn uplink(&mut self, at: &Range<usize>, typed: Typed<String>) -> Option<Uplink> {
        let word = self.given(at, "direction", typed)?;
        let known = [("up", Uplink::Up), ("down", Uplink::Down)];
        self.checker.choice("direction", &word, &known)
    }

    /// A share of probes: above 0, and 1 for all of them.
    pub(super) fn share(&mut self, at: &Range<usize>, typed: Typed<f64>) -> Option<f64> {
        let share = self.given(at, "share", typed)?;
        let found = Some(share.value).filter(|share| *share > 0.0 && *share <= 1.0);
        if found.is_none() {
            let message = format!("`share` is above 0 and at most 1, not {}", share.value);
            self.checker.problem(share.span, message);
        }
        found
    }

    /// What is left of a line: above 0, and below 1 or it would be no fault.
    pub(super) fn ratio(&mut self, at: &Range<usize>, typed: Typed<f64>) -> Option<f64> {
        let ratio = self.given(at, "ratio", typed)?;
        let found = Some(ratio.value).filter(|ratio| (0.01..1.0).contains(ratio));
        if found.is_none() {
            let message = format!("`ratio` is from 0.01 to below 1, not {}", ratio.value);
            self.checker.problem(ratio.span, message);
        }
        found
    }

    pub(super) fn width(&mut self, at: &Range<usize>, typed: Typed<i64>) -> Option<u8> {
        let width = self.given(at, "width", typed)?;
        let found = [1, 2, 4, 8]
            .into_iter()
            .find(|w| i64::from(*w) == width.value);
        if found.is_none() {
            let message = format!("`width` is 1, 2, 4 or 8 lanes, not {}", width.value);
            self.checker.problem(width.span, message);
        }
        found
    }

    pub(super) fn direction(
        &mut self,
        at: &Range<usize>,
        typed: Typed<String>,
    ) -> Option<Option<Direction>> {
        let known = [
            ("tx", Some(Direction::Tx)),
            ("rx", Some(Direction::Rx)),
            ("both", None),
        ];
        let word = self.given(at, "direction", typed)?;
        self.checker.choice("direction", &word, &known)
    }

    pub(super) fn end(
        &mut self,
        at: &Range<usize>,
        typed: TypedEnd,
    ) -> Option<(NodeName, Option<u32>)> {
        let node = self.node(at, "node", typed.node);
        let round = match typed.round.map(Value::typed) {
            Some(round) => Some(self.checker.whole("round", &round, 1..=100_000)?),
            None => None,
        };
        Some((node?, round))
    }
}
