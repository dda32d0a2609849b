//! `linerate history`: what is on record, and what of it need not be.

use super::config;
use super::failure::Failure;
use super::output::Output;
use super::retention;
use super::runs::{self, Recalled};
use crate::cli::{HistoryArgs, PlainFormat};
use crate::judge::judge;
use crate::ledger::Ledger;
use crate::model::{Pattern, Rail, Retention, RunEnd, Severity};
use crate::record::Found;
use crate::report::history::{Ended, Listed, ListedRun, json, text};

/// Lists, or removes what need not be kept.
pub(super) fn run(arguments: &HistoryArgs) -> Result<u8, Failure> {
    if arguments.prune {
        return prune(arguments);
    }
    let found = runs::found()?;
    let (runs, left_out) = listed(&found, arguments.limit as usize);
    let mut output = match &arguments.output {
        Some(file) => Output::file(file)?,
        None => Output::standard(),
    };
    let style = output.style(arguments.color);
    match arguments.format {
        PlainFormat::Text => text(&runs, left_out, style, output.writer()),
        PlainFormat::Json => json(&runs, left_out, output.writer()),
    }
    .map_err(|error| Failure::work(format!("cannot write the list: {error}")))?;
    output.finish()?;
    Ok(0)
}

/// The newest runs, each read and judged, then what is no run; and how many are left out.
fn listed(found: &[Found], limit: usize) -> (Vec<Listed>, usize) {
    let (mut listed, mut left_out, mut place) = (Vec::new(), 0, 0);
    for found in found {
        let in_progress = found.head.as_ref().is_ok_and(|head| head.in_progress);
        let is_over = found.head.is_ok() && !in_progress;
        let alias = is_over.then(|| runs::alias(place));
        place += usize::from(is_over);
        if found.head.is_ok() && listed.len() >= limit {
            left_out += 1;
            continue;
        }
        let run = match &found.head {
            Ok(_) => runs::recall(&found.path).map_err(|error| Failure::chain(&error)),
            Err(why) => Err(why.clone()),
        };
        listed.push(Listed {
            alias,
            path: found.path.clone(),
            name: found.name(),
            bytes: found.bytes,
            run: run.map(|run| summed_up(&run, in_progress)),
        });
    }
    (listed, left_out)
}

fn summed_up(run: &Recalled, in_progress: bool) -> ListedRun {
    let ledger = &run.ledger;
    let settings = ledger.settings();
    let judgement = judge(ledger);
    let count = |severity| {
        let findings = judgement.findings.iter();
        findings.filter(|f| f.severity == severity).count()
    };
    ListedRun {
        began: runs::in_words(run.from_ms).unwrap_or_default(),
        seconds: run.to_ms.saturating_sub(run.from_ms) / 1000,
        linerate: run.linerate.clone(),
        pattern: settings.map_or(Pattern::Nothing, |settings| settings.sweep.pattern.clone()),
        cost: settings.is_some_and(|settings| settings.cost.is_some()),
        nodes: settings.map_or(0, |settings| settings.nodes.len()),
        rails: rails(ledger),
        simulated: settings.is_some_and(|settings| settings.simulated),
        ended: match ledger.end() {
            _ if in_progress => Ended::InProgress,
            Some(RunEnd::Complete) => Ended::Whole,
            Some(RunEnd::Interrupted) => Ended::Interrupted,
            Some(RunEnd::TimeUp) => Ended::TimeUp,
            None => Ended::CutOff,
        },
        torn_bytes: run.torn.as_ref().map_or(0, |torn| torn.bytes),
        verdict: (!in_progress).then_some(judgement.verdict),
        faults: count(Severity::Fault),
        warnings: count(Severity::Warning),
        findings: judgement.findings.len(),
    }
}

fn rails(ledger: &Ledger) -> usize {
    let mut rails: Vec<Rail> = ledger.rail_nics().map(|(rail, ..)| rail).collect();
    rails.dedup();
    rails.len()
}

/// Removes what the command line, or else the cluster file, does not keep.
fn prune(arguments: &HistoryArgs) -> Result<u8, Failure> {
    let configured = match &arguments.config {
        Some(file) => config::load(file)?.record,
        None => Retention::default(),
    };
    let keep = Retention {
        keep_runs: arguments.keep_runs.or(configured.keep_runs),
        keep_days: arguments.keep_days.or(configured.keep_days),
    };
    if keep.keeps_all() {
        return Err(Failure::usage(
            "nothing says what to keep: use --keep-runs N or --keep-days D, or --config with a cluster file \
             that says it under [record]",
        ));
    }
    let pruned = retention::prune(&runs::found()?, keep, arguments.dry_run);
    let mut said = String::new();
    for path in &pruned.removed {
        said.push_str(&format!("{}\n", path.display()));
    }
    said.push_str(&format!("{}\n", pruned.in_words(arguments.dry_run)));
    config::print(&said)?;
    for why in &pruned.failed {
        eprintln!("linerate: not removed: {why}");
    }
    Ok(if pruned.failed.is_empty() { 0 } else { 3 })
}
