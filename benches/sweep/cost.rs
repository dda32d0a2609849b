//! What a sweep costs the controller: CPU time and memory, without those of the simulated nodes.
//!
//! A run is played and recorded by one process. Another reads the record, and keeps the same books at
//! the same points of the run: its memory is that of a controller without nodes, and its planning and
//! judging are timed apart from everything else.

use std::convert::Infallible;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use linerate::cluster::{Conductor, Fleet, FromNode, Limits, follow_up, rail_nics, rounds};
use linerate::config::Scenario;
use linerate::judge::judge;
use linerate::ledger::Ledger;
use linerate::model::{Event, Fact, NodeName, RailNic};
use linerate::record::{Reader, Writer};
use linerate::simulated::SimulatedFleet;
use linerate::wire::ToAgent;
use nix::time::{ClockId, clock_gettime};
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

/// What a call gives; its CPU time goes to `spent`.
fn timed<T>(spent: &mut Duration, call: impl FnOnce() -> T) -> T {
    let before = cpu();
    let result = call();
    *spent += cpu() - before;
    result
}

/// Memory of this process in MiB: now, and at most so far (VmRSS and VmHWM of /proc/self/status).
fn memory() -> (f64, f64) {
    let status = Process::myself().unwrap().status().unwrap();
    let in_mib = |kib: Option<u64>| kib.unwrap() as f64 / 1024.0;
    (in_mib(status.vmrss), in_mib(status.vmhwm))
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

/// Plays and records a run, has its books kept by a process of its own, and prints a line of the table.
pub fn measure(scenario: &Scenario, seed: u64) {
    let settings = super::settings(scenario, seed);
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("run.jsonl");
    let mut writer = Writer::create(&record).unwrap();
    let (mut nodes, mut recording) = (Duration::ZERO, Duration::ZERO);
    let mut fleet = None;
    timed(&mut nodes, || {
        fleet = Some(SimulatedFleet::new(scenario, &settings.nodes, seed));
    });
    let making = nodes;
    let timed_fleet = Timed {
        fleet: fleet.unwrap(),
        calls: 0,
        spent: &mut nodes,
    };
    let stop = AtomicBool::new(false);
    let mut emit = |event: Event| -> Result<(), Infallible> {
        timed(&mut recording, || writer.append(&event)).unwrap();
        Ok(())
    };
    let mut all = Duration::ZERO;
    timed(&mut all, || {
        let conductor = Conductor::new(timed_fleet, settings, Limits::default(), &stop, &mut emit);
        conductor.run().unwrap();
    });
    let conducting = (all + making).saturating_sub(nodes + recording);
    print!(
        "{:>6}  {:>13.2} s  {:>10.2} s",
        scenario.nodes,
        conducting.as_secs_f64(),
        recording.as_secs_f64()
    );
    std::io::stdout().flush().unwrap();
    let me = std::env::current_exe().unwrap();
    let books = Command::new(me).arg("--books-of").arg(&record).status();
    assert!(books.unwrap().success());
}

/// What a run's books were asked as it went, and how long the answers took.
#[derive(Default)]
struct Books {
    ledger: Ledger,
    planning: Duration,
    applying: Duration,
    planned: Option<u32>,
    events: u64,
}

impl Books {
    fn hear(&mut self, event: &Event) {
        self.events += 1;
        self.plan(event);
        let ledger = &mut self.ledger;
        timed(&mut self.applying, || ledger.apply(event));
    }

    /// Asks what the conductor asked before such an event, and expects what it was told.
    fn plan(&mut self, event: &Event) {
        let ledger = &self.ledger;
        let Some(settings) = ledger.settings() else {
            return;
        };
        match event {
            Event::RailsResolved { nics } => {
                let found = timed(&mut self.planning, || rail_nics(ledger, settings));
                assert_eq!(found.len(), nics.len());
            }
            Event::RoundPlanned { round, pairs } if self.planned != Some(*round) => {
                let of_pattern = pairs.iter().all(|planned| planned.purpose.is_pattern());
                let nics: Vec<_> = rail_entries(ledger);
                let count = match (of_pattern, self.planned) {
                    (true, Some(_)) => pairs.len(),
                    (true, None) => {
                        let plan = timed(&mut self.planning, || rounds(ledger, &nics, settings));
                        plan.rounds[0].len()
                    }
                    _ => timed(&mut self.planning, || follow_up(ledger, settings)).len(),
                };
                assert_eq!(count, pairs.len());
                self.planned = Some(*round);
            }
            Event::RunFinished { .. } => {
                let left = timed(&mut self.planning, || follow_up(ledger, settings));
                assert!(left.is_empty());
            }
            _ => {}
        }
    }
}

fn rail_entries(ledger: &Ledger) -> Vec<RailNic> {
    let entry = |(rail, node, nic): (_, &NodeName, &Fact<_>)| RailNic {
        node: node.clone(),
        rail,
        nic: nic.clone(),
    };
    ledger.rail_nics().map(entry).collect()
}

/// Keeps the books of a recorded run, and prints the rest of the line.
pub fn books(record: &Path) {
    let mut books = Books::default();
    for record in Reader::new(BufReader::new(File::open(record).unwrap()), record) {
        books.hear(&record.unwrap().event);
    }
    let (resident, _) = memory();
    let mut judging = Duration::ZERO;
    let judgement = timed(&mut judging, || judge(&books.ledger));
    let (_, peak) = memory();
    println!(
        "  {:>6}  {:>8}  {:>9}  {:>7.2} s  {:>7.2} s  {:>7.2} s  {:>8.0} MiB  {:>8.0} MiB",
        books.ledger.rounds(),
        judgement.coverage.measured,
        books.events,
        books.applying.as_secs_f64(),
        books.planning.as_secs_f64(),
        judging.as_secs_f64(),
        resident,
        peak,
    );
}

/// The head of the table.
pub fn head() {
    println!(
        "{:>6}  {:>15}  {:>12}  {:>6}  {:>8}  {:>9}  {:>9}  {:>9}  {:>9}  {:>12}  {:>12}",
        "nodes",
        "conductor",
        "record",
        "rounds",
        "ends",
        "events",
        "apply",
        "plan",
        "judge",
        "books",
        "peak"
    );
}
