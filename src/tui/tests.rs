//! Screens: what is drawn at which size, and that no sequence of keys breaks anything.

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::draw::draw;
use super::keymap::parse;
use super::msg::{Effect, Msg};
use super::run::Run;
use super::theme::{Depth, Ground, Theme};
use super::update::update;
use super::view::{Overlay, Pane, View};
use crate::judge::{cost_testing, judge};
use crate::ledger::testing::{events, ledger};
use crate::model::testing::pcie::TwoSockets;
use crate::model::{
    Command, Completion, CostStep, Event, Fact, LeafGroup, NodeName, Outcome, PciAddress, Record,
    SoftwareRdma,
};

const FULL: f64 = 391.0;

const PLAIN: Theme = Theme {
    depth: Depth::None,
    ground: Ground::Dark,
    unicode: true,
};

/// A run after these events, a tenth of a second apart, judged unless there are none.
fn run(events: &[Event]) -> Run {
    let mut run = Run::default();
    for (n, event) in (0..).zip(events) {
        run.learn(Box::new(Record {
            seq: n,
            at_ms: 1_000_000 + n * 100,
            event: event.clone(),
        }));
    }
    if !events.is_empty() {
        run.judged(judge(&ledger(events)));
    }
    if matches!(events.last(), Some(Event::RunFinished { .. })) {
        run.end(None);
    }
    run
}

/// One NIC sends at half, another receives at three quarters, the others are well.
fn mixed(nodes: usize, rails: u16) -> Vec<Event> {
    let mut events = events(nodes, rails, &|i, j, rail| {
        Some(match (i, j, rail) {
            (1, _, 1) => 0.5 * FULL,
            (_, 3, 0) => 0.75 * FULL,
            _ => FULL,
        })
    });
    if let Some(Event::RunStarted { settings, .. }) = events.first_mut() {
        let nodes = settings.nodes.clone();
        let (a, b) = nodes.split_at(nodes.len() / 2);
        let group = |name: &str, nodes: &[NodeName]| LeafGroup {
            name: name.to_owned(),
            nodes: nodes.to_vec(),
        };
        settings.sweep.groups = vec![group("leaf-a", a), group("leaf-b", b)];
    }
    events
}

fn finished() -> Run {
    run(&mixed(6, 4))
}

fn running() -> Run {
    let mut events = mixed(6, 4);
    events.truncate(160);
    run(&events)
}

/// Half of the nodes are not reached, and what is tried fails.
fn failing() -> Run {
    let mut all = events(6, 2, &|_, j, _| (j != 1).then_some(FULL));
    all.pop();
    for node in ["node05", "node06"] {
        all.push(Event::NodeLost {
            node: node.into(),
            why: "connection refused \u{1b}[31m(os error 111)".into(),
        });
    }
    run(&all)
}

fn view(run: &Run, size: (u16, u16)) -> View {
    let mut view = View::new("cluster.toml".into(), PLAIN, size);
    view.now_ms = 1_060_000;
    view.settle(run);
    view
}

/// Presses keys, words apart: `j j enter`; a word of several letters that is no key is typed.
fn press(view: &mut View, run: &Run, keys: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    for word in keys.split_whitespace() {
        let letters: Vec<String> = word.chars().map(String::from).collect();
        let keys = parse(word).map_or_else(
            || letters.iter().filter_map(|letter| parse(letter)).collect(),
            |key| vec![key],
        );
        for key in keys {
            effects.extend(update(view, Msg::Key(key), run));
        }
    }
    effects
}

