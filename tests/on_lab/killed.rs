//! The controller is killed at a random moment, and the run goes on: nothing is left on the nodes,
//! nothing is lost, nothing is measured twice, and the verdict is that of a run that was not cut.
//!
//! `LINERATE_LAB_KILLS` says how many moments (1), `LINERATE_LAB_SEED` which ones: the seed of a case that
//! fails is printed.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::bench::{Bench, FOUR};
use crate::record::Recorded;
use crate::running::Report;

/// The longest that an agent may outlive its controller: its lease is 15 s.
const GONE_WITHIN: Duration = Duration::from_secs(20);

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

pub fn a_run_goes_on_wherever_it_was_killed(bench: &mut Bench) {
    let fault = "half:node02:1:tx".parse().expect("a fault");
    bench.lab.fault(&fault).expect("the lab takes it");
    let config = bench.strict_config(|_| ());
    let began = Instant::now();
    let whole = bench.report(&config, &[]);
    let length = began.elapsed();
    whole.complains(&["half-bandwidth node02 rxe1 tx"]);
    let seed = number("LINERATE_LAB_SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    for time in 1..=number("LINERATE_LAB_KILLS").unwrap_or(1) {
        let after = length.mul_f64(random.f64());
        let moment = format!("kill {time} after {after:.1?} of {length:.1?}, seed {seed}");
        println!("{moment}");
        let report = cut(bench, &config, after, &moment);
        assert_eq!(
            (report.complaints(), report.status.code()),
            (whole.complaints(), whole.status.code()),
            "{moment}: {report}"
        );
        assert_eq!(report.json["coverage"], whole.json["coverage"], "{moment}");
    }
}

/// A run that is killed after a time, and goes on.
fn cut(bench: &mut Bench, config: &Path, after: Duration, moment: &str) -> Report {
    let mut run = bench.start(config, &[]);
    std::thread::sleep(after);
    run.signal_if_alive(Signal::SIGKILL);
    run.wait();
    bench.nothing_is_left_within(GONE_WITHIN, &FOUR);
    let record = run.record().to_owned();
    let before = std::fs::read(&record).unwrap_or_default();
    let kept = before.iter().rposition(|byte| *byte == b'\n');
    let Some(kept) = kept.map(|end| end + 1) else {
        // Before the run was there at all: there is nothing to go on with.
        let _ = std::fs::remove_file(&record);
        return bench.report(config, &[]);
    };
    let report = bench.resume(config, &record);
    let after = std::fs::read(&record).expect("a record");
    assert!(
        after.starts_with(&before[..kept]),
        "{moment}: lines were lost"
    );
    let again = Recorded::read(&record).measured_again();
    // A suspect is confirmed in up to three rounds, whether the run was cut or not.
    let is_twice = |name: &&String| !name.contains(" for confirm ");
    let twice: Vec<_> = again.iter().filter(is_twice).collect();
    assert!(twice.is_empty(), "{moment}: measured twice: {twice:#?}");
    report
}
