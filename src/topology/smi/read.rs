//! The text, line by line, into a matrix; every doubt becomes a note with its place.

use super::line::{Cell, Field, Heading, Line, Row, line};
use super::words::{self, EXPECTED, TopoLink, is_name};
use super::{MAX_DEVICES, MAX_NOTES, MAX_TEXT, TopoDevice, TopoError, TopoMatrix, TopoNote};

/// Reads what `nvidia-smi topo -m`, `-mp` or `mthreads-gmi topo -m` printed, whole or in part.
///
/// # Errors
/// With its place, why the text is no such matrix.
pub fn read(text: &str) -> Result<TopoMatrix, TopoError> {
    if text.len() > MAX_TEXT {
        return Err(TopoError::TooLong { bytes: text.len() });
    }
    // nvidia-smi underlines the heading.
    let plain = anstream::adapter::strip_str(text).to_string();
    let mut lines = Lines {
        last: 1,
        ..Lines::default()
    };
    for (index, text) in plain.lines().enumerate() {
        lines.add(index + 1, text)?;
    }
    Reader::new(lines)?.finish()
}

#[derive(Default)]
struct Notes {
    kept: Vec<TopoNote>,
    more: usize,
}

impl Notes {
    fn add(&mut self, line: usize, column: Option<usize>, what: impl Into<String>) {
        match self.kept.len() < MAX_NOTES {
            true => self.kept.push(TopoNote {
                line,
                column,
                what: what.into(),
            }),
            false => self.more += 1,
        }
    }
}

/// What the lines are, before it is known which cell is about whom.
#[derive(Default)]
struct Lines<'a> {
    heading: Option<Heading<'a>>,
    rows: Vec<(usize, Row<'a>)>,
    names: Vec<(usize, &'a str, &'a str)>,
    /// A second matrix begins: nothing below is read.
    ended: bool,
    last: usize,
    notes: Notes,
}

impl<'a> Lines<'a> {
    fn add(&mut self, number: usize, text: &'a str) -> Result<(), TopoError> {
        self.last = number;
        let columns = self.heading.as_ref().map(|heading| heading.devices.len());
        match line(text, columns) {
            _ if self.ended => {}
            Line::Plain => {}
            Line::Heading(heading) if self.heading.is_none() => self.heading(number, heading)?,
            Line::Heading(_) => {
                let what = "a second matrix begins here: only the first is read";
                self.notes.add(number, None, what);
                self.ended = true;
            }
            Line::Row(row) => self.rows.push((number, row)),
            Line::NicName(nic, name) => self.names.push((number, nic, name)),
            Line::Other => {
                let what = format!("no part of the matrix: `{}`", shortened(text.trim()));
                self.notes.add(number, None, what);
            }
        }
        match self.rows.len() > MAX_DEVICES {
            true => Err(TopoError::TooMany { line: number }),
            false => Ok(()),
        }
    }

    fn heading(&mut self, number: usize, heading: Heading<'a>) -> Result<(), TopoError> {
        if heading.devices.len() > MAX_DEVICES {
            return Err(TopoError::TooMany { line: number });
        }
        once(number, &heading.devices)?;
        if let Some(cut) = heading.cut {
            let what = format!("the heading is cut off at `{}`", shortened(cut.text));
            self.notes.add(number, Some(cut.column), what);
        }
        self.heading = Some(heading);
        Ok(())
    }
}

