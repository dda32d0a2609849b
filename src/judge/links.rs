//! What the PCIe links above NICs carry, worked out once for each tree: in the books of a run servers
//! of one kind have one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::cause::{degraded, limit};
use crate::model::{PciAddress, PciFunction, PcieTree, RdmaDevice, Shared};
use crate::topology::{LinkOnPath, PcieLimit};

/// Trees with one key are one: where their functions are in memory, and whether a hypervisor is below.
pub(super) type TreeKey = (*const PciFunction, Option<bool>);

pub(super) fn tree_key(tree: &PcieTree) -> TreeKey {
    let virtual_machine = tree.virtual_machine.value().copied();
    (Shared::as_ptr(&tree.functions), virtual_machine)
}

/// The links above a device.
pub(super) struct Above {
    /// What they let through; `None` where the place of the device in the tree is unknown.
    pub(super) limit: Option<PcieLimit>,
    /// Those that run below what both of their ends are capable of.
    pub(super) degraded: Vec<LinkOnPath>,
}

/// Those that were asked for so far.
#[derive(Default)]
pub(super) struct Links<'a> {
    known: RefCell<HashMap<(TreeKey, &'a PciAddress), Rc<Above>>>,
}

impl<'a> Links<'a> {
    /// Those above a device; `None` where its function is unknown.
    pub(super) fn above(&self, tree: &PcieTree, device: &'a RdmaDevice) -> Option<Rc<Above>> {
        let key = (tree_key(tree), device.pci.value()?);
        let look = || {
            Rc::new(Above {
                limit: limit(tree, device),
                degraded: degraded(tree, device),
            })
        };
        let mut known = self.known.borrow_mut();
        Some(Rc::clone(known.entry(key).or_insert_with(look)))
    }
}
