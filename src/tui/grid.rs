//! The grid as it stands: a row for each node, a cell for each rail, brought up to date by what each
//! event changes, so that drawing only looks up.

use std::collections::HashMap;

use super::cost::{Compared, Cost, weighed};
use super::marks::Mark;
use super::states::{gpudirect, narrowest};
use crate::judge::{Judgement, expected};
use crate::ledger::{Ledger, Probe};
use crate::model::{
    Direction, Event, Finding, Gbps, NicId, NodeFacts, NodeName, Outcome, PlannedPair, PortLayout,
    ProbeId, Purpose, Rail, RailNic, Rule, SampleLayout, Severity, Subject,
};

/// More rails than any rule makes.
const MAX_RAILS: usize = 256;

/// The best that one direction of a NIC reached.
#[derive(Debug, Clone, Copy)]
pub struct Best {
    /// Over all partners.
    pub rate: Gbps,
    /// What its pair should reach, where that is known.
    pub expected: Option<Gbps>,
}

impl Best {
    /// The share of what is expected or, where that is unknown, of the best of its rail.
    pub(super) fn share(&self, rail_best: Option<Gbps>) -> Option<f64> {
        self.rate.share_of(self.expected.or(rail_best)?)
    }
}

/// A NIC in its place.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// The NIC, where there is one.
    pub nic: Option<NicId>,
    /// What it sent at best.
    pub tx: Option<Best>,
    /// What it received at best.
    pub rx: Option<Best>,
    /// Probes of it that run now.
    pub busy: u32,
    /// Whether its last probe went wrong.
    pub failed: bool,
    /// What sending took, by its last probe under the conditions of the run.
    pub cost: Option<Cost>,
    /// What TCP and RDMA took of processors, where that was measured.
    pub compared: Compared,
    /// What is known of it.
    pub mark: Option<Mark>,
}

impl Cell {
    /// The direction that is the worse, which is what the cell shows.
    pub fn worse(&self) -> Option<Best> {
        // Without an expectation the rates themselves are compared.
        let key = |best: &Best| best.share(Some(Gbps(1.0))).unwrap_or(f64::INFINITY);
        let both = self.tx.into_iter().chain(self.rx);
        both.min_by(|a, b| key(a).total_cmp(&key(b)))
    }

    /// What is known of it.
    pub fn mark(&self) -> Mark {
        self.mark.unwrap_or(Mark::NotRun)
    }
}

/// A node.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name.
    pub name: NodeName,
    /// Its leaf group.
    pub leaf: Option<String>,
    /// A cell for each rail.
    pub cells: Vec<Cell>,
    /// How its NICs reach the memory of its GPUs, in a word.
    pub gpudirect: &'static str,
    /// The worst PCIe link above its NICs, such as `5.0x8/16`.
    pub pcie: String,
    /// The processor time of a core that its last transfer took, as a share.
    pub cpu: Option<f64>,
    /// Probes that it, or a pair of it, failed in.
    pub failures: u32,
    /// Whether it is lost.
    pub lost: bool,
    /// What is known of the node apart from its NICs.
    own: Option<Mark>,
    /// The worst that is known.
    pub mark: Mark,
    /// The lowest share that a NIC of it reached; infinite before one did.
    pub lowest: f64,
}

impl Row {
    fn new(name: &NodeName, leaf: Option<String>) -> Self {
        Self {
            name: name.clone(),
            leaf,
            cells: Vec::new(),
            gpudirect: "",
            pcie: String::new(),
            cpu: None,
            failures: 0,
            lost: false,
            own: None,
            mark: Mark::NotRun,
            lowest: f64::INFINITY,
        }
    }
}

/// All rows, in the order of the run's settings.
#[derive(Debug, Clone, Default)]
pub struct Grid {
    rows: Vec<Row>,
    places: HashMap<NodeName, usize>,
    rails: Vec<Rail>,
    now: HashMap<ProbeId, [(usize, usize); 2]>,
    named: HashMap<(usize, usize), Mark>,
    /// The best of each rail: what NICs are held against that nobody states a line rate of.
    best: Vec<Option<Gbps>>,
    version: u64,
    members: u64,
}

impl Grid {
    /// The rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rails, in order: those of the cells.
    pub fn rails(&self) -> &[Rail] {
        &self.rails
    }

