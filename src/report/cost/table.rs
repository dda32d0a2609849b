//! The table of ways of moving data: a row for each.

use std::io::{self, Write};

use crate::judge::{EndCost, PairCost, StepCost};
use crate::model::{CostStep, Gbps, visible};

/// Marks what software RDMA takes, which means nothing.
const SOFTWARE: &str = "s";

/// A way of moving data, as numbers to show; both ends of it, the initiator's part first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    step: CostStep,
    rate: Gbps,
    ends: [End; 2],
    /// GB/s that copies take of memory bandwidth, both ends together.
    copied: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct End {
    /// What there is to know of its numbers, in a character or two.
    mark: String,
    /// Whether less was spent than they say, and a core carries more: the rest is hidden in ticks.
    is_hidden: bool,
    ns_per_kib: Option<f64>,
    per_core: Option<f64>,
    per_100: Option<f64>,
    fills: Option<f64>,
}

impl Row {
    /// Of a pair; `None` where that way was not measured.
    pub(super) fn of(pair: &PairCost<'_>, step: CostStep) -> Option<Self> {
        let cost = pair.step(step)?;
        let line = pair.line.value().copied();
        let is_software = pair.is_software && !cost.is_tcp();
        let end = |at: usize| match &cost.ends[at] {
            Some(end) => End::of(end, cost, line, at == 0, is_software),
            None => End::default(),
        };
        Some(Self {
            step,
            rate: cost.rate,
            ends: [end(0), end(1)],
            copied: cost.copied_gb_per_s().iter().sum(),
        })
    }

    /// Each number the median of those of other rows; `None` where there is none.
    pub(super) fn median(rows: &[Self]) -> Option<Self> {
        let first = rows.first()?;
        let of = |number: &dyn Fn(&Self) -> Option<f64>| median(rows.iter().filter_map(number));
        let end = |at: usize| {
            let mark = rows.iter().map(|row| &row.ends[at].mark).max();
            let hidden = rows.iter().filter(|row| row.ends[at].is_hidden).count();
            End {
                mark: mark.cloned().unwrap_or_default(),
                is_hidden: 2 * hidden >= rows.len(),
                ns_per_kib: of(&|row| row.ends[at].ns_per_kib),
                per_core: of(&|row| row.ends[at].per_core),
                per_100: of(&|row| row.ends[at].per_100),
                fills: of(&|row| row.ends[at].fills),
            }
        };
        Some(Self {
            step: first.step,
            rate: Gbps(of(&|row| Some(row.rate.0))?),
            ends: [end(0), end(1)],
            copied: of(&|row| Some(row.copied))?,
        })
    }

    /// Whether a number of it needs a word of explanation.
    pub(super) fn is_marked(&self) -> bool {
        let needs_a_word =
            |end: &End| !end.mark.is_empty() || end.is_hidden || end.ns_per_kib.is_none();
        self.ends.iter().any(needs_a_word)
    }
}

impl End {
    fn of(
        end: &EndCost,
        cost: &StepCost<'_>,
        line: Option<Gbps>,
        is_initiator: bool,
        is_software: bool,
    ) -> Self {
        if end.is_unknown() {
            return Self::default();
        }
        let polls = cost.polls && is_initiator;
        let is_hidden = end.is_hidden();
        let mark = match (polls, end.is_whole()) {
            _ if is_software => SOFTWARE,
            (true, _) => "≤",
            (false, false) => "≥",
            (false, true) if end.is_busy() => "!",
            (false, true) if end.is_noisy() && !is_hidden => "~",
            _ => "",
        };
        let most = end.at_most();
        let end = if is_hidden { &most } else { end };
        Self {
            mark: mark.to_owned(),
            is_hidden,
            ns_per_kib: Some(end.ns_per_kib()),
            per_core: end.per_core().map(|rate| rate.0),
            per_100: end.cores_for(Gbps(100.0)),
            fills: line.and_then(|line| end.cores_for(line)),
        }
    }
}

impl End {
    /// A number of it, with the side of it that the true one is on.
    fn number(&self, side: &str, number: Option<f64>) -> String {
        match (number.map(self::number), self.is_hidden) {
            (None, _) => "–".to_owned(),
            (Some(text), true) if !text.starts_with(side) => format!("{side}{text}"),
            (Some(text), _) => text,
        }
    }
}

fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

