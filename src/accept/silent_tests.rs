//! Silent passes that other tools have: here none of them is a pass.

use super::testing::*;
use crate::ledger::testing::ledger;
use crate::model::*;

/// Whatever else a profile says: everybody was measured, and at this rate.
const BANDWIDTH: &str = "of = \"bandwidth\"\nat_least = \"90% of ceiling\"";

fn verdict(text: &str, events: &[Event]) -> AcceptanceVerdict {
    held(&one(text), events).verdict()
}

#[track_caller]
fn does_not_pass(text: &str, events: &[Event]) {
    let acceptance = held(&one(text), events);
    assert_ne!(
        acceptance.verdict(),
        AcceptanceVerdict::Accepted,
        "{acceptance:#?}"
    );
}

#[test]
fn it_passes_where_nothing_is_wrong() {
    assert_eq!(
        verdict(BANDWIDTH, &healthy(3, 2)),
        AcceptanceVerdict::Accepted
    );
}

#[test]
fn unknown_hardware_is_not_accepted() {
    let mut run = servers(2);
    facts_of(&mut run, &|_, facts| {
        if let Fact::Known { value, .. } = &mut facts.pcie {
            let gpus = value
                .functions
                .iter_mut()
                .filter(|f| f.role == PciRole::Gpu);
            gpus.for_each(|gpu| {
                (gpu.vendor, gpu.device) = (Fact::known(0x1234, "vendor"), Fact::known(1, "device"))
            });
        }
    });
    for check in [
        "of = \"gpu-model\"\nsame = true",
        "of = \"gpu-model\"\nis = \"*\"",
        "of = \"gpudirect\"\nis = \"peermem\"",
    ] {
        does_not_pass(check, &run);
    }
    // Ports that state no rate have no ceiling to be near.
    let mut run = healthy(3, 1);
    facts_of(&mut run, &|_, facts| {
        if let Fact::Known { value, .. } = &mut facts.rdma {
            value
                .iter_mut()
                .for_each(|device| device.ports[0].rate = Fact::unknown("no such file"));
        }
    });
    does_not_pass(BANDWIDTH, &run);
}

/// The initiator is content, and of the target nothing was heard.
#[test]
fn what_the_other_end_did_not_confirm_does_not_count() {
    let mut run = healthy(3, 1);
    outcomes(&mut run, &|outcome| {
        if let Outcome::Measured { verified, .. } = outcome {
            *verified = Fact::unknown("the target's answer was lost");
        }
    });
    does_not_pass(BANDWIDTH, &run);
    let mut wrong = healthy(3, 1);
    outcomes(&mut wrong, &|outcome| {
        if let Outcome::Measured {
            verified: Fact::Known { value, .. },
            ..
        } = outcome
        {
            value.bytes_wrong = 1;
        }
    });
    does_not_pass(BANDWIDTH, &wrong);
    let mut nothing = healthy(3, 1);
    outcomes(&mut nothing, &|outcome| {
        if let Outcome::Measured {
            verified: Fact::Known { value, .. },
            ..
        } = outcome
        {
            value.bytes_checked = 0;
        }
    });
    does_not_pass(BANDWIDTH, &nothing);
}

#[test]
fn what_did_not_cross_the_fabric_does_not_count() {
    let mut run = healthy(2, 1);
    facts_of(&mut run, &|_, facts| {
        facts.hostname = Fact::known("here".into(), "uname")
    });
    does_not_pass(BANDWIDTH, &run);
    // By the card's own number, whatever the machines call themselves.
    let mut run = healthy(2, 1);
    facts_of(&mut run, &|_, facts| {
        if let Fact::Known { value, .. } = &mut facts.rdma {
            let guid = "1070:fd03:00e5:b1e2".parse().expect("a GUID");
            value[0].identity.node_guid = Fact::known(guid, "node_guid");
        }
    });
    does_not_pass(BANDWIDTH, &run);
    let said = says(BANDWIDTH, &run);
    assert!(said[0].contains("did not cross the fabric"), "{said:?}");
}

#[test]
fn no_data_is_not_healthy() {
    for run in [
        Vec::new(),
        healthy(3, 1)[..1].to_vec(),
        healthy(1, 1),
        at(3, 1, &|_, _, _| None),
        healthy(3, 0),
    ] {
        for check in [
            BANDWIDTH,
            "of = \"counters\"",
            "of = \"spread\"\nat_most = \"100%\"",
            "of = \"mtu\"\nat_least = 1",
        ] {
            does_not_pass(check, &run);
        }
    }
}

