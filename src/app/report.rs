//! `linerate report`: a whole run without a screen, then the report and the exit code.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::progress::Progress;
use super::reports::{Ran, Reports, kept};
use super::resume::{self, Begun};
use super::{carriers, config, retention, start, sweep};
use crate::cli::{ClusterArgs, PickArgs, ReportArgs, ReportsArgs};
use crate::cluster::{CarrierFleet, Conductor, Limits};
use crate::config::Cluster;
use crate::ledger::Ledger;
use crate::model::{Event, RunEnd, RunSettings};
use crate::record::{RecordError, Writer, default_path};

/// Runs, reports, and returns the verdict's exit code.
pub(super) fn run(arguments: &ReportArgs) -> Result<u8, Failure> {
    let run = &arguments.run;
    let cluster = cluster(&arguments.cluster, &arguments.pick, run.accept_new)?;
    if let Some(path) = &run.resume {
        let settings = |seed| settings(arguments, &cluster, seed);
        return go_on(path, &cluster, &arguments.reports, "report", &settings);
    }
    let seed = run.seed.unwrap_or_else(rand::random);
    let settings = settings(arguments, &cluster, seed)?;
    let reports = Reports::open(&arguments.reports, run.record.as_deref())?;
    let mut record = new_record(run.record.as_deref())?;
    if let Some(note) = sweep::ungrouped(&cluster) {
        eprintln!("{note}");
    }
    let ledger = conduct(&cluster, settings, Ledger::default(), &mut record)?;
    let code = reports.write(&Ran::recorded(&ledger, record.path()))?;
    say_where(&ledger, record.path(), "report");
    retention::after_run(cluster.record, record.path());
    Ok(code)
}

/// The nodes that are asked for.
pub(super) fn cluster(
    whose: &ClusterArgs,
    pick: &PickArgs,
    accept_new: bool,
) -> Result<Cluster, Failure> {
    let cluster = config::cluster(whose.config.as_deref(), &whose.nodes, accept_new)?;
    let cluster = cluster.without(&pick.exclude);
    cluster.map_err(|error| Failure::usage(format!("--exclude: {error}")))
}

/// What the cluster file and the command line ask for.
pub(super) fn settings(
    arguments: &ReportArgs,
    cluster: &Cluster,
    seed: u64,
) -> Result<RunSettings, Failure> {
    let mut settings = cluster.settings(seed);
    settings.force = arguments.run.force;
    sweep::settle(&mut settings, &arguments.sweep)?;
    settings.cost = arguments.sweep.cost.then(|| cluster.cost.clone());
    if arguments.sweep.nccl {
        settings.nccl = Some(cluster.nccl.clone());
    }
    sweep::pick_rails(&mut settings, arguments.pick.rails.as_ref())?;
    Ok(settings)
}

/// The same for a run that was begun earlier, by the name of its command; one that is complete is only
/// reported. `settings` are those that are asked for now, by the seed of the run.
pub(super) fn go_on(
    path: &Path,
    cluster: &Cluster,
    reports: &ReportsArgs,
    command: &str,
    settings: &dyn Fn(u64) -> Result<RunSettings, Failure>,
) -> Result<u8, Failure> {
    let reports = Reports::open(reports, Some(path))?;
    let Begun {
        so_far,
        settings,
        record,
    } = resume::open(path, settings)?;
    let Some(mut record) = record else {
        eprintln!(
            "{}: the run is complete, so nothing is measured",
            path.display()
        );
        return reports.write(&Ran::recorded(&so_far, path));
    };
    let ledger = conduct(cluster, settings, so_far, &mut record)?;
    let code = reports.write(&Ran::recorded(&ledger, path))?;
    say_where(&ledger, path, command);
    retention::after_run(cluster.record, path);
    Ok(code)
}

/// A new record, in the usual place where none is asked for.
pub(super) fn new_record(path: Option<&Path>) -> Result<Writer, Failure> {
    let path = match path {
        Some(path) => path.to_owned(),
        None => default_path(&state_directory()?, jiff::Timestamp::now()),
    };
    Writer::create(&path).map_err(|error| Failure::usage(Failure::chain(&error)))
}

/// $XDG_STATE_HOME, or ~/.local/state (XDG Base Directory Specification).
pub(super) fn state_directory() -> Result<PathBuf, Failure> {
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

/// For a person: a program knows, or reads it in the record's folder.
pub(super) fn say_where(ledger: &Ledger, record: &Path, command: &str) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let more = match ledger.end() {
        Some(RunEnd::Complete) => String::new(),
        _ => format!("; `linerate {command} --resume` with that file goes on with it"),
    };
    eprintln!("{}{more}", kept(record));
}

/// Runs the cluster from where it is. Every event is on disk before anybody sees it.
pub(super) fn conduct(
    cluster: &Cluster,
    settings: RunSettings,
    so_far: Ledger,
    record: &mut Writer,
) -> Result<Ledger, Failure> {
    let payload = start::payload(cluster)?;
    let mut progress = Progress::new(settings.nodes.len());
    progress.recall(&so_far);
    let members = carriers::members(cluster, &config::operator(), Some(progress.bar()))?;
    let stop = start::stop_on_signal()?;
    start::raise_descriptor_limit();
    let fleet = CarrierFleet::start(members, &payload)
        .map_err(|error| Failure::work(format!("cannot start a thread for each node: {error}")))?;
    let mut emit = |event: Event| -> Result<(), RecordError> {
        record.append(&event)?;
        progress.show(&event);
        Ok(())
    };
    let ledger = Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit)
        .after(so_far)
        .run()
        .map_err(|error| Failure::work(Failure::chain(&error)))?;
    record
        .sync()
        .map_err(|error| Failure::work(Failure::chain(&error)))?;
    drop(progress);
    Ok(ledger)
}
