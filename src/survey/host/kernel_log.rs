//! The lines of the kernel's log that rules know, from /dev/kmsg.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::OFlag;
use nix::libc;

use crate::model::{Fact, KernelLogKind, KernelLogLine};
use crate::survey::not_live;
use crate::survey::root::Root;

/// The file; a read gives one record, and a reader that will not wait gets EAGAIN at the end.
const KMSG: &str = "/dev/kmsg";
/// The longest record (CONSOLE_EXT_LOG_MAX in kernel/printk).
const MAX_RECORD: usize = 8192;
/// More records than the largest log buffers hold.
const MAX_RECORDS: usize = 1 << 18;
/// How many lines of each kind are kept: the newest.
const MAX_OF_A_KIND: usize = 16;
/// How much of a line is kept, in characters.
const MAX_LINE: usize = 256;

/// What the log holds of interest, oldest first.
pub(super) fn lines(root: &Root) -> Fact<Vec<KernelLogLine>> {
    if !root.is_live() {
        return Fact::unknown(not_live("the kernel's log is read from /dev/kmsg"));
    }
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(KMSG);
    match opened.and_then(|mut file| read(|buffer| file.read(buffer))) {
        Ok(lines) => Fact::known(lines, KMSG),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Fact::unknown(format!(
            "{KMSG}: {error}: reading the kernel's log needs root here"
        )),
        Err(error) => Fact::unknown(format!("{KMSG}: {error}")),
    }
}

