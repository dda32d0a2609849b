//! Logs beside surveys: who is blamed for what.

use super::*;
use crate::judge::rules::testing::without_gpudirect;
use crate::ledger::Ledger;
use crate::model::testing::pcie::TwoSockets;
use crate::model::{Event, Fact, NodeFacts};
use crate::nccl::NcclReader;

fn log(text: &str) -> NcclLog {
    let mut reader = NcclReader::default();
    reader.read("job.log", &mut text.as_bytes()).unwrap();
    reader.finish()
}

/// Rank 5 of `host`, with its GPU, sends and receives through a NIC.
fn job(host: &str, bus: &str, nic: &str, suffix: &str) -> NcclLog {
    let head = format!("{host}:310:322 [2] NCCL INFO");
    log(&format!(
        "{head} NET/IB : Using [0]{nic}:1/IB [RO]; OOB eth0:10.0.0.1<0>\n\
         {head} comm 0x1 rank 5 nranks 16 cudaDev 2 nvmlDev 2 busId {bus} commId 0x9 - Init START\n\
         {head} Channel 00/0 : 13[2] -> 5[2] [receive] via NET/IB/0{suffix}\n\
         {head} Channel 00/0 : 5[2] -> 13[2] [send] via NET/IB/0{suffix}\n"
    ))
}

fn ledger(names: &[&str], facts: &NodeFacts) -> Ledger {
    let mut ledger = Ledger::default();
    for name in names {
        ledger.apply(&Event::NodeSurveyed {
            node: (*name).into(),
            facts: Box::new(facts.clone()),
        });
    }
    ledger
}

/// The problems' sentences, beside a survey of node012 as it is in `facts`.
fn beside(log: &NcclLog, facts: &NodeFacts) -> Vec<String> {
    let ledger = ledger(&["node012.example.org"], facts);
    let survey = NcclSurvey::of(&ledger);
    let problems = nccl_problems(log, Some(&survey));
    problems.into_iter().map(|problem| problem.says).collect()
}

const GPU2: &str = "c5000";
const GPU0: &str = "14000";

#[test]
fn the_log_alone_names_rank_gpu_nic_and_directions() {
    let log = job("node012", GPU2, "mlx5_0", "");
    let [problem] = &nccl_problems(&log, None)[..] else {
        panic!("one problem was expected")
    };
    assert_eq!(
        problem.says,
        "rank 5 on node012: GPU 0000:c5:00.0 sends and receives through mlx5_0 without GDRDMA: the log does \
         not say why."
    );
    assert_eq!(problem.severity, Severity::Fault);
    assert_eq!(problem.evidence, ["job.log, lines 3 and 4"]);
    assert_eq!(problem.directions, [Direction::Send, Direction::Receive]);
    assert!(problem.remedy.contains(DEBUG), "{}", problem.remedy);
}

#[test]
fn a_nic_on_another_socket_is_the_reason_and_the_affine_one_is_named() {
    let log = job("node012", GPU2, "mlx5_0", "");
    assert_eq!(
        beside(&log, &TwoSockets::facts()),
        [
            "rank 5 on node012: GPU 0000:c5:00.0 sends and receives through mlx5_0 without GDRDMA: the log \
             does not say why. The survey: GPU2 and mlx5_0 are on different sockets (SYS); its affine NIC is \
             mlx5_4 (PIX)."
        ]
    );
}

#[test]
fn near_devices_without_a_way_are_told_by_what_is_missing() {
    let log = job("node012", GPU0, "mlx5_0", "");
    let [says] = &beside(&log, &without_gpudirect())[..] else {
        panic!("one problem was expected")
    };
    let expected = "The survey: mlx5_0 has no way to the memory of GPU0: nvidia_peermem is not loaded; NVIDIA's \
                    driver 550.54.15 is the proprietary one, which exports no dma-buf.";
    assert!(says.ends_with(expected), "{says}");
}

#[test]
fn gdrdma_across_sockets_is_a_note_and_with_the_affine_nic_nothing() {
    let log = job("node012", GPU2, "mlx5_0", "/GDRDMA");
    let [says] = &beside(&log, &TwoSockets::facts())[..] else {
        panic!("one problem was expected")
    };
    assert!(
        says.contains("through mlx5_0 with GDRDMA. The survey: GPU2 and mlx5_0 are on"),
        "{says}"
    );
    let log = job("node012", GPU0, "mlx5_0", "/GDRDMA");
    assert_eq!(beside(&log, &TwoSockets::facts()), [""; 0]);
    assert!(nccl_problems(&log, None).is_empty());
}

#[test]
fn what_the_survey_does_not_know_is_not_guessed() {
    let unexplained = "the log does not say why.";
    let far = |host: &str, bus: &str, nic: &str, facts: &NodeFacts| {
        let says = beside(&job(host, bus, nic, ""), facts);
        says.len() == 1 && says[0].ends_with(unexplained)
    };
    let facts = TwoSockets::facts();
    // Another node, GPU or NIC.
    assert!(far("node013", GPU2, "mlx5_0", &facts));
    assert!(far("node012", "d5000", "mlx5_0", &facts));
    assert!(far("node012", GPU2, "mlx5_77", &facts));
    // A survey without a PCIe tree, or without RDMA devices.
    let mut blind = facts.clone();
    blind.pcie = Fact::default();
    assert!(far("node012", GPU2, "mlx5_0", &blind));
    blind = facts.clone();
    blind.rdma = Fact::default();
    assert!(far("node012", GPU2, "mlx5_0", &blind));
    // Two nodes of one short name.
    let twice = ledger(&["node012.a", "node012.b"], &facts);
    assert!(!NcclSurvey::of(&twice).knows("node012"));
}

#[test]
fn a_device_of_several_is_known_by_its_parts() {
    let log = job("NODE012", GPU2, "mlx5_9+mlx5_0", "");
    let says = beside(&log, &TwoSockets::facts());
    assert!(
        says[0].contains("GPU2 and mlx5_0 are on different sockets"),
        "{says:?}"
    );
}

#[test]
fn failed_transfers_come_with_faults_and_without() {
    let log = log(
        "a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n\
         a:1:2 [0] net_ib.cc:1 NCCL WARN NET/IB : Got completion with error 4, opcode 0, vendor err 81\n",
    );
    let [problem] = &nccl_problems(&log, None)[..] else {
        panic!("one problem was expected")
    };
    assert_eq!(
        problem.says,
        "a transfer failed on a: error 4, opcode 0, vendor err 81."
    );
    assert!(problem.remedy.contains("ACS"));
    assert_eq!(log.verdict().exit_code(), 0);
}
