//! How many rounds the adaptive sweep needs to name what is slow, and why it is, beside schedules that
//! are fixed; and what it costs the controller.
//!
//! `cargo bench --bench sweep [-- --quick] [--runs N] [--nodes N] [--cost-only]`. Without `--runs` every
//! line has as many runs, each with a seed of its own, as fit in its share of two minutes. Nodes are
//! simulated: 8 rails, 32 nodes below a leaf switch, 1 % noise, 0.5 % outliers, 0.5 % of the nodes silent
//! in each round. Rounds to name (to cause): until every slow direction of a NIC is named (its cause is).
//! A second table has the faults that are not a NIC's slowness, and what is said of them.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails where it stands"
)]

mod cost;
mod fixed;
mod other;
mod truth;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fixed::Fixed;
use linerate::cluster::{Conductor, Limits};
use linerate::config::{Scenario, read_scenario};
use linerate::judge::judge;
use linerate::ledger::Ledger;
use linerate::model::{End, Event, Pattern, RunSettings};
use linerate::simulated::{FaultKind, SimulatedFleet, plant};
use truth::Truth;

const RAILS: u16 = 8;

/// What the lines of the table have without `--runs`, together.
const BUDGET: Duration = Duration::from_secs(120);

/// All pairs of more nodes are not played.
const MOST_ALL_PAIRS: u16 = 128;

/// Faults that are not slowness of a NIC are told, or not, in no other way where there are more nodes.
const MOST_OTHERS: u16 = 128;

/// Kinds of slowness, each told apart from the others by its cause.
const SLOW: [FaultKind; 9] = [
    FaultKind::SlowSender,
    FaultKind::SlowReceiver,
    FaultKind::SlowNic,
    FaultKind::NarrowPcie,
    FaultKind::SharedSwitch,
    FaultKind::NodeLimit,
    FaultKind::HalfDuplex,
    FaultKind::GpuPath,
    FaultKind::OneQueuePair,
];

/// A line of the table before anything ran: what is planted, and in how many nodes.
struct Case {
    nodes: u16,
    kinds: Vec<FaultKind>,
    count: usize,
}

impl Case {
    fn name(&self) -> String {
        match (self.count, self.kinds.as_slice()) {
            (0, _) => "healthy".to_owned(),
            (1, [kind]) => format!("{kind:?}"),
            (count, [kind]) => format!("{count} {kind:?}"),
            (count, _) => format!("{count} mixed"),
        }
    }

    fn scenario(&self, seed: u64) -> Scenario {
        let text = format!(
            "nodes = {}\nrails = {RAILS}\nleaf_size = 32\nsilent = 0.005",
            self.nodes
        );
        let mut scenario = read_scenario(&text, "benchmark").unwrap();
        let planted = plant(&mut scenario, &self.kinds, self.count, seed);
        assert_eq!(planted, self.count, "there is no room for {}", self.name());
        scenario
    }
}

/// What came of one run.
#[derive(Default)]
struct Score {
    /// Rounds until the last of those ends, or causes, that were found; `None` where none was.
    to_name: Option<u32>,
    to_cause: Option<u32>,
    rounds: u32,
    slow: usize,
    missed: usize,
    falsely: usize,
    faults: usize,
    wrong_cause: usize,
}

/// The settings of the sweep over a scenario.
fn settings(scenario: &Scenario, seed: u64) -> RunSettings {
    let mut settings = scenario.settings(seed).unwrap();
    settings.sweep.pattern = Pattern::Adaptive;
    settings.sweep.both_ways = true;
    settings
}

/// What was named at which round of a run, as it goes.
struct Watching<'a> {
    truth: &'a Truth,
    ledger: Ledger,
    round: Option<u32>,
    named: BTreeSet<End>,
    to_name: Option<u32>,
    caused: Vec<bool>,
    to_cause: Option<u32>,
}

impl Watching<'_> {
    fn hear(&mut self, event: &Event) {
        match event {
            Event::RoundPlanned { round, .. } if self.round != Some(*round) => {
                self.round = Some(*round);
                // Nothing is accused by one round alone.
                if *round >= 2 {
                    self.look(*round);
                }
            }
            _ => {}
        }
        self.ledger.apply(event);
    }

    /// What is named after so many rounds.
    fn look(&mut self, rounds: u32) {
        let found = self.truth.compare(&judge(&self.ledger));
        if found.named.difference(&self.named).next().is_some() {
            self.to_name = Some(rounds);
            self.named.extend(found.named);
        }
        self.caused.resize(found.causes.len(), false);
        for (known, now) in self.caused.iter_mut().zip(found.causes) {
            if now && !*known {
                *known = true;
                self.to_cause = Some(rounds);
            }
        }
    }
}

