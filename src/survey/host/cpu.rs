//! Processors, their frequency, the clock, and the memory beside them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::model::{Bytes, Fact, FrequencyScaling};
use crate::survey::parse;
use crate::survey::root::Root;

/// As much of /proc/cpuinfo as holds the first processor.
const FIRST_PROCESSOR: usize = 16 << 10;
/// More governors than the kernel has.
const MAX_GOVERNORS: usize = 16;

/// The processor's `model name`; aarch64 has none.
pub(super) fn model(root: &Root) -> Fact<String> {
    let path = root.path("proc/cpuinfo");
    let bytes = match root.read_start(&path, FIRST_PROCESSOR) {
        Ok(bytes) => bytes,
        Err(error) => return Fact::unknown(error.to_string()),
    };
    let text = String::from_utf8_lossy(&bytes);
    let name = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then_some(value.trim())
    });
    match name.map(parse::word) {
        Some(Ok(name)) => Fact::known(name, path.display().to_string()),
        _ => Fact::unknown(format!("{} states no model name", path.display())),
    }
}

/// How many processors are online.
pub(super) fn online(root: &Root) -> Fact<u32> {
    root.fact(&root.path("sys/devices/system/cpu/online"), count)
}

/// The length of a list such as `0-31,64`, as the kernel's bitmaps print.
fn count(list: &str) -> Result<u32, &'static str> {
    const EXPECTED: &str = "not a list of processors such as `0-31,64`";
    let mut total = 0u32;
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (parse::whole(first), parse::whole(last));
        let (Ok(first), Ok(last)) = (first, last) else {
            return Err(EXPECTED);
        };
        let length = last.checked_sub(first).ok_or(EXPECTED)?;
        total = total.saturating_add(length).saturating_add(1);
    }
    Ok(total)
}

/// The governors of all processors, policy by policy.
pub(super) fn scaling(root: &Root) -> Fact<FrequencyScaling> {
    let dir = root.path("sys/devices/system/cpu/cpufreq");
    let policies: Vec<_> = match root.list(&dir) {
        Ok(names) => names
            .into_iter()
            .filter(|name| name.starts_with("policy"))
            .collect(),
        Err(error) => return Fact::unknown(error.to_string()),
    };
    let Some(first) = policies.first() else {
        return Fact::unknown(format!(
            "{} has no policy: the kernel scales no frequency",
            dir.display()
        ));
    };
    let mut scaling = FrequencyScaling {
        driver: root.fact(&dir.join(first).join("scaling_driver"), parse::word),
        governors: BTreeMap::new(),
        unread: 0,
    };
    for policy in policies.iter().map(|name| dir.join(name)) {
        let cpus = root.fact(&policy.join("affected_cpus"), |text| {
            Ok(text.split_whitespace().count())
        });
        let cpus = u32::try_from(cpus.value().copied().unwrap_or(1)).unwrap_or(u32::MAX);
        match root.fact(&policy.join("scaling_governor"), parse::word) {
            Fact::Known { value, .. } if scaling.governors.len() < MAX_GOVERNORS => {
                let total = scaling.governors.entry(value).or_default();
                *total = total.saturating_add(cpus);
            }
            _ => scaling.unread = scaling.unread.saturating_add(cpus),
        }
    }
    Fact::known(
        scaling,
        format!("{}/policy*/scaling_governor", dir.display()),
    )
}

/// What the kernel takes its time from.
pub(super) fn clock_source(root: &Root) -> Fact<String> {
    let clock = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    root.fact(&root.path(clock), parse::word)
}

/// The processors of the NUMA node that has this directory.
pub(in crate::survey) fn of_numa_node(root: &Root, home: &Path) -> Fact<String> {
    root.fact(&home.join("cpulist"), parse::word)
}

