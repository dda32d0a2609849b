//! GPUDirect RDMA as it was tried: for each NIC that was probed with memory of a GPU, what came of it.

use std::collections::BTreeMap;
use std::fmt;

use crate::ledger::{Ledger, Probe};
use crate::model::{
    CopyRates, Fact, GPU_MEMORY_REFUSED, MemoryUsed, MemoryWay, NicId, NodeName, Outcome,
    PciAddress, RefusedWay,
};

use super::gpu_of_nic;

/// What is known of a NIC and the memory of its GPU, the best first.
#[derive(Debug, Clone, PartialEq)]
pub enum GpuVerdict {
    /// Data moved, and the NIC reached the GPU by itself: by peer memory or dma-buf.
    Direct(MemoryWay),
    /// Data moved by way of host memory, as it was asked for.
    Staged,
    /// The NIC was given memory of the GPU and refused it, because of this.
    NotAvailable(String),
    /// It was not tried, because of this.
    CannotTell(String),
}

impl GpuVerdict {
    /// Its name in the report for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Direct(_) => "direct",
            Self::Staged => "staged",
            Self::NotAvailable(_) => "not_available",
            Self::CannotTell(_) => "cannot_tell",
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Direct(_) => 0,
            Self::Staged => 1,
            Self::NotAvailable(_) => 2,
            Self::CannotTell(_) => 3,
        }
    }
}

impl fmt::Display for GpuVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(way) => write!(f, "direct, by {way}"),
            Self::Staged => f.write_str("staged through host memory, as it was asked for"),
            Self::NotAvailable(why) => write!(f, "not available: {why}"),
            Self::CannotTell(why) => write!(f, "cannot tell: {why}"),
        }
    }
}

/// A NIC that was probed with memory of a GPU, or was to be.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuMemory {
    /// What came of it.
    pub verdict: GpuVerdict,
    /// The GPU, where there is one.
    pub gpu: Option<PciAddress>,
    /// What the driver calls it, where it answered.
    pub name: Option<String>,
    /// Whether it is none, but host memory that a library for tests hands out.
    pub stand_in: bool,
    /// What was tried before the way that was gone.
    pub tried: Vec<RefusedWay>,
    /// How fast the GPU's memory is copied.
    pub copies: Fact<CopyRates>,
}

/// More ways than there are.
const MOST_WAYS: usize = 8;

impl GpuMemory {
    fn used(used: &MemoryUsed) -> Option<Self> {
        let gpu = used.gpu.as_ref()?;
        Some(Self {
            verdict: match used.way {
                MemoryWay::Staged => GpuVerdict::Staged,
                way => GpuVerdict::Direct(way),
            },
            gpu: Some(gpu.address.clone()),
            name: Some(gpu.name.clone()),
            stand_in: used.is_stand_in(),
            tried: used.tried.iter().take(MOST_WAYS).cloned().collect(),
            copies: gpu.copies.clone(),
        })
    }

    fn without(verdict: GpuVerdict, gpu: Option<PciAddress>) -> Self {
        Self {
            verdict,
            gpu,
            name: None,
            stand_in: false,
            tried: Vec::new(),
            copies: Fact::unknown("the GPU was not used"),
        }
    }
}

/// What came of each NIC of a run that was to be probed with memory of a GPU; empty where none was.
pub fn gpu_memory(ledger: &Ledger) -> BTreeMap<&NicId, GpuMemory> {
    let mut found = BTreeMap::new();
    let Some(settings) = ledger.settings() else {
        return found;
    };
    for probe in ledger.probes() {
        let spec = probe.planned.spec.as_ref().unwrap_or(&settings.probe);
        if spec.memory.is_gpu() {
            for (nic, seen) in of_probe(ledger, probe) {
                better(&mut found, nic, seen);
            }
        }
    }
    found
}

fn better<'a>(found: &mut BTreeMap<&'a NicId, GpuMemory>, nic: &'a NicId, seen: GpuMemory) {
    let worse = |known: &GpuMemory| known.verdict.rank() <= seen.verdict.rank();
    if !found.get(nic).is_some_and(worse) {
        found.insert(nic, seen);
    }
}

