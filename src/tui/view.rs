//! What is looked at, and how: the pane, the cursor, the order, the filter. Nothing of the run itself.

use super::blocks::{Blocks, Map};
use super::clean::columns;
use super::grid::Row;
use super::marks::Mark;
use super::panes;
use super::run::Run;
use super::theme::Theme;
use crate::model::{Finding, NodeName, Rule, Subject};

/// A pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pane {
    /// Nodes and NICs.
    Grid,
    /// Senders and receivers of a rail.
    Pairs,
    /// One node.
    Node,
    /// What driving NICs takes.
    Cpu,
    /// Findings.
    Findings,
    /// Progress, coverage and log.
    Run,
}

impl Pane {
    /// All, in the order of their keys.
    pub const ALL: [Self; 6] = [
        Self::Grid,
        Self::Pairs,
        Self::Node,
        Self::Cpu,
        Self::Findings,
        Self::Run,
    ];
}

/// The order of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// The worst first.
    Worst,
    /// By name.
    Name,
    /// By leaf group, then the worst first.
    Leaf,
}

/// What is over the pane.
#[derive(Debug, Clone, PartialEq)]
pub enum Overlay {
    /// The keys.
    Help,
    /// What a rule means.
    Explain(Rule),
    /// Whether to leave a run that goes on.
    Quit,
    /// Whether to probe a node no more.
    Exclude(NodeName),
}

/// A line that is typed.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// The filter.
    Filter(String),
    /// A command.
    Command(String),
}

/// A line of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridLine {
    /// The heading of the leaf group of this row.
    Leaf(usize),
    /// A row.
    Node(usize),
}

/// A list with a cursor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct List {
    /// The line that the cursor is on.
    pub at: usize,
    /// The first line that is shown.
    pub top: usize,
}

impl List {
    /// Moves by lines, within the list.
    pub fn step(&mut self, by: isize, length: usize) {
        self.at = self
            .at
            .saturating_add_signed(by)
            .min(length.saturating_sub(1));
    }

    /// Keeps the cursor in the list, and on the screen of so many lines.
    pub fn keep(&mut self, length: usize, lines: usize) {
        self.at = self.at.min(length.saturating_sub(1));
        let lowest = (self.at + 1).saturating_sub(lines.max(1));
        self.top = self.top.clamp(lowest, self.at.max(lowest));
        self.top = self.top.min(length.saturating_sub(lines.max(1)));
    }
}

/// Whose findings are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Only {
    /// Of this node.
    pub node: NodeName,
    /// Of this NIC of it, and of the node as a whole.
    pub device: Option<String>,
    /// The pane from which they were asked for.
    pub from: Pane,
}

impl Only {
    /// Whether a finding is of that.
    pub(super) fn has(&self, finding: &Finding) -> bool {
        let of_nic = |nic: &crate::model::NicId| {
            nic.node == self.node
                && self
                    .device
                    .as_ref()
                    .is_none_or(|device| *device == nic.device)
        };
        match &finding.subject {
            Subject::Node(node) | Subject::NodeRail(node, _) => *node == self.node,
            Subject::Device(node, device) => {
                *node == self.node && self.device.as_ref().is_none_or(|wanted| wanted == device)
            }
            Subject::Nic(nic, ..) => of_nic(nic),
            Subject::Pair(pair) => of_nic(&pair.from) || of_nic(&pair.to),
            Subject::Rail(_) | Subject::LeafGroup(..) => false,
        }
    }
}

/// How the run is looked at.
#[derive(Debug, Clone)]
pub struct View {
    /// Columns and lines of the terminal.
    pub size: (u16, u16),
    /// Its looks.
    pub theme: Theme,
    /// The pane in front.
    pub pane: Pane,
    /// What is over it.
    pub overlay: Option<Overlay>,
    /// The first line shown of the overlay.
    pub overlay_top: usize,
    /// What is typed.
    pub prompt: Option<Prompt>,
    /// The last word to the operator.
    pub message: Option<String>,
    /// Whether no round is to begin.
    pub paused: bool,
    /// Whether it is a recorded run, and how many times faster it is played.
    pub pace: Option<f64>,
    /// The order of the grid.
    pub sort: Sort,
    /// Only rows and findings that have this.
    pub filter: String,
    /// Whether the grid shows what NICs carry now, in place of what was measured.
    pub traffic: bool,
    /// One character for each NIC; unset where the width decides.
    pub folded: Option<bool>,
    /// The lines of the grid, in order.
    pub lines: Vec<GridLine>,
    /// The rows of those lines, in the same order: both axes of the pairs.
    pub axis: Vec<usize>,
    /// The row of the receiver that the cursor of the pairs is on.
    pub to: usize,
    /// The pairs of the rail in blocks.
    pub blocks: Blocks,
    /// The first line shown of the node.
    pub node_top: usize,
    /// The cursor of CPU cost, in NICs.
    pub cpu: List,
    /// Columns of the longest name among them.
    pub name_width: usize,
    /// The cursor of the grid.
    pub grid: List,
    /// The node that the cursor is on: it stays there when the order changes.
    pub node: Option<NodeName>,
    /// The rail that the cursor is on, by its place.
    pub rail: usize,
    /// The findings that are shown, by their place.
    pub shown: Vec<usize>,
    /// The cursor of the findings.
    pub findings: List,
    /// Whose they are; all where unset.
    pub only: Option<Only>,
    /// Whether one is open.
    pub open: bool,
    /// The first line shown of it.
    pub open_top: usize,
    /// How many lines the log is scrolled back.
    pub back: usize,
    /// What is shown of the run above everything.
    pub title: String,
    /// The time, in milliseconds since 1970-01-01 UTC.
    pub now_ms: u64,
    seen: Option<(u64, Sort, String)>,
    /// Which rows were chosen from, and the filter that they were chosen by.
    among: Option<(u64, String)>,
    listed: Option<(u64, Option<Only>, String)>,
}

