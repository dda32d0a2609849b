//! Acceptance: what a profile demands of a cluster, and what became of each demand.

use serde::{Deserialize, Serialize};

use super::{Evidence, NodeName, Rail};

/// How much a check weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// The cluster is not accepted where it does not hold, or cannot be judged.
    Must,
    /// It is told where it does not hold, and the cluster may still be accepted.
    Should,
}

/// What became of a check for one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum CheckOutcome {
    /// It holds.
    Passed,
    /// It does not hold.
    Failed,
    /// It could not be evaluated, which a must does not bear.
    NotJudged {
        /// Why, to follow "because".
        why: String,
    },
    /// It does not hold or could not be evaluated, and the profile bears that for this subject.
    Excepted {
        /// The profile's reason.
        reason: String,
        /// The last day on which that counts, as year-month-day.
        until: String,
        /// Why it could not be evaluated, where that is so.
        why: Option<String>,
    },
}

/// One demand on one subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The name of the check, as the profile has it.
    pub check: String,
    /// How much it weighs.
    pub weight: Weight,
    /// The node that it is about; none where it is about the whole cluster.
    pub node: Option<NodeName>,
    /// The rail that it is about, where it is about one.
    pub rail: Option<Rail>,
    /// Whom it is about, in words: "mlx5_1 of node02 tx".
    pub subject: String,
    /// What became of it.
    pub outcome: CheckOutcome,
    /// What was seen, in words: "184 Gb/s". None where nothing was.
    pub saw: Option<String>,
    /// What was demanded, in words: "at least 360 Gb/s".
    pub expected: String,
    /// Where the demand is from: "hgx.toml, line 12".
    pub expected_from: String,
    /// What the outcome rests on.
    pub evidence: Vec<Evidence>,
}

/// What became of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Acceptance {
    /// The profile's name.
    pub profile: String,
    /// Every demand on every subject, in the profile's order, then by node and rail.
    pub results: Vec<CheckResult>,
}

/// An acceptance in one word. Its number is the process's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AcceptanceVerdict {
    /// Every must holds.
    Accepted,
    /// A must does not hold.
    Rejected,
    /// No must was seen not to hold, and at least one could not be judged, or nothing was demanded.
    CouldNotJudge,
}

impl AcceptanceVerdict {
    /// The exit code that says this: 0, 1 or 3 (2 is bad usage, configuration or profile).
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::Rejected => 1,
            Self::CouldNotJudge => 3,
        }
    }
}

impl Acceptance {
    /// The profile in one word. A profile that demanded nothing accepts nothing.
    pub fn verdict(&self) -> AcceptanceVerdict {
        let musts = || self.results.iter().filter(|r| r.weight == Weight::Must);
        let failed = |r: &CheckResult| r.outcome == CheckOutcome::Failed;
        let unjudged = |r: &CheckResult| matches!(r.outcome, CheckOutcome::NotJudged { .. });
        if musts().any(failed) {
            AcceptanceVerdict::Rejected
        } else if self.results.is_empty() || musts().any(unjudged) {
            AcceptanceVerdict::CouldNotJudge
        } else {
            AcceptanceVerdict::Accepted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(weight: Weight, outcome: CheckOutcome) -> CheckResult {
        CheckResult {
            check: "mtu".into(),
            weight,
            node: None,
            rail: None,
            subject: "the cluster".into(),
            outcome,
            saw: None,
            expected: "4096".into(),
            expected_from: "profile.toml, line 3".into(),
            evidence: Vec::new(),
        }
    }

    fn verdict(results: &[(Weight, CheckOutcome)]) -> AcceptanceVerdict {
        let results = results.iter().cloned();
        let results = results.map(|(weight, outcome)| result(weight, outcome));
        Acceptance {
            profile: "test".into(),
            results: results.collect(),
        }
        .verdict()
    }

    #[test]
    fn only_musts_that_all_hold_accept() {
        use AcceptanceVerdict::{Accepted, CouldNotJudge, Rejected};
        let why = || CheckOutcome::NotJudged { why: "x".into() };
        let must = |outcome| (Weight::Must, outcome);
        let should = |outcome| (Weight::Should, outcome);
        assert_eq!(verdict(&[]), CouldNotJudge);
        assert_eq!(verdict(&[must(CheckOutcome::Passed)]), Accepted);
        assert_eq!(
            verdict(&[must(why()), must(CheckOutcome::Failed)]),
            Rejected
        );
        assert_eq!(
            verdict(&[must(CheckOutcome::Passed), must(why())]),
            CouldNotJudge
        );
        let borne = CheckOutcome::Excepted {
            reason: "on loan".into(),
            until: "2027-01-01".into(),
            why: None,
        };
        assert_eq!(
            verdict(&[must(borne), should(CheckOutcome::Failed), should(why())]),
            Accepted
        );
    }
}
