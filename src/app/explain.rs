//! `linerate explain`: what a rule means, how it is detected, what to do.

use super::failure::Failure;
use super::output::Output;
use crate::cli::ExplainArgs;
use crate::model::Rule;
use crate::report::{explain, rules};

/// Explains one rule, or lists them all.
pub(super) fn run(arguments: &ExplainArgs) -> Result<u8, Failure> {
    let mut output = Output::standard();
    let style = output.style(arguments.color);
    match &arguments.rule {
        Some(name) => explain(rule(name)?, style, output.writer()),
        None => rules(style, output.writer()),
    }
    .map_err(|error| Failure::work(format!("cannot write to standard output: {error}")))?;
    output.finish()?;
    Ok(0)
}

fn rule(name: &str) -> Result<Rule, Failure> {
    name.parse().map_err(|()| {
        let distance = |rule: &&Rule| strsim::damerau_levenshtein(name, rule.name());
        let nearest = Rule::ALL.iter().min_by_key(distance);
        let hint = nearest
            .map(|rule| format!(": did you mean `{rule}`?"))
            .unwrap_or_default();
        let all = "`linerate explain` lists them all";
        Failure::usage(format!(
            "there is no rule `{}`{hint} ({all})",
            name.escape_debug()
        ))
    })
}
