//! Logs of NCCL and RCCL from real jobs, whole and in excerpts. They are not part of the project:
//! LINERATE_CORPUS names the directory that holds them.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up fails where it stands"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use linerate::judge::nccl_problems;
use linerate::nccl::{NcclLog, NcclReader, Verdict, pci_address};

/// A file, its verdict, how many ranks use a network, and words that a problem has. Where an excerpt
/// does not have what its issue tells elsewhere, the verdict is that the log does not tell.
type File = (&'static str, &'static str, usize, &'static str);

#[rustfmt::skip]
const FILES: &[File] = &[
    ("aws_p4d_2.9.9_efa_GDRDMA_readme.md", "gdrdma", 16, ""),
    ("aws_p5_2.22.3_efa_GDRDMA.log", "gdrdma", 16, ""),
    ("aws_p5_2.22.3_efa_GDRDMA_b.log", "gdrdma", 16, ""),
    ("azure_nc_vllm_2.21_GDRDMA_Shared.log", "gdrdma", 1, ""),
    ("gcp_gvnic_2.22.3_socket.log", "sockets by Network", 0, "found no RDMA device"),
    ("gke_a4_b200_gIB_excerpt.log", "gdrdma", 1, ""),
    ("meshplugin56_gb10_nogdr.log", "off", 1, "the log does not say why"),
    ("nccl1052_2.18.5_h800_roce_completion4.log", "unknown", 0, "a transfer failed: error 4, opcode 0, len 0, vendor err 81"),
    ("nccl1412_2.2x_ib_without_gdr.log", "off", 2, "the log does not say why"),
    ("nccl1537_2.21_gdr_disabled_peermem_loaded.log", "off by Devices", 0, "disabled for mlx5_0, mlx5_1"),
    ("nccl1737_2.21.5_ibext_v8_GDRhang.log", "unknown", 0, ""),
    ("nccl179_2.3.7_dgx1_ib_init.log", "unknown", 0, ""),
    ("nccl1866_2.27.6_h100vm.log", "unknown", 0, ""),
    ("nccl226_2.4_socket_nicdistance.log", "sockets by Network", 0, "Sockets are the only network"),
    ("nccl246_2.4_ib_nicdistance_PIX.log", "unknown", 0, ""),
    ("nccl300_2.5.6_nodevice_lo.log", "sockets by Network", 0, "found no RDMA device"),
    ("nccl302_2.5.6_ring_syntax.log", "unknown", 0, ""),
    ("nccl333_2.5.6_opa_hfi1.log", "unknown", 0, ""),
    ("nccl489_2.8_cause_nogdr_acs.txt", "unknown", 0, ""),
    ("nccl527_2.9.9_aws_before_after.txt", "gdrdma", 1, ""),
    ("nccl707_2.10_a100_GDRDMA_completion_error.log", "gdrdma", 4, ""),
    ("nccl988_2.12.9_ibext_sharp.log", "unknown", 0, ""),
    ("nccl_2.25.1_distance_disabled.log", "off by Pairs", 0, "distance 7, more than 0"),
    ("nccl_2.26_pix_level_mixed.log", "partial", 2, "rank 2: its GPU sends through IB device 0 without GDRDMA: NCCL puts GPU and NIC at distance 9, and the level allows 4"),
    ("nccltests182_2.1x_vmware_missing_sysfs.log", "unknown", 0, ""),
    ("nccltests294_2.19_ibext_v6_bootstrap_fail.log", "unknown", 0, ""),
    ("nccltests62_2.7.8_a100_roce_topology.log", "unknown", 0, ""),
    ("nccltests82_2.9.6_no_libibverbs.log", "sockets by Network", 0, "could not open libibverbs.so"),
    ("nvpeermem56_2.4.7_ib_nogdr.log", "unknown", 0, ""),
    ("polaris_2.20.5_ofi_cxi_GDRDMA_2024-11.log", "gdrdma", 4, ""),
    ("polaris_2.20.5_ofi_cxi_GDRDMA_2025-01_trace.log", "gdrdma", 4, ""),
    ("polaris_2.20.5_ofi_cxi_noGDR_2025-01.log", "off", 4, "sends and receives through AWS Libfabric device 3 without GDRDMA: the log does not say why"),
    ("polaris_2.20.5_socket_fallback_2025-06.log", "sockets", 4, "by sockets, not RDMA: NCCL found no RDMA device and no plugin"),
    // One node, which a torn line has by another name.
    ("raddet_nodevice_socket.log", "sockets by Network", 0, "found no RDMA device"),
    ("rccl1026_2.16.5_mi250x_bardpeak_init.log", "unknown", 0, ""),
    ("rccl1261_2.18.3_ucx_GDRDMA_crash.log", "gdrdma", 2, ""),
    ("rccl_causes.txt", "off by Devices", 0, "disabled for mlx5_0"),
    ("rccltests163_2.21.5_mi50_no_ibverbs.log", "sockets by Network", 0, "could not open libibverbs.so"),
    ("rdmaplugin_v6_PXN_GDRDMA_Shared.log", "gdrdma", 2, ""),
    ("softroce_2.2x_rxe_gdr_disabled.log", "off by Devices", 0, "disabled for rxe0"),
    ("spark_2.29_gdr_disabled.log", "off by Devices", 0, "disabled for roceP2p1s0f1, rocep1s0f1"),
    ("spark_reg_mr_enomem.log", "off by Devices", 0, "memory could not be registered"),
    ("ssbandjl_2.26.5_roce_gdr-disabled_2node.log", "off", 4, "GPU 0000:84:00.0 sends and receives through mlx5_0 without GDRDMA: NCCL found neither"),
    ("ssbandjl_2.26.6_roce_gdr-disabled_2node4gpu.log", "off", 4, "through mlx5_2 without GDRDMA: NCCL found neither"),
    ("ssbandjl_2.26.6_roce_gdr-disabled_allgather.log", "off", 2, "through mlx5_0 without GDRDMA: NCCL found neither"),
    ("ssbandjl_mixed_device_names_2node.log", "one_node", 0, ""),
    ("sugarlxn_2.28.9_4090_socket_trace_trimmed.log", "sockets by Network", 0, "found no RDMA device"),
    ("timez_2.27.7_a100pcie_fault.log", "one_node", 0, "disabled for mlx5_0, mlx5_0+mlx5_1, mlx5_1"),
    ("timez_2.27.7_a100pcie_gdr-disabled.log", "one_node", 0, "disabled for mlx5_0, mlx5_0+mlx5_1, mlx5_1"),
    ("volc_2node_h20_4rail_GDRDMA.log", "gdrdma", 7, ""),
    ("yccl_2.23.4_a6000_build_and_run.log", "one_node", 0, ""),
    ("yccl_2.23.4_a6000_nodevice_socket_single.log", "one_node", 0, ""),
];

fn folder(test: &str) -> Option<PathBuf> {
    let found = std::env::var_os("LINERATE_CORPUS").map(PathBuf::from);
    if found.is_none() {
        // Past the capture of a test's output, which hides what passing tests print.
        let skipped = "LINERATE_CORPUS does not name a directory of captures";
        let mut stderr = io::stderr();
        writeln!(stderr, "SKIPPED {test}: {skipped}").unwrap();
    }
    found.map(|corpus| corpus.join("nccllog"))
}

fn read(bytes: &[u8]) -> NcclLog {
    let mut reader = NcclReader::default();
    reader.read("log", &mut { bytes }).unwrap();
    reader.finish()
}

fn verdict(log: &NcclLog) -> String {
    match log.verdict() {
        Verdict::Said(state, ground) => format!("{} by {ground:?}", state.name()),
        verdict => verdict
            .state()
            .map_or("one_node", |state| state.name())
            .to_owned(),
    }
}

#[test]
fn every_log_has_its_verdict() {
    let Some(folder) = folder("every_log_has_its_verdict") else {
        return;
    };
    let there: BTreeSet<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let listed: BTreeSet<_> = FILES.iter().map(|file| file.0.to_owned()).collect();
    assert_eq!(there, listed);
    let mut wrong = Vec::new();
    for (name, expected, ranks, words) in FILES {
        let log = read(&fs::read(folder.join(name)).unwrap());
        let users = log
            .ranks
            .iter()
            .filter(|rank| !rank.uses.is_empty())
            .count();
        let problems = nccl_problems(&log, None);
        let has_words = match words.is_empty() {
            true => problems.is_empty(),
            false => problems.iter().any(|problem| problem.says.contains(words)),
        };
        if verdict(&log) != *expected || users != *ranks || !has_words {
            let says: Vec<_> = problems
                .iter()
                .take(4)
                .map(|problem| &problem.says)
                .collect();
            wrong.push(format!("{name}: {} {users} {says:#?}", verdict(&log)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_rank_has_its_gpu_and_its_nics() {
    let Some(folder) = folder("a_rank_has_its_gpu_and_its_nics") else {
        return;
    };
    let log = read(&fs::read(folder.join("aws_p5_2.22.3_efa_GDRDMA.log")).unwrap());
    let rank = log.ranks.iter().find(|rank| rank.rank == 13).unwrap();
    let process = &log.processes[rank.process];
    assert_eq!(process.host.as_deref(), Some("test-nccl-worker-1"));
    assert_eq!(rank.bus.map(pci_address).as_deref(), Some("0000:a8:00.0"));
    assert_eq!((rank.ranks, rank.nodes), (Some(16), Some(2)));
    let nic = process.device(&rank.uses[0]).unwrap();
    assert_eq!(
        &**nic,
        "0000:a7:00.0+0000:a6:00.0+0000:a5:00.0+0000:a4:00.0"
    );
    let channels: u64 = log
        .ranks
        .iter()
        .flat_map(|rank| &rank.uses)
        .map(|used| used.direct)
        .sum();
    assert_eq!((channels, log.left_out.torn), (512, 0));
}
