//! Whole logs: every form of line that is known, what does not count, and input that nobody wrote.

use std::io::BufReader;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

fn read(text: impl AsRef<[u8]>) -> NcclLog {
    let mut reader = NcclReader::default();
    let mut source = BufReader::with_capacity(4096, text.as_ref());
    reader.read("job.log", &mut source).unwrap();
    reader.finish()
}

/// The lines as one process writes them.
fn said(lines: &[&str]) -> NcclLog {
    let line = |text: &&str| format!("gpu-7:310:322 [3] NCCL INFO {text}\n");
    read(lines.iter().map(line).collect::<String>())
}

/// `5 send IB/3 off`, with what is known of the GPU and the NIC.
fn uses(log: &NcclLog) -> Vec<String> {
    let of_rank = |rank: &Rank| {
        let process = &log.processes[rank.process];
        let bus = rank
            .bus
            .map_or(String::new(), |bus| format!(" {}", pci_address(bus)));
        let one = |used: &Use| {
            let way = match used.direction {
                Direction::Send => "send",
                Direction::Receive => "receive",
            };
            let proxy = used
                .proxy
                .map_or(String::new(), |rank| format!(" of {rank}"));
            let nic = process
                .device(used)
                .map_or(String::new(), |nic| format!(" {nic}"));
            let (number, network, device) = (rank.rank, &used.network, used.device);
            format!(
                "{number}{bus} {way} {network}/{device}{nic}{proxy} {}",
                used.state()
            )
        };
        rank.uses.iter().map(one).collect::<Vec<_>>()
    };
    log.ranks.iter().flat_map(of_rank).collect()
}

