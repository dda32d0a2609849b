//! What driving each NIC takes of processors, by what its probes measured.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::model::{Completion, Gbps, NicId};
use crate::tui::clean::{pad, short};
use crate::tui::cost::{Compared, Cost, Weighed};
use crate::tui::draw::{body_lines, put};
use crate::tui::grid::{Cell, Row};
use crate::tui::run::Run;
use crate::tui::theme::{Role, Theme};
use crate::tui::view::View;

/// Lines above the first NIC.
pub(in crate::tui) const HEAD: usize = 4;

/// Columns of a node's and a NIC's name at the most.
const MAX_NAME: usize = 24;
const NIC: usize = 10;

/// Heading and columns of what is told.
const COLUMNS: [(&str, usize); 8] = [
    ("Gb/s", 5),
    ("waits", 6),
    ("user", 6),
    ("system", 7),
    ("softirq", 8),
    ("Gb/s/core", 10),
    ("cores/NIC", 10),
    ("/100G", 7),
];

/// The same where TCP and RDMA were held against each other.
const COMPARED: [(&str, usize); 8] = [
    ("tcp", 6),
    ("tx/100G", 9),
    ("rx/100G", 9),
    ("write", 7),
    ("tx/100G", 9),
    ("rx/100G", 9),
    ("NIC tcp", 9),
    ("write", 7),
];

/// NICs on the screen at once.
pub(in crate::tui) fn list_lines(size: (u16, u16)) -> usize {
    body_lines(size).saturating_sub(HEAD)
}

/// Draws it.
pub(in crate::tui) fn draw(view: &View, run: &Run, area: Rect, buffer: &mut Buffer) {
    let compares = compares(run);
    let notes = match compares {
        true => [
            " Gb/s by one TCP connection and by RDMA writes, and the cores that 100 Gb/s take",
            " at the sender (tx) and the receiver (rx), kernel included; ≥: without it, <: less.",
            " NIC: the cores that it takes to fill this one, sending.",
        ],
        false => [
            " Of the thread that sends; softirq of its whole host, all NICs together.",
            " A thread that polls spends a core in any case: its numbers are bounds.",
            " Receivers and TCP: not measured; `linerate cost` and --cost measure them.",
        ],
    };
    let dim = view.theme.style(Role::Dim);
    for (line, note) in (0..).zip(notes) {
        put(buffer, area, line, &Line::styled(note, dim));
    }
    let name = view.name_width.clamp(4, MAX_NAME) + 2;
    put(buffer, area, 3, &head(&view.theme, name, compares));
    let rails = run.grid().rails().len();
    if view.axis.is_empty() || rails == 0 {
        put(buffer, area, 5, &Line::styled(" no NIC is known yet", dim));
        return;
    }
    let all = view.axis.len() * rails;
    for (line, at) in (4..area.height).zip(view.cpu.top..all) {
        let Some(row) = run.grid().rows().get(view.axis[at / rails]) else {
            continue;
        };
        let Some(cell) = row.cells.get(at % rails) else {
            continue;
        };
        let text = nic(view, run, row, cell, name, at == view.cpu.at);
        put(buffer, area, line, &text);
    }
}

/// Whether the run measures what moving data costs.
pub(super) fn compares(run: &Run) -> bool {
    let settings = run.ledger().settings();
    settings.is_some_and(|settings| settings.cost.is_some())
}

fn head(theme: &Theme, name: usize, compares: bool) -> Line<'static> {
    let mut text = format!("{}{}", pad("  node", name), pad(" NIC", NIC + 1));
    let columns = if compares { COMPARED } else { COLUMNS };
    for (word, width) in columns {
        text.push_str(&format!("{word:>width$}"));
    }
    Line::styled(text, theme.style(Role::Title))
}

fn nic(
    view: &View,
    run: &Run,
    row: &Row,
    cell: &Cell,
    name: usize,
    selected: bool,
) -> Line<'static> {
    let theme = &view.theme;
    let style = match selected {
        true => theme.selected(),
        false => Style::new(),
    };
    let device = cell.nic.as_ref().map_or("none", |nic| nic.device.as_str());
    let mut spans = vec![
        Span::styled(cell.mark().sign(theme), theme.style(cell.mark().role())),
        Span::raw(" "),
        Span::styled(pad(&row.name.0, name - 2), style),
        Span::styled(format!(" {}", pad(device, NIC)), style),
    ];
    let is_software = cell.nic.as_ref().is_some_and(|nic| is_software(run, nic));
    let dim = theme.style(Role::Dim);
    if compares(run) {
        spans.extend(compared(&cell.compared, is_software, theme));
        return Line::from(spans);
    }
    match cell.cost {
        None => spans.push(Span::styled("   not measured", dim)),
        Some(cost) if is_software => {
            let rate = format!("{:>5}", short(cost.rate));
            spans.push(Span::raw(rate));
            spans.push(Span::styled("  software RDMA: its cost means nothing", dim));
        }
        Some(cost) => spans.extend(columns(&cost, cell, theme)),
    }
    Line::from(spans)
}

