//! Looks at a system, with what only libraries know of the running one.

use crate::gpu::{cuda, nvml};
use crate::model::NodeFacts;
use crate::survey::{Root, Sources, survey};
use crate::verbs::{active_mtu, library, takes_dmabuf};

/// The facts of this machine.
pub(super) fn this_machine() -> NodeFacts {
    facts(&Root::live())
}

/// The facts of the system whose file system starts at `root`.
pub(super) fn facts(root: &Root) -> NodeFacts {
    let sources = Sources {
        active_mtu: Some(&active_mtu),
        libibverbs: Some(&library),
        takes_dmabuf: Some(&takes_dmabuf),
        nvml: Some(&nvml),
        cuda: Some(&cuda),
    };
    survey(root, &sources)
}