fn shortened(text: &str) -> String {
    const KEPT: usize = 60;
    match text.char_indices().nth(KEPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn once(line: usize, fields: &[Field<'_>]) -> Result<(), TopoError> {
    for (index, field) in fields.iter().enumerate() {
        if fields[..index].iter().any(|other| other.text == field.text) {
            return Err(twice(line, *field));
        }
    }
    Ok(())
}

fn twice(line: usize, field: Field<'_>) -> TopoError {
    TopoError::Twice {
        line,
        column: field.column,
        name: field.text.to_owned(),
    }
}

/// What a cell said, and where.
type Told = Option<(TopoLink, usize, usize)>;

struct Reader<'a> {
    lines: Lines<'a>,
    /// Devices in the order of the columns, then those that have a row only.
    devices: Vec<TopoDevice>,
    columns: usize,
    /// How many affinity columns a GPU's row should have.
    affinities: usize,
    told: Vec<Vec<Told>>,
    /// The first unreadable cell.
    unreadable: Option<TopoError>,
}

impl<'a> Reader<'a> {
    fn new(mut lines: Lines<'a>) -> Result<Self, TopoError> {
        let mut names = match &lines.heading {
            Some(heading) => heading.devices.iter().map(|f| f.text.to_owned()).collect(),
            None => deduced(&mut lines)?,
        };
        let columns = names.len();
        for (at, (number, row)) in lines.rows.iter().enumerate() {
            if lines.rows[..at]
                .iter()
                .any(|(_, other)| other.name.text == row.name.text)
            {
                return Err(twice(*number, row.name));
            }
            if !names.iter().any(|name| name == row.name.text) {
                names.push(row.name.text.to_owned());
            }
        }
        if names.len() > MAX_DEVICES {
            return Err(TopoError::TooMany { line: lines.last });
        }
        let most = lines.rows.iter().map(|(_, row)| row.affinity.len()).max();
        let affinities = lines.heading.as_ref().map(|heading| heading.affinities);
        Ok(Self {
            columns,
            affinities: affinities.or(most).unwrap_or_default(),
            told: vec![vec![None; names.len()]; names.len()],
            devices: names.into_iter().map(device).collect(),
            unreadable: None,
            lines,
        })
    }

    fn finish(mut self) -> Result<TopoMatrix, TopoError> {
        for (number, row) in std::mem::take(&mut self.lines.rows) {
            self.row(number, &row);
        }
        let paths = self.told.iter().flatten().flatten();
        let tells_no_path = paths.filter(|told| told.0 != TopoLink::Own).count() == 0;
        if let Some(error) = self.unreadable.take().filter(|_| tells_no_path) {
            return Err(error);
        }
        self.missing_rows();
        self.name_nics();
        let links = self.links();
        let mut notes = self.lines.notes;
        notes.kept.sort_by_key(|note| (note.line, note.column));
        Ok(TopoMatrix {
            devices: self.devices,
            links,
            notes: notes.kept,
            more_notes: notes.more,
        })
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.devices.iter().position(|device| device.name == name)
    }

    fn row(&mut self, number: usize, row: &Row<'_>) {
        let Some(own) = self.place(row.name.text) else {
            return;
        };
        for (column, cell) in row.cells.iter().take(self.columns).enumerate() {
            self.cell(number, own, column, cell);
        }
        if row.cells.len() < self.columns {
            let next = &self.devices[row.cells.len()].name;
            let what = format!("the row of {} is cut off before {next}", row.name.text);
            self.lines.notes.add(number, None, what);
        }
        if self.devices[own].is_gpu {
            self.affinity(number, own, row);
        }
    }

    fn cell(&mut self, line: usize, own: usize, column: usize, cell: &Cell<'_>) {
        let names = [own, column].map(|at| &self.devices[at].name);
        let what = match (cell.link, cell.field.text) {
            (Some(link), _) if (link == TopoLink::Own) == (own == column) => {
                self.told[own][column] = Some((link, line, cell.field.column));
                return;
            }
            (Some(link), _) => format!("{} and {}: {link} cannot be", names[0], names[1]),
            (None, "") => format!("the cell for {} is empty", names[1]),
            (None, word) => format!("`{}` is no path; {EXPECTED} were expected", shortened(word)),
        };
        if cell.link.is_none() {
            self.unreadable(line, cell.field);
        }
        self.lines.notes.add(line, Some(cell.field.column), what);
    }

    fn unreadable(&mut self, line: usize, field: Field<'_>) {
        if !field.text.is_empty() {
            self.unreadable.get_or_insert(TopoError::NoPath {
                line,
                column: field.column,
                word: shortened(field.text),
            });
        }
    }

    /// The CPUs and the NUMA node: with tabs by their place, else only where none is missing.
    fn affinity(&mut self, number: usize, gpu: usize, row: &Row<'_>) {
        if self.affinities == 0 || (row.affinity.is_empty() && row.cells.len() < self.columns) {
            return;
        }
        if row.affinity.len() < self.affinities {
            let (there, name) = (row.affinity.len(), row.name.text);
            let what = match there {
                0 => format!("the affinity columns of {name} are missing"),
                _ => format!(
                    "{there} of {} affinity columns of {name}: which is unclear",
                    self.affinities
                ),
            };
            return self.lines.notes.add(number, None, what);
        }
        let mut value = |at: usize, what: &str| {
            let field = row.affinity.get(at).filter(|_| at < self.affinities)?;
            let why = match field.text {
                "N/A" => return None,
                "" => "is empty".to_owned(),
                list if words::is_list(list) => return Some(list.to_owned()),
                word => format!(
                    "is `{}`; a list such as 0-31,64-95 was expected",
                    shortened(word)
                ),
            };
            let why = format!("the {what} of {} {why}", row.name.text);
            self.lines.notes.add(number, Some(field.column), why);
            None
        };
        let cpus = value(0, "CPU affinity");
        let numa = value(1, "NUMA affinity");
        self.same_node(number, gpu, cpus.as_ref(), numa.as_ref());
        (self.devices[gpu].cpus, self.devices[gpu].numa) = (cpus, numa);
    }

    /// GPUs of one NUMA node are near the same CPUs: else a list has lost its beginning or its end.
    fn same_node(&mut self, line: usize, gpu: usize, cpus: Option<&String>, numa: Option<&String>) {
        let (Some(cpus), Some(numa)) = (cpus, numa) else {
            return;
        };
        let differs = |other: &&TopoDevice| {
            other.numa.as_ref() == Some(numa) && other.cpus.as_ref().is_some_and(|all| all != cpus)
        };
        if let Some(other) = self.devices.iter().find(differs) {
            let what = format!(
                "{} is near CPUs {cpus}, and {} near {} of the same NUMA node {numa}: one is cut off",
                self.devices[gpu].name,
                other.name,
                other.cpus.as_deref().unwrap_or_default()
            );
            self.lines.notes.add(line, None, what);
        }
    }

    fn missing_rows(&mut self) {
        let names = |missing: &dyn Fn(usize) -> bool| {
            let devices = self.devices.iter().enumerate();
            let names = devices.filter(|(at, _)| missing(*at));
            let names: Vec<_> = names.map(|(_, device)| device.name.as_str()).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        let last = self.lines.last;
        let rows = names(&|at| self.told[at].iter().all(Option::is_none));
        let columns = names(&|at| at >= self.columns);
        for (what, missing) in [("row", rows), ("column", columns)] {
            if let Some(missing) = missing {
                let what = format!("the text ends without a {what} of {missing}");
                self.lines.notes.add(last, None, what);
            }
        }
    }

    fn name_nics(&mut self) {
        for (line, nic, name) in std::mem::take(&mut self.lines.names) {
            let device = self.place(nic).map(|at| &mut self.devices[at]);
            let what = match device {
                _ if !is_name(name) => {
                    format!("`{}` is no name of an RDMA device", shortened(name))
                }
                None => format!("{nic} is {name} here, and has no part in the matrix"),
                Some(TopoDevice {
                    rdma: Some(other), ..
                }) if other != name => {
                    format!("{nic} is {name} here, and was {other} before")
                }
                Some(device) => {
                    device.rdma = Some(name.to_owned());
                    continue;
                }
            };
            self.lines.notes.add(line, None, what);
        }
        let nameless = self
            .devices
            .iter()
            .filter(|d| !d.is_gpu && d.rdma.is_none());
        let nameless: Vec<_> = nameless.map(|device| device.name.as_str()).collect();
        if !nameless.is_empty() {
            let what = format!(
                "the text ends without a NIC legend that names {}",
                nameless.join(", ")
            );
            self.lines.notes.add(self.lines.last, None, what);
        }
    }

    /// Both directions as one.
    fn links(&mut self) -> Vec<Vec<Result<TopoLink, String>>> {
        let all = 0..self.devices.len();
        let row = |a| all.clone().map(|b| self.between(a, b)).collect();
        let links = all.clone().map(row).collect();
        for (a, b) in all
            .clone()
            .flat_map(|a| (a + 1..all.end).map(move |b| (a, b)))
        {
            self.note_contradiction(a, b);
        }
        links
    }

    /// Where the two directions contradict each other, neither is believed.
    fn between(&self, a: usize, b: usize) -> Result<TopoLink, String> {
        if a == b {
            return Ok(TopoLink::Own);
        }
        match (self.told[a.min(b)][a.max(b)], self.told[a.max(b)][a.min(b)]) {
            (Some((one, above, _)), Some((other, line, _))) if one != other => {
                Err(format!("line {above} says {one}, line {line} {other}"))
            }
            (Some((link, ..)), _) | (None, Some((link, ..))) => Ok(link),
            (None, None) => Err("the text does not have it".to_owned()),
        }
    }

    fn note_contradiction(&mut self, a: usize, b: usize) {
        if let (Err(what), Some((_, line, column))) = (self.between(a, b), self.told[b][a]) {
            let names = [a, b].map(|at| self.devices[at].name.as_str());
            let what = format!("{} and {}: {what}", names[0], names[1]);
            self.lines.notes.add(line, Some(column), what);
        }
    }
}

fn device(name: String) -> TopoDevice {
    let is_gpu = words::numbered(&name, "GPU").is_some();
    let is_numbered = is_gpu || words::numbered(&name, "NIC").is_some();
    TopoDevice {
        is_gpu,
        rdma: (!is_numbered).then(|| name.clone()),
        name,
        cpus: None,
        numa: None,
    }
}

/// The columns of rows that have lost their heading: each device's own cell is an X, GPUs come first.
fn deduced(lines: &mut Lines<'_>) -> Result<Vec<String>, TopoError> {
    let Some((first, row)) = lines.rows.first() else {
        return Err(TopoError::NoMatrix { line: lines.last });
    };
    let no_heading = TopoError::NoHeading {
        line: *first,
        name: row.name.text.to_owned(),
    };
    let width = row.cells.len();
    let own = |row: &Row<'_>| {
        let own = |cell: &Cell<'_>| cell.link == Some(TopoLink::Own);
        row.cells.iter().position(own)
    };
    let mut gpus = None;
    for (_, row) in &lines.rows {
        let name = row.name.text;
        let fits = match (
            own(row),
            words::numbered(name, "GPU"),
            words::numbered(name, "NIC"),
        ) {
            (Some(at), Some(gpu), _) => at == gpu && gpus.is_none_or(|gpus| gpu < gpus),
            (Some(at), _, Some(nic)) => match at.checked_sub(nic) {
                Some(before) => *gpus.get_or_insert(before) == before,
                None => false,
            },
            _ => false,
        };
        if !fits || row.cells.len() != width || width > MAX_DEVICES {
            return Err(no_heading);
        }
    }
    let Some(gpus) = gpus else {
        return Err(no_heading);
    };
    let what = "no heading is above: columns are told from the X in each row";
    lines.notes.add(*first, None, what);
    let gpu_names = (0..gpus).map(|gpu| format!("GPU{gpu}"));
    let nic_names = (0..width - gpus).map(|nic| format!("NIC{nic}"));
    Ok(gpu_names.chain(nic_names).collect())
}