    /// One node's row.
    pub fn row(&self, node: &NodeName) -> Option<&Row> {
        self.rows.get(*self.places.get(node)?)
    }

    /// The place of a node's row.
    pub fn number(&self, node: &NodeName) -> Option<usize> {
        self.places.get(node).copied()
    }

    /// The best rate of a rail, by the rail's place.
    pub fn best_of(&self, rail: usize) -> Option<Gbps> {
        self.best.get(rail).copied().flatten()
    }

    /// Grows with every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Grows when rows come or others take their places.
    pub fn members(&self) -> u64 {
        self.members
    }

    /// Takes in what an event changed; the ledger has it already.
    pub fn learn(&mut self, event: &Event, ledger: &Ledger) {
        match event {
            Event::RunStarted { .. } => self.start(ledger),
            Event::NodeSurveyed { node, facts } => self.survey(node, facts),
            Event::NodeLost { node, .. } => self.lost(node, true),
            Event::NodeConnected { node, .. } => self.lost(node, false),
            Event::NodeStage { node, .. } if ledger.settings().is_none() => {
                if self.places.contains_key(node) {
                    return;
                }
                self.add(node);
            }
            Event::NodeWatched { node, layout } if ledger.settings().is_none() => {
                self.watch(node, layout);
            }
            Event::RailsResolved { nics } => self.resolve(nics),
            Event::RoundPlanned { pairs, .. } => self.plan(pairs),
            Event::ProbeEnded { probe, outcome } => self.ended(*probe, outcome, ledger),
            Event::RunFinished { .. } | Event::RunResumed { .. } => self.plan(&[]),
            _ => return,
        }
        self.version += 1;
    }

    fn start(&mut self, ledger: &Ledger) {
        let Some(settings) = ledger.settings() else {
            return;
        };
        let groups = &settings.sweep.groups;
        let mut leaves: HashMap<&NodeName, &str> = HashMap::new();
        for group in groups {
            for node in &group.nodes {
                leaves.entry(node).or_insert(&group.name);
            }
        }
        let row = |node| Row::new(node, leaves.get(node).map(|leaf| (*leaf).to_owned()));
        self.rows = settings.nodes.iter().map(row).collect();
        self.members += 1;
        let places = self.rows.iter().enumerate();
        self.places = places.map(|(n, row)| (row.name.clone(), n)).collect();
    }

    /// A node of a watch, which names none beforehand.
    fn add(&mut self, node: &NodeName) -> usize {
        let place = self.rows.len();
        let place = *self.places.entry(node.clone()).or_insert(place);
        if place == self.rows.len() {
            let mut row = Row::new(node, None);
            row.cells.resize_with(self.rails.len(), Cell::default);
            self.rows.push(row);
            self.members += 1;
        }
        place
    }

    /// Where nothing is probed, a node's ports stand in the order of their names.
    fn watch(&mut self, node: &NodeName, layout: &SampleLayout) {
        let ports = layout.ports.value().map_or(&[][..], Vec::as_slice);
        let mut nics: Vec<NicId> = ports
            .iter()
            .take(MAX_RAILS)
            .map(|port| nic_of(node, port))
            .collect();
        nics.sort_by(|a, b| {
            natural(&a.device)
                .cmp(&natural(&b.device))
                .then(a.port.cmp(&b.port))
        });
        let place = self.add(node);
        let count = self.rails.len().max(nics.len());
        self.rails = (0..).take(count).map(Rail).collect();
        self.best = vec![None; count];
        for row in &mut self.rows {
            row.cells.resize_with(count, Cell::default);
        }
        let cells = nics.into_iter().map(|nic| Cell {
            nic: Some(nic),
            ..Cell::default()
        });
        let row = &mut self.rows[place];
        row.cells = cells.collect();
        row.cells.resize_with(count, Cell::default);
    }

    fn row_mut(&mut self, node: &NodeName) -> Option<&mut Row> {
        self.rows.get_mut(*self.places.get(node)?)
    }

    fn survey(&mut self, node: &NodeName, facts: &NodeFacts) {
        let (gpudirect, pcie) = (gpudirect(facts), narrowest(facts));
        if let Some(row) = self.row_mut(node) {
            (row.gpudirect, row.pcie) = (gpudirect, pcie);
        }
    }

