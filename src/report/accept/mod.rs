//! What became of an acceptance profile: for a person, for programs, and for Nagios.

mod json;
mod nagios;
mod text;

#[cfg(test)]
mod tests;

pub use json::{ACCEPTANCE_SCHEMA, accept_json};
pub use nagios::{nagios_code, nagios_line};
pub use text::accept_text;

use crate::model::{Acceptance, CheckOutcome, CheckResult, Weight};

/// How many results there are of each outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) not_judged: usize,
    pub(super) excepted: usize,
}

impl Counts {
    pub(super) fn of<'a>(results: impl IntoIterator<Item = &'a CheckResult>) -> Self {
        let mut counts = Self::default();
        for result in results {
            *match result.outcome {
                CheckOutcome::Passed => &mut counts.passed,
                CheckOutcome::Failed => &mut counts.failed,
                CheckOutcome::NotJudged { .. } => &mut counts.not_judged,
                CheckOutcome::Excepted { .. } => &mut counts.excepted,
            } += 1;
        }
        counts
    }

    /// Of one weight.
    pub(super) fn weighing(acceptance: &Acceptance, weight: Weight) -> Self {
        Self::of(
            acceptance
                .results
                .iter()
                .filter(|result| result.weight == weight),
        )
    }

    pub(super) fn total(self) -> usize {
        self.passed + self.failed + self.not_judged + self.excepted
    }
}