#[test]
fn every_versions_channel_line_is_understood() {
    for (line, expected) in [
        // 2.3, by the receiver.
        (
            "Ring 00 : 3 -> 4 via NET/IB/1/GDRDMA",
            "4 receive IB/1 GDRDMA",
        ),
        (
            "Ring 00 : 3 -> 4 via NET/IB/1/GDRDMA/GDCopy",
            "4 receive IB/1 GDRDMA",
        ),
        (
            "Ring 00 : 3 -> 4 via NET/Socket/0",
            "4 receive Socket/0 sockets",
        ),
        // 2.4.
        ("Ring 01 : 3 -> 4 [send] via NET/IB/2", "3 send IB/2 off"),
        (
            "Ring 01 : 3 -> 4 [receive] via NET/IB/2/GDRDMA",
            "4 receive IB/2 GDRDMA",
        ),
        // 2.5 and 2.6, with bus ids.
        (
            "Ring 01 : 3[1b000] -> 4[3d000] [send] via NET/IB/2/GDRDMA",
            "3 0000:1b:00.0 send IB/2 GDRDMA",
        ),
        // 2.7.
        (
            "Channel 11 : 3[101d0] -> 4[3d000] [send] via NET/IB/0",
            "3 0000:10:1d.0 send IB/0 off",
        ),
        // 2.8 to 2.11.
        (
            "Channel 01 : 3[1b000] -> 4[100000] [receive] via NET/AWS Libfabric/0/GDRDMA/Shared",
            "4 0001:00:00.0 receive AWS Libfabric/0 GDRDMA",
        ),
        (
            "Channel 01 : 3[1b000] -> 4[3d000] [receive] via NET/IBext/0/Shared",
            "4 0000:3d:00.0 receive IBext/0 off",
        ),
        // From 2.12 on, with the connection's number and PXN; from 2.18.3 on with NVML's number.
        (
            "Channel 03/1 : 3[3] -> 12[4] [send] via NET/IB/5(7)/GDRDMA/Shared",
            "3 send IB/5 of 7 GDRDMA",
        ),
        (
            "Channel 03/0 : 3[3] -> 12[4] [send] via NET/IB/5(-1)",
            "3 send IB/5 off",
        ),
        // From 2.26.2 on.
        (
            "Channel 03/0 : 3[3] -> 12[4] [send] via NET/IB/5/GDRDMA(PCI)/Shared",
            "3 send IB/5 GDRDMA",
        ),
        // Plugins.
        (
            "Channel 00/1 : 1[0] -> 2[1] [receive] via NET/NCCL RDMA Plugin v6/0(2)/GDRDMA/Shared",
            "2 receive NCCL RDMA Plugin v6/0 of 2 GDRDMA",
        ),
        (
            "Channel 00/0 : 1[0] -> 2[1] [send] via NET/FasTrak/2",
            "1 send FasTrak/2 off",
        ),
        (
            "Channel 00/0 : 1[0] -> 2[1] [send] via NET/a/b/7/GDRDMA",
            "1 send a/b/7 GDRDMA",
        ),
        // RCCL.
        (
            "Channel 00/0 : 1[7000] -> 0[b7000] [receive] via NET/UCX/0/GDRDMA comm 0x22fcfb0 nRanks 02",
            "0 0000:b7:00.0 receive UCX/0 GDRDMA",
        ),
        (
            "Channel 00/0 : 1[7000] -> 0[b7000] [send] via NET/IB/0 comm 0x22fcfb0 nRanks 02",
            "1 0000:07:00.0 send IB/0 off",
        ),
        // Switches that reduce.
        (
            "Coll 00 : 5 [send] via COLLNET/SHARP/0/GDRDMA",
            "5 send SHARP/0 GDRDMA",
        ),
        (
            "CollNet 00/0 : 5 [receive] via COLLNET/SHARP/3/GDRDMA(PCI)",
            "5 receive SHARP/3 GDRDMA",
        ),
        (
            "CollNet 00 : 5 [receive] via COLLNET/SHARP/3",
            "5 receive SHARP/3 off",
        ),
        // What others put behind it.
        (
            "Channel 02/0 : 1[2] -> 2[2] [send] via NET/gIB/2/GDRDMA [cite: 1739]",
            "1 send gIB/2 GDRDMA",
        ),
        (
            "Channel 02/0 : 1[2] -> 2[2] [send] via NET/gIB/2 [cite: 1739]",
            "1 send gIB/2 off",
        ),
        (
            "Channel 02/0 : 1[2] -> 2[2] [send] via NET/IB/2\u{1b}[0m",
            "1 send IB/2 off",
        ),
        (
            "Channel 02/0 : 1[2] -> 2[2] [send] via NET/IB/2\r",
            "1 send IB/2 off",
        ),
    ] {
        let log = said(&[line]);
        assert_eq!(uses(&log), [expected], "{line}");
        assert_eq!(log.left_out, LeftOut::default(), "{line}");
    }
}

#[test]
fn channels_within_a_node_are_no_network() {
    let log = said(&[
        "Ring 00 : 0[1b000] -> 1[3d000] via P2P/IPC",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read",
        "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
        "Channel 00 : 0[0] -> 1[1] via direct shared memory",
        "Channel 00/16 :    0   1   2   3",
        "Ring 00 : 7 -> 0 -> 1",
    ]);
    assert_eq!(uses(&log), [""; 0]);
    assert_eq!((log.ranks.len(), log.ranks[0].local), (1, 5));
    assert_eq!(log.verdict(), Verdict::Unknown(Missing::Channels));
}

