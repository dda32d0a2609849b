//! What comes in and what goes out: the interface between the dashboard and everything around it.

use ratatui::crossterm::event::{KeyEvent, MouseEvent};

use crate::judge::Judgement;
use crate::model::{Command, Record};

/// Something new, from any thread.
#[derive(Debug)]
pub enum News {
    /// Something was learned of the run, and is on record.
    Learned(Box<Record>),
    /// The run was judged as far as it had come.
    Judged(Box<Judgement>),
    /// A report was written, or why not, in words for the operator.
    Exported(String),
    /// The operator did something.
    Input(Msg),
    /// Nothing more will be learned; why, where that is no ordinary end.
    Over(Option<String>),
    /// The process was told to end (SIGTERM, SIGHUP, SIGINT).
    Leave,
    /// The process was told to stop for a while (SIGTSTP).
    Suspend,
    /// The process goes on (SIGCONT): the screen may be another's.
    Continued,
}

/// What the operator did.
#[derive(Debug, Clone, PartialEq)]
pub enum Msg {
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// Text was pasted.
    Paste(String),
    /// The terminal has so many columns and lines now.
    Resize(u16, u16),
}

/// What is to happen outside the dashboard's state.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Leave the dashboard, and stop what runs.
    Quit,
    /// Ask something of the run.
    Send(Command),
    /// Put text on the clipboard of the operator's terminal.
    Copy(String),
    /// Write a report of what is known.
    Export,
    /// Give the terminal back and stop, as Ctrl-Z does.
    Suspend,
    /// Draw everything anew.
    Redraw,
}
