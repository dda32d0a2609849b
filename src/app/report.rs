//! `linerate report`: a whole run without a screen, then the report and the exit code.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::failure::Failure;
use super::output::Output;
use super::progress::Progress;
use super::{carriers, config};
use crate::cli::{Format, FormatArg, ReportArgs};
use crate::cluster::{CarrierFleet, Conductor, Limits};
use crate::config::{Cluster, from_host_lists};
use crate::judge::judge;
use crate::ledger::Ledger;
use crate::model::{Event, RunSettings};
use crate::record::{RecordError, Writer, default_path};
use crate::remote::Payload;
use crate::report::{json, text};

/// Runs, reports, and returns the verdict's exit code.
pub(super) fn run(arguments: &ReportArgs) -> Result<u8, Failure> {
    let cluster = cluster(arguments)?;
    let settings = cluster.settings(arguments.seed.unwrap_or_else(rand::random));
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

fn cluster(arguments: &ReportArgs) -> Result<Cluster, Failure> {
    let mut cluster = match (&arguments.config, arguments.nodes.as_slice()) {
        (Some(file), []) => config::load(file)?,
        (Some(file), nodes) => {
            let cluster = config::load(file)?;
            cluster
                .select(nodes)
                .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?
        }
        (None, nodes) => from_host_lists(nodes, &config::operator())
            .map_err(|errors| Failure::usage(errors.render(false)))?,
    };
    cluster.ssh.accept_new |= arguments.accept_new;
    Ok(cluster)
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
    let payload = Payload::from_current_exe(&["agent"])
        .map_err(|error| Failure::work(format!("cannot read this program's own file: {error}")))?;
    let payload = match &cluster.ssh.directory {
        Some(directory) => {
            // A folder of its own: the bootstrap closes the one it uses to everybody else.
            payload.in_directory(&Path::new(directory).join("linerate"))
        }
        None => payload,
    };
    let mut progress = Progress::new(settings.nodes.len());
    let members = carriers::members(cluster, &config::operator(), progress.bar())?;
    let stop = stop_on_signal()?;
    raise_descriptor_limit();
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

/// A node takes a few descriptors; the soft limit of a login shell is often 1024.
fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Where it cannot be raised, a node too many says so when it is connected.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// A flag that the first Ctrl-C or SIGTERM sets; the second ends the process at once.
fn stop_on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register_conditional_shutdown(signal, 3, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::work(format!("cannot listen for signals: {error}")))?;
    }
    Ok(stop)
}
