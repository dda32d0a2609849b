//! Which kernel modules the guest loads, and in which order: the closure over `modules.dep`.

use std::collections::{HashMap, HashSet};

/// How much the lab needs a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Without it there is no lab.
    Must,
    /// Built in, or absent, in some kernels.
    May,
}

/// The modules of a guest, first those without which its root cannot be mounted. crc32 comes before
/// rdma_rxe, which asks for it by name at load time and not through `modules.dep`.
pub const WANTED: [(&str, Need); 19] = [
    ("virtio_pci", Need::Must),
    ("9pnet_virtio", Need::Must),
    ("9p", Need::Must),
    ("overlay", Need::Must),
    ("virtio_net", Need::Must),
    ("crc32_generic", Need::May),
    ("crc32_pclmul", Need::May),
    ("crc32c_generic", Need::May),
    ("crc32c_intel", Need::May),
    ("ib_uverbs", Need::Must),
    ("rdma_ucm", Need::Must),
    ("rdma_rxe", Need::Must),
    ("ib_umad", Need::May),
    ("sch_tbf", Need::May),
    ("sch_netem", Need::May),
    ("sch_ingress", Need::May),
    ("act_mirred", Need::May),
    ("cls_matchall", Need::May),
    ("ifb", Need::May),
];

/// `modules.dep` and `modules.builtin` of one kernel.
#[derive(Debug, Default)]
pub struct Modules {
    /// File and what must be loaded before it, by module name.
    loadable: HashMap<String, (String, Vec<String>)>,
    builtin: HashSet<String>,
}

/// One module to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// File below `lib/modules/RELEASE`.
    pub file: String,
    /// Whether the lab can be without it.
    pub need: Need,
}

/// `crc32_pclmul` for `kernel/arch/x86/crypto/crc32-pclmul.ko.xz`: the kernel takes `-` and `_` as one.
pub fn name_of(file: &str) -> String {
    let base = file.rsplit('/').next().unwrap_or(file);
    base.split(".ko").next().unwrap_or(base).replace('-', "_")
}

impl Modules {
    /// Reads the texts of `modules.dep` and `modules.builtin`.
    pub fn parse(dep: &str, builtin: &str) -> Modules {
        let mut modules = Modules::default();
        for line in dep.lines() {
            let Some((file, needs)) = line.split_once(':') else {
                continue;
            };
            let needs = needs.split_whitespace().map(str::to_owned).collect();
            modules
                .loadable
                .insert(name_of(file), (file.trim().to_owned(), needs));
        }
        modules.builtin = builtin.lines().map(name_of).collect();
        modules
    }

    /// What to load, each module once and after those that it needs.
    ///
    /// # Errors
    /// The names of modules that the lab must have and the kernel lacks.
    pub fn closure(&self, wanted: &[(&str, Need)]) -> Result<Vec<Load>, Vec<String>> {
        let mut order = Vec::new();
        let mut missing = Vec::new();
        for (name, need) in wanted {
            let known = self.loadable.contains_key(*name) || self.builtin.contains(*name);
            if !known && *need == Need::Must {
                missing.push((*name).to_owned());
            }
            self.visit(name, *need, &mut order, &mut HashSet::new());
        }
        if missing.is_empty() {
            Ok(order)
        } else {
            Err(missing)
        }
    }

    /// `open` holds the modules being visited, so that a circle in a damaged file ends.
    fn visit(&self, name: &str, need: Need, order: &mut Vec<Load>, open: &mut HashSet<String>) {
        let Some((file, needs)) = self.loadable.get(name) else {
            return;
        };
        if let Some(done) = order.iter_mut().find(|load| load.file == *file) {
            if need == Need::Must {
                done.need = Need::Must;
            }
            return;
        }
        if !open.insert(name.to_owned()) {
            return;
        }
        for other in needs {
            self.visit(&name_of(other), need, order, open);
        }
        order.push(Load {
            file: file.clone(),
            need,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "\
kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: kernel/ib/ib_uverbs.ko.xz kernel/ib/ib_core.ko.xz
kernel/ib/ib_uverbs.ko.xz: kernel/ib/ib_core.ko.xz
kernel/ib/ib_core.ko.xz:
kernel/arch/x86/crypto/crc32-pclmul.ko.xz:
kernel/a.ko: kernel/b.ko
kernel/b.ko: kernel/a.ko
";

    fn names(loads: &[Load]) -> Vec<String> {
        loads.iter().map(|load| name_of(&load.file)).collect()
    }

    #[test]
    fn what_is_needed_comes_first_and_once() {
        let modules = Modules::parse(DEP, "");
        let wanted = [
            ("crc32_pclmul", Need::May),
            ("rdma_rxe", Need::Must),
            ("ib_uverbs", Need::Must),
        ];
        let loads = modules.closure(&wanted).unwrap();
        assert_eq!(
            names(&loads),
            ["crc32_pclmul", "ib_core", "ib_uverbs", "rdma_rxe"]
        );
        assert_eq!(loads[0].need, Need::May);
        assert!(loads[1..].iter().all(|load| load.need == Need::Must));
    }

    #[test]
    fn a_module_wanted_by_both_kinds_is_needed() {
        let modules = Modules::parse("kernel/x.ko: kernel/y.ko\nkernel/y.ko:\n", "");
        let loads = modules
            .closure(&[("x", Need::May), ("y", Need::Must)])
            .unwrap();
        assert_eq!((loads[0].need, loads[1].need), (Need::Must, Need::May));
    }

    #[test]
    fn builtin_ones_need_no_file_and_missing_ones_are_named() {
        let modules = Modules::parse(DEP, "kernel/drivers/virtio/virtio-pci.ko\n");
        assert_eq!(modules.closure(&[("virtio_pci", Need::Must)]).unwrap(), []);
        assert_eq!(modules.closure(&[("siw", Need::May)]).unwrap(), []);
        let missing = modules
            .closure(&[("siw", Need::Must), ("9p", Need::Must)])
            .unwrap_err();
        assert_eq!(missing, ["siw", "9p"]);
    }

    #[test]
    fn a_circle_ends() {
        let loads = Modules::parse(DEP, "")
            .closure(&[("a", Need::Must)])
            .unwrap();
        assert_eq!(names(&loads), ["b", "a"]);
    }
}
