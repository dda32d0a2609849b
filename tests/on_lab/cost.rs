//! What moving data costs, on nodes whose RDMA is software: both ends are accounted for, and nothing is said
//! of what it saves.

use crate::bench::{Bench, set};

pub fn tcp_is_measured_beside_rdma(bench: &mut Bench) {
    let config = bench.config(|table| set(table, &["probe", "cost", "duration"], "500ms"));
    let report = bench.cost(
        &config,
        &["--rails", "0", "--only", "tcp,write,latency-tcp"],
    );
    report.ends_with(0);
    report.complains(&[]);
    let pairs = report.json["cost"]["pairs"].as_array().expect("a list");
    // Three nodes meet twice, in both directions.
    assert_eq!(pairs.len(), 4, "{report}");
    for pair in pairs {
        let steps = pair["steps"].as_array().expect("a list");
        let names: Vec<_> = steps
            .iter()
            .filter_map(|step| step["step"].as_str())
            .collect();
        assert_eq!(names, ["tcp", "write"], "{report}");
        for step in steps {
            assert!(step["gbps"].as_f64() > Some(0.0), "{step:#}");
            assert_eq!(step["verified"]["value"]["bytes_wrong"], 0, "{step:#}");
            for end in ["initiator", "target"] {
                let end = &step[end];
                // An emulated node may count fewer ticks than its threads took: then that is said.
                let known = end["beside_us"].is_number();
                assert_ne!(known, end["beside_unknown"].is_string(), "{end:#}");
                // What ticks hide has a bound and no number.
                let least = [&end["ns_per_kib"], &end["bounds"]["ns_per_kib_below"]];
                assert!(
                    least.iter().any(|ns| ns.as_f64() > Some(0.0)) || end["why_null"].is_string(),
                    "{end:#}"
                );
                assert!(end["idle_cores"].is_number(), "{end:#}");
            }
        }
        assert_eq!(pair["software_rdma"], true);
        assert!(pair["savings"]["together"].is_null(), "{pair:#}");
    }
    let latency = pairs
        .iter()
        .flat_map(|pair| pair["latency"].as_array())
        .flatten();
    assert!(latency.count() > 0, "{report}");
    report.shows("COST MEASURED: 4 pairs of NICs");
    report.shows("software RDMA");
}

pub fn two_write_to_one_at_once(bench: &mut Bench) {
    let config = bench.config(|table| set(table, &["probe", "cost", "duration"], "500ms"));
    let report = bench.cost(&config, &["--rails", "0", "--only", "incast"]);
    report.ends_with(0);
    report.complains(&[]);
    let bursts = report.json["cost"]["incasts"].as_array().expect("a list");
    let steps: Vec<_> = bursts.iter().map(|burst| &burst["step"]).collect();
    assert_eq!(steps, ["incast-write", "incast-tcp"], "{report}");
    for burst in bursts {
        let senders = burst["senders"].as_array().expect("a list");
        assert_eq!(
            (senders.len(), &burst["failed"]),
            (2, &0.into()),
            "{burst:#}"
        );
        assert!(burst["gbps"].as_f64() > Some(0.0), "{burst:#}");
        assert!(burst["least_to_most"].as_f64() <= Some(1.0), "{burst:#}");
        assert_eq!(burst["software_rdma"], true);
    }
    report.shows("Congestion: many to one");
}
