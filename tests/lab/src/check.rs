//! What the lab needs of this machine, what is missing, and which package brings it.

use std::path::Path;

use crate::accel;
use crate::tool;

/// One thing that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The program or library.
    pub what: &'static str,
    /// What the lab does with it.
    pub why: &'static str,
    /// Debian's and Ubuntu's package that brings it.
    pub package: &'static str,
}

const PROGRAMS: [(&str, &str, &str); 16] = [
    (crate::qemu::QEMU, "runs the VMs", "qemu-system-x86"),
    ("setpriv", "ends the VMs with the lab", "util-linux"),
    ("apt-get", "fetches the guests' kernel", "apt"),
    ("dpkg-deb", "unpacks the guests' kernel", "dpkg"),
    ("depmod", "orders the guests' modules", "kmod"),
    ("xz", "unpacks modules", "xz-utils"),
    ("zstd", "unpacks modules", "zstd"),
    ("sshd", "serves SSH in the guests", "openssh-server"),
    ("ssh", "reaches the guests", "openssh-client"),
    ("ssh-keygen", "makes the lab's keys", "openssh-client"),
    ("bash", "is the login shell in the guests", "bash"),
    ("ip", "sets the guests' network up", "iproute2"),
    ("rdma", "makes the guests' RDMA devices", "iproute2"),
    ("grep", "runs in the guests' boot", "grep"),
    (
        "ib_write_bw",
        "is what linerate is compared with",
        "perftest",
    ),
    ("lspci", "shows the guests' PCIe trees", "pciutils"),
];

/// Libraries, by the start of a file name in one of the loader's directories.
const LIBRARIES: [(&str, &str, &str); 2] = [
    (
        "libibverbs.so.1",
        "is the guests' verbs library",
        "libibverbs1",
    ),
    (
        "libibverbs/librxe",
        "drives the guests' RDMA devices",
        "ibverbs-providers",
    ),
];

const LIBRARY_DIRS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];

/// Everything that is missing.
pub fn missing() -> Vec<Missing> {
    let programs = PROGRAMS
        .iter()
        .filter(|(what, ..)| tool::find(what).is_none());
    let libraries = LIBRARIES.iter().filter(|(what, ..)| !has_library(what));
    programs
        .chain(libraries)
        .map(|(what, why, package)| Missing { what, why, package })
        .collect()
}

fn has_library(start: &str) -> bool {
    LIBRARY_DIRS.iter().any(|dir| {
        let path = Path::new(dir).join(start);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return false;
        };
        let name = name.to_string_lossy();
        std::fs::read_dir(parent).is_ok_and(|mut files| {
            files.any(|f| f.is_ok_and(|f| f.file_name().to_string_lossy().starts_with(&*name)))
        })
    })
}

/// The packages that bring what is missing, each once.
pub fn packages(missing: &[Missing]) -> Vec<&'static str> {
    let mut packages: Vec<_> = missing.iter().map(|m| m.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// One line for each thing missing, and the command that installs them all.
pub fn explain(missing: &[Missing]) -> String {
    let mut text = String::new();
    for Missing { what, why, package } in missing {
        text.push_str(&format!(
            "missing: {what} ({why}), from the package {package}\n"
        ));
    }
    let packages = packages(missing).join(" ");
    text.push_str(&format!(
        "install with: sudo apt-get install -y --no-install-recommends {packages}"
    ));
    text
}

/// What this machine's processors offer the lab, in one line.
pub fn accel_note() -> &'static str {
    if accel::kvm_opens() {
        "/dev/kvm opens: it is tried at the next start and used if a kernel boots under it"
    } else if Path::new("/dev/kvm").exists() {
        "/dev/kvm exists but this user may not open it (group kvm): the VMs are emulated, more slowly"
    } else {
        "no /dev/kvm: the VMs are emulated, more slowly"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_named_once() {
        let lost = |what, package| Missing {
            what,
            why: "does a thing",
            package,
        };
        let missing = [
            lost("ip", "iproute2"),
            lost("rdma", "iproute2"),
            lost("xz", "xz-utils"),
        ];
        assert_eq!(packages(&missing), ["iproute2", "xz-utils"]);
        let text = explain(&missing);
        assert!(text.contains("missing: rdma (does a thing), from the package iproute2"));
        assert!(text.ends_with("iproute2 xz-utils"));
    }

    #[test]
    fn what_is_nowhere_is_not_found() {
        assert!(!has_library("libibverbs/libnowhere"));
        assert!(tool::find("linerate-no-such-program").is_none());
        assert!(tool::find("sh").is_some());
    }
}
