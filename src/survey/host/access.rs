//! What the agent may do: open RDMA devices, lock memory.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use crate::model::{Access, Fact, VerbsNode};
use crate::survey::root::Root;
use crate::survey::{not_live, parse};

/// The effective user.
pub(super) fn user(root: &Root) -> Fact<u32> {
    match root.is_live() {
        true => Fact::known(geteuid().as_raw(), "geteuid"),
        false => Fact::unknown(not_live("a copy has no user")),
    }
}

/// The number of CAP_IPC_LOCK (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;

/// Whether the kernel lets this process lock memory beyond its limit. It asks for the capability in
/// the first user namespace: that of a rootless container does not count.
pub(super) fn memlock_exempt(root: &Root) -> Fact<bool> {
    if !root.is_live() {
        return Fact::unknown(not_live("capabilities are a running process's"));
    }
    let status = root.fact(&root.path("proc/self/status"), |text| {
        capability(text, CAP_IPC_LOCK)
    });
    if status.value() != Some(&true) {
        return status;
    }
    root.fact(&root.path("proc/self/uid_map"), |text| Ok(is_first(text)))
}

/// Whether a capability is among the effective ones of a /proc/PID/status.
fn capability(status: &str, number: u32) -> Result<bool, &'static str> {
    const EXPECTED: &str = "it has no line CapEff with hexadecimal digits";
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let digits = line.ok_or(EXPECTED)?.trim();
    let set = u64::from_str_radix(digits, 16).map_err(|_| EXPECTED)?;
    Ok(set >> number & 1 == 1)
}

/// Whether a uid_map is that of the first user namespace: everyone is who they are.
fn is_first(uid_map: &str) -> bool {
    let words: Vec<_> = uid_map.split_whitespace().collect();
    words == ["0", "0", "4294967295"]
}

/// Each RDMA device's character device, and whether it opens.
pub(super) fn verbs(root: &Root) -> Fact<Vec<VerbsNode>> {
    if !root.is_live() {
        return Fact::unknown(not_live("only a running system's devices can be opened"));
    }
    let class = root.path("sys/class/infiniband_verbs");
    let names = match root.list(&class) {
        Ok(names) => names,
        Err(error) if error.is_absent() => {
            let from = format!(
                "{} does not exist: ib_uverbs is not loaded",
                class.display()
            );
            return Fact::known(Vec::new(), from);
        }
        Err(error) => return Fact::unknown(error.to_string()),
    };
    let node = |name: &String| {
        let device = root.fact(&class.join(name).join("ibdev"), parse::word);
        let path = root.path("dev/infiniband").join(name);
        Some(VerbsNode {
            device: device.value()?.clone(),
            path: path.display().to_string(),
            access: open(&path),
        })
    };
    let nodes = names.iter().filter(|name| name.starts_with("uverbs"));
    Fact::known(
        nodes.filter_map(node).collect(),
        class.display().to_string(),
    )
}

/// Whether the connection manager's device opens.
pub(super) fn rdma_cm(root: &Root) -> Fact<Access> {
    if !root.is_live() {
        return Fact::unknown(not_live("only a running system's devices can be opened"));
    }
    let path = root.path("dev/infiniband/rdma_cm");
    Fact::known(open(&path), path.display().to_string())
}

/// Opens as libibverbs does, and closes.
fn open(path: &Path) -> Access {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path);
    match opened {
        Ok(_) => Access::Usable,
        Err(error) => match error.kind() {
            ErrorKind::NotFound => Access::Absent,
            ErrorKind::PermissionDenied => Access::Denied,
            _ => Access::Fails(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_capability_is_a_bit() {
        let status = |set: &str| format!("Name:\tx\nCapPrm:\t0\nCapEff:\t{set}\n");
        assert_eq!(capability(&status("000001ffffffffff"), 14), Ok(true));
        assert_eq!(capability(&status("0000000000004000"), 14), Ok(true));
        assert_eq!(capability(&status("000001ffffffbfff"), 14), Ok(false));
        assert!(capability("Name:\tx\n", 14).is_err());
        assert!(capability(&status("x"), 14).is_err());
    }

    #[test]
    fn root_of_a_user_namespace_is_not_exempt() {
        assert!(is_first("         0          0 4294967295\n"));
        assert!(!is_first("         0       1000          1\n"));
        assert!(!is_first("0 0 1\n1 100000 65536\n"));
    }

    #[test]
    fn what_opens_is_usable_and_what_is_not_there_is_absent() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("uverbs0");
        assert_eq!(open(&file), Access::Absent);
        std::fs::write(&file, "").unwrap();
        assert_eq!(open(&file), Access::Usable);
        std::fs::set_permissions(&file, Permissions::from_mode(0o400)).unwrap();
        // Root opens it nevertheless.
        let expected = if geteuid().is_root() {
            Access::Usable
        } else {
            Access::Denied
        };
        assert_eq!(open(&file), expected);
        assert!(matches!(open(dir.path()), Access::Fails(_)));
    }

    #[test]
    fn a_copy_of_a_system_is_not_asked() {
        let root = Root::at("/no/such");
        assert!(user(&root).why_unknown().unwrap().contains("not the live"));
        assert!(memlock_exempt(&root).why_unknown().is_some());
        assert!(verbs(&root).why_unknown().is_some());
        assert!(rdma_cm(&root).why_unknown().is_some());
        assert!(memlock_exempt(&Root::live()).value().is_some());
    }
}
