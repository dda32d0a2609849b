//! Every kind of check: where it holds, where it does not, and where it cannot be judged.

use proptest::prelude::*;

use super::testing::*;
use super::{Before, init};
use crate::config::read_profile;
use crate::judge::{cost_testing, judge};
use crate::ledger::testing::{ledger, probed};
use crate::model::*;

const WHY: &str = "the file is not there";

fn pick(node: usize, rail: u16, ratio: f64) -> impl Fn(usize, usize, u16) -> Option<f64> {
    move |from, _, on| {
        Some(if (from, on) == (node, rail) {
            ratio * FULL
        } else {
            FULL
        })
    }
}

#[test]
fn nodes_nics_and_gpus_are_counted() {
    let mut run = servers(3);
    holds("of = \"nodes\"\nis = 3", &run);
    fails("of = \"nodes\"\nat_least = 4", &run, &["the cluster"]);
    holds("of = \"nics\"\nis = 5", &run);
    fails(
        "of = \"nics\"\nat_least = 6",
        &run,
        &["node01", "node02", "node03"],
    );
    holds("of = \"gpus\"\nis = 3", &run);
    fails(
        "of = \"gpus\"\nis = 8",
        &run,
        &["node01", "node02", "node03"],
    );
    facts_at(&mut run, "node02", &|facts| {
        facts.pcie = Fact::unknown(WHY);
        facts.rdma = Fact::unknown(WHY);
    });
    unknown("of = \"gpus\"\nis = 3", &run, &["node02"]);
    unknown("of = \"nics\"\nis = 5", &run, &["node02"]);
    // What could not be read may be a GPU.
    facts_at(&mut run, "node03", &|facts| {
        if let Fact::Known { value, .. } = &mut facts.pcie {
            value.unread.push("0000:99:00.0: gone".into());
        }
    });
    unknown("of = \"gpus\"\nis = 3", &run, &["node02", "node03"]);
    unknown("of = \"gpus\"\nat_least = 3", &run, &["node02"]);
    run.retain(|event| !matches!(event, Event::NodeSurveyed { node, .. } if node.0 == "node01"));
    fails("of = \"nodes\"\nis = 3", &run, &["the cluster"]);
    unknown("of = \"gpus\"\nat_least = 3", &run, &["node01", "node02"]);
}

#[test]
fn versions_are_pinned() {
    let mut run = healthy(3, 1);
    holds("of = \"firmware\"\nis = \"28.39.*\"", &run);
    holds("of = \"firmware\"\nat_least = \"28.39\"", &run);
    holds("of = \"firmware\"\nsame = true", &run);
    holds("of = \"kernel\"\none_of = [\"5.*\", \"6.1.0\"]", &run);
    fails(
        "of = \"kernel\"\nis = \"6.2.0\"",
        &run,
        &["node01", "node02", "node03"],
    );
    facts_at(&mut run, "node02", &|facts| {
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value[0].firmware = Fact::known("28.9.1".into(), "fw_ver");
        }
    });
    fails(
        "of = \"firmware\"\nat_least = \"28.39\"",
        &run,
        &["mlx5_0 of node02"],
    );
    fails(
        "of = \"firmware\"\nsame = true",
        &run,
        &["mlx5_0 of node02"],
    );
    facts_at(&mut run, "node03", &|facts| {
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value[0].firmware = Fact::unknown(WHY);
        }
    });
    // One against one: nobody knows who is right, and all are told.
    let said = says("of = \"firmware\"\nsame = true", &run);
    assert!(
        said[0].starts_with("fails mlx5_0 of node01")
            && said[1].starts_with("fails mlx5_0 of node02")
    );
    assert_eq!(said[2], format!("unknown mlx5_0 of node03: {WHY}"));
    unknown(
        "of = \"module\"\nmodule = \"mlx5_core\"\nsame = true",
        &run,
        &["node01", "node02", "node03"],
    );
    let module = |version: Fact<String>| KernelModule {
        name: "mlx5_core".into(),
        version,
    };
    facts_of(&mut run, &|node, facts| {
        let version = match node.0.as_str() {
            "node01" => Fact::unknown("none"),
            _ => Fact::known("24.10".to_owned(), "version"),
        };
        facts.host.modules = Fact::known(vec![module(version)], "/sys/module");
    });
    fails(
        "of = \"module\"\nmodule = \"mlx5_core\"\nsame = true",
        &run,
        &["node01"],
    );
    unknown(
        "of = \"module\"\nmodule = \"mlx5_core\"\nat_least = \"24.10\"",
        &run,
        &["node01"],
    );
    fails(
        "of = \"module\"\nmodule = \"mlx5_ib\"\nat_least = \"24.10\"",
        &run,
        &["node01", "node02", "node03"],
    );
    // The only one of its kind is held against nobody.
    let alone = healthy(2, 1);
    let said = says(
        "of = \"firmware\"\nsame = true\nnodes = [\"node01\"]",
        &alone,
    );
    assert!(said[0].contains("the only one of its kind"), "{said:?}");
}

