//! `linerate accept`: holds a profile against a run, live or recorded, and says whether it holds.

use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::civil::Date;

use super::failure::Failure;
use super::replay::{cut_off, recalled};
use super::reports::{Ran, Reports};
use super::resume::{self, Begun};
use super::{config, report, retention, sweep};
use crate::accept::{Before, accept, init};
use crate::cli::{AcceptArgs, Format};
use crate::config::{Cluster, Profile, read_profile};
use crate::judge::judge;
use crate::ledger::Ledger;
use crate::model::{CostSettings, CostStep, Retention, RunSettings};
use crate::record::read;
use crate::report::{checks, nagios_code, nagios_line};

/// What `--nagios` answers where linerate itself could not work.
const NAGIOS_UNKNOWN: u8 = 3;

/// Judges and returns the exit code. As a plugin of Nagios no error is one of the cluster.
pub(super) fn run(arguments: &AcceptArgs) -> Result<u8, Failure> {
    let done = work(arguments);
    match (done, arguments.nagios) {
        (Err(failure), true) => {
            let what = failure.to_string();
            let first = what.lines().next().unwrap_or_default();
            config::print(&format!("LINERATE UNKNOWN - {}\n", first.replace('|', "/")))?;
            eprintln!("linerate: {failure}");
            Ok(NAGIOS_UNKNOWN)
        }
        (done, _) => done,
    }
}

fn work(arguments: &AcceptArgs) -> Result<u8, Failure> {
    if arguments.init {
        return write_profile(arguments);
    }
    let profile = profile(&arguments.profile)?;
    if arguments.list {
        return config::print(&checks(&profile));
    }
    refuse_mixed(arguments)?;
    let before = arguments.since.as_deref().map(earlier).transpose()?;
    let reports = Reports::open(&arguments.reports, recorded(arguments))?;
    let kept = kept(arguments, &profile.cost_steps())?;
    let mut ran = Ran::recorded(&kept.ledger, &kept.record);
    let before = before
        .as_ref()
        .map(|(ledger, name)| Before { ledger, name });
    let acceptance = accept(&profile, &kept.ledger, ran.judgement(), before, today());
    let code = nagios_code(&acceptance);
    if arguments.nagios {
        config::print(&format!("{}\n", nagios_line(&acceptance)))?;
    }
    ran.acceptance = Some(acceptance);
    let verdict = reports.write(&ran)?;
    if let Some(retained) = kept.retention {
        report::say_where(&kept.ledger, &kept.record, "accept");
        retention::after_run(retained, &kept.record);
    }
    Ok(if arguments.nagios { code } else { verdict })
}

/// The line of a plugin and a document would be one text.
fn refuse_mixed(arguments: &AcceptArgs) -> Result<(), Failure> {
    let outputs = arguments.reports.outputs().map_err(Failure::usage)?;
    let mixed = outputs
        .iter()
        .any(|output| output.file.is_none() && output.format != Format::Text);
    match arguments.nagios && mixed {
        true => Err(Failure::usage(
            "--nagios begins standard output with a line of its own: give the report a file, as --format json=FILE",
        )),
        false => Ok(()),
    }
}

/// Reads and checks a profile.
fn profile(file: &Path) -> Result<Profile, Failure> {
    read_profile(&config::text(file)?, &file.display().to_string())
        .map_err(|errors| config::unusable("acceptance profile", &errors))
}

/// The day by UTC, which exceptions are held against.
fn today() -> Date {
    jiff::tz::TimeZone::UTC
        .to_datetime(jiff::Timestamp::now())
        .date()
}

/// The record that a report must not replace.
fn recorded(arguments: &AcceptArgs) -> Option<&Path> {
    let records = [
        &arguments.from,
        &arguments.run.resume,
        &arguments.run.record,
    ];
    records.into_iter().flatten().next().map(PathBuf::as_path)
}

