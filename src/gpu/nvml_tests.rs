//! The Management Library that is not there, and a stand-in for one that is.

use std::process::Command;

use super::nvml::ask;
use crate::model::{Bytes, Nvml};

#[test]
fn a_library_that_is_not_there_is_said_to_be_missing() {
    let fact = ask("libnvidia-ml-not-there.so.1");
    let why = fact.why_unknown().unwrap();
    assert!(
        why.starts_with("libnvidia-ml-not-there.so.1 is not installed ("),
        "{why}"
    );
    assert!(why.contains("cannot open shared object file"), "{why}");
}

#[test]
fn a_library_that_is_another_is_refused() {
    assert!(ask("libc.so.6").why_unknown().is_some());
}

/// Compiles the stand-in; `None`, loudly, where there is no compiler.
fn stand_in() -> Option<Nvml> {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("libnvidia-ml.so.1");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/nvml.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "cc failed on {source}"),
        Err(error) => {
            eprintln!("SKIPPED: no C compiler: {error}");
            return None;
        }
    }
    let found = ask(library.to_str().unwrap());
    Some(found.value().unwrap_or_else(|| panic!("{found:?}")).clone())
}

#[test]
fn gpus_are_listed_by_their_pci_address() {
    let Some(found) = stand_in() else {
        return;
    };
    assert_eq!(found.driver.value().unwrap(), "550.54.15");
    assert_eq!(found.cuda.value().unwrap(), "12.4");
    assert_eq!(found.gpus.len(), 1);
    let gpu = &found.gpus[0];
    assert_eq!(gpu.address.0, "0000:9a:00.0");
    assert_eq!(gpu.name.value().unwrap(), "NVIDIA H100 80GB HBM3");
    assert_eq!(gpu.uuid.value().unwrap(), "GPU-0b1c");
    assert_eq!(gpu.memory.value(), Some(&Bytes(80 << 30)));
    assert_eq!(gpu.bar1.value(), Some(&Bytes(128 << 30)));
    assert_eq!(gpu.pcie_generation.value(), Some(&(1, 5)));
    assert_eq!(gpu.pcie_width.value(), Some(&(16, 16)));
    assert_eq!(gpu.busy_percent.value(), Some(&0));
    // The other does not answer: it is named, and not left out.
    assert_eq!(found.unread.len(), 1);
    assert!(found.unread[0].starts_with("GPU 1: "), "{:?}", found.unread);
}
