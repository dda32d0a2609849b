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

impl Group<'_> {
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
        use Weight::{Must, Should};
        let group = |heading, class, is_open, belongs: &dyn Fn(&CheckResult) -> bool| {
            let most = if is_open { MOST_OTHERS } else { MOST_PASSED };
            let mine = || acceptance.results.iter().filter(|result| belongs(result));
            Group {
                heading,
                class,
                results: mine().take(most).collect(),
                total: mine().count(),
                is_open,
            }
        };
        let failed = |weight| {
            move |result: &CheckResult| {
                result.weight == weight && result.outcome == CheckOutcome::Failed
            }
        };
        let unjudged = |weight| {
            move |result: &CheckResult| {
                let open = matches!(result.outcome, CheckOutcome::NotJudged { .. });
                result.weight == weight && open
            }
        };
        let borne = |result: &CheckResult| matches!(result.outcome, CheckOutcome::Excepted { .. });
        let passed = |result: &CheckResult| result.outcome == CheckOutcome::Passed;
        let (verdict, class) = verdict(acceptance.verdict());
        let groups = [
            group("Musts that do not hold", "bad", true, &failed(Must)),
            group(
                "Musts that could not be judged",
                "doubt",
                true,
                &unjudged(Must),
            ),
            group("Shoulds that do not hold", "warn", true, &failed(Should)),
            group(
                "Shoulds that could not be judged",
                "doubt",
                true,
                &unjudged(Should),
            ),
            group("Excepted by the profile", "note", true, &borne),
            group("Checks that hold", "good", false, &passed),
        ];
        Self {
            profile: &acceptance.profile,
            verdict,
            class,
            groups: groups.into_iter().filter(|group| group.total > 0).collect(),
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
