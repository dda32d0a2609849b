//! Senders down, receivers across: what the pairs of a rail reached, and the history of one of them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::ledger::Probe;
use crate::model::{MemoryKind, Pair, Rail};
use crate::tui::blocks::Block;
use crate::tui::clean::{pad, short, wrap};
use crate::tui::draw::{body_lines, put, put_all};
use crate::tui::grid::Row;
use crate::tui::journal::purpose_in_words;
use crate::tui::pairs::{Known, outcome_in_words};
use crate::tui::run::Run;
use crate::tui::theme::{Role, Theme};
use crate::tui::view::{Sort, View};

/// Lines above the first sender: what is shown, and what is below which receiver.
const HEAD: u16 = 2;

/// Columns of a sender's name at the most.
const MAX_NAME: usize = 16;

/// Columns of the history: at least, and at most a share of the width.
const MIN_HISTORY: usize = 36;

/// From so many columns on there is a history beside the map.
const WITH_HISTORY: usize = 72;

/// So many pairs of a block are listed.
const MOST: usize = 64;

/// How the nodes are spread over the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tui) struct Shape {
    /// Nodes of a block, down and across.
    pub per: (usize, usize),
    /// Blocks, down and across.
    pub count: (usize, usize),
    /// Columns of a block: 4 have a percentage, 2 and 1 tenths.
    cell: usize,
    /// Columns of the names.
    name: usize,
}

impl Shape {
    /// That of a view.
    pub(in crate::tui) fn of(view: &View) -> Self {
        let nodes = view.axis.len().max(1);
        let width = usize::from(view.size.0);
        let name = view.name_width.clamp(4, MAX_NAME) + 3;
        let history = match width >= WITH_HISTORY {
            true => (width * 2 / 5).max(MIN_HISTORY),
            false => 0,
        };
        let across = width.saturating_sub(history + name).max(1);
        let down = body_lines(view.size)
            .saturating_sub(usize::from(HEAD))
            .max(1);
        let fits = |cell: &usize| nodes * cell <= across;
        let cell = [4, 2].into_iter().find(fits).unwrap_or(1);
        let per = (nodes.div_ceil(down), nodes.div_ceil(across / cell));
        let count = (nodes.div_ceil(per.0), nodes.div_ceil(per.1));
        Self {
            per,
            count,
            cell,
            name,
        }
    }

    /// Columns of names and map.
    fn width(&self) -> usize {
        self.name + self.count.1 * self.cell
    }
}

/// The block below a point of the pane, by the places of its first sender and receiver.
pub(in crate::tui) fn block_at(view: &View, column: u16, line: usize) -> Option<(usize, usize)> {
    let shape = Shape::of(view);
    let down = line.checked_sub(usize::from(HEAD))?;
    let across = usize::from(column).checked_sub(shape.name)? / shape.cell;
    let is_there = down < shape.count.0 && across < shape.count.1;
    is_there.then_some((down * shape.per.0, across * shape.per.1))
}

/// Draws map and history.
pub(in crate::tui) fn draw(view: &View, run: &Run, area: Rect, buffer: &mut Buffer) {
    let shape = Shape::of(view);
    let Some(rail) = run.grid().rails().get(view.rail).copied() else {
        let dim = view.theme.style(Role::Dim);
        put(buffer, area, 0, &Line::styled(" no rail is known yet", dim));
        return;
    };
    put(buffer, area, 0, &title(view, run, rail, &shape));
    ruler(view, run, &shape, area, buffer);
    let cursor = (
        view.place() / shape.per.0,
        view.place_of_receiver() / shape.per.1,
    );
    let rows = view.blocks.all().chunks(shape.count.1).enumerate();
    for (line, (number, blocks)) in (HEAD..area.height).zip(rows) {
        let text = senders(view, run, &shape, number, blocks, cursor);
        put(buffer, area, line, &text);
    }
    let left = u16::try_from(shape.width() + 2).unwrap_or(u16::MAX);
    if usize::from(area.width) >= WITH_HISTORY && left < area.width {
        let right = Rect {
            x: area.x + left,
            y: area.y + 1,
            width: area.width - left,
            height: area.height.saturating_sub(1),
        };
        let lines = history(view, run, rail, &shape, usize::from(right.width));
        put_all(buffer, right, &lines, 0);
    }
}

