//! What is probed to learn what moving data costs: the ways of moving it, and who meets whom. A host's
//! CPU time is of everything on it, so no node is in two probes of a round.

use super::leaves::leaves;
use super::patterns::Meeting;
use crate::model::{
    Bytes, Completion, CostSettings, CostStep, LeafGroup, Measure, MemoryKind, NodeName, ProbeKind,
    ProbeSpec,
};

/// The least memory that is filled at each message size: small messages are not bound by it.
const LEAST_MEMORY: u64 = 64 << 20;

/// A probe of the cost of moving data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostProbe {
    /// The way of moving it.
    pub step: CostStep,
    /// What the probe does.
    pub spec: ProbeSpec,
    /// Whether each NIC is once the initiator and once the target of it. One way is enough of what goes
    /// to and fro, and of a comparison of message sizes.
    pub both_ways: bool,
}

/// The probes of each pair of NICs, in order; from and to host memory, so that all ways of moving data
/// can be held against each other. No two of them do the same.
pub fn cost_probes(cost: &CostSettings, probe: &ProbeSpec) -> Vec<CostProbe> {
    let steps = wanted(cost).filter(|step| !step.is_incast());
    let mut probes: Vec<CostProbe> = Vec::new();
    for step in steps {
        for spec in specs(step, cost, probe) {
            let both_ways = !step.is_by_size();
            let same = probes.iter().any(|known| known.spec == spec);
            if !same {
                probes.push(CostProbe {
                    step,
                    spec,
                    both_ways,
                });
            }
        }
    }
    probes
}

/// What each NIC of a many-to-one burst does, a burst after the other; none where none is asked for.
pub fn burst_specs(cost: &CostSettings, probe: &ProbeSpec) -> Vec<(CostStep, ProbeSpec)> {
    let steps = wanted(cost).filter(|step| step.is_incast());
    steps
        .map(|step| (step, at_usual_size(step, cost, probe)))
        .collect()
}

/// The steps that are asked for.
fn wanted(cost: &CostSettings) -> impl Iterator<Item = CostStep> {
    let is_wanted = |step: &CostStep| cost.only.is_empty() || cost.only.contains(step);
    CostStep::ALL.iter().copied().filter(is_wanted)
}

/// What the probes of a step do: one, or one for each message size.
pub fn specs(step: CostStep, cost: &CostSettings, probe: &ProbeSpec) -> Vec<ProbeSpec> {
    let sizes = match step {
        _ if step.is_latency() => &cost.latency_sizes,
        _ if step.is_by_size() => &cost.sizes,
        _ => return vec![at_usual_size(step, cost, probe)],
    };
    let at_size = |size: &Bytes| match step.is_latency() {
        true => to_and_fro(step, *size, cost),
        false => at_size(step, *size, cost, probe),
    };
    sizes.iter().map(at_size).collect()
}

fn kind(step: CostStep) -> ProbeKind {
    match step {
        CostStep::Tcp
        | CostStep::TcpStreams
        | CostStep::LatencyTcp
        | CostStep::SizeTcp
        | CostStep::IncastTcp => ProbeKind::Tcp,
        CostStep::TcpZeroCopy => ProbeKind::TcpZeroCopy,
        CostStep::WriteCopied => ProbeKind::RdmaWriteCopied,
        CostStep::Read => ProbeKind::RdmaRead,
        CostStep::Send | CostStep::LatencySend => ProbeKind::RdmaSend,
        CostStep::WriteImm => ProbeKind::RdmaWriteImm,
        CostStep::Write
        | CostStep::WritePoll
        | CostStep::WriteHuge
        | CostStep::LatencyWrite
        | CostStep::SizeWrite
        | CostStep::IncastWrite => ProbeKind::RdmaWrite,
    }
}

/// A transfer as the run's probes are, over one TCP connection where it is TCP.
fn at_usual_size(step: CostStep, cost: &CostSettings, probe: &ProbeSpec) -> ProbeSpec {
    let kind = kind(step);
    let (message_size, depth, queue_pairs) = match (step, kind.is_tcp()) {
        (CostStep::TcpStreams, _) => (cost.tcp_message, 1, cost.tcp_streams),
        (_, true) => (cost.tcp_message, 1, 1),
        (_, false) => (probe.message_size, probe.depth, probe.queue_pairs),
    };
    ProbeSpec {
        kind,
        message_size,
        depth,
        queue_pairs,
        duration_ms: cost.duration_ms,
        completion: match step {
            CostStep::WritePoll => Completion::Poll,
            _ => Completion::Event,
        },
        memory: match step {
            CostStep::WriteHuge => MemoryKind::HostHuge,
            _ => MemoryKind::Host,
        },
        stop_at: None,
        measure: Measure::Rate,
        // A host that several send to at once does not tell what one of them costs.
        account: !step.is_incast(),
    }
}

