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
    let Run {
        ledger,
        judgement,
        acceptance,
        ..
    } = *run;
    let settings = ledger.settings();
    let only_cost =
        settings.is_some_and(|s| s.cost.is_some() && s.sweep.pattern == Pattern::Nothing);
    let nics = nics::Nics::of(ledger, judgement);
    let findings = findings::Findings::of(judgement, only_cost);
    let unknown = findings::Unknown::of(ledger, judgement, only_cost);
    let pcie = pcie::Pcie::of(ledger, judgement);
    let cost = probes::Cost::of(ledger);
    let isolation = probes::Isolation::of(ledger);

    let mut contents = vec![("findings", "Findings", Some(findings.count()))];
    contents.push(("unknown", "Could not be told", Some(unknown.count())));
    if let Some(acceptance) = acceptance {
        contents.push(("acceptance", "Acceptance", Some(acceptance.results.len())));
    }
    if !only_cost {
        contents.push(("heat", "Heat map", None));
        contents.push(("nics", "NICs", Some(nics.all.len())));
    }
    contents.push(("pcie", "PCIe", Some(pcie.count())));
    if cost.is_some() {
        contents.push(("cost", "CPU cost", None));
    }
    if isolation.count() > 0 {
        contents.push(("isolation", "Isolating probes", Some(isolation.count())));
    }
    contents.push(("settings", "Settings", None));

    head::Head::of(run, only_cost, contents).write_into(out)?;
    findings.write_into(out)?;
    unknown.write_into(out)?;
    if let Some(acceptance) = acceptance {
        acceptance::Accepted::of(acceptance).write_into(out)?;
    }
    if !only_cost {
        heat::Heat::of(&nics).write_into(out)?;
        table::Table::of(&nics, judgement).write_into(out)?;
    }
    pcie.write_into(out)?;
    if let Some(cost) = cost {
        cost.write_into(out)?;
    }
    if isolation.count() > 0 {
        isolation.write_into(out)?;
    }
    probes::Settings::of(ledger).write_into(out)?;
    let mut data = Vec::new();
    table::data(&nics, judgement, pcie.numbers(&nics.nodes), &mut data)?;
    let foot = Foot {
        data: &String::from_utf8_lossy(&data),
        script: head::SCRIPT,
    };
    foot.write_into(out)
}
