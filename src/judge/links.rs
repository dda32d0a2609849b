//! What the PCIe links above NICs carry, worked out once for each tree: in the books of a run servers
//! of one kind have one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::cause::{degraded, limit};
use super::view::{NicView, NodeView};
use crate::model::{PciAddress, PciFunction, PcieTree, RdmaDevice, Shared};
use crate::topology::{LinkOnPath, PcieLimit};

/// Trees with one key are one: where their functions are in memory, and whether a hypervisor is below.
pub(super) type TreeKey = (*const PciFunction, Option<bool>);

pub(super) fn tree_key(tree: &PcieTree) -> TreeKey {
    let virtual_machine = tree.virtual_machine.value().copied();
    (Shared::as_ptr(&tree.functions), virtual_machine)
}

/// All that tells servers apart whose PCIe trees are looked at, but for names.
#[derive(PartialEq, Eq, Hash)]
struct Kind<'a> {
    tree: TreeKey,
    /// The function of each NIC that counts, and whether it is hardware.
    nics: Vec<(Option<&'a PciAddress>, bool)>,
}

/// Servers that are built alike, numbered by what they are.
#[derive(Default)]
pub(super) struct Kinds<'a>(HashMap<Kind<'a>, usize>);

impl<'a> Kinds<'a> {
    /// The number of a node's kind, from 0 without gaps; `None` where its tree is unknown.
    pub(super) fn number(&mut self, node: &NodeView<'a>) -> Option<usize> {
        let nic = |nic: &NicView<'a>| (nic.pci(), nic.device.software.is_none());
        let kind = Kind {
            tree: tree_key(node.pcie()?),
            nics: node.nics.iter().map(nic).collect(),
        };
        let next = self.0.len();
        Some(*self.0.entry(kind).or_insert(next))
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
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
