//! What NICs carry now: in the cells of the grid, and of the selected one over the last minutes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::model::Gbps;
use crate::tui::clean::{columns, fit, pad, short};
use crate::tui::draw::put;
use crate::tui::grid::Cell;
use crate::tui::live::{COUNTED, Counted, Lane};
use crate::tui::marks::Mark;
use crate::tui::run::Run;
use crate::tui::theme::{Role, Theme};
use crate::tui::view::View;

/// Lines of what is shown of the selected NIC, with the empty one above.
const DETAIL: usize = 4;

/// On so many lines there is room for it.
const ROOM: usize = 12;

/// Levels of a line that rises and falls, the lowest first.
const LEVELS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const ASCII_LEVELS: [&str; 8] = ["_", ".", ":", "-", "=", "+", "*", "#"];

/// Lines below the grid that the selected NIC takes.
pub(in crate::tui) fn detail_lines(run: &Run, body: usize) -> usize {
    let shown = !run.live().is_empty() && body >= ROOM;
    usize::from(shown) * DETAIL
}

/// What is known of a NIC's traffic.
pub(in crate::tui) fn lane<'a>(cell: &Cell, run: &'a Run) -> Option<&'a Lane> {
    let nic = cell.nic.as_ref()?;
    run.live().lane(&nic.node, &nic.device, nic.port)
}

/// What is to be said of a node that is only watched: whether it loses something, or is silent.
pub(in crate::tui) fn sign(view: &View, lanes: &[Lane]) -> (&'static str, Role) {
    let mut fresh = lanes.iter().filter(|lane| lane.is_fresh(view.now_ms));
    match (fresh.clone().next(), fresh.any(Lane::is_hurt)) {
        (None, _) => (Mark::NotRun.sign(&view.theme), Role::Dim),
        (_, true) => (Mark::Warned.sign(&view.theme), Role::Doubt),
        _ => (" ", Role::Dim),
    }
}

/// The text of a cell in so many columns: sent, received, and how it went where there is room.
pub(in crate::tui) fn cell(view: &View, lane: Option<&Lane>, width: usize) -> Vec<Span<'static>> {
    let theme = &view.theme;
    let Some(lane) = lane.filter(|lane| lane.is_fresh(view.now_ms)) else {
        return vec![Span::styled(pad("  -", width), theme.style(Role::Dim))];
    };
    let hurt = if lane.is_hurt() { "!" } else { " " };
    let mut spans = Vec::new();
    match width {
        0 => {}
        1 => spans.push(Span::raw(level(theme, busier(lane), lane.peak))),
        2..12 => {
            spans.push(Span::styled(hurt, theme.style(Role::Doubt)));
            let rate = Gbps(f64::from(busier(lane)));
            spans.push(Span::raw(pad(&format!(" {:>4}", short(rate)), width - 1)));
        }
        _ => {
            spans.push(Span::styled(hurt, theme.style(Role::Doubt)));
            let [tx, rx] = lane.now.map(gbps);
            spans.push(Span::raw(pad(&format!("{tx:>5} {rx:>4}"), 11)));
            let left = width - 12;
            let rates = (0..2).map(|direction| lane.trail(direction, left.saturating_sub(1)));
            let mut rates = rates.map(Iterator::collect::<Vec<f32>>);
            let (sent, received) = (rates.next().unwrap_or_default(), rates.next());
            let both = sent.iter().zip(received.unwrap_or_default());
            let both: Vec<f32> = both.map(|(a, b)| a.max(b)).collect();
            let trail = pad(&trail_line(theme, &both, lane.peak), left);
            spans.push(Span::styled(trail, theme.style(Role::Busy)));
        }
    }
    spans
}

/// Draws the selected NIC: rates, what is counted, and both directions over time.
pub(in crate::tui) fn detail(view: &View, run: &Run, area: Rect, buffer: &mut Buffer) {
    let Some(cell) = view.row(run).and_then(|row| row.cells.get(view.rail)) else {
        return;
    };
    let Some(nic) = &cell.nic else { return };
    let name = fit(&nic.to_string(), usize::from(area.width / 3));
    let theme = &view.theme;
    let mut head = vec![Span::styled(format!(" {name}  "), theme.style(Role::Title))];
    let lane = lane(cell, run);
    let fresh = lane.is_some_and(|lane| lane.is_fresh(view.now_ms));
    match lane {
        None => head.push(Span::raw("its counters are not read")),
        Some(_) if !fresh => head.push(Span::raw("no reading of its counters came lately")),
        Some(lane) => counted(theme, lane, &mut head),
    }
    put(buffer, area, 1, &Line::from(head));
    let Some(lane) = lane else { return };
    let room = usize::from(area.width).saturating_sub(20);
    for (direction, word) in ["sent", "received"].into_iter().enumerate() {
        let now = if fresh { lane.now[direction] } else { None };
        let trail: Vec<f32> = lane.trail(direction, room).collect();
        let text = format!(" {word:<8} {:>9} ", in_full(now));
        let spans = vec![
            Span::raw(text),
            Span::styled(
                trail_line(theme, &trail, lane.peak),
                theme.style(Role::Busy),
            ),
        ];
        let at = if direction == 0 { 2 } else { 3 };
        put(buffer, area, at, &Line::from(spans));
    }
}

fn counted(theme: &Theme, lane: &Lane, spans: &mut Vec<Span<'static>>) {
    for ((_, word), counted) in COUNTED.iter().zip(&lane.counted) {
        let Counted { now, sum, at_least } = *counted;
        let more = if at_least { "+" } else { "" };
        let (text, style) = match now {
            None => (format!("{word} ?  "), theme.style(Role::Dim)),
            Some(0) => (format!("{word} {sum}{more}  "), Style::new()),
            Some(now) => (
                format!("{word} {sum}{more} (+{now})  "),
                theme.style(Role::Doubt),
            ),
        };
        spans.push(Span::styled(text, style));
    }
}

fn busier(lane: &Lane) -> f32 {
    let both = lane.now.map(|rate| rate.unwrap_or(0.0));
    both[0].max(both[1])
}

/// A rate in Gb/s, or that it is unknown.
fn gbps(rate: Option<f32>) -> String {
    rate.map_or_else(|| "?".to_owned(), |rate| short(Gbps(f64::from(rate))))
}

/// A rate with its unit, where no heading has it.
pub(super) fn in_full(rate: Option<f32>) -> String {
    rate.map_or_else(|| "?".to_owned(), |rate| Gbps(f64::from(rate)).to_string())
}

fn level(theme: &Theme, rate: f32, peak: f32) -> &'static str {
    let levels = if theme.unicode { LEVELS } else { ASCII_LEVELS };
    let share = if peak > 0.0 { rate / peak } else { 0.0 };
    // Casts from a float stop at the ends of the range; what is no number is the lowest.
    levels[((share * 7.0).round() as usize).min(7)]
}

/// Rates as a line that rises and falls, against the most that was seen.
pub(super) fn trail_line(theme: &Theme, rates: &[f32], peak: f32) -> String {
    let levels = rates.iter().map(|rate| level(theme, *rate, peak));
    let line: String = levels.collect();
    debug_assert_eq!(columns(&line), rates.len());
    line
}
