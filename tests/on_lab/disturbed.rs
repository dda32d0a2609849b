//! Runs in which something happens that is nobody's fault, or that is not to hide one: a node goes down,
//! stands still, a link is slow for a while.

use linerate_lab::Fault;

use crate::bench::{Bench, FOUR, RATE};
use crate::record::Recorded;
use crate::running::Running;

fn fault(text: &str) -> Fault {
    text.parse().expect("a fault")
}

/// A run over all nodes, up to the moment when data begins to move in its second round.
fn under_way(bench: &mut Bench) -> Running {
    let config = bench.strict_config(|_| ());
    let mut run = bench.start(&config, &[]);
    run.until("round_planned", 2);
    let started = run.count("probe_started");
    run.until("probe_started", started + 1);
    run
}

/// Who is slow is found without the node that is gone, which is not accused.
pub fn a_node_that_is_killed_in_a_round(bench: &mut Bench) {
    bench
        .lab
        .fault(&fault("half:node02:1:tx"))
        .expect("the lab takes it");
    let run = under_way(bench);
    bench.lab.kill("node04").expect("it was up");
    let report = run.finish();
    report.ends_with(1);
    report.measured(&["node01", "node02", "node03"], 2);
    report.finds(&["half-bandwidth node02 rxe1 tx", "node-lost node04"]);
}

/// What was cut short is measured again, and then nothing is wrong.
pub fn a_node_that_stands_still_for_ten_seconds(bench: &mut Bench) {
    let run = under_way(bench);
    bench
        .lab
        .fault(&fault("pause:node03:10s"))
        .expect("the lab takes it");
    let report = run.finish();
    report.finds(&[]);
    report.ends_with(0);
    report.measured(&FOUR, 2);
    // It was there to be seen.
    let slowest = Recorded::read(&report.record).slowest("node03", "rxe0");
    println!("least rate of node03 rxe0: {slowest} Gb/s");
}

/// Low once, full the next time: no fault of its NIC.
pub fn a_link_that_is_slow_for_two_seconds(bench: &mut Bench) {
    let run = under_way(bench);
    bench
        .lab
        .fault(&fault("transient:node02:1:both:2s"))
        .expect("the lab takes it");
    let report = run.finish();
    report.finds(&[]);
    report.ends_with(0);
    report.measured(&FOUR, 2);
    let faults = bench.lab.status().expect("the lab answers").faults;
    assert_eq!(faults, [], "the fault did not end");
    // It was there to be seen.
    let slowest = Recorded::read(&report.record).slowest("node02", "rxe1");
    assert!(slowest < 0.85 * RATE, "{slowest} Gb/s at the least");
}
