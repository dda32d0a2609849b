//! `linerate report`: a whole run without a screen, then the report and the exit code.

use std::io::IsTerminal;
use std::path::PathBuf;

use super::failure::Failure;
use super::progress::Progress;
use super::reports::Reports;
use super::{carriers, config, start};
use crate::cli::ReportArgs;
use crate::cluster::{CarrierFleet, Conductor, Limits};
use crate::config::Cluster;
use crate::judge::judge;
use crate::ledger::Ledger;
use crate::model::{Event, RunSettings};
use crate::record::{RecordError, Writer, default_path};

/// Runs, reports, and returns the verdict's exit code.
pub(super) fn run(arguments: &ReportArgs) -> Result<u8, Failure> {
    let ReportArgs {
        config: file,
        nodes,
        accept_new,
        ..
    } = arguments;
    let cluster = config::cluster(file.as_deref(), nodes, *accept_new)?;
    let settings = cluster.settings(arguments.seed.unwrap_or_else(rand::random));
    // Opened before the run: a place that cannot be written to must not cost the run's results.
    let outputs = Reports::open(arguments.outputs())?;
    let mut record = record(arguments)?;
    let ledger = conduct(&cluster, settings, &mut record)?;
    let judgement = judge(&ledger);
    outputs.write(&ledger, &judgement, arguments.color, &kept(&record))?;
    if std::io::stderr().is_terminal() {
        eprintln!("{}", kept(&record));
    }
    Ok(judgement.verdict.exit_code())
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
