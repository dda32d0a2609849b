//! The node itself: its name, kernel, limits, processors, and what the agent may do.

mod access;
pub(super) mod cpu;
mod kernel;
mod kernel_log;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::utsname::{UtsName, uname};

use super::root::Root;
use super::{not_live, parse};
use crate::model::{Bytes, Fact, HostFacts, MemlockLimit};

/// Everything around the devices.
pub(super) fn facts(root: &Root) -> HostFacts {
    HostFacts {
        cpu: cpu::model(root),
        cpus_online: cpu::online(root),
        scaling: cpu::scaling(root),
        clock_source: cpu::clock_source(root),
        container: kernel::container(root),
        kernel_arguments: kernel::arguments(root),
        modules: kernel::modules(root),
        kernel_log: kernel_log::lines(root),
        user: access::user(root),
        memlock_exempt: access::memlock_exempt(root),
        verbs_access: access::verbs(root),
        rdma_cm: access::rdma_cm(root),
        cma_total: cpu::cma_total(root),
    }
}

/// The node's name for itself.
pub(super) fn hostname(root: &Root) -> Fact<String> {
    from_uname(root, "hostname", |name| name.nodename())
}

/// The kernel's release.
pub(super) fn kernel(root: &Root) -> Fact<String> {
    from_uname(root, "osrelease", |name| name.release())
}

/// The machine's architecture.
pub(super) fn arch(root: &Root) -> Fact<String> {
    from_uname(root, "arch", |name| name.machine())
}

/// A field of uname; for a snapshot the same from /proc/sys/kernel (`arch` since Linux 6.1).
fn from_uname(
    root: &Root,
    file: &str,
    field: impl FnOnce(&UtsName) -> &std::ffi::OsStr,
) -> Fact<String> {
    if !root.is_live() {
        let path = root.path("proc/sys/kernel").join(file);
        return match root.fact(&path, parse::word) {
            Fact::Unknown { why } => Fact::unknown(not_live(&why)),
            known => known,
        };
    }
    match uname().map(|name| parse::word(&field(&name).to_string_lossy())) {
        Ok(Ok(text)) => Fact::known(text, "uname"),
        Ok(Err(why)) => Fact::unknown(format!("uname: {why}")),
        Err(error) => Fact::unknown(format!("uname: {}", error.desc())),
    }
}

/// For how long the node is up: the first number of /proc/uptime, in seconds with a fraction.
pub(super) fn uptime_s(root: &Root) -> Fact<u64> {
    root.fact(&root.path("proc/uptime"), |text| {
        let whole = text.split(['.', ' ']).next().unwrap_or_default();
        whole.parse().map_err(|_| "not a number of seconds")
    })
}

/// How much memory this process may lock, and so register: the soft limit, which is what counts.
pub(super) fn memlock(root: &Root) -> Fact<MemlockLimit> {
    if !root.is_live() {
        return Fact::unknown(not_live("RLIMIT_MEMLOCK is a running process's"));
    }
    match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((soft, _)) if soft == RLIM_INFINITY => {
            Fact::known(MemlockLimit::Unlimited, "getrlimit(RLIMIT_MEMLOCK)")
        }
        Ok((soft, _)) => Fact::known(
            MemlockLimit::Bytes(Bytes(soft)),
            "getrlimit(RLIMIT_MEMLOCK)",
        ),
        Err(error) => Fact::unknown(format!("getrlimit(RLIMIT_MEMLOCK): {}", error.desc())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_system_names_itself() {
        let read = |path| std::fs::read_to_string(path).unwrap();
        let root = Root::live();
        let kernel = read("/proc/sys/kernel/osrelease");
        assert_eq!(super::kernel(&root).value().unwrap(), kernel.trim());
        let name = read("/proc/sys/kernel/hostname");
        assert_eq!(hostname(&root).value().unwrap(), name.trim());
        assert_eq!(arch(&root).value().unwrap(), std::env::consts::ARCH);
    }

    #[test]
    fn the_uptime_is_in_whole_seconds() {
        let tree = super::super::tree::Tree::new();
        tree.file("proc/uptime", "350735.47 234388.90\n");
        assert_eq!(uptime_s(&tree.root()).value(), Some(&350_735));
        tree.file("proc/uptime", "soon\n");
        let why = uptime_s(&tree.root());
        assert!(why.why_unknown().unwrap().contains("`soon`"));
        assert!(uptime_s(&Root::live()).value() > Some(&0));
    }

    #[test]
    fn memlock_is_the_soft_limit_that_the_kernel_shows() {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find(|l| l.starts_with("Max locked memory"));
        let soft = line.and_then(|l| l.split_whitespace().nth(3)).unwrap();
        let expected = match soft {
            "unlimited" => MemlockLimit::Unlimited,
            bytes => MemlockLimit::Bytes(Bytes(bytes.parse().unwrap())),
        };
        assert_eq!(memlock(&Root::live()).value(), Some(&expected));
    }
}
