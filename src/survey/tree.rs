//! Builds trees like /sys of a node, for tests: real directories, files and relative links.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::Root;

/// A file system of its own, gone when dropped.
pub(super) struct Tree(tempfile::TempDir);

impl Tree {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn root(&self) -> Root {
        Root::at(self.0.path())
    }

    /// `text` without the place of the tree, which differs from run to run.
    pub fn plain(&self, text: &str) -> String {
        let base = self.0.path().canonicalize().unwrap();
        text.replace(base.to_str().unwrap(), "")
    }

    pub fn dir(&self, path: &str) -> &Self {
        fs::create_dir_all(self.0.path().join(path)).unwrap();
        self
    }

    pub fn file(&self, path: &str, text: &str) -> &Self {
        self.bytes(path, text.as_bytes())
    }

    pub fn bytes(&self, path: &str, bytes: &[u8]) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    /// A relative link at `path` to `target`, both from the root of the tree.
    pub fn link(&self, path: &str, target: &str) -> &Self {
        let link = self.0.path().join(path);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        let depth = Path::new(path).components().count() - 1;
        symlink(format!("{}{target}", "../".repeat(depth)), link).unwrap();
        self
    }

    /// A function below sys/devices with its driver and NUMA node.
    pub fn function(&self, below: &str, driver: &str, numa: &str) -> &Self {
        self.file(&format!("sys/devices/{below}/numa_node"), numa);
        let link = format!("sys/devices/{below}/driver");
        self.link(&link, &format!("sys/bus/pci/drivers/{driver}"))
    }

    /// An RDMA device on the function `below`, one without `below` as rxe is.
    pub fn device(&self, name: &str, below: Option<&str>, attributes: &[(&str, &str)]) -> &Self {
        let home = match below {
            Some(below) => format!("sys/devices/{below}/infiniband/{name}"),
            None => format!("sys/devices/virtual/infiniband/{name}"),
        };
        self.dir(&format!("{home}/ports"));
        for (attribute, text) in attributes {
            self.file(&format!("{home}/{attribute}"), &format!("{text}\n"));
        }
        if let Some(below) = below {
            self.link(&format!("{home}/device"), &format!("sys/devices/{below}"));
        }
        self.link(&format!("sys/class/infiniband/{name}"), &home)
    }

    /// A port with its attributes in the kernel's words: state, phys_state, link_layer, rate, lid.
    pub fn port(&self, device: &str, number: u8, attributes: [&str; 5]) -> &Self {
        let names = ["state", "phys_state", "link_layer", "rate", "lid"];
        for (name, text) in names.iter().zip(attributes) {
            self.file(&port_path(device, number, name), &format!("{text}\n"));
        }
        self.dir(&port_path(device, number, "gids"))
    }

    /// A GID table entry; the kernel answers EINVAL for the attributes that it lacks, here they
    /// are missing.
    pub fn gid(&self, device: &str, index: u32, gid: &str, kind: &str, netdev: &str) -> &Self {
        let at = |name: &str| port_path(device, 1, &format!("{name}/{index}"));
        self.file(&at("gids"), &format!("{gid}\n"));
        self.file(&at("gid_attrs/types"), &format!("{kind}\n"));
        if !netdev.is_empty() {
            self.file(&at("gid_attrs/ndevs"), &format!("{netdev}\n"));
        }
        self
    }

    /// A network interface on `below`, or a virtual one.
    pub fn netdev(&self, name: &str, below: Option<&str>, mtu: &str, state: &str) -> &Self {
        let home = match below {
            Some(below) => format!("sys/devices/{below}/net/{name}"),
            None => format!("sys/devices/virtual/net/{name}"),
        };
        for (attribute, text) in [("mtu", mtu), ("operstate", state), ("dev_port", "0")] {
            self.file(&format!("{home}/{attribute}"), &format!("{text}\n"));
        }
        if let Some(below) = below {
            self.link(&format!("{home}/device"), &format!("sys/devices/{below}"));
        }
        self.link(&format!("sys/class/net/{name}"), &home)
    }
}

/// Where an attribute of a port lies.
pub(super) fn port_path(device: &str, number: u8, attribute: &str) -> String {
    format!("sys/class/infiniband/{device}/ports/{number}/{attribute}")
}
