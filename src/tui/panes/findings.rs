//! Findings, the worst first, and one of them with all that it rests on.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::model::{Finding, Subject, visible};
use crate::tui::clean::{fit, pad, wrap};
use crate::tui::draw::{body_lines, put, put_all};
use crate::tui::marks::severity;
use crate::tui::run::Run;
use crate::tui::theme::{Role, Theme};
use crate::tui::view::View;

/// Lines above the first finding.
pub(in crate::tui) const HEAD: usize = 1;

/// From so many columns on, the finding under the cursor is shown beside the list.
const SIDE_BY_SIDE: u16 = 110;

/// Findings on the screen at once.
pub(in crate::tui) fn list_lines(size: (u16, u16)) -> usize {
    body_lines(size).saturating_sub(HEAD)
}

/// Lines of the finding that is open.
pub(in crate::tui) fn detail_lines(view: &View, run: &Run) -> usize {
    let finding = view.finding(run);
    finding.map_or(0, |f| {
        detail(f, &view.theme, usize::from(view.size.0)).len()
    })
}

/// Draws the list, the finding, or both.
pub(in crate::tui) fn draw(view: &View, run: &Run, area: Rect, buffer: &mut Buffer) {
    let Some(finding) = view.finding(run) else {
        return nothing(view, run, area, buffer);
    };
    if view.open {
        let lines = detail(finding, &view.theme, usize::from(area.width));
        put_all(buffer, area, &lines, view.open_top);
        return;
    }
    let (left, right) = split(area);
    list(view, run, left, buffer);
    if let Some(right) = right {
        let lines = detail(finding, &view.theme, usize::from(right.width));
        put_all(buffer, right, &lines, 0);
    }
}

fn split(area: Rect) -> (Rect, Option<Rect>) {
    if area.width < SIDE_BY_SIDE {
        return (area, None);
    }
    let width = area.width / 2;
    let left = Rect { width, ..area };
    let right = Rect {
        x: area.x + width + 2,
        width: area.width - width - 2,
        ..area
    };
    (left, Some(right))
}

fn nothing(view: &View, run: &Run, area: Rect, buffer: &mut Buffer) {
    let all = run.findings().len();
    let word = match (&view.only, all) {
        (Some(only), _) => {
            let nic = only.device.as_ref().map(|device| format!("{device} of "));
            let nic = nic.unwrap_or_default();
            format!(" nothing is found of {nic}{}: esc leads back", only.node)
        }
        (None, 0) if run.judgement().is_none() => " nothing was judged yet".to_owned(),
        (None, 0) => " nothing is found so far".to_owned(),
        (None, all) => format!(" none of {all} findings has these words: esc clears the filter"),
    };
    let style = view.theme.style(Role::Dim);
    for (line, text) in (1..).zip(wrap(&word, usize::from(area.width).saturating_sub(1))) {
        put(buffer, area, line, &Line::styled(format!(" {text}"), style));
    }
}

fn list(view: &View, run: &Run, area: Rect, buffer: &mut Buffer) {
    let theme = &view.theme;
    let total = run.findings().len();
    let head = match view.shown.len() {
        shown if shown == total => format!(" {total} findings"),
        shown => format!(" {shown} of {total} findings"),
    };
    put(
        buffer,
        area,
        0,
        &Line::styled(head, theme.style(Role::Title)),
    );
    let shown = view.shown.iter().enumerate().skip(view.findings.top);
    for (line, (number, finding)) in (1..area.height).zip(shown) {
        let Some(finding) = run.findings().get(*finding) else {
            continue;
        };
        let selected = number == view.findings.at;
        let text = row(finding, theme, selected, usize::from(area.width));
        put(buffer, area, line, &text);
    }
}