#[test]
fn models_and_drivers_are_told() {
    let run = servers(2);
    unknown(
        "of = \"gpu-driver\"\nsame = true",
        &run,
        &["node01", "node02"],
    );
    unknown(
        "of = \"nic-model\"\nis = \"MT*\"",
        &run,
        &[
            "mlx5_0 of node01",
            "mlx5_1 of node01",
            "mlx5_2 of node01",
            "mlx5_3 of node01",
            "mlx5_4 of node01",
            "mlx5_0 of node02",
            "mlx5_1 of node02",
            "mlx5_2 of node02",
            "mlx5_3 of node02",
            "mlx5_4 of node02",
        ],
    );
    holds("of = \"nic-driver\"\nis = \"mlx5_core\"", &run);
    // The repository of PCI ids has the H100.
    holds("of = \"gpu-model\"\nis = \"*H100*\"", &run);
    let said = says("of = \"gpu-model\"\nis = \"NVIDIA B200\"", &run);
    assert!(
        said.len() == 6 && said.iter().all(|line| line.starts_with("fails GPU")),
        "{said:?}"
    );
    // A board that nobody knows is not passed over.
    let mut run = servers(2);
    facts_at(&mut run, "node02", &|facts| {
        if let Fact::Known { value, .. } = &mut facts.pcie {
            let gpus = value
                .functions
                .iter_mut()
                .filter(|f| f.role == PciRole::Gpu);
            gpus.for_each(|gpu| gpu.device = Fact::known(0xfff0, "device"));
        }
    });
    let gpus = ["GPU0 of node02", "GPU1 of node02", "GPU2 of node02"];
    unknown("of = \"gpu-model\"\nis = \"*H100*\"", &run, &gpus);
    let none = healthy(2, 1);
    unknown(
        "of = \"gpu-model\"\nsame = true",
        &none,
        &["node01", "node02"],
    );
}

#[test]
fn links_and_ports_are_as_demanded() {
    let mut run = healthy(3, 1);
    holds("of = \"link-rate\"\nat_least = \"400 Gb/s\"", &run);
    holds("of = \"mtu\"\nis = 4096", &run);
    holds("of = \"link-layer\"\nis = \"Ethernet\"", &run);
    holds("of = \"gid-type\"\nis = \"RoCE v2\"", &run);
    holds("of = \"memlock\"\nis = \"unlimited\"", &run);
    let all = ["mlx5_0 of node01", "mlx5_0 of node02", "mlx5_0 of node03"];
    unknown("of = \"link-width\"\nis = 4", &run, &all);
    fails("of = \"link-layer\"\nis = \"InfiniBand\"", &run, &all);
    fails("of = \"gid-type\"\nis = \"IB\"", &run, &all);
    ports_at(&mut run, "node01", &|port| {
        port.lanes = Fact::known(
            Lanes {
                count: 2,
                speed: None,
            },
            "rate",
        );
        port.active_mtu = Fact::known(1024, "active_mtu");
        port.rate = Fact::known(Gbps(200.0), "rate");
        port.gids[0].kind = Fact::known(GidType::IbOrRoceV1, "types");
    });
    ports_at(&mut run, "node02", &|port| {
        port.active_mtu = Fact::unknown(WHY);
        port.rate = Fact::unknown(WHY);
        port.gids.clear();
        port.link_layer = Fact::unknown(WHY);
    });
    facts_at(&mut run, "node02", &|facts| {
        facts.memlock = Fact::unknown(WHY)
    });
    facts_at(&mut run, "node03", &|facts| {
        facts.memlock = Fact::known(MemlockLimit::Bytes(Bytes(65536)), "limits");
    });
    for check in [
        "of = \"mtu\"\nis = 4096",
        "of = \"link-rate\"\nat_least = \"400 Gb/s\"",
        "of = \"gid-type\"\nis = \"RoCE v2\"",
    ] {
        fails(check, &run, &["mlx5_0 of node01"]);
        let said = says(check, &run);
        assert!(said[1].starts_with("unknown mlx5_0 of node02"), "{said:?}");
    }
    fails("of = \"link-width\"\nis = 4", &run, &["mlx5_0 of node01"]);
    unknown(
        "of = \"link-layer\"\nis = \"Ethernet\"",
        &run,
        &["mlx5_0 of node02"],
    );
    fails("of = \"memlock\"\nat_least = \"16 GiB\"", &run, &["node03"]);
    // Software RDMA states a rate that means nothing.
    facts_at(&mut run, "node03", &|facts| {
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value[0].software = Some(SoftwareRdma::Rxe);
        }
    });
    let said = says("of = \"link-rate\"\nat_least = \"1 Gb/s\"", &run);
    assert!(
        said[2].starts_with("unknown mlx5_0 of node03: it is software"),
        "{said:?}"
    );
}

