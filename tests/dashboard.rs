//! The dashboard of the built binary on a terminal of its own: it appears, listens, and gives the
//! terminal back.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose terminal cannot be made must fail"
)]

#[path = "support/svg.rs"]
mod svg;
#[path = "support/terminal.rs"]
mod terminal;

use std::path::Path;
use std::time::Duration;

use terminal::Terminal;

#[test]
fn a_demo_fills_leads_to_the_cause_and_gives_the_terminal_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start_in(folder.path(), &["demo", "--tui", "--fast"]);
    terminal.shows("node005");
    terminal.shows("over");
    terminal.shows("fault");
    assert!(terminal.is_dashboard());
    assert!(terminal.text().contains("SIMULATED"));
    terminal.press("5");
    terminal.shows("half-bandwidth");
    terminal.press("\r");
    terminal.shows("Evidence");
    terminal.press("?");
    terminal.shows("In the grid");
    terminal.press("e");
    terminal.shows("written: linerate-");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    terminal.press("q");
    assert_eq!(terminal.exit_code(), 1);
    terminal.shows("FAULTS FOUND");
    terminal.assert_given_back();
}

/// 8192 NICs: keys are heard while it is measured and judged, and what is worst comes first.
#[test]
fn a_thousand_nodes_of_eight_rails_fill_while_keys_are_heard() {
    const RUN: Duration = Duration::from_secs(300);
    let arguments = ["demo", "--tui", "--fast", "--nodes", "1024", "--rails", "8"];
    let mut terminal = Terminal::start_as(Path::new("."), &arguments, (160, 50), &[]);
    terminal.shows("SIMULATED");
    terminal.press("?");
    terminal.shows("In the grid");
    terminal.press("?");
    terminal.within(RUN, "end of the run", |terminal| {
        let text = terminal.text();
        text.contains("SIMULATED over") && text.contains(" faults")
    });
    let text = terminal.text();
    let worst = text.lines().nth(3).unwrap_or_default();
    assert!(!worst.starts_with(['✓', '?', '·']), "{text}");
    terminal.press("5");
    terminal.shows("half-bandwidth");
    terminal.press("1G");
    terminal.until("the last of the nodes", |terminal| {
        let last = terminal
            .text()
            .lines()
            .rev()
            .find(|line| line.contains("node"))
            .map(str::to_owned);
        last.is_some_and(|line| line.starts_with('✓'))
    });
    terminal.press("q");
    assert_eq!(terminal.exit_code(), 1);
    terminal.assert_given_back();
}

#[test]
fn leaving_early_asks_and_says_that_it_is_a_part() {
    let mut terminal = Terminal::start(&["demo", "--tui"]);
    terminal.shows("round 1");
    terminal.press("q");
    terminal.shows("y or n");
    terminal.press("y");
    let code = terminal.exit_code();
    assert!([1, 3].contains(&code), "{code}");
    terminal.shows("interrupted");
    terminal.assert_given_back();
}

#[test]
fn a_signal_ends_it_and_gives_the_terminal_back() {
    for signal in ["TERM", "HUP"] {
        let mut terminal = Terminal::start(&["demo", "--tui"]);
        terminal.shows("round 1");
        terminal.signal(signal);
        let code = terminal.exit_code();
        assert!([1, 3].contains(&code), "{signal}: {code}");
        terminal.assert_given_back();
    }
}

#[test]
fn without_a_terminal_it_names_the_report() {
    for arguments in [
        &["demo", "--tui"][..],
        &["sweep", "n[1-2]"],
        &["replay", "/nonexistent", "--tui"],
    ] {
        assert_cmd::Command::new(env!("CARGO_BIN_EXE_linerate"))
            .args(arguments)
            .assert()
            .code(2)
            .stderr(predicates::str::contains("linerate report"));
    }
}

