//! Nodes down, NICs across: what each reached beside what is expected of it, and what is known of it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::model::Rail;
use crate::tui::clean::{pad, short};
use crate::tui::cost::{Weighed, of_node};
use crate::tui::draw::{body_lines, put};
use crate::tui::grid::{Cell, Row};
use crate::tui::marks::Mark;
use crate::tui::panes::cpu::{self, compares};
use crate::tui::panes::traffic;
use crate::tui::run::Run;
use crate::tui::theme::{Role, Theme};
use crate::tui::view::{GridLine, View};

/// Lines above the first node.
pub(in crate::tui) const HEAD: usize = 1;

/// From so many lines on, what is known of the selected NIC is shown below the nodes.
const WITH_DETAIL: u16 = 56;

/// Lines of that.
const DETAIL: u16 = 18;

/// Nodes on the screen at once.
pub(in crate::tui) fn list_lines(view: &View, run: &Run) -> usize {
    let body = body_lines(view.size);
    let below = usize::from(detail_height(view.size.1)) + traffic::detail_lines(run, body);
    body.saturating_sub(HEAD + below)
}

fn detail_height(lines: u16) -> u16 {
    if lines >= WITH_DETAIL { DETAIL } else { 0 }
}

/// Columns of a name at the most.
const MAX_NAME: usize = 24;

/// Columns of a bar.
const BAR: usize = 8;

/// How much of a NIC is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Mark, rate, expected rate, bar.
    Wide,
    /// Mark, rate, expected rate.
    Middle,
    /// Mark, rate.
    Narrow,
    /// Mark.
    Folded,
}

impl Form {
    /// Columns, with the one before it.
    fn width(self) -> usize {
        match self {
            Self::Wide => 12 + 1 + BAR,
            Self::Middle => 12,
            Self::Narrow => 7,
            Self::Folded => 1,
        }
    }
}

/// What is shown of a node beside its NICs: heading and columns.
const INFO: [(&str, usize); 4] = [("verdict", 10), ("GPUDirect", 9), ("CPU", 5), ("PCIe", 19)];

/// The same where TCP and RDMA were held against each other: what one core sends in Gb/s, and the cores
/// that it takes to fill a NIC, at the median NIC of the node.
const COMPARED: [(&str, usize); 6] = [
    ("verdict", 10),
    ("Gb/s/core tcp", 13),
    ("rdma", 6),
    ("cores/NIC tcp", 13),
    ("rdma", 6),
    ("GPUDirect", 9),
];

fn info_columns(run: &Run) -> &'static [(&'static str, usize)] {
    match compares(run) && !run.is_watch() {
        true => &COMPARED,
        false => &INFO,
    }
}

/// How the width is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Columns {
    /// Columns of mark and name.
    name: usize,
    form: Form,
    /// How many of these there is room for.
    info: usize,
}

fn info_width(run: &Run, count: usize) -> usize {
    info_columns(run)[..count]
        .iter()
        .map(|(_, width)| width + 1)
        .sum()
}

/// Rates beside expectations first, then what is known of the node, then rates alone.
fn columns(view: &View, run: &Run) -> Columns {
    let width = usize::from(view.size.0);
    let rails = run.grid().rails().len();
    let name = view.name_width.clamp(4, MAX_NAME) + 2;
    // Where a NIC has a column for what runs on it, that parts it from the name.
    let name = |form| name + usize::from(form == Form::Folded);
    // Two columns more, where there are any.
    let most = info_columns(run).len();
    let wanted = [Form::Wide, Form::Middle, Form::Narrow].map(|form| (form, most));
    let wanted = wanted.into_iter().filter(|_| most > INFO.len());
    let all = [
        (Form::Wide, 4),
        (Form::Middle, 4),
        (Form::Middle, 3),
        (Form::Middle, 2),
        (Form::Middle, 1),
        (Form::Narrow, 4),
        (Form::Narrow, 3),
        (Form::Narrow, 2),
        (Form::Narrow, 1),
        (Form::Narrow, 0),
        (Form::Folded, 4),
        (Form::Folded, 3),
        (Form::Folded, 1),
        (Form::Folded, 0),
    ];
    // What is said of a node beside its NICs comes of surveys and probes.
    let of_node = |(form, info)| (form, if run.is_watch() { 0 } else { info });
    let all: Vec<(Form, usize)> = wanted.chain(all).map(of_node).collect();
    let fits = |(form, info): &&(Form, usize)| {
        let may_be = match view.folded {
            Some(true) => *form == Form::Folded,
            Some(false) => *form != Form::Folded,
            None => true,
        };
        may_be && name(*form) + rails * form.width() + 1 + info_width(run, *info) <= width
    };
    let fallback = match view.folded {
        Some(false) => (Form::Narrow, 0),
        _ => (Form::Folded, 0),
    };
    let (form, info) = all.iter().find(fits).copied().unwrap_or(fallback);
    let name = name(form);
    Columns { name, form, info }
}

/// Whether NICs are one character each.
pub(in crate::tui) fn is_folded(view: &View, run: &Run) -> bool {
    columns(view, run).form == Form::Folded
}

