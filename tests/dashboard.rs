//! The dashboard of the built binary on a terminal of its own: it appears, listens, and gives the
//! terminal back.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose terminal cannot be made must fail"
)]

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// A machine that is busy with other things may take so long.
const PATIENCE: Duration = Duration::from_secs(60);

struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    fn start(arguments: &[&str]) -> Self {
        Self::start_in(Path::new("."), arguments)
    }

    fn start_in(folder: &Path, arguments: &[&str]) -> Self {
        let size = PtySize {
            rows: 30,
            cols: 100,
            ..PtySize::default()
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(arguments);
        command.cwd(std::fs::canonicalize(folder).unwrap());
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        command.env_remove("LC_ALL");
        command.env_remove("NO_COLOR");
        let child = pair.slave.spawn_command(command).unwrap();
        let [lines, columns] = [30, 100].map(|count| NonZero::new(count).unwrap());
        let screen = Arc::new(Mutex::new(vt100::Parser::new(lines, columns, 0)));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let seen = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                seen.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self {
            child,
            keys: pair.master.take_writer().unwrap(),
            master: pair.master,
            screen,
        }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn is_dashboard(&self) -> bool {
        self.screen.lock().unwrap().screen().alternate_screen()
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "no {what}:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn shows(&self, words: &str) {
        self.until(words, |terminal| terminal.text().contains(words));
    }

    fn exit_code(&mut self) -> u32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "it does not end:\n{}",
                self.text()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether a line editor would find its terminal as it was: lines, echo, cursor, no mouse.
    fn assert_given_back(&self) {
        let flags = self.master.get_termios().unwrap().local_flags;
        let flags = format!("{flags:?}");
        assert!(
            flags.contains("ICANON") && flags.contains("ECHO"),
            "{flags}"
        );
        let parser = self.screen.lock().unwrap();
        let screen = parser.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    }
}

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
        let pid = terminal.child.process_id().unwrap();
        let kill = std::process::Command::new("kill");
        let sent = { kill }
            .args([&format!("-{signal}"), &pid.to_string()])
            .status();
        assert!(sent.unwrap().success());
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
