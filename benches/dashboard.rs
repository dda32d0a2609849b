//! What the dashboard costs: taking in events, drawing a frame, and showing what NICs carry now.
//!
//! `cargo bench --bench dashboard [-- NODES…]`. Runs of 16, 128, 1024 and 4096 nodes of 8 rails, and of
//! all pairs of 128 (`128full`), are simulated and recorded by one process and read by another, whose
//! memory is then that of a dashboard. CPU time of one thread; frames of 120 x 40, drawn to memory.
//! `still`: nothing changed since the frame before. The others: a node and a NIC's probe in each rail
//! did, so that rows are put in order anew; in the grid, and in each of the other panes. `watch`: the
//! share of a core that a sample of each node in each second takes, with a frame a second.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails where it stands"
)]

use std::convert::Infallible;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linerate::cluster::{Conductor, Limits};
use linerate::config::{DEMO, read_scenario};
use linerate::judge::judge;
use linerate::model::{
    Event, Fact, NodeName, Outcome, Pattern, PlannedPair, PortLayout, PortReading, ProbeId,
    Quantity, Record, Sample, SampleLayout, Series,
};
use linerate::record::{Reader, Writer};
use linerate::simulated::SimulatedFleet;
use linerate::tui::{Depth, Ground, Msg, Run, Theme, View, draw, update};
use nix::time::{ClockId, clock_gettime};
use procfs::process::Process;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

const RAILS: u16 = 8;

/// Frames of each kind.
const FRAMES: u32 = 200;

/// The panes by their keys; the heading of the table has their names.
const PANES: [char; 6] = ['1', '2', '3', '4', '5', '6'];

/// Seconds of samples.
const SECONDS: u64 = 30;

/// Counters of a port, as many as mlx5 has that count.
const COUNTERS: usize = 22;

/// CPU time of this thread.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .unwrap()
        .into()
}

fn timed<T>(spent: &mut Duration, call: impl FnOnce() -> T) -> T {
    let before = cpu();
    let result = call();
    *spent += cpu() - before;
    result
}

fn resident_mib() -> f64 {
    let status = Process::myself().unwrap().status().unwrap();
    status.vmrss.unwrap() as f64 / 1024.0
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut next = || words.find(|word| !word.starts_with("--"));
    let first = next();
    match first.as_deref() {
        Some("play") => return play(&next().unwrap(), next().unwrap().as_ref()),
        Some("show") => return show(&next().unwrap(), next().unwrap().as_ref()),
        _ => {}
    }
    let asked: Vec<String> = first.into_iter().chain(std::iter::from_fn(next)).collect();
    let usual = || ["16", "128", "1024", "4096", "128full"].map(String::from);
    let sizes = if asked.is_empty() {
        usual().to_vec()
    } else {
        asked
    };
    println!("                                          ms of a frame");
    println!(
        "  nodes  events  events/s   MiB  judge ms  still   grid  pairs   node    cpu  found    run  watch %   MiB"
    );
    for nodes in sizes {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("run.jsonl");
        for what in ["play", "show"] {
            let mut child = Command::new(std::env::current_exe().unwrap());
            let child = child.arg(what).arg(&nodes).arg(&record);
            assert!(child.status().unwrap().success());
        }
    }
}

/// Records a simulated run.
fn play(size: &str, record: &Path) {
    let (nodes, pattern) = match size.strip_suffix("full") {
        Some(nodes) => (nodes, Pattern::Full),
        None => (size, Pattern::Adaptive),
    };
    let scenario = read_scenario(DEMO, "the demo").unwrap();
    let (scenario, _) = scenario.resized(Some(nodes.parse().unwrap()), Some(RAILS));
    let mut settings = scenario.settings(1).unwrap();
    settings.sweep.pattern = pattern;
    let fleet = SimulatedFleet::new(&scenario, &settings.nodes, 1);
    let mut writer = Writer::create(record).unwrap();
    let mut emit = |event: Event| -> Result<(), Infallible> {
        writer.append(&event).unwrap();
        Ok(())
    };
    let stop = AtomicBool::new(false);
    let conductor = Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit);
    conductor.run().unwrap();
}

/// Reads it into a dashboard, and prints a line of the table.
fn show(size: &str, record: &Path) {
    let mut run = Run::default();
    let (mut learning, mut events) = (Duration::ZERO, 0_u32);
    let reader = Reader::new(BufReader::new(File::open(record).unwrap()), record);
    for read in reader {
        let record = Box::new(read.unwrap());
        timed(&mut learning, || run.learn(record));
        events += 1;
    }
    let mut judging = Duration::ZERO;
    let judgement = timed(&mut judging, || judge(run.ledger()));
    run.judged(judgement);
    let resident = resident_mib();
    let mut screen = Screen::new();
    screen.frame(&run);
    let mut still = Duration::ZERO;
    for _ in 0..FRAMES {
        timed(&mut still, || screen.frame(&run));
    }
    let moved = PANES.map(|pane| moved(&mut run, &mut screen, pane));
    screen.press('1', &run);
    let watch = watch(&mut run, &mut screen);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let frames = [still].into_iter().chain(moved);
    let frames = frames.map(|all| format!("{:>6.3} ", ms(all) / f64::from(FRAMES)));
    println!(
        "{size:>7} {events:>7} {:>9.0} {resident:>5.0} {:>9.1} {} {:>7.2} {:>5.0}",
        f64::from(events) / learning.as_secs_f64(),
        ms(judging),
        frames.collect::<String>(),
        watch * 100.0,
        resident_mib(),
    );
}