/// Whether a NIC is played by the kernel.
pub(super) fn is_software(run: &Run, nic: &NicId) -> bool {
    let device = run.ledger().device(nic);
    device.is_some_and(|device| device.software.is_some())
}

fn columns(cost: &Cost, cell: &Cell, theme: &Theme) -> Vec<Span<'static>> {
    let polls = cost.completion == Completion::Poll;
    let (at_least, at_most) = match (polls, theme.unicode) {
        (false, _) => ("", ""),
        (true, true) => ("≥", "≤"),
        (true, false) => (">", "<"),
    };
    let unknown = || "?".to_owned();
    let per_core = cost.per_core();
    let line = cell.tx.and_then(|best| best.expected);
    let cores = |rate: Option<Gbps>| {
        let cores = rate.and_then(|rate| cost.cores_for(rate));
        cores.map_or_else(unknown, |cores| {
            format!("{at_most}{:.2}", cores.min(9999.0))
        })
    };
    let texts = [
        short(cost.rate),
        if polls { "polls" } else { "event" }.to_owned(),
        percent(cost.user),
        percent(cost.system),
        cost.softirq.map_or_else(unknown, percent),
        per_core.map_or_else(unknown, |rate| format!("{at_least}{}", short(rate))),
        cores(line),
        cores(Some(Gbps(100.0))),
    ];
    let column = |(text, (_, width)): (String, (&str, usize))| Span::raw(format!("{text:>width$}"));
    texts.into_iter().zip(COLUMNS).map(column).collect()
}

/// TCP beside RDMA, whose cost means nothing where the kernel plays the NIC.
fn compared(compared: &Compared, is_software: bool, theme: &Theme) -> Vec<Span<'static>> {
    let dim = theme.style(Role::Dim);
    let [tcp, write] = [compared.tcp, compared.write];
    if [tcp, write].as_flattened().iter().all(Option::is_none) {
        return vec![Span::styled("   not measured", dim)];
    }
    let cores = |end: &Weighed, cores: f64| {
        let sign = match (end.is_whole, theme.unicode) {
            (true, _) if end.is_hidden => "<",
            (true, _) => "",
            (false, true) => "≥",
            (false, false) => ">",
        };
        // Rounded up, a bound is one still.
        let cores = match end.is_hidden {
            true => (cores * 100.0).ceil() / 100.0,
            false => cores,
        };
        format!("{sign}{:.2}", cores.min(9999.0))
    };
    let or = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
    let rate = |ends: &[Option<Weighed>; 2]| {
        let end = ends.iter().flatten().next();
        or(end.map(|end| short(end.rate)))
    };
    let per_100 = |end: &Option<Weighed>| or(end.as_ref().map(|end| cores(end, end.per_100)));
    let fills =
        |end: &Option<Weighed>| or(end.as_ref().and_then(|end| Some(cores(end, end.fills?))));
    let mut texts = vec![rate(&tcp), per_100(&tcp[0]), per_100(&tcp[1]), rate(&write)];
    match is_software {
        true => {}
        false => texts.extend([
            per_100(&write[0]),
            per_100(&write[1]),
            fills(&tcp[0]),
            fills(&write[0]),
        ]),
    }
    let columns = texts.into_iter().zip(COMPARED);
    let mut spans: Vec<Span<'static>> = columns
        .map(|(text, (_, width))| Span::raw(format!("{text:>width$}")))
        .collect();
    if is_software {
        spans.push(Span::styled("  software RDMA: its cost means nothing", dim));
    }
    spans
}

/// Cores as a percentage of one.
fn percent(cores: f64) -> String {
    match cores * 100.0 {
        percent if percent > 0.0 && percent < 9.95 => format!("{percent:.1}%"),
        percent => format!("{:.0}%", percent.clamp(0.0, 99_999.0)),
    }
}
