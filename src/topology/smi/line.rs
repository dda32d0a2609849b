//! One line of the text: its fields with their places, and what kind of line it is.

use super::words::{self, TopoLink, is_name, link};

/// A field of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub text: &'a str,
    /// The character where it begins, from 1.
    pub column: usize,
}

/// What a line is.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'a> {
    /// Nothing to say: empty, or the explanation of a word.
    Plain,
    Heading(Heading<'a>),
    Row(Row<'a>),
    /// `NIC0: mlx5_0`.
    NicName(&'a str, &'a str),
    /// No part of the matrix.
    Other,
}

/// The names of the columns.
#[derive(Debug, PartialEq)]
pub(super) struct Heading<'a> {
    pub devices: Vec<Field<'a>>,
    /// How many affinity columns are behind them.
    pub affinities: usize,
    /// What is left of a name at the end of the line.
    pub cut: Option<Field<'a>>,
}

/// A device and its cells.
#[derive(Debug, PartialEq)]
pub(super) struct Row<'a> {
    pub name: Field<'a>,
    pub cells: Vec<Cell<'a>>,
    /// The affinity columns; with tabs also those that are empty.
    pub affinity: Vec<Field<'a>>,
    pub has_tabs: bool,
}

/// A cell, and what it says if that is readable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cell<'a> {
    pub field: Field<'a>,
    pub link: Option<TopoLink>,
}

/// Splits at tabs, where a field may be empty, or else at white space.
fn fields(line: &str) -> Vec<Field<'_>> {
    let has_tabs = line.contains('\t');
    let ends = |c: char| {
        if has_tabs {
            c == '\t'
        } else {
            c.is_whitespace()
        }
    };
    let mut found = Vec::new();
    let mut column = 1;
    for part in line.split(ends) {
        let text = part.trim();
        if has_tabs || !text.is_empty() {
            let indent = part.chars().take_while(|c| c.is_whitespace()).count();
            let column = column + indent;
            found.push(Field { text, column });
        }
        column += part.chars().count() + 1;
    }
    found
}

/// Says what a line is; `columns` is how many devices the heading has, once one was seen.
pub(super) fn line(text: &str, columns: Option<usize>) -> Line<'_> {
    let trimmed = text.trim();
    if trimmed.is_empty() || matches!(trimmed, "Legend:" | "NIC Legend:") {
        return Line::Plain;
    }
    let mut words = trimmed.split_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next());
    if second == Some("=") && words::is_in_legend(first) {
        return Line::Plain;
    }
    if let Some(nic) = first.strip_suffix(':')
        && words::numbered(nic, "NIC").is_some()
    {
        return Line::NicName(nic, trimmed[first.len()..].trim());
    }
    let fields = fields(text);
    if let Some(heading) = heading(text, &fields) {
        return Line::Heading(heading);
    }
    row(text.contains('\t'), &fields, columns).map_or(Line::Other, Line::Row)
}

/// The first column is a GPU's, which in a row would be the name, with a path behind it.
fn heading<'a>(text: &str, fields: &[Field<'a>]) -> Option<Heading<'a>> {
    let fields: Vec<_> = fields
        .iter()
        .filter(|field| !field.text.is_empty())
        .collect();
    words::numbered(fields.first()?.text, "GPU")?;
    let is_device = |field: &&&Field<'_>| !words::opens_affinity(field.text);
    let mut devices: Vec<Field<'a>> = fields.iter().take_while(is_device).map(|f| **f).collect();
    // A row of a single cell would be one too, if not for this.
    if fields.len() == 1 && !text.starts_with(char::is_whitespace) {
        return None;
    }
    let last = devices.last().filter(|field| !is_name(field.text)).copied();
    let cut = last.filter(|_| devices.len() == fields.len() && devices.len() > 1);
    if cut.is_some() {
        devices.pop();
    }
    if !devices.iter().all(|field| is_name(field.text))
        || cut.is_some_and(|c| link(c.text).is_some())
    {
        return None;
    }
    let affinities = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"];
    Some(Heading {
        devices,
        affinities: affinities
            .iter()
            .filter(|words| text.contains(**words))
            .count(),
        cut,
    })
}

/// A name, then cells, then affinity columns.
fn row<'a>(has_tabs: bool, fields: &[Field<'a>], columns: Option<usize>) -> Option<Row<'a>> {
    let (name, rest) = fields.split_first()?;
    if !is_name(name.text) {
        return None;
    }
    let is_cell = |n: usize, field: &Field<'_>| match columns {
        Some(columns) if has_tabs => n < columns,
        Some(columns) => n < columns && !words::looks_like_affinity(field.text),
        None => link(field.text).is_some(),
    };
    let count = rest
        .iter()
        .enumerate()
        .take_while(|(n, field)| is_cell(*n, field))
        .count();
    let (cells, affinity) = rest.split_at(count);
    let cell = |field: &Field<'a>| Cell {
        field: *field,
        link: link(field.text),
    };
    let cells: Vec<_> = cells.iter().map(cell).collect();
    // Prose may begin with the name of a device, but no path follows.
    let is_row = rest.is_empty() || cells.iter().any(|cell| cell.link.is_some());
    is_row.then(|| Row {
        name: *name,
        cells,
        affinity: affinity.to_vec(),
        has_tabs,
    })
}
