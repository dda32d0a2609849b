//! What can go wrong with the lab, for a person who wants it up.

use std::path::PathBuf;

/// An error of the lab; its text says what happened, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A file of the lab could not be read, written or made.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// What was being done, such as `cannot write`.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A program could not be started.
    #[error("cannot run `{program}`: {source}; `linerate-lab check` says which package brings it")]
    Start {
        /// The program.
        program: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A program ran and failed.
    #[error("`{command}` failed ({status}): {output}")]
    Program {
        /// The command line.
        command: String,
        /// Its exit status.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// The kernel could not be had from the distribution.
    #[error("no kernel for the lab: {0}")]
    Kernel(String),
    /// Options that do not fit each other.
    #[error("{0}")]
    Options(String),
    /// A node that did not come up.
    #[error("{node} did not come up: {why}\n--- end of its console, {} ---\n{tail}", console.display())]
    Node {
        /// Its name.
        node: String,
        /// What was missing.
        why: String,
        /// Where its console is kept.
        console: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// The supervisor refused, failed or vanished.
    #[error("the lab's supervisor: {0}")]
    Supervisor(String),
    /// No lab runs in this directory.
    #[error("no lab is up in {}; start one with `linerate-lab up`", .0.display())]
    Down(PathBuf),
}

/// A result of the lab.
pub type Result<T> = std::result::Result<T, LabError>;

impl LabError {
    /// Makes a [`LabError::File`] of an I/O error.
    pub fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> LabError {
        let path = path.into();
        move |source| LabError::File { what, path, source }
    }
}