#[test]
fn a_stop_gives_the_terminal_back_and_going_on_takes_it_again() {
    let mut terminal = Terminal::start(&["demo", "--tui", "--fast"]);
    terminal.shows("over");
    // From outside, and by its key.
    for how in ["signal", "key"] {
        match how {
            "signal" => terminal.signal("TSTP"),
            _ => terminal.press("\x1a"),
        }
        terminal.until("stop", |terminal| terminal.state() == 'T');
        terminal.until("normal screen", |terminal| !terminal.is_dashboard());
        terminal.assert_given_back();
        terminal.signal("CONT");
        terminal.until("dashboard", |terminal| {
            terminal.is_dashboard() && terminal.text().contains("node005")
        });
    }
    terminal.press("q");
    assert_eq!(terminal.exit_code(), 1);
    terminal.assert_given_back();
}

#[test]
fn every_size_is_drawn_while_sizes_change() {
    let mut terminal = Terminal::start(&["demo", "--tui", "--fast"]);
    terminal.shows("over");
    for (columns, lines) in [(40, 8), (1, 1), (300, 100), (80, 24), (2, 50), (200, 3)] {
        terminal.resize(columns, lines);
    }
    std::thread::sleep(Duration::from_millis(200));
    terminal.resize(120, 40);
    terminal.until("the whole width", |terminal| {
        let text = terminal.text();
        text.contains("node005") && text.lines().any(|line| line.chars().count() > 100)
    });
    terminal.press("q");
    assert_eq!(terminal.exit_code(), 1);
}

/// Whether a colour is on the screen, and whether something is that is not ASCII.
fn looks(terminal: &Terminal) -> (bool, bool) {
    let parser = terminal.screen.lock().unwrap();
    let screen = parser.screen();
    let (lines, columns) = screen.size();
    let (lines, columns) = (lines.get(), columns.get());
    let cells = (0..lines).flat_map(|line| (0..columns).map(move |column| (line, column)));
    let cells: Vec<_> = cells
        .filter_map(|(line, column)| screen.cell(line, column))
        .collect();
    let coloured = |cell: &&vt100::Cell| cell.fgcolor() != vt100::Color::Default;
    let beyond = |cell: &&vt100::Cell| !cell.contents().is_ascii();
    (cells.iter().any(coloured), cells.iter().any(beyond))
}

#[test]
fn a_terminal_gets_no_more_than_it_can_show() {
    let here = Path::new(".");
    let cases = [
        (&[("LANG", "C.UTF-8")][..], (true, true)),
        (&[("NO_COLOR", "1")], (false, true)),
        (&[("LANG", "C")], (true, false)),
        (&[("TERM", "xterm"), ("LC_ALL", "POSIX")], (true, false)),
    ];
    for (variables, (colour, beyond_ascii)) in cases {
        let arguments = ["demo", "--tui", "--fast"];
        let mut terminal = Terminal::start_as(here, &arguments, (100, 30), variables);
        terminal.shows("over");
        terminal.shows("fault");
        terminal.shows("node005");
        assert_eq!(looks(&terminal), (colour, beyond_ascii), "{variables:?}");
        terminal.press("q");
        assert_eq!(terminal.exit_code(), 1);
    }
}

#[test]
fn a_run_that_is_over_takes_no_time() {
    let mut terminal = Terminal::start(&["demo", "--tui", "--fast"]);
    terminal.shows("over");
    terminal.shows("fault");
    std::thread::sleep(Duration::from_secs(1));
    let before = terminal.ticks();
    std::thread::sleep(Duration::from_secs(5));
    let spent = terminal.ticks() - before;
    // Of 500, with the usual 100 in a second.
    assert!(spent <= 2, "{spent} ticks in 5 s");
    terminal.press("q");
    assert_eq!(terminal.exit_code(), 1);
}

/// Two nodes that are both this machine.
fn here_twice(folder: &Path) -> String {
    let config = folder.join("cluster.toml");
    let text = format!(
        "nodes = [\"here[1-2]\"]\n[ssh]\ncarrier = \"local\"\nuser = \"operator\"\ndirectory = {:?}\n",
        folder.display().to_string()
    );
    std::fs::write(&config, text).unwrap();
    config.display().to_string()
}