fn title(view: &View, run: &Run, rail: Rail, shape: &Shape) -> Line<'static> {
    let rails = run.grid().rails().len();
    let settings = run.ledger().settings();
    let memory = settings.map_or("", |settings| memory(settings.probe.memory));
    let scale = match shape.cell {
        4 => "percent",
        _ => "tenths",
    };
    let mut text = format!(
        " {rail}, {} of {rails} ([ ]), {memory}: {scale} of expected",
        view.rail + 1
    );
    if shape.per != (1, 1) {
        let (down, across) = shape.per;
        text.push_str(&format!(", worst of {down} x {across}"));
    }
    Line::styled(text, view.theme.style(Role::Title))
}

fn memory(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Host => "host memory",
        MemoryKind::HostHuge => "huge pages",
        MemoryKind::Gpu => "GPU memory",
        MemoryKind::GpuStaged => "GPU memory, staged",
    }
}

/// The leaf groups above their receivers, where nodes are in that order, and the cursor's column.
fn ruler(view: &View, run: &Run, shape: &Shape, area: Rect, buffer: &mut Buffer) {
    let dim = view.theme.style(Role::Dim);
    let head = pad("from\\to", shape.name);
    let mut spans = vec![Span::styled(head, dim)];
    if view.sort == Sort::Leaf {
        let rows = run.grid().rows();
        let mut groups: Vec<(Option<&str>, usize)> = Vec::new();
        for place in (0..view.axis.len()).step_by(shape.per.1) {
            let row = rows.get(view.axis[place]);
            let leaf = row.and_then(|row| row.leaf.as_deref());
            match groups.last_mut() {
                Some((known, width)) if *known == leaf => *width += shape.cell,
                _ => groups.push((leaf, shape.cell)),
            }
        }
        let bar = if view.theme.unicode { "▏" } else { "|" };
        for (leaf, width) in groups {
            let name = pad(leaf.unwrap_or("no group"), width.saturating_sub(1));
            spans.push(Span::styled(format!("{bar}{name}"), dim));
        }
    }
    put(buffer, area, 1, &Line::from(spans));
    let column = shape.name + view.place_of_receiver() / shape.per.1 * shape.cell;
    // A percentage is to the right in its columns.
    let column = u16::try_from(column + shape.cell.min(3) - 1).unwrap_or(u16::MAX);
    if column < area.width {
        let at = Rect {
            x: area.x + column,
            width: 1,
            ..area
        };
        let sign = if view.theme.unicode { "▼" } else { "v" };
        put(
            buffer,
            at,
            1,
            &Line::styled(sign, view.theme.style(Role::Busy)),
        );
    }
}

/// A line of the map.
fn senders(
    view: &View,
    run: &Run,
    shape: &Shape,
    number: usize,
    blocks: &[Block],
    cursor: (usize, usize),
) -> Line<'static> {
    let rows = run.grid().rows();
    let first = view.axis.get(number * shape.per.0);
    let row = first.and_then(|row| rows.get(*row));
    let name = row.map_or("", |row| row.name.0.as_str());
    let (sign, role) = row.map_or((" ", Role::Dim), |row| {
        (row.mark.sign(&view.theme), row.mark.role())
    });
    let under = number == cursor.0;
    let style = match under {
        true => view.theme.selected(),
        false => Style::new(),
    };
    let mut spans = vec![
        Span::styled(sign, view.theme.style(role)),
        Span::raw(" "),
        Span::styled(pad(name, shape.name - 3), style),
        Span::raw(" "),
    ];
    for (across, block) in blocks.iter().enumerate() {
        let itself = shape.per == (1, 1) && number == across;
        let (text, style) = face(block, itself, shape.cell, &view.theme);
        let style = match under && across == cursor.1 {
            true => style.patch(view.theme.selected()),
            false => style,
        };
        spans.push(Span::styled(text, style));
        // A percentage has a column of air.
        if shape.cell == 4 {
            spans.push(Span::raw(" "));
        }
    }
    Line::from(spans)
}

/// A block as a mark with its shade.
fn face(block: &Block, itself: bool, cell: usize, theme: &Theme) -> (String, Style) {
    let width = cell.min(3);
    let sign = |unicode: &str, ascii: &str| {
        let sign = if theme.unicode { unicode } else { ascii };
        format!("{sign:>width$}")
    };
    match block.share {
        _ if block.failed > 0 => (sign("✕", "X"), theme.style(Role::Dead)),
        Some(share) => {
            let tenths = tenths(share);
            let text = match cell {
                4 => format!("{:>3.0}", (share * 100.0).clamp(0.0, 999.0)),
                _ => format!("{tenths:>width$}"),
            };
            (text, theme.shade(tenths))
        }
        None if block.busy > 0 => (sign("▸", ">"), theme.style(Role::Busy)),
        None if itself => (sign("╲", "\\"), theme.style(Role::Dim)),
        None => (sign("·", "."), theme.style(Role::Dim)),
    }
}

