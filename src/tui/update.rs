//! What a key does: the only place where the view changes. Pure: what reaches outside is returned.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::draw::body_lines;
use super::keymap::{Do, Place, commands, look_up};
use super::mouse::point;
use super::msg::{Effect, Msg};
use super::panes;
use super::run::Run;
use super::view::{Only, Overlay, Pane, Prompt, Sort, View};
use crate::model::{Command, NicId, Pair};

/// So many pairs are probed once more at the most.
const PROBE_AGAIN: usize = 4;

/// The longest line that is typed.
const MOST_TYPED: usize = 200;

/// Does what the operator asked for. What must happen outside is returned.
pub fn update(view: &mut View, msg: Msg, run: &Run) -> Vec<Effect> {
    let effects = match msg {
        Msg::Resize(columns, lines) => {
            view.size = (columns, lines);
            Vec::new()
        }
        Msg::Paste(text) => {
            let mut typed = text.chars().filter(|c| !c.is_control());
            typed.try_for_each(|c| type_in(view, c)).unwrap_or(());
            Vec::new()
        }
        Msg::Mouse(mouse) => {
            point(view, mouse, run);
            Vec::new()
        }
        Msg::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
        Msg::Key(key) => press(view, &key, run),
    };
    view.settle(run);
    effects
}

fn press(view: &mut View, key: &KeyEvent, run: &Run) -> Vec<Effect> {
    view.message = None;
    if view.prompt.is_some() {
        return typed(view, key, run);
    }
    match view.overlay.clone() {
        Some(Overlay::Quit) => return answer(view, key, vec![Effect::Quit]),
        Some(Overlay::Exclude(node)) => {
            let told = Effect::Send(Command::Exclude(node));
            return answer(view, key, vec![told]);
        }
        _ => {}
    }
    let mut places = super::draw::places(view.pane).to_vec();
    places.extend(view.pace.map(|_| Place::Replay));
    match look_up(key, &places) {
        Some(does) => act(view, does, run),
        None => Vec::new(),
    }
}

/// An answer to a question: `y`, or anything else, which is no. Ctrl-C twice means it.
fn answer(view: &mut View, key: &KeyEvent, told: Vec<Effect>) -> Vec<Effect> {
    view.overlay = None;
    let again = key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
    let yes = matches!(key.code, KeyCode::Char('y' | 'Y')) || (again && told == [Effect::Quit]);
    if yes { told } else { Vec::new() }
}

fn type_in(view: &mut View, c: char) -> Option<()> {
    let (Prompt::Filter(text) | Prompt::Command(text)) = view.prompt.as_mut()?;
    if text.len() < MOST_TYPED {
        text.push(c);
    }
    if let Some(Prompt::Filter(text)) = &view.prompt {
        view.filter.clone_from(text);
    }
    Some(())
}

fn typed(view: &mut View, key: &KeyEvent, run: &Run) -> Vec<Effect> {
    let Some(Prompt::Filter(text) | Prompt::Command(text)) = &mut view.prompt else {
        return Vec::new();
    };
    match key.code {
        KeyCode::Char('c') if key.modifiers == KeyModifiers::CONTROL => give_up(view),
        KeyCode::Char(c) if key.modifiers.difference(KeyModifiers::SHIFT).is_empty() => {
            type_in(view, c).unwrap_or(());
        }
        KeyCode::Backspace => {
            if text.pop().is_none() {
                give_up(view);
            } else if let Some(Prompt::Filter(text)) = &view.prompt {
                view.filter.clone_from(text);
            }
        }
        KeyCode::Esc => give_up(view),
        KeyCode::Enter => return entered(view, run),
        _ => {}
    }
    Vec::new()
}

fn give_up(view: &mut View) {
    if let Some(Prompt::Filter(_)) = view.prompt.take() {
        view.filter.clear();
    }
}

fn entered(view: &mut View, run: &Run) -> Vec<Effect> {
    let Some(Prompt::Command(text)) = view.prompt.take() else {
        return Vec::new();
    };
    let found = commands(text.trim());
    match found.as_slice() {
        [] => {
            view.message = Some(format!(
                "there is no command `{}`: ? lists them",
                text.trim()
            ))
        }
        [one] => return act(view, one.does, run),
        many if text.trim().is_empty() => {
            view.message = Some(format!("{} commands: ? lists them", many.len()));
        }
        many => {
            let names: Vec<&str> = many.iter().map(|binding| binding.name).collect();
            view.message = Some(format!("which: {}", names.join(", ")));
        }
    }
    Vec::new()
}

