//! Tables of rates, one for each rail: every pair where few nodes are, worst and best of each node where
//! more are, and of thousands only the nodes that are not as the others.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::text::Style;
use crate::judge::{Observation, observe};
use crate::ledger::{Ledger, PairState};
use crate::model::{Gbps, NodeName, Rail, visible};

/// Columns of a table of rates on a page; more receivers are summed up as the worst.
const MAX_COLUMNS: usize = 8;

/// Rows of a table; of more nodes only those with something low or missing have one, and the worst of
/// those.
const MAX_ROWS: usize = 32;

/// For each rail a table of rates, senders down, receivers across.
pub(super) fn rates(ledger: &Ledger, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let observed = observe(ledger);
    let mut by_rail: BTreeMap<Rail, Vec<&Observation<'_>>> = BTreeMap::new();
    for seen in observed.best_of_pairs() {
        by_rail.entry(seen.pair.rail).or_default().push(seen);
    }
    let mut unmeasured = unmeasured(ledger);
    let low = ledger.settings().map_or(0.0, |s| s.expect.degraded_below);
    for (rail, seen) in by_rail {
        writeln!(out)?;
        let expected = expected(&seen);
        let unmeasured = unmeasured.remove(&rail).unwrap_or_default();
        let nodes = nodes(&seen, &unmeasured);
        let many = nodes.len();
        // A gap and the name for each, and for the rows.
        let columns = (many + 1) * (2 + cell(&nodes));
        if many <= MAX_COLUMNS && columns <= style.width {
            writeln!(out, "{rail} ({expected}), row sends, column receives:")?;
            table(&seen, &nodes, &unmeasured, out)?;
            continue;
        }
        writeln!(out, "{rail} ({expected}):")?;
        if many <= MAX_ROWS {
            of_each(&rows(&seen, &nodes, low), out)?;
        } else {
            of_the_odd(&seen, &rows(&seen, &nodes, low), out)?;
        }
    }
    Ok(())
}

fn expected(seen: &[&Observation<'_>]) -> String {
    let mut rates: Vec<Gbps> = Vec::new();
    for rate in seen.iter().filter_map(|s| s.expected.value()) {
        if !rates.contains(rate) {
            rates.push(*rate);
        }
    }
    let expected: BTreeSet<String> = rates.iter().map(ToString::to_string).collect();
    match (expected.first(), expected.len()) {
        (None, _) => "expected rate unknown".to_owned(),
        (Some(one), 1) => format!("expected {one}"),
        _ => "expected rates differ".to_owned(),
    }
}

type Unmeasured<'a> = BTreeMap<(&'a NodeName, &'a NodeName), &'static str>;

/// Pairs that were planned and have no rate, by rail.
fn unmeasured(ledger: &Ledger) -> BTreeMap<Rail, Unmeasured<'_>> {
    let mut marks: BTreeMap<Rail, Unmeasured<'_>> = BTreeMap::new();
    for summary in ledger.pairs() {
        let mark = match summary.state() {
            PairState::Measured { .. } => continue,
            PairState::Failed { .. } => "failed",
            PairState::NotRun { .. } => "not run",
        };
        let pair = summary.pair;
        let of_rail = marks.entry(pair.rail).or_default();
        of_rail.insert((&pair.from.node, &pair.to.node), mark);
    }
    marks
}

fn nodes<'a>(seen: &[&Observation<'a>], unmeasured: &Unmeasured<'a>) -> BTreeSet<&'a NodeName> {
    let measured = seen
        .iter()
        .flat_map(|s| [&s.pair.from.node, &s.pair.to.node]);
    measured
        .chain(unmeasured.keys().flat_map(|(from, to)| [*from, *to]))
        .collect()
}

/// The width of the widest name, and `least`.
fn width<'n>(names: impl Iterator<Item = &'n NodeName>, least: usize) -> usize {
    let widths = names.map(|node| node.0.chars().count());
    widths.max().unwrap_or(0).max(least)
}

/// The width of a cell of a table: a rate, or the widest name.
fn cell(nodes: &BTreeSet<&NodeName>) -> usize {
    width(nodes.iter().copied(), 9)
}

