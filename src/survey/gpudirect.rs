//! Peer memory clients of the kernel, and the driver of GPUDirect Storage.

use std::path::Path;

use super::not_live;
use super::parse;
use super::root::Root;
use crate::model::{Fact, GpuDirectFacts, GpuDirectStorage, PeerClient};

/// Where ib_core of NVIDIA's and other vendors' drivers lists peer memory clients; the second and
/// third are those of older ones.
const MEMORY_PEERS: [&str; 3] = [
    "sys/kernel/mm/memory_peers",
    "sys/kernel/memory_peers",
    "sys/memory_peers",
];
/// More clients than there are makers of accelerators.
const MAX_CLIENTS: usize = 16;
/// How many lines of the storage driver's statistics are kept.
const MAX_STATS: usize = 12;

/// What the kernel has for direct access to the memory of GPUs.
pub(super) fn facts(root: &Root) -> GpuDirectFacts {
    GpuDirectFacts {
        peer_clients: peer_clients(root),
        storage: storage(root),
    }
}

fn peer_clients(root: &Root) -> Fact<Vec<PeerClient>> {
    for dir in MEMORY_PEERS.map(|dir| root.path(dir)) {
        match root.list(&dir) {
            Ok(names) => {
                let clients = names.iter().take(MAX_CLIENTS);
                let clients = clients.map(|name| client(root, &dir, name)).collect();
                return Fact::known(clients, dir.display().to_string());
            }
            Err(error) if error.is_absent() => {}
            Err(error) => return Fact::unknown(error.to_string()),
        }
    }
    let [usual, ..] = MEMORY_PEERS.map(|dir| root.path(dir));
    // What is not in a copy of a system may be in the system.
    match root.path("sys/kernel/mm").is_dir() || root.is_live() {
        true => Fact::known(Vec::new(), format!("{} does not exist", usual.display())),
        false => Fact::unknown(not_live("the copy has no /sys/kernel/mm")),
    }
}

fn client(root: &Root, dir: &Path, name: &str) -> PeerClient {
    PeerClient {
        name: name.to_owned(),
        version: root.fact(&dir.join(name).join("version"), parse::word),
    }
}

fn storage(root: &Root) -> Fact<Option<GpuDirectStorage>> {
    let module = root.path("sys/module/nvidia_fs");
    match root.list(&module) {
        Ok(_) => {
            let stats = root.path("proc/driver/nvidia-fs/stats");
            let storage = GpuDirectStorage {
                version: root.fact(&module.join("version"), parse::word),
                stats: root.fact(&stats, |text| {
                    let lines = text
                        .lines()
                        .filter_map(|line| parse::word(line.trim()).ok());
                    Ok(lines.take(MAX_STATS).collect())
                }),
            };
            Fact::known(Some(storage), module.display().to_string())
        }
        Err(error) if error.is_absent() && root.path("sys/module").is_dir() => {
            Fact::known(None, format!("{} does not exist", module.display()))
        }
        Err(error) => Fact::unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::tree::Tree;

    #[test]
    fn clients_are_listed_with_their_version() {
        let tree = Tree::new();
        tree.file("sys/kernel/mm/memory_peers/nv_mem/version", "550.54.15\n");
        tree.dir("sys/kernel/mm/memory_peers/nv_mem_nc");
        let facts = facts(&tree.root());
        let clients = facts.peer_clients.value().unwrap();
        assert_eq!(clients.len(), 2);
        assert_eq!(clients[0].version.value().unwrap(), "550.54.15");
        assert!(clients[1].version.why_unknown().is_some());
        assert_eq!(facts.client(&["amdkfd"]), None);
        assert_eq!(
            facts.client(&["amdkfd", "nv_mem_nc"]).unwrap().name,
            "nv_mem_nc"
        );
    }

    #[test]
    fn no_directory_is_no_client_and_no_copy_is_no_answer() {
        let tree = Tree::new();
        assert!(facts(&tree.root()).peer_clients.why_unknown().is_some());
        tree.dir("sys/kernel/mm");
        let clients = facts(&tree.root()).peer_clients;
        assert_eq!(clients.value(), Some(&vec![]));
        assert!(clients.source().unwrap().ends_with("does not exist"));
    }

    #[test]
    fn the_storage_driver_is_there_or_not_or_unknown() {
        let tree = Tree::new();
        assert!(facts(&tree.root()).storage.why_unknown().is_some());
        tree.dir("sys/module/nvidia");
        assert_eq!(facts(&tree.root()).storage.value(), Some(&None));
        tree.file("sys/module/nvidia_fs/version", "2.17.5\n");
        tree.file(
            "proc/driver/nvidia-fs/stats",
            &"GDS Version: 1.7.2.10\nNVFS statistics(ver: 4.0)\n".repeat(20),
        );
        let storage = facts(&tree.root())
            .storage
            .value()
            .cloned()
            .flatten()
            .unwrap();
        assert_eq!(storage.version.value().unwrap(), "2.17.5");
        assert_eq!(storage.stats.value().unwrap().len(), MAX_STATS);
    }
}