#[test]
fn what_is_torn_does_not_count_unless_it_says_gdrdma() {
    let head = "n:1:2 [0] NCCL INFO";
    let begin = "Channel 00/0 : 0[0] -> 1[0] [send] via";
    for (torn, counts) in [
        // The rest may be anywhere.
        (
            format!("{head} {begin} NET/IB/1{head} Connected all trees\n"),
            false,
        ),
        (format!("{head} {begin} NET/IB/1"), false),
        (format!("{head} {begin} NET/IB/1/GDR{head} x\n"), false),
        (format!("{head} {begin} NET/IB/1/GDRDMA{head} x\n"), true),
        (format!("{head} {begin} NET/IB/1/GDRDMA"), true),
        // Two lines run into each other.
        (format!("{head} {begin} NET/IB/{begin} NET/IB/1\n"), false),
        (format!("{head} {begin} NET/IB/1/GDRDMAx\n"), false),
        (format!("{head} {begin} NET/IB/\n"), false),
        (format!("{head} {begin} NET/IB/1/Sha\n"), false),
        (format!("{head} {begin} NET/IB/99999999999\n"), false),
        (format!("{head} {begin} foo\n"), false),
    ] {
        let log = read(&torn);
        assert_eq!(log.left_out.torn, u64::from(!counts), "{torn}");
        assert_eq!(uses(&log).len(), usize::from(counts), "{torn}");
    }
    let log = read(format!("{head} {begin} NET/IB/1"));
    assert_eq!(log.verdict(), Verdict::Unknown(Missing::Torn));
}

#[test]
fn the_torn_end_of_a_message_is_no_part_of_the_next_ones_name() {
    let log = read(
        "gpu-7:5:6 [0] NCCL INFO Using network IB\n\
         gpu-8:9:9 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/Cgpu-7:5:6 [0] NCCL INFO Channel 00/0 : \
         4[0] -> 9[0] [send] via NET/IB/0\n",
    );
    assert_eq!(log.processes.len(), 2);
    assert_eq!(uses(&log), ["4 send IB/0 off"]);
    assert_eq!(
        log.processes[log.ranks[1].process].host.as_deref(),
        Some("gpu-7")
    );
}

#[test]
fn directions_and_ranks_are_told_apart() {
    let log = said(&[
        "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA",
        "Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/0",
        "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        "Channel 00/0 : 9[1] -> 1[1] [receive] via NET/IB/1",
        "Channel 00/0 : 2[1] -> 10[1] [send] via NET/Socket/0",
    ]);
    let states = |rank: usize| {
        let rank = &log.ranks[rank];
        (rank.state(Direction::Send), rank.state(Direction::Receive))
    };
    assert_eq!(states(0), (GdrState::Partial, GdrState::Gdrdma));
    assert_eq!(states(1), (GdrState::Unknown, GdrState::Off));
    assert_eq!(states(2), (GdrState::Sockets, GdrState::Unknown));
    assert_eq!(log.verdict(), Verdict::Channels(GdrState::Partial));
    assert_eq!(log.verdict().exit_code(), 1);
    // The first line that is without it, not the first of all.
    assert_eq!(log.ranks[0].uses[0].place.line, 2);
}

#[test]
fn a_rank_has_its_communicator_by_thread_and_by_rccls_word() {
    let log = read(
        "n:1:7 [0] NCCL INFO comm 0xa rank 0 nranks 4 cudaDev 0 nvmlDev 2 busId 1c000 commId 0x1 - Init START\n\
         n:1:8 [0] NCCL INFO ncclCommInitRank comm 0xb rank 0 nranks 2 cudaDev 1 busId 9a000 commId 0x2 - Init START\n\
         n:1:7 [0] NCCL INFO comm 0xa rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0\n\
         n:1:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0\n\
         n:1:8 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/1\n\
         n:1:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/2 comm 0xa nRanks 04\n",
    );
    assert_eq!(
        uses(&log),
        [
            "0 0000:1c:00.0 send IB/0 off",
            "0 0000:1c:00.0 send IB/2 off",
            "0 0000:9a:00.0 send IB/1 off"
        ]
    );
    assert_eq!((log.ranks[0].nodes, log.ranks[0].nvml), (Some(2), Some(2)));
    assert_eq!((log.ranks[0].id, log.ranks[1].ranks), (Some(1), Some(2)));
}

#[test]
fn a_communicator_may_be_named_after_its_channels() {
    let log = said(&[
        "Channel 00 : 1[1b000] -> 2[3d000] [send] via NET/IB/0/GDRDMA",
        "comm 0x7f rank 1 nranks 4 cudaDev 3 busId 1b000 - Init COMPLETE",
    ]);
    assert_eq!((log.ranks.len(), log.ranks[0].ranks), (1, Some(4)));
}

