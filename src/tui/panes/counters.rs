//! The counters of a port over the last minutes: what it carried, and each sign of errors or congestion
//! that moved.

use ratatui::text::{Line, Span};

use super::traffic::{in_full, trail_line};
use crate::tui::clean::pad;
use crate::tui::live::{Lane, Moved};
use crate::tui::run::Run;
use crate::tui::theme::Role;
use crate::tui::view::View;

/// Columns of a label and what is before it, as everywhere on the node.
const LABEL: usize = 14;

/// Columns of a counter's name, and of what it stands at.
const NAME: usize = 22;
const VALUE: usize = 16;

/// Said once for a node, where there is nothing to be drawn of any of its ports.
pub(in crate::tui) fn why_none(view: &View, run: &Run) -> Option<&'static str> {
    if !run.live().is_empty() {
        return None;
    }
    let settings = run.ledger().settings();
    let simulated = settings.is_some_and(|settings| settings.simulated);
    Some(match (simulated, view.pace) {
        (true, _) => "a simulated node has none that move",
        (_, Some(_)) => "a record has no readings of them",
        _ => "no reading of them came yet",
    })
}

/// The lines of a port, the newest interval at the right of each.
pub(in crate::tui) fn lines(
    view: &View,
    run: &Run,
    lane: Option<&Lane>,
    width: usize,
) -> Vec<Line<'static>> {
    let dim = view.theme.style(Role::Dim);
    let said = |text: &str| {
        Line::from(vec![
            label("counters", view),
            Span::styled(text.to_owned(), dim),
        ])
    };
    let Some(lane) = lane else {
        // Said of the whole node already.
        let nothing = run.live().is_empty();
        return if nothing {
            Vec::new()
        } else {
            vec![said("not read")]
        };
    };
    if lane.intervals() == 0 {
        return vec![said("no two readings of them came yet")];
    }
    let fresh = lane.is_fresh(view.now_ms);
    let room = width.saturating_sub(LABEL + NAME + VALUE + 1);
    let mut lines = Vec::new();
    for (direction, word) in ["sent", "received"].into_iter().enumerate() {
        let now = if fresh { lane.now[direction] } else { None };
        let trail: Vec<f32> = lane.trail(direction, room).collect();
        let trail = trail_line(&view.theme, &trail, lane.peak);
        let first = if direction == 0 { "counters" } else { "" };
        lines.push(Line::from(vec![
            label(first, view),
            Span::raw(pad(word, NAME)),
            Span::raw(format!("{:>VALUE$} ", in_full(now))),
            Span::styled(trail, view.theme.style(Role::Busy)),
        ]));
    }
    lines.extend(
        lane.moved
            .iter()
            .map(|moved| counter(view, moved, fresh, room)),
    );
    match (fresh, lane.moved.is_empty()) {
        (false, _) => lines.push(said("no reading of them came lately")),
        (true, true) => lines.push(Line::from(vec![
            label("", view),
            Span::styled("no counter of errors or congestion moved", dim),
        ])),
        _ => {}
    }
    lines
}

/// A counter that moved: by how much in the last interval, and since it is watched.
fn counter(view: &View, moved: &Moved, fresh: bool, room: usize) -> Line<'static> {
    let trail: Vec<f32> = moved.trail(room).collect();
    let now = trail.last().copied().filter(|_| fresh).unwrap_or(0.0);
    let most = trail.iter().copied().fold(0.0, f32::max);
    let (value, role) = match now > 0.0 {
        true => (format!("+{now} of {}", moved.sum), Role::Doubt),
        false => (moved.sum.to_string(), Role::Dim),
    };
    Line::from(vec![
        label("", view),
        Span::raw(pad(&moved.name, NAME)),
        Span::styled(format!("{value:>VALUE$} "), view.theme.style(role)),
        Span::styled(
            trail_line(&view.theme, &trail, most),
            view.theme.style(Role::Doubt),
        ),
    ])
}

fn label(text: &str, view: &View) -> Span<'static> {
    let text = format!("   {}", pad(text, LABEL - 3));
    Span::styled(text, view.theme.style(Role::Dim))
}
