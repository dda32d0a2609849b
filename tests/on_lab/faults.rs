//! Four nodes, each with a fault that the network has: exactly that is named, and nobody beside it.

use linerate_lab::Fault;

use crate::accept::{names, rejects};
use crate::bench::{Bench, FOUR, one_latency, set};
use crate::running::Report;

/// A report over nodes that have this fault.
fn with(bench: &mut Bench, fault: &str) -> Report {
    let fault: Fault = fault.parse().expect("a fault");
    bench.lab.fault(&fault).expect("the lab takes it");
    let config = bench.strict_config(|_| ());
    let report = bench.report(&config, &[]);
    report.ends_with(1);
    report.measured(&FOUR, 2);
    report
}

/// On two rails, so that each has partners that are good.
pub fn a_slow_receiver_and_a_nic_that_is_slow_both_ways(bench: &mut Bench) {
    let receiver: Fault = "half:node03:0:rx".parse().expect("a fault");
    bench.lab.fault(&receiver).expect("the lab takes it");
    let report = with(bench, "half:node04:1:both");
    report.complains(&[
        "half-bandwidth node03 rxe0 rx",
        "half-bandwidth node04 rxe1 rx",
        "half-bandwidth node04 rxe1 tx",
    ]);
    rejects(
        &report,
        &[
            "rxe0 of node03 rx",
            "rxe1 of node04 tx",
            "rxe1 of node04 rx",
        ],
    );
}

/// Each rail alone has its full rate, so none of them is the fault.
pub fn rails_that_are_slow_only_together(bench: &mut Bench) {
    let report = with(bench, "shared:node02:8mbit");
    report.complains(&["node-limit node02"]);
    let rails = [
        "rxe0 of node02 tx",
        "rxe0 of node02 rx",
        "rxe1 of node02 tx",
        "rxe1 of node02 rx",
    ];
    rejects(&report, &rails);
    report.shows("NICs rxe0, rxe1 of node02 are low together");
    report.shows("What they share on the node is the limit, not a NIC.");
}

/// Links that do not meet, each with another fault: the check that is about it tells. None of them is what
/// the judge calls low here, so that only the one that is cut is measured again.
pub fn each_fault_of_a_link_is_rejected_by_its_check(bench: &mut Bench) {
    for fault in [
        "rate:node01:0:rx:5mbit",
        "delay:node03:0:tx:100ms",
        "loss:node04:1:tx:2%",
        "cut:node02:1",
    ] {
        let fault: Fault = fault.parse().expect("a fault");
        bench.lab.fault(&fault).expect("the lab takes it");
    }
    let config = bench.config(|table| {
        set(table, &["sweep", "pattern"], "full");
        set(table, &["probe", "duration"], "1s");
        one_latency(table);
    });
    let (accepted, _) = bench.accept(&config);
    accepted.ends_with(1);
    let failed = [
        ("bandwidth", "rxe0 of node01 rx"),
        ("latency", "rxe0 of node03"),
        ("counters", "rxe1 of node04"),
    ];
    names(&accepted.json, "failed", &failed);
    // What nobody answers on is not known to be slow.
    let unjudged = [("coverage", "node02"), ("bandwidth", "rxe1 of node02 tx")];
    names(&accepted.json, "not_judged", &unjudged);
}
