//! `linerate sweep`, and the demo and the replay on the same dashboard.

use std::path::Path;
use std::time::Duration;

use super::dashboard::{self, Wanted, Wires};
use super::demo::Recording;
use super::failure::Failure;
use super::output::Output;
use super::reports::{Ran, Reports, is_only_cost, kept};
use super::resume::{self, Begun};
use super::{carriers, config, report, retention, start, sweep};
use crate::cli::{Color, DashboardArgs, DemoArgs, ReplayArgs};
use crate::cluster::{CarrierFleet, Conductor, Limits, Member};
use crate::config::{Cluster, Scenario};
use crate::ledger::Ledger;
use crate::model::{Command, Event, Record, RunSettings};
use crate::record::{RecordError, Writer, read};
use crate::report::{cost_headline, headline};
use crate::simulated::SimulatedFleet;

/// The longest pause of a recorded run that is waited for.
const LONGEST_GAP_MS: u64 = 2000;

/// How long a simulated run that is paused waits before it looks whether to end.
const PAUSED_FOR: Duration = Duration::from_millis(200);

/// How often nodes read their counters during a sweep.
const SAMPLED_EVERY: Duration = Duration::from_secs(1);

/// Sweeps a cluster on the dashboard; the verdict's exit code.
pub(super) fn run(arguments: &DashboardArgs) -> Result<u8, Failure> {
    dashboard::needs_terminal()?;
    let asked = &arguments.run;
    let run = &asked.run;
    let cluster = report::cluster(&asked.cluster, &asked.pick, run.accept_new)?;
    let record = run.resume.as_deref().or(run.record.as_deref());
    let reports = asked.reports.is_asked();
    let reports = reports
        .then(|| Reports::open(&asked.reports, record))
        .transpose()?;
    let (before, begun) = begin(arguments, &cluster)?;
    if let Some(note) = sweep::ungrouped(&cluster) {
        eprintln!("{note}");
    }
    let path = begun.record.as_ref().map(|record| record.path().to_owned());
    let path = path.or_else(|| asked.run.resume.clone());
    let title = asked
        .cluster
        .config
        .as_ref()
        .map_or("linerate".to_owned(), |file| file.display().to_string());
    let wanted = Wanted {
        title,
        pace: None,
        watches: false,
        face: &arguments.face,
        color: asked.reports.color,
    };
    // Passphrases are asked for while the terminal is still the shell's.
    let members = match &begun.record {
        Some(_) => carriers::members(&cluster, &config::operator(), None)?,
        None => Vec::new(),
    };
    let (run, ()) = dashboard::run(wanted, |wires| {
        before.into_iter().for_each(|record| wires.show(record));
        let run = (begun.settings, begun.so_far);
        match begun.record {
            Some(record) => conduct(&cluster, members, run, record, wires),
            None => Ok(()),
        }
    })?;
    let ran = match &path {
        Some(path) => Ran::recorded(run.ledger(), path),
        None => Ran::unrecorded(run.ledger(), "it was not recorded"),
    };
    let code = leave(&ran, path.as_deref(), reports, asked.reports.color)?;
    if let Some(path) = &path {
        retention::after_run(cluster.record, path);
    }
    Ok(code)
}

/// A new run, or one that goes on, with what was recorded of it before.
fn begin(arguments: &DashboardArgs, cluster: &Cluster) -> Result<(Vec<Record>, Begun), Failure> {
    let asked = &arguments.run;
    if let Some(path) = &asked.run.resume {
        let (before, _) = read(path).map_err(|error| Failure::usage(Failure::chain(&error)))?;
        let begun = resume::open(path, &|seed| report::settings(asked, cluster, seed))?;
        return Ok((before, begun));
    }
    let seed = asked.run.seed.unwrap_or_else(rand::random);
    let settings = report::settings(asked, cluster, seed)?;
    let begun = Begun {
        so_far: Ledger::default(),
        settings,
        record: Some(report::new_record(asked.run.record.as_deref())?),
    };
    Ok((Vec::new(), begun))
}

fn conduct(
    cluster: &Cluster,
    members: Vec<Member>,
    (settings, so_far): (RunSettings, Ledger),
    mut record: Writer,
    wires: &Wires,
) -> Result<(), Failure> {
    let payload = start::payload(cluster)?;
    start::raise_descriptor_limit();
    let fleet = CarrierFleet::start(members, &payload)
        .map_err(|error| Failure::work(format!("cannot start a thread for each node: {error}")))?;
    let mut unrecorded = 0;
    let mut emit = |event: Event| -> Result<(), RecordError> {
        // A second's readings of every counter would be most of the record, and judge nothing.
        match event {
            Event::NodeSampled { .. } => wires.show_reading(now(&mut unrecorded, event)),
            Event::NodeWatched { .. } => wires.show(now(&mut unrecorded, event)),
            event => wires.show(record.append(&event)?),
        }
        Ok(())
    };
    let mut next = || wires.commands.try_recv().ok();
    Conductor::new(fleet, settings, Limits::default(), &wires.stop, &mut emit)
        .obeying(&mut next)
        .sampling(SAMPLED_EVERY)
        .after(so_far)
        .run()
        .map_err(|error| Failure::work(Failure::chain(&error)))?;
    record
        .sync()
        .map_err(|error| Failure::work(Failure::chain(&error)))
}

