//! What the drivers of GPUs know: NVIDIA's from /proc and its library, AMD's from sysfs.

use super::root::Root;
use super::{Survey, not_live, parse};
use crate::model::{
    AmdGpu, Bytes, Fact, GpuFacts, NvidiaDriver, Nvml, PciAddress, PcieTree, VENDOR_AMD_GPU,
    VENDOR_NVIDIA,
};

/// More GPUs than sit in a node.
const MAX_GPUS: usize = 64;

/// Asks only for the makers whose GPUs are in the tree.
pub(super) fn facts(survey: &Survey<'_>, tree: Option<&PcieTree>) -> GpuFacts {
    let mut facts = GpuFacts::default();
    let Some(tree) = tree else {
        return facts;
    };
    let of = |vendor: u16| {
        let mine = move |gpu: &&_| is_of(gpu, vendor);
        tree.gpus().filter(mine).map(|gpu| gpu.address.clone())
    };
    if of(VENDOR_NVIDIA).next().is_some() {
        facts.nvidia = nvidia(survey.root);
        facts.nvml = survey.nvml();
    }
    let amd: Vec<_> = of(VENDOR_AMD_GPU).take(MAX_GPUS).collect();
    if !amd.is_empty() {
        let devices = survey.root.path("sys/bus/pci/devices");
        let gpus = amd.iter().map(|address| amd_gpu(survey.root, address));
        facts.amd = Fact::known(gpus.collect(), devices.display().to_string());
    }
    facts
}

fn is_of(gpu: &crate::model::PciFunction, vendor: u16) -> bool {
    gpu.vendor.value() == Some(&vendor)
}

impl Survey<'_> {
    fn nvml(&self) -> Fact<Nvml> {
        match self.sources.nvml {
            _ if !self.root.is_live() => {
                Fact::unknown(not_live("the NVIDIA Management Library is asked here"))
            }
            Some(ask) => ask(),
            None => Fact::unknown("the NVIDIA Management Library was not asked for"),
        }
    }
}

fn nvidia(root: &Root) -> Fact<NvidiaDriver> {
    let path = root.path("proc/driver/nvidia/version");
    match root.read(&path) {
        // A copy of /sys may have nothing of /proc.
        Err(error) if error.is_absent() && (root.is_live() || is_not_loaded(root)) => {
            Fact::unknown(format!(
                "{} does not exist: NVIDIA's kernel driver is not loaded",
                path.display()
            ))
        }
        _ => root.fact(&path, nvidia_version),
    }
}

fn is_not_loaded(root: &Root) -> bool {
    let modules = root.path("sys/module");
    modules.is_dir() && !modules.join("nvidia").exists()
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Tue …`; the open modules are called
/// `NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build …`.
fn nvidia_version(text: &str) -> Result<NvidiaDriver, &'static str> {
    const EXPECTED: &str = "not a line `NVRM version: NVIDIA UNIX … Kernel Module … 550.54.15`";
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("NVRM version:"));
    let line = line.ok_or(EXPECTED)?;
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

fn amd_gpu(root: &Root, address: &PciAddress) -> AmdGpu {
    let dir = root.path("sys/bus/pci/devices").join(&address.0);
    AmdGpu {
        address: address.clone(),
        memory: root.fact(&dir.join("mem_info_vram_total"), bytes),
        unique_id: root.fact(&dir.join("unique_id"), parse::word),
    }
}

fn bytes(text: &str) -> Result<Bytes, &'static str> {
    text.parse().map(Bytes).map_err(|_| "not a number of bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::tree::Tree;
    use crate::survey::{Sources, survey};

    #[test]
    fn open_modules_are_told_from_proprietary_ones() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  \
                    (dvs-builder@U16)  Fri Aug 16 21:42:42 UTC 2024\n\
                    GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)";
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 24 2024";
        let driver = nvidia_version(open).unwrap();
        assert_eq!((&*driver.version, driver.open), ("560.35.03", true));
        assert_eq!(driver.major(), Some(560));
        let driver = nvidia_version(closed).unwrap();
        assert_eq!((&*driver.version, driver.open), ("535.161.08", false));
        for torn in [
            "",
            "NVRM version:",
            "NVRM version: NVIDIA UNIX Kernel Module 5",
        ] {
            assert!(nvidia_version(torn).is_err(), "{torn}");
        }
    }

    /// A GPU right on the root bus.
    fn gpu(tree: &Tree, address: &str, vendor: &str) {
        let home = format!("sys/devices/pci0000:00/{address}");
        for (name, text) in [
            ("vendor", vendor),
            ("class", "0x030200"),
            ("device", "0x2330"),
        ] {
            tree.file(&format!("{home}/{name}"), text);
        }
        tree.link(&format!("sys/bus/pci/devices/{address}"), &home);
    }

    #[test]
    fn drivers_are_asked_about_the_gpus_that_are_there() {
        let tree = Tree::new();
        tree.dir("sys/bus/pci/devices");
        let none = survey(&tree.root(), &Sources::default()).gpu;
        assert_eq!(none, GpuFacts::default());

        gpu(&tree, "0000:00:05.0", "0x1002");
        let home = "sys/devices/pci0000:00/0000:00:05.0";
        tree.file(&format!("{home}/mem_info_vram_total"), "206141652992\n");
        tree.file(&format!("{home}/unique_id"), "a1b2c3d4e5f60718\n");
        let amd = survey(&tree.root(), &Sources::default()).gpu;
        let gpus = amd.amd.value().unwrap();
        assert_eq!(gpus[0].memory.value(), Some(&Bytes(206_141_652_992)));
        assert_eq!(gpus[0].unique_id.value().unwrap(), "a1b2c3d4e5f60718");
        assert_eq!(amd.nvidia, Fact::default());

        gpu(&tree, "0000:00:06.0", "0x10de");
        tree.dir("sys/module/amdgpu");
        let both = survey(&tree.root(), &Sources::default()).gpu;
        let why = both.nvidia.why_unknown().unwrap();
        assert!(why.contains("driver is not loaded"), "{why}");
        assert!(both.nvml.why_unknown().unwrap().contains("not the live"));
    }
}