/// The memory of the NUMA node that has this directory.
pub(in crate::survey) fn memory_of_numa_node(root: &Root, home: &Path) -> Fact<Bytes> {
    root.fact(&home.join("meminfo"), |text| kilobytes(text, "MemTotal:"))
}

/// Memory that contiguous allocations may take. The kernel shows none where it has no such area.
pub(super) fn cma_total(root: &Root) -> Fact<Bytes> {
    root.fact(&root.path("proc/meminfo"), |text| {
        kilobytes(text, "CmaTotal:")
    })
}

/// The value in kB behind a key of a meminfo file.
fn kilobytes(text: &str, key: &str) -> Result<Bytes, &'static str> {
    const EXPECTED: &str = "it has no such line in kB";
    let line = text.lines().find_map(|line| line.split_once(key));
    let (_, value) = line.ok_or(EXPECTED)?;
    let number = value.trim().strip_suffix("kB").ok_or(EXPECTED)?;
    let number: u64 = number.trim().parse().map_err(|_| EXPECTED)?;
    number.checked_mul(1024).map(Bytes).ok_or(EXPECTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::tree::Tree;

    #[test]
    fn processors_are_counted_by_governor() {
        let tree = Tree::new();
        let policy = |n: u32, cpus: &str, governor: &str| {
            let home = format!("sys/devices/system/cpu/cpufreq/policy{n}");
            tree.file(&format!("{home}/affected_cpus"), cpus);
            tree.file(&format!("{home}/scaling_driver"), "acpi-cpufreq\n");
            tree.file(&format!("{home}/scaling_governor"), governor);
        };
        policy(0, "0 1\n", "powersave\n");
        policy(2, "2 3\n", "powersave\n");
        policy(4, "4\n", "performance\n");
        policy(5, "5\n", "\n");
        let found = scaling(&tree.root());
        let found = found.value().unwrap();
        assert_eq!(found.driver.value().unwrap(), "acpi-cpufreq");
        assert_eq!(found.governors["powersave"], 4);
        assert_eq!(found.governors["performance"], 1);
        assert_eq!(found.unread, 1);
        tree.dir("none/sys/devices/system/cpu/cpufreq");
        let none = scaling(&Root::at(tree.root().path("none")));
        assert!(none.why_unknown().unwrap().contains("scales no frequency"));
    }

    #[test]
    fn lists_are_counted() {
        assert_eq!(count("0-31,64,66-67"), Ok(35));
        assert_eq!(count("0"), Ok(1));
        for wrong in ["", "a", "3-1", "0-", "1,,2"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
        assert_eq!(count("0-4294967295,0-4294967295"), Ok(u32::MAX));
    }

    #[test]
    fn memory_is_beside_its_processors() {
        let tree = Tree::new();
        let node = "sys/devices/system/node/node1";
        tree.file(&format!("{node}/cpulist"), "32-63\n");
        tree.file(
            &format!("{node}/meminfo"),
            "\nNode 1 MemTotal:       1056759800 kB\nNode 1 MemFree: 1 kB\n",
        );
        tree.file("proc/meminfo", "MemTotal: 5 kB\nCmaTotal:       0 kB\n");
        let (root, home) = (tree.root(), tree.root().path(node));
        assert_eq!(of_numa_node(&root, &home).value().unwrap(), "32-63");
        let memory = memory_of_numa_node(&root, &home);
        assert_eq!(memory.value(), Some(&Bytes(1_056_759_800 << 10)));
        assert_eq!(cma_total(&tree.root()).value(), Some(&Bytes(0)));
    }

    #[test]
    fn the_processor_is_named_or_not() {
        let tree = Tree::new();
        tree.file(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: AMD EPYC 9654\n",
        );
        assert_eq!(model(&tree.root()).value().unwrap(), "AMD EPYC 9654");
        tree.file("proc/cpuinfo", "processor\t: 0\nCPU part\t: 0xd4f\n");
        assert!(model(&tree.root()).why_unknown().is_some());
    }
}