fn act(view: &mut View, does: Do, run: &Run) -> Vec<Effect> {
    match does {
        Do::Up => step(view, -1, run),
        Do::Down => step(view, 1, run),
        Do::PageUp => step(view, -page(view), run),
        Do::PageDown => step(view, page(view), run),
        Do::First => step(view, isize::MIN / 2, run),
        Do::Last => step(view, isize::MAX / 2, run),
        Do::Left => aside(view, -1, run),
        Do::Right => aside(view, 1, run),
        Do::RailBefore => view.rail = view.rail.saturating_sub(1),
        Do::RailAfter => view.rail += 1,
        Do::Open => open(view, run),
        Do::Back => back(view),
        Do::Grid => go(view, Pane::Grid),
        Do::Pairs => {
            view.to = panes::pairs::worst_receiver(view, run).unwrap_or(view.to);
            go(view, Pane::Pairs);
        }
        Do::Node => go(view, Pane::Node),
        Do::Cpu => go(view, Pane::Cpu),
        Do::Findings => {
            view.only = None;
            go(view, Pane::Findings);
        }
        Do::Run => go(view, Pane::Run),
        Do::NextPane => turn(view, 1),
        Do::PreviousPane => turn(view, Pane::ALL.len() - 1),
        Do::Filter => view.prompt = Some(Prompt::Filter(view.filter.clone())),
        Do::Command => view.prompt = Some(Prompt::Command(String::new())),
        Do::Sort => sort(view, run),
        Do::Traffic => traffic(view, run),
        Do::Fold => view.folded = Some(!panes::grid::is_folded(view, run)),
        Do::Help => {
            view.overlay = (view.overlay != Some(Overlay::Help)).then_some(Overlay::Help);
            view.overlay_top = 0;
        }
        Do::Explain => {
            view.overlay = view.finding(run).map(|f| Overlay::Explain(f.rule));
            view.overlay_top = 0;
        }
        Do::Faster | Do::Slower => return pace(view, does),
        Do::Pause => return pause(view, run),
        Do::Probe => return probe(view, run),
        Do::Exclude => exclude(view, run),
        Do::Export => {
            view.message = Some("writing a report".to_owned());
            return vec![Effect::Export];
        }
        Do::Copy => return copy(view, run),
        Do::Suspend => return vec![Effect::Suspend],
        Do::Redraw => return vec![Effect::Redraw],
        Do::Quit if run.is_over() || run.is_watch() => return vec![Effect::Quit],
        Do::Quit => view.overlay = Some(Overlay::Quit),
    }
    Vec::new()
}

fn page(view: &View) -> isize {
    let lines = body_lines(view.size).saturating_sub(2).max(1);
    isize::try_from(lines).unwrap_or(1)
}

pub(super) fn step(view: &mut View, by: isize, run: &Run) {
    if let Some(overlay) = &view.overlay {
        let most = panes::help::overlay_lines(overlay, view).saturating_sub(1);
        view.overlay_top = view.overlay_top.saturating_add_signed(by).min(most);
        return;
    }
    match view.pane {
        Pane::Grid => {
            view.grid.step(by, view.lines.len());
            // A heading is no place to be: upwards it is passed.
            let on_heading = matches!(
                view.lines.get(view.grid.at),
                Some(super::view::GridLine::Leaf(_))
            );
            if on_heading && by < 0 && view.grid.at > 0 {
                view.grid.at -= 1;
            } else if on_heading {
                view.grid.at += 1;
            }
            view.remember(run);
        }
        Pane::Pairs => {
            let down = panes::pairs::Shape::of(view).per.0;
            let place = moved(view.place(), by, down, view.axis.len());
            view.select(place, run);
        }
        Pane::Node => {
            let most = panes::node::line_count(view, run).saturating_sub(1);
            view.node_top = view.node_top.saturating_add_signed(by).min(most);
        }
        Pane::Cpu => {
            let rails = run.grid().rails().len().max(1);
            view.cpu.step(by, view.axis.len() * rails);
            view.rail = view.cpu.at % rails;
            view.select(view.cpu.at / rails, run);
        }
        Pane::Findings if view.open => {
            let most = panes::findings::detail_lines(view, run).saturating_sub(1);
            view.open_top = view.open_top.saturating_add_signed(by).min(most);
        }
        Pane::Findings => {
            view.findings.step(by, view.shown.len());
            view.open_top = 0;
        }
        Pane::Run => view.back = view.back.saturating_add_signed(by.saturating_neg()),
    }
}