/// The heading, with the rate that is filled in its last columns.
pub(super) fn header(line: Option<Gbps>, out: &mut dyn Write) -> io::Result<()> {
    let fills = match line {
        Some(line) => format!("cores/{:.0} Gb/s", line.0.min(99_999.0)),
        None => "cores/NIC".to_owned(),
    };
    writeln!(
        out,
        "  {:12}  {:>6}  {:^15}  {:^15}  {:^14}  {fills:^14}  {:>6}",
        "", "", "CPU ns/KiB", "Gb/s per core", "cores/100 Gb/s", "copies"
    )?;
    writeln!(
        out,
        "  {:12}  {:>6}  {:>7} {:>7}  {:>7} {:>7}  {:>6} {:>7}  {:>6} {:>7}  {:>6}",
        "way", "Gb/s", "from", "to", "from", "to", "from", "to", "from", "to", "GB/s"
    )
}

/// A row.
pub(super) fn line(row: &Row, out: &mut dyn Write) -> io::Result<()> {
    let marked = |end: &End| match end.ns_per_kib {
        Some(_) => format!("{}{}", end.mark, end.number("<", end.ns_per_kib)),
        None => "?".to_owned(),
    };
    let [from, to] = &row.ends;
    writeln!(
        out,
        "  {:12}  {:>6}  {:>7} {:>7}  {:>7} {:>7}  {:>6} {:>7}  {:>6} {:>7}  {:>6}",
        row.step,
        number(row.rate.0),
        marked(from),
        marked(to),
        from.number(">", from.per_core),
        to.number(">", to.per_core),
        from.number("<", from.per_100),
        to.number("<", to.per_100),
        from.number("<", from.fills),
        to.number("<", to.fills),
        number(row.copied)
    )
}

/// NICs that have a row of their own; of more the worst.
const ROWS: usize = 32;

/// What one core of each NIC's node sends, and what filling the NIC takes, of pairs whose first is the
/// worst.
pub(super) fn each(pairs: &[&PairCost<'_>], out: &mut dyn Write) -> io::Result<()> {
    let compared = |pair: &&&PairCost<'_>| {
        let is_there = |step| pair.step(step).is_some();
        is_there(CostStep::Tcp) || is_there(CostStep::Write)
    };
    let all: Vec<&PairCost<'_>> = pairs.iter().filter(compared).copied().collect();
    if all.is_empty() {
        return Ok(());
    }
    let which = match all.len() > ROWS {
        true => format!("The worst {ROWS} of {} NICs where they send:", all.len()),
        false => "Each NIC where it sends, the worst first:".to_owned(),
    };
    writeln!(out, "\n{which}")?;
    writeln!(
        out,
        "  {:32}  {:>4}  {:^15}  {:>12}",
        "", "", "Gb/s per core", "cores/NIC"
    )?;
    writeln!(
        out,
        "  {:32}  {:>4}  {:>7} {:>7}  {:>7} {:>7}",
        "NIC", "rail", "tcp", "write", "tcp", "write"
    )?;
    for pair in all.into_iter().take(ROWS) {
        let [tcp, write] = [CostStep::Tcp, CostStep::Write].map(|step| sends(pair, step));
        let nic = visible(&pair.pair.from.to_string());
        let rail = pair.pair.rail.0;
        writeln!(
            out,
            "  {nic:32}  {rail:>4}  {:>7} {:>7}  {:>7} {:>7}",
            tcp[0], write[0], tcp[1], write[1]
        )?;
    }
    Ok(())
}

/// What one core sends by a way, and the cores that fill the NIC.
fn sends(pair: &PairCost<'_>, step: CostStep) -> [String; 2] {
    match Row::of(pair, step) {
        Some(row) if row.ends[0].mark != SOFTWARE => {
            let from = &row.ends[0];
            [
                from.number(">", from.per_core),
                from.number("<", from.fills),
            ]
        }
        _ => ["–", "–"].map(str::to_owned),
    }
}

/// Three digits, and no more than six characters.
pub(super) fn number(number: f64) -> String {
    match number.abs() {
        n if n >= 1e6 => ">1e6".to_owned(),
        n if n >= 99.95 => format!("{number:.0}"),
        n if n >= 9.995 => format!("{number:.1}"),
        0.0 => "0".to_owned(),
        n if n < 0.005 => "<0.01".to_owned(),
        _ => format!("{number:.2}"),
    }
}