impl View {
    /// A view of a run on a terminal.
    pub fn new(title: String, theme: Theme, size: (u16, u16)) -> Self {
        Self {
            size,
            theme,
            pane: Pane::Grid,
            overlay: None,
            overlay_top: 0,
            prompt: None,
            message: None,
            paused: false,
            pace: None,
            sort: Sort::Worst,
            filter: String::new(),
            traffic: false,
            folded: None,
            lines: Vec::new(),
            axis: Vec::new(),
            to: usize::MAX,
            blocks: Blocks::default(),
            node_top: 0,
            cpu: List::default(),
            name_width: 0,
            grid: List::default(),
            node: None,
            rail: 0,
            shown: Vec::new(),
            findings: List::default(),
            only: None,
            open: false,
            open_top: 0,
            back: 0,
            title,
            now_ms: 0,
            seen: None,
            among: None,
            listed: None,
        }
    }

    /// Brings order, cursors and scrolling in line with the run and the terminal.
    pub fn settle(&mut self, run: &Run) {
        let key = (run.grid().version(), self.sort, self.filter.clone());
        let moved = self.seen.as_ref() != Some(&key);
        if moved {
            self.arrange(run);
            self.seen = Some(key);
        }
        self.settle_grid(run, moved);
        match self.pane {
            Pane::Pairs => self.settle_pairs(run),
            Pane::Node => {
                let most = panes::node::line_count(self, run).saturating_sub(1);
                self.node_top = self.node_top.min(most);
            }
            Pane::Cpu => {
                let rails = run.grid().rails().len();
                self.cpu.at = self.place() * rails + self.rail;
                let lines = panes::cpu::list_lines(self.size);
                self.cpu.keep(self.axis.len() * rails, lines);
            }
            _ => {}
        }
        let key = (run.judgements(), self.only.clone(), self.filter.clone());
        if self.listed.as_ref() != Some(&key) {
            let has = |finding: &Finding| {
                self.only.as_ref().is_none_or(|only| only.has(finding)) && self.matches(finding)
            };
            let findings = run.findings().iter().enumerate();
            self.shown = findings.filter(|(_, f)| has(f)).map(|(n, _)| n).collect();
            self.listed = Some(key);
        }
        self.open &= !self.shown.is_empty();
        let lines = panes::findings::list_lines(self.size);
        self.findings.keep(self.shown.len(), lines);
        self.back = self
            .back
            .min(run.journal().entries().len().saturating_sub(1));
    }

    fn settle_grid(&mut self, run: &Run, moved: bool) {
        self.rail = self.rail.min(run.grid().rails().len().saturating_sub(1));
        let rows = run.grid().rows();
        // The cursor stays on its node; on the first line it stays on the worst.
        if moved
            && self.grid.at > 0
            && let Some(node) = &self.node
            && let Some(at) = self
                .lines
                .iter()
                .position(|line| matches!(line, GridLine::Node(row) if rows[*row].name == *node))
        {
            self.grid.at = at;
        }
        let lines = panes::grid::list_lines(self, run);
        self.grid.keep(self.lines.len(), lines);
        if matches!(self.lines.get(self.grid.at), Some(GridLine::Leaf(_))) {
            self.grid.step(1, self.lines.len());
            self.grid.keep(self.lines.len(), lines);
        }
        self.remember(run);
    }

    /// Notes the node that the cursor is on now.
    pub(super) fn remember(&mut self, run: &Run) {
        self.node = self.row(run).map(|row| row.name.clone());
    }