#[test]
fn every_hop_of_pcie_counts() {
    let mut run = servers(2);
    let slow = ["mlx5_4 of node01", "mlx5_4 of node02"];
    fails("of = \"pcie\"\nat_least = \"Gen5 x16\"", &run, &slow);
    fails("of = \"pcie\"\nis = \"capable\"", &run, &slow);
    holds("of = \"pcie\"\nat_least = \"32 GT/s x8\"", &run);
    holds("of = \"pcie\"\nat_least = \"Gen5\"\nrails = [0]", &run);
    facts_at(&mut run, "node02", &|facts| {
        if let Fact::Known { value, .. } = &mut facts.pcie {
            // The switch above the first NIC, both of the ends that tell of a link.
            for function in &mut value.functions {
                if ["0000:11:00.0", "0000:10:01.0"].contains(&function.address.0.as_str()) {
                    function.link = PcieLink::unknown(WHY);
                }
            }
        }
    });
    unknown(
        "of = \"pcie\"\nat_least = \"x8\"",
        &run,
        &["mlx5_0 of node02"],
    );
    // What is above is not read: then nothing is known of it.
    facts_at(&mut run, "node01", &|facts| {
        if let Fact::Known { value, .. } = &mut facts.pcie {
            value
                .functions
                .retain(|function| function.address.0 != "0000:10:01.0");
        }
    });
    unknown(
        "of = \"pcie\"\nat_least = \"x8\"\nrails = [0]",
        &run,
        &["mlx5_0 of node01", "mlx5_0 of node02"],
    );
    unknown(
        "of = \"pcie\"\nat_least = \"x8\"",
        &healthy(2, 1),
        &["mlx5_0 of node01", "mlx5_0 of node02"],
    );
}

#[test]
fn gpus_are_near_and_reached() {
    let mut run = servers(2);
    holds("of = \"gpu-path\"\nat_most = \"PXB\"\nrails = [0, 4]", &run);
    holds("of = \"gpu-path\"\nat_most = \"NODE\"", &run);
    let far = ["mlx5_1 of node01", "mlx5_2 of node01", "mlx5_3 of node01"];
    let far: Vec<String> = far
        .iter()
        .flat_map(|nic| [(*nic).to_owned(), nic.replace("node01", "node02")])
        .collect();
    let mut far: Vec<&str> = far.iter().map(String::as_str).collect();
    far.sort_by_key(|nic| (nic.ends_with("node02"), *nic));
    fails("of = \"gpu-path\"\nat_most = \"PXB\"", &run, &far);
    holds("of = \"numa\"\nis = \"as GPU\"\nrails = [0, 4]", &run);
    fails(
        "of = \"numa\"\nis = 0\nrails = [4]",
        &run,
        &["mlx5_4 of node01", "mlx5_4 of node02"],
    );
    // GPUDirect was not looked for.
    unknown(
        "of = \"gpudirect\"\nis = \"peermem\"\nrails = [0]",
        &run,
        &["mlx5_0 of node01", "mlx5_0 of node02"],
    );
    facts_of(&mut run, &|node, facts| {
        let open = node.0 == "node01";
        let version = "550.54.15".into();
        facts.gpu.nvidia = Fact::known(NvidiaDriver { version, open }, "version");
        facts.gpudirect.peer_clients = Fact::known(Vec::new(), "memory_peers");
        facts.host.modules = Fact::known(Vec::new(), "/sys/module");
    });
    fails(
        "of = \"gpudirect\"\none_of = [\"peermem\", \"dma-buf\"]\nrails = [0]",
        &run,
        &["mlx5_0 of node02"],
    );
    fails(
        "of = \"gpudirect\"\nis = \"peermem\"\nrails = [0]",
        &run,
        &["mlx5_0 of node01", "mlx5_0 of node02"],
    );
    let none = healthy(2, 1);
    for check in [
        "of = \"gpu-path\"\nat_most = \"SYS\"",
        "of = \"numa\"\nis = \"as GPU\"",
        "of = \"gpudirect\"\nis = \"peermem\"",
    ] {
        let said = says(check, &none);
        assert!(
            !said.is_empty() && said.iter().all(|line| line.starts_with("unknown ")),
            "{said:?}"
        );
    }
}

#[test]
fn bandwidth_is_held_against_a_rate_a_ceiling_and_a_median() {
    let run = healthy(4, 1);
    for least in ["360 Gb/s", "95% of ceiling", "90% of median"] {
        holds(&format!("of = \"bandwidth\"\nat_least = \"{least}\""), &run);
    }
    let slow = at(4, 1, &pick(1, 0, 0.5));
    for least in ["360 Gb/s", "92% of ceiling", "90% of median"] {
        let check = format!("of = \"bandwidth\"\nat_least = \"{least}\"");
        fails(&check, &slow, &["mlx5_0 of node02 tx"]);
        holds(&format!("{check}\ndirection = \"rx\""), &slow);
        holds(
            &format!("{check}\nnodes = [\"node01\"]\ndirection = \"tx\""),
            &slow,
        );
    }
    // A median of two says nothing of either.
    let two = healthy(2, 1);
    let ends = [
        "mlx5_0 of node01 tx",
        "mlx5_0 of node01 rx",
        "mlx5_0 of node02 tx",
        "mlx5_0 of node02 rx",
    ];
    unknown(
        "of = \"bandwidth\"\nat_least = \"90% of median\"",
        &two,
        &ends,
    );
    // Without a line rate there is no ceiling.
    let mut blind = healthy(2, 1);
    ports_at(&mut blind, "node01", &|port| port.rate = Fact::unknown(WHY));
    unknown(
        "of = \"bandwidth\"\nat_least = \"90% of ceiling\"",
        &blind,
        &ends,
    );
    let gpu = "of = \"bandwidth\"\nat_least = \"1 Gb/s\"\nmemory = \"gpu\"";
    unknown(gpu, &two, &ends);
    holds(&gpu.replace("gpu", "host"), &two);
    // No round of these runs loads both directions.
    let sum = "of = \"bandwidth\"\nat_least = \"720 Gb/s\"\ndirection = \"sum\"";
    unknown(sum, &two, &["mlx5_0 of node01", "mlx5_0 of node02"]);
}