#[test]
fn devices_have_names_in_every_version() {
    for (lines, device, name) in [
        (
            &["NET/IB: [0] mlx5_1:1/IB", "NET/IB: [1] mlx5_3:1/RoCE"][..],
            1,
            "mlx5_3",
        ),
        (
            &["NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_2:1/RoCE ; OOB ib0:10.0.0.1<0>"],
            1,
            "mlx5_2",
        ),
        (
            &[
                "NET/IB : Using [0]mlx5_0:1/IB/SHARP [7]mlx5_9:1/IB/SHARP [RO]; OOB ib0.0065:10.0.0.1<0>",
            ],
            7,
            "mlx5_9",
        ),
        (
            &["NET/IB: [2] mlx5_2:uverbs2:1/RoCE provider=Mlx5 speed=100000 ar=0"],
            2,
            "mlx5_2",
        ),
        (
            &["NET/IB : Made virtual device [4] name=mlx5_0+mlx5_1 speed=200000 ndevs=2"],
            4,
            "mlx5_0+mlx5_1",
        ),
        (
            &["NET/IB : GPU Direct RDMA Enabled for HCA 3 'mlx5_5'"],
            3,
            "mlx5_5",
        ),
        (
            &[
                "NET/OFI NIC group 0 device #0 0000:52:00.0",
                "NET/OFI NIC group 0 device #1 0000:51:00.0",
            ],
            0,
            "0000:52:00.0+0000:51:00.0",
        ),
    ] {
        let channel = format!("Channel 00/0 : 0[0] -> 1[0] [send] via NET/X/{device}/GDRDMA");
        let log = said(&[lines, &[&*channel]].concat());
        assert_eq!(uses(&log), [format!("0 send X/{device} {name} GDRDMA")]);
    }
    // Interfaces have numbers of their own; an empty list has none.
    let log = said(&[
        "NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>",
        "NET/Socket : Using [0]eth0:10.0.0.1<0> [1]br-0:fe80::1%br-0<0>",
        "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
        "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/1",
    ]);
    assert_eq!(uses(&log), ["0 send Socket/1 br-0 sockets"]);
    assert!(log.processes[0].hcas.is_empty());
}

/// Why rank 0, whose GPU is 0000:1c:00.0 and CUDA's 2, is without GPUDirect RDMA through device 3.
fn why(network: &str, lines: &[&str]) -> Option<String> {
    let member =
        "comm 0x7f rank 0 nranks 4 cudaDev 2 nvmlDev 2 busId 1c000 commId 0x1 - Init START";
    let channel = format!("Channel 00/0 : 0[0] -> 1[0] [send] via NET/{network}/3");
    let log = said(&[&[member], lines, &[&*channel]].concat());
    let rank = &log.ranks[0];
    log.why(rank, &rank.uses[0]).map(|why| why.to_string())
}

