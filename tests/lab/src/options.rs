//! What a lab can be asked to be, and what was settled before it starts.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::fault::{Fault, Harm, LinkFault, LinkHarm};
use crate::pcie::PcieTree;
use crate::rate::Rate;

/// Most nodes and rails of a lab: what one machine emulates, and what its addresses have room for.
pub const MAX_NODES: usize = 64;

/// Rate of a healthy link in bits per second, where none is asked for: low enough that links, not CPUs,
/// are the limit. Of four emulated nodes on two cores, both rails of two pairs loaded in both directions,
/// every link had 0.98 or more of this while the machine compiled something else. At twice the rate it was
/// 0.88 or more, at eight times even one pair takes both cores.
const DEFAULT_RATE: u64 = 8_000_000;
/// See [`MAX_NODES`].
pub const MAX_RAILS: usize = 8;

/// How the VMs' CPUs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// KVM if a kernel boots under it here, else emulation; the answer is remembered in the cache.
    Auto,
    /// KVM.
    Kvm,
    /// Emulation.
    Tcg,
}

/// A lab to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// VMs, named node01 and so on.
    pub nodes: usize,
    /// NICs with an RDMA device in each VM, each on a rail of its own.
    pub rails: usize,
    /// Rate of every link in each direction; `None` for as fast as the machine goes.
    pub rate: Option<Rate>,
    /// Faults from the start.
    pub faults: Vec<Fault>,
    /// `flat`, `two-socket` or a JSON file with a [`PcieTree`].
    pub pcie: String,
    /// State directory; what is in it belongs to the lab.
    pub dir: PathBuf,
    /// How CPUs run.
    pub accel: Accel,
    /// Memory of each VM in MiB.
    pub memory_mib: u32,
    /// Port of node01's sshd on 127.0.0.1, the next for node02 and so on, and those of the sshds with a
    /// 64 KiB memlock limit 100 above; 0 for free ones.
    pub base_port: u16,
    /// Ends the lab when the process that started it ends, however it ends.
    pub tether: bool,
}

/// The PCIe tree for a lab of which only the faults are known: the plainest that can have them.
pub fn tree_for(faults: &[Fault]) -> &'static str {
    let needs_more = |fault: &Fault| match fault.harm {
        Harm::Guest(harm) => harm.needs_server(),
        Harm::Link(_) | Harm::Machine(_) => false,
    };
    match faults.iter().any(needs_more) {
        true => "two-socket",
        false => "flat",
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            nodes: 3,
            rails: 2,
            rate: Rate::from_bits_per_second(DEFAULT_RATE),
            faults: vec![],
            pcie: "flat".into(),
            dir: default_dir(),
            accel: Accel::Auto,
            memory_mib: 512,
            base_port: 2201,
            tether: false,
        }
    }
}

fn home_dir(variable: &str, below_home: &str) -> PathBuf {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    absolute(variable)
        .unwrap_or_else(|| {
            absolute("HOME")
                .unwrap_or_else(|| "/var/tmp".into())
                .join(below_home)
        })
        .join("linerate-lab")
}

/// `$XDG_STATE_HOME/linerate-lab`.
pub fn default_dir() -> PathBuf {
    home_dir("XDG_STATE_HOME", ".local/state")
}

/// `$XDG_CACHE_HOME/linerate-lab`: kernel, busybox, initramfs, whether KVM works.
pub fn cache_dir() -> PathBuf {
    home_dir("XDG_CACHE_HOME", ".cache")
}

/// One VM as it will be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodePlan {
    /// node01 and so on.
    pub name: String,
    /// Port on 127.0.0.1 of its sshd with unlimited memlock.
    pub port: u16,
    /// Port on 127.0.0.1 of its sshd with a memlock limit of 64 KiB.
    pub memlock_port: u16,
    /// Its rails.
    pub rails: Vec<RailPlan>,
}

/// One NIC of a VM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RailPlan {
    /// Its RDMA device, `rxe0` for rail 0.
    pub device: String,
    /// Its interface, `eth1` for rail 0.
    pub netdev: String,
    /// Its address and prefix.
    pub address: String,
    /// Its Ethernet address.
    pub mac: String,
}

