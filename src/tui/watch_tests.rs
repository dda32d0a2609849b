//! Screens of what NICs carry now: of a watch, and beside the probes of a sweep.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::draw::draw;
use super::msg::{Effect, Msg};
use super::run::Run;
use super::theme::{Depth, Ground, Theme};
use super::update::update;
use super::view::{Sort, View};
use crate::ledger::testing::events;
use crate::model::{
    Event, Fact, NodeName, PortLayout, PortReading, Quantity, QueuePairHolder, Record, Sample,
    SampleLayout, Series,
};

const BEGUN_MS: u64 = 1_000_000;

fn learn(run: &mut Run, at_ms: u64, event: Event) {
    let seq = 0;
    run.learn(Box::new(Record { seq, at_ms, event }));
}

fn layout(devices: &[&str]) -> Box<SampleLayout> {
    let series = |(quantity, from): (Quantity, &str)| Series {
        quantity,
        from: from.to_owned(),
        unit: 1,
        saturates_at: None,
    };
    let counters = [
        (Quantity::TxBytes, "tx"),
        (Quantity::RxBytes, "rx"),
        (Quantity::Errors, "symbol_error"),
        (Quantity::Pauses, "pauses"),
    ];
    let port = |device: &&str| PortLayout {
        device: (*device).to_owned(),
        port: 1,
        series: counters.map(series).to_vec(),
        ..PortLayout::default()
    };
    Box::new(SampleLayout {
        ports: Fact::known(devices.iter().map(port).collect(), "test"),
        left_out: 0,
    })
}

/// Each NIC of a node carries more than the one before; the second has errors.
fn sample(second: u64, nics: u64) -> Sample {
    let bytes = |gbps: u64| Some(gbps * 125_000_000 * second);
    let port = |nic: u64| PortReading {
        at_us: second * 1_000_000,
        values: vec![
            bytes(100 * (nic + 1) + 10 * second),
            bytes(7),
            Some(if nic == 1 { second } else { 0 }),
            Some(0),
        ],
    };
    Sample {
        ports: (0..nics).map(port).collect(),
    }
}

fn sampled(run: &mut Run, node: &str, seconds: u64, nics: u64) {
    for second in 0..=seconds {
        let node = NodeName::from(node);
        let sample = sample(second, nics);
        learn(
            run,
            BEGUN_MS + second * 1000,
            Event::NodeSampled { node, sample },
        );
    }
}

/// Two nodes of different numbers of NICs, one that is not reached, and one that is on its way.
fn watch() -> Run {
    let mut run = Run::default();
    for node in ["node01", "node02", "node03", "node04"] {
        let (node, stage) = (node.into(), "connecting".into());
        learn(&mut run, BEGUN_MS, Event::NodeStage { node, stage });
    }
    let (node, why) = ("node03".into(), "connection refused".into());
    learn(&mut run, BEGUN_MS, Event::NodeLost { node, why });
    for (node, devices) in [
        ("node02", &["mlx5_10", "mlx5_2"][..]),
        ("node01", &["mlx5_0"]),
    ] {
        let (name, layout) = (node.into(), layout(devices));
        let watched = Event::NodeWatched { node: name, layout };
        learn(&mut run, BEGUN_MS, watched);
        sampled(&mut run, node, 30, devices.len() as u64);
    }
    run
}

fn view(run: &Run, size: (u16, u16)) -> View {
    let theme = Theme {
        depth: Depth::None,
        ground: Ground::Dark,
        unicode: true,
    };
    let mut view = View::new("cluster.toml".into(), theme, size);
    (view.traffic, view.sort) = (true, Sort::Name);
    view.now_ms = BEGUN_MS + 30_500;
    view.settle(run);
    view
}

fn press(view: &mut View, run: &Run, letter: char) -> Vec<Effect> {
    let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE);
    update(view, Msg::Key(key), run)
}