fn adaptive(scenario: &Scenario, seed: u64) -> Score {
    let truth = Truth::of(scenario);
    let settings = settings(scenario, seed);
    let fleet = SimulatedFleet::new(scenario, &settings.nodes, seed);
    let mut watching = Watching {
        truth: &truth,
        ledger: Ledger::default(),
        round: None,
        named: BTreeSet::new(),
        to_name: None,
        caused: Vec::new(),
        to_cause: None,
    };
    let mut emit = |event: Event| -> Result<(), Infallible> {
        watching.hear(&event);
        Ok(())
    };
    let stop = AtomicBool::new(false);
    let conductor = Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit);
    conductor.run().unwrap();
    let rounds = watching.round.map_or(0, |last| last + 1);
    watching.look(rounds);
    // What counts is what is said in the end.
    let end = truth.compare(&judge(&watching.ledger));
    if std::env::var_os("SWEEP_SHOW").is_some() {
        show(&truth, &end, seed);
    }
    Score {
        to_name: watching.to_name,
        to_cause: watching.to_cause,
        rounds,
        slow: truth.ends(),
        missed: truth.missing(&end.named),
        falsely: end.falsely.len(),
        faults: truth.planted.len(),
        wrong_cause: end.causes.iter().filter(|named| !**named).count(),
    }
}

/// Whatever went wrong in a run, to look at.
fn show(truth: &Truth, end: &truth::Found, seed: u64) {
    for falsely in &end.falsely {
        eprintln!("seed {seed}: falsely {falsely}");
    }
    for (planted, cause) in truth.planted.iter().zip(&end.causes) {
        let named = planted.ends.iter().filter(|end_| end.named.contains(end_));
        let (named, of) = (named.count(), planted.ends.len());
        if !cause || named < of {
            eprintln!("seed {seed}: {named} of {of} ends named, cause {cause}: {planted:?}");
        }
    }
}

fn fixed(schedule: Fixed, scenario: &Scenario, seed: u64) -> Score {
    let truth = Truth::of(scenario);
    let spec = scenario.settings(seed).unwrap().probe;
    let found = truth.sort(fixed::accused(schedule, scenario, &spec, seed));
    let rounds = schedule.rounds(usize::from(scenario.nodes), seed).len() as u32;
    Score {
        to_name: (!found.named.is_empty()).then_some(rounds),
        to_cause: None,
        rounds,
        slow: truth.ends(),
        missed: truth.missing(&found.named),
        falsely: found.falsely.len(),
        faults: truth.planted.len(),
        wrong_cause: truth.planted.len(),
    }
}

/// Median, 95th percentile and maximum, by nearest rank.
fn spread(mut of: Vec<u32>) -> String {
    of.sort_unstable();
    let rank = |share: f64| ((of.len() as f64 * share).ceil() as usize).saturating_sub(1);
    match of.last() {
        Some(max) => format!("{:>3} {:>3} {max:>3}", of[rank(0.5)], of[rank(0.95)]),
        None => format!("{:>3} {:>3} {:>3}", "-", "-", "-"),
    }
}

fn print(case: &Case, method: &str, scores: &[Score]) {
    let all = |of: fn(&Score) -> Option<u32>| spread(scores.iter().filter_map(of).collect());
    let sum = |of: fn(&Score) -> usize| scores.iter().map(of).sum::<usize>();
    println!(
        "{:>6}  {:<14}  {:<20}  {:>5}  {}  {}  {}  {:>13}  {:>7}  {:>13}",
        case.nodes,
        case.name(),
        method,
        scores.len(),
        all(|score| score.to_name),
        all(|score| score.to_cause),
        all(|score| Some(score.rounds)),
        format!("{} of {}", sum(|s| s.missed), sum(|s| s.slow)),
        sum(|s| s.falsely),
        format!("{} of {}", sum(|s| s.wrong_cause), sum(|s| s.faults)),
    );
}

fn head() {
    println!(
        "{:>6}  {:<14}  {:<20}  {:>5}  {:>11}  {:>11}  {:>11}  {:>13}  {:>7}  {:>13}",
        "nodes",
        "planted",
        "schedule",
        "runs",
        "to name",
        "to cause",
        "rounds",
        "missed",
        "falsely",
        "cause unknown"
    );
    println!(
        "{:>6}  {:<14}  {:<20}  {:>5}  {:>11}  {:>11}  {:>11}  {:>13}  {:>7}  {:>13}",
        "",
        "",
        "",
        "",
        "med p95 max",
        "med p95 max",
        "med p95 max",
        "directions",
        "accused",
        "faults"
    );
}

