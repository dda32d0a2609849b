//! What the forms of a report cost: CPU time of one thread, and memory beyond that of the books.
//!
//! `cargo bench --bench report [-- NODES…]`. Runs of 64 and 1024 nodes of 8 rails are simulated and recorded by
//! one process and written by another, each form to a file: first by themselves, then held against an
//! acceptance profile. The bound is 2 s and 300 MiB at 1024 nodes.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails where it stands"
)]

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jiff::civil::Date;
use linerate::accept::accept;
use linerate::cluster::{Conductor, Limits};
use linerate::config::{DEMO, read_profile, read_scenario};
use linerate::judge::judge;
use linerate::ledger::Ledger;
use linerate::model::Event;
use linerate::record::{Lines, Reader, Writer, span};
use linerate::report::{
    Run, Style, accept_json, accept_text, csv_nodes, csv_pairs, html, json, jsonl, junit, markdown,
    openmetrics, tap, text,
};
use linerate::simulated::SimulatedFleet;
use nix::time::{ClockId, clock_gettime};
use procfs::process::Process;

const RAILS: u16 = 8;

/// What runs are held against.
const PROFILE: &str = include_str!("../configs/profiles/hgx-h100-ndr400-ib.toml");

type Form = fn(&Run<'_>, &Path, &mut dyn Write) -> io::Result<()>;

const FORMS: [(&str, Form); 10] = [
    ("text", |run, _, out| {
        let style = Style {
            color: false,
            width: 100,
        };
        match run.acceptance {
            Some(accepted) => accept_text(run.ledger, run.judgement, accepted, style, out),
            None => text(run.ledger, run.judgement, style, out),
        }
    }),
    ("markdown", |run, _, out| markdown(run, out)),
    ("json", |run, _, out| match run.acceptance {
        Some(accepted) => accept_json(run.ledger, accepted, out),
        None => json(run.ledger, run.judgement, out),
    }),
    ("jsonl", |_, record, out| {
        let lines = Lines::open(record).map_err(io::Error::other)?;
        jsonl(
            lines.map(|line| Ok(line.map_err(io::Error::other)?.json)),
            out,
        )
    }),
    ("csv-pairs", |run, _, out| csv_pairs(run, out)),
    ("csv-nodes", |run, _, out| csv_nodes(run, out)),
    ("junit", |run, _, out| junit(run, out)),
    ("tap", |run, _, out| tap(run, out)),
    ("openmetrics", |run, _, out| openmetrics(run, out)),
    ("html", |run, _, out| html(run, out)),
];

/// What a call gives, and what it takes of this thread's CPU time, in seconds.
fn timed<T>(call: impl FnOnce() -> T) -> (f64, T) {
    let cpu = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    let before = cpu();
    let result = call();
    (Duration::from(cpu() - before).as_secs_f64(), result)
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut next = || words.find(|word| !word.starts_with("--"));
    let first = next();
    match first.as_deref() {
        Some("play") => return play(&next().unwrap(), next().unwrap().as_ref()),
        Some("write") => return write(&next().unwrap(), next().unwrap().as_ref()),
        _ => {}
    }
    let asked: Vec<String> = first.into_iter().chain(std::iter::from_fn(next)).collect();
    let usual = || ["64", "1024"].map(String::from).to_vec();
    let sizes = if asked.is_empty() { usual() } else { asked };
    println!("  nodes  form          CPU s   MiB more   MB written");
    for nodes in sizes {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("run.jsonl");
        for what in ["play", "write"] {
            let mut child = Command::new(std::env::current_exe().unwrap());
            let child = child.arg(what).arg(&nodes).arg(&record);
            assert!(child.status().unwrap().success());
        }
    }
}

/// Records a simulated run.
fn play(nodes: &str, record: &Path) {
    let scenario = read_scenario(DEMO, "the demo").unwrap();
    let (scenario, _) = scenario.resized(Some(nodes.parse().unwrap()), Some(RAILS));
    let settings = scenario.settings(1).unwrap();
    let fleet = SimulatedFleet::new(&scenario, &settings.nodes, 1);
    let mut writer = Writer::create(record).unwrap();
    let mut emit = |event: Event| -> Result<(), Infallible> {
        writer.append(&event).unwrap();
        Ok(())
    };
    let stop = AtomicBool::new(false);
    let conductor = Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit);
    conductor.run().unwrap();
}

/// Reads it, holds it against a profile, and writes each form.
fn write(nodes: &str, record: &Path) {
    let mut ledger = Ledger::default();
    let reader = Reader::new(BufReader::new(File::open(record).unwrap()), record);
    reader.for_each(|event| ledger.apply(&event.unwrap().event));
    let judgement = judge(&ledger);
    let (reading, span) = timed(|| span(record).unwrap());
    println!("{nodes:>7}  (its time)  {reading:>7.2}");
    let profile = read_profile(PROFILE, "the profile").unwrap();
    let accepting = || accept(&profile, &ledger, &judgement, None, Date::default());
    let (judging, accepted) = timed(accepting);
    for acceptance in [None, Some(&accepted)] {
        if acceptance.is_some() {
            let results = accepted.results.len();
            println!("{nodes:>7}  (profile)   {judging:>7.2}  {results} results, with which:");
        }
        let run = Run {
            ledger: &ledger,
            judgement: &judgement,
            acceptance,
            span,
        };
        for form in FORMS {
            write_one(nodes, &run, record, form);
        }
    }
}

fn write_one(nodes: &str, run: &Run<'_>, record: &Path, (name, form): (&str, Form)) {
    let file = tempfile::tempfile_in(record.parent().unwrap()).unwrap();
    let mut out = BufWriter::new(file);
    let (resident, _) = memory();
    // The peak begins anew (proc(5), clear_refs).
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let (spent, ()) = timed(|| {
        form(run, record, &mut out).unwrap();
        out.flush().unwrap();
    });
    let (_, peak) = memory();
    let written = out.get_ref().metadata().unwrap().len();
    println!(
        "{nodes:>7}  {name:<11} {spent:>7.2} {:>10.0} {:>12.1}",
        peak - resident,
        written as f64 / 1e6
    );
}

/// What of this process is in memory now, and was at most, in MiB.
fn memory() -> (f64, f64) {
    let status = Process::myself().unwrap().status().unwrap();
    let mib = |kib: Option<u64>| kib.unwrap() as f64 / 1024.0;
    (mib(status.vmrss), mib(status.vmhwm))
}
