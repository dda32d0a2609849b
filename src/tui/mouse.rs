//! The mouse: the wheel scrolls, a click selects, a second one opens.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::draw::{BODY_TOP, tab_at};
use super::panes;
use super::run::Run;
use super::update::{go, open, step};
use super::view::{Overlay, Pane, View};

/// Does what the mouse asked for.
pub(super) fn point(view: &mut View, mouse: MouseEvent, run: &Run) {
    match mouse.kind {
        MouseEventKind::ScrollUp => step(view, -3, run),
        MouseEventKind::ScrollDown => step(view, 3, run),
        MouseEventKind::Down(MouseButton::Left) => click(view, mouse.column, mouse.row, run),
        _ => {}
    }
}

fn click(view: &mut View, column: u16, line: u16, run: &Run) {
    let asks = matches!(view.overlay, Some(Overlay::Quit | Overlay::Exclude(_)));
    if asks || view.prompt.is_some() {
        return;
    }
    if view.overlay.take().is_some() {
        return;
    }
    if let Some(pane) = tab_at(column, line) {
        return go(view, pane);
    }
    let Some(line) = line.checked_sub(BODY_TOP).map(usize::from) else {
        return;
    };
    match view.pane {
        Pane::Grid => {
            let Some(line) = line.checked_sub(panes::grid::HEAD) else {
                return;
            };
            let at = view.grid.top + line;
            if at >= view.lines.len() {
                return;
            }
            let rail = panes::grid::rail_at(view, run, column);
            let same = at == view.grid.at && rail.is_none_or(|rail| rail == view.rail);
            view.grid.at = at;
            view.rail = rail.unwrap_or(view.rail);
            view.remember(run);
            if same {
                open(view, run);
            }
        }
        Pane::Pairs => {
            let Some((from, to)) = panes::pairs::block_at(view, column, line) else {
                return;
            };
            let same = (view.place(), view.place_of_receiver()) == (from, to);
            view.select(from, run);
            view.to = view.axis.get(to).copied().unwrap_or(view.to);
            if same {
                open(view, run);
            }
        }
        Pane::Cpu => {
            let Some(line) = line.checked_sub(panes::cpu::HEAD) else {
                return;
            };
            let by = (view.cpu.top + line).cast_signed() - view.cpu.at.cast_signed();
            match by {
                0 => open(view, run),
                by => step(view, by, run),
            }
        }
        Pane::Findings if !view.open => {
            let at = view.findings.top + line.saturating_sub(panes::findings::HEAD);
            if at < view.shown.len() {
                let same = at == view.findings.at;
                view.findings.at = at;
                if same {
                    open(view, run);
                }
            }
        }
        _ => {}
    }
}
