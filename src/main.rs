//! Arguments → app → exit code, nothing else.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    linerate::app::run(linerate::cli::Cli::parse())
}