/// A simulated run on the dashboard.
pub(super) fn simulate(
    arguments: &DemoArgs,
    scenario: &Scenario,
    settings: RunSettings,
    mut record: Recording,
    reports: Option<Reports>,
) -> Result<u8, Failure> {
    let wanted = Wanted {
        title: "linerate demo".to_owned(),
        pace: None,
        watches: false,
        face: &arguments.face,
        color: arguments.reports.color,
    };
    let fleet = SimulatedFleet::new(scenario, &settings.nodes, settings.seed);
    let pace = (!arguments.fast).then(|| Duration::from_millis(settings.probe.duration_ms.into()));
    let nodes = u32::try_from(settings.nodes.len().max(1)).unwrap_or(u32::MAX);
    let (run, ()) = dashboard::run(wanted, |wires| {
        let mut seq = 0;
        let mut emit = |event: Event| -> Result<(), RecordError> {
            let probing = matches!(event, Event::RoundPlanned { .. });
            let surveyed = matches!(event, Event::NodeSurveyed { .. });
            let kept = match &mut record.writer {
                Some(record) => record.append(&event)?,
                None => now(&mut seq, event),
            };
            wires.show(kept);
            if let Some(pace) = pace {
                let time = if surveyed { pace / nodes } else { pace };
                let _ = (probing || surveyed) && wires.wait(time);
            }
            Ok(())
        };
        // Simulated time does not wait while the run is paused: this does.
        let mut paused = false;
        let mut next = || {
            let asked = match paused {
                true => wires.commands.recv_timeout(PAUSED_FOR).ok(),
                false => wires.commands.try_recv().ok(),
            };
            match asked {
                Some(Command::Pause) => paused = true,
                Some(Command::GoOn) => paused = false,
                _ => {}
            }
            asked
        };
        Conductor::new(fleet, settings, Limits::default(), &wires.stop, &mut emit)
            .obeying(&mut next)
            .run()
            .map_err(|error| Failure::work(Failure::chain(&error)))?;
        let synced = record.writer.as_mut().map_or(Ok(()), Writer::sync);
        synced.map_err(|error| Failure::work(Failure::chain(&error)))
    })?;
    let again = format!("--seed {} makes it again", arguments.seed);
    let ran = record.ran(run.ledger(), again);
    leave(&ran, record.path(), reports, arguments.reports.color)
}

/// An event that happens now, and is on no record.
pub(super) fn now(seq: &mut u64, event: Event) -> Record {
    let at_ms = jiff::Timestamp::now().as_millisecond();
    *seq += 1;
    Record {
        seq: *seq - 1,
        at_ms: u64::try_from(at_ms).unwrap_or(0),
        event,
    }
}

/// A recorded run on the dashboard. However early it is left, the whole run is judged.
pub(super) fn replay(
    arguments: &ReplayArgs,
    records: Vec<Record>,
    reports: Option<Reports>,
) -> Result<u8, Failure> {
    let file = &arguments.file;
    let wanted = Wanted {
        title: file.display().to_string(),
        pace: Some(1.0),
        watches: false,
        face: &arguments.face,
        color: arguments.reports.color,
    };
    let ledger = super::replay::recalled(&records);
    dashboard::run(wanted, |wires| {
        play(records, arguments.fast, wires);
        Ok(())
    })?;
    let ran = Ran::recorded(&ledger, file);
    leave(&ran, Some(file), reports, arguments.reports.color)
}

fn play(records: Vec<Record>, fast: bool, wires: &Wires) {
    let (mut pace, mut paused) = (1.0, false);
    let mut before: Option<u64> = None;
    for record in records {
        let gap = record.at_ms.saturating_sub(before.unwrap_or(record.at_ms));
        before = Some(record.at_ms);
        let mut gap = if fast {
            0.0
        } else {
            gap.min(LONGEST_GAP_MS) as f64
        };
        // In pieces: what is asked for counts at once.
        loop {
            while let Ok(command) = wires.commands.try_recv() {
                match command {
                    Command::Pause => paused = true,
                    Command::GoOn => paused = false,
                    Command::Pace(times) => pace = times,
                    Command::Probe(_) | Command::Exclude(_) => {}
                }
            }
            if !paused && gap <= 0.0 {
                break;
            }
            let piece = if paused { 20.0 } else { (gap / pace).min(20.0) };
            if !wires.wait(Duration::from_secs_f64(piece / 1e3)) {
                return;
            }
            gap -= if paused { 0.0 } else { piece * pace };
        }
        wires.show(record);
    }
}

/// What stays on the normal screen: the verdict, where the run is kept, reports that were asked for.
fn leave(
    ran: &Ran<'_>,
    record: Option<&Path>,
    reports: Option<Reports>,
    color: Color,
) -> Result<u8, Failure> {
    let mut output = Output::standard();
    let style = output.style(color);
    let said = match is_only_cost(ran.ledger()) {
        true => cost_headline(ran.ledger(), style, output.writer()),
        false => headline(ran.ledger(), ran.judgement(), style, output.writer()),
    };
    said.and_then(|()| match record {
        Some(record) => writeln!(output.writer(), "{}", kept(record)),
        None => Ok(()),
    })
    .map_err(|error| Failure::work(format!("cannot write to standard output: {error}")))?;
    output.finish()?;
    match reports {
        Some(reports) => reports.write(ran),
        None => Ok(ran.exit_code()),
    }
}
