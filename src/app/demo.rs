//! `linerate demo`: a whole run over a simulated cluster, then the report and the exit code.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::failure::Failure;
use super::reports::{Ran, Reports};
use super::{config, dashboard, live, start, sweep};
use crate::cli::DemoArgs;
use crate::cluster::{Conductor, Limits};
use crate::config::{DEMO, Scenario, read_scenario};
use crate::ledger::Ledger;
use crate::model::{Event, RunSettings};
use crate::record::{RecordError, Writer};
use crate::simulated::SimulatedFleet;

/// Simulates, reports, and returns the verdict's exit code.
pub(super) fn run(arguments: &DemoArgs) -> Result<u8, Failure> {
    if arguments.show_scenario {
        return config::print(DEMO);
    }
    if arguments.tui {
        dashboard::needs_terminal()?;
    }
    let scenario = scenario(arguments.scenario.as_deref())?;
    let (scenario, left_out) = scenario.resized(arguments.nodes, arguments.rails);
    if left_out > 0 {
        let (what, are) = match left_out {
            1 => ("fault", "is"),
            _ => ("faults", "are"),
        };
        eprintln!(
            "{left_out} {what} of the scenario {are} left out: no such node or rail is simulated"
        );
    }
    let mut settings = scenario
        .settings(arguments.seed)
        .map_err(|errors| config::unusable("scenario", &errors))?;
    sweep::settle(&mut settings, &arguments.sweep)?;
    if arguments.sweep.nccl {
        return Err(Failure::usage(
            "--nccl: simulated GPUs run no programs, so that there are no nccl-tests of theirs",
        ));
    }
    if arguments.sweep.cost {
        let cost = scenario.cost();
        settings.cost = Some(cost.map_err(|errors| config::unusable("scenario", &errors))?);
    }
    let reports = Reports::open(&arguments.reports, arguments.record.as_deref())?;
    let mut record = record(arguments.record.as_deref(), &reports)?;
    if arguments.tui {
        let reports = arguments.reports.is_asked().then_some(reports);
        return live::simulate(arguments, &scenario, settings, record, reports);
    }
    let ledger = conduct(&scenario, settings, record.writer.as_mut())?;
    let again = format!("--seed {} makes it again", arguments.seed);
    reports.write(&record.ran(&ledger, again))
}

/// Where a simulated run is recorded, if it is.
pub(super) struct Recording {
    pub(super) writer: Option<Writer>,
    /// Goes away with the run, where nobody asked for a record.
    folder: Option<TempDir>,
}

/// Makes the record that is asked for, or that one of the reports has the events from.
pub(super) fn record(path: Option<&Path>, reports: &Reports) -> Result<Recording, Failure> {
    let folder = (path.is_none() && reports.need_record())
        .then(tempfile::tempdir)
        .transpose()
        .map_err(|error| Failure::work(format!("cannot make a temporary folder: {error}")))?;
    let path = path.map(Path::to_owned);
    let path = path.or_else(|| Some(folder.as_ref()?.path().join("run.jsonl")));
    let create =
        |path: PathBuf| Writer::create(&path).map_err(|e| Failure::usage(Failure::chain(&e)));
    Ok(Recording {
        writer: path.map(create).transpose()?,
        folder,
    })
}

impl Recording {
    /// Where the run stays recorded.
    pub(super) fn path(&self) -> Option<&Path> {
        let writer = self.writer.as_ref().filter(|_| self.folder.is_none());
        writer.map(Writer::path)
    }

    /// The run that was recorded, and how to have it again where it was not.
    pub(super) fn ran<'a>(&'a self, ledger: &'a Ledger, again: String) -> Ran<'a> {
        match (&self.writer, &self.folder) {
            (Some(writer), None) => Ran::recorded(ledger, writer.path()),
            (Some(writer), Some(_)) => Ran::recorded(ledger, writer.path()).kept_as(again),
            (None, _) => Ran::unrecorded(ledger, again),
        }
    }
}

pub(super) fn scenario(file: Option<&Path>) -> Result<Scenario, Failure> {
    let (text, path) = match file {
        Some(file) => (config::text(file)?, file.display().to_string()),
        None => (DEMO.to_owned(), "built-in scenario".to_owned()),
    };
    read_scenario(&text, &path).map_err(|errors| config::unusable("scenario", &errors))
}

/// The same conductor as on a real cluster; the record, where one is wanted, hears everything first.
pub(super) fn conduct(
    scenario: &Scenario,
    settings: RunSettings,
    mut record: Option<&mut Writer>,
) -> Result<Ledger, Failure> {
    let stop = start::stop_on_signal()?;
    let fleet = SimulatedFleet::new(scenario, &settings.nodes, settings.seed);
    let mut emit = |event: Event| -> Result<(), RecordError> {
        if let Some(record) = &mut record {
            record.append(&event)?;
        }
        Ok(())
    };
    let work = |error: &dyn std::error::Error| Failure::work(Failure::chain(error));
    let ledger = Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit)
        .run()
        .map_err(|error| work(&error))?;
    if let Some(record) = record {
        record.sync().map_err(|error| work(&error))?;
    }
    Ok(ledger)
}