/// A warning that a profile names rejects.
#[test]
fn a_warning_that_is_named_flips_the_verdict() {
    let mut run = servers(3);
    facts_of(&mut run, &|_, facts| {
        facts.memlock = Fact::known(MemlockLimit::Bytes(Bytes(1 << 30)), "limits");
        facts.host.memlock_exempt = Fact::known(false, "/proc/self/status");
    });
    let judgement = crate::judge::judge(&ledger(&run));
    let memlock: Vec<_> = judgement
        .findings
        .iter()
        .filter(|f| f.rule == Rule::Memlock)
        .collect();
    assert!(!memlock.is_empty() && memlock.iter().all(|f| f.severity == Severity::Warning));
    assert_eq!(
        verdict("of = \"findings\"\nrules = [\"memlock\"]", &run),
        AcceptanceVerdict::Rejected
    );
}

/// Each end is good with others, and one pair is not.
#[test]
fn the_worst_pair_is_not_dropped_for_the_best() {
    let run = at(4, 1, &|from, to, _| {
        Some(if (from, to) == (0, 2) {
            0.6 * FULL
        } else {
            FULL
        })
    });
    fails(BANDWIDTH, &run, &["mlx5_0 of node01 → mlx5_0 of node03"]);
    assert_eq!(verdict(BANDWIDTH, &run), AcceptanceVerdict::Rejected);
}

/// Three nodes by twos leave one without a partner.
#[test]
fn the_last_of_an_odd_count_is_not_dropped() {
    let mut run = healthy(3, 1);
    let with_third = |pairs: &[PlannedPair]| {
        pairs.iter().any(|planned| {
            [&planned.pair.from, &planned.pair.to]
                .iter()
                .any(|nic| nic.node.0 == "node03")
        })
    };
    let dropped: Vec<ProbeId> = run
        .iter()
        .filter_map(|event| match event {
            Event::RoundPlanned { pairs, .. } if with_third(pairs) => Some(pairs[0].probe),
            _ => None,
        })
        .collect();
    run.retain(|event| match event {
        Event::RoundPlanned { pairs, .. } => !with_third(pairs),
        Event::ProbeStarted { probe } | Event::ProbeEnded { probe, .. } => !dropped.contains(probe),
        _ => true,
    });
    does_not_pass(BANDWIDTH, &run);
    unknown("of = \"coverage\"", &run, &["node03"]);
    unknown(
        BANDWIDTH,
        &run,
        &["mlx5_0 of node03 tx", "mlx5_0 of node03 rx"],
    );
}

/// A node whose NIC nobody put on a rail, for it is not in the table.
#[test]
fn a_board_that_is_not_in_the_table_is_not_skipped() {
    let mut run = at(3, 1, &|from, to, _| (from != 1 && to != 1).then_some(FULL));
    for event in &mut run {
        if let Event::RailsResolved { nics } = event {
            nics[1].nic = Fact::unknown("node02 has no RDMA device `mlx5_0`; it has irdma0");
        }
    }
    for check in [
        BANDWIDTH,
        "of = \"mtu\"\nis = 4096",
        "of = \"firmware\"\nis = \"*\"",
        "of = \"link-rate\"\nat_least = \"1 Gb/s\"",
    ] {
        let said = says(check, &run);
        let why = "unknown rail 0 of node02: node02 has no RDMA device `mlx5_0`; it has irdma0";
        assert!(said.contains(&why.to_owned()), "{check}: {said:?}");
        does_not_pass(check, &run);
    }
}

/// RoCE is looked at as InfiniBand is.
#[test]
fn roce_devices_are_seen() {
    let run = healthy(3, 1);
    assert_eq!(verdict(BANDWIDTH, &run), AcceptanceVerdict::Accepted);
    let slow = at(3, 1, &|from, _, _| {
        Some(if from == 1 { 0.5 * FULL } else { FULL })
    });
    assert_eq!(verdict(BANDWIDTH, &slow), AcceptanceVerdict::Rejected);
    assert_eq!(
        verdict("of = \"link-layer\"\nis = \"InfiniBand\"", &run),
        AcceptanceVerdict::Rejected
    );
}

/// A probe that went wrong measured nothing, and not 0 Gb/s; and 0 Gb/s is a rate.
#[test]
fn what_went_wrong_is_no_rate() {
    let failed = at(3, 1, &|from, _, _| (from != 1).then_some(FULL));
    let said = says(BANDWIDTH, &failed);
    assert!(
        said.contains(&"unknown mlx5_0 of node02 tx: prepare: registering 1 MiB failed".to_owned()),
        "{said:?}"
    );
    does_not_pass(BANDWIDTH, &failed);
    let still = at(3, 1, &|from, _, _| Some(if from == 1 { 0.0 } else { FULL }));
    assert_eq!(verdict(BANDWIDTH, &still), AcceptanceVerdict::Rejected);
}
