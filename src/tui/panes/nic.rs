//! The selected NIC, below the grid where there is room: what is found of it, and its last probes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::tui::clean::{pad, wrap};
use crate::tui::draw::{put, put_all};
use crate::tui::marks::severity;
use crate::tui::run::Run;
use crate::tui::theme::Role;
use crate::tui::view::{Only, Pane, View};

/// So many findings are told.
const FINDINGS: usize = 4;

/// Lines of each.
const LINES: usize = 3;

/// Draws it: findings to the left, probes to the right.
pub(in crate::tui) fn draw(view: &View, run: &Run, area: Rect, buffer: &mut Buffer) {
    let Some(row) = view.row(run) else { return };
    let nic = row.cells.get(view.rail).and_then(|cell| cell.nic.as_ref());
    let theme = &view.theme;
    let bar = if theme.unicode { "─" } else { "-" };
    let name = nic.map_or_else(|| row.name.to_string(), ToString::to_string);
    let head = format!(" {name} ");
    let line = pad(&head, usize::from(area.width).min(head.len() + 1));
    put(
        buffer,
        area,
        0,
        &Line::from(vec![
            Span::styled(bar, theme.style(Role::Dim)),
            Span::styled(line, theme.style(Role::Title)),
        ]),
    );
    let width = area.width / 2;
    let part = |x: u16, width: u16| Rect {
        x: area.x + x,
        y: area.y + 1,
        width,
        height: area.height.saturating_sub(1),
    };
    let left = part(0, width.saturating_sub(2));
    put_all(buffer, left, &found(view, run, usize::from(left.width)), 0);
    let right = part(width, area.width - width);
    put_all(
        buffer,
        right,
        &probes(view, run, usize::from(right.width)),
        0,
    );
}

fn found(view: &View, run: &Run, width: usize) -> Vec<Line<'static>> {
    let Some(row) = view.row(run) else {
        return Vec::new();
    };
    let nic = row.cells.get(view.rail).and_then(|cell| cell.nic.as_ref());
    let only = Only {
        node: row.name.clone(),
        device: nic.map(|nic| nic.device.to_string()),
        from: Pane::Grid,
    };
    let mut found = run.findings().iter().filter(|finding| only.has(finding));
    let mut lines = Vec::new();
    for finding in found.by_ref().take(FINDINGS) {
        let (word, role) = severity(finding.severity);
        lines.push(Line::from(vec![
            Span::styled(format!(" {word} "), view.theme.style(role)),
            Span::raw(finding.rule.name()),
        ]));
        let says = wrap(&finding.says, width.saturating_sub(3));
        let says = says.into_iter().take(LINES);
        lines.extend(says.map(|line| Line::raw(format!("   {line}"))));
    }
    let dim = view.theme.style(Role::Dim);
    match (lines.is_empty(), found.count()) {
        (true, _) => lines.push(Line::styled(" nothing is found of it", dim)),
        (_, 0) => {}
        (_, more) => lines.push(Line::styled(format!(" and {more} more: enter"), dim)),
    }
    lines
}

fn probes(view: &View, run: &Run, width: usize) -> Vec<Line<'static>> {
    let rail = run.grid().rails().get(view.rail).copied();
    let (Some(row), Some(number), Some(rail)) = (view.row(run), view.row_number(), rail) else {
        return Vec::new();
    };
    let head = Line::styled(
        " direction and partner     round   Gb/s share  why",
        view.theme.style(Role::Dim),
    );
    let mut lines = vec![head];
    let best = run.grid().best_of(view.rail);
    let recent = run.pairs().recent(number, rail);
    for probe in recent.filter_map(|id| run.ledger().probe(id)) {
        let pair = &probe.planned.pair;
        let sends = pair.from.node == row.name;
        let partner = match sends {
            true => format!(" to   {}", pair.to.node),
            false => format!(" from {}", pair.from.node),
        };
        let told = super::pairs::of_probe(&view.theme, run, probe, best, width.saturating_sub(26));
        for (n, line) in told.into_iter().enumerate() {
            let first = if n == 0 { partner.as_str() } else { "" };
            let mut spans = vec![Span::styled(pad(first, 26), Style::new())];
            let style = line.style;
            spans.extend(line.spans.into_iter().map(|span| span.patch_style(style)));
            lines.push(Line::from(spans));
        }
    }
    lines
}