fn table(
    seen: &[&Observation<'_>],
    nodes: &BTreeSet<&NodeName>,
    unmeasured: &Unmeasured<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let cells: BTreeMap<_, _> = seen
        .iter()
        .map(|s| ((&s.pair.from.node, &s.pair.to.node), *s))
        .collect();
    let width = cell(nodes);
    write!(out, "  {:width$}", "")?;
    for to in nodes {
        write!(out, "  {:>width$}", visible(&to.0))?;
    }
    writeln!(out)?;
    for from in nodes {
        write!(out, "  {:width$}", visible(&from.0))?;
        for to in nodes {
            let cell = match cells.get(&(*from, *to)) {
                Some(seen) => seen.rate.to_string(),
                None if from == to => "·".to_owned(),
                None => unmeasured
                    .get(&(*from, *to))
                    .copied()
                    .unwrap_or("not run")
                    .to_owned(),
            };
            write!(out, "  {cell:>width$}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Worst and best of some rates.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Range {
    worst: f64,
    best: f64,
}

impl Range {
    fn of(seen: &Observation<'_>) -> Self {
        let rate = seen.rate.0;
        Self {
            worst: rate,
            best: rate,
        }
    }

    fn with(self, other: Self) -> Self {
        Self {
            worst: self.worst.min(other.worst),
            best: self.best.max(other.best),
        }
    }
}

fn joined(a: Option<Range>, b: Option<Range>) -> Option<Range> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.with(b)),
        (one, other) => one.or(other),
    }
}

/// What a node sends and receives on a rail.
#[derive(Debug, Default)]
struct Row {
    ways: [Option<Range>; 2],
    /// The best share of what it should be, sending and receiving.
    best: [Option<f64>; 2],
    /// Of something low that is the node's own, or its path's, the share.
    low: Option<f64>,
}

impl Row {
    fn add(&mut self, way: usize, seen: &Observation<'_>) {
        self.ways[way] = joined(self.ways[way], Some(Range::of(seen)));
        let share = seen.share();
        self.best[way] = Some(self.best[way].map_or(share, |best| best.max(share)));
    }

    fn is_low(&self, way: usize, below: f64) -> bool {
        self.best[way].is_none_or(|best| best < below)
    }

    /// How far it is from being well; `None` where it is.
    fn rank(&self) -> Option<f64> {
        match self.ways.iter().any(Option::is_none) {
            true => Some(-1.0),
            false => self.low,
        }
    }
}

type Rows<'a> = BTreeMap<&'a NodeName, Row>;

/// A low rate is the row's of the end that is low with everybody; where neither is, of both.
fn rows<'a>(seen: &[&Observation<'a>], nodes: &BTreeSet<&'a NodeName>, below: f64) -> Rows<'a> {
    let mut rows: Rows<'_> = nodes.iter().map(|n| (*n, Row::default())).collect();
    for seen in seen {
        for (way, node) in ends(seen).into_iter().enumerate() {
            rows.entry(node).or_default().add(way, seen);
        }
    }
    for seen in seen.iter().filter(|seen| seen.share() < below) {
        let ends = ends(seen);
        let is_low = [0, 1].map(|way| rows[ends[way]].is_low(way, below));
        for way in [0, 1] {
            if let Some(row) = rows.get_mut(ends[way])
                && (is_low[way] || is_low == [false, false])
            {
                let share = seen.share();
                row.low = Some(row.low.map_or(share, |least| least.min(share)));
            }
        }
    }
    rows
}

fn ends<'a>(seen: &Observation<'a>) -> [&'a NodeName; 2] {
    [&seen.pair.from.node, &seen.pair.to.node]
}

/// Where a table would not fit a page: for each node the best and worst it sends and receives.
fn of_each(rows: &Rows<'_>, out: &mut dyn Write) -> io::Result<()> {
    let all: Vec<_> = rows.iter().map(|(node, row)| (*node, row)).collect();
    lines(&all, None, out)
}

