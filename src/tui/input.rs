//! Threads that wait for the operator: keys, mouse and size of the terminal, and signals.

use std::io;
use std::sync::mpsc::SyncSender;
use std::thread::Builder;

use ratatui::crossterm::event::{Event, read};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::msg::{Msg, News};

/// Starts to listen. The threads end with the process, or with who hears them.
///
/// # Errors
/// Where a thread cannot be started, or signals cannot be listened for.
pub fn listen(news: &SyncSender<News>) -> io::Result<()> {
    let (keys, told) = (news.clone(), news.clone());
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT])?;
    Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let word = match signal {
                SIGTSTP => News::Suspend,
                SIGCONT => News::Continued,
                _ => News::Leave,
            };
            if told.send(word).is_err() {
                return;
            }
        }
    })?;
    Builder::new().name("keys".into()).spawn(move || {
        while let Ok(event) = read() {
            if let Some(msg) = message(event)
                && keys.send(News::Input(msg)).is_err()
            {
                return;
            }
        }
    })?;
    Ok(())
}

fn message(event: Event) -> Option<Msg> {
    match event {
        Event::Key(key) => Some(Msg::Key(key)),
        Event::Mouse(mouse) => Some(Msg::Mouse(mouse)),
        Event::Paste(text) => Some(Msg::Paste(text)),
        Event::Resize(columns, lines) => Some(Msg::Resize(columns, lines)),
        Event::FocusGained | Event::FocusLost => None,
    }
}