    /// The row that the cursor of the grid is on.
    pub fn row<'a>(&self, run: &'a Run) -> Option<&'a Row> {
        match self.lines.get(self.grid.at)? {
            GridLine::Leaf(row) | GridLine::Node(row) => run.grid().rows().get(*row),
        }
    }

    /// The place of the row that the cursor of the grid is on, among all rows.
    pub fn row_number(&self) -> Option<usize> {
        match self.lines.get(self.grid.at)? {
            GridLine::Leaf(row) | GridLine::Node(row) => Some(*row),
        }
    }

    /// Where on the axis that row is.
    pub(super) fn place(&self) -> usize {
        let row = self.row_number();
        let place = self.axis.iter().position(|known| Some(*known) == row);
        place.unwrap_or(0)
    }

    /// Where on the axis the receiver is.
    pub(super) fn place_of_receiver(&self) -> usize {
        let place = self.axis.iter().position(|row| *row == self.to);
        place.unwrap_or(0)
    }

    /// Puts the cursor on the row at this place of the axis, or the last one.
    pub(super) fn select(&mut self, place: usize, run: &Run) {
        let Some(row) = self.axis.get(place).or(self.axis.last()) else {
            return;
        };
        let is_there = |line: &GridLine| *line == GridLine::Node(*row);
        self.grid.at = self.lines.iter().position(is_there).unwrap_or(0);
        self.remember(run);
    }

    fn settle_pairs(&mut self, run: &Run) {
        if !self.axis.contains(&self.to) {
            let other = self.axis.get(1).or(self.axis.first());
            self.to = other.copied().unwrap_or(usize::MAX);
        }
        let per = panes::pairs::Shape::of(self).per;
        let Some(rail) = run.grid().rails().get(self.rail).copied() else {
            self.blocks = Blocks::default();
            return;
        };
        let rail_best = run.grid().best_of(self.rail);
        if self.blocks.is_of(rail, &self.axis, per, rail_best) {
            self.blocks.catch_up(run.pairs());
            return;
        }
        let map = Map {
            rail,
            axis: self.axis.clone(),
            per,
            rail_best,
        };
        self.blocks.turn_to(map, run.pairs());
    }

    /// The finding that the cursor is on.
    pub fn finding<'a>(&self, run: &'a Run) -> Option<&'a Finding> {
        run.findings().get(*self.shown.get(self.findings.at)?)
    }

    fn matches(&self, finding: &Finding) -> bool {
        self.filter.is_empty()
            || finding.rule.name().contains(&self.filter)
            || finding.subject.to_string().contains(&self.filter)
    }

    /// The rows that the filter lets through.
    fn wanted(&self, run: &Run) -> Vec<usize> {
        let rows = run.grid().rows();
        let wanted = |row: &Row| {
            let leaf = row.leaf.as_ref();
            let in_leaf = leaf.is_some_and(|leaf| leaf.contains(&self.filter));
            row.name.0.contains(&self.filter) || in_leaf
        };
        (0..rows.len()).filter(|n| wanted(&rows[*n])).collect()
    }

    fn arrange(&mut self, run: &Run) {
        let rows = run.grid().rows();
        // Few rows change places from one frame to the next, and what is nearly in order is soon in order.
        let same = self.among.as_ref();
        let same = same.is_some_and(|(members, filter)| {
            *members == run.grid().members() && *filter == self.filter
        });
        if !same {
            self.axis = self.wanted(run);
            let names = self.axis.iter().map(|row| columns(&rows[*row].name.0));
            self.name_width = names.max().unwrap_or(0);
            self.among = Some((run.grid().members(), self.filter.clone()));
        }
        let mut order = std::mem::take(&mut self.axis);
        // Among those that are well, noise must not move rows about.
        let rate = |row: &Row| {
            if row.mark < Mark::Warned {
                row.lowest
            } else {
                f64::INFINITY
            }
        };
        let worst = |a: &Row, b: &Row| {
            let by_rate = rate(a).total_cmp(&rate(b));
            a.mark
                .cmp(&b.mark)
                .then(by_rate)
                .then_with(|| a.name.cmp(&b.name))
        };
        order.sort_by(|a, b| {
            let (a, b) = (&rows[*a], &rows[*b]);
            match self.sort {
                Sort::Worst => worst(a, b),
                Sort::Name => a.name.cmp(&b.name),
                Sort::Leaf => a.leaf.cmp(&b.leaf).then_with(|| worst(a, b)),
            }
        });
        self.lines.clear();
        let mut leaf = None;
        for &row in &order {
            if self.sort == Sort::Leaf && leaf != Some(&rows[row].leaf) {
                leaf = Some(&rows[row].leaf);
                self.lines.push(GridLine::Leaf(row));
            }
            self.lines.push(GridLine::Node(row));
        }
        self.axis = order;
    }
}
