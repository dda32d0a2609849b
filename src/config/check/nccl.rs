//! `[nccl]`.

use std::time::Duration;

use crate::model::NcclSettings;

use super::super::typed::{TypedList, TypedNccl};
use super::ssh::placeholders;
use super::{Checker, Value};

/// The most arguments that a command may have.
const MOST_WORDS: usize = 256;

/// The section as typed and by default: how nccl-tests are started, and whether every run does.
pub(super) fn check(
    checker: &mut Checker,
    typed: TypedNccl,
    default: TypedNccl,
) -> Option<(NcclSettings, bool)> {
    let enabled = checker.need("nccl.enabled", typed.enabled, default.enabled);
    let bounds = Duration::from_secs(1)..=Duration::from_secs(3600);
    let timeout = checker.need_duration("nccl.timeout", typed.timeout, default.timeout, bounds);
    let command = words(checker, "command", typed.command, default.command);
    let launcher = match typed.launcher {
        None => Some(Vec::new()),
        launcher => words(checker, "launcher", launcher, None),
    };
    let timeout = timeout?;
    let begun = u64::from(timeout.subsec_nanos() > 0);
    let settings = NcclSettings {
        command: command?,
        launcher: launcher?,
        timeout_s: u32::try_from(timeout.as_secs() + begun).ok()?,
    };
    Some((settings, enabled?.value))
}

/// A program and its arguments, in which only what is known is put into braces.
fn words(
    checker: &mut Checker,
    key: &str,
    typed: TypedList,
    default: TypedList,
) -> Option<Vec<String>> {
    let words = checker.some(key, typed, default)?;
    let before = checker.problems.len();
    let no_program = |word: &&Value<String>| word.value.is_empty() || word.value.contains('{');
    if let Some(program) = words.value.first().filter(no_program) {
        let message = format!("`{key}` begins with the program to run");
        checker.problem(program.span.clone(), message);
    }
    if words.value.len() > MOST_WORDS {
        let message = format!("`{key}` has more than {MOST_WORDS} words");
        checker.problem(words.span.clone(), message);
    }
    for word in &words.value {
        if word.value.contains('\0') {
            checker.problem(word.span.clone(), "an argument cannot hold a NUL");
        }
        let known = NcclSettings::PLACEHOLDERS;
        if let Some(other) = placeholders(&word.value).find(|name| !known.contains(name)) {
            let message = format!("`{other}` is not known here");
            let problem = checker.problem(word.span.clone(), message);
            problem.help(format!("known here: `{}`", known.join("`, `")));
        }
    }
    let words = words.value.into_iter().map(|word| word.value).collect();
    (checker.problems.len() == before).then_some(words)
}
