//! What stops linerate itself, in words for whoever typed the command, with its exit code.

use std::fmt;

/// Bad usage or configuration.
pub(super) const CONFIGURATION: u8 = 2;

/// Something on this machine kept the run from being judged.
const NOT_JUDGED: u8 = 3;

/// Why a mode could not do its work.
#[derive(Debug)]
pub(super) struct Failure {
    code: u8,
    what: String,
}

impl Failure {
    /// The operator asked for something that cannot be, or a file says something that cannot be.
    pub(super) fn usage(what: impl fmt::Display) -> Self {
        Self {
            code: CONFIGURATION,
            what: what.to_string(),
        }
    }

    /// The work could not be done or not be kept.
    pub(super) fn work(what: impl fmt::Display) -> Self {
        Self {
            code: NOT_JUDGED,
            what: what.to_string(),
        }
    }

    /// The error and everything it came from, in one line.
    pub(super) fn chain(error: &dyn std::error::Error) -> String {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            let more = error.to_string();
            // Some messages already hold the one below.
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            source = error.source();
        }
        text
    }

    pub(super) fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
