//! Reports: one small file for each format, all from the same ledger and judgement.

mod accept;
mod cases;
mod checks;
pub mod compare;
mod cost;
mod csv;
mod ends;
mod explain;
mod findings;
#[cfg(test)]
mod formats_tests;
mod gpu_check;
mod gpu_memory;
pub mod history;
mod html;
pub mod inspect;
mod json;
mod jsonl;
mod junit;
mod markdown;
pub mod nccl;
mod nccl_tests;
mod openmetrics;
mod quiet;
mod rates;
mod tap;
mod text;
pub mod watch;

use crate::judge::Judgement;
use crate::ledger::Ledger;
use crate::model::{Acceptance, Span};

pub use accept::{ACCEPTANCE_SCHEMA, accept_json, accept_text, nagios_code, nagios_line};
pub use checks::checks;
pub use cost::{cost_headline, cost_json, cost_text};
pub use csv::{csv_nodes, csv_pairs};
pub use explain::{explain, rules};
pub use gpu_check::{GpuCheck, gpu_check_json, gpu_check_text};
pub use html::html;
pub use json::{REPORT_SCHEMA, json};
pub use jsonl::jsonl;
pub use junit::junit;
pub use markdown::markdown;
pub use openmetrics::openmetrics;
pub use tap::tap;
pub use text::{Style, headline, text};

/// What every form of a report has to say first: that nothing was measured, or not on what it seems.
fn provisos(ledger: &Ledger) -> impl Iterator<Item = &'static str> {
    let simulated = ledger.settings().is_some_and(|settings| settings.simulated);
    let simulated = simulated.then_some(text::SIMULATED);
    let stand_in = ledger.has_stand_in().then_some(gpu_memory::STAND_IN);
    simulated.into_iter().chain(stand_in)
}

/// What a report is written from.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// All that is known of the run.
    pub ledger: &'a Ledger,
    /// What is to be said of it.
    pub judgement: &'a Judgement,
    /// What became of the profile that it was held against, where there was one.
    pub acceptance: Option<&'a Acceptance>,
    /// When it was, where its record says so.
    pub span: Option<Span>,
}
