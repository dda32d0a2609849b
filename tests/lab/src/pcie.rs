//! PCIe trees of the guests: where the rails' NICs and the stand-in GPUs sit, and what sysfs says of them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};

/// A guest's PCIe tree. Also what a file given to `--pcie` holds, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PcieTree {
    /// CPU sockets, each with one CPU and one NUMA node of the memory.
    pub sockets: u32,
    /// Bridges, root ports and switches, as QEMU's `-device` takes them, parents first.
    #[serde(default)]
    pub bridges: Vec<String>,
    /// One seat for each rail, in rail order.
    pub rails: Vec<Seat>,
    /// Seats of stand-in GPUs (QEMU's `edu` device), in PCI order.
    #[serde(default)]
    pub gpus: Vec<Seat>,
}

/// Where one device sits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seat {
    /// The bus, by the id of the port above it; `pcie.0` for the root complex.
    pub bus: String,
    /// Files of the device's sysfs directory to cover, and what they then say: QEMU's own devices are all
    /// 2.5 GT/s x1 and none is a GPU.
    #[serde(default)]
    pub covers: BTreeMap<String, String>,
}

impl PcieTree {
    /// The tree that `--pcie` names: `flat`, `two-socket`, or a JSON file.
    ///
    /// # Errors
    /// When the file cannot be read, is not such a tree, or has too few seats.
    pub fn named(name: &str, rails: usize) -> Result<PcieTree> {
        let tree = match name {
            "flat" => PcieTree::flat(rails),
            "two-socket" => PcieTree::two_socket(rails),
            file => PcieTree::read(Path::new(file))?,
        };
        if tree.rails.len() < rails {
            return Err(LabError::Options(format!(
                "the PCIe tree {name} has seats for {} rails, and the lab has {rails}",
                tree.rails.len()
            )));
        }
        if !(1..=8).contains(&tree.sockets) {
            return Err(LabError::Options(format!(
                "{} sockets: write 1 to 8",
                tree.sockets
            )));
        }
        Ok(tree)
    }

    fn read(path: &Path) -> Result<PcieTree> {
        let text = std::fs::read(path).map_err(LabError::file("cannot read", path))?;
        serde_json::from_slice(&text)
            .map_err(|e| LabError::Options(format!("{}: {e}", path.display())))
    }

    /// All NICs on the root complex, no GPU.
    pub fn flat(rails: usize) -> PcieTree {
        let seat = Seat {
            bus: "pcie.0".into(),
            ..Seat::default()
        };
        PcieTree {
            sockets: 1,
            bridges: vec![],
            rails: vec![seat; rails],
            gpus: vec![],
        }
    }

    /// A server with two sockets: the first half of the rails below the first, each NIC under a PCIe switch
    /// of its own that it shares with a GPU. The last NIC's link is trained to half its width.
    pub fn two_socket(rails: usize) -> PcieTree {
        let mut tree = PcieTree {
            sockets: 2,
            bridges: vec![],
            rails: vec![],
            gpus: vec![],
        };
        for socket in 0..2 {
            // Bus numbers far enough apart for four buses below each of eight rails.
            let first_bus = 32 + 96 * socket;
            tree.bridges.push(format!(
                "pxb-pcie,id=socket{socket},bus=pcie.0,bus_nr={first_bus},numa_node={socket}"
            ));
        }
        for rail in 0..rails {
            let socket = if 2 * rail < rails { 0 } else { 1 };
            let chassis = 10 * (rail + 1);
            tree.bridges.extend([
                format!(
                    "pcie-root-port,id=root{rail},bus=socket{socket},chassis={chassis},\
                     x-speed=16,x-width=16"
                ),
                format!("x3130-upstream,id=switch{rail},bus=root{rail}"),
                format!(
                    "xio3130-downstream,id=nic{rail},bus=switch{rail},chassis={},slot=0",
                    chassis + 1
                ),
                format!(
                    "xio3130-downstream,id=gpu{rail},bus=switch{rail},chassis={},slot=1",
                    chassis + 2
                ),
            ]);
            let width = if rail + 1 == rails { "8" } else { "16" };
            tree.rails.push(Seat {
                bus: format!("nic{rail}"),
                covers: link("16.0", width),
            });
            tree.gpus.push(Seat {
                bus: format!("gpu{rail}"),
                covers: gpu(),
            });
        }
        tree
    }
}

fn covers(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// A PCIe 4.0 x16 device at this speed and width.
fn link(speed: &str, width: &str) -> BTreeMap<String, String> {
    covers(&[
        ("max_link_speed", "16.0 GT/s PCIe"),
        ("max_link_width", "16"),
        ("current_link_speed", &format!("{speed} GT/s PCIe")),
        ("current_link_width", width),
    ])
}

/// What makes the stand-in look like a GPU: NVIDIA, H100 SXM5, class 3D controller.
fn gpu() -> BTreeMap<String, String> {
    covers(&[
        ("vendor", "0x10de"),
        ("device", "0x2330"),
        ("class", "0x030200"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rails_spread_over_both_sockets() {
        let tree = PcieTree::two_socket(2);
        assert!(
            tree.bridges
                .iter()
                .any(|b| b.contains("id=root0,bus=socket0"))
        );
        assert!(
            tree.bridges
                .iter()
                .any(|b| b.contains("id=root1,bus=socket1"))
        );
        assert_eq!(tree.rails[1].covers["current_link_width"], "8");
        assert_eq!(tree.rails[0].covers["current_link_width"], "16");
    }

    #[test]
    fn a_file_is_read_back_and_what_it_misspells_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tree.json");
        let tree = PcieTree::two_socket(2);
        std::fs::write(&file, serde_json::to_string(&tree).unwrap()).unwrap();
        assert_eq!(PcieTree::named(file.to_str().unwrap(), 2).unwrap(), tree);
        let few = PcieTree::named(file.to_str().unwrap(), 3)
            .unwrap_err()
            .to_string();
        assert!(few.contains("seats for 2 rails"), "{few}");
        std::fs::write(&file, r#"{"sockets": 1, "rails": [], "gpu": []}"#).unwrap();
        let error = PcieTree::named(file.to_str().unwrap(), 0)
            .unwrap_err()
            .to_string();
        assert!(error.contains("`gpu`"), "{error}");
    }
}
