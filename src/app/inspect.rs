//! `linerate inspect`: this machine's facts, without SSH.

use super::failure::Failure;
use super::output::Output;
use super::surveyor;
use crate::cli::{InspectArgs, PlainFormat};
use crate::judge;
use crate::model::{NodeFacts, NodeName, Severity};
use crate::report::inspect::{json, text};
use crate::survey::Root;

/// Surveys and prints. The exit code is 1 where a fault shows.
pub(super) fn run(arguments: &InspectArgs) -> Result<u8, Failure> {
    let root = match &arguments.root {
        Some(path) if !path.is_dir() => {
            return Err(Failure::usage(format!(
                "--root {}: not a directory",
                path.display()
            )));
        }
        Some(path) => Root::at(path),
        None => Root::live(),
    };
    let facts = surveyor::facts(&root);
    let said = judge::inspect(&name(&facts), &facts);
    let mut output = Output::standard();
    let style = output.style(arguments.color);
    match arguments.format {
        PlainFormat::Text => text(&facts, &said, style, output.writer()),
        PlainFormat::Json => json(&facts, &said, output.writer()),
    }
    .map_err(|error| Failure::work(format!("cannot write the facts: {error}")))?;
    output.finish()?;
    let is_fault = |severity| severity == Severity::Fault;
    Ok(said
        .findings
        .iter()
        .any(|finding| is_fault(finding.severity))
        .into())
}

/// What the node is called in findings.
fn name(facts: &NodeFacts) -> NodeName {
    let own = facts.hostname.value().cloned();
    NodeName::from(own.unwrap_or_else(|| "this node".to_owned()))
}