#[test]
fn both_directions_at_once_are_added_up() {
    let mut run = healthy(2, 1);
    for event in &mut run {
        if let Event::RoundPlanned { round, .. } = event {
            *round = 0;
        }
    }
    let sum =
        |least: &str| format!("of = \"bandwidth\"\nat_least = \"{least}\"\ndirection = \"sum\"");
    holds(&sum("720 Gb/s"), &run);
    holds(&sum("95% of ceiling"), &run);
    fails(
        &sum("800 Gb/s"),
        &run,
        &["mlx5_0 of node01", "mlx5_0 of node02"],
    );
}

#[test]
fn spread_is_of_a_rail() {
    let run = at(4, 2, &pick(1, 1, 0.9));
    fails("of = \"spread\"\nat_most = \"5%\"", &run, &["rail 1 tx"]);
    holds("of = \"spread\"\nat_most = \"11%\"", &run);
    // One that was not measured might be the slowest.
    let lost = at(4, 1, &|from, to, _| (from != 2 && to != 2).then_some(FULL));
    unknown(
        "of = \"spread\"\nat_most = \"5%\"",
        &lost,
        &["rail 0 tx", "rail 0 rx"],
    );
    let alone = at(2, 1, &|_, _, _| None);
    unknown(
        "of = \"spread\"\nat_most = \"5%\"",
        &alone,
        &["rail 0 tx", "rail 0 rx"],
    );
}

#[test]
fn all_rails_at_once_are_held_against_one_alone() {
    let check = "of = \"rails-together\"\nat_least = \"95%\"\nnodes = [\"node01\"]\nrails = [0]";
    let mut run = at(2, 2, &|_, _, _| Some(0.8 * FULL));
    // All rails of both nodes in one round, each way.
    for event in &mut run {
        if let Event::RoundPlanned { round, pairs } = event {
            *round = u32::from(pairs[0].pair.from.node.0 == "node01");
        }
    }
    unknown(check, &run, &["mlx5_0 of node01 tx", "mlx5_0 of node01 rx"]);
    let pair = |run: &[Event], node: &str| {
        let planned = run.iter().find_map(|event| match event {
            Event::RoundPlanned { pairs, .. } if pairs[0].pair.from.node.0 == node => {
                Some(pairs[0].pair.clone())
            }
            _ => None,
        });
        planned.unwrap()
    };
    let end = run.pop().unwrap();
    for (id, node) in [(90, "node01"), (91, "node02")] {
        let mut alone = probed(ProbeId(id), pair(&run, node), Some(FULL));
        if let Event::RoundPlanned { pairs, .. } = &mut alone[0] {
            pairs[0].purpose = Purpose::Alone;
        }
        run.extend(alone);
    }
    run.push(end);
    fails(check, &run, &["mlx5_0 of node01 tx", "mlx5_0 of node01 rx"]);
    holds(&check.replace("95%", "75%"), &run);
    let one_rail = healthy(2, 1);
    let said = says("of = \"rails-together\"\nat_least = \"95%\"", &one_rail);
    assert!(
        said.iter()
            .all(|line| line.ends_with("the run has one rail")),
        "{said:?}"
    );
}

fn cost_run(change: &dyn Fn(CostStep, &mut Outcome)) -> Vec<Event> {
    let mut events = cost_testing::events_of(2, &[CostStep::Write, CostStep::LatencyWrite], change);
    facts_of(&mut events, &|node, facts| {
        facts.hostname = Fact::known(node.to_string(), "uname")
    });
    events
}

fn ping_pong(p99_ns: u64, samples: u64) -> impl Fn(CostStep, &mut Outcome) {
    move |step, outcome| {
        if let (CostStep::LatencyWrite, Outcome::Measured { measurement, .. }) = (step, outcome) {
            measurement.ping_pong = Some(PingPong {
                bytes: 2,
                min_ns: 1000,
                median_ns: 1100,
                p99_ns,
                p999_ns: 9000,
                max_ns: 90_000,
                samples,
            });
        }
    }
}

#[test]
fn latency_is_that_of_messages_to_and_fro() {
    let check = "of = \"latency\"\nat_most = \"5 us\"\npercentile = \"p99\"";
    let nics = ["mlx5_0 of node01", "mlx5_0 of node02"];
    holds(check, &cost_run(&ping_pong(4000, 1000)));
    fails(check, &cost_run(&ping_pong(6000, 1000)), &nics);
    // One of a hundred of fifty is nobody.
    unknown(check, &cost_run(&ping_pong(4000, 50)), &nics);
    unknown(
        &format!("{check}\nmessage = \"8 KiB\""),
        &cost_run(&ping_pong(4000, 1000)),
        &nics,
    );
    unknown(
        &format!("{check}\nway = \"tcp\""),
        &cost_run(&ping_pong(4000, 1000)),
        &nics,
    );
    unknown(check, &healthy(2, 1), &nics);
}