    fn lost(&mut self, node: &NodeName, lost: bool) {
        if let Some(&place) = self.places.get(node) {
            self.rows[place].lost = lost;
            self.settle(place, None);
        }
    }

    fn resolve(&mut self, nics: &[RailNic]) {
        let mut rails: Vec<Rail> = nics.iter().map(|entry| entry.rail).collect();
        rails.extend(&self.rails);
        rails.sort_unstable();
        rails.dedup();
        rails.truncate(MAX_RAILS);
        let count = rails.len();
        self.rails = rails;
        self.best = vec![None; count];
        for row in &mut self.rows {
            row.cells.resize_with(count, Cell::default);
        }
        for entry in nics {
            if let Some((row, rail)) = self.place(&entry.node, entry.rail) {
                let cell = &mut self.rows[row].cells[rail];
                if cell.nic.as_ref() != entry.nic.value() {
                    *cell = Cell::default();
                }
                cell.nic = entry.nic.value().cloned();
            }
        }
    }

    fn place(&self, node: &NodeName, rail: Rail) -> Option<(usize, usize)> {
        let row = *self.places.get(node)?;
        let rail = self.rails.binary_search(&rail).ok()?;
        (rail < self.rows[row].cells.len()).then_some((row, rail))
    }

    fn plan(&mut self, pairs: &[PlannedPair]) {
        for ends in std::mem::take(&mut self.now).into_values() {
            for (row, rail) in ends {
                self.rows[row].cells[rail].busy = 0;
            }
        }
        for planned in pairs {
            let ends = [&planned.pair.from, &planned.pair.to];
            let ends = ends.map(|nic| self.place(&nic.node, planned.pair.rail));
            let [Some(from), Some(to)] = ends else {
                continue;
            };
            for (row, rail) in [from, to] {
                self.rows[row].cells[rail].busy += 1;
            }
            self.now.insert(planned.probe, [from, to]);
        }
    }

    fn ended(&mut self, id: ProbeId, outcome: &Outcome, ledger: &Ledger) {
        let (Some(ends), Some(probe)) = (self.now.remove(&id), ledger.probe(id)) else {
            return;
        };
        let best = probe.rate().map(|rate| Best {
            rate,
            expected: expected(ledger, probe).value().copied(),
        });
        let cost = cost(probe, outcome, ledger).filter(|_| counts(probe));
        let weighed = weighed(probe, ledger);
        for (n, (row, rail)) in ends.into_iter().enumerate() {
            let direction = [Direction::Tx, Direction::Rx][n];
            let row_number = row;
            let row = &mut self.rows[row];
            let cell = &mut row.cells[rail];
            cell.busy = cell.busy.saturating_sub(1);
            cell.failed = matches!(outcome, Outcome::Failed { .. });
            row.failures += u32::from(cell.failed);
            if let Some(best) = best.filter(|_| counts(probe)) {
                cell.reached(direction, best);
                let of_rail = &mut self.best[rail];
                *of_rail = Some(of_rail.map_or(best.rate, |known| Gbps(known.0.max(best.rate.0))));
            }
            if let Some((step, ends)) = weighed {
                cell.compared.take(step, n, ends[n]);
            }
            if let (Direction::Tx, Some(cost)) = (direction, cost) {
                cell.cost = Some(cost);
                row.cpu = Some(cost.thread());
            }
            self.settle(
                row_number,
                ledger.settings().map(|s| s.expect.degraded_below),
            );
        }
    }

    /// Takes in what the findings say of whom.
    pub fn judged(&mut self, judgement: &Judgement, ledger: &Ledger) {
        let half_below = ledger.settings().map_or(0.65, |s| s.expect.half_below);
        let low = ledger.settings().map(|s| s.expect.degraded_below);
        self.named.clear();
        self.rows.iter_mut().for_each(|row| row.own = None);
        for finding in &judgement.findings {
            self.name(finding, half_below);
        }
        for row in 0..self.rows.len() {
            self.settle(row, low);
        }
        self.version += 1;
    }

