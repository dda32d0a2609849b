//! What the drivers of GPUs know: NVIDIA's from /proc and its libraries, AMD's from sysfs.

mod amd;
mod nvidia;

use super::{Survey, not_live};
use crate::model::{
    CudaDriver, Fact, GpuFacts, Nvml, PciFunction, PcieTree, VENDOR_AMD_GPU, VENDOR_NVIDIA,
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
        facts.nvidia = nvidia::driver(survey.root);
        facts.nvidia_gpus = nvidia::gpus(survey.root);
        facts.nvml = survey.nvml();
        facts.cuda = survey.cuda();
    }
    let amd: Vec<_> = of(VENDOR_AMD_GPU).collect();
    if !amd.is_empty() {
        facts.amd = amd::gpus(survey.root, &amd);
    }
    facts
}

fn is_of(gpu: &PciFunction, vendor: u16) -> bool {
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

    fn cuda(&self) -> Fact<CudaDriver> {
        match self.sources.cuda {
            _ if !self.root.is_live() => Fact::unknown(not_live("the CUDA driver is asked here")),
            Some(ask) => ask(),
            None => Fact::unknown("the CUDA driver was not asked for"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Bytes;
    use crate::survey::interfaces::Interfaces;
    use crate::survey::netlink::Kernel;
    use crate::survey::tree::Tree;
    use crate::survey::{Root, Sources, survey};

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
        let ask = || -> Fact<CudaDriver> { panic!("a snapshot has no driver to ask") };
        let sources = Sources {
            cuda: Some(&ask),
            ..Sources::default()
        };
        let none = survey(&tree.root(), &sources).gpu;
        assert_eq!(none, GpuFacts::default());

        gpu(&tree, "0000:00:05.0", "0x1002");
        let home = "sys/devices/pci0000:00/0000:00:05.0";
        tree.file(&format!("{home}/mem_info_vram_total"), "206141652992\n");
        tree.file(&format!("{home}/unique_id"), "a1b2c3d4e5f60718\n");
        let amd = survey(&tree.root(), &sources).gpu;
        let gpus = amd.amd.value().unwrap();
        assert_eq!(gpus[0].memory.value(), Some(&Bytes(206_141_652_992)));
        assert_eq!(gpus[0].unique_id.value().unwrap(), "a1b2c3d4e5f60718");
        assert_eq!(amd.nvidia, Fact::default());
        assert_eq!(amd.cuda, Fact::default());

        gpu(&tree, "0000:00:06.0", "0x10de");
        tree.dir("sys/module/amdgpu");
        let both = survey(&tree.root(), &sources).gpu;
        let why = both.nvidia.why_unknown().unwrap();
        assert!(why.contains("driver is not loaded"), "{why}");
        assert!(both.nvml.why_unknown().unwrap().contains("not the live"));
        assert!(both.cuda.why_unknown().unwrap().contains("not the live"));
    }

    #[test]
    fn the_cuda_driver_of_the_live_system_is_asked() {
        let root = Root::live();
        let version = Fact::known("12.4".to_owned(), "cuDriverGetVersion");
        let driver = CudaDriver {
            version,
            ..CudaDriver::default()
        };
        let ask = || Fact::known(driver.clone(), "libcuda.so.1");
        let asked = |sources: Sources<'_>| {
            let survey = Survey {
                root: &root,
                sources: &sources,
                interfaces: Interfaces::of(vec![]),
                kernel: Kernel::Running,
            };
            survey.cuda()
        };
        let cuda = Some(&ask as _);
        let answer = asked(Sources {
            cuda,
            ..Sources::default()
        });
        assert_eq!(answer.value(), Some(&driver));
        let none = asked(Sources::default());
        assert!(none.why_unknown().unwrap().contains("not asked for"));
    }
}
