//! A page of labels and texts, as the node is told.

use std::fmt::Display;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::model::Fact;
use crate::tui::clean::{pad, wrap};
use crate::tui::theme::{Role, Theme};

/// Lines of a label and a text.
pub(super) struct Page {
    /// The lines so far.
    pub lines: Vec<Line<'static>>,
    /// Their looks.
    pub theme: Theme,
    /// Columns of the pane.
    pub width: usize,
}

impl Page {
    /// A heading.
    pub fn title(&mut self, text: &str) {
        let style = self.theme.style(Role::Title);
        let text = pad(&format!(" {text}"), self.width);
        self.lines.push(Line::styled(text, style));
    }

    /// An empty line.
    pub fn blank(&mut self) {
        self.lines.push(Line::default());
    }

    /// The text below itself where it is long.
    pub fn say(&mut self, label: &str, text: impl Display) {
        self.say_as(label, text, Style::new());
    }

    /// The same in a style.
    pub fn say_as(&mut self, label: &str, text: impl Display, style: Style) {
        const LABEL: usize = 13;
        let dim = self.theme.style(Role::Dim);
        let text = wrap(&text.to_string(), self.width.saturating_sub(LABEL + 2));
        for (n, line) in text.into_iter().enumerate() {
            let label = if n == 0 { label } else { "" };
            self.lines.push(Line::from(vec![
                Span::styled(format!("   {}", pad(label, LABEL - 2)), dim),
                Span::styled(line, style),
            ]));
        }
    }

    /// A fact, or why it is unknown where it was looked for.
    pub fn fact(&mut self, label: &str, fact: &Fact<impl Display>) {
        match fact {
            Fact::Known { value, .. } => self.say(label, value),
            Fact::Unknown { why } if fact.was_asked() => self.say(label, format!("unknown: {why}")),
            Fact::Unknown { .. } => {}
        }
    }
}