    fn name(&mut self, finding: &Finding, half_below: f64) {
        let Some(mark) = mark_of(finding, half_below) else {
            return;
        };
        let ends: Vec<(&NodeName, Option<Rail>)> = match &finding.subject {
            Subject::Node(node) | Subject::Device(node, _) => vec![(node, None)],
            Subject::NodeRail(node, rail) => vec![(node, Some(*rail))],
            Subject::Nic(nic, rail, _) => vec![(&nic.node, Some(*rail))],
            Subject::Pair(pair) if finding.rule != Rule::SlowPath => {
                let ends = [&pair.from, &pair.to];
                ends.map(|nic| (&nic.node, Some(pair.rail))).to_vec()
            }
            _ => Vec::new(),
        };
        for (node, rail) in ends {
            match rail.and_then(|rail| self.place(node, rail)) {
                Some(place) => {
                    let known = self.named.entry(place).or_insert(mark);
                    *known = mark.min(*known);
                }
                None => {
                    if let Some(row) = self.row_mut(node) {
                        row.own = Some(row.own.map_or(mark, |own| own.min(mark)));
                    }
                }
            }
        }
    }

    /// Works out anew what is known of a node and its NICs.
    fn settle(&mut self, number: usize, low: Option<f64>) {
        let low = low.unwrap_or(0.85);
        let row = &mut self.rows[number];
        row.lowest = f64::INFINITY;
        for (rail, cell) in row.cells.iter_mut().enumerate() {
            let named = self.named.get(&(number, rail)).copied();
            let share = cell.worse().and_then(|best| best.share(self.best[rail]));
            row.lowest = row.lowest.min(share.unwrap_or(f64::INFINITY));
            cell.mark = Some(match cell.worse() {
                None if row.lost => Mark::Dead,
                _ => cell.judge(named, share.is_some_and(|share| share < low)),
            });
        }
        let cells = row.cells.iter().map(Cell::mark);
        let own = row.own.into_iter().chain(row.lost.then_some(Mark::Dead));
        row.mark = cells.chain(own).min().unwrap_or(Mark::NotRun);
    }
}

impl Cell {
    fn reached(&mut self, direction: Direction, best: Best) {
        let known = match direction {
            Direction::Tx => &mut self.tx,
            Direction::Rx => &mut self.rx,
        };
        if known.is_none_or(|known| best.rate >= known.rate) {
            *known = Some(best);
        }
    }

    /// A finding counts before what the rates alone look like.
    fn judge(&self, named: Option<Mark>, low: bool) -> Mark {
        let measured = match self.worse() {
            None if self.failed => Mark::NotJudged,
            None => Mark::NotRun,
            Some(_) if low => Mark::Doubt,
            Some(_) => Mark::Good,
        };
        named.map_or(measured, |named| named.min(measured))
    }
}

fn nic_of(node: &NodeName, port: &PortLayout) -> NicId {
    NicId {
        node: node.clone(),
        device: port.device.as_str().into(),
        port: port.port,
    }
}

/// A name in the order of its number: `mlx5_2` before `mlx5_10`.
fn natural(device: &str) -> (&str, usize, &str) {
    let digits = device.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (stem, number) = device.split_at(digits);
    (stem, number.len(), number)
}

/// Probes that take a fault apart, or tell what moving data costs, measure something else.
fn counts(probe: &Probe) -> bool {
    let purpose = probe.planned.purpose;
    !purpose.isolates() && purpose != Purpose::Cost
}

fn mark_of(finding: &Finding, half_below: f64) -> Option<Mark> {
    Some(match (finding.severity, finding.rule) {
        (_, Rule::NodeLost | Rule::PortDown) => Mark::Dead,
        (Severity::Fault, Rule::SlowPair) => Mark::Doubt,
        (Severity::Fault, _) if finding.ratio.is_some_and(|ratio| ratio < half_below) => Mark::Half,
        (Severity::Fault, _) => Mark::Degraded,
        (Severity::NotJudged, _) => Mark::NotJudged,
        (Severity::Warning, _) => Mark::Warned,
        (Severity::Note, _) => return None,
    })
}

/// What sending took. The event has the windows of the transfer, which the ledger does not keep.
fn cost(probe: &Probe, outcome: &Outcome, ledger: &Ledger) -> Option<Cost> {
    let Outcome::Measured { measurement, .. } = outcome else {
        return None;
    };
    let usual = ledger.settings().map(|settings| &settings.probe);
    Cost::of(measurement, probe.planned.spec.as_ref().or(usual)?)
}
