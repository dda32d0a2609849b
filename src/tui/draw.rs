//! A frame: heading, tabs, the pane in front, and a line to talk in. Nothing changes here.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::clean::{clock, columns, fit};
use super::journal::purpose_in_words;
use super::keymap::{Binding, Place, table};
use super::marks::Mark;
use super::panes;
use super::run::{Phase, Run};
use super::theme::Role;
use super::view::{Overlay, Pane, Prompt, View};
use crate::model::{Severity, Verdict};

/// The first line of the pane.
pub(super) const BODY_TOP: u16 = 2;

/// Lines of the pane on a terminal of this size.
pub(super) fn body_lines(size: (u16, u16)) -> usize {
    usize::from(size.1.saturating_sub(BODY_TOP + 1))
}

/// Draws everything.
pub fn draw(view: &View, run: &Run, frame: &mut Frame<'_>) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    put(
        buffer,
        area,
        0,
        &heading(view, run, usize::from(area.width)),
    );
    put(buffer, area, 1, &tabs(view, usize::from(area.width)));
    let body = Rect {
        y: area.y + BODY_TOP.min(area.height),
        height: area.height.saturating_sub(BODY_TOP + 1),
        ..area
    };
    match &view.overlay {
        Some(overlay @ (Overlay::Help | Overlay::Explain(_))) => {
            panes::help::draw(overlay, view, body, buffer);
        }
        _ => match view.pane {
            Pane::Grid => panes::grid::draw(view, run, body, buffer),
            Pane::Pairs => panes::pairs::draw(view, run, body, buffer),
            Pane::Node => panes::node::draw(view, run, body, buffer),
            Pane::Cpu => panes::cpu::draw(view, run, body, buffer),
            Pane::Findings => panes::findings::draw(view, run, body, buffer),
            Pane::Run => panes::run::draw(view, run, body, buffer),
        },
    }
    if area.height > BODY_TOP {
        put(
            buffer,
            area,
            area.height - 1,
            &footer(view, run, usize::from(area.width)),
        );
    }
}

/// Writes a line; what does not fit is cut.
pub(super) fn put(buffer: &mut Buffer, area: Rect, line: u16, text: &Line<'_>) {
    if line < area.height && area.width > 0 {
        buffer.set_line(area.x, area.y + line, text, area.width);
    }
}

/// Writes lines from `top` on, as far as there is room.
pub(super) fn put_all(buffer: &mut Buffer, area: Rect, lines: &[Line<'_>], top: usize) {
    for (number, line) in (0..area.height).zip(lines.iter().skip(top)) {
        put(buffer, area, number, line);
    }
}

/// What is run, how it stands, and for how long.
fn heading(view: &View, run: &Run, width: usize) -> Line<'static> {
    let theme = &view.theme;
    let mut spans = vec![Span::styled(
        format!(" {} ", fit(&view.title, width / 2)),
        theme.style(Role::Title),
    )];
    if run
        .ledger()
        .settings()
        .is_some_and(|settings| settings.simulated)
    {
        spans.push(Span::styled("SIMULATED ", theme.style(Role::Degraded)));
    }
    if run.ledger().has_stand_in() {
        spans.push(Span::styled("STAND-IN GPU ", theme.style(Role::Degraded)));
    }
    spans.push(Span::raw(phase(view, run)));
    spans.push(Span::raw("  "));
    spans.extend(verdict(view, run));
    let elapsed = clock(run.elapsed_ms(view.pace.is_none().then_some(view.now_ms)));
    let right = match view.pace {
        Some(pace) if !run.is_over() => format!("{elapsed} {pace}x "),
        _ => format!("{elapsed} "),
    };
    let taken: usize = spans.iter().map(|span| columns(&span.content)).sum();
    if let Some(gap) = width.checked_sub(taken + columns(&right)) {
        spans.push(Span::raw(" ".repeat(gap)));
        spans.push(Span::raw(right));
    }
    Line::from(spans)
}

fn phase(view: &View, run: &Run) -> String {
    let state = match run.phase() {
        Phase::Over => return "over".to_owned(),
        Phase::Reaching => {
            let rows = run.grid().rows();
            format!("{} of {} nodes surveyed", run.surveyed(), rows.len())
        }
        Phase::Watching => "watching".to_owned(),
        Phase::Round(purpose) => {
            let round = run.round().unwrap_or_default();
            let number = round.number.saturating_add(1);
            format!("round {number} ({})", purpose_in_words(purpose))
        }
    };
    match view.paused {
        true => format!("PAUSED {state}"),
        false => state,
    }
}

fn verdict(view: &View, run: &Run) -> Vec<Span<'static>> {
    let theme = &view.theme;
    let Some(judgement) = run.judgement() else {
        return Vec::new();
    };
    let faults = run.count(Severity::Fault);
    let warnings = run.count(Severity::Warning);
    let unjudged = run.count(Severity::NotJudged);
    let mut spans = Vec::new();
    let mut chip = |count: usize, one: &str, many: &str, role: Role| {
        if count > 0 {
            let word = if count == 1 { one } else { many };
            spans.push(Span::styled(format!("{count} {word}  "), theme.style(role)));
        }
    };
    chip(faults, "fault", "faults", Role::Half);
    chip(unjudged, "not judged", "not judged", Role::Doubt);
    chip(warnings, "warning", "warnings", Role::Degraded);
    if judgement.verdict == Verdict::AtLineRate {
        spans.push(Span::styled("all at line rate", theme.style(Role::Good)));
    }
    spans
}

