//! What is read over the panes: the keys, from their table, and what a rule means.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::judge::about;
use crate::model::Rule;
use crate::tui::clean::{pad, wrap};
use crate::tui::draw::put_all;
use crate::tui::keymap::{Binding, Place, table};
use crate::tui::marks::Mark;
use crate::tui::theme::{Role, Theme};
use crate::tui::view::{Overlay, View};

/// Lines of what is over the pane.
pub(in crate::tui) fn overlay_lines(overlay: &Overlay, view: &View) -> usize {
    lines(overlay, view).len()
}

/// Draws it.
pub(in crate::tui) fn draw(overlay: &Overlay, view: &View, area: Rect, buffer: &mut Buffer) {
    put_all(buffer, area, &lines(overlay, view), view.overlay_top);
}

fn lines(overlay: &Overlay, view: &View) -> Vec<Line<'static>> {
    let width = usize::from(view.size.0);
    match overlay {
        Overlay::Help => keys(&view.theme),
        Overlay::Explain(rule) => explain(*rule, &view.theme, width),
        Overlay::Quit | Overlay::Exclude(_) => Vec::new(),
    }
}

fn keys(theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let places = [
        (Place::Everywhere, "Keys"),
        (
            Place::Nodes,
            "In the grid, the pairs, the node and CPU cost",
        ),
        (Place::Grid, "In the grid"),
        (Place::Findings, "In the findings"),
        (Place::Replay, "In a replay"),
    ];
    for (place, words) in places {
        lines.push(Line::styled(format!(" {words}"), theme.style(Role::Title)));
        let here = table().iter().filter(|binding| binding.place == place);
        lines.extend(here.map(|binding| line(binding, theme)));
        lines.push(Line::default());
    }
    lines.push(Line::styled(" Marks", theme.style(Role::Title)));
    for mark in Mark::ALL {
        lines.push(Line::from(vec![
            Span::styled(format!("   {}", mark.sign(theme)), theme.style(mark.role())),
            Span::raw(format!("  {}", mark.words())),
        ]));
    }
    lines
}

fn line(binding: &Binding, theme: &Theme) -> Line<'static> {
    let keys = pad(&binding.keys.join(" "), 24);
    Line::from(vec![
        Span::styled(format!("   {keys}"), theme.style(Role::Busy)),
        Span::styled(
            pad(&format!(":{}", binding.name), 14),
            theme.style(Role::Dim),
        ),
        Span::raw(binding.help),
    ])
}

fn explain(rule: Rule, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let about = about(rule);
    let mut lines = vec![Line::styled(format!(" {rule}"), theme.style(Role::Title))];
    let parts = [
        ("What it means", about.means),
        ("How it is detected", about.detected),
        ("What to do", about.remedy),
    ];
    for (title, text) in parts {
        lines.push(Line::default());
        lines.push(Line::styled(format!(" {title}"), theme.style(Role::Title)));
        let text = wrap(text, width.saturating_sub(4));
        let line = |line: String| Line::styled(format!("   {line}"), Style::new());
        lines.extend(text.into_iter().map(line));
    }
    lines
}
