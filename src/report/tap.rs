//! Test Anything Protocol, version 14 (testanything.org): a test for each case of the run.
//!
//! What could not be judged is `not ok`: TAP has no word for it, and SKIP passes. A should that does not
//! hold, and what the profile excepts, is `not ok` with TODO: it is known not to be well, and does not fail
//! the whole.

use std::io::{self, Write};

use super::cases::{Case, CaseIs, Suite, suites};
use super::{Run, provisos};
use crate::model::visible;

/// Writes the report as TAP.
///
/// # Errors
/// Whatever `out` reports.
pub fn tap(run: &Run<'_>, out: &mut dyn Write) -> io::Result<()> {
    let suites = suites(run);
    let count: usize = suites.iter().map(|suite| suite.cases.len()).sum();
    writeln!(out, "TAP version 14")?;
    for proviso in provisos(run.ledger) {
        writeln!(out, "# {proviso}")?;
    }
    writeln!(out, "1..{count}")?;
    let mut number = 0;
    for suite in &suites {
        for case in &suite.cases {
            number += 1;
            test(number, suite, case, out)?;
        }
        for note in &suite.notes {
            writeln!(out, "# {}: {}", visible(&suite.name), visible(note))?;
        }
    }
    Ok(())
}

fn test(number: usize, suite: &Suite, case: &Case, out: &mut dyn Write) -> io::Result<()> {
    let ok = match case.is {
        CaseIs::Passed => "ok",
        CaseIs::Failed | CaseIs::NotJudged | CaseIs::Borne => "not ok",
    };
    let name = escaped(&format!("{}: {}", suite.name, case.name));
    write!(out, "{ok} {number} - {name}")?;
    match case.is {
        CaseIs::Borne => writeln!(out, " # TODO {}", escaped(&case.says))?,
        _ => writeln!(out)?,
    }
    if case.is == CaseIs::Passed {
        return Ok(());
    }
    let severity = match case.is {
        CaseIs::NotJudged => "not_judged",
        CaseIs::Borne => "todo",
        CaseIs::Failed | CaseIs::Passed => "fail",
    };
    writeln!(out, "  ---")?;
    writeln!(out, "  message: {}", quoted(&case.says)?)?;
    writeln!(out, "  severity: {severity}")?;
    writeln!(out, "  check: {}", quoted(&case.check)?)?;
    if !case.more.is_empty() {
        writeln!(out, "  evidence:")?;
        for line in &case.more {
            writeln!(out, "    - {}", quoted(line)?)?;
        }
    }
    writeln!(out, "  ...")
}

/// A description in one line: a number sign would begin a directive.
fn escaped(text: &str) -> String {
    visible(text).replace('\\', "\\\\").replace('#', "\\#")
}

/// A scalar of YAML, which every string of JSON is.
fn quoted(text: &str) -> io::Result<String> {
    Ok(serde_json::to_string(&visible(text))?)
}
