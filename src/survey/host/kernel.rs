//! What the kernel was started with, which modules it has, and whether a container is around the agent.

use crate::model::{Fact, KernelModule};
use crate::survey::parse;
use crate::survey::root::Root;

/// The modules that RDMA and GPUs rest on.
const MODULES: [&str; 22] = [
    "amdgpu",
    "bnxt_re",
    "efa",
    "gdrdrv",
    "ib_core",
    "ib_peer_mem",
    "ib_uverbs",
    "irdma",
    "mana_ib",
    "mlx4_ib",
    "mlx5_core",
    "mlx5_ib",
    "mlx_compat",
    "nouveau",
    "nv_peer_mem",
    "nvidia",
    "nvidia_fs",
    "nvidia_peermem",
    "nvidia_uvm",
    "rdma_cm",
    "rdma_rxe",
    "siw",
];

/// Those of them that are loaded, in the order of their names.
pub(super) fn modules(root: &Root) -> Fact<Vec<KernelModule>> {
    let dir = root.path("sys/module");
    let names = match root.list(&dir) {
        Ok(names) => names,
        Err(error) => return Fact::unknown(error.to_string()),
    };
    let mut found = Vec::new();
    for name in names.iter().filter(|name| MODULES.contains(&name.as_str())) {
        let home = dir.join(name);
        // Built into the kernel, it has no state; one on its way in or out is not there.
        if !matches!(root.read(&home.join("initstate")), Ok(state) if state != "live") {
            let version = home.join("version");
            found.push(KernelModule {
                name: name.clone(),
                version: match root.read(&version) {
                    Err(error) if error.is_absent() => Fact::unknown(format!(
                        "{} does not exist: it states none",
                        version.display()
                    )),
                    _ => root.fact(&version, parse::word),
                },
            });
        }
    }
    Fact::known(found, dir.display().to_string())
}

/// What the arguments begin with that bear on PCIe, the IOMMU and pinned memory. The others are
/// nobody's business: some carry secrets.
const ARGUMENTS: [&str; 11] = [
    "iommu",
    "intel_iommu",
    "amd_iommu",
    "arm-smmu",
    "pci=",
    "pci_",
    "pcie_",
    "cma=",
    "hugepages",
    "hugepagesz",
    "default_hugepagesz",
];
/// More of these than anyone gives.
const MAX_ARGUMENTS: usize = 32;

/// The kernel's arguments that matter.
pub(super) fn arguments(root: &Root) -> Fact<Vec<String>> {
    root.fact(&root.path("proc/cmdline"), |text| {
        let matters = |word: &&str| ARGUMENTS.iter().any(|start| word.starts_with(start));
        let words = text.split_whitespace().filter(matters);
        let words = words.filter_map(|word| parse::word(word).ok());
        Ok(words.take(MAX_ARGUMENTS).collect())
    })
}

/// Files that container engines leave, and the engine.
const MARKS: [(&str, &str); 3] = [
    ("run/.containerenv", "podman"),
    (".dockerenv", "docker"),
    ("var/run/secrets/kubernetes.io", "kubernetes"),
];
/// Words in the control group of the first process, and the engine.
const GROUPS: [(&str, &str); 6] = [
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("lxc", "lxc"),
    ("containerd", "containerd"),
    ("machine.slice/systemd-nspawn", "systemd-nspawn"),
];

/// The container that the agent runs in, by the marks that engines leave.
pub(super) fn container(root: &Root) -> Fact<Option<String>> {
    let told = root.path("run/systemd/container");
    if let Fact::Known { value, from } = root.fact(&told, parse::word) {
        return Fact::known(Some(value), from);
    }
    let groups = root.path("proc/1/cgroup");
    let text = root.read(&groups).unwrap_or_default();
    let group = GROUPS.iter().find(|(word, _)| text.contains(word));
    // The image of a container that was started as a machine has its marks, and kernel threads.
    let machine = root
        .read(&root.path("proc/2/comm"))
        .is_ok_and(|name| name == "kthreadd");
    let engine_is = |engine: &str| engine == "kubernetes" || !machine;
    let mut marks = MARKS.iter().filter(|(_, engine)| engine_is(engine));
    let mark = marks.find(|(mark, _)| root.path(mark).exists());
    match (group, mark) {
        (Some((_, engine)), _) => {
            Fact::known(Some((*engine).to_owned()), groups.display().to_string())
        }
        (None, Some((mark, engine))) => Fact::known(
            Some((*engine).to_owned()),
            root.path(mark).display().to_string(),
        ),
        // A copy of /sys and /proc has no such files.
        (None, None) if !root.is_live() => Fact::unknown(crate::survey::not_live(
            "the marks of container engines are files that a copy may lack",
        )),
        (None, None) => Fact::known(None, "no container engine left its mark"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::tree::Tree;

    #[test]
    fn loaded_modules_have_a_version_or_none() {
        let tree = Tree::new();
        tree.file("sys/module/nvidia_peermem/initstate", "live\n");
        tree.file("sys/module/nvidia_peermem/version", "550.54.15\n");
        tree.dir("sys/module/ib_core");
        tree.file("sys/module/nv_peer_mem/initstate", "going\n");
        tree.dir("sys/module/usbcore");
        let found = modules(&tree.root());
        let found = found.value().unwrap();
        let names: Vec<_> = found.iter().map(|module| &*module.name).collect();
        assert_eq!(names, ["ib_core", "nvidia_peermem"]);
        assert_eq!(found[1].version.value().unwrap(), "550.54.15");
        assert!(found[0].version.why_unknown().unwrap().contains("none"));
        assert!(modules(&Tree::new().root()).why_unknown().is_some());
    }

    #[test]
    fn of_the_kernels_arguments_only_those_that_matter_are_told() {
        let tree = Tree::new();
        tree.file(
            "proc/cmdline",
            "BOOT_IMAGE=/vmlinuz root=UUID=1 password=x iommu=pt intel_iommu=on pci=realloc quiet\n",
        );
        assert_eq!(
            arguments(&tree.root()).value().unwrap(),
            &["iommu=pt", "intel_iommu=on", "pci=realloc"]
        );
    }

    #[test]
    fn containers_leave_marks() {
        let of = |files: &[(&str, &str)]| {
            let tree = Tree::new();
            for (path, text) in files {
                tree.file(path, text);
            }
            container(&tree.root()).value().cloned().flatten()
        };
        let pod = ("proc/1/cgroup", "0::/kubepods.slice/pod1\n");
        assert_eq!(
            of(&[pod, (".dockerenv", "")]).as_deref(),
            Some("kubernetes")
        );
        assert_eq!(of(&[(".dockerenv", "")]).as_deref(), Some("docker"));
        assert_eq!(
            of(&[("run/systemd/container", "lxc\n")]).as_deref(),
            Some("lxc")
        );
        assert_eq!(of(&[("proc/1/cgroup", "0::/init.scope\n")]), None);
        // A container's image that runs as a virtual machine, and a pod with the host's processes.
        let kernel_thread = ("proc/2/comm", "kthreadd\n");
        assert_eq!(of(&[(".dockerenv", ""), kernel_thread]), None);
        let pod = ("var/run/secrets/kubernetes.io/serviceaccount/token", "x");
        assert_eq!(of(&[pod, kernel_thread]).as_deref(), Some("kubernetes"));
    }
}