#[test]
fn the_reason_is_given_where_the_log_has_it() {
    let far = "NCCL puts GPU and NIC at distance";
    let unsupported = "NCCL found neither peer memory nor dma-buf for";
    for (lines, expected) in [
        (&[][..], None),
        // 2.3.
        (
            &[
                "NET/IB : GPU Direct RDMA Disabled for GPU 2 / HCA mlx5_3 (no module)",
                "NET/IB: [3] mlx5_3:1/IB",
            ],
            Some("NCCL says: no module".to_owned()),
        ),
        // 2.4: the CUDA device.
        (
            &[
                "NCCL version 2.4.8+cuda10.0",
                "NET/IB : GPU Direct RDMA Disabled for GPU 2[2] / HCA 3 (distance 4 >= 2)",
            ],
            Some(format!("{far} 4 (SYS), and the level allows 2 (PHB)")),
        ),
        (
            &[
                "NET/IB : GPU Direct RDMA Disabled for GPU 2[2] / HCA 3 'mlx5_3' (no module or not supported by GPU)",
            ],
            Some("NCCL says: no module or not supported by GPU".to_owned()),
        ),
        // 2.5.
        (
            &["NET/IB : GPU Direct RDMA Disabled for HCA 3 'mlx5_3' (no module)"],
            Some("NCCL says: no module".to_owned()),
        ),
        // 2.6 to 2.20: the bus id.
        (
            &[
                "NCCL version 2.20.5+cuda12.4",
                "GPU Direct RDMA Disabled for GPU 1c000 / HCA 3 (distance 7 > 4), read 0",
            ],
            Some(format!("{far} 7 (SYS), and the level allows 4 (PXB)")),
        ),
        (
            &[
                "NCCL version 2.20.5+cuda12.4",
                "GPU Direct RDMA Disabled for GPU 9a000 / HCA 3 (distance 7 > 4), read 0",
            ],
            None,
        ),
        // 2.21.5: the device in hexadecimal, the node's number in its upper bits.
        (
            &[
                "NCCL version 2.21.5+cuda12.4",
                "GPU Direct RDMA Disabled for GPU 1c000 / HCA 100000000000003 (distance 6 > 4), read 1",
            ],
            Some(format!("{far} 6 (PHB), and the level allows 4 (PXB)")),
        ),
        // From 2.24.3 on: the rank; from 2.26.2 on with the mode.
        (
            &[
                "NCCL version 2.25.1+cuda12.8",
                "GPU Direct RDMA Disabled for GPU 0 / HCA 3 (distance 7 > 0)",
            ],
            Some(format!("{far} 7 (SYS), and the level allows 0 (LOC)")),
        ),
        (
            &[
                "NCCL version 2.27.7+cuda13.0",
                "GPU Direct RDMA Disabled for GPU 0 / HCA 3 (distance 9 > 5), read 0 mode Default",
            ],
            Some(format!("{far} 9 (SYS), and the level allows 5 (PXB)")),
        ),
        (
            &["GPU Direct RDMA Disabled for GPU 0 / HCA 2 (distance 9 > 5), read 0"],
            None,
        ),
        (
            &["GPU Direct RDMA Enabled for GPU 0 / HCA 3 (distance 4 <= 5), read 0"],
            None,
        ),
        // From 2.13.4 on.
        (
            &["NET/IB : GPU Direct RDMA Disabled for HCA 3 'mlx5_3'"],
            Some(format!("{unsupported} mlx5_3")),
        ),
        (
            &["NET/IB : GPU Direct RDMA Enabled for HCA 3 'mlx5_3'"],
            None,
        ),
        // The environment.
        (
            &["NCCL_NET_GDR_LEVEL set by environment to LOC"],
            Some("NCCL_NET_GDR_LEVEL=LOC never uses it".to_owned()),
        ),
        (&["NCCL_NET_GDR_LEVEL set by environment to PHB"], None),
        // RCCL.
        (
            &["GDRDMA not enabled. Could not find memory_peers directory or peer_memory symbol"],
            Some("RCCL found no memory_peers directory of the kernel".to_owned()),
        ),
    ] {
        assert_eq!(why("IB", lines), expected, "{lines:?}");
    }
}

#[test]
fn sockets_have_reasons_of_their_own() {
    for (lines, expected) in [
        (
            &["NET/Socket : GPU Direct RDMA Disabled for HCA 3 'eth0'"][..],
            None,
        ),
        (
            &["NCCL_IB_DISABLE set by environment to 1."],
            Some("NCCL_IB_DISABLE is set"),
        ),
        (&["NCCL_IB_DISABLE set by environment to 0."], None),
        (
            &["NCCL_NET set by environment to Socket"],
            Some("NCCL_NET asks for sockets"),
        ),
        (
            &["Failed to open libibverbs.so[.1]"],
            Some("NCCL could not open libibverbs.so"),
        ),
        (
            &["NET/IB : No device found."],
            Some("NCCL found no RDMA device and no plugin for another network"),
        ),
    ] {
        assert_eq!(why("Socket", lines).as_deref(), expected, "{lines:?}");
    }
}

