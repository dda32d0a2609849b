//! `linerate agent`: serves one controller on standard input and output.

use super::failure::Failure;
use super::surveyor;
use crate::agent::serve;
use crate::gpu::leave_if_hung;

/// Runs until the controller says goodbye or is gone.
pub(super) fn run() -> Result<u8, Failure> {
    let served = serve(
        std::io::stdin(),
        std::io::stdout(),
        surveyor::this_machine,
        || end(4),
    );
    match served {
        // Threads may still be inside a library call; the process ends with what they hold.
        Ok(()) => end(0),
        Err(error) => Err(Failure::usage(Failure::chain(&error))),
    }
}

fn end(code: i32) -> ! {
    leave_if_hung(code);
    std::process::exit(code)
}
