//! Looks at the machine that this process runs on, with what only libibverbs knows.

use crate::model::{Fact, NodeFacts};
use crate::survey::{Root, Sources, survey};
use crate::verbs::{Device, Library};

/// The facts of this machine.
pub(super) fn this_machine() -> NodeFacts {
    facts(&Root::live())
}

/// The facts of the system whose file system starts at `root`.
pub(super) fn facts(root: &Root) -> NodeFacts {
    survey(
        root,
        &Sources {
            active_mtu: Some(&active_mtu),
            libibverbs: Some(&library),
        },
    )
}

fn active_mtu(device: &str, port: u8) -> Fact<u32> {
    match Device::open(device).and_then(|device| device.port(port)) {
        Ok(port) => Fact::known(port.active_mtu.bytes(), "ibv_query_port"),
        Err(error) => Fact::unknown(error.to_string()),
    }
}

/// The file that libibverbs came from: whichever the loader chose is mapped into this process.
fn library() -> Fact<String> {
    if let Err(error) = Library::get() {
        return Fact::unknown(error.to_string());
    }
    let maps = procfs::process::Process::myself().and_then(|process| process.maps());
    let mapped = maps
        .into_iter()
        .flatten()
        .find_map(|map| match map.pathname {
            procfs::process::MMapPath::Path(path)
                if path.to_string_lossy().contains("/libibverbs.so") =>
            {
                Some(path)
            }
            _ => None,
        });
    let file = mapped.map(|path| path.to_string_lossy().into_owned());
    Fact::known(file.unwrap_or_else(|| "libibverbs.so.1".into()), "dlopen")
}
