//! What is printed of logs.

use super::*;
use crate::judge::nccl_problems;
use crate::nccl::NcclReader;

fn log(text: &str) -> NcclLog {
    let mut reader = NcclReader::default();
    reader.read("job.log", &mut text.as_bytes()).unwrap();
    reader.finish()
}

fn shown(log: &NcclLog) -> String {
    let style = Style {
        color: false,
        width: 100,
    };
    let mut out = Vec::new();
    text(log, &nccl_problems(log, None), style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A job of nodes with 8 GPUs and 4 NICs; `suffix` says how a rank's channels end.
fn job(nodes: u32, suffix: &dyn Fn(u32) -> &'static str) -> String {
    let mut text = "NCCL version 2.22.3+cuda12.6\n".to_owned();
    for rank in 0..nodes * 8 {
        let (node, gpu) = (rank / 8, rank % 8);
        let head = format!(
            "node{node:03}:{}:{} [{gpu}] NCCL INFO",
            100 + gpu,
            200 + gpu
        );
        let ranks = nodes * 8;
        let (nic, suffix, peer) = (gpu / 2, suffix(rank), (rank + 8) % ranks);
        text += &format!(
            "{head} NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>\n\
             {head} comm 0x1{rank:04x} rank {rank} nranks {ranks} cudaDev {gpu} nvmlDev {gpu} busId {gpu}a000 commId 0x9 - Init START\n\
             {head} Channel 00/0 : {peer}[{gpu}] -> {rank}[{gpu}] [receive] via NET/IB/{nic}{suffix}\n\
             {head} Channel 00/0 : {rank}[{gpu}] -> {peer}[{gpu}] [send] via NET/IB/{nic}{suffix}\n"
        );
    }
    text
}

#[test]
fn a_job_that_is_well_is_a_row_for_each_nic() {
    insta::assert_snapshot!(shown(&log(&job(128, &|_| "/GDRDMA"))));
}

#[test]
fn some_ranks_without_are_named_with_the_reason() {
    let far = "node001:105:205 [5] NCCL INFO GPU Direct RDMA Disabled for GPU 5a000 / HCA 2 (distance 7 > 4), read 0\n";
    let job = job(2, &|rank| if rank == 13 { "" } else { "/GDRDMA" });
    insta::assert_snapshot!(shown(&log(&(job + far))));
}

#[test]
fn many_alike_are_folded() {
    let disabled = "node000:100:200 [0] NCCL INFO NCCL_NET_GDR_LEVEL set by environment to LOC\n";
    let text = job(16, &|_| "")
        + disabled
        + "node003:100:200 [0] NCCL INFO Channel 00/0 : 24[0] -> 5[0] [send] via NET/I";
    insta::assert_snapshot!(shown(&log(&text)));
}

#[test]
fn what_cannot_be_told_says_what_is_needed() {
    insta::assert_snapshot!(shown(&log("node1:1:2 [0] NCCL INFO Using network IB\n")));
}

#[test]
fn nothing_between_nodes_still_tells_what_would_be_off() {
    let text = "node1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 busId 1000 commId 0x9 - Init COMPLETE\n\
                node1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n";
    insta::assert_snapshot!(shown(&log(text)));
}

#[test]
fn programs_read_the_same() {
    let log = log(&job(2, &|rank| if rank == 13 { "" } else { "/GDRDMA" }));
    let mut out = Vec::new();
    json(&log, &nccl_problems(&log, None), &mut out).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(document["verdict"], "partial");
    assert_eq!(document["exit_code"], 1);
    assert_eq!(document["ranks"].as_array().unwrap().len(), 16);
    insta::assert_json_snapshot!(document["problems"]);
    insta::assert_json_snapshot!(document["ranks"][13]);
}

#[test]
fn ranks_are_listed_in_ranges_and_not_without_end() {
    assert_eq!(
        table::ranks(vec![3, 1, 2, 2, 9, u32::MAX]),
        "1-3, 9, 4294967295"
    );
    let odd = (0..40).map(|n| n * 2 + 1).collect();
    assert_eq!(table::ranks(odd), "1, 3, 5, 7 and 36 more");
}