#[test]
fn cpu_time_is_that_of_the_whole_host() {
    let check = |most: &str| format!("of = \"cpu\"\nat_most = \"{most} cores\"\nend = \"sender\"");
    let nics = [
        "mlx5_0 of node01 as the sender",
        "mlx5_0 of node02 as the sender",
    ];
    // 0.4 cores for 390 Gb/s, less than a tenth more by ticks.
    let run = cost_run(&|_, _| ());
    holds(&check("0.2"), &run);
    fails(&check("0.05"), &run, &nics);
    // Within what ticks tell.
    unknown(&check("0.103"), &run, &nics);
    let blind = cost_run(&|_, outcome| {
        if let Outcome::Measured { measurement, .. } = outcome {
            measurement.cpu.host = Fact::unknown(WHY);
        }
    });
    // What is known from below may be too much, and never enough.
    unknown(&check("1"), &blind, &nics);
    fails(&check("0.05"), &blind, &nics);
    unknown(&check("1"), &healthy(2, 1), &nics);
    let ends = [
        "mlx5_0 of node01 as the receiver",
        "mlx5_0 of node02 as the receiver",
    ];
    holds(
        "of = \"cpu\"\nat_most = \"0.5 cores\"\nend = \"receiver\"",
        &run,
    );
    unknown(
        "of = \"cpu\"\nat_most = \"0.5 cores\"\nend = \"receiver\"\nway = \"tcp\"",
        &run,
        &ends,
    );
}

#[test]
fn counters_must_not_grow() {
    let run = healthy(2, 1);
    holds("of = \"counters\"", &run);
    let nics = ["mlx5_0 of node01", "mlx5_0 of node02"];
    // A counter that is not there cannot grow.
    unknown(
        "of = \"counters\"\ncounters = [\"link_downed\"]",
        &run,
        &nics,
    );
    let grown = |name: &str, by: Option<u64>| {
        let mut run = healthy(2, 1);
        let first = run.iter_mut().find_map(|event| match event {
            Event::ProbeEnded {
                outcome: Outcome::Measured { measurement, .. },
                ..
            } => Some(measurement),
            _ => None,
        });
        let grown = Grown {
            name: name.into(),
            by,
        };
        first.unwrap().counters = Fact::known(vec![grown], "counters");
        run
    };
    fails(
        "of = \"counters\"",
        &grown("symbol_error", Some(3)),
        &["mlx5_0 of node01"],
    );
    unknown(
        "of = \"counters\"",
        &grown("symbol_error", None),
        &["mlx5_0 of node01"],
    );
    // Congestion is no error, unless it is named.
    holds("of = \"counters\"", &grown("np_cnp_sent", Some(3)));
    fails(
        "of = \"counters\"\ncounters = [\"np_cnp_sent\"]",
        &grown("np_cnp_sent", Some(3)),
        &["mlx5_0 of node01"],
    );
    // A burst is meant to fill a NIC: what it loses is told of the burst.
    let lost = |lossy: CostStep| {
        let counted = |step, outcome: &mut Outcome| {
            if let Outcome::Measured {
                measurement,
                verified: Fact::Known { value, .. },
            } = outcome
            {
                let grown = Grown {
                    name: "packet_seq_err".into(),
                    by: Some(5000),
                };
                let grown = (step == lossy).then_some(grown);
                measurement.counters = Fact::known(grown.into_iter().collect(), "counters");
                value.counters = Fact::known(Vec::new(), "counters");
            }
        };
        let steps = [CostStep::Write, CostStep::IncastWrite];
        cost_testing::events_of(3, &steps, &counted)
    };
    holds("of = \"counters\"", &lost(CostStep::IncastWrite));
    fails(
        "of = \"counters\"",
        &lost(CostStep::Write),
        &["mlx5_0 of node01", "mlx5_0 of node02", "mlx5_0 of node03"],
    );
    fails(
        "of = \"counters\"\ncounters = [\"packet_seq_err\"]",
        &lost(CostStep::IncastWrite),
        &["mlx5_0 of node02", "mlx5_0 of node03"],
    );
    let mut blind = healthy(2, 1);
    outcomes(&mut blind, &|outcome| {
        if let Outcome::Measured { measurement, .. } = outcome {
            measurement.counters = Fact::unknown(WHY);
        }
    });
    unknown("of = \"counters\"", &blind, &nics);
    unknown("of = \"counters\"", &at(2, 1, &|_, _, _| None), &nics);
}

#[test]
fn findings_are_not_borne() {
    let faults = "of = \"findings\"\nseverity = [\"fault\"]\ncannot_tell = \"borne\"";
    holds(faults, &healthy(4, 1));
    let slow = at(4, 1, &pick(1, 0, 0.5));
    fails(faults, &slow, &["mlx5_0 of node02 tx"]);
    fails(
        "of = \"findings\"\nrules = [\"half-bandwidth\"]",
        &slow,
        &["mlx5_0 of node02 tx"],
    );
    holds("of = \"findings\"\nrules = [\"corrupt-data\"]", &slow);
    holds(&format!("{faults}\nnodes = [\"node01\"]"), &slow);
    // What failed is no fault, and nothing is known of it.
    let failed = at(3, 1, &|from, to, _| ((from, to) != (0, 1)).then_some(FULL));
    let said = says(faults, &failed);
    assert!(
        said.iter().any(|line| line.starts_with("unknown node01")),
        "{said:?}"
    );
    // A rule that could not look is no pass.
    let mut blind = healthy(3, 1);
    facts_of(&mut blind, &|_, facts| facts.memlock = Fact::unknown(WHY));
    let told = judge(&ledger(&blind)).cannot_tell;
    let strict = says("of = \"findings\"\nseverity = [\"fault\"]", &blind);
    let unknown = strict
        .iter()
        .filter(|line| line.starts_with("unknown "))
        .count();
    assert_eq!(unknown > 0, !told.is_empty(), "{told:?} {strict:?}");
    holds(faults, &blind);
}