fn row(finding: &Finding, theme: &Theme, selected: bool, width: usize) -> Line<'static> {
    let (word, role) = severity(finding.severity);
    let style = if selected {
        theme.selected()
    } else {
        Style::new()
    };
    let ratio = finding.ratio.filter(|ratio| ratio.is_finite());
    let ratio = ratio.map_or_else(String::new, |ratio| format!("{:.2}", ratio.min(99.0)));
    let subject = in_short(&finding.subject);
    let taken = 12 + 20 + 6;
    let room = width.saturating_sub(taken);
    Line::from(vec![
        Span::styled(format!(" {}", pad(word, 11)), theme.style(role)),
        Span::styled(pad(finding.rule.name(), 20), style),
        Span::styled(format!(" {ratio:>4} "), style),
        Span::styled(pad(&subject, room), style),
    ])
}

/// Who it is about, the node first: in a narrow list the end is cut.
fn in_short(subject: &Subject) -> String {
    match subject {
        Subject::NodeRail(node, rail) => format!("{node} {rail}"),
        Subject::Device(node, device) => format!("{node} {device}"),
        Subject::Nic(nic, _, direction) => {
            let way = direction.map(|direction| format!(" {direction}"));
            format!("{} {}{}", nic.node, nic.device, way.unwrap_or_default())
        }
        other => other.to_string(),
    }
}

/// The finding in words, its evidence, and what to do.
fn detail(finding: &Finding, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let (word, role) = severity(finding.severity);
    let text = |indent: &str, text: &str, style: Style| -> Vec<Line<'static>> {
        let lines = wrap(text, width.saturating_sub(indent.len() + 1));
        let line = |line: String| Line::styled(format!("{indent}{line}"), style);
        lines.into_iter().map(line).collect()
    };
    let title = |word: &str| Line::styled(format!(" {word}"), theme.style(Role::Title));
    let mut lines = vec![
        Line::from(vec![
            Span::styled(format!(" {word} "), theme.style(role)),
            Span::raw(finding.rule.name()),
        ]),
        Line::default(),
    ];
    lines.extend(text(" ", &finding.says, Style::new()));
    if let Some(expected) = finding.expected {
        let measured = finding.measured.map(|rate| format!("measured {rate}, "));
        let from = finding.expected_from.as_deref().unwrap_or("no source");
        let cost = cost(finding);
        let says = format!(
            "{}expected {expected}: {from}{cost}",
            measured.unwrap_or_default()
        );
        lines.push(Line::default());
        lines.push(title("Expected"));
        lines.extend(text("   ", &says, Style::new()));
    }
    if !finding.evidence.is_empty() {
        lines.push(Line::default());
        lines.push(title("Evidence"));
    }
    for evidence in &finding.evidence {
        lines.extend(text("   ", &evidence.saw, Style::new()));
        lines.extend(text("     ", &evidence.from, theme.style(Role::Dim)));
    }
    lines.push(Line::default());
    lines.push(title("What to do"));
    lines.extend(text("   ", &finding.remedy, Style::new()));
    lines.push(Line::default());
    let more = "w says what the rule means, y copies this, esc leads back";
    lines.extend(text(" ", more, theme.style(Role::Dim)));
    lines
}

/// What is missing of what is expected, as a clause.
fn cost(finding: &Finding) -> String {
    let lost = finding.expected.zip(finding.ratio);
    let lost = lost.map(|(expected, ratio)| crate::model::Gbps(expected.0 * (1.0 - ratio)));
    match lost.filter(|lost| lost.is_positive()) {
        Some(lost) => format!("; it costs {lost}"),
        None => String::new(),
    }
}

/// The finding as text for the clipboard.
pub(in crate::tui) fn as_text(finding: &Finding) -> String {
    let (word, _) = severity(finding.severity);
    let mut text = format!("{word} {}: {}\n", finding.rule, visible(&finding.says));
    for evidence in &finding.evidence {
        text.push_str(&visible(&format!("- {} ({})", evidence.saw, evidence.from)));
        text.push('\n');
    }
    text.push_str(&fit(&finding.remedy, 4096));
    text.push('\n');
    text
}
