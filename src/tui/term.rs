//! The terminal: taken, and given back as it was, whatever happens.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal};

/// Whether the terminal is ours now.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether somebody panicked: whatever is drawn after that would cover what it says.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// The most bytes that go to the clipboard: terminals refuse more.
const MOST_COPIED: usize = 64 * 1024;

/// The terminal while it is ours; given back when this goes.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Screen {
    /// Takes the terminal: raw mode, the alternate screen, the mouse.
    pub(super) fn take() -> io::Result<Self> {
        restore_on_panic();
        take()?;
        let backend = CrosstermBackend::new(BufWriter::with_capacity(1 << 16, io::stdout()));
        Terminal::new(backend)
            .map(|terminal| Self { terminal })
            .inspect_err(|_| give_back())
    }

    /// Takes it again, after it was given back or may have been another's.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        take()?;
        self.forget()
    }

    /// Gives it back for a while.
    pub(super) fn lend(&mut self) {
        give_back();
    }

    /// Columns and lines.
    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        self.terminal.size().map(|size| (size.width, size.height))
    }

    /// Draws a frame: what differs from the one before is sent.
    pub(super) fn draw(&mut self, paint: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if PANICKED.load(Ordering::SeqCst) {
            return Err(io::Error::other("a part of linerate panicked"));
        }
        self.terminal.draw(paint).map(drop)
    }

    /// The next frame is sent whole.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        // `Terminal::clear` would ask for the cursor's place, and another thread reads the answer.
        let (width, height) = self.size()?;
        self.terminal.resize(Rect::new(0, 0, width, height))
    }

    /// Puts text on the clipboard (OSC 52).
    pub(super) fn copy(&mut self, text: &str) -> io::Result<()> {
        let bytes = &text.as_bytes()[..text.len().min(MOST_COPIED)];
        let coded = base64::engine::general_purpose::STANDARD.encode(bytes);
        let mut out = io::stdout();
        write!(out, "\x1b]52;c;{coded}\x07")?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    TAKEN.store(true, Ordering::SeqCst);
    let taken = enable_raw_mode().and_then(|()| {
        execute!(
            io::stdout(),
            EnterAlternateScreen,
            EnableMouseCapture,
            EnableBracketedPaste,
            cursor::Hide
        )
    });
    taken.inspect_err(|_| give_back())
}

/// Twice is as good as once. A terminal that is gone cannot be given back: no error is.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(
            io::stdout(),
            DisableBracketedPaste,
            DisableMouseCapture,
            LeaveAlternateScreen,
            cursor::Show
        );
        let _ = disable_raw_mode();
    }
}

/// What a panic says belongs on the normal screen.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if TAKEN.load(Ordering::SeqCst) {
                PANICKED.store(true, Ordering::SeqCst);
                give_back();
            }
            before(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use portable_pty::{CommandBuilder, PtySize, native_pty_system};

    use super::*;

    /// What the test below runs on a terminal of its own.
    #[test]
    #[ignore = "takes the terminal and panics: another test runs it on a terminal of its own"]
    fn takes_the_terminal_and_panics() {
        let mut screen = Screen::take().unwrap();
        screen.draw(|_| {}).unwrap();
        std::thread::spawn(|| panic!("what the panic says"))
            .join()
            .unwrap_err();
        assert!(screen.draw(|_| {}).is_err(), "it draws over what was said");
    }

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_speaks() {
        let size = PtySize {
            rows: 24,
            cols: 80,
            ..PtySize::default()
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        let name = "tui::term::tests::takes_the_terminal_and_panics";
        command.args(["--exact", name, "--ignored", "--nocapture"]);
        command.env("TERM", "xterm-256color");
        let mut child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let heard = std::thread::spawn(move || {
            let mut said = Vec::new();
            // A terminal that nobody holds any more ends with an error.
            let _ = reader.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        });
        assert!(child.wait().unwrap().success());
        let flags = format!("{:?}", pair.master.get_termios().unwrap().local_flags);
        drop(pair);
        let said = heard.join().unwrap();
        let at = |text: &str| {
            said.find(text)
                .unwrap_or_else(|| panic!("no {text:?}: {said}"))
        };
        assert!(at("\x1b[?1049h") < at("\x1b[?1049l"));
        assert!(at("\x1b[?1049l") < at("what the panic says"));
        assert!(
            flags.contains("ICANON") && flags.contains("ECHO"),
            "{flags}"
        );
    }
}