#[test]
fn coverage_is_of_every_nic_each_way() {
    let run = healthy(3, 2);
    let acceptance = held(&one("of = \"nodes\"\nis = 3"), &run);
    assert_eq!(
        acceptance.verdict(),
        AcceptanceVerdict::Accepted,
        "{acceptance:#?}"
    );
    assert_eq!(said(&acceptance, "coverage").len(), 3);
    let lost = at(4, 1, &|from, to, _| (from != 3 && to != 3).then_some(FULL));
    unknown("of = \"coverage\"", &lost, &["node04"]);
    holds("of = \"coverage\"\nat_least = \"75%\"", &lost);
    unknown(
        "of = \"coverage\"\nat_least = \"76%\"",
        &lost,
        &["the cluster"],
    );
    // It is demanded of a profile that says nothing of it.
    let acceptance = held(&one("of = \"nodes\"\nis = 4"), &lost);
    assert_eq!(acceptance.verdict(), AcceptanceVerdict::CouldNotJudge);
}

#[test]
fn a_part_of_a_run_is_no_run() {
    let mut cut = healthy(3, 1);
    cut.pop();
    unknown("of = \"coverage\"", &cut, &["the cluster"]);
    for end in [RunEnd::Interrupted, RunEnd::TimeUp] {
        let mut run = healthy(3, 1);
        *run.last_mut().unwrap() = Event::RunFinished { end };
        unknown("of = \"coverage\"", &run, &["the cluster"]);
    }
    let mut some = healthy(3, 2);
    for event in &mut some {
        if let Event::RunStarted { settings, .. } = event {
            settings.sweep.only_rails = vec![Rail(0)];
        }
    }
    unknown("of = \"coverage\"", &some, &["the cluster"]);
    holds("of = \"coverage\"\nrails = [0, 1]", &some);
    assert!(says("of = \"coverage\"", &[])[0].starts_with("unknown "));
}

#[test]
fn who_is_not_there_is_not_judged() {
    let run = healthy(3, 1);
    let mtu = "of = \"mtu\"\nis = 4096";
    unknown(
        &format!("{mtu}\nnodes = [\"node[07-09]\"]"),
        &run,
        &["the cluster"],
    );
    unknown(&format!("{mtu}\nrails = [3]"), &run, &["the cluster"]);
    unknown(&format!("{mtu}\nrails = [0, 3]"), &run, &["the cluster"]);
    unknown(
        &format!("{mtu}\ngroups = [\"leaf1\"]"),
        &run,
        &["the cluster"],
    );
    // Some of them may have been left out on purpose: that is told, and weighs less.
    let acceptance = held(&one(&format!("{mtu}\nnodes = [\"node[03-04]\"]")), &run);
    assert_eq!(said(&acceptance, "it").len(), 2);
    assert_eq!(acceptance.verdict(), AcceptanceVerdict::Accepted);
    assert!(
        acceptance
            .results
            .iter()
            .any(|result| result.weight == Weight::Should)
    );
}

const EXCEPT: &str = "\n[[except]]\nnodes = [\"node02\"]\nreason = \"on order\"\nuntil = ";

#[test]
fn what_is_borne_is_borne_until_its_day() {
    let slow = at(4, 1, &pick(1, 0, 0.5));
    let check = "[check.it]\nof = \"bandwidth\"\nat_least = \"90% of ceiling\"";
    let on = |until: &str| held(&profile(&format!("{check}{EXCEPT}{until}\n")), &slow);
    let borne = on("2026-12-01");
    assert_eq!(borne.verdict(), AcceptanceVerdict::Accepted);
    assert!(said(&borne, "it").contains(&"borne mlx5_0 of node02 tx: on order".to_owned()));
    let over = on("2026-11-30");
    assert_eq!(over.verdict(), AcceptanceVerdict::Rejected);
    let failed = over
        .results
        .iter()
        .find(|result| result.outcome == CheckOutcome::Failed)
        .unwrap();
    let told = failed.evidence.last().unwrap();
    assert_eq!(
        (told.saw.as_str(), told.from.as_str()),
        (
            "the exception (on order) ended on 2026-11-30 and does not count any more",
            "profile.toml, line 5"
        )
    );
    // Of other checks, rails and nodes it says nothing.
    for more in ["checks = [\"coverage\"]", "rails = [1]"] {
        let text = format!("{check}{EXCEPT}2027-01-01\n{more}\n");
        assert_eq!(
            held(&profile(&text), &slow).verdict(),
            AcceptanceVerdict::Rejected,
            "{more}"
        );
    }
    // What holds needs nobody to bear it.
    let healthy = held(
        &profile(&format!("{check}{EXCEPT}2027-01-01\n")),
        &healthy(4, 1),
    );
    assert!(
        healthy
            .results
            .iter()
            .all(|result| result.outcome == CheckOutcome::Passed)
    );
}

