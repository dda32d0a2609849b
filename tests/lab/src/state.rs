//! The state directory: keys, what each guest reads, and what linerate and its tests read.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{LabError, Result};
use crate::fault::{Fault, in_guest};
use crate::guest::GuestHarm;
use crate::options::{NodePlan, Plan, mac};
use crate::pcie::WIDTH;
use crate::qemu::seat;
use crate::tool;

const BOOT: &str = include_str!("../guest/boot");
const SSHD_CONFIG: &str = include_str!("../guest/sshd_config");

/// Kinds of host keys that each node has, as `ssh-keygen -t` names them.
pub const HOST_KEYS: [&str; 3] = ["ed25519", "ecdsa", "rsa"];

/// The files of a state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// The state directory at this absolute path.
    pub fn new(path: impl Into<PathBuf>) -> StateDir {
        StateDir(path.into())
    }

    /// Itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Cluster file for linerate.
    pub fn cluster_toml(&self) -> PathBuf {
        self.0.join("cluster.toml")
    }

    /// Host keys of all nodes.
    pub fn known_hosts(&self) -> PathBuf {
        self.0.join("known_hosts")
    }

    /// Private key that opens all nodes.
    pub fn identity(&self) -> PathBuf {
        self.0.join("id_ed25519")
    }

    /// What the lab is, for programs.
    pub fn lab_json(&self) -> PathBuf {
        self.0.join("lab.json")
    }

    /// What the supervisor is to run.
    pub fn plan_json(&self) -> PathBuf {
        self.0.join("plan.json")
    }

    /// Locked while a supervisor lives.
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// The supervisor's socket.
    pub fn control(&self) -> PathBuf {
        self.0.join("control")
    }

    /// What the supervisor printed.
    pub fn supervisor_log(&self) -> PathBuf {
        self.0.join("supervisor.log")
    }

    /// Console of a node.
    pub fn console(&self, node: &str) -> PathBuf {
        self.0.join(node).join("console.log")
    }

    /// What QEMU printed for a node.
    pub fn qemu_log(&self, node: &str) -> PathBuf {
        self.0.join(node).join("qemu.log")
    }

    /// What a node reads as `/.lab`.
    pub fn share(&self, node: &str) -> PathBuf {
        self.0.join(node).join("share")
    }
}

fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    fs::write(path, text).map_err(LabError::file("cannot write", path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(LabError::file("cannot set the mode of", path))
}

/// Makes a directory for its owner alone.
///
/// # Errors
/// When it cannot be made.
pub fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(LabError::file("cannot make", path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
        .map_err(LabError::file("cannot set the mode of", path))
}

/// Makes the keys (those of an earlier lab in this directory are kept) and writes every file.
///
/// # Errors
/// When `ssh-keygen` fails or a file cannot be written.
pub fn prepare(plan: &Plan) -> Result<()> {
    let dir = StateDir::new(&plan.dir);
    make_key(&dir.identity(), "ed25519", "linerate-lab")?;
    let authorized = read(&dir.identity().with_extension("pub"))?;
    let mut known_hosts = String::new();
    let hosts = hosts(plan);
    for (index, node) in plan.nodes.iter().enumerate() {
        let share = dir.share(&node.name);
        make_dir(&share)?;
        for kind in HOST_KEYS {
            let key = share.join(format!("ssh_host_{kind}_key"));
            make_key(&key, kind, &node.name)?;
            known_hosts.push_str(&known_host_lines(node, &read(&key.with_extension("pub"))?));
        }
        write(&share.join("boot"), BOOT, 0o755)?;
        write(&share.join("sshd_config"), SSHD_CONFIG, 0o644)?;
        write(&share.join("authorized_keys"), &authorized, 0o644)?;
        write(&share.join("hosts"), &hosts, 0o644)?;
        write_settings(plan, index, &plan.faults)?;
    }
    write(&dir.known_hosts(), &known_hosts, 0o644)?;
    write(&dir.cluster_toml(), &cluster_toml(plan), 0o644)?;
    let json = serde_json::to_string_pretty(plan)
        .map_err(|e| LabError::Supervisor(format!("plan.json: {e}")))?;
    write(&dir.plan_json(), &json, 0o644)
}

/// Writes what a node (counting from 0) reads at its next boot: who it is, and its faults.
///
/// # Errors
/// When a file cannot be written.
pub fn write_settings(plan: &Plan, index: usize, faults: &[Fault]) -> Result<()> {
    let node = &plan.nodes[index];
    let share = StateDir::new(&plan.dir).share(&node.name);
    let mut settings = settings(node, index + 1);
    for setting in in_guest(faults, &node.name).filter_map(GuestHarm::setting) {
        settings.push_str(&format!("{setting}\n"));
    }
    write(&share.join("settings"), &settings, 0o644)?;
    write(&share.join("covers"), &covers(plan, node, faults), 0o644)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(LabError::file("cannot read", path))
}

fn make_key(path: &Path, kind: &str, comment: &str) -> Result<()> {
    if path.exists() && path.with_extension("pub").exists() {
        return Ok(());
    }
    // 2048 bits are enough for a key that opens a lab on loopback, and are made in no time.
    let bits = if kind == "rsa" {
        vec!["-b", "2048"]
    } else {
        vec![]
    };
    let mut keygen = tool::command("ssh-keygen");
    keygen
        .args(["-q", "-N", "", "-t", kind, "-C", comment])
        .args(bits)
        .arg("-f")
        .arg(path);
    // ssh-keygen asks before it replaces half of a pair.
    for old in [path.to_owned(), path.with_extension("pub")] {
        let _ = fs::remove_file(old);
    }
    tool::output(&mut keygen).map(|_| ())
}

fn known_host_lines(node: &NodePlan, public_key: &str) -> String {
    let key: Vec<&str> = public_key.split_whitespace().take(2).collect();
    let key = key.join(" ");
    format!(
        "[127.0.0.1]:{} {key}\n[127.0.0.1]:{} {key}\n",
        node.port, node.memlock_port
    )
}

/// `/etc/hosts` lines: each node's name on each rail.
fn hosts(plan: &Plan) -> String {
    let mut text = String::new();
    for node in &plan.nodes {
        for (rail, nic) in node.rails.iter().enumerate() {
            let address = nic.address.split('/').next().unwrap_or_default();
            text.push_str(&format!("{address} {}-rail{rail}\n", node.name));
        }
    }
    text
}

/// Shell assignments for `guest/boot`; nothing in them needs quoting.
fn settings(node: &NodePlan, number: usize) -> String {
    let mut text = format!(
        "LAB_NAME={}\nLAB_MAC={}\nLAB_RAILS={}\n",
        node.name,
        mac(0xff, number),
        node.rails.len()
    );
    for (rail, nic) in node.rails.iter().enumerate() {
        text.push_str(&format!("LAB_RAIL{rail}_MAC={}\n", nic.mac));
        text.push_str(&format!("LAB_RAIL{rail}_ADDR={}\n", nic.address));
    }
    text
}

/// A line for each file of a guest's sysfs that says something else than QEMU makes it say.
fn covers(plan: &Plan, node: &NodePlan, faults: &[Fault]) -> String {
    let nic = |rail: usize| {
        let mut covers = seat(plan, &node.name, faults, rail).covers.clone();
        for harm in in_guest(faults, &node.name) {
            if let GuestHarm::Narrow { rail: of, lanes } = harm
                && of == rail
            {
                covers.insert(WIDTH.to_owned(), lanes.to_string());
            }
        }
        (format!("rail{rail}"), covers)
    };
    let gpus = plan.pcie.gpus.iter().enumerate();
    let gpus = gpus.map(|(n, seat)| (format!("gpu{n}"), seat.covers.clone()));
    let lines = |(slot, covers): (String, BTreeMap<String, String>)| -> String {
        let line = |(name, value)| format!("{slot} {name} {value}\n");
        covers.iter().map(line).collect()
    };
    (0..node.rails.len())
        .map(nic)
        .chain(gpus)
        .map(lines)
        .collect()
}

/// The cluster file that linerate reads.
fn cluster_toml(plan: &Plan) -> String {
    let dir = StateDir::new(&plan.dir);
    let quoted = |path: PathBuf| format!("{:?}", path.to_string_lossy());
    let last = plan.nodes.len();
    let list = if last == 1 {
        "node01".to_owned()
    } else {
        format!("node[01-{last:02}]")
    };
    let mut text = format!("# Written by linerate-lab.\nnodes = [\"{list}\"]\n");
    for node in &plan.nodes {
        text.push_str(&format!(
            "\n[node.{}]\naddress = \"127.0.0.1\"\nport = {}\n",
            node.name, node.port
        ));
    }
    let devices: Vec<String> = plan
        .nodes
        .first()
        .map(|node| {
            node.rails
                .iter()
                .map(|nic| format!("\"{}\"", nic.device))
                .collect()
        })
        .unwrap_or_default();
    // What is under way must be a small part of what a shaped link carries in the time.
    let probe = match plan.rate {
        Some(_) => "message_size = \"16 KiB\"\ndepth = 8\nduration = \"2s\"\n",
        None => "message_size = \"64 KiB\"\ndepth = 16\nduration = \"2s\"\n",
    };
    text.push_str(&format!(
        "\n[ssh]\nuser = \"operator\"\nidentity_files = [{}]\nagent = false\nknown_hosts = [{}]\n\
         connect_timeout = \"60s\"\n\n[rails]\nby = \"device\"\nnames = [{}]\n\n[probe]\n\
         {probe}completion = \"event\"\n",
        quoted(dir.identity()),
        quoted(dir.known_hosts()),
        devices.join(", "),
    ));
    if let Some(rate) = plan.rate {
        text.push_str(&format!(
            "\n[expect]\nline_rate = \"{}\"\n",
            rate.to_config()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Accel, Options};
    use crate::pcie::PcieTree;

    fn plan(dir: &Path) -> Plan {
        let options = Options {
            nodes: 2,
            base_port: 0,
            ..Options::default()
        };
        Plan {
            dir: dir.to_owned(),
            nodes: options.plan_nodes().unwrap(),
            rate: options.rate,
            faults: vec![],
            pcie: PcieTree::two_socket(2),
            accel: Accel::Tcg,
            memory_mib: 512,
            kernel: "6.1".into(),
            image: "/image".into(),
            modules: "/modules".into(),
            initramfs: "/initramfs".into(),
        }
    }

    /// The settings and the covers of a node with these faults.
    fn written(index: usize, faults: &[&str]) -> (String, String) {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan(dir.path());
        let share = StateDir::new(dir.path()).share(&plan.nodes[index].name);
        make_dir(&share).unwrap();
        let faults: Vec<Fault> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        write_settings(&plan, index, &faults).unwrap();
        let file = |name| fs::read_to_string(share.join(name)).unwrap();
        (file("settings"), file("covers"))
    }

    #[test]
    fn a_guest_reads_its_own_faults_alone() {
        let faults = [
            "mtu:node01:1:1500",
            "memlock:node01:65536",
            "no-peermem:node01",
            "narrow:node01:0:x8",
        ];
        let (settings, covers) = written(0, &faults);
        for line in ["LAB_RAIL1_MTU=1500", "LAB_MEMLOCK=64", "LAB_PEERMEM=no"] {
            assert!(settings.lines().any(|l| l == line), "{line}: {settings}");
        }
        assert!(covers.contains("rail0 current_link_width 8\n"), "{covers}");
        assert!(covers.contains("rail1 current_link_width 16\n"), "{covers}");
        let (settings, covers) = written(1, &faults);
        assert!(
            !settings.contains("MTU") && !settings.contains("MEMLOCK"),
            "{settings}"
        );
        assert!(covers.contains("rail0 current_link_width 16\n"), "{covers}");
        assert!(covers.contains("gpu1 class 0x030200\n"), "{covers}");
        // Several lines of sysfs are one line here.
        assert_eq!(covers.lines().count(), 2 * 4 + 2 * 8, "{covers}");
    }
}
