<<<<<<< HEAD
//! Reports: one small file for each format, all from the same ledger and judgement.

pub mod inspect;
mod json;
mod text;

pub use json::json;
pub use text::{Style, text};
=======
//! What people and programs read: one small file per format.

pub mod inspect;
>>>>>>> survey