/// Of many nodes only those with something low or missing, and the others together.
fn of_the_odd(seen: &[&Observation<'_>], rows: &Rows<'_>, out: &mut dyn Write) -> io::Result<()> {
    let is_odd = |node: &NodeName| rows.get(node).is_some_and(|row| row.rank().is_some());
    let mut odd: Vec<_> = rows.iter().map(|(node, row)| (*node, row)).collect();
    odd.retain(|(node, _)| is_odd(node));
    let name = match (odd.len(), rows.len()) {
        (0, all) => format!("all {all}"),
        (odd, all) => format!("{} others", all - odd),
    };
    let among = seen
        .iter()
        .filter(|seen| !ends(seen).into_iter().any(is_odd));
    let range = among.map(|seen| Some(Range::of(seen))).fold(None, joined);
    let more = odd.len().saturating_sub(MAX_ROWS);
    let rank = |row: &Row| row.rank().unwrap_or(f64::MAX);
    odd.sort_by(|a, b| rank(a.1).total_cmp(&rank(b.1)));
    odd.truncate(MAX_ROWS);
    odd.sort_by_key(|(node, _)| *node);
    lines(&odd, range.map(|range| (name.as_str(), range)), out)?;
    match more {
        0 => Ok(()),
        more => writeln!(out, "  {more} more have something low or not measured."),
    }
}

/// The rows, and what the others reach among themselves.
fn lines(
    rows: &[(&NodeName, &Row)],
    others: Option<(&str, Range)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let least = others.map_or(0, |(name, _)| name.chars().count()).max(4);
    let width = width(rows.iter().map(|(node, _)| *node), least);
    let mut line = |name: &str, sends: &str, receives: &str| {
        writeln!(out, "  {name:width$}  {sends:>23}  {receives:>23}")
    };
    line("node", "sends, worst to best", "receives, worst to best")?;
    for (node, row) in rows {
        let [sends, receives] = row.ways.map(in_words);
        line(&visible(&node.0), &sends, &receives)?;
    }
    let Some((name, range)) = others else {
        return Ok(());
    };
    let range = in_words(Some(range));
    line(name, &range, &range)
}

fn in_words(range: Option<Range>) -> String {
    match range {
        Some(Range { worst, best }) => format!("{} – {}", Gbps(worst), Gbps(best)),
        None => "not measured".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{events, ledger};

    const FULL: f64 = 391.0;

    fn shown(rate: &dyn Fn(usize, usize, u16) -> Option<f64>) -> String {
        let mut out = Vec::new();
        rates(&ledger(&events(40, 1, rate)), style(100), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn style(width: usize) -> Style {
        let color = false;
        Style { color, width }
    }

    #[test]
    fn a_table_that_the_terminal_is_too_narrow_for_is_summed_up() {
        let ledger = ledger(&events(6, 1, &|_, _, _| Some(FULL)));
        for width in [60, 80, 200] {
            let mut out = Vec::new();
            rates(&ledger, style(width), &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(
                text.lines().all(|line| line.chars().count() <= width),
                "{text}"
            );
            assert_eq!(text.contains("column receives"), width > 77, "{text}");
        }
    }

    #[test]
    fn of_many_nodes_only_the_odd_have_a_row() {
        // A slow sender, a node that receives nothing, and a slow path.
        let rate = |i, j, _| match (i, j) {
            (_, 6) => None,
            (3, _) => Some(0.5 * FULL),
            (10, 20) => Some(0.6 * FULL),
            _ => Some(FULL),
        };
        insta::assert_snapshot!(shown(&rate));
    }

    #[test]
    fn many_nodes_that_are_well_are_one_line() {
        let wobble = |i, j, _| Some(FULL * (1.0 - 0.01 * ((i * 7 + j) % 3) as f64));
        insta::assert_snapshot!(shown(&wobble));
    }

    #[test]
    fn no_more_rows_than_fit_a_page() {
        let said = shown(&|i, _, _| Some(if i < 36 { 0.5 * FULL } else { FULL }));
        assert!(said.contains("4 more have something low"), "{said}");
        assert_eq!(said.lines().count(), 1 + 2 + MAX_ROWS + 2, "{said}");
    }
}
