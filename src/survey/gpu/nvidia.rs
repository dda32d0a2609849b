//! NVIDIA's kernel driver, as /proc/driver/nvidia shows it.

use std::path::Path;

use super::MAX_GPUS;
use crate::model::{Fact, NvidiaDriver, NvidiaGpu, PciAddress};
use crate::survey::parse;
use crate::survey::root::Root;

/// The driver's version and kind.
pub(super) fn driver(root: &Root) -> Fact<NvidiaDriver> {
    let path = root.path("proc/driver/nvidia/version");
    match root.read(&path) {
        // A copy of /sys may have nothing of /proc.
        Err(error) if error.is_absent() && (root.is_live() || is_not_loaded(root)) => {
            Fact::unknown(format!(
                "{} does not exist: NVIDIA's kernel driver is not loaded",
                path.display()
            ))
        }
        _ => root.fact(&path, version),
    }
}

fn is_not_loaded(root: &Root) -> bool {
    let modules = root.path("sys/module");
    modules.is_dir() && !modules.join("nvidia").exists()
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Tue …`; the open modules are called
/// `NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build …`.
fn version(text: &str) -> Result<NvidiaDriver, &'static str> {
    const EXPECTED: &str = "not a line `NVRM version: NVIDIA UNIX … Kernel Module … 550.54.15`";
    let line = field(text, "NVRM version").ok_or(EXPECTED)?;
    let (_, after) = line.split_once("Kernel Module").ok_or(EXPECTED)?;
    let is_version = |word: &&str| {
        let digits = |c: char| c.is_ascii_digit() || c == '.';
        word.contains('.') && word.chars().all(digits) && word.len() < 32
    };
    let version = after.split_whitespace().find(is_version).ok_or(EXPECTED)?;
    Ok(NvidiaDriver {
        version: version.to_owned(),
        open: line.contains("Open Kernel Module"),
    })
}

/// The GPUs that the driver has taken.
pub(super) fn gpus(root: &Root) -> Fact<Vec<NvidiaGpu>> {
    let dir = root.path("proc/driver/nvidia/gpus");
    match root.list(&dir) {
        Ok(names) => {
            let addresses = names.iter().filter(|name| parse::is_pci_address(name));
            let gpus = addresses.take(MAX_GPUS).map(|name| gpu(root, &dir, name));
            Fact::known(gpus.collect(), dir.display().to_string())
        }
        Err(error) => Fact::unknown(error.to_string()),
    }
}

fn gpu(root: &Root, dir: &Path, address: &str) -> NvidiaGpu {
    let path = dir.join(address).join("information");
    let of = |key| {
        root.fact(&path, |text| {
            let value = field(text, key).ok_or("it has no such line")?;
            parse::word(value)
        })
    };
    NvidiaGpu {
        address: PciAddress(address.to_owned()),
        model: of("Model"),
        uuid: of("GPU UUID"),
    }
}

/// The value of a line `Key: value`.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == key).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::tree::Tree;

    #[test]
    fn open_modules_are_told_from_proprietary_ones() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  \
                    (dvs-builder@U16)  Fri Aug 16 21:42:42 UTC 2024\n\
                    GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)";
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 24 2024";
        let driver = version(open).unwrap();
        assert_eq!((&*driver.version, driver.open), ("560.35.03", true));
        let driver = version(closed).unwrap();
        assert_eq!((&*driver.version, driver.open), ("535.161.08", false));
        for torn in [
            "",
            "NVRM version:",
            "NVRM version: NVIDIA UNIX Kernel Module 5",
        ] {
            assert!(version(torn).is_err(), "{torn}");
        }
    }

    #[test]
    fn the_gpus_that_the_driver_has_are_listed() {
        let tree = Tree::new();
        let home = "proc/driver/nvidia/gpus/0000:9a:00.0";
        let information =
            "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 64\nGPU UUID: \t GPU-0b1c\n";
        tree.file(&format!("{home}/information"), information);
        tree.dir("proc/driver/nvidia/gpus/other");
        let found = gpus(&tree.root());
        let found = found.value().unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].address.0, "0000:9a:00.0");
        assert_eq!(found[0].model.value().unwrap(), "NVIDIA H100 80GB HBM3");
        assert_eq!(found[0].uuid.value().unwrap(), "GPU-0b1c");
        assert!(gpus(&Tree::new().root()).why_unknown().is_some());
    }
}