fn label(pane: Pane) -> &'static str {
    match pane {
        Pane::Grid => " 1 Grid ",
        Pane::Pairs => " 2 Pairs ",
        Pane::Node => " 3 Node ",
        Pane::Cpu => " 4 CPU cost ",
        Pane::Findings => " 5 Findings ",
        Pane::Run => " 6 Run ",
    }
}

/// The pane whose tab is there.
pub(super) fn tab_at(column: u16, line: u16) -> Option<Pane> {
    let mut end = 0;
    let mut under = |pane: &&Pane| {
        end += label(**pane).len();
        usize::from(column) < end
    };
    (line == 1).then(|| Pane::ALL.iter().find(&mut under).copied())?
}

/// The panes, and what the marks mean where there is room.
fn tabs(view: &View, width: usize) -> Line<'static> {
    let theme = &view.theme;
    let mut spans = Vec::new();
    for pane in Pane::ALL {
        let style = match pane == view.pane {
            true => theme.selected(),
            false => theme.style(Role::Dim),
        };
        spans.push(Span::styled(label(pane), style));
    }
    let legend: Vec<Span<'static>> = Mark::ALL
        .iter()
        .flat_map(|mark| {
            let sign = Span::styled(format!("  {}", mark.sign(theme)), theme.style(mark.role()));
            [
                sign,
                Span::styled(format!(" {}", mark.words()), theme.style(Role::Dim)),
            ]
        })
        .collect();
    let of = |spans: &[Span<'_>]| {
        spans
            .iter()
            .map(|span| columns(&span.content))
            .sum::<usize>()
    };
    if let Some(gap) = width.checked_sub(of(&spans) + of(&legend) + 1) {
        spans.push(Span::raw(" ".repeat(gap)));
        spans.extend(legend);
    }
    Line::from(spans)
}

/// What is typed or asked, the last word, or the keys that hold.
fn footer(view: &View, run: &Run, width: usize) -> Line<'static> {
    let theme = &view.theme;
    let bold = theme.style(Role::Doubt).add_modifier(Modifier::BOLD);
    match (&view.prompt, &view.overlay, &view.message) {
        (Some(Prompt::Filter(text)), ..) => Line::raw(typed("/", text, width)),
        (Some(Prompt::Command(text)), ..) => Line::raw(typed(":", text, width)),
        (_, Some(Overlay::Quit), _) => {
            Line::styled(" The run goes on. Stop it and leave? y or n", bold)
        }
        (_, Some(Overlay::Exclude(node)), _) => Line::styled(
            format!(" Probe {} no more in this run? y or n", fit(&node.0, 40)),
            bold,
        ),
        (.., Some(message)) => Line::styled(format!(" {}", fit(message, width)), bold),
        _ => hints(view, run),
    }
}

/// The end of what is typed, with a cursor.
fn typed(sign: &str, text: &str, width: usize) -> String {
    let room = width.saturating_sub(3);
    let skip = text.chars().count().saturating_sub(room);
    let end: String = text.chars().skip(skip).collect();
    format!("{sign}{}_", fit(&end, room.max(1)))
}

/// Whose keys hold in a pane.
pub(super) fn places(pane: Pane) -> &'static [Place] {
    match pane {
        Pane::Grid => &[Place::Nodes, Place::Grid],
        Pane::Pairs | Pane::Node | Pane::Cpu => &[Place::Nodes],
        Pane::Findings => &[Place::Findings],
        Pane::Run => &[],
    }
}

/// The keys of the pane, those that are always wanted first: narrow terminals cut the end.
fn hints(view: &View, run: &Run) -> Line<'static> {
    let here: &[Place] = places(view.pane);
    let replays = view.pace.is_some() && !run.is_over();
    let holds = |place| match place {
        Place::Everywhere => false,
        Place::Replay => replays,
        place => here.contains(&place),
    };
    let named = |name: &str| {
        table()
            .iter()
            .filter(move |b| b.name == name)
            .collect::<Vec<_>>()
    };
    let mut wanted: Vec<&Binding> = ["help", "quit", "open", "back", "filter"]
        .map(named)
        .concat();
    wanted.extend(table().iter().filter(|b| holds(b.place)));
    wanted.extend(["pause", "export"].map(named).concat());
    let of_a_live_run = ["probe", "exclude", "pause"];
    if run.is_over() || run.is_watch() {
        wanted.retain(|binding| !of_a_live_run.contains(&binding.name));
    }
    let moves = ["left", "right", "rail-before", "rail-after"];
    wanted.retain(|binding| !moves.contains(&binding.name));
    let mut spans = Vec::new();
    for binding in wanted {
        let key = binding.keys.first().copied().unwrap_or_default();
        spans.push(Span::styled(
            format!(" {key}"),
            view.theme.style(Role::Title),
        ));
        spans.push(Span::styled(
            format!(" {} ", binding.name),
            view.theme.style(Role::Dim),
        ));
    }
    if !view.filter.is_empty() {
        let filter = format!(" filter /{}/ ", fit(&view.filter, 20));
        spans.insert(0, Span::styled(filter, view.theme.style(Role::Doubt)));
    }
    Line::from(spans)
}
