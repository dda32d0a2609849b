//! An acceptance for programs. Its shape is stable: fields are added, not changed, within one `schema`.

use std::io::{self, Write};

use serde::Serialize;

use super::Counts;
use crate::ledger::Ledger;
use crate::model::{Acceptance, AcceptanceVerdict, CheckResult, RunEnd, Weight};
use crate::report::quiet;

/// Version of the shape.
pub const ACCEPTANCE_SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    linerate: &'static str,
    /// Tells it from a report.
    kind: &'static str,
    simulated: bool,
    stand_in_gpu: bool,
    profile: &'a str,
    verdict: AcceptanceVerdict,
    exit_code: u8,
    run: Option<RunEnd>,
    must: Numbers,
    should: Numbers,
    results: &'a [CheckResult],
}

#[derive(Serialize)]
struct Numbers {
    passed: usize,
    failed: usize,
    not_judged: usize,
    excepted: usize,
}

impl Numbers {
    fn of(acceptance: &Acceptance, weight: Weight) -> Self {
        let Counts {
            passed,
            failed,
            not_judged,
            excepted,
        } = Counts::weighing(acceptance, weight);
        Self {
            passed,
            failed,
            not_judged,
            excepted,
        }
    }
}

/// Writes it as one JSON document.
///
/// # Errors
/// Whatever `out` reports.
pub fn accept_json(
    ledger: &Ledger,
    acceptance: &Acceptance,
    out: &mut dyn Write,
) -> io::Result<()> {
    let verdict = acceptance.verdict();
    let document = Document {
        schema: ACCEPTANCE_SCHEMA,
        linerate: env!("CARGO_PKG_VERSION"),
        kind: "acceptance",
        simulated: ledger.settings().is_some_and(|settings| settings.simulated),
        stand_in_gpu: ledger.has_stand_in(),
        profile: &acceptance.profile,
        verdict,
        exit_code: verdict.exit_code(),
        run: ledger.end(),
        must: Numbers::of(acceptance, Weight::Must),
        should: Numbers::of(acceptance, Weight::Should),
        results: &acceptance.results,
    };
    quiet::pretty(out, &document)
}
