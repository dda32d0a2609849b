//! The matrix of GPUs and NICs, and the NICs that each GPU should use.

use crate::model::{PciAddress, PcieTree, RdmaDevice};

use super::path::{PathClass, path_class};

/// A row and column of the matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `GPU0` in the order of PCI addresses, or the RDMA device's name.
    pub name: String,
    /// Its function.
    pub address: PciAddress,
    /// Whether it is a GPU.
    pub is_gpu: bool,
}

/// Path classes of all pairs of a node's GPUs and NICs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Affinity {
    /// GPUs, then NICs in the order in which they were given.
    pub endpoints: Vec<Endpoint>,
    /// `classes[a][b]`: what lies between them, or why that is unknown.
    pub classes: Vec<Vec<Result<PathClass, String>>>,
}

/// The NICs nearest to a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearest {
    /// The class they are at.
    pub class: PathClass,
    /// Their places in [`Affinity::endpoints`].
    pub nics: Vec<usize>,
    /// How many NICs of unknown class may be nearer.
    pub unknown: usize,
}

/// The matrix of a node. RDMA devices on no PCI function are left out.
pub fn affinity(tree: &PcieTree, rdma: &[RdmaDevice]) -> Affinity {
    let gpus = tree.gpus().enumerate().map(|(index, gpu)| Endpoint {
        name: format!("GPU{index}"),
        address: gpu.address.clone(),
        is_gpu: true,
    });
    let nics = rdma.iter().filter_map(|device| {
        Some(Endpoint {
            name: device.name.clone(),
            address: device.pci.value()?.clone(),
            is_gpu: false,
        })
    });
    let endpoints: Vec<_> = gpus.chain(nics).collect();
    let row = |a: &Endpoint| {
        let class = |b: &Endpoint| path_class(tree, &a.address, &b.address);
        endpoints.iter().map(class).collect()
    };
    let classes = endpoints.iter().map(row).collect();
    Affinity { endpoints, classes }
}

impl Affinity {
    /// The NICs nearest to endpoint `gpu`; `None` where none has a known class.
    pub fn nearest(&self, gpu: usize) -> Option<Nearest> {
        let row = self.classes.get(gpu)?;
        let is_nic = |index: &usize| !self.endpoints[*index].is_gpu;
        let nics = || (0..self.endpoints.len()).filter(is_nic);
        let class = *nics().filter_map(|nic| row[nic].as_ref().ok()).min()?;
        Some(Nearest {
            class,
            nics: nics().filter(|nic| row[*nic] == Ok(class)).collect(),
            unknown: nics().filter(|nic| row[*nic].is_err()).count(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::pcie::TwoSockets;
    use crate::model::{Fact, NodeFacts};

    fn of(facts: &NodeFacts) -> Affinity {
        affinity(facts.pcie.value().unwrap(), facts.rdma.value().unwrap())
    }

    fn names(affinity: &Affinity, gpu: usize) -> (PathClass, Vec<&str>) {
        let nearest = affinity.nearest(gpu).unwrap();
        let name = |nic: &usize| affinity.endpoints[*nic].name.as_str();
        (nearest.class, nearest.nics.iter().map(name).collect())
    }

    #[test]
    fn each_gpu_has_the_nics_below_its_switch() {
        let affinity = of(&TwoSockets::facts());
        assert_eq!(names(&affinity, 0), (PathClass::Pix, vec!["mlx5_0"]));
        assert_eq!(names(&affinity, 1), (PathClass::Pxb, vec!["mlx5_0"]));
        assert_eq!(names(&affinity, 2), (PathClass::Pix, vec!["mlx5_4"]));
        assert_eq!(affinity.endpoints.len(), 8);
    }

    #[test]
    fn nics_of_unknown_class_are_counted_and_not_chosen() {
        let mut facts = TwoSockets::facts();
        if let Fact::Known { value, .. } = &mut facts.pcie {
            value.functions.retain(|f| f.address.0 != TwoSockets::NIC0);
        }
        let affinity = of(&facts);
        let nearest = affinity.nearest(0).unwrap();
        assert_eq!((nearest.class, nearest.unknown), (PathClass::Phb, 1));
    }

    #[test]
    fn without_nics_none_is_nearest() {
        let facts = TwoSockets::facts();
        let affinity = affinity(facts.pcie.value().unwrap(), &[]);
        assert_eq!(affinity.nearest(0), None);
        assert_eq!(affinity.nearest(99), None);
    }
}