fn of_probe<'a>(ledger: &Ledger, probe: &'a Probe) -> Vec<(&'a NicId, GpuMemory)> {
    let pair = &probe.planned.pair;
    let ends = [&pair.from, &pair.to];
    match &probe.outcome {
        Some(Outcome::Measured {
            measurement,
            verified,
        }) => {
            let target = verified.value().and_then(|v| v.memory.as_deref());
            let used = [measurement.memory.as_deref(), target];
            let told = ends.into_iter().zip(used);
            told.filter_map(|(nic, used)| Some((nic, GpuMemory::used(used?)?)))
                .collect()
        }
        Some(Outcome::Failed { node, why, .. }) => ends
            .into_iter()
            .map(|nic| {
                let verdict = failed(nic, node.as_ref(), why);
                (nic, GpuMemory::without(verdict, gpu(ledger, nic).ok()))
            })
            .collect(),
        // Said of each end by itself: the other may have a GPU.
        Some(Outcome::NotRun { .. }) => ends
            .into_iter()
            .filter_map(|nic| {
                let why = gpu(ledger, nic).err()?;
                Some((nic, GpuMemory::without(GpuVerdict::CannotTell(why), None)))
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// What a failure says of an end. The first end to fail ends the probe: of the other nothing is known.
fn failed(nic: &NicId, node: Option<&NodeName>, why: &str) -> GpuVerdict {
    let is_of_nic = node == Some(&nic.node);
    match () {
        () if is_of_nic && why.starts_with(GPU_MEMORY_REFUSED) => {
            GpuVerdict::NotAvailable(why.to_owned())
        }
        () if is_of_nic => GpuVerdict::CannotTell(why.to_owned()),
        () => GpuVerdict::CannotTell(match node {
            Some(node) => format!("no data was moved: {node} reports: {why}"),
            None => format!("no data was moved: {why}"),
        }),
    }
}

fn gpu(ledger: &Ledger, nic: &NicId) -> Result<PciAddress, String> {
    let facts = ledger.get_node(&nic.node).and_then(|n| n.facts.as_ref());
    let facts = facts.ok_or_else(|| "the node was not surveyed".to_owned())?;
    gpu_of_nic(facts, &nic.device)
}

#[cfg(test)]
pub mod testing {
    //! A run whose probes used memory of a GPU.

    use crate::model::{
        CopyRates, Event, Fact, Gbps, GpuUsed, MemoryKind, MemoryUsed, MemoryWay, Outcome,
        PciAddress, RefusedWay,
    };

    /// What an end tells that used a GPU of this name.
    pub fn used(way: MemoryWay, name: &str) -> MemoryUsed {
        let copies = CopyRates {
            to_gpu: Gbps(420.0),
            from_gpu: Gbps(410.0),
        };
        MemoryUsed {
            way,
            tried: match way {
                MemoryWay::PeerMemory => vec![RefusedWay {
                    way: MemoryWay::DmaBuf,
                    why: "the CUDA driver exports no dma-buf".into(),
                }],
                _ => Vec::new(),
            },
            gpu: Some(GpuUsed {
                address: PciAddress("0000:9a:00.0".into()),
                name: name.into(),
                copies: Fact::known(copies, "cuMemcpy"),
            }),
        }
    }

    /// The events with the settings and ends of such a run.
    pub fn on_gpus(mut events: Vec<Event>, way: MemoryWay, name: &str) -> Vec<Event> {
        for event in &mut events {
            match event {
                Event::RunStarted { settings, .. } => settings.probe.memory = MemoryKind::Gpu,
                Event::ProbeEnded {
                    outcome:
                        Outcome::Measured {
                            measurement,
                            verified,
                        },
                    ..
                } => {
                    measurement.memory = Some(Box::new(used(way, name)));
                    if let Fact::Known { value, .. } = verified {
                        value.memory = Some(Box::new(used(way, name)));
                    }
                }
                _ => {}
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{events, ledger};
    use crate::model::{Event, NO_GPU_MEMORY, ProbeStage};

    const H100: &str = "NVIDIA H100 80GB HBM3";

    fn run(change: impl Fn(&mut Outcome)) -> Vec<(String, GpuMemory)> {
        let mut events = testing::on_gpus(
            events(2, 1, &|_, _, _| Some(391.0)),
            MemoryWay::PeerMemory,
            H100,
        );
        for event in &mut events {
            if let Event::ProbeEnded { outcome, .. } = event {
                change(outcome);
            }
        }
        let ledger = ledger(&events);
        let found = gpu_memory(&ledger).into_iter();
        found.map(|(nic, seen)| (nic.to_string(), seen)).collect()
    }

    #[test]
    fn what_moved_is_direct_and_names_its_way() {
        let found = run(|_| ());
        assert_eq!(found.len(), 2);
        let (_, seen) = &found[0];
        assert_eq!(seen.verdict.to_string(), "direct, by peer memory");
        assert_eq!((seen.stand_in, seen.tried.len()), (false, 1));
        assert_eq!(seen.name.as_deref(), Some(H100));
    }

    fn failed(why: String) -> Vec<(String, GpuMemory)> {
        run(|outcome| {
            *outcome = Outcome::Failed {
                stage: ProbeStage::Prepare,
                node: Some("node01".into()),
                why: why.clone(),
            }
        })
    }

    #[test]
    fn a_refusal_is_told_from_what_was_not_tried() {
        let refused = failed(format!(
            "{GPU_MEMORY_REFUSED}, of GPU 0: peer memory: no module"
        ));
        assert!(matches!(refused[0].1.verdict, GpuVerdict::NotAvailable(_)));
        let of_other = refused[1].1.verdict.to_string();
        assert!(
            of_other.starts_with("cannot tell: no data was moved: node01 reports: GPU memory is"),
            "{of_other}"
        );
        let missing = failed(format!(
            "{NO_GPU_MEMORY} of GPU 0: libcuda.so.1 is not installed"
        ));
        assert!(matches!(missing[0].1.verdict, GpuVerdict::CannotTell(_)));
    }

    #[test]
    fn nodes_without_a_gpu_are_said_to_have_none() {
        let found = run(|outcome| {
            *outcome = Outcome::NotRun {
                why: "no GPU".into(),
            }
        });
        assert_eq!(found.len(), 2);
        assert!(matches!(&found[0].1.verdict, GpuVerdict::CannotTell(_)));
    }

    #[test]
    fn host_memory_says_nothing_of_gpus() {
        let ledger = ledger(&events(2, 1, &|_, _, _| Some(391.0)));
        assert!(gpu_memory(&ledger).is_empty());
        assert!(!ledger.has_stand_in());
    }
}
