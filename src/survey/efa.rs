//! The library through which MPI and NCCL speak to EFA devices.

use super::root::Root;
use crate::model::{Fact, RdmaDevice};

/// Where AWS's installer and distributions put libfabric, whose EFA provider is inside it.
const DIRECTORIES: [&str; 7] = [
    "opt/amazon/efa/lib64",
    "opt/amazon/efa/lib",
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/local/lib",
    "usr/local/lib64",
];

/// Its names, with and without the version of its interface.
const LIBRARIES: [&str; 2] = ["libfabric.so.1", "libfabric.so"];

/// The library's file; asked only where a device has the driver `efa`.
pub(super) fn provider(root: &Root, devices: &[RdmaDevice]) -> Option<Fact<String>> {
    let is_efa = |device: &RdmaDevice| device.driver.value().is_some_and(|name| name == "efa");
    devices.iter().any(is_efa).then(|| find(root))
}

fn find(root: &Root) -> Fact<String> {
    for directory in DIRECTORIES {
        for name in LIBRARIES {
            let path = root.path(directory).join(name);
            if root.real(&path).is_ok() {
                let file = path.display().to_string();
                return Fact::known(file.clone(), file);
            }
        }
    }
    Fact::unknown(format!(
        "no {} in /{}",
        LIBRARIES[0],
        DIRECTORIES.join(", /")
    ))
}