/// Frames of a pane, before each of which something changed.
fn moved(run: &mut Run, screen: &mut Screen, pane: char) -> Duration {
    let mut spent = Duration::ZERO;
    screen.press(pane, run);
    screen.frame(run);
    let mut last = run
        .ledger()
        .probes()
        .map(|probe| probe.planned.probe.0)
        .max()
        .unwrap();
    for n in 0..FRAMES {
        let rows = run.grid().rows();
        let name = rows[n as usize % rows.len()].name.clone();
        let known = run
            .ledger()
            .probes()
            .skip(n as usize)
            .take(usize::from(RAILS));
        let pairs: Vec<PlannedPair> = known
            .map(|probe| again(&probe.planned, &mut last))
            .collect();
        let ends: Vec<ProbeId> = pairs.iter().map(|planned| planned.probe).collect();
        let round = n + 1_000_000;
        run.learn(Box::new(record(0, Event::RoundPlanned { round, pairs })));
        for probe in ends {
            let outcome = Outcome::NotRun {
                why: "for a change".into(),
            };
            run.learn(Box::new(record(0, Event::ProbeEnded { probe, outcome })));
        }
        run.learn(Box::new(record(
            0,
            Event::NodeConnected {
                node: name,
                agent: "0.1.0".into(),
            },
        )));
        timed(&mut spent, || screen.frame(run));
    }
    spent
}

fn again(planned: &PlannedPair, last: &mut u64) -> PlannedPair {
    *last += 1;
    let mut planned = planned.clone();
    planned.probe = ProbeId(*last);
    planned
}

fn record(at_ms: u64, event: Event) -> Record {
    let seq = 0;
    Record { seq, at_ms, event }
}

/// The share of a core that a sample of each node in each second takes.
fn watch(run: &mut Run, screen: &mut Screen) -> f64 {
    let names: Vec<NodeName> = run
        .grid()
        .rows()
        .iter()
        .map(|row| row.name.clone())
        .collect();
    for node in &names {
        let layout = Box::new(layout());
        let node = node.clone();
        run.learn(Box::new(record(0, Event::NodeWatched { node, layout })));
    }
    let mut spent = Duration::ZERO;
    screen.view.traffic = true;
    for second in 0..SECONDS {
        for node in &names {
            let event = Event::NodeSampled {
                node: node.clone(),
                sample: sample(second),
            };
            let record = Box::new(record(second * 1000 + 1, event));
            timed(&mut spent, || run.learn(record));
        }
        screen.view.now_ms = second * 1000 + 1;
        timed(&mut spent, || screen.frame(run));
    }
    spent.as_secs_f64() / SECONDS as f64
}

fn layout() -> SampleLayout {
    let series = |n: usize| Series {
        quantity: Quantity::ALL[n % Quantity::ALL.len()],
        from: format!("/sys/class/infiniband/mlx5_0/ports/1/counters/counter_{n}"),
        unit: 1,
        saturates_at: None,
    };
    let port = |rail| PortLayout {
        device: format!("mlx5_{rail}"),
        port: 1,
        series: (0..COUNTERS).map(series).collect(),
        ..PortLayout::default()
    };
    SampleLayout {
        ports: Fact::known((0..RAILS).map(port).collect(), "made up"),
        left_out: 0,
    }
}

fn sample(second: u64) -> Sample {
    let port = |rail| PortReading {
        at_us: second * 1_000_000 + u64::from(rail),
        values: vec![Some(second * 40_000_000_000); COUNTERS],
    };
    Sample {
        ports: (0..RAILS).map(port).collect(),
    }
}

struct Screen {
    terminal: Terminal<TestBackend>,
    view: View,
}

impl Screen {
    fn new() -> Self {
        let theme = Theme {
            depth: Depth::True,
            ground: Ground::Dark,
            unicode: true,
        };
        Self {
            terminal: Terminal::new(TestBackend::new(120, 40)).unwrap(),
            view: View::new("bench".into(), theme, (120, 40)),
        }
    }

    fn frame(&mut self, run: &Run) {
        self.view.settle(run);
        let view = &self.view;
        self.terminal.draw(|frame| draw(view, run, frame)).unwrap();
    }

    fn press(&mut self, key: char, run: &Run) {
        let key = KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE);
        update(&mut self.view, Msg::Key(key), run);
    }
}
