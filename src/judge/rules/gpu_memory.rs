//! What was tried with memory of GPUs: it counts for more than what a survey promised, or missed.

use std::collections::{BTreeMap, BTreeSet};

use super::{About, Context, Said, in_a_row, plain};
use crate::judge::gpudirect::way;
use crate::judge::{GpuMemory, GpuVerdict, GpuWay, gpu_memory};
use crate::ledger::Ledger;
use crate::model::{
    Evidence, Fact, Finding, Gbps, NicId, NodeName, PciAddress, Rule, Severity, Subject,
};
use crate::topology::capable_rate;

pub(super) const COPIES: About = About {
    rule: Rule::GpuCopySlow,
    means: "A GPU's memory is copied to or from the host at less than half of what its PCIe link can carry, or of \
            what the run's other GPUs reach: data is fed to it too slowly, and what is staged through host memory \
            suffers as well.",
    detected: "Copies of 16 MiB between the GPU and pinned host memory (cuMemcpyHtoD, cuMemcpyDtoH) before the \
               probes of a run with `memory = \"gpu\"` or \"gpu-staged\", once for each GPU, one GPU of a node at a \
               time. Held against the narrowest link between GPU and root at the speed that both of its ends are \
               capable of, and against the median of the others where there are three. A warning: a job on the GPU \
               slows them, too.",
    remedy: COPIES_REMEDY,
};

const COPIES_REMEDY: &str = "Look at the GPU's link while it copies (nvidia-smi -q -d PERFORMANCE, pcie.link.gen.current, \
                             pcie.link.width.current), at jobs on it, and at the NUMA node of the GPU; compare with a \
                             sibling.";

const REFUSED_REMEDY: &str = "A module in the list proves nothing: look in the kernel log (dmesg) for nvidia_peermem and \
                              ib_core, rebuild the module for the ib_core that is loaded, and see that the driver and \
                              libcuda are of one version; or use dma-buf (NVIDIA's open kernel modules).";

/// Below this share copies are slow.
const SLOW: f64 = 0.5;
/// Others that a GPU is held against.
const ENOUGH: usize = 3;
/// NICs whose reason is shown.
const SHOWN: usize = 4;

/// Has what was tried correct what the survey told of GPUDirect RDMA.
pub(super) fn settle(context: &Context<'_>, said: &mut Said) {
    let found = gpu_memory(context.ledger);
    let mut by_node: BTreeMap<&NodeName, Vec<(&NicId, &GpuMemory)>> = BTreeMap::new();
    for (nic, seen) in &found {
        by_node.entry(&nic.node).or_default().push((*nic, seen));
    }
    for (node, nics) in by_node {
        let subject = Subject::Node(node.clone());
        let is_of = |rule: Rule, whose: &Subject| rule == Rule::GpuDirectOff && *whose == subject;
        let is_direct = |(_, seen): &(&NicId, &GpuMemory)| {
            matches!(seen.verdict, GpuVerdict::Direct(_)) && !seen.stand_in
        };
        if nics.iter().all(is_direct) {
            said.findings.retain(|f| !is_of(f.rule, &f.subject));
            said.cannot_tell.retain(|c| !is_of(c.rule, &c.subject));
        }
        let refused = refusals(&nics);
        if refused.is_empty() {
            continue;
        }
        let mut known = said.findings.iter_mut();
        match known.find(|f| is_of(f.rule, &f.subject)) {
            Some(known) => known.evidence.extend(evidence(&refused)),
            None => said.findings.push(finding(context.ledger, node, &refused)),
        }
        said.cannot_tell.retain(|c| !is_of(c.rule, &c.subject));
    }
}

/// A NIC, the GPU that it was given, and what it answered.
type Refusal<'a> = (&'a NicId, Option<&'a PciAddress>, &'a str);

