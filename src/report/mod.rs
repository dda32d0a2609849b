//! Reports: one small file for each format, all from the same ledger and judgement.

pub mod inspect;
mod json;
mod text;

pub use json::{REPORT_SCHEMA, json};
pub use text::{Style, text};
