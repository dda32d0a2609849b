//! AMD's GPUs, as amdgpu and its compute driver (kfd) show them in sysfs.

use super::MAX_GPUS;
use crate::model::{AmdGpu, Bytes, Fact, PciAddress};
use crate::survey::parse;
use crate::survey::root::Root;

/// The GPUs at these addresses.
pub(super) fn gpus(root: &Root, addresses: &[PciAddress]) -> Fact<Vec<AmdGpu>> {
    let devices = root.path("sys/bus/pci/devices");
    let compute = compute_nodes(root);
    let of = |address: &PciAddress| {
        let dir = devices.join(&address.0);
        AmdGpu {
            address: address.clone(),
            memory: root.fact(&dir.join("mem_info_vram_total"), bytes),
            unique_id: root.fact(&dir.join("unique_id"), parse::word),
            compute_nodes: count(&compute, address),
            target: target(&compute, address),
        }
    };
    let gpus = addresses.iter().take(MAX_GPUS).map(of).collect();
    Fact::known(gpus, devices.display().to_string())
}

fn bytes(text: &str) -> Result<Bytes, &'static str> {
    text.parse().map(Bytes).map_err(|_| "not a number of bytes")
}

/// A GPU, or a partition of one, as kfd numbers them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ComputeNode {
    domain: u32,
    bus: u32,
    device: u32,
    /// `90402` is gfx942.
    target: u32,
}

fn compute_nodes(root: &Root) -> Fact<Vec<ComputeNode>> {
    let dir = root.path("sys/class/kfd/kfd/topology/nodes");
    let names = match root.list(&dir) {
        Ok(names) => names,
        Err(error) => return Fact::unknown(error.to_string()),
    };
    let files = names.iter().map(|name| dir.join(name).join("properties"));
    let nodes = files.filter_map(|file| root.fact(&file, compute_node).value().cloned());
    Fact::known(nodes.flatten().collect(), dir.display().to_string())
}

/// Lines `key value`; processors are nodes, too, without any SIMD unit.
fn compute_node(text: &str) -> Result<Option<ComputeNode>, &'static str> {
    const EXPECTED: &str = "it lacks lines that kfd writes";
    let value = |key: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        parse::whole(line.ok_or(EXPECTED)?.trim()).map_err(|_| EXPECTED)
    };
    if value("simd_count")? == 0 {
        return Ok(None);
    }
    // Bus and device, then a number that tells partitions apart (kfd_topology.c).
    let location = value("location_id")?;
    Ok(Some(ComputeNode {
        domain: value("domain")?,
        bus: location >> 8,
        device: (location >> 3) & 0x1f,
        target: value("gfx_target_version")?,
    }))
}

/// The nodes that are a GPU, its partitions included.
fn of<'a>(nodes: &'a [ComputeNode], address: &PciAddress) -> Vec<&'a ComputeNode> {
    let is = |node: &&ComputeNode| {
        let place = format!("{:04x}:{:02x}:{:02x}.", node.domain, node.bus, node.device);
        address.0.starts_with(&place)
    };
    nodes.iter().filter(is).collect()
}

fn count(nodes: &Fact<Vec<ComputeNode>>, address: &PciAddress) -> Fact<u32> {
    nodes.clone().map(|nodes| {
        let count = of(&nodes, address).len();
        u32::try_from(count).unwrap_or(u32::MAX)
    })
}

/// `gfx942` of 90402: major, minor and stepping, the last two as hexadecimal digits (LLVM's names).
fn target(nodes: &Fact<Vec<ComputeNode>>, address: &PciAddress) -> Fact<String> {
    let (nodes, from) = match nodes {
        Fact::Known { value, from } => (value, from),
        Fact::Unknown { why } => return Fact::unknown(why),
    };
    match of(nodes, address).first() {
        Some(node) => {
            let (major, minor, step) = (
                node.target / 10_000,
                node.target / 100 % 100,
                node.target % 100,
            );
            Fact::known(format!("gfx{major}{minor:x}{step:x}"), from)
        }
        None => Fact::unknown(format!("{from} has no node of {address}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::tree::Tree;

    fn node(tree: &Tree, number: u32, simd: u32, location: u32) {
        let file = format!("sys/class/kfd/kfd/topology/nodes/{number}/properties");
        let text = format!(
            "cpu_cores_count 0\nsimd_count {simd}\nmax_waves_per_simd 8\ngfx_target_version 90402\n\
             location_id {location}\ndomain 0\n"
        );
        tree.file(&file, &text);
    }

    #[test]
    fn partitions_of_a_gpu_are_counted_and_its_target_named() {
        let tree = Tree::new();
        node(&tree, 0, 0, 0);
        for partition in 0..8 {
            node(&tree, 2 + partition, 152, 0x500 + partition);
        }
        node(&tree, 10, 152, 0x2600);
        tree.file(
            "sys/class/kfd/kfd/topology/nodes/11/properties",
            "simd_count x",
        );
        let addresses = ["0000:05:00.0", "0000:26:00.0", "0000:46:00.0"];
        let addresses = addresses.map(|at| PciAddress(at.into()));
        let found = gpus(&tree.root(), &addresses);
        let found = found.value().unwrap();
        let counts: Vec<_> = found
            .iter()
            .map(|gpu| *gpu.compute_nodes.value().unwrap())
            .collect();
        assert_eq!(counts, [8, 1, 0]);
        assert_eq!(found[0].target.value().unwrap(), "gfx942");
        assert!(found[2].target.why_unknown().unwrap().contains("0000:46"));
    }

    #[test]
    fn without_the_compute_driver_nothing_is_counted() {
        let tree = Tree::new();
        let found = gpus(&tree.root(), &[PciAddress("0000:05:00.0".into())]);
        let gpu = &found.value().unwrap()[0];
        assert!(gpu.compute_nodes.why_unknown().is_some());
        assert!(gpu.memory.why_unknown().is_some());
    }

    /// Nodes of other people's machines, where LINERATE_CORPUS names them.
    #[test]
    fn real_nodes_are_read() {
        let Some(corpus) = std::env::var_os("LINERATE_CORPUS") else {
            eprintln!("SKIPPED: LINERATE_CORPUS does not name a directory of captures");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let archive = std::path::Path::new(&corpus).join("sysfs/rocm_topo-mi300-cpx.tar.gz");
        let tar = std::process::Command::new("tar")
            .arg("-xf")
            .arg(archive)
            .arg("-C")
            .arg(dir.path())
            .status();
        assert!(tar.unwrap().success());
        let nodes = dir.path().join("testdata/topo-mi300-cpx/topology");
        let kfd = dir.path().join("sys/class/kfd/kfd");
        std::fs::create_dir_all(&kfd).unwrap();
        std::fs::rename(nodes, kfd.join("topology")).unwrap();
        let found = gpus(&Root::at(dir.path()), &[PciAddress("0000:27:00.0".into())]);
        let gpu = &found.value().unwrap()[0];
        assert_eq!(gpu.compute_nodes.value(), Some(&8));
        assert_eq!(gpu.target.value().unwrap(), "gfx942");
    }
}