/// All that is near line rate is a 9.
fn tenths(share: f64) -> usize {
    (share.clamp(0.0, 0.999) * 10.0) as usize
}

/// The rows of the pairs under the cursor.
fn under_cursor(view: &View) -> Vec<(usize, usize)> {
    let shape = Shape::of(view);
    let part = |place: usize, per: usize| {
        let first = place / per * per;
        let end = (first + per).min(view.axis.len());
        view.axis.get(first..end).unwrap_or_default()
    };
    let senders = part(view.place(), shape.per.0);
    let receivers = part(view.place_of_receiver(), shape.per.1);
    let pairs = senders
        .iter()
        .flat_map(|from| receivers.iter().map(|to| (*from, *to)));
    pairs.filter(|(from, to)| from != to).collect()
}

/// Those of them that were planned, the worst first.
pub(in crate::tui) fn worst(view: &View, run: &Run) -> Vec<(usize, usize)> {
    worst_of(under_cursor(view).into_iter(), view, run)
}

/// The row of the receiver that the selected node sends to worst.
pub(in crate::tui) fn worst_receiver(view: &View, run: &Run) -> Option<usize> {
    let from = view.row_number()?;
    let pairs = view.axis.iter().map(|to| (from, *to));
    worst_of(pairs, view, run).first().map(|(_, to)| *to)
}

fn worst_of(
    pairs: impl Iterator<Item = (usize, usize)>,
    view: &View,
    run: &Run,
) -> Vec<(usize, usize)> {
    let Some(rail) = run.grid().rails().get(view.rail).copied() else {
        return Vec::new();
    };
    let rail_best = run.grid().best_of(view.rail);
    let rank = |known: &Known| match known.best {
        None if known.failed => -1.0,
        None => f64::INFINITY,
        Some(best) => best.share(rail_best).unwrap_or(f64::INFINITY),
    };
    let known = |(from, to)| Some((rank(run.pairs().get(rail, from, to)?), (from, to)));
    let mut pairs: Vec<_> = pairs.filter_map(known).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

/// The pairs under the cursor that can be probed once more, the worst first.
pub(in crate::tui) fn to_probe(view: &View, run: &Run, most: usize) -> Vec<Pair> {
    let Some(rail) = run.grid().rails().get(view.rail).copied() else {
        return Vec::new();
    };
    let pair = |(from, to)| {
        let known = run.pairs().get(rail, from, to)?;
        let probe = run.ledger().probe(known.last?)?;
        Some(probe.planned.pair.clone())
    };
    let worst = worst(view, run).into_iter();
    worst.filter_map(pair).take(most).collect()
}

/// Of one pair its probes, of a block its pairs.
fn history(view: &View, run: &Run, rail: Rail, shape: &Shape, width: usize) -> Vec<Line<'static>> {
    let rows = run.grid().rows();
    match (under_cursor(view).as_slice(), shape.per) {
        ([], _) => {
            let dim = view.theme.style(Role::Dim);
            vec![Line::styled(" a node with itself: not measured", dim)]
        }
        ([(from, to)], (1, 1)) => match (rows.get(*from), rows.get(*to)) {
            (Some(from_row), Some(to_row)) => {
                let known = run.pairs().get(rail, *from, *to);
                of_pair(view, run, [from_row, to_row], known, width)
            }
            _ => Vec::new(),
        },
        (pairs, _) => of_block(view, run, rail, pairs.len(), width),
    }
}