fn screen(view: &View, run: &Run) -> String {
    let (columns, lines) = view.size;
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal.draw(|frame| draw(view, run, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(columns.max(1)));
    let text = |row: &[ratatui::buffer::Cell]| {
        let row: String = row.iter().map(|cell| cell.symbol()).collect();
        row.trim_end().to_owned()
    };
    rows.map(text).collect::<Vec<_>>().join("\n")
}

fn shown(run: &Run, size: (u16, u16), keys: &str) -> String {
    let mut view = view(run, size);
    press(&mut view, run, keys);
    screen(&view, run)
}

const PANES: [(&str, &str); 6] = [
    ("grid", "1"),
    ("pairs", "2"),
    ("node", "3"),
    ("cpu", "4"),
    ("findings", "5"),
    ("run", "6"),
];

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

#[test]
fn each_pane_at_each_size() {
    let runs = [
        ("running", running()),
        ("finished", finished()),
        ("failing", failing()),
        ("empty", run(&[])),
    ];
    for (name, run) in &runs {
        for size in SIZES {
            for (pane, key) in PANES {
                let name = format!("{name}_{pane}_{}x{}", size.0, size.1);
                insta::assert_snapshot!(name, shown(run, size, key));
            }
        }
    }
}

#[test]
fn from_a_red_cell_to_its_cause_and_back() {
    let run = finished();
    let mut view = view(&run, (80, 24));
    press(&mut view, &run, "right enter");
    insta::assert_snapshot!("cause", screen(&view, &run));
    press(&mut view, &run, "w");
    assert!(screen(&view, &run).contains("What it means"));
    press(&mut view, &run, "esc esc");
    assert_eq!((view.pane, &view.only), (Pane::Grid, &None));
    // A NIC without a fault leads to a word, not to an empty screen.
    press(&mut view, &run, "end enter");
    assert!(screen(&view, &run).contains("nothing is found of"));
}

/// Enough nodes for blocks.
fn crowd() -> Run {
    run(&events(14, 3, &|i, j, _| (i != j + 1).then_some(FULL)))
}

/// Every pair of many nodes, one of them with a slow receiver.
fn many() -> Run {
    run(&events(40, 2, &|i, j, rail| match (i, j, rail) {
        (_, 17, 1) => Some(0.4 * FULL),
        (3, 4, 0) => None,
        _ => Some(FULL),
    }))
}

#[test]
fn pairs_that_outnumber_characters_are_drawn_in_blocks() {
    let run = many();
    let mut view = view(&run, (80, 24));
    press(&mut view, &run, "2 s ]");
    assert_eq!(view.rail, 1);
    insta::assert_snapshot!("blocks", screen(&view, &run));
    // The slow receiver is in the block of its column, in every line.
    let shape = super::panes::pairs::Shape::of(&view);
    assert_eq!(shape.count, (14, 20));
    for line in view.blocks.all().chunks(shape.count.1) {
        assert!(line[8].share.unwrap() < 0.5 && line[7].share.unwrap() > 0.9);
    }
    // One that failed is seen whatever is beside it.
    press(&mut view, &run, "[");
    let failed: Vec<usize> = (0..view.blocks.all().len())
        .filter(|block| view.blocks.all()[*block].failed > 0)
        .collect();
    assert_eq!(failed, [20 + 2]);
}

#[test]
fn the_cursor_of_the_pairs_leads_to_history_and_findings() {
    let run = finished();
    let mut view = view(&run, (120, 40));
    press(&mut view, &run, "s 2 ] j l h");
    let names = |view: &View| {
        let rows = run.grid().rows();
        (view.node.clone().unwrap().0, rows[view.to].name.0.clone())
    };
    assert_eq!(names(&view), ("node02".into(), "node04".into()));
    let text = screen(&view, &run);
    assert!(text.contains("node02 mlx5_1 → node04 mlx5_1"), "{text}");
    assert!(text.contains("196") && text.contains("50%"), "{text}");
    press(&mut view, &run, "enter");
    assert_eq!((view.pane, view.open), (Pane::Findings, true));
    press(&mut view, &run, "esc");
    assert_eq!(view.pane, Pane::Pairs);
    // Where the sender is well, what is found is the receiver's.
    press(&mut view, &run, "[ g enter");
    assert_eq!(view.only.as_ref().unwrap().node, NodeName::from("node04"));
    // The order of the grid and its filter are those of both axes.
    press(&mut view, &run, "esc / node0 enter");
    assert_eq!(view.axis.len(), 6);
}

#[test]
fn pairs_are_probed_again_from_where_they_are_seen() {
    let run = running();
    let mut view = view(&run, (120, 40));
    let effects = press(&mut view, &run, "s 2 r");
    let [Effect::Send(Command::Probe(pairs))] = &effects[..] else {
        panic!("{effects:?}")
    };
    let ends = (&*pairs[0].from.node.0, &*pairs[0].to.node.0);
    assert_eq!((pairs.len(), ends), (1, ("node01", "node04")));
}

/// With a PCIe tree, GPUs, and what a hostile node may say of them.
fn with_tree() -> Run {
    let mut events = mixed(3, 2);
    for event in &mut events {
        if let Event::NodeSurveyed { node, facts } = event
            && node.0 == "node02"
        {
            **facts = TwoSockets::facts();
        }
    }
    run(&events)
}

#[test]
fn a_node_is_drawn_as_a_tree_and_scrolls() {
    let run = with_tree();
    for size in SIZES {
        let name = format!("tree_{}x{}", size.0, size.1);
        insta::assert_snapshot!(name, shown(&run, size, "s j n"));
    }
    let mut view = view(&run, (80, 24));
    press(&mut view, &run, "s j n");
    let first = screen(&view, &run);
    assert!(first.contains("node02"), "{first}");
    press(&mut view, &run, "G");
    assert!(view.node_top > 0);
    // To the next node, from its first line.
    press(&mut view, &run, "right");
    assert_eq!(
        (view.node.clone().unwrap().0.as_str(), view.node_top),
        ("node03", 0)
    );
    press(&mut view, &run, "enter esc");
    assert_eq!(view.pane, Pane::Node);
}

#[test]
fn trees_that_cannot_be_are_drawn_all_the_same() {
    let mut events = mixed(3, 2);
    for event in &mut events {
        if let Event::NodeSurveyed { facts, .. } = event {
            **facts = TwoSockets::facts();
            if let Fact::Known { value, .. } = &mut facts.pcie {
                let first = value.functions[0].address.clone();
                let last = value.functions.len() - 1;
                // A circle, one that is its own parent, and one whose parent is not there.
                value.functions[0].parent = Some(value.functions[last].address.clone());
                value.functions[last].parent = Some(first);
                value.functions[1].parent = Some(value.functions[1].address.clone());
                value.functions[2].parent = Some(PciAddress("\u{1b}[2J".into()));
            }
        }
    }
    let run = run(&events);
    for size in [(1, 1), (20, 5), (120, 40)] {
        assert!(!shown(&run, size, "3 G").contains('\u{1b}'));
    }
}

#[test]
fn cpu_cost_is_told_where_it_was_measured_and_means_something() {
    let mut events = mixed(3, 2);
    for event in &mut events {
        match event {
            Event::RunStarted { settings, .. } => settings.probe.completion = Completion::Event,
            Event::ProbeEnded {
                outcome: Outcome::Measured { measurement, .. },
                ..
            } => measurement.cpu.user_us = 250_000,
            Event::NodeSurveyed { node, facts } if node.0 == "node03" => {
                if let Fact::Known { value, .. } = &mut facts.rdma {
                    value[0].software = Some(SoftwareRdma::Rxe);
                }
            }
            _ => {}
        }
    }
    let run_of_events = run(&events);
    let text = shown(&run_of_events, (120, 40), "s 4");
    // 391 Gb/s by a quarter of a core.
    assert!(
        text.contains("event 25.0%") || text.contains("event   25%"),
        "{text}"
    );
    assert!(text.contains("1564"), "{text}");
    assert!(text.contains("its cost means nothing"), "{text}");
    if let Some(Event::RunStarted { settings, .. }) = events.first_mut() {
        settings.probe.completion = Completion::Poll;
    }
    let text = shown(&run(&events), (120, 40), "s 4");
    assert!(text.contains("polls") && text.contains("≥1564"), "{text}");
    let text = shown(&failing(), (120, 40), "4");
    assert!(text.contains("not measured"), "{text}");
}

#[test]
fn tcp_is_shown_beside_rdma_where_that_was_measured() {
    let only = [CostStep::Tcp, CostStep::Write];
    let run = run(&cost_testing::events_of(2, &only, &|_, _| {}));
    let text = shown(&run, (120, 40), "4");
    // 20 Gb/s by 1.5 cores there and 2.5 here; 390 Gb/s by 0.4.
    for number in ["7.50", "12.50", "0.10"] {
        assert!(text.contains(number), "{number}: {text}");
    }
    // Nothing of it is a rate of the pairs; what a core sends and a NIC takes is beside them.
    let grid = shown(&run, (120, 40), "1");
    assert!(!grid.contains("390"), "{grid}");
    let node = grid.lines().find(|line| line.contains("node01")).unwrap();
    for number in ["13.3", "975", "29.41", "0.40"] {
        assert!(node.contains(number), "{number}: {grid}");
    }
    // Where there is no room for it, it is not there.
    assert!(!shown(&run, (40, 40), "1").contains("975"));
}

#[test]
fn the_cursor_of_cpu_cost_is_that_of_the_grid() {
    let run = finished();
    let mut view = view(&run, (80, 24));
    press(&mut view, &run, "s 4 j j j j j");
    assert_eq!(
        (view.node.clone().unwrap().0.as_str(), view.rail),
        ("node02", 1)
    );
    press(&mut view, &run, "enter");
    assert!(screen(&view, &run).contains("mlx5_1 of node02"));
    press(&mut view, &run, "esc 1");
    assert_eq!((view.grid.at, view.rail), (1, 1));
}

#[test]
fn what_is_to_come_is_no_gap() {
    let mut events = mixed(6, 4);
    let ended = run(&events);
    assert!(!shown(&ended, (120, 40), "6").contains("to come"));
    events.truncate(160);
    let text = shown(&run(&events), (120, 40), "6");
    assert!(
        text.contains("to come") && !text.contains("the run ended"),
        "{text}"
    );
}

#[test]
fn help_has_every_key() {
    let run = finished();
    let mut view = view(&run, (100, 80));
    press(&mut view, &run, "?");
    let text = screen(&view, &run);
    for binding in super::table() {
        assert!(text.contains(binding.help), "{}", binding.help);
    }
    press(&mut view, &run, "?");
    assert_eq!(view.overlay, None);
}

#[test]
fn the_grid_sorts_filters_and_folds() {
    let run = finished();
    let mut view = view(&run, (80, 24));
    let first = |view: &View| view.row(&run).unwrap().name.0.clone();
    assert_eq!(first(&view), "node02");
    press(&mut view, &run, "s");
    assert_eq!(view.grid.at, 0);
    assert_eq!(first(&view), "node01");
    press(&mut view, &run, "s");
    insta::assert_snapshot!("leaves", screen(&view, &run));
    press(&mut view, &run, "s / leaf-b enter f");
    insta::assert_snapshot!("folded", screen(&view, &run));
    press(&mut view, &run, "esc");
    assert!(view.filter.is_empty());
}

#[test]
fn the_cursor_stays_on_its_node_when_the_order_changes() {
    let run = finished();
    let mut view = view(&run, (80, 24));
    press(&mut view, &run, "j j");
    let node = view.node.clone();
    press(&mut view, &run, "s");
    assert_eq!(view.node, node);
}

#[test]
fn what_is_asked_of_a_run_is_sent() {
    let run = running();
    let mut view = view(&run, (80, 24));
    assert_eq!(press(&mut view, &run, "p"), [Effect::Send(Command::Pause)]);
    assert_eq!(
        press(&mut view, &run, ":pause enter"),
        [Effect::Send(Command::GoOn)]
    );
    let effects = press(&mut view, &run, "r");
    assert!(matches!(&effects[..], [Effect::Send(Command::Probe(pairs))] if !pairs.is_empty()));
    let node = view.node.clone().unwrap();
    assert!(press(&mut view, &run, "x n").is_empty());
    assert_eq!(
        press(&mut view, &run, "x y"),
        [Effect::Send(Command::Exclude(node))]
    );
    assert_eq!(press(&mut view, &run, "e"), [Effect::Export]);
}

#[test]
fn leaving_asks_only_while_the_run_goes_on() {
    let run = running();
    let mut view = view(&run, (80, 24));
    assert!(press(&mut view, &run, "q").is_empty());
    assert_eq!(view.overlay, Some(Overlay::Quit));
    assert!(press(&mut view, &run, "n").is_empty());
    assert_eq!(press(&mut view, &run, "q y"), [Effect::Quit]);
    assert_eq!(press(&mut view, &run, "ctrl-c ctrl-c"), [Effect::Quit]);
    assert_eq!(press(&mut view, &finished(), "q"), [Effect::Quit]);
}

#[test]
fn a_finding_is_copied_without_what_steers_terminals() {
    let run = failing();
    let mut view = view(&run, (80, 24));
    press(&mut view, &run, "5 / lost enter");
    let effects = press(&mut view, &run, "y");
    let [Effect::Copy(text)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(
        text.contains("connection refused") && !text.contains('\u{1b}'),
        "{text}"
    );
}

#[test]
fn nothing_a_node_says_steers_the_screen() {
    let run = failing();
    for keys in ["1", "2", "3", "4", "5", "5 enter", "6"] {
        let text = shown(&run, (120, 40), keys);
        assert!(!text.contains('\u{1b}'), "{text}");
    }
    assert!(shown(&run, (120, 40), "6").contains("refused \u{fffd}[31m"));
}

#[test]
fn ascii_and_no_colour_still_say_everything() {
    let run = finished();
    let mut view = view(&run, (120, 40));
    view.theme.unicode = false;
    view.settle(&run);
    let text = screen(&view, &run);
    assert!(text.is_ascii(), "{text}");
    assert!(
        text.contains("H node02") && text.contains("v node04"),
        "{text}"
    );
}

#[test]
fn every_theme_draws() {
    let run = finished();
    for depth in [Depth::True, Depth::Indexed, Depth::Ansi, Depth::None] {
        for ground in [Ground::Dark, Ground::Light] {
            let mut view = view(&run, (120, 40));
            (view.theme.depth, view.theme.ground) = (depth, ground);
            assert_eq!(screen(&view, &run), shown(&run, (120, 40), "1"));
        }
    }
}

#[test]
fn a_click_selects_and_a_second_one_opens() {
    let run = finished();
    let mut view = view(&run, (80, 24));
    let click = |column, row| {
        Msg::Mouse(MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column,
            row,
            modifiers: KeyModifiers::NONE,
        })
    };
    let second = screen(&view, &run).lines().nth(4).unwrap().to_owned();
    update(&mut view, click(3, 4), &run);
    assert!(
        second.contains(view.node.clone().unwrap().0.as_str()),
        "{second}"
    );
    update(&mut view, click(3, 4), &run);
    assert_eq!(view.pane, Pane::Findings);
    update(&mut view, click(2, 1), &run);
    assert_eq!(view.pane, Pane::Grid);
}

/// A key of the table, a letter, or another size of the terminal.
fn any_msg() -> impl Strategy<Value = Msg> {
    let words: Vec<&str> = super::table()
        .iter()
        .flat_map(|b| b.keys.iter().copied())
        .collect();
    prop_oneof![
        8 => prop::sample::select(words).prop_map(|word| Msg::Key(parse(word).unwrap())),
        2 => "[a-z]".prop_map(|word| Msg::Key(parse(&word).unwrap())),
        1 => (1u16..300, 1u16..100).prop_map(|(columns, lines)| Msg::Resize(columns, lines)),
        1 => (0u16..300, 0u16..100).prop_map(|(column, row)| Msg::Mouse(MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column,
            row,
            modifiers: KeyModifiers::NONE,
        })),
        1 => "\\PC{0,20}".prop_map(Msg::Paste),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_keys_break_anything(
        size in (1u16..300, 1u16..100),
        which in 0usize..6,
        msgs in prop::collection::vec(any_msg(), 0..40),
    ) {
        let run = match which {
            0 => running(),
            1 => finished(),
            2 => failing(),
            3 => with_tree(),
            4 => crowd(),
            _ => run(&[]),
        };
        let mut view = view(&run, size);
        for msg in msgs {
            update(&mut view, msg, &run);
            screen(&view, &run);
        }
    }
}