/// Everything that the supervisor needs, kept in the state directory as `plan.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// State directory, absolute.
    pub dir: PathBuf,
    /// The VMs.
    pub nodes: Vec<NodePlan>,
    /// Rate of every healthy link.
    pub rate: Option<Rate>,
    /// Faults from the start.
    pub faults: Vec<Fault>,
    /// Each VM's PCIe tree.
    pub pcie: PcieTree,
    /// `kvm` or `tcg`.
    pub accel: Accel,
    /// Memory of each VM in MiB.
    pub memory_mib: u32,
    /// Release of the guests' kernel.
    pub kernel: String,
    /// Its image.
    pub image: PathBuf,
    /// Its modules.
    pub modules: PathBuf,
    /// The guests' initramfs.
    pub initramfs: PathBuf,
}

/// The address of a node (from 1) on a rail (from 0): 10.100.0.1/24 for node01's first.
pub fn rail_address(rail: usize, node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 100 + rail as u8, 0, node as u8)
}

/// The Ethernet address of a node's NIC on a rail; 255 stands for the NIC that carries SSH.
pub fn mac(rail: u8, node: usize) -> String {
    format!("52:54:00:{rail:02x}:00:{node:02x}")
}

impl Options {
    /// Whether these options fit each other.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(LabError::Options(why));
        if !(1..=MAX_NODES).contains(&self.nodes) {
            return refuse(format!("{} nodes: write 1 to {MAX_NODES}", self.nodes));
        }
        if !(1..=MAX_RAILS).contains(&self.rails) {
            return refuse(format!("{} rails: write 1 to {MAX_RAILS}", self.rails));
        }
        if !(192..=65536).contains(&self.memory_mib) {
            return refuse(format!(
                "{} MiB of memory: write 192 to 65536",
                self.memory_mib
            ));
        }
        if self.base_port != 0 && !(1024..=65000).contains(&self.base_port) {
            return refuse(format!(
                "base port {}: write 1024 to 65000, or 0",
                self.base_port
            ));
        }
        if let Some(passing) = self.faults.iter().find(|fault| fault.lasts().is_some()) {
            return refuse(format!(
                "fault {passing} would end while the nodes boot: bring it into effect once they are up"
            ));
        }
        let tree = PcieTree::named(&self.pcie, self.rails)?;
        self.faults
            .iter()
            .try_for_each(|f| check_fault(f, self.nodes, self.rails, self.rate, &tree))
    }

    /// The VMs, with ports that are free now.
    ///
    /// # Errors
    /// When a port is taken.
    pub fn plan_nodes(&self) -> Result<Vec<NodePlan>> {
        let ports = self.ports()?;
        let node = |n: usize| NodePlan {
            name: node_name(n),
            port: ports[n - 1].0,
            memlock_port: ports[n - 1].1,
            rails: (0..self.rails).map(|rail| rail_plan(rail, n)).collect(),
        };
        Ok((1..=self.nodes).map(node).collect())
    }

    fn ports(&self) -> Result<Vec<(u16, u16)>> {
        let mut held = Vec::new();
        let mut hold = |port: u16| {
            let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
            let listener = TcpListener::bind(address).map_err(|e| {
                LabError::Options(format!(
                    "port {port} of 127.0.0.1: {e}; give another --base-port"
                ))
            })?;
            let port = listener.local_addr().map_or(port, |a| a.port());
            held.push(listener);
            Ok(port)
        };
        let base = |add: usize| {
            if self.base_port == 0 {
                0
            } else {
                self.base_port + add as u16
            }
        };
        (0..self.nodes)
            .map(|n| Ok((hold(base(n))?, hold(base(n + 100))?)))
            .collect()
    }
}

/// node01 for 1.
pub fn node_name(number: usize) -> String {
    format!("node{number:02}")
}

fn rail_plan(rail: usize, node: usize) -> RailPlan {
    RailPlan {
        device: format!("rxe{rail}"),
        netdev: format!("eth{}", rail + 1),
        address: format!("{}/24", rail_address(rail, node)),
        mac: mac(rail as u8, node),
    }
}

