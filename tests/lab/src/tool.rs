//! Runs the programs of the distribution that the lab uses, with errors that name them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::error::{LabError, Result};

/// Directories that a login without root often lacks in its PATH.
const MORE_PATH: &str = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin";

/// A command of the distribution: C locale, nothing on its stdin, administration directories in its PATH.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(find(program).unwrap_or_else(|| program.into()));
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .env("PATH", format!("{path}:{MORE_PATH}"))
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    command
}

/// Where a program is, also if its directory is one for administrators.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    std::env::split_paths(&format!("{path}:{MORE_PATH}"))
        .map(|dir| dir.join(program))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use nix::unistd::{AccessFlags, access};
    file.is_file() && access(file, AccessFlags::X_OK).is_ok()
}

/// Runs to the end and gives what it printed on standard output.
///
/// # Errors
/// When it cannot be started or fails, with the end of its error output.
pub fn output(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done: Output = command
        .output()
        .map_err(|source| LabError::Start { program, source })?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    let words = command.get_args().map(|a| a.to_string_lossy().into_owned());
    let name = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let line: Vec<_> = std::iter::once(name.to_string_lossy().into_owned())
        .chain(words)
        .collect();
    Err(LabError::Program {
        command: line.join(" "),
        status: done.status.to_string(),
        output: tail(&String::from_utf8_lossy(&done.stderr), 6),
    })
}

/// The last lines of a text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