#[test]
fn without_channels_it_is_told_by_what_is_said_before() {
    let two_nodes = "comm 0x1 rank 3 nRanks 16 nNodes 2 localRanks 8 localRank 3 MNNVL 0";
    let rings = |gdr: u8| format!("Connected all rings, use ring PXN 0 GDR {gdr}");
    let (with, without) = (rings(1), rings(0));
    let off = |ground| Verdict::Said(GdrState::Off, ground);
    let sockets = Verdict::Said(GdrState::Sockets, Ground::Network);
    let unknown = Verdict::Unknown(Missing::Channels);
    for (lines, expected) in [
        (
            &["NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"][..],
            off(Ground::Devices),
        ),
        (
            &["NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'"],
            unknown,
        ),
        (
            &["GPU Direct RDMA Disabled for GPU 0 / HCA 2 (distance 7 > 0)"],
            off(Ground::Pairs),
        ),
        (
            &["GPU Direct RDMA Enabled for GPU 0 / HCA 2 (distance 4 <= 4), read 0"],
            unknown,
        ),
        (&["Using network Socket"], sockets),
        (&["Using internal Network Socket"], sockets),
        (&["Using network IBext_v8"], unknown),
        (&["CUDA Dev 0[0], Socket NIC distance :  PHB"], sockets),
        (
            &["CUDA Dev 0[0], IB NIC distance :  PIX NODE SYS SYS"],
            unknown,
        ),
        (&["NET/IB : No device found."], sockets),
        // It begins as 1, and is so where there is nothing between nodes.
        (&[&*with], unknown),
        (&[&*without], unknown),
        (&[two_nodes, &*with], unknown),
        (&[two_nodes, &*without], off(Ground::Rings)),
        (
            &[
                "comm 0x1 rank 0 nranks 1 cudaDev 0 busId 1000 commId 0x9 - Init COMPLETE",
                &*with,
            ],
            Verdict::OneNode,
        ),
        // It is about the GPU's driver only.
        (
            &["DMA-BUF is available on GPU device 0", two_nodes],
            unknown,
        ),
    ] {
        assert_eq!(said(lines).verdict(), expected, "{lines:?}");
    }
    assert_eq!(
        read("hello\nworld\n").verdict(),
        Verdict::Unknown(Missing::Lines)
    );
    assert_eq!(unknown.exit_code(), 3);
    assert_eq!(Verdict::OneNode.exit_code(), 0);
}

#[test]
fn one_node_is_one_where_all_ranks_of_a_communicator_are_seen() {
    let member = |host: &str, rank: u32| {
        format!(
            "{host}:{rank}1:5 [0] NCCL INFO comm 0x1 rank {rank} nranks 2 cudaDev 0 busId 1000 commId 0x9 - Init START\n"
        )
    };
    let log = |first: &str, second: &str| read(member(first, 0) + &member(second, 1)).is_one_node();
    assert_eq!(log("a", "a"), Some(true));
    assert_eq!(log("a", "b"), None);
    assert_eq!(read(member("a", 0)).is_one_node(), None);
}