#[test]
fn a_should_is_told_and_does_not_reject() {
    let slow = at(4, 1, &pick(1, 0, 0.5));
    let acceptance = held(
        &one("of = \"bandwidth\"\nat_least = \"360 Gb/s\"\nweight = \"should\""),
        &slow,
    );
    assert_eq!(acceptance.verdict(), AcceptanceVerdict::Accepted);
    assert!(
        acceptance
            .results
            .iter()
            .any(|result| result.outcome == CheckOutcome::Failed)
    );
}

fn since(then: &[Event], now: &[Event]) -> Acceptance {
    let (then, now) = (ledger(then), ledger(now));
    let before = Before {
        ledger: &then,
        name: "before.jsonl",
    };
    on(&one("of = \"nodes\"\nat_least = 1"), &now, Some(before))
}

fn counted(value: u64) -> Fact<Counters> {
    let counter = Counter {
        name: "link_downed".into(),
        value,
        saturates_at: Some(255),
    };
    let values = vec![counter];
    let unread = Vec::new();
    Fact::known(Counters { values, unread }, "counters")
}

#[test]
fn what_became_worse_since_an_earlier_run_fails() {
    let mut then = servers(2);
    let same = since(&then, &then);
    assert_eq!(same.verdict(), AcceptanceVerdict::Accepted, "{same:#?}");
    assert!(said(&same, "since-pcie").len() == 10 && said(&same, "since-gpus").len() == 2);
    let mut now = then.clone();
    for run in [&mut then, &mut now] {
        ports_at(run, "node02", &|port| port.counters = counted(3));
    }
    ports_at(&mut now, "node01", &|port| {
        port.active_mtu = Fact::known(1024, "active_mtu")
    });
    ports_at(&mut now, "node02", &|port| {
        port.counters = counted(4);
        port.rate = Fact::known(Gbps(200.0), "rate");
    });
    let worse = since(&then, &now);
    assert_eq!(worse.verdict(), AcceptanceVerdict::Rejected);
    for (check, node) in [
        ("since-mtu", "node01"),
        ("since-counters", "node02"),
        ("since-link", "node02"),
    ] {
        let failed = said(&worse, check)
            .into_iter()
            .filter(|line| line.starts_with("fails "));
        let failed: Vec<String> = failed.collect();
        assert!(
            failed.len() == 5 && failed.iter().all(|line| line.contains(node)),
            "{check}: {failed:?}"
        );
    }
    // Better is not worse, and what is unknown now is no pass.
    assert_eq!(
        since(&now, &then)
            .results
            .iter()
            .filter(|r| r.outcome == CheckOutcome::Failed)
            .count(),
        0
    );
    ports_at(&mut now, "node01", &|port| {
        port.active_mtu = Fact::unknown(WHY)
    });
    assert!(said(&since(&then, &now), "since-mtu")[0].starts_with("unknown "));
    // Counters of a node that was started anew began at zero.
    facts_at(&mut now, "node02", &|facts| {
        facts.uptime_s = Fact::known(5, "uptime")
    });
    let said = said(&since(&then, &now), "since-counters");
    assert!(said[0].contains("was started anew"), "{said:?}");
}

#[test]
fn nodes_of_the_earlier_run_must_still_be_there() {
    let then = servers(3);
    let mut now = servers(3);
    now.retain(|event| !matches!(event, Event::NodeSurveyed { node, .. } if node.0 == "node03"));
    let gone = since(&then, &now);
    assert!(said(&gone, "since-nodes")[0].starts_with("unknown node03"));
    assert_ne!(gone.verdict(), AcceptanceVerdict::Accepted);
    // One that was not asked for this time weighs less.
    let fewer = since(&then, &servers(2));
    assert_eq!(fewer.verdict(), AcceptanceVerdict::Accepted, "{fewer:#?}");
    assert!(said(&since(&[], &then), "since-nodes")[0].contains("no node was surveyed"));
}

#[test]
fn a_profile_is_made_of_a_healthy_run_which_passes_it() {
    let run = servers(3);
    let books = ledger(&run);
    let judgement = judge(&books);
    let text = init(&books, &judgement, "run.jsonl", TODAY, true).unwrap();
    insta::assert_snapshot!(text);
    let profile = read_profile(&text, "new.toml").unwrap();
    assert_eq!(
        on(&profile, &books, None).verdict(),
        AcceptanceVerdict::Accepted
    );
    // One that is slower than the margin does not.
    let mut slow = at(3, 5, &pick(1, 0, 0.9));
    let facts: Vec<Event> = run
        .iter()
        .filter(|e| matches!(e, Event::NodeSurveyed { .. }))
        .cloned()
        .collect();
    let mut facts = facts.into_iter();
    for event in slow
        .iter_mut()
        .filter(|e| matches!(e, Event::NodeSurveyed { .. }))
    {
        *event = facts.next().unwrap();
    }
    let slow = on(&profile, &ledger(&slow), None);
    let failed: Vec<String> = said(&slow, "bandwidth")
        .into_iter()
        .filter(|line| line.starts_with("fails "))
        .collect();
    assert!(
        failed.len() == 1 && failed[0].starts_with("fails mlx5_0 of node02 tx"),
        "{failed:?}"
    );
}

