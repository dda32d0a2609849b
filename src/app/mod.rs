//! The only place that knows everybody: one short file for each mode, and what they share.

mod accept;
mod agent;
mod carriers;
mod compare;
mod config;
mod cost;
mod dashboard;
mod demo;
mod explain;
mod failure;
mod gpu_check;
mod history;
mod inspect;
mod live;
mod nccl_log;
mod output;
mod progress;
mod replay;
mod report;
mod reports;
mod resume;
mod retention;
mod runs;
mod start;
mod surveyor;
mod sweep;
mod topo;
mod watch;
mod watching;

use std::process::ExitCode;

use crate::cli::{Cli, Command, ConfigCommand};
use crate::gpu::leave_if_hung;

/// Does what was asked for. The exit code is part of the interface: 0 all at line rate, 1 faults
/// found, 2 bad usage or configuration, 3 could not judge.
pub fn run(cli: Cli) -> ExitCode {
    let done = match cli.command {
        Command::Sweep(arguments) => live::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Accept(arguments) => accept::run(&arguments),
        Command::Cost(arguments) => cost::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::History(arguments) => history::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Inspect(arguments) => match &arguments.topo {
            Some(path) => topo::run(path, &arguments),
            None => inspect::run(&arguments),
        },
        Command::Watch(arguments) => match watching::is_wanted(&arguments) {
            true => watching::run(&arguments),
            false => watch::run(&arguments),
        },
        Command::GpuCheck(arguments) => gpu_check::run(&arguments),
        Command::NcclLog(arguments) => nccl_log::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Config {
            command: ConfigCommand::Check { file },
        } => config::check(&file),
        Command::Config {
            command: ConfigCommand::ShowDefault,
        } => config::show_default(),
        Command::Agent => agent::run(),
    };
    let code = match done {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("linerate: {failure}");
            failure.code()
        }
    };
    // Everything is written by now.
    leave_if_hung(code.into());
    ExitCode::from(code)
}
