//! Whole runs made of a function from pair to rate, for tests of everything that reads a ledger.

use super::Ledger;
use crate::model::testing::{facts, gid, port};
use crate::model::*;

/// The events of a complete run of `nodes` x `rails`, every ordered pair measured once at
/// `rate(from node, to node, rail)` Gb/s; `None` fails the pair. The line rate is 400 Gb/s.
pub fn events(
    nodes: usize,
    rails: u16,
    rate: &dyn Fn(usize, usize, u16) -> Option<f64>,
) -> Vec<Event> {
    let names: Vec<NodeName> = (1..=nodes)
        .map(|n| NodeName::from(format!("node{n:02}")))
        .collect();
    let mut events = vec![started(&names, rails)];
    for node in &names {
        events.push(Event::NodeConnected {
            node: node.clone(),
            agent: "0.1.0".into(),
        });
        events.push(Event::NodeSurveyed {
            node: node.clone(),
            facts: Box::new(node_facts(rails)),
        });
    }
    let nic = |node: &NodeName, rail: u16| NicId {
        node: node.clone(),
        device: format!("mlx5_{rail}").into(),
        port: 1,
    };
    let all = || {
        names
            .iter()
            .flat_map(|node| (0..rails).map(move |rail| (node, rail)))
    };
    let rail_nic = |(node, rail): (&NodeName, u16)| RailNic {
        node: node.clone(),
        rail: Rail(rail),
        nic: Fact::known(nic(node, rail), "test"),
    };
    events.push(Event::RailsResolved {
        nics: all().map(rail_nic).collect(),
    });
    let mut probe = 0;
    for (i, from) in names.iter().enumerate() {
        for (j, to) in names.iter().enumerate().filter(|(j, _)| *j != i) {
            for rail in 0..rails {
                let pair = Pair {
                    from: nic(from, rail),
                    to: nic(to, rail),
                    rail: Rail(rail),
                };
                events.extend(probed(ProbeId(probe), pair, rate(i, j, rail)));
                probe += 1;
            }
        }
    }
    events.push(Event::RunFinished {
        end: RunEnd::Complete,
    });
    events
}

/// The events of one probe: its round, start and end.
pub fn probed(probe: ProbeId, pair: Pair, rate: Option<f64>) -> Vec<Event> {
    let address = PortAddress {
        gid_index: 3,
        gid: "::ffff:10.101.0.1".parse().expect("a GID"),
    };
    let route = Route {
        from: address,
        to: address,
    };
    let outcome = match rate {
        Some(rate) => measured(rate),
        None => Outcome::Failed {
            stage: ProbeStage::Prepare,
            node: Some(pair.from.node.clone()),
            why: "registering 1 MiB failed".into(),
        },
    };
    vec![
        Event::RoundPlanned {
            round: probe.0 as u32,
            pairs: vec![PlannedPair {
                probe,
                pair,
                route,
                purpose: Purpose::Pattern,
                spec: None,
            }],
        },
        Event::ProbeStarted { probe },
        Event::ProbeEnded { probe, outcome },
    ]
}

/// An outcome of one second at `rate` Gb/s.
pub fn measured(rate: f64) -> Outcome {
    let bytes = (rate * 1e9 / 8.0) as u64;
    Outcome::Measured {
        measurement: Measurement {
            bytes,
            elapsed_us: 1_000_000,
            began_us: Some(50_000),
            total_bytes: bytes,
            windows: Vec::new(),
            cpu: CpuUse {
                user_us: 1,
                system_us: 1,
                host: Fact::unknown("test"),
                elapsed_us: Fact::default(),
                idle: Fact::default(),
                cycles: Fact::default(),
            },
            mtu: 4096,
            counters: Fact::default(),
            pauses: Fact::default(),
            latency: Fact::default(),
            end: TransferEnd::TimeUp,
            ping_pong: None,
            registration: None,
            tcp: None,
            fetched: None,
            memory: None,
        },
        verified: Fact::known(
            Verification {
                bytes_checked: 1 << 20,
                bytes_wrong: 0,
                counters: Fact::default(),
                pauses: Fact::default(),
                cpu: Fact::default(),
                memory: None,
            },
            "test",
        ),
    }
}

/// The ledger after these events.
pub fn ledger(events: &[Event]) -> Ledger {
    let mut ledger = Ledger::default();
    events.iter().for_each(|event| ledger.apply(event));
    ledger
}

fn started(names: &[NodeName], rails: u16) -> Event {
    Event::RunStarted {
        schema: SCHEMA,
        linerate: "0.1.0".into(),
        settings: RunSettings {
            nodes: names.to_vec(),
            rails: RailRule::Device {
                names: (0..rails).map(|rail| format!("mlx5_{rail}")).collect(),
            },
            probe: ProbeSpec {
                kind: ProbeKind::RdmaWrite,
                message_size: Bytes(65536),
                depth: 16,
                queue_pairs: 1,
                duration_ms: 1000,
                completion: Completion::Event,
                memory: MemoryKind::Host,
                stop_at: None,
                measure: Measure::Rate,
                account: false,
            },
            expect: Expect {
                line_rate: None,
                half_below: 0.65,
                degraded_below: 0.85,
            },
            sweep: SweepSettings::default(),
            cost: None,
            nccl: None,
            seed: 1,
            force: false,
            simulated: false,
        },
    }
}

fn node_facts(rails: u16) -> NodeFacts {
    let names: Vec<_> = (0..rails)
        .map(|rail| {
            (
                format!("mlx5_{rail}"),
                format!("0000:{:02x}:00.0", rail + 1),
            )
        })
        .collect();
    let gids = vec![gid(3, "::ffff:10.101.0.1", GidType::RoceV2, 24)];
    let one = |(name, pci): &(String, String)| {
        (
            name.clone(),
            pci.clone(),
            Port {
                gids: gids.clone(),
                ..port()
            },
        )
    };
    let devices: Vec<_> = names.iter().map(one).collect();
    facts(
        devices
            .iter()
            .map(|(name, pci, port)| (&**name, &**pci, port.clone()))
            .collect(),
    )
}
