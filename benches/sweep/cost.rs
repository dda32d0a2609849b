//! What a sweep costs the controller: its CPU time and its memory, without the simulated nodes'.

use std::convert::Infallible;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use linerate::cluster::{Conductor, Fleet, FromNode, Limits};
use linerate::config::Scenario;
use linerate::judge::judge;
use linerate::ledger::Ledger;
use linerate::model::Event;
use linerate::simulated::SimulatedFleet;
use linerate::wire::ToAgent;
use nix::time::{ClockId, clock_gettime};
use procfs::WithCurrentSystemInfo;
use procfs::process::Process;

/// Of so many calls of the fleet one is timed, and stands for all: a look at the clock costs more
/// than most calls.
const EVERY: u64 = 64;

/// CPU time of this thread.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .unwrap()
        .into()
}

/// A fleet whose time is taken.
struct Timed<'t> {
    fleet: SimulatedFleet,
    calls: u64,
    spent: &'t mut Duration,
}

impl Timed<'_> {
    fn timed<T>(&mut self, call: impl FnOnce(&mut SimulatedFleet) -> T) -> T {
        self.calls += 1;
        if !self.calls.is_multiple_of(EVERY) {
            return call(&mut self.fleet);
        }
        let before = cpu();
        let result = call(&mut self.fleet);
        *self.spent += (cpu() - before) * EVERY as u32;
        result
    }
}

impl Fleet for Timed<'_> {
    fn is_real_time(&self) -> bool {
        false
    }

    fn send(&mut self, node: usize, message: &ToAgent) {
        self.timed(|fleet| fleet.send(node, message));
    }

    fn next(&mut self, timeout: Duration) -> Option<(usize, FromNode)> {
        self.timed(|fleet| fleet.next(timeout))
    }

    fn now(&self) -> Instant {
        self.fleet.now()
    }

    fn close(&mut self) {
        self.fleet.close();
    }
}

/// Plays a run and prints a line of the table.
pub fn measure(scenario: &Scenario, seed: u64) {
    let settings = super::settings(scenario, seed);
    let mut spent = Duration::ZERO;
    let (before, mut events) = (cpu(), 0u64);
    let mut ledger = Ledger::default();
    let made = cpu();
    let fleet = Timed {
        fleet: SimulatedFleet::new(scenario, &settings.nodes, seed),
        calls: 0,
        spent: &mut spent,
    };
    let making = cpu() - made;
    let stop = AtomicBool::new(false);
    let mut emit = |event: Event| -> Result<(), Infallible> {
        events += 1;
        ledger.apply(&event);
        Ok(())
    };
    let conductor = Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit);
    conductor.run().unwrap();
    let conducting = (cpu() - before).saturating_sub(making + spent);
    let before = cpu();
    let judgement = judge(&ledger);
    let judging = cpu() - before;
    let status = Process::myself().unwrap().status().unwrap();
    let peak = status.vmhwm.unwrap_or(0) as f64 / 1024.0;
    let resident = Process::myself().unwrap().stat().unwrap().rss_bytes().get();
    println!(
        "{:>6}  {:>6}  {:>8}  {:>9}  {:>13.2} s  {:>12.2} s  {:>8.0} MiB  {:>8.0} MiB",
        scenario.nodes,
        ledger.rounds(),
        judgement.coverage.measured,
        events,
        conducting.as_secs_f64(),
        judging.as_secs_f64(),
        resident as f64 / f64::from(1 << 20),
        peak,
    );
}

/// The head of the table.
pub fn head() {
    println!(
        "{:>6}  {:>6}  {:>8}  {:>9}  {:>15}  {:>14}  {:>12}  {:>12}",
        "nodes", "rounds", "pairs", "events", "plan and record", "judge at end", "resident", "peak"
    );
}
