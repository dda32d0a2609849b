//! `linerate report`: a whole run without a screen, then the report and the exit code.

use std::io::IsTerminal;
use std::path::PathBuf;

use super::failure::Failure;
use super::output::Output;
use super::progress::Progress;
use super::{carriers, config, start};
use crate::cli::{Format, FormatArg, ReportArgs};
use crate::cluster::{CarrierFleet, Conductor, Limits};
use crate::config::Cluster;
use crate::judge::judge;
use crate::ledger::Ledger;
use crate::model::{Event, RunSettings};
use crate::record::{RecordError, Writer, default_path};
use crate::report::{json, text};

/// Runs, reports, and returns the verdict's exit code.
pub(super) fn run(arguments: &ReportArgs) -> Result<u8, Failure> {
    let ReportArgs {
        config: file,
        nodes,
        accept_new,
        ..
    } = arguments;
    let cluster = config::cluster(file.as_deref(), nodes, *accept_new)?;
    let mut settings = cluster.settings(arguments.seed.unwrap_or_else(rand::random));
    settings.force = arguments.force;
    // Opened before the run: a place that cannot be written to must not cost the run's results.
    let outputs = outputs(arguments)?;
    let mut record = record(arguments)?;
    let ledger = conduct(&cluster, settings, &mut record)?;
    let judgement = judge(&ledger);
    for (format, mut output) in outputs {
        let written = match format {
            Format::Text => text(
                &ledger,
                &judgement,
                output.style(arguments.color),
                output.writer(),
            ),
            Format::Json => json(&ledger, &judgement, output.writer()),
        };
        written.map_err(|error| {
            Failure::work(format!(
                "cannot write the report: {error}; {}",
                kept(&record)
            ))
        })?;
        output.finish()?;
    }
    if std::io::stderr().is_terminal() {
        eprintln!("{}", kept(&record));
    }
    Ok(judgement.verdict.exit_code())
}

/// Every place that a report goes to, with its form.
fn outputs(arguments: &ReportArgs) -> Result<Vec<(Format, Output)>, Failure> {
    let open = |wanted: FormatArg| {
        let output = match &wanted.file {
            Some(path) => Output::file(path)?,
            None => Output::standard(),
        };
        Ok((wanted.format, output))
    };
    arguments
        .outputs()
        .map_err(Failure::usage)?
        .into_iter()
        .map(open)
        .collect()
}

fn record(arguments: &ReportArgs) -> Result<Writer, Failure> {
    let path = match &arguments.record {
        Some(path) => path.clone(),
        None => default_path(&state_directory()?, jiff::Timestamp::now()),
    };
    Writer::create(&path).map_err(|error| Failure::usage(Failure::chain(&error)))
}

/// $XDG_STATE_HOME, or ~/.local/state (XDG Base Directory Specification).
fn state_directory() -> Result<PathBuf, Failure> {
    let set = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    set("XDG_STATE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".local/state")))
        .ok_or_else(|| {
            Failure::usage(
                "neither XDG_STATE_HOME nor HOME says where to keep the run: use --record FILE",
            )
        })
}

fn kept(record: &Writer) -> String {
    format!("the run is kept in {}", record.path().display())
}

/// Runs the cluster. Every event is on disk before the ledger, or anybody, sees it.
fn conduct(
    cluster: &Cluster,
    settings: RunSettings,
    record: &mut Writer,
) -> Result<Ledger, Failure> {
    let payload = start::payload(cluster)?;
    let mut progress = Progress::new(settings.nodes.len());
    let members = carriers::members(cluster, &config::operator(), progress.bar())?;
    let stop = start::stop_on_signal()?;
    start::raise_descriptor_limit();
    let fleet = CarrierFleet::start(members, &payload)
        .map_err(|error| Failure::work(format!("cannot start a thread for each node: {error}")))?;
    let mut ledger = Ledger::default();
    let mut emit = |event: Event| -> Result<(), RecordError> {
        let record = record.append(&event)?;
        ledger.apply(&record.event);
        progress.show(&record.event);
        Ok(())
    };
    Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit)
        .run()
        .map_err(|error| Failure::work(Failure::chain(&error)))?;
    record
        .sync()
        .map_err(|error| Failure::work(Failure::chain(&error)))?;
    drop(progress);
    Ok(ledger)
}