/// As many runs as are wanted, or fit.
fn repeat(runs: Option<u64>, time: Duration, run: &dyn Fn(u64) -> Score) -> Vec<Score> {
    let begin = Instant::now();
    let mut scores = Vec::new();
    for seed in 1.. {
        scores.push(run(seed));
        if runs.map_or(begin.elapsed() >= time, |runs| seed >= runs) {
            break;
        }
    }
    scores
}

fn play(case: &Case, runs: Option<u64>, time: Duration) {
    let scores = repeat(runs, time, &|seed| adaptive(&case.scenario(seed), seed));
    print(case, "adaptive", &scores);
    // Fixed schedules are quick to play and only to compare with.
    let runs = Some(scores.len() as u64);
    let mut schedules = vec![Fixed::Ring, Fixed::Random(2), Fixed::Random(7)];
    if case.nodes <= MOST_ALL_PAIRS {
        schedules.insert(0, Fixed::AllPairs);
    }
    if case.kinds.len() > 1 {
        for schedule in schedules {
            let run = |seed| fixed(schedule, &case.scenario(seed), seed);
            print(case, &schedule.name(), &repeat(runs, time, &run));
        }
        if case.nodes > MOST_ALL_PAIRS {
            let name = Fixed::AllPairs.name();
            println!(
                "{:>6}  {:<14}  {name:<20}  not played: {} rounds",
                case.nodes,
                case.name(),
                case.nodes - 1
            );
        }
    }
}

/// Each kind once, and a mixture.
fn cases(nodes: u16, each: bool) -> Vec<Case> {
    let case = |kinds: &[FaultKind], count| Case {
        nodes,
        kinds: kinds.to_vec(),
        count,
    };
    let mixed = match nodes {
        0..=31 => 3,
        32..=511 => 9,
        _ => 50,
    };
    let mut cases = vec![case(&[], 0)];
    if each {
        cases.extend(SLOW.iter().map(|kind| case(&[*kind], 1)));
    }
    cases.push(case(&SLOW, mixed));
    cases
}

struct Arguments {
    quick: bool,
    runs: Option<u64>,
    nodes: Option<u16>,
    cost_of: Option<u16>,
    books_of: Option<PathBuf>,
    cost_only: bool,
}

fn arguments() -> Arguments {
    let all: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| all.iter().any(|argument| argument == name);
    let number = |name: &str| -> Option<u64> {
        let at = all.iter().position(|argument| argument == name)?;
        let number = all.get(at + 1).and_then(|text| text.parse().ok());
        Some(number.unwrap_or_else(|| panic!("{name} takes a number")))
    };
    let small = |name| number(name).map(|n| u16::try_from(n).unwrap());
    Arguments {
        quick: has("--quick"),
        runs: number("--runs"),
        nodes: small("--nodes"),
        cost_of: small("--cost-of"),
        books_of: all
            .iter()
            .position(|argument| argument == "--books-of")
            .map(|at| PathBuf::from(&all[at + 1])),
        cost_only: has("--cost-only"),
    }
}

fn main() {
    let arguments = arguments();
    if let Some(nodes) = arguments.cost_of {
        let case = cases(nodes, false).pop().unwrap();
        return cost::measure(&case.scenario(1), 1);
    }
    if let Some(record) = arguments.books_of {
        return cost::books(&record);
    }
    let sizes = match (arguments.nodes, arguments.quick) {
        (Some(nodes), _) => vec![nodes],
        (None, true) => vec![16, 64],
        (None, false) => vec![16, 128, 1024, 4096],
    };
    if !arguments.cost_only {
        head();
        let each = |nodes: &u16| cases(*nodes, *nodes <= 1024);
        let cases: Vec<Case> = sizes.iter().flat_map(each).collect();
        let budget = if arguments.quick { BUDGET / 12 } else { BUDGET };
        for case in &cases {
            play(case, arguments.runs, budget / cases.len() as u32);
        }
        println!();
        for nodes in sizes.iter().filter(|nodes| **nodes <= MOST_OTHERS) {
            other::table(*nodes, budget / 4);
            println!();
        }
    }
    let sizes = match (arguments.nodes, arguments.quick) {
        (Some(nodes), _) => vec![nodes],
        (None, true) => vec![64],
        (None, false) => vec![256, 1024, 4096],
    };
    cost::head();
    for nodes in sizes {
        // A process of its own: memory that was once used does not go down again.
        let me = std::env::current_exe().unwrap();
        let one = Command::new(me)
            .args(["--cost-of", &nodes.to_string()])
            .status();
        assert!(one.unwrap().success());
    }
}