/// The same with messages of a size, no more of them in flight than memory is meant for.
fn at_size(step: CostStep, size: Bytes, cost: &CostSettings, probe: &ProbeSpec) -> ProbeSpec {
    let usual = at_usual_size(step, cost, probe);
    let all = |bytes: u64| bytes.saturating_mul(usual.depth.into());
    let most = all(usual.message_size.0).max(LEAST_MEMORY / u64::from(usual.queue_pairs.max(1)));
    let fit = (most / size.0.max(1)).max(1);
    ProbeSpec {
        message_size: size,
        depth: u32::try_from(fit).map_or(usual.depth, |fit| usual.depth.min(fit)),
        ..usual
    }
}

/// One message at a time. RDMA is polled for, as whoever looks for the shortest time does.
fn to_and_fro(step: CostStep, size: Bytes, cost: &CostSettings) -> ProbeSpec {
    let kind = kind(step);
    ProbeSpec {
        kind,
        message_size: size,
        depth: 1,
        queue_pairs: 1,
        duration_ms: cost.duration_ms,
        completion: match kind.is_tcp() {
            true => Completion::Event,
            false => Completion::Poll,
        },
        memory: MemoryKind::Host,
        stop_at: None,
        measure: Measure::PingPong,
        account: false,
    }
}