#[test]
fn a_sweep_runs_real_agents_and_goes_on_after_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let config = here_twice(folder.path());
    let sweep = |how: &str| {
        let arguments = ["sweep", "--config", &config, how, "run.jsonl"];
        Terminal::start_in(folder.path(), &arguments)
    };
    let mut terminal = sweep("--record");
    terminal.shows("here1");
    // Whatever this machine has: the nodes are surveyed, and the run comes to its end.
    terminal.shows("over");
    terminal.press("6");
    terminal.shows("here2: surveyed");
    terminal.shows("complete");
    terminal.press("q");
    let code = terminal.exit_code();
    terminal.assert_given_back();
    terminal.shows("run.jsonl");
    let record = std::fs::read_to_string(folder.path().join("run.jsonl")).unwrap();
    assert!(record.contains("node_surveyed") && !record.contains("node_sampled"));

    // As if it had been killed before its last line.
    let kept: Vec<&str> = record.lines().collect();
    let cut = kept[..kept.len() - 1].join("\n") + "\n";
    std::fs::write(folder.path().join("run.jsonl"), &cut).unwrap();
    let mut terminal = sweep("--resume");
    terminal.shows("over");
    terminal.press("6");
    terminal.shows("the run goes on");
    terminal.press("q");
    assert_eq!(terminal.exit_code(), code);
    terminal.assert_given_back();
    let record = std::fs::read_to_string(folder.path().join("run.jsonl")).unwrap();
    assert!(record.starts_with(&cut) && record.contains("run_resumed"));
}

/// Counters of one NIC below a folder, which say that so many bytes were sent.
fn count(root: &Path, bytes: u64) {
    let port = root.join("sys/class/infiniband/mlx5_0/ports/1");
    std::fs::create_dir_all(port.join("counters")).unwrap();
    std::fs::write(port.join("link_layer"), "InfiniBand\n").unwrap();
    for (name, value) in [("port_xmit_data", bytes / 4), ("port_rcv_data", 0)] {
        std::fs::write(port.join("counters").join(name), format!("{value}\n")).unwrap();
    }
}

#[test]
fn a_watch_shows_what_a_nic_carries_and_a_table_where_one_is_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().display().to_string();
    count(root.path(), 0);
    let mut terminal = Terminal::start(&["watch", "--root", &path, "--interval", "0.2"]);
    terminal.shows("watching");
    terminal.shows("mlx5_0");
    let moved = std::cell::Cell::new(0);
    terminal.until("sent", |terminal| {
        moved.set(moved.get() + 1_000_000_000);
        count(root.path(), moved.get());
        let text = terminal.text();
        text.lines()
            .any(|line| line.contains(" sent ") && !line.contains(" 0.00 Gb/s"))
    });
    assert!(terminal.is_dashboard());
    terminal.press("q");
    assert_eq!(terminal.exit_code(), 0);
    terminal.assert_given_back();

    let mut terminal = Terminal::start(&["watch", "--root", &path, "--table"]);
    terminal.shows("tx Gb/s");
    assert!(!terminal.is_dashboard());
    terminal.signal("INT");
    assert_eq!(terminal.exit_code(), 0);
}

/// `cargo test --test dashboard picture -- --ignored` makes assets/dashboard.svg anew.
#[test]
#[ignore = "writes the picture of the README"]
fn the_picture_of_the_readme() {
    let arguments = ["demo", "--tui", "--nodes", "16"];
    let looks = [("COLORTERM", "truecolor")];
    let mut terminal = Terminal::start_as(Path::new("."), &arguments, (120, 26), &looks);
    let mut frames = Vec::new();
    let mut take = |terminal: &Terminal, seconds| {
        let parser = terminal.screen.lock().unwrap();
        frames.push((svg::frame(parser.screen()), seconds));
    };
    for round in ["round 1", "round 2", "round 4"] {
        terminal.shows(round);
        std::thread::sleep(Duration::from_millis(600));
        take(&terminal, 1.2);
    }
    terminal.shows(" over ");
    std::thread::sleep(Duration::from_secs(2));
    take(&terminal, 3.0);
    for (keys, seconds) in [("5jj", 4.0), ("\r", 4.0), ("6", 3.0)] {
        terminal.press(keys);
        std::thread::sleep(Duration::from_secs(1));
        take(&terminal, seconds);
    }
    terminal.press("q");
    assert_eq!(terminal.exit_code(), 1);
    let picture = svg::picture(&frames, (120, 26));
    std::fs::create_dir_all("assets").unwrap();
    std::fs::write("assets/dashboard.svg", picture).unwrap();
}
