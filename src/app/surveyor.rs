//! Looks at the machine that this process runs on, with what only libibverbs knows.

use crate::model::NodeFacts;
use crate::survey::{Root, Sources, survey};

/// The facts of this machine.
pub(super) fn this_machine() -> NodeFacts {
    facts(&Root::live())
}

/// The facts of the system whose file system starts at `root`.
pub(super) fn facts(root: &Root) -> NodeFacts {
    survey(root, &Sources { active_mtu: Some(&crate::verbs::active_mtu), libibverbs: Some(&crate::verbs::library) })
}