fn refusals<'a>(nics: &[(&'a NicId, &'a GpuMemory)]) -> Vec<Refusal<'a>> {
    let refusal = |(nic, seen): &(&'a NicId, &'a GpuMemory)| match &seen.verdict {
        GpuVerdict::NotAvailable(why) => Some((*nic, seen.gpu.as_ref(), why.as_str())),
        _ => None,
    };
    nics.iter().filter_map(refusal).collect()
}

fn evidence<'a>(refused: &'a [Refusal<'a>]) -> impl Iterator<Item = Evidence> + 'a {
    refused.iter().take(SHOWN).map(|(nic, _, why)| Evidence {
        saw: format!("registration was refused: {why}"),
        from: format!("a probe of {nic}"),
    })
}

fn finding(ledger: &Ledger, node: &NodeName, refused: &[Refusal<'_>]) -> Finding {
    let devices = in_a_row(refused.iter().map(|(nic, ..)| &*nic.device));
    let promised: BTreeSet<String> = refused
        .iter()
        .filter_map(|(nic, gpu, _)| promise(ledger, nic, (*gpu)?))
        .collect();
    let though = match promised.is_empty() {
        true => String::new(),
        false => {
            let ways: Vec<&str> = promised.iter().map(String::as_str).collect();
            format!(
                ", though by the survey it would work by {}",
                ways.join(" or ")
            )
        }
    };
    let verb = if refused.len() == 1 {
        "refuses"
    } else {
        "refuse"
    };
    plain(
        Rule::GpuDirectOff,
        Severity::Fault,
        Subject::Node(node.clone()),
        format!(
            "GPUDirect RDMA does not work on {node}: {devices} {verb} memory of the GPUs{though}."
        ),
        evidence(refused).collect(),
        REFUSED_REMEDY,
    )
}

/// The way that a NIC has by the survey.
fn promise(ledger: &Ledger, nic: &NicId, gpu: &PciAddress) -> Option<String> {
    let facts = ledger.get_node(&nic.node)?.facts.as_ref()?;
    let gpu = facts.pcie.value()?.function(gpu)?;
    match way(facts, gpu, ledger.device(nic)?) {
        Ok(way @ (GpuWay::Peermem(_) | GpuWay::Dmabuf)) => Some(way.to_string()),
        _ => None,
    }
}

/// A GPU and how fast it was copied.
struct Copied<'a> {
    node: &'a NodeName,
    gpu: &'a PciAddress,
    /// To it, and from it.
    rates: [Gbps; 2],
    from: &'a str,
    stand_in: bool,
}

/// GPUs whose copies are slow.
pub(super) fn check(context: &Context<'_>) -> Vec<Finding> {
    let found = gpu_memory(context.ledger);
    let mut copied: BTreeMap<(&NodeName, &PciAddress), Copied<'_>> = BTreeMap::new();
    for (nic, seen) in &found {
        if let (Some(gpu), Fact::Known { value, from }) = (&seen.gpu, &seen.copies) {
            let rates = [value.to_gpu, value.from_gpu];
            if !rates.iter().all(|rate| rate.is_positive()) {
                continue;
            }
            let of_gpu = Copied {
                node: &nic.node,
                gpu,
                rates,
                from,
                stand_in: seen.stand_in,
            };
            copied.entry((&nic.node, gpu)).or_insert(of_gpu);
        }
    }
    let all: Vec<Copied<'_>> = copied.into_values().collect();
    let slow = all.iter().filter_map(|of| {
        [0, 1].into_iter().find_map(|way| {
            let (expected, from) = expected(context.ledger, &all, of, way)?;
            let share = of.rates[way].share_of(expected)?;
            (share < SLOW).then(|| slow(of, way, expected, from, share))
        })
    });
    slow.collect()
}

/// What a GPU should reach, and from where that is: its link, or what others reach.
fn expected(
    ledger: &Ledger,
    all: &[Copied<'_>],
    of: &Copied<'_>,
    way: usize,
) -> Option<(Gbps, String)> {
    let facts = ledger.get_node(of.node).and_then(|n| n.facts.as_ref());
    let tree = facts.and_then(|facts| facts.pcie.value());
    // The link of a stand-in carries nothing.
    let link = tree
        .filter(|_| !of.stand_in)
        .and_then(|tree| capable_rate(tree, of.gpu));
    if let Some(rate) = link {
        return Some((
            rate,
            "the PCIe link that its ends are capable of".to_owned(),
        ));
    }
    let others = all
        .iter()
        .filter(|other| (other.node, other.gpu) != (of.node, of.gpu));
    let mut rates: Vec<Gbps> = others.map(|other| other.rates[way]).collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let median = *rates.get(rates.len() / 2)?;
    let from = format!("the median of {} other GPUs of the run", rates.len());
    (rates.len() >= ENOUGH).then_some((median, from))
}

fn slow(of: &Copied<'_>, way: usize, expected: Gbps, from: String, share: f64) -> Finding {
    let (Copied { node, gpu, .. }, rate) = (of, of.rates[way]);
    let direction = ["to", "from"][way];
    let finding = plain(
        Rule::GpuCopySlow,
        Severity::Warning,
        Subject::Device((*node).clone(), format!("GPU {gpu}")),
        format!(
            "Data is copied {direction} GPU {gpu} of {node} at {rate}, {share:.2} of {expected} ({from})."
        ),
        vec![Evidence {
            saw: format!("{} to the GPU, {} from it", of.rates[0], of.rates[1]),
            from: format!("{node}: {}", of.from),
        }],
        COPIES_REMEDY,
    );
    Finding {
        measured: Some(rate),
        expected: Some(expected),
        expected_from: Some(from),
        ratio: Some(share),
        ..finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::gpu_memory_testing::{on_gpus, used};
    use crate::judge::judge;
    use crate::judge::rules::testing::without_gpudirect;
    use crate::ledger::testing::{events, ledger};
    use crate::model::{Event, GPU_MEMORY_REFUSED, MemoryWay, NvidiaDriver, Outcome, ProbeStage};

    const H100: &str = "NVIDIA H100 80GB HBM3";

    /// A run on nodes with GPUs, by whose survey dma-buf works or nothing does.
    fn run(open: bool) -> Vec<Event> {
        let mut events = on_gpus(
            events(3, 2, &|_, _, _| Some(391.0)),
            MemoryWay::DmaBuf,
            H100,
        );
        for event in &mut events {
            if let Event::NodeSurveyed { facts, .. } = event {
                let gpus = without_gpudirect();
                (facts.pcie, facts.host, facts.gpudirect) = (gpus.pcie, gpus.host, gpus.gpudirect);
                facts.gpu.nvidia = gpus
                    .gpu
                    .nvidia
                    .map(|driver| NvidiaDriver { open, ..driver });
            }
        }
        events
    }

    fn off(events: &[Event]) -> Vec<Finding> {
        let mut found = judge(&ledger(events)).findings;
        found.retain(|finding| finding.rule == Rule::GpuDirectOff);
        found
    }

    fn refused_on_node02(events: &mut [Event]) {
        for event in events {
            if let Event::ProbeEnded { outcome, .. } = event {
                *outcome = Outcome::Failed {
                    stage: ProbeStage::Prepare,
                    node: Some("node02".into()),
                    why: format!("{GPU_MEMORY_REFUSED}, of GPU 0 with mlx5_0: peer memory: no"),
                };
            }
        }
    }

    #[test]
    fn what_moved_counts_for_more_than_what_the_survey_missed() {
        assert_eq!(off(&run(false)), []);
        // A stand-in proves nothing.
        let mut stand_in = run(false);
        for event in &mut stand_in {
            if let Event::ProbeEnded {
                outcome: Outcome::Measured { measurement, .. },
                ..
            } = event
            {
                measurement.memory = Some(Box::new(used(MemoryWay::DmaBuf, "Stand-in GPU")));
            }
        }
        assert_ne!(off(&stand_in), []);
    }

    #[test]
    fn a_refusal_counts_for_more_than_what_the_survey_promised() {
        let mut events = run(true);
        refused_on_node02(&mut events);
        let found = off(&events);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(
            found[0].says,
            "GPUDirect RDMA does not work on node02: mlx5_0, mlx5_1 refuse memory of the GPUs, though by the \
             survey it would work by dma-buf."
        );
        assert!(
            found[0].evidence[0]
                .saw
                .starts_with("registration was refused: GPU memory is")
        );
    }

    #[test]
    fn a_refusal_that_the_survey_explains_is_evidence() {
        let mut events = run(false);
        refused_on_node02(&mut events);
        let found = off(&events);
        let of_node = found
            .iter()
            .find(|f| f.subject == Subject::Node("node02".into()));
        let last = of_node.unwrap().evidence.last().unwrap();
        assert!(last.saw.starts_with("registration was refused"), "{last:?}");
        assert_eq!(found.len(), 3, "the survey's findings on the others stay");
    }

    fn slow(events: &[Event]) -> Vec<String> {
        let findings = judge(&ledger(events)).findings.into_iter();
        let slow = findings.filter(|finding| finding.rule == Rule::GpuCopySlow);
        slow.map(|finding| finding.says).collect()
    }

    /// The same run, in which the GPU of a node is copied at these rates.
    fn copied(node: &str, to: f64, from: f64) -> Vec<Event> {
        let mut events = run(true);
        let plan: BTreeMap<_, _> = events
            .iter()
            .filter_map(|event| match event {
                Event::RoundPlanned { pairs, .. } => Some(pairs.clone()),
                _ => None,
            })
            .flatten()
            .map(|planned| (planned.probe, planned.pair))
            .collect();
        for event in &mut events {
            let Event::ProbeEnded {
                probe,
                outcome:
                    Outcome::Measured {
                        measurement,
                        verified: Fact::Known { value, .. },
                    },
            } = event
            else {
                continue;
            };
            let pair = &plan[probe];
            let ends = [
                (&pair.from, &mut measurement.memory),
                (&pair.to, &mut value.memory),
            ];
            for (nic, memory) in ends {
                let gpu = memory.as_mut().unwrap().gpu.as_mut().unwrap();
                if let (true, Fact::Known { value, .. }) = (nic.node.0 == *node, &mut gpu.copies) {
                    (value.to_gpu, value.from_gpu) = (Gbps(to), Gbps(from));
                }
            }
        }
        events
    }

    #[test]
    fn slow_copies_are_told_where_there_is_something_to_hold_them_against() {
        // The GPU's address is none of the tree's, and two others are too few.
        assert_eq!(slow(&copied("node02", 10.0, 400.0)), [""; 0]);
        let at = |events: Vec<Event>| {
            let mut events = events;
            let address = crate::model::testing::pcie::TwoSockets::GPU0;
            for event in &mut events {
                if let Event::ProbeEnded {
                    outcome:
                        Outcome::Measured {
                            measurement,
                            verified,
                        },
                    ..
                } = event
                {
                    let target = match verified {
                        Fact::Known { value, .. } => value.memory.as_mut(),
                        Fact::Unknown { .. } => None,
                    };
                    for used in measurement.memory.as_mut().into_iter().chain(target) {
                        used.gpu.as_mut().unwrap().address = PciAddress(address.into());
                    }
                }
            }
            events
        };
        let said = slow(&at(copied("node02", 400.0, 100.0)));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with("Data is copied from GPU 0000:")
                && said[0].contains(" of node02 at 100"),
            "{said:?}"
        );
        assert_eq!(slow(&at(copied("node02", 400.0, 400.0))), [""; 0]);
    }
}