/// Nodes two by two, in rounds: those of one leaf group first, then what these leave over. Of an odd
/// number the last meets one that has met already, in a round of its own.
pub fn neighbours(nodes: &[NodeName], groups: &[LeafGroup]) -> Vec<Vec<Meeting>> {
    let (mut met, mut over) = (Vec::new(), Vec::new());
    let two = |pair: &[NodeName]| (pair[0].clone(), pair[1].clone());
    for group in leaves(nodes, groups).groups {
        let pairs = group.chunks_exact(2);
        over.extend_from_slice(pairs.remainder());
        met.extend(pairs.map(two));
    }
    let pairs = over.chunks_exact(2);
    let last = pairs.remainder().first().cloned();
    met.extend(pairs.map(two));
    let with = last.and_then(|last| {
        let group = leaves(nodes, groups).groups;
        let mine = group.into_iter().find(|group| group.contains(&last))?;
        let near = mine.into_iter().find(|other| *other != last);
        let other = near.or_else(|| Some(met.first()?.0.clone()))?;
        Some((last, other))
    });
    let mut rounds = vec![met];
    rounds.extend(with.map(|meeting| vec![meeting]));
    rounds.retain(|round| !round.is_empty());
    rounds
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// Settings as a small file has them.
    pub(crate) fn settings() -> CostSettings {
        CostSettings {
            duration_ms: 1000,
            tcp_streams: 8,
            tcp_message: Bytes(1 << 20),
            sizes: [64, 4096, 1 << 20].map(Bytes).to_vec(),
            latency_sizes: [2, 4096].map(Bytes).to_vec(),
            only: Vec::new(),
        }
    }

    fn usual() -> ProbeSpec {
        ProbeSpec {
            kind: ProbeKind::RdmaWrite,
            message_size: Bytes(65536),
            depth: 16,
            queue_pairs: 2,
            duration_ms: 500,
            completion: Completion::Event,
            memory: MemoryKind::Gpu,
            stop_at: None,
            measure: Measure::Rate,
            account: false,
        }
    }

    #[test]
    fn every_step_is_made_once_at_each_of_its_sizes() {
        let probes = cost_probes(&settings(), &usual());
        let named = |step: CostStep| probes.iter().filter(move |probe| probe.step == step);
        for step in CostStep::ALL {
            let wanted = match step {
                step if step.is_incast() => 0,
                // A message of 1 MiB over one connection is the step `tcp`.
                CostStep::SizeTcp => 2,
                CostStep::SizeWrite => 3,
                step if step.is_latency() => 2,
                _ => 1,
            };
            assert_eq!(named(*step).count(), wanted, "{step}");
        }
        let one = |step| named(step).next().unwrap().spec.clone();
        assert_eq!(one(CostStep::TcpStreams).queue_pairs, 8);
        assert_eq!(one(CostStep::Write).queue_pairs, 2);
        assert_eq!(one(CostStep::WritePoll).completion, Completion::Poll);
        assert_eq!(one(CostStep::WriteHuge).memory, MemoryKind::HostHuge);
        assert!(
            probes
                .iter()
                .all(|probe| probe.spec.memory != MemoryKind::Gpu)
        );
        assert!(probes.iter().all(|probe| probe.spec.duration_ms == 1000));
        let accounted = |probe: &&CostProbe| probe.spec.account;
        let latency = |probe: &&CostProbe| probe.step.is_latency();
        assert!(!probes.iter().filter(accounted).any(|probe| latency(&probe)));
        assert_eq!(probes.iter().filter(|p| !p.spec.account).count(), 6);
    }

    #[test]
    fn a_burst_is_told_from_all_that_pairs_do() {
        let bursts = burst_specs(&settings(), &usual());
        let steps: Vec<CostStep> = bursts.iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, [CostStep::IncastWrite, CostStep::IncastTcp]);
        let probes = cost_probes(&settings(), &usual());
        for (step, spec) in &bursts {
            assert!(probes.iter().all(|probe| probe.spec != *spec), "{step}");
            assert_eq!(
                specs(*step, &settings(), &usual()),
                std::slice::from_ref(spec)
            );
            assert!(!spec.account && spec.memory == MemoryKind::Host);
        }
        let only = vec![CostStep::Tcp];
        let settings = CostSettings { only, ..settings() };
        assert!(burst_specs(&settings, &usual()).is_empty());
    }

    #[test]
    fn only_what_is_asked_for_is_made() {
        let only = vec![CostStep::SizeWrite, CostStep::Tcp];
        let settings = CostSettings { only, ..settings() };
        let probes = cost_probes(&settings, &usual());
        let steps: Vec<CostStep> = probes.iter().map(|probe| probe.step).collect();
        let by_size = CostStep::SizeWrite;
        assert_eq!(steps, [CostStep::Tcp, by_size, by_size, by_size]);
    }

    #[test]
    fn large_messages_take_no_more_memory() {
        let sizes = vec![Bytes(2), Bytes(8 << 20), Bytes(1 << 30)];
        let settings = CostSettings {
            sizes,
            ..settings()
        };
        let probe = ProbeSpec {
            depth: 8192,
            queue_pairs: 1,
            ..usual()
        };
        let depth = |spec: ProbeSpec| spec.depth;
        let depths: Vec<u32> = specs(CostStep::SizeWrite, &settings, &probe)
            .into_iter()
            .map(depth)
            .collect();
        assert_eq!(depths, [8192, 64, 1]);
    }

    fn nodes(n: usize) -> Vec<NodeName> {
        (0..n).map(|i| NodeName::from(format!("n{i:02}"))).collect()
    }

    #[test]
    fn neighbours_are_of_one_leaf_where_they_can_be() {
        let group = |name: &str, nodes: &[NodeName]| LeafGroup {
            name: name.into(),
            nodes: nodes.to_vec(),
        };
        let all = nodes(7);
        let groups = [group("a", &all[..3]), group("b", &all[3..6])];
        let shown: Vec<String> = neighbours(&all, &groups)
            .iter()
            .map(|round| {
                let pairs: Vec<String> = round.iter().map(|(a, b)| format!("{a}:{b}")).collect();
                pairs.join(" ")
            })
            .collect();
        assert_eq!(shown, ["n00:n01 n03:n04 n02:n05", "n06:n00"]);
        assert!(neighbours(&all[..1], &[]).is_empty());
        assert!(neighbours(&[], &[]).is_empty());
    }

    proptest! {
        #[test]
        fn every_node_meets_a_neighbour_and_none_two_at_a_time(n in 2usize..60, size in 1usize..9) {
            let all = nodes(n);
            let group = |(at, nodes): (usize, &[NodeName])| LeafGroup {
                name: at.to_string(),
                nodes: nodes.to_vec(),
            };
            let groups: Vec<LeafGroup> = all.chunks(size).enumerate().map(group).collect();
            let rounds = neighbours(&all, &groups);
            prop_assert_eq!(rounds.len(), 1 + n % 2);
            let mut met = HashSet::new();
            for round in &rounds {
                let mut busy = HashSet::new();
                for (a, b) in round {
                    prop_assert!(busy.insert(a) && busy.insert(b));
                    met.extend([a, b]);
                }
            }
            prop_assert_eq!(met.len(), n);
        }
    }
}
