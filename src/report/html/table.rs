//! The table of NICs: its first rows are written out, the others are data that a script shows.

use std::collections::HashMap;
use std::io::{self, Write};

use askama::Template;
use serde::Serialize;

use super::nics::{Nic, Nics, State};
use crate::judge::Judgement;
use crate::model::{Finding, Gbps, visible};

/// Rows that are there without a script, and that a page of the table has.
const FIRST: usize = 100;

/// Findings that a row names.
const MOST_FINDINGS: usize = 3;

/// The section of the table.
#[derive(Template)]
#[template(path = "table.html")]
pub(super) struct Table<'a> {
    nics: &'a Nics<'a>,
    findings: &'a [Finding],
    first: Vec<&'a Nic<'a>>,
}

impl<'a> Table<'a> {
    pub(super) fn of(nics: &'a Nics<'a>, judgement: &'a Judgement) -> Self {
        let worst = nics.worst_first();
        let first = worst.iter().take(FIRST).map(|at| &nics.all[*at]);
        Self {
            nics,
            findings: &judgement.findings,
            first: first.collect(),
        }
    }

    fn states(&self) -> impl Iterator<Item = State> {
        let there = |state: &State| self.nics.all.iter().any(|nic| nic.state == *state);
        State::ALL.into_iter().filter(there)
    }

    fn finding(&self, number: &usize) -> &'static str {
        self.findings[*number].rule.name()
    }

    fn named<'n>(&self, nic: &'n Nic<'_>) -> &'n [usize] {
        &nic.findings[..nic.findings.len().min(MOST_FINDINGS)]
    }
}

/// A rate in words, or that there is none.
fn rate(nic: &Nic<'_>, way: usize) -> Option<Gbps> {
    Some(nic.ways[way]?.rate)
}

/// What is expected either way, once where both are equal; none where nothing was measured.
fn expected(nic: &Nic<'_>) -> Option<String> {
    let ways = nic.ways.iter().flatten();
    let words = |rate: Option<Gbps>| rate.map_or("unknown".to_owned(), |rate| rate.to_string());
    let mut words: Vec<String> = ways.map(|way| words(way.expected)).collect();
    words.dedup();
    (!words.is_empty()).then(|| words.join(" / "))
}

fn share(nic: &Nic<'_>) -> Option<String> {
    nic.share().map(|share| format!("{share:.2}"))
}

/// What a script needs to sort, filter and show all NICs.
#[derive(Serialize)]
struct Data {
    nodes: Vec<String>,
    rails: Vec<u16>,
    states: [(&'static str, &'static str); 5],
    /// Devices, reasons and names of rules, each once.
    words: Vec<String>,
    nics: Vec<Row>,
    pictures: Vec<Option<usize>>,
}

/// Node, rail, device, then of each direction rate, expected rate and share, then state, reason and the
/// findings: number and rule. Nodes and rails by their places, words by theirs.
#[derive(Serialize)]
struct Row(
    Option<usize>,
    [Option<(f64, Option<f64>, f64)>; 2],
    usize,
    Option<usize>,
    Vec<(usize, usize)>,
);

/// Words, each once.
#[derive(Default)]
struct Words {
    places: HashMap<String, usize>,
    all: Vec<String>,
}

impl Words {
    fn place(&mut self, word: &str) -> usize {
        if let Some(place) = self.places.get(word) {
            return *place;
        }
        let place = self.all.len();
        self.places.insert(word.to_owned(), place);
        self.all.push(visible(word));
        place
    }
}

/// Writes the data as JSON that no HTML can end. `pictures` has for each node the number of its PCIe
/// picture, where it has one.
pub(super) fn data(
    nics: &Nics<'_>,
    judgement: &Judgement,
    pictures: Vec<Option<usize>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut words = Words::default();
    let rows = nics.all.iter().map(|nic| row(nic, judgement, &mut words));
    let data = Data {
        nics: rows.collect(),
        nodes: nics.nodes.iter().map(|node| visible(&node.0)).collect(),
        rails: nics.rails.iter().map(|rail| rail.0).collect(),
        states: State::ALL.map(|state| (state.words(), state.class())),
        words: words.all,
        pictures,
    };
    serde_json::to_writer(Harmless(out), &data)?;
    Ok(())
}

fn row(nic: &Nic<'_>, judgement: &Judgement, words: &mut Words) -> Row {
    let rounded = |rate: Gbps| (rate.0 * 1e6).round() / 1e6;
    let way = |way: usize| {
        let way = nic.ways[way]?;
        let share = (way.share * 1e4).round() / 1e4;
        Some((rounded(way.rate), way.expected.map(rounded), share))
    };
    let device = nic.device().map(|device| words.place(&device));
    let why = nic.why.as_ref().map(|why| words.place(why));
    let findings = nic.findings.iter().take(MOST_FINDINGS);
    let findings = findings.map(|number| {
        let rule = judgement.findings[*number].rule.name();
        (*number, words.place(rule))
    });
    let findings = findings.collect();
    Row(device, [way(0), way(1)], nic.state.rank(), why, findings)
}

/// JSON has these characters in strings only, where an escape says the same: so nothing in it reads as
/// the end of the element that it is in.
struct Harmless<'a>(&'a mut dyn Write);

impl Write for Harmless<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| b"<>&".contains(byte)) {
            self.0.write_all(&rest[..at])?;
            write!(self.0, "\\u{:04x}", rest[at])?;
            rest = &rest[at + 1..];
        }
        self.0.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