/// So many blocks on from a place, on an axis of this length.
fn moved(place: usize, by: isize, block: usize, length: usize) -> usize {
    let blocks = isize::try_from(block).unwrap_or(1);
    place
        .saturating_add_signed(by.saturating_mul(blocks))
        .min(length.saturating_sub(1))
}

/// To the left or right: a NIC, a receiver, or the node before or after.
fn aside(view: &mut View, by: isize, run: &Run) {
    match view.pane {
        Pane::Pairs => {
            let across = panes::pairs::Shape::of(view).per.1;
            let place = moved(view.place_of_receiver(), by, across, view.axis.len());
            view.to = view.axis.get(place).copied().unwrap_or(view.to);
        }
        Pane::Node => {
            let place = moved(view.place(), by, 1, view.axis.len());
            view.select(place, run);
            view.node_top = 0;
        }
        _ => view.rail = view.rail.saturating_add_signed(by),
    }
}

pub(super) fn go(view: &mut View, pane: Pane) {
    (view.pane, view.open, view.overlay) = (pane, false, None);
}

fn turn(view: &mut View, by: usize) {
    let at = Pane::ALL.iter().position(|pane| *pane == view.pane);
    let next = (at.unwrap_or(0) + by) % Pane::ALL.len();
    go(view, Pane::ALL[next]);
}

/// From a NIC to what is found of it, from a finding to all that is known of it.
pub(super) fn open(view: &mut View, run: &Run) {
    if view.overlay.take().is_some() {
        return;
    }
    match view.pane {
        Pane::Grid | Pane::Cpu => {
            let row = view.row_number();
            findings_of(view, row, true, run);
        }
        Pane::Node => {
            let row = view.row_number();
            findings_of(view, row, false, run);
        }
        Pane::Pairs => {
            let pair = panes::pairs::worst(view, run).first().copied();
            let (from, to) = pair.unwrap_or((view.row_number().unwrap_or(view.to), view.to));
            findings_of(view, Some(from), true, run);
            if view.shown.is_empty() {
                findings_of(view, Some(to), true, run);
            }
        }
        Pane::Findings => view.open = !view.shown.is_empty(),
        Pane::Run => {}
    }
    view.open_top = 0;
}

/// Shows what is found of the node of a row, or of the NIC of it that the cursor is on.
fn findings_of(view: &mut View, row: Option<usize>, of_nic: bool, run: &Run) {
    let Some(row) = row.and_then(|row| run.grid().rows().get(row)) else {
        return;
    };
    let nic = row.cells.get(view.rail).and_then(|cell| cell.nic.as_ref());
    let device = nic.filter(|_| of_nic).map(|nic| nic.device.to_string());
    view.only = Some(Only {
        node: row.name.clone(),
        device,
        from: match view.pane {
            Pane::Findings => Pane::Grid,
            pane => pane,
        },
    });
    view.filter.clear();
    view.findings = super::view::List::default();
    view.pane = Pane::Findings;
    view.settle(run);
    view.open = !view.shown.is_empty();
}

fn back(view: &mut View) {
    if view.overlay.take().is_some() {
        return;
    }
    match view.pane {
        Pane::Findings if view.open && view.only.is_none() => view.open = false,
        Pane::Findings if view.only.is_some() => {
            let only = view.only.take();
            go(view, only.map_or(Pane::Grid, |only| only.from));
        }
        _ if !view.filter.is_empty() => view.filter.clear(),
        Pane::Grid => {}
        _ => go(view, Pane::Grid),
    }
}

