//! Reports: one small file for each format, all from the same ledger and judgement.

pub mod compare;
mod cost;
mod explain;
mod findings;
pub mod history;
pub mod inspect;
mod json;
pub mod nccl;
mod rates;
mod text;
pub mod watch;

pub use cost::{cost_json, cost_text};
pub use explain::{explain, rules};
pub use json::{REPORT_SCHEMA, json};
pub use text::{Style, headline, text};