/// The first rail that is shown: all where there is room, else such that the cursor is seen.
fn first_rail(view: &View, at: &Columns, rails: usize) -> usize {
    let room = usize::from(view.size.0).saturating_sub(at.name + 1) / at.form.width();
    match rails > room.max(1) {
        true => (view.rail + 1).saturating_sub(room.max(1)),
        false => 0,
    }
}

/// The rail below a column of the screen, by its place.
pub(in crate::tui) fn rail_at(view: &View, run: &Run, column: u16) -> Option<usize> {
    let at = columns(view, run);
    let rails = run.grid().rails().len();
    let inside = usize::from(column).checked_sub(at.name)?;
    let rail = first_rail(view, &at, rails) + inside / at.form.width();
    (rail < rails).then_some(rail)
}

/// Draws the grid.
pub(in crate::tui) fn draw(view: &View, run: &Run, area: Rect, buffer: &mut Buffer) {
    let at = columns(view, run);
    put(buffer, area, 0, &head(view, run, &at));
    let rows = run.grid().rows();
    if rows.is_empty() || view.lines.is_empty() {
        let word = match rows.is_empty() {
            true => " nothing is known of any node yet",
            false => " no node has these words: esc clears the filter",
        };
        put(
            buffer,
            area,
            2,
            &Line::styled(word, view.theme.style(Role::Dim)),
        );
        return;
    }
    let traffic = traffic::detail_lines(run, usize::from(area.height));
    let traffic = u16::try_from(traffic).unwrap_or(0).min(area.height);
    let detail = detail_height(view.size.1).min(area.height - traffic);
    let end = area.height - traffic - detail;
    let shown = view.lines.iter().enumerate().skip(view.grid.top);
    for (line, (number, what)) in (1..end).zip(shown) {
        let text = match what {
            GridLine::Leaf(row) => leaf(view, &rows[*row]),
            GridLine::Node(row) => node(view, run, &rows[*row], number == view.grid.at, &at),
        };
        put(buffer, area, line, &text);
    }
    let part = |from: u16, height: u16| Rect {
        y: area.y + from,
        height,
        ..area
    };
    if detail > 0 {
        super::nic::draw(view, run, part(end, detail), buffer);
    }
    if traffic > 0 {
        traffic::detail(view, run, part(end + detail, traffic), buffer);
    }
}

fn head(view: &View, run: &Run, at: &Columns) -> Line<'static> {
    let style = view.theme.style(Role::Title);
    let mut text = pad("  node", at.name);
    let rails = run.grid().rails();
    for rail in rails.iter().skip(first_rail(view, at, rails.len())) {
        text.push_str(&match at.form {
            Form::Folded => (rail.0 % 10).to_string(),
            form if view.traffic => pad(&carried(*rail, run, form), form.width()),
            Form::Narrow => pad(&format!(" rail {}", rail.0), Form::Narrow.width()),
            form => pad(&format!(" rail {} Gb/s", rail.0), form.width()),
        });
    }
    text.push(' ');
    for (word, width) in &info_columns(run)[..at.info] {
        text.push(' ');
        text.push_str(&pad(word, *width));
    }
    Line::styled(text, style)
}

/// The heading of what a NIC carries, such as `r3 tx   rx`; a watch knows no rails, but numbers.
fn carried(rail: Rail, run: &Run, form: Form) -> String {
    let sign = if run.is_watch() { "" } else { "r" };
    let name = format!("{sign}{}", rail.0);
    match form {
        Form::Narrow => format!("  {name:>4}"),
        _ => format!("{name:>3} tx   rx"),
    }
}

fn leaf(view: &View, row: &Row) -> Line<'static> {
    let name = row.leaf.as_deref().unwrap_or("in no leaf group");
    let text = pad(&format!("{name} "), usize::from(view.size.0));
    Line::styled(text, view.theme.style(Role::Title))
}

fn node(view: &View, run: &Run, row: &Row, selected: bool, at: &Columns) -> Line<'static> {
    let theme = &view.theme;
    let name_style = if selected {
        theme.selected()
    } else {
        Style::new()
    };
    let (sign, role) = match run.is_watch() && !row.lost {
        true => traffic::sign(view, run.live().lanes(&row.name)),
        false => (row.mark.sign(theme), row.mark.role()),
    };
    let mut spans = vec![
        Span::styled(sign, theme.style(role)),
        Span::raw(" "),
        Span::styled(pad(&row.name.0, at.name - 2), name_style),
    ];
    let first = first_rail(view, at, row.cells.len());
    for (rail, cell) in row.cells.iter().enumerate().skip(first) {
        let under = selected && rail == view.rail;
        if view.traffic {
            let lane = traffic::lane(cell, run);
            let text = traffic::cell(view, lane, at.form.width());
            let cursor = |span: Span<'static>| {
                if under {
                    span.patch_style(theme.selected())
                } else {
                    span
                }
            };
            spans.extend(text.into_iter().map(cursor));
        } else {
            cell_spans(theme, cell, at.form, under, &mut spans);
        }
    }
    spans.push(Span::raw(" "));
    match compares(run) {
        true => compared(theme, run, row, at.info, &mut spans),
        false => info(theme, row, at.info, &mut spans),
    }
    Line::from(spans)
}

