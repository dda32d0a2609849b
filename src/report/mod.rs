//! Reports: one small file for each format, all from the same ledger and judgement.

mod cost;
mod explain;
mod findings;
mod gpu_check;
mod gpu_memory;
pub mod inspect;
mod json;
pub mod nccl;
mod rates;
mod text;
pub mod watch;

pub use cost::{cost_json, cost_text};
pub use explain::{explain, rules};
pub use gpu_check::{gpu_check_json, gpu_check_text};
pub use json::{REPORT_SCHEMA, json};
pub use text::{Style, headline, text};
