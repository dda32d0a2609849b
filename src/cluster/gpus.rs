//! Which GPU's memory a NIC is probed with.

use std::collections::HashMap;

use crate::judge::gpu_of_nic;
use crate::ledger::Ledger;
use crate::model::{NicId, PciAddress};

/// What was found, so that a node's tree is not walked for each of its probes.
#[derive(Debug, Default)]
pub(super) struct Gpus {
    found: HashMap<NicId, Result<PciAddress, String>>,
}

impl Gpus {
    /// The GPU of a NIC.
    ///
    /// # Errors
    /// Why there is none to be probed, which names node and NIC.
    pub(super) fn of(&mut self, ledger: &Ledger, nic: &NicId) -> Result<PciAddress, String> {
        if let Some(known) = self.found.get(nic) {
            return known.clone();
        }
        let facts = ledger.get_node(&nic.node).and_then(|n| n.facts.as_ref());
        let found = facts.ok_or_else(|| "the node was not surveyed".to_owned());
        let found = found.and_then(|facts| gpu_of_nic(facts, &nic.device));
        let found =
            found.map_err(|why| format!("{nic} has no GPU memory to be probed with: {why}"));
        self.found.insert(nic.clone(), found.clone());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{events, ledger};

    #[test]
    fn a_nic_without_a_gpu_is_named_with_the_reason() {
        let ledger = ledger(&events(2, 1, &|_, _, _| Some(391.0)));
        let (_, nic, _) = ledger.players().next().unwrap();
        let mut gpus = Gpus::default();
        let why = gpus.of(&ledger, nic).unwrap_err();
        assert!(
            why.starts_with("mlx5_0 of node01 has no GPU memory to be probed with: "),
            "{why}"
        );
        assert_eq!(gpus.of(&ledger, nic), Err(why));
    }
}
