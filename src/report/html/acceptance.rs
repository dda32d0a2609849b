//! What became of a profile: what failed first, then what could not be judged, then the rest.

use askama::Template;

use crate::model::{Acceptance, AcceptanceVerdict, CheckOutcome, CheckResult, Weight};

/// Results that hold, shown one by one; of more there is the number.
const MOST_PASSED: usize = 1000;

/// Other results; what fails everywhere would fill the page.
const MOST_OTHERS: usize = 3000;

/// Results of one kind, under one heading.
struct Group<'a> {
    heading: &'static str,
    class: &'static str,
    results: Vec<&'a CheckResult>,
    total: usize,
    /// Whether it is seen without a click.
    is_open: bool,
}

/// A heading, the class of its colour, whether it is seen without a click, and what stands under it.
type Heading = (&'static str, &'static str, bool, fn(&CheckResult) -> bool);

/// The worst first.
const HEADINGS: [Heading; 6] = [
    ("Musts that do not hold", "bad", true, |result| {
        result.weight == Weight::Must && is_failed(result)
    }),
    ("Musts that could not be judged", "doubt", true, |result| {
        result.weight == Weight::Must && is_unjudged(result)
    }),
    ("Shoulds that do not hold", "warn", true, |result| {
        result.weight == Weight::Should && is_failed(result)
    }),
    (
        "Shoulds that could not be judged",
        "doubt",
        true,
        |result| result.weight == Weight::Should && is_unjudged(result),
    ),
    ("Excepted by the profile", "note", true, |result| {
        matches!(result.outcome, CheckOutcome::Excepted { .. })
    }),
    ("Checks that hold", "good", false, |result| {
        result.outcome == CheckOutcome::Passed
    }),
];

fn is_failed(result: &CheckResult) -> bool {
    result.outcome == CheckOutcome::Failed
}

fn is_unjudged(result: &CheckResult) -> bool {
    matches!(result.outcome, CheckOutcome::NotJudged { .. })
}

impl<'a> Group<'a> {
    fn of(acceptance: &'a Acceptance, (heading, class, is_open, belongs): Heading) -> Self {
        let most = if is_open { MOST_OTHERS } else { MOST_PASSED };
        let mine = || acceptance.results.iter().filter(|result| belongs(result));
        Self {
            heading,
            class,
            results: mine().take(most).collect(),
            total: mine().count(),
            is_open,
        }
    }

    fn more(&self) -> usize {
        self.total - self.results.len()
    }
}

/// The section of an acceptance.
#[derive(Template)]
#[template(path = "acceptance.html")]
pub(super) struct Accepted<'a> {
    profile: &'a str,
    verdict: &'static str,
    class: &'static str,
    groups: Vec<Group<'a>>,
}

impl<'a> Accepted<'a> {
    /// How many results there are.
    pub(super) fn count(&self) -> usize {
        self.groups.iter().map(|group| group.total).sum()
    }

    /// Of a profile's results.
    pub(super) fn of(acceptance: &'a Acceptance) -> Self {
        let (verdict, class) = verdict(acceptance.verdict());
        let groups = HEADINGS.map(|heading| Group::of(acceptance, heading));
        let groups = groups.into_iter().filter(|group| group.total > 0);
        Self {
            profile: &acceptance.profile,
            verdict,
            class,
            groups: groups.collect(),
        }
    }
}

/// An acceptance in words, with the class of its colour.
pub(super) fn verdict(verdict: AcceptanceVerdict) -> (&'static str, &'static str) {
    match verdict {
        AcceptanceVerdict::Accepted => ("Accepted", "good"),
        AcceptanceVerdict::Rejected => ("Rejected", "bad"),
        AcceptanceVerdict::CouldNotJudge => ("Could not judge everything", "doubt"),
    }
}

/// What is to be said of an outcome beside its heading.
fn remark(result: &CheckResult) -> Option<String> {
    match &result.outcome {
        CheckOutcome::Passed | CheckOutcome::Failed => None,
        CheckOutcome::NotJudged { why } => Some(format!("Not judged, because {why}")),
        CheckOutcome::Excepted { reason, until, why } => {
            let why = why
                .as_ref()
                .map(|why| format!("; not judged, because {why}"));
            Some(format!(
                "Excepted until {until}: {reason}{}",
                why.unwrap_or_default()
            ))
        }
    }
}