#[test]
fn versions_are_understood_in_all_their_forms() {
    for (line, expected) in [
        ("NCCL version 2.4.7+cuda10.0", "NCCL 2.4.7+cuda10.0"),
        (
            "[1,0]<stdout>:NCCL version 2.5.6+cuda10.2",
            "NCCL 2.5.6+cuda10.2",
        ),
        (
            "n:1:1 [0] NCCL INFO NCCL version 2.27.6+cuda13.0",
            "NCCL 2.27.6+cuda13.0",
        ),
        (
            "NCCL version 2.26.6+cudaCUDA_MAJOR.CUDA_MINOR",
            "NCCL 2.26.6+cudaCUDA_MAJOR.CUDA_MINOR",
        ),
        (
            "RCCL version 2.18.3+hip5.7 HEAD:b502725",
            "RCCL 2.18.3+hip5.7",
        ),
        (
            "RCCL version : 2.21.5-HEAD:9a0e6a1",
            "RCCL 2.21.5-HEAD:9a0e6a1",
        ),
    ] {
        assert_eq!(
            read(format!("{line}\n")).versions,
            [Arc::<str>::from(expected)],
            "{line}"
        );
    }
}

#[test]
fn what_failed_is_kept_once_with_its_count() {
    let log = read(
        "a:1:2 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer with error 4, opcode 0, \
         len 0, vendor err 81 (Send)\n\
         a:1:2 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion with error 4, opcode 8983\n\
         misc/ibvwrap.cc:213 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory\n",
    );
    let troubles: Vec<_> = log
        .troubles
        .iter()
        .map(|t| (t.register, &*t.text, t.count))
        .collect();
    assert_eq!(
        troubles,
        [
            (false, "error 4, opcode 0, len 0, vendor err 81 (Send)", 2),
            (
                true,
                "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
                1
            )
        ]
    );
}

#[test]
fn a_gpu_is_known_from_the_topology_or_from_nccl_tests() {
    let log = said(&[
        "+ PCI[12.0] - GPU/0-9a000 (5)",
        "Channel 00/0 : 5[3] -> 1[0] [send] via NET/IB/0/GDRDMA",
    ]);
    assert_eq!(uses(&log), ["5 0000:9a:00.0 send IB/0 GDRDMA"]);
    for (place, expected) in [("0x4c", "0000:4c:00.0"), ("0001:11:00", "0001:11:00.0")] {
        let log = read(format!(
            "#  Rank  6 Group  0 Pid 310 on gpu-7 device  0 [{place}] NVIDIA H800\n\
             gpu-7:310:322 [3] NCCL INFO Channel 00/0 : 6[3] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
        ));
        assert_eq!(uses(&log), [format!("6 {expected} send IB/0 GDRDMA")]);
    }
}

#[test]
fn an_excerpt_needs_no_head() {
    let log = read(
        "> Channel 01 : 9[101d0] -> 0[101c0] [send] via NET/AWS Libfabric/0/GDRDMA\n\
         * NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1'\n\
         they went via NET/IB/0 and GPU Direct RDMA was off\n",
    );
    assert_eq!(uses(&log), ["9 0000:10:1d.0 send AWS Libfabric/0 GDRDMA"]);
    assert_eq!(log.processes[0].hcas.len(), 1);
}

#[test]
fn files_of_one_job_are_one_reading() {
    let mut reader = NcclReader::default();
    for (name, rank) in [("a", 0), ("b", 1)] {
        let line = format!("NCCL INFO Channel 00/0 : {rank}[0] -> 5[0] [send] via NET/IB/0\n");
        reader.read(name, &mut line.as_bytes()).unwrap();
    }
    let log = reader.finish();
    assert_eq!(
        (log.ranks.len(), log.processes.len(), log.extent.lines),
        (2, 2, 2)
    );
    assert_eq!(&*log.ranks[1].uses[0].place.file, "b");
}

#[test]
fn what_would_steer_a_terminal_is_marked() {
    let log = said(&["NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx\u{1b}[2J\u{202e}5'"]);
    assert_eq!(
        log.processes[0].hcas[0].name.as_deref(),
        Some("mlx\u{fffd}[2J\u{fffd}5")
    );
}

