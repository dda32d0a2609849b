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
    /// For each rail the seat on another socket, for the fault `far`.
    #[serde(default)]
    pub far: Vec<FarSeat>,
}

/// A seat that is there only where it is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FarSeat {
    /// The bridge to add, as in [`PcieTree::bridges`].
    pub bridge: String,
    /// The seat below it.
    pub seat: Seat,
}

/// Where one device sits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seat {
    /// The bus, by the id of the port above it; `pcie.0` for the root complex.
    pub bus: String,
    /// Files of the device's sysfs directory to cover, and what they then say: QEMU's own devices are all
    /// 2.5 GT/s x1 and none is a GPU. In one that has several lines they are separated by `\\n`.
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
            far: vec![],
        }
    }

    /// The lanes that the link of a rail's NIC is capable of; `None` where it has no link.
    pub fn lanes(&self, rail: usize) -> Option<u8> {
        self.rails.get(rail)?.covers.get(MAX_WIDTH)?.parse().ok()
    }

    /// A server with two sockets: the first half of the rails below the first, each NIC under a PCIe switch
    /// of its own that it shares with a GPU.
    pub fn two_socket(rails: usize) -> PcieTree {
        let mut tree = PcieTree {
            sockets: 2,
            bridges: vec![],
            rails: vec![],
            gpus: vec![],
            far: vec![],
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
            tree.rails.push(Seat {
                bus: format!("nic{rail}"),
                covers: link(),
            });
            tree.gpus.push(Seat {
                bus: format!("gpu{rail}"),
                covers: gpu(rail),
            });
        }
        // Below the switch of a GPU of the other socket, which a single rail leaves without one.
        if rails > 1 {
            let switch = |rail| if 2 * rail < rails { rails - 1 } else { 0 };
            tree.far = (0..rails)
                .map(|rail| far_seat(rail, switch(rail)))
                .collect();
        }
        tree
    }
}

/// A seat for this rail's NIC below the switch of another.
fn far_seat(rail: usize, switch: usize) -> FarSeat {
    FarSeat {
        bridge: format!(
            "xio3130-downstream,id=far{rail},bus=switch{switch},chassis={},slot={}",
            10 * (rail + 1) + 3,
            2 + rail
        ),
        seat: Seat {
            bus: format!("far{rail}"),
            covers: link(),
        },
    }
}

fn covers(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// The sysfs files of a link's width.
const MAX_WIDTH: &str = "max_link_width";
pub(crate) const WIDTH: &str = "current_link_width";

/// A PCIe 4.0 x16 device, trained to all of it.
fn link() -> BTreeMap<String, String> {
    covers(&[
        ("max_link_speed", "16.0 GT/s PCIe"),
        (MAX_WIDTH, "16"),
        ("current_link_speed", "16.0 GT/s PCIe"),
        (WIDTH, "16"),
    ])
}

/// What makes the stand-in look like a GPU: NVIDIA, H100 SXM5, class 3D controller, with a window of
/// 128 GiB onto its memory (BAR1).
fn gpu(number: usize) -> BTreeMap<String, String> {
    let mut gpu = covers(&[
        ("vendor", "0x10de"),
        ("device", "0x2330"),
        ("class", "0x030200"),
    ]);
    let (size, flags) = (128 << 30, 0x14_220c);
    let start = 0x3800_0000_0000 + size * number as u64;
    let registers = "0x00000000fd000000 0x00000000fdffffff 0x0000000000040200";
    let window = format!("{start:#018x} {:#018x} {flags:#018x}", start + size - 1);
    gpu.insert("resource".to_owned(), format!("{registers}\\n{window}"));
    gpu.extend(link());
    gpu
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
        assert_eq!(tree.rails[1].covers["current_link_width"], "16");
        // Elsewhere for a NIC in the wrong place.
        assert!(tree.far[0].bridge.contains("id=far0,bus=switch1"));
        assert!(tree.far[1].bridge.contains("id=far1,bus=switch0"));
        assert_eq!(
            (tree.lanes(1), PcieTree::flat(2).lanes(1)),
            (Some(16), None)
        );
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