fn screen(view: &View, run: &Run) -> String {
    let (columns, lines) = view.size;
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal.draw(|frame| draw(view, run, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(columns));
    let text = |row: &[ratatui::buffer::Cell]| {
        let row: String = row.iter().map(|cell| cell.symbol()).collect();
        row.trim_end().to_owned()
    };
    rows.map(text).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_watch_at_each_size() {
    let run = watch();
    for size in [(40, 10), (80, 24), (120, 40), (200, 60)] {
        let mut view = view(&run, size);
        press(&mut view, &run, 'j');
        press(&mut view, &run, 'l');
        let name = format!("watch_{}x{}", size.0, size.1);
        insta::assert_snapshot!(name, screen(&view, &run));
    }
}

#[test]
fn a_watch_probes_nothing_and_is_left_without_a_question() {
    let run = watch();
    let mut view = view(&run, (80, 24));
    for letter in ['p', 'r', 'x'] {
        assert_eq!(press(&mut view, &run, letter), []);
        assert!(screen(&view, &run).contains("a watch probes nothing"));
    }
    assert_eq!(press(&mut view, &run, 'q'), [Effect::Quit]);
}

#[test]
fn what_is_not_of_now_is_not_shown() {
    let run = watch();
    let mut view = view(&run, (80, 24));
    assert!(screen(&view, &run).contains("690"));
    view.now_ms += 60_000;
    let later = screen(&view, &run);
    assert!(!later.contains("690"), "{later}");
    assert!(later.contains("no reading of its counters came lately"));
}

/// A sweep of two nodes, one of which is sampled.
fn swept(seconds: u64) -> Run {
    let mut run = Run::default();
    let mut all = events(2, 2, &|_, _, _| Some(391.0));
    all.truncate(7);
    for event in all {
        learn(&mut run, BEGUN_MS, event);
    }
    let node = NodeName::from("node01");
    let layout = layout(&["mlx5_0", "mlx5_1"]);
    learn(&mut run, BEGUN_MS, Event::NodeWatched { node, layout });
    let (learned, version) = (run.learned(), run.grid().version());
    sampled(&mut run, "node01", seconds, 2);
    assert_eq!((run.learned(), run.grid().version()), (learned, version));
    run
}

#[test]
fn the_counters_of_a_node_over_the_last_minutes() {
    let run = swept(90);
    for size in [(80, 24), (120, 40), (200, 60)] {
        let mut view = view(&run, size);
        view.now_ms = BEGUN_MS + 90_500;
        press(&mut view, &run, '3');
        // On the smallest screen the NICs are below the rest.
        (0..8).for_each(|_| drop(press(&mut view, &run, 'j')));
        let name = format!("counters_{}x{}", size.0, size.1);
        insta::assert_snapshot!(name, screen(&view, &run));
    }
    let mut view = view(&run, (120, 40));
    press(&mut view, &run, '3');
    view.now_ms = BEGUN_MS + 150_000;
    let later = screen(&view, &run);
    assert!(later.contains("no reading of them came lately"), "{later}");
    assert!(!later.contains("+1 of"), "{later}");
    // The other node is not sampled.
    press(&mut view, &run, 'l');
    let other = screen(&view, &run);
    assert!(
        other.contains("node02") && other.contains("not read"),
        "{other}"
    );
}

#[test]
fn a_node_that_is_only_watched_has_its_counters() {
    let mut run = watch();
    let holder = QueuePairHolder {
        pid: Some(4711),
        name: "python3".into(),
        rc: 12,
        ..QueuePairHolder::default()
    };
    let held = std::iter::once(("mlx5_2".to_owned(), vec![holder])).collect();
    let event = Event::NodeQueuePairs {
        node: "node02".into(),
        queue_pairs: Fact::known(held, "test"),
    };
    learn(&mut run, BEGUN_MS, event);
    let mut view = view(&run, (80, 24));
    press(&mut view, &run, 'j');
    press(&mut view, &run, '3');
    insta::assert_snapshot!("watched_node", screen(&view, &run));
}

#[test]
fn a_sweep_shows_both_and_samples_ask_for_no_judgement() {
    let run = swept(3);
    let mut view = view(&run, (80, 24));
    view.now_ms = BEGUN_MS + 3500;
    let carried = screen(&view, &run);
    assert!(
        carried.contains("150") && carried.contains("r0 tx   rx"),
        "{carried}"
    );
    press(&mut view, &run, 't');
    let measured = screen(&view, &run);
    // The selected NIC is told of below all the same.
    assert!(measured.contains("sent"), "{measured}");
}
