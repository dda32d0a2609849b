//! What the dashboard costs: taking in events, drawing a frame, and showing what NICs carry now.
//!
//! `cargo bench --bench dashboard [-- NODES…]`. Runs of 16, 128, 1024 and 4096 nodes of 8 rails are
//! simulated and recorded by one process and read by another, whose memory is then that of a dashboard.
//! CPU time of one thread; frames of 120 x 40, drawn to memory. `still`: nothing changed since the frame
//! before. `moved`: something did, so that rows are put in order anew. `watch`: the share of a core that
//! a sample of each node in each second takes, with a frame a second.

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
    Event, Fact, NodeName, PortLayout, PortReading, Quantity, Record, Sample, SampleLayout, Series,
};
use linerate::record::{Reader, Writer};
use linerate::simulated::SimulatedFleet;
use linerate::tui::{Depth, Ground, Run, Theme, View, draw};
use nix::time::{ClockId, clock_gettime};
use procfs::process::Process;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

const RAILS: u16 = 8;

/// Frames of each kind.
const FRAMES: u32 = 200;

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
        Some("play") => return play(next().unwrap().parse().unwrap(), next().unwrap().as_ref()),
        Some("show") => return show(next().unwrap().parse().unwrap(), next().unwrap().as_ref()),
        _ => {}
    }
    let asked: Vec<String> = first.into_iter().chain(std::iter::from_fn(next)).collect();
    let usual = || ["16", "128", "1024", "4096"].map(String::from).to_vec();
    let sizes = if asked.is_empty() { usual() } else { asked };
    println!("nodes  events  events/s  MiB    judge ms  still ms  moved ms  watch %  MiB watching");
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
fn play(nodes: u16, record: &Path) {
    let scenario = read_scenario(DEMO, "the demo").unwrap();
    let (scenario, _) = scenario.resized(Some(nodes), Some(RAILS));
    let settings = scenario.settings(1).unwrap();
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
fn show(nodes: u16, record: &Path) {
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
    let mut moved = Duration::ZERO;
    for n in 0..FRAMES {
        let name = run.grid().rows()[n as usize % usize::from(nodes)]
            .name
            .clone();
        run.learn(Box::new(connected(name)));
        timed(&mut moved, || screen.frame(&run));
    }
    let watch = watch(&mut run, &mut screen);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{nodes:>5} {events:>7} {:>9.0} {resident:>6.0} {:>9.1} {:>9.3} {:>9.3} {:>8.2} {:>9.0}",
        f64::from(events) / learning.as_secs_f64(),
        ms(judging),
        ms(still) / f64::from(FRAMES),
        ms(moved) / f64::from(FRAMES),
        watch * 100.0,
        resident_mib(),
    );
}

fn connected(node: NodeName) -> Record {
    let agent = "0.1.0".to_owned();
    record(0, Event::NodeConnected { node, agent })
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
}