#[test]
fn no_profile_is_made_of_a_run_with_faults() {
    let books = ledger(&at(4, 1, &pick(1, 0, 0.5)));
    let judgement = judge(&books);
    assert!(
        init(&books, &judgement, "x", TODAY, false)
            .unwrap_err()
            .to_string()
            .contains("1 faults")
    );
    assert!(
        init(&books, &judgement, "x", TODAY, true)
            .unwrap()
            .contains("# NOT HEALTHY")
    );
    let mut cut = healthy(3, 1);
    cut.pop();
    let books = ledger(&cut);
    assert!(init(&books, &judge(&books), "x", TODAY, false).is_err());
}

/// A profile that asks for everything.
const EVERYTHING: &str = r#"
[check.nodes]
of = "nodes"
at_least = 2
[check.nics]
of = "nics"
at_least = 1
[check.gpus]
of = "gpus"
at_least = 1
[check.gpu-model]
of = "gpu-model"
is = "*"
[check.gpu-driver]
of = "gpu-driver"
same = true
[check.module]
of = "module"
module = "mlx5_core"
same = true
[check.memlock]
of = "memlock"
at_least = "1 B"
[check.firmware]
of = "firmware"
same = true
[check.rate]
of = "link-rate"
at_least = "1 kb/s"
[check.width]
of = "link-width"
at_least = 1
[check.mtu]
of = "mtu"
at_least = 1
[check.gid]
of = "gid-type"
is = "RoCE v2"
[check.pcie]
of = "pcie"
is = "capable"
[check.path]
of = "gpu-path"
at_most = "SYS"
[check.numa]
of = "numa"
is = "as GPU"
[check.direct]
of = "gpudirect"
one_of = ["peermem", "dma-buf"]
[check.bandwidth]
of = "bandwidth"
at_least = "10% of ceiling"
[check.median]
of = "bandwidth"
at_least = "10% of median"
[check.spread]
of = "spread"
at_most = "100%"
[check.together]
of = "rails-together"
at_least = "10%"
[check.latency]
of = "latency"
at_most = "1s"
[check.cpu]
of = "cpu"
at_most = "1000 cores"
[check.counters]
of = "counters"
[check.faults]
of = "findings"
severity = ["fault"]
"#;

/// Takes a fact away, or spoils it.
fn spoil(facts: &mut NodeFacts, which: usize, number: u64) {
    let mut ports = |change: &dyn Fn(&mut RdmaDevice)| {
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value.iter_mut().for_each(change);
        }
    };
    match which {
        0 => ports(&|device| device.ports[0].active_mtu = Fact::unknown(WHY)),
        1 => ports(&|device| device.ports[0].rate = Fact::unknown(WHY)),
        2 => ports(&|device| device.firmware = Fact::unknown(WHY)),
        3 => ports(&|device| device.ports[0].gids.clear()),
        4 => ports(&|device| device.ports.clear()),
        5 => ports(&|device| device.pci = Fact::unknown(WHY)),
        6 => facts.rdma = Fact::unknown(WHY),
        7 => facts.pcie = Fact::unknown(WHY),
        8 => facts.memlock = Fact::unknown(WHY),
        9 => ports(&|device| device.ports[0].rate = Fact::known(Gbps(f64::NAN), "rate")),
        10 => ports(&|device| device.ports[0].active_mtu = Fact::known(number as u32, "mtu")),
        11 => ports(&|device| device.name = "\u{1b}[31m".into()),
        _ => facts.rdma = Fact::known(Vec::new(), "none"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_a_run_says_there_is_an_answer_and_a_missing_fact_is_no_pass(
        nodes in 2usize..5,
        rails in 1u16..3,
        node in 1usize..5,
        which in 0usize..13,
        number in any::<u64>(),
        cut in 0usize..200,
    ) {
        let mut run = healthy(nodes, rails);
        let name = format!("node{:02}", 1 + node % nodes);
        facts_at(&mut run, &name, &|facts| spoil(facts, which, number));
        let length = run.len();
        let checks = [
            "of = \"mtu\"\nat_least = 1", "of = \"link-rate\"\nat_least = \"1 kb/s\"", "of = \"firmware\"\nis = \"*\"",
            "of = \"gid-type\"\nis = \"RoCE v2\"", "of = \"mtu\"\nat_least = 1", "of = \"pcie\"\nis = \"capable\"",
            "of = \"nics\"\nat_least = 1", "of = \"pcie\"\nis = \"capable\"", "of = \"memlock\"\nat_least = \"1 B\"",
        ];
        if let Some(check) = checks.get(which) {
            let acceptance = held(&one(check), &run);
            prop_assert_ne!(acceptance.verdict(), AcceptanceVerdict::Accepted, "{}: {:#?}", check, acceptance);
        }
        // However far the run came, and whatever is asked.
        run.truncate(cut.min(length));
        let acceptance = held(&profile(EVERYTHING), &run);
        for name in ["nodes", "bandwidth", "faults", "coverage", "spread", "counters"] {
            prop_assert!(!said(&acceptance, name).is_empty(), "{name} says nothing");
        }
        if cut < length {
            prop_assert_ne!(acceptance.verdict(), AcceptanceVerdict::Accepted);
        }
        let books = ledger(&run);
        let _ = init(&books, &judge(&books), "x", TODAY, true);
    }
}
