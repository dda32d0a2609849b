//! Checks that name counters, or rules and severities.

use super::super::super::super::problem::nearest;
use super::super::super::super::profile::{CannotTellIs, Demand, FindingsDemand};
use super::super::super::super::typed::{TypedCheck, TypedList};
use super::super::super::Value;
use super::Reader;
use crate::model::{Rule, Severity, is_treacherous};

impl Reader<'_, '_> {
    pub(super) fn counters(&mut self, typed: &mut TypedCheck) -> Option<Demand> {
        let names = self.texts("counters", typed.counters.take())?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut wrong = names
            .iter()
            .filter(|name| name.value.is_empty() || !name.value.chars().all(is_part));
        if let Some(name) = wrong.next() {
            let message = format!("{:?} is no name of a counter", name.value);
            let problem = self.checker.problem(name.span.clone(), message);
            problem.help(
                "write it as below /sys/class/infiniband/…/counters, such as \"link_downed\"",
            );
            return None;
        }
        Some(Demand::Counters(
            names.into_iter().map(|name| name.value).collect(),
        ))
    }

    /// The items of a list of texts; nothing where there is no list, a problem where it is empty.
    fn texts(&mut self, key: &str, typed: TypedList) -> Option<Vec<Value<String>>> {
        if typed.is_none() {
            return Some(Vec::new());
        }
        let empty = typed.as_ref().filter(|list| list.get_ref().is_empty());
        if let Some(list) = empty {
            let example = self.kind.example;
            let problem = self
                .checker
                .problem(Some(list.span()), format!("`{key}` is empty"));
            problem.help(format!("write, for example: {example}"));
            return None;
        }
        let list = self.checker.some(key, typed, None)?;
        let hidden = list
            .value
            .iter()
            .find(|item| item.value.chars().any(is_treacherous));
        if let Some(item) = hidden {
            let problem = self.checker.problem(
                item.span.clone(),
                format!("`{key}` holds characters that do not show"),
            );
            problem.help("type the text anew");
            return None;
        }
        Some(list.value)
    }

    pub(super) fn findings(&mut self, typed: &mut TypedCheck) -> Option<Demand> {
        let says_nothing = typed.rules.is_none() && typed.severity.is_none();
        if says_nothing {
            self.nothing_demanded();
        }
        let known = [
            ("not judged", CannotTellIs::NotJudged),
            ("borne", CannotTellIs::Borne),
        ];
        let cannot_tell = self.option("cannot_tell", typed.cannot_tell.take(), &known);
        let rules = self.texts("rules", typed.rules.take());
        let rules = rules.map(|rules| rules.iter().map(|rule| self.rule(rule)).collect::<Vec<_>>());
        let known = [
            ("fault", Severity::Fault),
            ("warning", Severity::Warning),
            ("note", Severity::Note),
        ];
        let severities = self.texts("severity", typed.severity.take());
        let severities = severities.map(|words| {
            let words = words.iter();
            words
                .map(|word| self.checker.choice("severity", word, &known))
                .collect::<Vec<_>>()
        });
        let rules: Option<Vec<Rule>> = rules?.into_iter().collect();
        let severities: Option<Vec<Severity>> = severities?.into_iter().collect();
        (!says_nothing).then_some(())?;
        Some(Demand::Findings(FindingsDemand {
            rules: rules?,
            severities: severities?,
            cannot_tell: cannot_tell?,
        }))
    }

    fn rule(&mut self, typed: &Value<String>) -> Option<Rule> {
        let found = typed.value.parse().ok();
        if found.is_none() {
            let names = Rule::ALL.iter().map(|rule| rule.name());
            let help = match nearest(&typed.value, names) {
                Some(meant) => format!("did you mean \"{meant}\"?"),
                None => "`linerate explain` lists all rules".to_owned(),
            };
            let message = format!("there is no rule {:?}", typed.value);
            self.checker.problem(typed.span.clone(), message).help(help);
        }
        found
    }
}