fn sort(view: &mut View, run: &Run) {
    let has_leaves = run.grid().rows().iter().any(|row| row.leaf.is_some());
    view.sort = match view.sort {
        Sort::Worst => Sort::Name,
        Sort::Name if has_leaves => Sort::Leaf,
        _ => Sort::Worst,
    };
    view.message = Some(
        match view.sort {
            Sort::Worst => "the worst first",
            Sort::Name => "by name",
            Sort::Leaf => "by leaf group, the worst first",
        }
        .to_owned(),
    );
}

fn traffic(view: &mut View, run: &Run) {
    view.traffic = run.is_watch() || !view.traffic;
    let word = match (view.traffic, run.live().is_empty()) {
        (true, true) => "what NICs carry now is not known: no counters are read",
        (true, false) => "what NICs carry now, sent and received",
        (false, _) => "what was measured at best",
    };
    view.message = Some(word.to_owned());
}

/// Whether there is nothing to be asked of it, because it probes nothing; says so.
fn only_watches(view: &mut View, run: &Run) -> bool {
    if run.is_watch() {
        view.message = Some("a watch probes nothing".to_owned());
    }
    run.is_watch()
}

fn pause(view: &mut View, run: &Run) -> Vec<Effect> {
    if only_watches(view, run) {
        return Vec::new();
    }
    if run.is_over() {
        view.message = Some("the run is over".to_owned());
        return Vec::new();
    }
    view.paused = !view.paused;
    let (command, word) = match view.paused {
        true => (Command::Pause, "pauses when its round is over"),
        false => (Command::GoOn, "goes on"),
    };
    view.message = Some(format!("the run {word}"));
    vec![Effect::Send(command)]
}

fn pace(view: &mut View, does: Do) -> Vec<Effect> {
    let Some(pace) = &mut view.pace else {
        return Vec::new();
    };
    let times = if does == Do::Faster { 2.0 } else { 0.5 };
    *pace = (*pace * times).clamp(0.125, 4096.0);
    vec![Effect::Send(Command::Pace(*pace))]
}

/// The pairs that a NIC was measured in last, each once more.
fn probe(view: &mut View, run: &Run) -> Vec<Effect> {
    if only_watches(view, run) {
        return Vec::new();
    }
    let pairs = match view.pane {
        Pane::Pairs => panes::pairs::to_probe(view, run, PROBE_AGAIN),
        _ => {
            let cell = view.row(run).and_then(|row| row.cells.get(view.rail));
            let nic = cell.and_then(|cell| cell.nic.clone());
            nic.as_ref().map_or(Vec::new(), |nic| pairs_of(nic, run))
        }
    };
    let word = match (view.pace, run.is_over(), pairs.len()) {
        (Some(_), ..) => "a recorded run probes nothing".to_owned(),
        (_, true, _) => "the run is over: nothing can be probed".to_owned(),
        (_, _, 0) => "nothing was probed of it yet".to_owned(),
        (_, _, n) => format!("{n} pairs are probed once more after this round"),
    };
    view.message = Some(word);
    if run.is_over() || view.pace.is_some() || pairs.is_empty() {
        return Vec::new();
    }
    vec![Effect::Send(Command::Probe(pairs))]
}

fn pairs_of(nic: &NicId, run: &Run) -> Vec<Pair> {
    let probes = run.ledger().probes();
    let mine =
        probes.filter(|probe| [&probe.planned.pair.from, &probe.planned.pair.to].contains(&nic));
    let mut pairs: Vec<Pair> = Vec::new();
    for probe in mine {
        let pair = &probe.planned.pair;
        pairs.retain(|known| known != pair);
        pairs.push(pair.clone());
    }
    pairs.split_off(pairs.len().saturating_sub(PROBE_AGAIN))
}

fn exclude(view: &mut View, run: &Run) {
    if only_watches(view, run) {
        return;
    }
    let node = view.row(run).map(|row| row.name.clone());
    view.overlay = match (view.pace, run.is_over()) {
        (None, false) => node.map(Overlay::Exclude),
        _ => None,
    };
    if view.overlay.is_none() {
        view.message = Some("nothing is probed any more".to_owned());
    }
}

fn copy(view: &mut View, run: &Run) -> Vec<Effect> {
    let Some(finding) = view.finding(run) else {
        return Vec::new();
    };
    view.message = Some("copied, where the terminal allows it (OSC 52)".to_owned());
    vec![Effect::Copy(panes::findings::as_text(finding))]
}
