//! What a NIC is at a glance: a character that says it without colour, and the colour beside it.

use super::theme::{Role, Theme};
use crate::model::Severity;

/// What is known of a NIC, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// Its node was lost, or its port has no link.
    Dead,
    /// At half bandwidth, proved.
    Half,
    /// Below what is expected, or a fault of another kind, proved.
    Degraded,
    /// Something of it could not be judged.
    NotJudged,
    /// What was measured last is low, and nothing is proved.
    Doubt,
    /// At line rate, with a warning.
    Warned,
    /// Nothing was measured yet.
    NotRun,
    /// At line rate as far as was measured.
    Good,
}

impl Mark {
    /// Its character.
    pub(super) fn sign(self, theme: &Theme) -> &'static str {
        let (sign, ascii) = match self {
            Self::Dead => ("✕", "X"),
            Self::Half => ("½", "H"),
            Self::Degraded => ("▼", "v"),
            Self::NotJudged => ("?", "?"),
            Self::Doubt => ("≈", "~"),
            Self::Warned => ("!", "!"),
            Self::NotRun => ("·", "."),
            Self::Good => ("✓", "+"),
        };
        if theme.unicode { sign } else { ascii }
    }

    /// Its colour.
    pub(super) fn role(self) -> Role {
        match self {
            Self::Dead => Role::Dead,
            Self::Half => Role::Half,
            Self::Degraded => Role::Degraded,
            Self::NotJudged | Self::Doubt | Self::Warned => Role::Doubt,
            Self::NotRun => Role::Dim,
            Self::Good => Role::Good,
        }
    }

    /// What it says, for the help and the node's verdict.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Half => "half",
            Self::Degraded => "degraded",
            Self::NotJudged => "not judged",
            Self::Doubt => "in doubt",
            Self::Warned => "warning",
            Self::NotRun => "not run",
            Self::Good => "ok",
        }
    }

    /// Every mark, the worst first.
    pub(super) const ALL: [Self; 8] = [
        Self::Dead,
        Self::Half,
        Self::Degraded,
        Self::NotJudged,
        Self::Doubt,
        Self::Warned,
        Self::NotRun,
        Self::Good,
    ];
}

/// The sign and colour of a severity.
pub(super) fn severity(severity: Severity) -> (&'static str, Role) {
    match severity {
        Severity::Fault => ("FAULT", Role::Half),
        Severity::NotJudged => ("NOT JUDGED", Role::Doubt),
        Severity::Warning => ("WARNING", Role::Degraded),
        Severity::Note => ("NOTE", Role::Dim),
    }
}
