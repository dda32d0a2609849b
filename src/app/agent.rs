//! `linerate agent`: serves one controller on standard input and output.

use super::failure::Failure;
use super::surveyor;
use crate::agent::serve;

/// Runs until the controller says goodbye or is gone.
pub(super) fn run() -> Result<u8, Failure> {
    let served = serve(
        std::io::stdin(),
        std::io::stdout(),
        surveyor::this_machine,
        || std::process::exit(4),
    );
    match served {
        // Threads may still be inside a library call; the process ends with what they hold.
        Ok(()) => std::process::exit(0),
        Err(error) => Err(Failure::usage(Failure::chain(&error))),
    }
}
