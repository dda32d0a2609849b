//! The run itself: how far it is, what was not measured and why, who failed, and what happened.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::ledger::{Covered, Gap, NodeState};
use crate::model::{NodeName, RunEnd};
use crate::tui::clean::{clock, pad, wrap};
use crate::tui::draw::{put, put_all};
use crate::tui::journal::{Entry, purpose_in_words};
use crate::tui::run::{Phase, Run};
use crate::tui::theme::Role;
use crate::tui::view::View;

/// From so many columns on, the log is beside the rest.
const SIDE_BY_SIDE: u16 = 120;

/// Nodes that failed most, and reasons, so many of each.
const MOST: usize = 6;

/// Draws it.
pub(in crate::tui) fn draw(view: &View, run: &Run, area: Rect, buffer: &mut Buffer) {
    let (left, right) = match area.width >= SIDE_BY_SIDE {
        true => {
            let width = area.width * 9 / 20;
            let right = Rect {
                x: area.x + width + 2,
                width: area.width - width - 2,
                ..area
            };
            (Rect { width, ..area }, right)
        }
        false => {
            let facts = u16::try_from(facts(view, run, usize::from(area.width)).len());
            let height = facts.unwrap_or(u16::MAX).min(area.height * 2 / 3);
            let below = Rect {
                y: area.y + height,
                height: area.height - height,
                ..area
            };
            (Rect { height, ..area }, below)
        }
    };
    put_all(buffer, left, &facts(view, run, usize::from(left.width)), 0);
    log(view, run, right, buffer);
}

fn facts(view: &View, run: &Run, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut say = |name: &str, text: String| {
        let name = Span::styled(format!(" {}", pad(name, 10)), view.theme.style(Role::Title));
        let mut name = Some(name);
        for line in wrap(&text, width.saturating_sub(12)) {
            let first = name.take().unwrap_or_else(|| Span::raw(" ".repeat(11)));
            lines.push(Line::from(vec![first, Span::raw(format!(" {line}"))]));
        }
    };
    say("phase", phase(view, run));
    say("time", time(view, run));
    say("nodes", nodes(run));
    for (number, line) in coverage(run).into_iter().enumerate() {
        say(if number == 0 { "measured" } else { "" }, line);
    }
    let failures = failures(run);
    if !failures.is_empty() {
        say("failures", failures);
    }
    if let Some(judgement) = run.judgement() {
        let unknown = judgement.cannot_tell.len();
        if unknown > 0 {
            say(
                "unknown",
                format!("{unknown} checks lacked their facts (e writes them all)"),
            );
        }
    }
    lines.push(Line::default());
    lines
}

fn phase(view: &View, run: &Run) -> String {
    let paused = if view.paused { "paused; " } else { "" };
    match (run.phase(), run.ledger().end()) {
        (_, Some(RunEnd::Complete)) => "complete".to_owned(),
        (_, Some(RunEnd::Interrupted)) => "interrupted".to_owned(),
        (_, Some(RunEnd::TimeUp)) => "ended: the time budget is spent".to_owned(),
        (Phase::Watching, None) => "what NICs carry is watched; nothing is probed".to_owned(),
        (Phase::Over, None) if run.is_watch() => "ended".to_owned(),
        (Phase::Over, None) => "cut off: the run has no end".to_owned(),
        (Phase::Reaching, None) => format!("{paused}reaching and surveying nodes"),
        (Phase::Round(purpose), None) => {
            let round = run.round().unwrap_or_default();
            format!(
                "{paused}round {}: {} of {} probes ended, {}",
                round.number.saturating_add(1),
                round.ended,
                round.planned,
                purpose_in_words(purpose)
            )
        }
    }
}

fn time(view: &View, run: &Run) -> String {
    let elapsed = clock(run.elapsed_ms(view.pace.is_none().then_some(view.now_ms)));
    match run.left_ms() {
        Some(left) => format!(
            "{elapsed}, about {} to go and whatever is in doubt then",
            clock(left)
        ),
        None => elapsed,
    }
}

fn nodes(run: &Run) -> String {
    let [mut waiting, mut there, mut lost] = [0_usize; 3];
    for (_, node) in run.ledger().nodes() {
        match node.state {
            NodeState::Waiting | NodeState::Connecting(_) => waiting += 1,
            NodeState::Connected { .. } => there += 1,
            NodeState::Lost { .. } => lost += 1,
        }
    }
    let mut words = vec![format!("{there} there")];
    if waiting > 0 {
        words.push(format!("{waiting} on their way"));
    }
    if lost > 0 {
        words.push(format!("{lost} lost"));
    }
    words.join(", ")
}

fn coverage(run: &Run) -> Vec<String> {
    let Some(coverage) = run.judgement().map(|judgement| &judgement.coverage) else {
        return vec!["nothing yet".to_owned()];
    };
    let what = match coverage.of {
        Covered::Pairs => "pairs",
        Covered::Ends => "NIC directions",
    };
    let mut lines = vec![format!(
        "{} of {} {what}",
        coverage.measured,
        coverage.total()
    )];
    let is_to_come = |gap: &&Gap| !run.is_over() && gap.to_come;
    let to_come: usize = coverage
        .gaps
        .iter()
        .filter(is_to_come)
        .map(|gap| gap.count)
        .sum();
    if to_come > 0 {
        lines.push(format!("{to_come} to come"));
    }
    let mut gaps: Vec<_> = coverage
        .gaps
        .iter()
        .filter(|gap| !is_to_come(gap))
        .collect();
    gaps.sort_by_key(|gap| std::cmp::Reverse(gap.count));
    for gap in gaps.iter().take(MOST) {
        let how = if gap.tried { "failed" } else { "not run" };
        lines.push(format!("{} {how}: {}", gap.count, gap.why));
    }
    if let Some(more @ 1..) = gaps.len().checked_sub(MOST) {
        lines.push(format!("and for {more} more reasons"));
    }
    lines
}

fn failures(run: &Run) -> String {
    let rows = run.grid().rows().iter().filter(|row| row.failures > 0);
    let mut failed: Vec<(u32, &NodeName)> = rows.map(|row| (row.failures, &row.name)).collect();
    failed.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let words = failed.iter().take(MOST);
    let mut words: Vec<String> = words
        .map(|(count, node)| format!("{node} {count}"))
        .collect();
    if let Some(more @ 1..) = failed.len().checked_sub(MOST) {
        words.push(format!("{more} more nodes"));
    }
    words.join(", ")
}

fn log(view: &View, run: &Run, area: Rect, buffer: &mut Buffer) {
    let title = Line::styled(" Log", view.theme.style(Role::Title));
    put(buffer, area, 0, &title);
    let entries = run.journal().entries();
    let lines = usize::from(area.height.saturating_sub(1));
    let end = entries.len().saturating_sub(view.back);
    let shown = entries.range(end.saturating_sub(lines)..end);
    let begun = entries.front().map_or(0, |entry| entry.at_ms);
    for (line, entry) in (1..).zip(shown) {
        put(
            buffer,
            area,
            line,
            &logged(view, entry, begun, usize::from(area.width)),
        );
    }
}

fn logged(view: &View, entry: &Entry, begun: u64, width: usize) -> Line<'static> {
    let at = clock(entry.at_ms.saturating_sub(begun));
    let style = match entry.bad {
        true => view.theme.style(Role::Doubt),
        false => Style::new(),
    };
    let text = crate::tui::clean::fit(&entry.says, width.saturating_sub(10));
    Line::from(vec![
        Span::styled(format!("{at:>8}  "), view.theme.style(Role::Dim)),
        Span::styled(text, style),
    ])
}