#[test]
fn a_log_of_any_size_is_read_in_bounds_and_what_was_cut_is_counted() {
    let mut many = String::new();
    for process in 0..MAX_PROCESSES + 10 {
        many +=
            &format!("n:{process}:1 [0] NCCL INFO Channel 0 : 0[0] -> 1[0] [send] via NET/IB/0\n");
    }
    let log = read(many);
    assert_eq!(
        (log.processes.len(), log.left_out.processes),
        (MAX_PROCESSES, 10)
    );
    let mut many = String::new();
    for device in 0..1000 {
        many += &format!("NCCL INFO Channel 0 : 0[0] -> 1[0] [send] via NET/IB/{device}\n");
        many +=
            &format!("NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA {device} 'm{device}'\n");
    }
    let log = read(many);
    assert!(log.ranks[0].uses.len() < 500 && log.left_out.uses > 0);
    assert!(log.processes[0].hcas.len() < 500 && log.left_out.is_cut());
}

/// Lines of every kind, to be cut and mixed.
const SEEDS: [&str; 14] = [
    "n1:5330:5499 [3] NCCL INFO Channel 02/0 : 5[5] -> 12[4] [send] via NET/IB/3(2)/GDRDMA(PCI)/Shared\n",
    "n1:5330:5499 [3] NCCL INFO Ring 02 : 5[1b000] -> 12[1c000] [receive] via NET/AWS Libfabric/3\n",
    "[1,0]<stdout>:n2:1:2 [0] NCCL INFO CollNet 00/0 : 5 [send] via COLLNET/SHARP/0/GDRDMA\n",
    "n1:1:2 [0] NCCL INFO comm 0x55cc rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1c000 commId 0x65 - Init START\n",
    "n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n",
    "n1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n",
    "NCCL INFO GPU Direct RDMA Disabled for GPU 1c000 / HCA 2 (distance 7 > 5), read 0 mode Default\n",
    "#  Rank  0 Group  0 Pid  565139 on node4 device  0 [0x4c] NVIDIA H800\n",
    "NCCL version 2.18.5+cuda12.0\r\n",
    "n1:1:2 [0] NCCL INFO NET/OFI NIC group 0 device #1 0000:51:00.0\n",
    "n1:1:2 [0] NCCL INFO NCCL_NET_GDR_LEVEL set by environment to PIX\n",
    "n1:1:2 [0] t.cc:1 NCCL WARN NET/IB : Got completion with status=12 opcode=0 len=0 vendor err 129\n",
    "n1:1:2 [0] NCCL INFO + PCI[12.0] - GPU/0-9a000 (5)\n",
    "n1:1:2 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 0\n",
];

/// A piece of a line, with a byte of it changed.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let at = any::<prop::sample::Index>;
    (0..SEEDS.len(), at(), at(), at(), any::<Option<u8>>()).prop_map(
        |(seed, start, end, changed, byte)| {
            let line = SEEDS[seed].as_bytes();
            let (start, end) = (start.index(line.len()), end.index(line.len() + 1));
            let mut piece = match start < end {
                true => line[start..end].to_vec(),
                false => line.to_vec(),
            };
            let at = changed.index(piece.len());
            if let Some(byte) = byte {
                piece[at] = byte;
            }
            piece
        },
    )
}

/// Asks everything that may be asked.
fn ask(log: &NcclLog) {
    let _ = (log.verdict(), log.is_one_node(), log.level());
    for rank in &log.ranks {
        let _ = rank.bus.map(pci_address);
        for used in &rank.uses {
            let _ = log
                .why(rank, used)
                .map(|why| (why.to_string(), why.remedy()));
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        ask(&read(bytes));
    }

    #[test]
    fn lines_that_are_cut_and_mixed_are_read(pieces in prop::collection::vec(piece(), 0..60)) {
        let log = read(pieces.concat());
        ask(&log);
        prop_assert!(log.ranks.len() <= pieces.len());
        // However it is cut into reads, it is the same.
        let mut reader = NcclReader::default();
        let text = pieces.concat();
        reader.read("job.log", &mut BufReader::with_capacity(7, &text[..])).unwrap();
        prop_assert_eq!(format!("{:?}", reader.finish()), format!("{log:?}"));
    }
}