fn of_pair(
    view: &View,
    run: &Run,
    rows: [&Row; 2],
    known: Option<&Known>,
    width: usize,
) -> Vec<Line<'static>> {
    let theme = &view.theme;
    let arrow = if theme.unicode { "→" } else { "->" };
    let name = |row: &Row| match row.cells.get(view.rail).and_then(|cell| cell.nic.as_ref()) {
        Some(nic) => format!("{} {}", row.name, nic.device),
        None => row.name.to_string(),
    };
    let text = format!("{} {arrow} {}", name(rows[0]), name(rows[1]));
    let mut lines: Vec<Line<'static>> = wrap(&text, width)
        .into_iter()
        .map(|line| Line::styled(line, theme.style(Role::Title)))
        .collect();
    let dim = theme.style(Role::Dim);
    let Some(known) = known else {
        lines.push(Line::styled("not planned so far", dim));
        return lines;
    };
    lines.push(Line::styled(" round   Gb/s share  why", dim));
    let rail_best = run.grid().best_of(view.rail);
    let probes = run.pairs().probes(known);
    for probe in probes.filter_map(|id| run.ledger().probe(id)) {
        lines.extend(of_probe(theme, run, probe, rail_best, width));
    }
    lines
}

/// A probe: its round, what it reached, and why it was made or what went wrong.
pub(in crate::tui) fn of_probe(
    theme: &Theme,
    run: &Run,
    probe: &Probe,
    rail_best: Option<crate::model::Gbps>,
    width: usize,
) -> Vec<Line<'static>> {
    let round = probe.round.saturating_add(1);
    let why = purpose_in_words(probe.planned.purpose);
    let Some(rate) = probe.rate() else {
        let (says, role) = match outcome_in_words(probe) {
            Some(says) => (format!("{why}; {says}"), Role::Doubt),
            None if probe.outcome.is_none() && !run.is_over() => {
                (format!("{why}; runs"), Role::Busy)
            }
            None => (format!("{why}; no rate"), Role::Dim),
        };
        let lines = wrap(&says, width.saturating_sub(21)).into_iter().take(3);
        return lines
            .enumerate()
            .map(|(n, line)| match n {
                0 => Line::styled(
                    format!("{round:>6}      -     -  {line}"),
                    theme.style(role),
                ),
                _ => Line::styled(format!("{:21}{line}", ""), theme.style(role)),
            })
            .collect();
    };
    let expected = crate::judge::expected(run.ledger(), probe).value().copied();
    let share = expected
        .or(rail_best)
        .and_then(|whole| rate.share_of(whole));
    let percent = share.map_or_else(
        || "-".to_owned(),
        |s| format!("{:.0}%", (s * 100.0).min(999.0)),
    );
    let style = share.map_or(Style::new(), |share| theme.shade(tenths(share)));
    vec![Line::from(vec![
        Span::raw(format!("{round:>6}  {:>5} ", short(rate))),
        Span::styled(format!("{percent:>5}"), style),
        Span::raw(format!(
            "  {}",
            pad(why, width.saturating_sub(21)).trim_end()
        )),
    ])]
}

fn of_block(view: &View, run: &Run, rail: Rail, all: usize, width: usize) -> Vec<Line<'static>> {
    let theme = &view.theme;
    let (rows, dim) = (run.grid().rows(), theme.style(Role::Dim));
    let worst = worst(view, run);
    let known = |(from, to): &(usize, usize)| run.pairs().get(rail, *from, *to);
    let measured = worst.iter().filter_map(known).filter(|k| k.best.is_some());
    let says = format!(
        "a block of {all} pairs, {} of them measured",
        measured.count()
    );
    let mut lines: Vec<Line<'static>> = wrap(&says, width)
        .into_iter()
        .map(|line| Line::styled(line, theme.style(Role::Title)))
        .collect();
    lines.push(Line::styled("  Gb/s share  the worst first", dim));
    let arrow = if theme.unicode { "→" } else { "->" };
    for pair in worst.iter().take(MOST) {
        let (Some(known), (from, to)) = (known(pair), *pair) else {
            continue;
        };
        let share = known
            .best
            .and_then(|best| best.share(run.grid().best_of(view.rail)));
        let percent = share.map(|s| format!("{:.0}%", (s * 100.0).min(999.0)));
        let rate = known.best.map(|best| short(best.rate));
        let failed = known.failed && rate.is_none();
        let style = share.map_or(dim, |share| theme.shade(tenths(share)));
        let word = if failed { "fail" } else { "-" };
        let names = format!("{} {arrow} {}", rows[from].name, rows[to].name);
        lines.push(Line::from(vec![
            Span::raw(format!(" {:>5} ", rate.as_deref().unwrap_or(word))),
            Span::styled(format!("{:>5}", percent.as_deref().unwrap_or("-")), style),
            Span::raw(format!(
                "  {}",
                pad(&names, width.saturating_sub(14)).trim_end()
            )),
        ]));
    }
    lines
}
