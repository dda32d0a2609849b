//! What comparing two runs costs: `cargo bench --bench compare [-- NODES…]`.
//!
//! Two runs of each number of nodes with 8 rails are simulated, one with a NIC at half, and added up. CPU
//! time of one thread: reading one record of that size and judging it, as `linerate history` does for each,
//! then the comparison, and writing it as text and as JSON.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails where it stands"
)]

use std::convert::Infallible;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linerate::cluster::{Conductor, Limits};
use linerate::compare::{Nodes, Side, compare};
use linerate::config::read_scenario;
use linerate::judge::{Judgement, judge};
use linerate::ledger::Ledger;
use linerate::model::{Event, Pattern};
use linerate::record::{Reader, Writer};
use linerate::report::Style;
use linerate::report::compare::{ComparedRun, json, text};
use linerate::simulated::SimulatedFleet;
use nix::time::{ClockId, clock_gettime};

const RAILS: u16 = 8;

/// CPU time of this thread.
fn cpu() -> Duration {
    let clock = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    clock.unwrap().into()
}

fn timed<T>(call: impl FnOnce() -> T) -> (f64, T) {
    let before = cpu();
    let result = call();
    ((cpu() - before).as_secs_f64(), result)
}

/// Records a simulated run.
fn record(path: &Path, nodes: u16, seed: u64, fault: &str) {
    let text = format!("nodes = {nodes}\nrails = {RAILS}\n{fault}");
    let scenario = read_scenario(&text, "bench").unwrap_or_else(|errors| panic!("{errors}"));
    let mut settings = scenario.settings(seed).unwrap();
    settings.sweep.pattern = Pattern::Adaptive;
    let fleet = SimulatedFleet::new(&scenario, &settings.nodes, seed);
    let stop = AtomicBool::new(false);
    let mut writer = Writer::create(path).unwrap();
    let mut emit = |event: Event| -> Result<(), Infallible> {
        writer.append(&event).unwrap();
        Ok(())
    };
    Conductor::new(fleet, settings, Limits::default(), &stop, &mut emit)
        .run()
        .unwrap();
}

fn read(path: &Path) -> (Ledger, Judgement) {
    let mut ledger = Ledger::default();
    for record in Reader::new(BufReader::new(File::open(path).unwrap()), path) {
        ledger.apply(&record.unwrap().event);
    }
    let judgement = judge(&ledger);
    (ledger, judgement)
}

fn main() {
    let asked: Vec<u16> = std::env::args()
        .filter_map(|word| word.parse().ok())
        .collect();
    let sizes = if asked.is_empty() {
        vec![16, 128, 1024]
    } else {
        asked
    };
    println!(" nodes  record MiB  read+judge s  compare s    text s    JSON s  JSON MiB");
    for nodes in sizes {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["before.jsonl", "after.jsonl"].map(|name| folder.path().join(name));
        // Names are as long as that of the last, and no shorter than node001.
        let digits = nodes.to_string().len().max(3);
        let half = format!(
            "[[slow_nic]]\nnode = \"node{:0digits$}\"\nrail = 1\ndirection = \"tx\"\nratio = 0.5\n",
            2
        );
        record(&paths[0], nodes, 1, "");
        record(&paths[1], nodes, 2, &half);
        let size = paths[0].metadata().unwrap().len();
        let (reading, before) = timed(|| read(&paths[0]));
        let after = read(&paths[1]);
        let [then, now] = [&before, &after].map(|(ledger, judgement)| Side { ledger, judgement });
        let (comparing, found) = timed(|| compare(then, now, Nodes::All).unwrap());
        let runs = [&before, &after].map(|(ledger, judgement)| ComparedRun {
            name: "bench",
            began: None,
            linerate: "",
            ledger,
            verdict: judgement.verdict,
        });
        let style = Style {
            color: false,
            width: 100,
        };
        let (writing, ()) = timed(|| text(&found, runs, style, &mut std::io::sink()).unwrap());
        let mut out = Vec::new();
        let (documenting, ()) = timed(|| json(&found, runs, &mut out).unwrap());
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "{nodes:6}  {:10.1}  {reading:12.2}  {comparing:9.3}  {writing:8.4}  {documenting:8.4}  {:8.2}",
            mib(size),
            mib(out.len() as u64)
        );
        assert_eq!(found.regressions(), 1, "one NIC is at half");
    }
}
