//! The CUDA driver that is not there, and a stand-in for one that is.

use std::process::Command;

use super::cuda::ask;
use crate::model::{Bytes, CudaDriver, Fact};

/// Asks the stand-in with something wrong with it, compiled anew: a library is opened once.
/// `None`, loudly, where there is no compiler.
fn stand_in(wrong: &str) -> Option<Fact<CudaDriver>> {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("libcuda.so.1");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/cuda.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(format!("-DWRONG=\"{wrong}\""))
        .arg(source)
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "cc failed on {source}"),
        Err(error) => {
            eprintln!("SKIPPED: no C compiler: {error}");
            return None;
        }
    }
    Some(ask(library.to_str().unwrap()))
}

#[test]
fn gpus_are_listed_by_their_pci_address() {
    let Some(fact) = stand_in("") else {
        return;
    };
    assert!(fact.source().unwrap().ends_with("libcuda.so.1"));
    let found = fact.value().unwrap();
    assert_eq!(found.version.value().unwrap(), "12.4");
    assert_eq!(found.gpus.len(), 1);
    let gpu = &found.gpus[0];
    assert_eq!(gpu.address.0, "0000:9a:00.0");
    assert_eq!(gpu.name.value().unwrap(), "NVIDIA H100 80GB HBM3");
    assert_eq!(gpu.memory.value(), Some(&Bytes(80 << 30)));
    assert_eq!(gpu.gpudirect.value(), Some(&true));
    assert_eq!(gpu.dma_buf.value(), Some(&true));
    assert_eq!(
        gpu.dma_buf.source(),
        Some("CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED")
    );
    // The other does not answer: it is named, and not left out.
    assert_eq!(
        found.unread,
        ["GPU 1: cuDeviceGet failed: CUDA_ERROR_INVALID_DEVICE (101)"]
    );
}

#[test]
fn a_no_is_told_from_what_an_older_driver_does_not_know() {
    let (Some(no), Some(old)) = (stand_in("nodmabuf"), stand_in("old")) else {
        return;
    };
    let no = &no.value().unwrap().gpus[0];
    assert_eq!(no.dma_buf.value(), Some(&false));
    assert_eq!(no.gpudirect.value(), Some(&true));
    let old = &old.value().unwrap().gpus[0];
    assert_eq!(
        old.dma_buf.why_unknown().unwrap(),
        "cuDeviceGetAttribute: this driver does not know CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED"
    );
    assert_eq!(old.gpudirect.value(), Some(&true));
}

#[test]
fn a_driver_that_does_not_start_says_what_that_means() {
    for (wrong, words) in [
        (
            "stub",
            "libcuda.so.1: cuInit failed: CUDA_ERROR_STUB_LIBRARY (34): this is the toolkit's stub",
        ),
        (
            "mismatch",
            "(803): library and kernel driver are of different versions",
        ),
        ("nogpu", "(100): the driver serves no GPU"),
        ("nameless", "cuInit failed: an error without a name (12345)"),
    ] {
        let Some(fact) = stand_in(wrong) else {
            return;
        };
        let why = fact.why_unknown().unwrap();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn a_library_that_is_not_there_is_said_to_be_missing() {
    let fact = ask("libcuda-not-there.so.1");
    let why = fact.why_unknown().unwrap();
    assert!(
        why.starts_with("libcuda-not-there.so.1 is not installed ("),
        "{why}"
    );
    assert!(why.contains("cannot open shared object file"), "{why}");
}

#[test]
fn a_library_that_is_another_is_refused() {
    let fact = ask("libc.so.6");
    let why = fact.why_unknown().unwrap();
    assert!(why.starts_with("libc.so.6 has no cuInit: "), "{why}");
}

#[test]
fn names_without_end_are_cut() {
    let Some(fact) = stand_in("longname") else {
        return;
    };
    let gpu = &fact.value().unwrap().gpus[0];
    assert_eq!(gpu.name.value().unwrap().chars().count(), 96);
}