/// Reads records until there are no more.
fn read(mut next: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<Vec<KernelLogLine>> {
    let mut kept = Vec::new();
    let mut buffer = [0; MAX_RECORD];
    for _ in 0..MAX_RECORDS {
        match next(&mut buffer) {
            Ok(0) => break,
            Ok(length) => keep(&mut kept, &String::from_utf8_lossy(&buffer[..length])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The record was overwritten meanwhile; the next read is at the oldest that is left.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
            // A record longer than any: the kernel has gone on to the next.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(kept)
}

/// Keeps the text of a record (`level,number,time,flags;text`) that a rule knows.
fn keep(kept: &mut Vec<KernelLogLine>, record: &str) {
    let text = record.split_once(';').map_or(record, |(_, text)| text);
    let text: String = text
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(MAX_LINE)
        .collect();
    let Some(kind) = kind(&text) else {
        return;
    };
    let line = KernelLogLine { kind, text };
    // Said again, it is the newest.
    kept.retain(|known| *known != line);
    let same: Vec<usize> = (0..kept.len()).filter(|i| kept[*i].kind == kind).collect();
    if same.len() >= MAX_OF_A_KIND {
        kept.remove(same[0]);
    }
    kept.push(line);
}

/// What a line is to the rules; `None` for all others.
fn kind(text: &str) -> Option<KernelLogKind> {
    let has = |part: &str| text.contains(part);
    let symbol = has("ib_register_peer_memory_client") || has("ib_unregister_peer_memory_client");
    if symbol && (has("disagrees about version of symbol") || has("Unknown symbol")) {
        return Some(KernelLogKind::PeerSymbolMismatch);
    }
    if has("available PCIe bandwidth, limited by") {
        return Some(KernelLogKind::PcieLimited);
    }
    if has("NVRM: Xid") {
        return Some(KernelLogKind::Xid);
    }
    if has("mlx5_core") && has("Port module event") {
        return Some(KernelLogKind::PortModule);
    }
    let peermem = has("nvidia-peermem") || has("nvidia_peermem") || has("nv_peer_mem");
    let error = has("ERROR") || has("error") || has("failed");
    // A process that ended with memory registered: the clean-up finds nothing left to do.
    (peermem && error && !has("detected invalid context")).then_some(KernelLogKind::PeermemError)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(records: &[&str]) -> Vec<KernelLogLine> {
        let mut records = records.iter();
        read(|buffer| match records.next() {
            Some(record) => {
                buffer[..record.len()].copy_from_slice(record.as_bytes());
                Ok(record.len())
            }
            None => Err(io::ErrorKind::WouldBlock.into()),
        })
        .unwrap()
    }

    #[test]
    fn known_lines_are_kept_and_others_are_not() {
        use KernelLogKind::{PcieLimited, PeerSymbolMismatch, PeermemError, PortModule, Xid};
        let limited = "6,2,1,-;mlx5_core 0000:98:00.0: 252.048 Gb/s available PCIe bandwidth, limited by \
                       32.0 GT/s PCIe x8 link at 0000:97:01.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)\
                       \n SUBSYSTEM=pci\n";
        let found = of(&[
            "6,1,1,-;Linux version 6.8.0\n",
            limited,
            "4,3,1,-;nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n",
            "4,4,1,-;NVRM: Xid (PCI:0000:9a:00): 79, pid=1, GPU has fallen off the bus.\n",
            "6,5,1,-;mlx5_core 0000:98:00.0: Port module event: module 0, Cable unplugged\n",
            "3,6,1,-;nvidia-peermem nv_mem_client_init:447 ERROR NULL, registration failed\n",
            "3,7,1,-;nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping\n",
        ]);
        let kinds: Vec<_> = found.iter().map(|line| line.kind).collect();
        assert_eq!(
            kinds,
            [
                PcieLimited,
                PeerSymbolMismatch,
                Xid,
                PortModule,
                PeermemError
            ]
        );
        assert!(found[0].text.starts_with("mlx5_core 0000:98:00.0: 252.048"));
        assert!(found[0].text.ends_with("x16 link)"), "{}", found[0].text);
    }

    /// Lines of other people's machines, where LINERATE_CORPUS names them.
    #[test]
    fn lines_of_real_logs_are_known_and_harmless_ones_are_not() {
        let Some(corpus) = std::env::var_os("LINERATE_CORPUS") else {
            eprintln!("SKIPPED: LINERATE_CORPUS does not name a directory of captures");
            return;
        };
        let tools = std::path::Path::new(&corpus).join("ibtools");
        let kinds = |name: &str| -> Vec<_> {
            let text = std::fs::read_to_string(tools.join(name)).unwrap();
            text.lines().map(kind).collect()
        };
        let limited = kinds("kernel_pcie_limited_variants.txt");
        assert!(limited.len() >= 5);
        assert!(
            limited
                .iter()
                .all(|k| *k == Some(KernelLogKind::PcieLimited))
        );
        let one = kinds("mlx5_core_dmesg_pcie_limited.txt");
        assert_eq!(one.iter().flatten().count(), 1);
        assert_eq!(kinds("gpud_kmsg_peermem.txt").iter().flatten().count(), 0);
    }

    #[test]
    fn a_log_full_of_one_thing_keeps_its_newest() {
        let records: Vec<_> = (0..40)
            .map(|n| format!("4,{n},1,-;NVRM: Xid (PCI:0000:9a:00): {n}\n"))
            .collect();
        let mut records: Vec<_> = records.iter().map(String::as_str).collect();
        records.push(
            "3,1,1,-;nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\n",
        );
        records.push(records[39]);
        let found = of(&records);
        assert_eq!(found.len(), MAX_OF_A_KIND + 1);
        assert!(found.last().unwrap().text.ends_with(": 39"));
        assert_eq!(
            found[MAX_OF_A_KIND - 1].kind,
            KernelLogKind::PeerSymbolMismatch
        );
    }

    #[test]
    fn a_log_that_may_not_be_read_is_unknown_and_never_empty() {
        let refused = read(|_| Err(io::ErrorKind::PermissionDenied.into()));
        assert!(refused.is_err());
        let known = lines(&Root::live());
        assert!(known.value().is_some() || known.why_unknown().unwrap().starts_with(KMSG));
        assert!(lines(&Root::at("/no/such")).why_unknown().is_some());
    }
}