fn cell_spans(theme: &Theme, cell: &Cell, form: Form, under: bool, spans: &mut Vec<Span<'static>>) {
    let mark = cell.mark();
    let cursor = |style: Style| {
        if under {
            style.patch(theme.selected())
        } else {
            style
        }
    };
    let mut style = cursor(theme.style(mark.role()));
    let busy = match (cell.busy > 0, theme.unicode) {
        (false, _) => " ",
        (true, true) => "▸",
        (true, false) => ">",
    };
    if form == Form::Folded {
        let is_first = cell.busy > 0 && mark == Mark::NotRun;
        let sign = if is_first { busy } else { mark.sign(theme) };
        if is_first {
            style = cursor(theme.style(Role::Busy));
        }
        spans.push(Span::styled(sign, style));
        return;
    }
    spans.push(Span::styled(busy, theme.style(Role::Busy)));
    spans.push(Span::styled(mark.sign(theme), style));
    let best = cell.worse();
    let rate = match (best, &cell.nic) {
        (Some(best), _) => short(best.rate),
        (None, Some(_)) => "-".to_owned(),
        (None, None) => "none".to_owned(),
    };
    spans.push(Span::styled(format!(" {rate:>4}"), style));
    if form == Form::Narrow {
        return;
    }
    let expected = best.and_then(|best| best.expected);
    let whole = expected.map_or_else(String::new, |rate| format!("/{}", short(rate)));
    spans.push(Span::styled(format!("{whole:<5}"), theme.style(Role::Dim)));
    if form == Form::Wide {
        let share = best.and_then(|best| best.rate.share_of(best.expected?));
        let bar = bar(share.unwrap_or(0.0), theme.unicode);
        spans.push(Span::styled(format!("{bar} "), theme.style(mark.role())));
    }
}

/// A share of the whole, in eighths of a character.
fn bar(share: f64, unicode: bool) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let text = match unicode {
        true => "█".repeat(eighths / 8) + EIGHTHS[eighths % 8],
        false => "#".repeat(eighths / 8),
    };
    pad(&text, BAR)
}

/// What one core of a node sends, and what filling a NIC takes, by TCP and by RDMA.
fn compared(theme: &Theme, run: &Run, row: &Row, count: usize, spans: &mut Vec<Span<'static>>) {
    let words = compared_words(run, row);
    for (n, (word, (_, width))) in words.iter().zip(COMPARED).enumerate().take(count) {
        let text = match n {
            1..=4 => format!(" {word:>width$}"),
            _ => format!(" {}", pad(word, width)),
        };
        let role = match n {
            0 => row.mark.role(),
            5 if row.gpudirect == "off" => Role::Degraded,
            _ => Role::Dim,
        };
        spans.push(Span::styled(text, theme.style(role)));
    }
}

fn compared_words(run: &Run, row: &Row) -> [String; 6] {
    let is_software = |cell: &Cell| {
        let nic = cell.nic.as_ref();
        nic.is_some_and(|nic| cpu::is_software(run, nic))
    };
    let [tcp, write] = of_node(row.cells.iter().map(|cell| &cell.compared));
    // What software RDMA takes is not what a NIC would.
    let write = write.filter(|_| !row.cells.iter().any(is_software));
    [
        row.mark.words().to_owned(),
        tcp.and_then(per_core).unwrap_or_default(),
        write.and_then(per_core).unwrap_or_default(),
        tcp.and_then(fills).unwrap_or_default(),
        write.and_then(fills).unwrap_or_default(),
        row.gpudirect.to_owned(),
    ]
}

fn per_core(end: Weighed) -> Option<String> {
    let sign = if end.is_hidden { ">" } else { "" };
    Some(format!("{sign}{}", short(end.per_core()?)))
}

fn fills(end: Weighed) -> Option<String> {
    let sign = if end.is_hidden { "<" } else { "" };
    Some(format!("{sign}{:.2}", end.fills?.min(9999.0)))
}

fn info(theme: &Theme, row: &Row, count: usize, spans: &mut Vec<Span<'static>>) {
    let cpu = row.cpu.filter(|cores| cores.is_finite());
    let cpu = cpu.map_or_else(String::new, |cores| {
        format!("{:.0}%", cores.min(99.0) * 100.0)
    });
    let words = [row.mark.words(), row.gpudirect, &cpu, &row.pcie];
    let poor = |n: usize| match n {
        0 => row.mark.role(),
        1 if row.gpudirect == "off" => Role::Degraded,
        3 if row.pcie.contains(" of ") => Role::Degraded,
        _ => Role::Dim,
    };
    for (n, word) in words.iter().enumerate().take(count) {
        let text = format!(" {}", pad(word, INFO[n].1));
        spans.push(Span::styled(text, theme.style(poor(n))));
    }
}
