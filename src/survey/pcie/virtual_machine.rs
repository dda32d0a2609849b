//! Whether a hypervisor is below the system.

use crate::model::Fact;
use crate::survey::root::Root;

/// As much of /proc/cpuinfo as holds the flags of the first processor.
const FIRST_PROCESSOR: usize = 16 << 10;

/// What firmware calls itself under a hypervisor, where the processor does not tell (aarch64).
const VIRTUAL_VENDORS: [&str; 5] = ["QEMU", "VMware", "Xen", "innotek", "OpenStack"];

/// Tells by the processor flag `hypervisor` (CPUID leaf 1, ECX bit 31, which processors leave zero
/// and hypervisors set), else by the names in DMI.
pub(super) fn is_virtual(root: &Root) -> Fact<bool> {
    let path = root.path("proc/cpuinfo");
    let why = match root.read_start(&path, FIRST_PROCESSOR) {
        Ok(bytes) => match flag(&String::from_utf8_lossy(&bytes)) {
            Some(found) => return Fact::known(found, path.display().to_string()),
            None => format!("{} shows no flags of the processor", path.display()),
        },
        Err(error) => error.to_string(),
    };
    by_firmware(root).unwrap_or_else(|| Fact::unknown(why))
}

fn flag(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Knows only what says that it is virtual: other names prove nothing.
fn by_firmware(root: &Root) -> Option<Fact<bool>> {
    let dmi = root.path("sys/class/dmi/id");
    let (vendor, product) = (dmi.join("sys_vendor"), dmi.join("product_name"));
    let of = |path| root.read(path).unwrap_or_default();
    let (name, model) = (of(&vendor), of(&product));
    let virtual_vendor = VIRTUAL_VENDORS.iter().any(|known| name.starts_with(known));
    let virtual_model = ["Virtual Machine", "KVM", "Google Compute Engine"].contains(&&*model);
    (virtual_vendor || virtual_model).then(|| {
        let from = if virtual_vendor { vendor } else { product };
        Fact::known(true, from.display().to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::tree::Tree;

    fn with(files: &[(&str, &str)]) -> Fact<bool> {
        let tree = Tree::new();
        for (path, text) in files {
            tree.file(path, text);
        }
        is_virtual(&tree.root())
    }

    #[test]
    fn the_processor_tells() {
        let cpuinfo = |flags: &str| format!("processor\t: 0\nflags\t\t: fpu {flags}\n\nprocessor");
        let of = |flags: &str| with(&[("proc/cpuinfo", &cpuinfo(flags))]);
        assert_eq!(of("vme hypervisor lahf_lm").value(), Some(&true));
        assert_eq!(of("vme hypervisorx").value(), Some(&false));
    }

    #[test]
    fn firmware_tells_where_the_processor_does_not() {
        let arm = ("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp\n");
        let of = |file, text| with(&[arm, (file, text)]);
        let vendor = "sys/class/dmi/id/sys_vendor";
        assert_eq!(of(vendor, "QEMU\n").value(), Some(&true));
        assert!(of(vendor, "Dell Inc.\n").why_unknown().is_some());
        let model = "sys/class/dmi/id/product_name";
        assert_eq!(of(model, "Virtual Machine\n").value(), Some(&true));
        assert!(with(&[]).why_unknown().is_some());
    }
}
