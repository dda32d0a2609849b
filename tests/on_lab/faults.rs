//! Four nodes, each with a fault that the network has: exactly that is named, and nobody beside it.

use linerate_lab::Fault;

use crate::accept::rejects;
use crate::bench::{Bench, FOUR};
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
