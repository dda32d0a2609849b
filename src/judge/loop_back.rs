//! GPUDirect RDMA inside a machine: for each of its GPUs with each of its NICs, what came of moving data.

use crate::model::{
    GPU_MEMORY_REFUSED, LoopMoved, LoopTransfer, LoopWay, MemoryWay, NodeFacts, PciAddress,
};
use crate::topology::{Affinity, PathClass, affinity};

/// Going by way of host memory counts as faster from this share on: rates of so short transfers repeat
/// within 2 to 3 % on a machine that is otherwise idle.
const FASTER: f64 = 1.05;

/// What the transfers of a NIC with a GPU come to.
#[derive(Debug, Clone, PartialEq)]
pub enum LoopVerdict {
    /// The NIC reads and writes the GPU, in this way.
    Direct(MemoryWay),
    /// It does, but by way of host memory data moves faster.
    StagedIsFaster,
    /// Only this way works; the other does not, because of this.
    OneWay(LoopWay, String),
    /// So many bytes landed wrong.
    Corrupt(u64),
    /// The NIC refuses memory of the GPU, because of this.
    NotAvailable(String),
    /// Nothing was moved, because of this.
    CannotTell(String),
}

impl LoopVerdict {
    /// Its name for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Direct(_) => "direct",
            Self::StagedIsFaster => "staged_is_faster",
            Self::OneWay(..) => "one_way",
            Self::Corrupt(_) => "corrupt",
            Self::NotAvailable(_) => "not_available",
            Self::CannotTell(_) => "cannot_tell",
        }
    }
}

impl std::fmt::Display for LoopVerdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Direct(way) => write!(f, "direct, by {way}"),
            Self::StagedIsFaster => f.write_str("direct, but staged through host memory is faster"),
            Self::OneWay(works, why) => write!(f, "only {works} works; the other way: {why}"),
            Self::Corrupt(wrong) => write!(f, "{wrong} bytes landed wrong"),
            Self::NotAvailable(why) => write!(f, "not available: {why}"),
            Self::CannotTell(why) => write!(f, "cannot tell: {why}"),
        }
    }
}

/// A GPU with a NIC.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopPair<'a> {
    /// The RDMA device, and its port.
    pub nic: (&'a str, u8),
    /// The GPU.
    pub gpu: &'a PciAddress,
    /// What lies between them, or why that is unknown.
    pub path: Result<PathClass, String>,
    /// Whether no NIC is nearer to the GPU; so also where nothing is known of any.
    pub is_nearest: bool,
    /// Whether the NIC is software, whose rates are the processor's.
    pub is_software: bool,
    /// What came of it.
    pub verdict: LoopVerdict,
    /// Its transfers.
    pub transfers: Vec<&'a LoopTransfer>,
}

/// The pairs of all transfers in their order.
pub fn loop_pairs<'a>(facts: &NodeFacts, transfers: &'a [LoopTransfer]) -> Vec<LoopPair<'a>> {
    let known = facts.pcie.value().zip(facts.rdma.value());
    let affinity = known.map(|(tree, rdma)| affinity(tree, rdma));
    let mut pairs: Vec<LoopPair<'a>> = Vec::new();
    for group in transfers.chunk_by(|a, b| key(a) == key(b)) {
        if let Some((nic, gpu)) = group.first().and_then(key) {
            let (path, is_nearest) = place(affinity.as_ref(), nic.0, gpu);
            let is_software = is_software(facts, nic.0);
            pairs.push(LoopPair {
                nic,
                gpu,
                path,
                is_nearest,
                is_software,
                verdict: verdict(group, is_software),
                transfers: group.iter().collect(),
            });
        }
    }
    pairs
}

/// The NIC of a transfer, and the GPU where one took part.
fn key(transfer: &LoopTransfer) -> Option<((&str, u8), &PciAddress)> {
    let nic = (transfer.device.as_str(), transfer.port);
    transfer.gpu.as_ref().map(|gpu| (nic, gpu))
}

fn is_software(facts: &NodeFacts, nic: &str) -> bool {
    let devices = facts.rdma.value().into_iter().flatten();
    devices
        .filter(|device| device.name == nic)
        .any(|device| device.software.is_some())
}

/// What lies between a NIC and a GPU, and whether no NIC is nearer.
fn place(
    affinity: Option<&Affinity>,
    nic: &str,
    gpu: &PciAddress,
) -> (Result<PathClass, String>, bool) {
    let unknown = |why: &str| (Err(why.to_owned()), true);
    let Some(affinity) = affinity else {
        return unknown("the PCIe tree was not read");
    };
    let ends = &affinity.endpoints;
    let gpu = ends
        .iter()
        .position(|end| end.is_gpu && end.address == *gpu);
    let nic = ends.iter().position(|end| !end.is_gpu && end.name == nic);
    let (Some(gpu), Some(nic)) = (gpu, nic) else {
        return unknown("one of the two has no place in the PCIe tree");
    };
    let nearest = affinity.nearest(gpu);
    let is_nearest = nearest.is_none_or(|nearest| nearest.nics.contains(&nic));
    (affinity.classes[gpu][nic].clone(), is_nearest)
}

