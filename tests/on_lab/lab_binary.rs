//! The program `linerate-lab`, built from what is here: one from an earlier build would be another lab.

use std::path::PathBuf;
use std::process::Command;

use linerate_lab::BINARY_VARIABLE;

/// Builds it where `$LINERATE_LAB_BIN` names none, and says where it is.
///
/// # Errors
/// What cargo said.
pub fn built() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(BINARY_VARIABLE) {
        return Ok(path.into());
    }
    let linerate = PathBuf::from(env!("CARGO_BIN_EXE_linerate"));
    let path = linerate.with_file_name("linerate-lab");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args([
        "build",
        "--quiet",
        "-p",
        "linerate-lab",
        "--bin",
        "linerate-lab",
    ]);
    if linerate
        .parent()
        .is_some_and(|dir| dir.ends_with("release"))
    {
        cargo.arg("--release");
    }
    match cargo.status() {
        Ok(status) if status.success() && path.is_file() => Ok(path),
        Ok(status) => Err(format!("cargo build -p linerate-lab: {status}")),
        Err(_) if path.is_file() => Ok(path),
        Err(error) => Err(format!("cannot start cargo to build linerate-lab: {error}")),
    }
}
