//! `[record]`.

use crate::model::Retention;

use super::super::typed::TypedRecord;
use super::{Checker, Value};

/// The most that either bound may say; more than anybody keeps.
const MOST: i64 = 1_000_000;

/// The section; what it does not say is kept. None where a problem was found.
pub(super) fn check(checker: &mut Checker, typed: TypedRecord) -> Option<Retention> {
    let mut bound = |key: &str, typed: Option<toml::Spanned<i64>>| match typed.map(Value::typed) {
        None => Some(None),
        Some(value) => checker.whole::<u32>(key, &value, 1..=MOST).map(Some),
    };
    let keep_runs = bound("keep_runs", typed.keep_runs);
    let keep_days = bound("keep_days", typed.keep_days);
    Some(Retention {
        keep_runs: keep_runs?,
        keep_days: keep_days?,
    })
}
