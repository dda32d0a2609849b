//! Runs in which something happens that is nobody's fault, or that is not to hide one: a node goes down,
//! stands still, a link is slow for a while. Whoever accepts a cluster does not bear it all the same.

use linerate_lab::Fault;

use crate::accept::rejects_by;
use crate::bench::{Bench, FOUR, RATE};
use crate::record::Recorded;
use crate::running::{Report, Running};

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

/// The lowest share of a healthy link's rate at which a NIC sent or received; what failed moved nothing.
fn lowest(report: &Report, node: &str, device: &str) -> f64 {
    let shares = Recorded::read(&report.record)
        .probes
        .into_iter()
        .filter(|probe| {
            let ends = ["from", "to"].map(|end| &probe.planned["pair"][end]);
            ends.iter()
                .any(|nic| nic["node"] == node && nic["device"] == device)
        })
        .map(|probe| {
            let measurement = &probe.outcome["measured"]["measurement"];
            let number = |field: &str| measurement[field].as_f64().unwrap_or_default();
            // Bytes in a microsecond are thousandths of Gb/s, eight times.
            let gbps = number("bytes") * 8.0 / number("elapsed_us").max(1.0) / 1e3;
            gbps / RATE
        });
    shares.fold(f64::INFINITY, f64::min)
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
    report.complains(&["half-bandwidth node02 rxe1 tx", "node-lost node04"]);
}

/// What was cut short is measured again, and then nothing is wrong.
pub fn a_node_that_stands_still_for_ten_seconds(bench: &mut Bench) {
    let run = under_way(bench);
    bench
        .lab
        .fault(&fault("pause:node03:10s"))
        .expect("the lab takes it");
    let report = run.finish();
    report.complains(&[]);
    report.ends_with(0);
    report.measured(&FOUR, 2);
    // It was there to be seen.
    let share = lowest(&report, "node03", "rxe0");
    assert!(share < 0.85, "node03 was never slower than {share}");
    rejects_by(&report, &[("steady", "node03")]);
}

/// Low once, full the next time: no fault of its NIC.
pub fn a_link_that_is_slow_for_two_seconds(bench: &mut Bench) {
    let run = under_way(bench);
    bench
        .lab
        .fault(&fault("transient:node02:1:both:2s"))
        .expect("the lab takes it");
    let report = run.finish();
    report.complains(&[]);
    report.ends_with(0);
    report.measured(&FOUR, 2);
    let faults = bench.lab.status().expect("the lab answers").faults;
    assert_eq!(faults, [], "the fault did not end");
    // It was there to be seen.
    report.shows("in one round and not in another");
    let share = lowest(&report, "node02", "rxe1");
    assert!(share < 0.85, "node02 was never slower than {share}");
    rejects_by(&report, &[("steady", "node02")]);
}