/// Whether such a lab can have this fault.
///
/// # Errors
/// What it names in vain.
pub fn check_fault(
    fault: &Fault,
    nodes: usize,
    rails: usize,
    rate: Option<Rate>,
    tree: &PcieTree,
) -> Result<()> {
    let refuse = |why: String| Err(LabError::Options(format!("fault {fault}: {why}")));
    if !(1..=nodes).any(|n| node_name(n) == fault.node) {
        return refuse(format!(
            "no node is called {}; the last is {}",
            fault.node,
            node_name(nodes)
        ));
    }
    if let Some(rail) = fault.rail().filter(|rail| *rail >= rails) {
        return refuse(format!("no rail {rail}; they are 0 to {}", rails - 1));
    }
    match fault.harm {
        Harm::Link(LinkFault {
            harm: LinkHarm::Half | LinkHarm::Transient(_),
            ..
        }) if rate.is_none() => {
            refuse("half of no rate: the lab runs without a rate; use rate:…".into())
        }
        Harm::Link(_) | Harm::Machine(_) => Ok(()),
        Harm::Guest(harm) => harm.check(tree).or_else(refuse),
    }
}

/// An absolute form of a path that may not exist yet.
///
/// # Errors
/// When the working directory is gone.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(LabError::file("cannot find", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faulty(fault: &str) -> Options {
        Options {
            faults: vec![fault.parse().unwrap()],
            ..Options::default()
        }
    }

    #[test]
    fn faults_must_name_links_of_the_lab() {
        faulty("half:node03:1:tx").check().unwrap();
        for (fault, why) in [
            ("half:node04:0:tx", "the last is node03"),
            ("half:node01:2:tx", "0 to 1"),
            ("mtu:node01:2:1500", "0 to 1"),
            ("far:node01:0", "--pcie two-socket"),
            ("shared:node04:16mbit", "the last is node03"),
            ("pause:node01:10s", "once they are up"),
            ("transient:node01:0:tx:2s", "once they are up"),
        ] {
            let error = faulty(fault).check().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let unshaped = Options {
            rate: None,
            ..faulty("half:node01:0:tx")
        };
        assert!(
            unshaped
                .check()
                .unwrap_err()
                .to_string()
                .contains("half of no rate")
        );
    }

    #[test]
    fn the_tree_follows_from_the_faults() {
        let tree = |text: &str| tree_for(&faulty(text).faults);
        assert_eq!(tree("mtu:node01:0:1500"), "flat");
        assert_eq!(tree("far:node01:0"), "two-socket");
        let options = Options {
            pcie: "two-socket".into(),
            ..faulty("far:node01:1")
        };
        options.check().unwrap();
    }

    #[test]
    fn sizes_are_bounded() {
        for options in [
            Options {
                nodes: 0,
                ..Options::default()
            },
            Options {
                nodes: 65,
                ..Options::default()
            },
            Options {
                rails: 9,
                ..Options::default()
            },
            Options {
                memory_mib: 64,
                ..Options::default()
            },
            Options {
                base_port: 22,
                ..Options::default()
            },
        ] {
            assert!(options.check().is_err(), "{options:?}");
        }
    }

    #[test]
    fn free_ports_differ_and_addresses_follow_rail_and_node() {
        let options = Options {
            base_port: 0,
            ..Options::default()
        };
        let nodes = options.plan_nodes().unwrap();
        let mut ports: Vec<_> = nodes
            .iter()
            .flat_map(|n| [n.port, n.memlock_port])
            .collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 6);
        assert_eq!(nodes[2].rails[1].address, "10.101.0.3/24");
        assert_eq!(nodes[2].rails[1].netdev, "eth2");
    }

    #[test]
    fn a_taken_port_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let options = Options {
            base_port: port,
            nodes: 1,
            ..Options::default()
        };
        let error = options.plan_nodes().unwrap_err().to_string();
        assert!(error.contains(&port.to_string()), "{error}");
    }
}
