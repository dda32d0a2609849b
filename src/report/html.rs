//! The report as one page of HTML that needs nothing else: no network, no file beside it, and no script
//! to read the findings and the first part of each table.
//!
//! Its parts are templates that are compiled (askama): one that names what is not there does not build.
//! They are written one after another, as they are made.

mod acceptance;
mod findings;
mod head;
mod heat;
mod nics;
mod pcie;
mod probes;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Write};

use askama::Template;
use askama::filters::Escaper;

use super::Run;
use crate::model::{Pattern, is_treacherous};

/// What becomes of every text that is put into a page: nothing in it is markup, steers, hides or
/// reorders. Nodes, and whoever wrote a record, chose some of them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen;

impl Escaper for Seen {
    fn write_escaped_str<W: fmt::Write>(&self, mut to: W, text: &str) -> fmt::Result {
        text.chars()
            .try_for_each(|c| self.write_escaped_char(&mut to, c))
    }

    fn write_escaped_char<W: fmt::Write>(&self, mut to: W, c: char) -> fmt::Result {
        match c {
            '<' => to.write_str("&lt;"),
            '>' => to.write_str("&gt;"),
            '&' => to.write_str("&amp;"),
            '"' => to.write_str("&#34;"),
            '\'' => to.write_str("&#39;"),
            '\n' => to.write_char(' '),
            c if is_treacherous(c) => to.write_char('\u{fffd}'),
            c => to.write_char(c),
        }
    }
}

/// The end of a page, with its data and its script.
#[derive(Template)]
#[template(path = "foot.html")]
struct Foot<'a> {
    data: &'a str,
    script: &'a str,
}

/// Writes the report as one page of HTML.
///
/// # Errors
/// Whatever `out` reports.
pub fn html(run: &Run<'_>, out: &mut dyn Write) -> io::Result<()> {
    let nics = nics::Nics::of(run.ledger, run.judgement);
    let page = Page::of(run, &nics);
    head::Head::of(run, page.only_cost, page.contents()).write_into(out)?;
    page.write(run, out)?;
    let mut data = Vec::new();
    table::data(
        &nics,
        run.judgement,
        page.pcie.numbers(&nics.nodes),
        &mut data,
    )?;
    let foot = Foot {
        data: &String::from_utf8_lossy(&data),
        script: head::SCRIPT,
    };
    foot.write_into(out)
}

/// The sections of a page.
struct Page<'a> {
    nics: &'a nics::Nics<'a>,
    findings: findings::Findings<'a>,
    unknown: findings::Unknown<'a>,
    accepted: Option<acceptance::Accepted<'a>>,
    pcie: pcie::Pcie<'a>,
    gpus: Option<probes::Gpus>,
    cost: Option<probes::Cost<'a>>,
    isolation: probes::Isolation,
    /// Whether the run measured nothing else: then there are no pairs to judge NICs by.
    only_cost: bool,
}

impl<'a> Page<'a> {
    fn of(run: &Run<'a>, nics: &'a nics::Nics<'a>) -> Self {
        let (ledger, judgement) = (run.ledger, run.judgement);
        let settings = ledger.settings();
        let only_cost =
            settings.is_some_and(|s| s.cost.is_some() && s.sweep.pattern == Pattern::Nothing);
        Self {
            nics,
            findings: findings::Findings::of(judgement, only_cost),
            unknown: findings::Unknown::of(ledger, judgement, only_cost),
            accepted: run.acceptance.map(acceptance::Accepted::of),
            pcie: pcie::Pcie::of(ledger, judgement),
            gpus: probes::Gpus::of(ledger),
            cost: probes::Cost::of(ledger),
            isolation: probes::Isolation::of(ledger),
            only_cost,
        }
    }

    /// The sections that there are: anchor, name and number of entries.
    fn contents(&self) -> Vec<(&'static str, &'static str, Option<usize>)> {
        let isolating = self.isolation.count();
        let accepted = self.accepted.as_ref().map(acceptance::Accepted::count);
        let has_nics = !self.only_cost;
        let all = [
            (true, "findings", "Findings", Some(self.findings.count())),
            (
                true,
                "unknown",
                "Could not be told",
                Some(self.unknown.count()),
            ),
            (accepted.is_some(), "acceptance", "Acceptance", accepted),
            (has_nics, "heat", "Heat map", None),
            (has_nics, "nics", "NICs", Some(self.nics.all.len())),
            (true, "pcie", "PCIe", Some(self.pcie.count())),
            (self.gpus.is_some(), "gpu", "GPU memory", None),
            (self.cost.is_some(), "cost", "CPU cost", None),
            (
                isolating > 0,
                "isolation",
                "Isolating probes",
                Some(isolating),
            ),
            (true, "settings", "Settings", None),
        ];
        let there = all.into_iter().filter(|(is_there, ..)| *is_there);
        there
            .map(|(_, id, name, count)| (id, name, count))
            .collect()
    }

    fn write(&self, run: &Run<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.findings.write_into(out)?;
        self.unknown.write_into(out)?;
        if let Some(accepted) = &self.accepted {
            accepted.write_into(out)?;
        }
        if !self.only_cost {
            heat::Heat::of(self.nics).write_into(out)?;
            table::Table::of(self.nics, run.judgement).write_into(out)?;
        }
        self.pcie.write_into(out)?;
        if let Some(gpus) = &self.gpus {
            gpus.write_into(out)?;
        }
        if let Some(cost) = &self.cost {
            cost.write_into(out)?;
        }
        if self.isolation.count() > 0 {
            self.isolation.write_into(out)?;
        }
        probes::Settings::of(run.ledger).write_into(out)
    }
}
