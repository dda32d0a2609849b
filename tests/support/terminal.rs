//! The built binary on a terminal of its own, whose screen is read as a person would.

#![allow(dead_code, reason = "each test that includes this uses a part of it")]
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
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A program on a terminal of its own, and what that shows.
pub struct Terminal {
    pub child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    pub screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(Path::new("."), arguments)
    }

    pub fn start_in(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_as(folder, arguments, (100, 30), &[])
    }

    /// Starts it in a folder, on a terminal of so many columns and lines, with variables set on top of
    /// the usual ones.
    pub fn start_as(
        folder: &Path,
        arguments: &[&str],
        (columns, lines): (u16, u16),
        variables: &[(&str, &str)],
    ) -> Self {
        let size = PtySize {
            rows: lines,
            cols: columns,
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
        command.env_remove("COLORTERM");
        variables
            .iter()
            .for_each(|(name, value)| command.env(name, value));
        let child = pair.slave.spawn_command(command).unwrap();
        let [lines, columns] = [lines, columns].map(|count| NonZero::new(count).unwrap());
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

    pub fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    pub fn is_dashboard(&self) -> bool {
        self.screen.lock().unwrap().screen().alternate_screen()
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    pub fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        self.within(PATIENCE, what, is_so);
    }

    pub fn within(&self, time: Duration, what: &str, is_so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < time, "no {what}:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn shows(&self, words: &str) {
        self.until(words, |terminal| terminal.text().contains(words));
    }

    /// Gives the terminal another size.
    pub fn resize(&self, columns: u16, lines: u16) {
        let size = PtySize {
            rows: lines,
            cols: columns,
            ..PtySize::default()
        };
        let [rows, cols] = [lines, columns].map(|count| NonZero::new(count).unwrap());
        self.screen
            .lock()
            .unwrap()
            .screen_mut()
            .set_size(rows, cols);
        self.master.resize(size).unwrap();
    }

    /// Sends the program a signal by its name without `SIG`.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.process_id().unwrap().to_string();
        let mut kill = std::process::Command::new("kill");
        let sent = kill.args([&format!("-{signal}"), &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// The third field of the program's /proc/PID/stat: `T` where it is stopped (proc_pid_stat(5)).
    pub fn state(&self) -> char {
        self.stat()[0].chars().next().unwrap()
    }

    /// Processor time of the program so far, in clock ticks: utime and stime.
    pub fn ticks(&self) -> u64 {
        let stat = self.stat();
        let field = |n: usize| stat[n].parse::<u64>().unwrap();
        field(11) + field(12)
    }

    /// The fields of /proc/PID/stat from the third on.
    fn stat(&self) -> Vec<String> {
        let pid = self.child.process_id().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_whitespace().map(str::to_owned).collect()
    }

    pub fn exit_code(&mut self) -> u32 {
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
    pub fn assert_given_back(&self) {
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
