//! The CUDA driver that is not there, and a stand-in for one that is.

use std::process::Command;
use std::time::Duration;

use super::cuda::Cuda;
use super::error::CudaError;
use super::facts::answer;
use super::memory::{GpuMemory, PinnedMemory};
use crate::model::{Bytes, CudaDriver, Fact, PciAddress};

const PATIENCE: Duration = Duration::from_secs(60);

/// The stand-in with something wrong with it, compiled anew: a library is opened once.
/// `None`, loudly, where there is no compiler.
fn compiled(wrong: &str) -> Option<(tempfile::TempDir, String)> {
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
    let file = library.to_str().unwrap().to_owned();
    Some((dir, file))
}

fn ask(file: &str) -> Fact<CudaDriver> {
    answer(file, Cuda::open(file, PATIENCE))
}

/// What the stand-in says.
fn stand_in(wrong: &str) -> Option<Fact<CudaDriver>> {
    compiled(wrong).map(|(_dir, file)| ask(&file))
}

/// The stand-in, started.
fn started(wrong: &str) -> Option<Cuda> {
    let (_dir, file) = compiled(wrong)?;
    Some(Cuda::open(&file, PATIENCE).unwrap())
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
    assert_eq!(gpu.name.value().unwrap(), "Stand-in GPU in host memory");
    assert_eq!(gpu.memory.value(), Some(&Bytes(1 << 30)));
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

#[test]
fn a_driver_that_never_starts_is_not_waited_for() {
    let Some((_dir, file)) = compiled("hang") else {
        return;
    };
    let fact = answer(&file, Cuda::open(&file, Duration::from_secs(1)));
    let why = fact.why_unknown().unwrap();
    assert!(
        why.starts_with("the CUDA driver did not answer cuInit within 1 s"),
        "{why}"
    );
}

#[test]
fn a_gpu_is_found_by_its_address() {
    let Some(cuda) = started("") else { return };
    let at = |address: &str| cuda.gpu_at(&PciAddress(address.to_owned()));
    assert!(at("0000:9a:00.0").unwrap().has_dma_buf().unwrap());
    let error = at("0000:0b:00.0").map(drop).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "the CUDA driver serves no GPU at 0000:0b:00.0, only 0000:9a:00.0, GPU 1, which"
        ),
        "{error}"
    );
}

#[test]
fn bytes_go_to_the_gpu_and_come_back_and_nothing_is_left() {
    let Some((_dir, file)) = compiled("") else {
        return;
    };
    let cuda = Cuda::open(&file, PATIENCE).unwrap();
    // SAFETY: the library of the test, whose functions these are.
    let asked = unsafe { libloading::Library::new(&file) }.unwrap();
    let ask = |name: &[u8]| {
        // SAFETY: as above; they take nothing and give an int.
        let function = unsafe { asked.get::<unsafe extern "C" fn() -> i32>(name) }.unwrap();
        // SAFETY: as above.
        unsafe { function() }
    };
    {
        let gpu = cuda.gpu(0).unwrap();
        let memory = GpuMemory::new(&gpu, 100_000).unwrap();
        assert_eq!(memory.len(), 131_072, "whole pages");
        assert_eq!(memory.address() % 65_536, 0);
        assert_eq!(ask(b"stand_in_synchronous"), 1);
        memory.copy_in(99_000, &[7; 1000]).unwrap();
        // From another thread, to which the context is not current yet.
        let copied = std::thread::spawn(move || {
            let mut bytes = [0; 1002];
            memory.copy_out(98_999, &mut bytes).unwrap();
            (memory, bytes)
        });
        let (memory, bytes) = copied.join().unwrap();
        assert_eq!(
            (bytes[0], bytes[1], bytes[1000], bytes[1001]),
            (0xee, 7, 7, 0xee)
        );
        let pinned = PinnedMemory::new(&gpu, 131_072).unwrap();
        let mut two = [9; 2];
        pinned.copy_out(98_999, &mut two).unwrap();
        assert_eq!(two, [0, 0]);
        pinned.pull(&memory, 98_999, 2).unwrap();
        pinned.copy_out(98_999, &mut two).unwrap();
        assert_eq!(two, [0xee, 7]);
        pinned.copy_in(0, &[5; 2]).unwrap();
        pinned.push(&memory, 0, 2).unwrap();
        memory.copy_out(0, &mut two).unwrap();
        assert_eq!(two, [5, 5]);
        assert!(pinned.push(&memory, 131_071, 2).is_err());
    }
    assert_eq!(ask(b"stand_in_left"), 0);
}

#[test]
fn nothing_beyond_the_memory_is_touched() {
    let Some(cuda) = started("") else { return };
    let gpu = cuda.gpu(0).unwrap();
    let memory = GpuMemory::new(&gpu, 65_536).unwrap();
    for offset in [65_535, 65_537, usize::MAX] {
        let error = memory.copy_in(offset, &[0; 2]).unwrap_err();
        assert!(matches!(error, CudaError::OutsideMemory { .. }), "{error}");
        let error = memory.copy_out(offset, &mut [0; 2]).unwrap_err();
        assert!(matches!(error, CudaError::OutsideMemory { .. }), "{error}");
    }
}

#[test]
fn a_dma_buf_is_a_descriptor_or_a_reason() {
    let (Some(with), Some(without)) = (started(""), started("nodmabuf")) else {
        return;
    };
    let export = |cuda: &Cuda| GpuMemory::new(&cuda.gpu(0).unwrap(), 1).unwrap().dma_buf();
    export(&with).unwrap();
    assert_eq!(
        export(&without).unwrap_err().to_string(),
        "the CUDA driver exports no dma-buf: cuMemGetHandleForAddressRange failed: CUDA_ERROR_NOT_SUPPORTED (801)"
    );
}

#[test]
fn memory_that_is_of_no_use_is_refused_with_the_reason() {
    for (wrong, words) in [
        ("full", "the GPU has no memory left"),
        ("managed", "managed memory"),
    ] {
        let Some(cuda) = started(wrong) else { return };
        let gpu = cuda.gpu(0).unwrap();
        let error = GpuMemory::new(&gpu, 1).map(drop).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
