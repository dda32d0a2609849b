//! Turns what tools tell of a machine's PCIe tree into a sysfs that the survey can read.

use std::fs;
use std::path::{Path, PathBuf};

use linerate::model::NodeFacts;
use linerate::survey::{Root, Sources, survey};

/// One function as a tool tells of it; what it does not tell is left out.
#[derive(Default, Clone)]
pub struct Function {
    pub class: String,
    pub vendor: String,
    pub device: String,
    pub numa: Option<i32>,
    /// Speed and width: current, maximum.
    pub link: Option<[(String, String); 2]>,
}

/// A /sys of its own, gone when dropped.
pub struct Sysfs(tempfile::TempDir);

impl Sysfs {
    pub fn new() -> Self {
        // In memory where there is such a place: a machine is thousands of small files.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        // A real machine: what the tools saw is what there is.
        fs::create_dir_all(dir.path().join("proc")).unwrap();
        fs::write(dir.path().join("proc/cpuinfo"), "flags\t: fpu\n").unwrap();
        for empty in ["sys/bus/pci/devices", "sys/class/infiniband"] {
            fs::create_dir_all(dir.path().join(empty)).unwrap();
        }
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A function at a path below sys/devices, `pci0000:97/0000:97:01.0/0000:98:00.0`.
    pub fn function(&self, path: &str, function: &Function) {
        let dir = self.path().join("sys/devices").join(path);
        fs::create_dir_all(&dir).unwrap();
        let write = |name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
        write("class", &function.class);
        write("vendor", &function.vendor);
        write("device", &function.device);
        if let Some(numa) = function.numa {
            write("numa_node", &numa.to_string());
        }
        if let Some([now, most]) = &function.link {
            write("current_link_speed", &now.0);
            write("current_link_width", &now.1);
            write("max_link_speed", &most.0);
            write("max_link_width", &most.1);
        }
        let address = path.rsplit('/').next().unwrap();
        let link = self.path().join("sys/bus/pci/devices").join(address);
        std::os::unix::fs::symlink(format!("../../../devices/{path}"), link).unwrap();
    }

    /// NUMA nodes from 0, each a socket.
    pub fn sockets(&self, count: usize) {
        for node in 0..count {
            let dir = self
                .path()
                .join(format!("sys/devices/system/node/node{node}"));
            fs::create_dir_all(&dir).unwrap();
            let distance = |other| if other == node { "10" } else { "21" };
            let distances: Vec<_> = (0..count).map(distance).collect();
            fs::write(dir.join("distance"), distances.join(" ")).unwrap();
        }
    }

    /// An RDMA device on a function.
    pub fn rdma(&self, name: &str, path: &str) {
        rdma(
            self.path(),
            name,
            &self.path().join("sys/devices").join(path),
        );
    }

    pub fn survey(&self) -> NodeFacts {
        survey(&Root::at(self.path()), &Sources::default())
    }
}

/// Adds an RDMA device on the function whose directory is `function` to the sysfs below `root`.
pub fn rdma(root: &Path, name: &str, function: &Path) {
    let device: PathBuf = root.join("sys/class/infiniband").join(name);
    fs::create_dir_all(device.join("ports/1/gids")).unwrap();
    fs::write(device.join("ports/1/state"), "4: ACTIVE\n").unwrap();
    let below = function.canonicalize().unwrap();
    std::os::unix::fs::symlink(below, device.join("device")).unwrap();
}