fn verdict(transfers: &[LoopTransfer], is_software: bool) -> LoopVerdict {
    let moved = transfers.iter().filter_map(|t| t.outcome.as_ref().ok());
    let wrong: u64 = moved.map(|moved| moved.bytes_wrong).sum();
    if wrong > 0 {
        return LoopVerdict::Corrupt(wrong);
    }
    let of = |way| outcome(transfers, way);
    match (of(LoopWay::GpuToHost), of(LoopWay::HostToGpu)) {
        (Ok(_), Ok(written)) => match (of(LoopWay::GpuToGpu), of(LoopWay::Staged)) {
            (Err(why), _) => LoopVerdict::CannotTell(why),
            (Ok(direct), Ok(staged)) if !is_software && staged.gbps.0 > direct.gbps.0 * FASTER => {
                LoopVerdict::StagedIsFaster
            }
            (Ok(_), _) => LoopVerdict::Direct(written.ways.1),
        },
        (Ok(_), Err(why)) => LoopVerdict::OneWay(LoopWay::GpuToHost, why),
        (Err(why), Ok(_)) => LoopVerdict::OneWay(LoopWay::HostToGpu, why),
        (Err(why), Err(_)) if why.starts_with(GPU_MEMORY_REFUSED) => LoopVerdict::NotAvailable(why),
        (Err(why), Err(_)) => LoopVerdict::CannotTell(why),
    }
}

fn outcome(transfers: &[LoopTransfer], way: LoopWay) -> Result<&LoopMoved, String> {
    match transfers.iter().find(|transfer| transfer.way == way) {
        Some(transfer) => transfer.outcome.as_ref().map_err(String::clone),
        None => Err("it was not tried".to_owned()),
    }
}

#[cfg(test)]
pub mod testing {
    //! Transfers as a machine may tell of them.

    use super::*;
    use crate::model::Gbps;

    /// A GPU and NIC on which all ways have this outcome by way.
    pub fn transfers(
        gpu: &str,
        outcome: impl Fn(LoopWay) -> Result<f64, &'static str>,
    ) -> Vec<LoopTransfer> {
        let moved = |way: LoopWay, gbps| LoopMoved {
            gbps: Gbps(gbps),
            bytes_checked: 1 << 20,
            bytes_wrong: 0,
            ways: match way {
                LoopWay::Staged => (MemoryWay::Staged, MemoryWay::Staged),
                LoopWay::GpuToHost => (MemoryWay::DmaBuf, MemoryWay::Host),
                _ => (MemoryWay::Host, MemoryWay::DmaBuf),
            },
        };
        let transfer = |way| LoopTransfer {
            device: "mlx5_0".to_owned(),
            port: 1,
            gpu: (way != LoopWay::HostToHost).then(|| PciAddress(gpu.to_owned())),
            way,
            outcome: outcome(way)
                .map(|gbps| moved(way, gbps))
                .map_err(str::to_owned),
        };
        let ways = [LoopWay::HostToHost].into_iter().chain(LoopWay::OF_A_GPU);
        ways.map(transfer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::pcie::TwoSockets;

    fn told(outcome: impl Fn(LoopWay) -> Result<f64, &'static str>) -> LoopVerdict {
        verdict(&testing::transfers("0000:9a:00.0", outcome), false)
    }

    #[test]
    fn what_was_tried_tells_the_cases_apart() {
        let refused = "GPU memory is not registered, of GPU 0000:9a:00.0 with mlx5_0: no module";
        let fine = |way| match way {
            LoopWay::Staged => Ok(190.0),
            _ => Ok(380.0),
        };
        assert_eq!(told(fine), LoopVerdict::Direct(MemoryWay::DmaBuf));
        let far = |way| match way {
            LoopWay::GpuToGpu | LoopWay::InOrder => Ok(90.0),
            way => fine(way),
        };
        assert_eq!(told(far), LoopVerdict::StagedIsFaster);
        let software = verdict(&testing::transfers("0000:9a:00.0", far), true);
        assert_eq!(software, LoopVerdict::Direct(MemoryWay::DmaBuf));
        for (works, breaks) in [
            (LoopWay::GpuToHost, LoopWay::HostToGpu),
            (LoopWay::HostToGpu, LoopWay::GpuToHost),
        ] {
            let one = |way| match way {
                way if way == works || way == LoopWay::HostToHost => Ok(380.0),
                way if way == breaks => Err("remote access error"),
                _ => Err("another"),
            };
            let expected = LoopVerdict::OneWay(works, "remote access error".to_owned());
            assert_eq!(told(one), expected);
        }
        let host = |why| {
            move |way| match way {
                LoopWay::HostToHost => Ok(380.0),
                _ => Err(why),
            }
        };
        assert_eq!(
            told(host(refused)),
            LoopVerdict::NotAvailable(refused.to_owned())
        );
        let gone = "no GPU memory could be tried of any GPU: no driver";
        assert_eq!(told(host(gone)), LoopVerdict::CannotTell(gone.to_owned()));
    }

    #[test]
    fn a_wrong_byte_outweighs_every_rate() {
        let mut transfers = testing::transfers("0000:9a:00.0", |_| Ok(380.0));
        if let Ok(moved) = &mut transfers[3].outcome {
            moved.bytes_wrong = 3;
        }
        assert_eq!(verdict(&transfers, false), LoopVerdict::Corrupt(3));
    }

    #[test]
    fn a_pair_knows_what_lies_between_and_whether_it_is_the_nearest() {
        let mut transfers = testing::transfers(TwoSockets::GPU0, |_| Ok(380.0));
        transfers.extend(testing::transfers(TwoSockets::GPU2, |_| Ok(380.0)));
        let pairs = loop_pairs(&TwoSockets::facts(), &transfers);
        let places: Vec<_> = pairs
            .iter()
            .map(|p| (p.path.clone(), p.is_nearest))
            .collect();
        assert_eq!(
            places,
            [(Ok(PathClass::Pix), true), (Ok(PathClass::Sys), false)]
        );
        let unknown = loop_pairs(&NodeFacts::default(), &transfers);
        assert!(
            unknown
                .iter()
                .all(|pair| pair.path.is_err() && pair.is_nearest)
        );
    }
}