/// An earlier run, and what reports call it.
fn earlier(file: &Path) -> Result<(Ledger, String), Failure> {
    let (records, _) = read(file)
        .map_err(|error| Failure::usage(format!("--since: {}", Failure::chain(&error))))?;
    Ok((recalled(&records), file.display().to_string()))
}

/// A run that is over, and its record.
struct Kept {
    ledger: Ledger,
    record: PathBuf,
    /// Which of the records are kept, where it was made now.
    retention: Option<Retention>,
}

/// The run that is judged: that of a record, or one that is made now.
fn kept(arguments: &AcceptArgs, steps: &[CostStep]) -> Result<Kept, Failure> {
    if let Some(file) = &arguments.from {
        let (records, torn) = read(file).map_err(|error| Failure::usage(Failure::chain(&error)))?;
        let ledger = recalled(&records);
        if let Some(torn) = &torn {
            eprintln!("{}", cut_off(file, torn, &ledger));
        }
        return Ok(Kept {
            ledger,
            record: file.clone(),
            retention: None,
        });
    }
    let run = &arguments.run;
    let cluster = report::cluster(&arguments.cluster, &arguments.pick, run.accept_new)?;
    let settings = |seed| settings(arguments, &cluster, seed, steps);
    if let Some(path) = &run.resume {
        let Begun {
            so_far,
            settings,
            record,
        } = resume::open(path, &settings)?;
        let ledger = match record {
            Some(mut record) => report::conduct(&cluster, settings, so_far, &mut record)?,
            None => so_far,
        };
        return Ok(Kept {
            ledger,
            record: path.clone(),
            retention: Some(cluster.record),
        });
    }
    let seed = run.seed.unwrap_or_else(rand::random);
    let settings = settings(seed)?;
    let mut record = report::new_record(run.record.as_deref())?;
    if let Some(note) = sweep::ungrouped(&cluster) {
        eprintln!("{note}");
    }
    let ledger = report::conduct(&cluster, settings, Ledger::default(), &mut record)?;
    Ok(Kept {
        ledger,
        record: record.path().to_owned(),
        retention: Some(cluster.record),
    })
}

/// What the cluster file and the command line ask for, and the ways of moving data whose cost the profile is
/// about.
fn settings(
    arguments: &AcceptArgs,
    cluster: &Cluster,
    seed: u64,
    steps: &[CostStep],
) -> Result<RunSettings, Failure> {
    let mut settings = report::settings(&arguments.report(), cluster, seed)?;
    if settings.cost.is_none() && !steps.is_empty() {
        settings.cost = Some(CostSettings {
            only: steps.to_vec(),
            ..cluster.cost.clone()
        });
    }
    Ok(settings)
}

/// `--init`: a new file, never one that is there.
fn write_profile(arguments: &AcceptArgs) -> Result<u8, Failure> {
    let path = &arguments.profile;
    let file = std::fs::File::create_new(path);
    let mut file = file.map_err(|error| {
        Failure::usage(format!(
            "cannot write the profile {}: {error} (a profile is never overwritten)",
            path.display()
        ))
    })?;
    let text = made(arguments).inspect_err(|_| {
        // Nothing was written yet: an empty profile would be in the way of the next attempt.
        let _ = std::fs::remove_file(path);
    })?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    written.map_err(|error| {
        let _ = std::fs::remove_file(path);
        Failure::work(format!(
            "cannot write the profile {}: {error}",
            path.display()
        ))
    })?;
    eprintln!(
        "{}: written; `linerate accept {} --list` shows it",
        path.display(),
        path.display()
    );
    Ok(0)
}

/// The text of a profile of a run that is healthy.
fn made(arguments: &AcceptArgs) -> Result<String, Failure> {
    let run = kept(arguments, &[])?;
    let judgement = judge(&run.ledger);
    let name = run.record.display().to_string();
    let made = init(
        &run.ledger,
        &judgement,
        &name,
        today(),
        arguments.despite_faults,
    );
    made.map_err(|why| {
        Failure::work(format!(
            "no profile is made of {name}: {why}; `linerate replay` with that file shows them, and --despite-faults \
             makes one all the same"
        ))
    })
}
