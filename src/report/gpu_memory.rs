//! GPUDirect RDMA as it was tried, NIC by NIC: the ways, what was refused, and how fast GPUs are copied.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::findings::paragraph;
use super::text::Style;
use crate::judge::{GpuMemory, GpuVerdict, gpu_memory};
use crate::ledger::Ledger;
use crate::model::{CopyRates, Gbps, NicId, visible};

/// The first line of a report on GPUs that are none.
pub(super) const STAND_IN: &str = "STAND-IN: a driver library for tests hands out host memory as a GPU's; what is \
                                   said of GPU memory was not seen on a GPU.";

/// NICs that a line names.
const MOST_NAMED: usize = 8;
/// Lines: what each NIC has of its own would fill pages.
const MOST_LINES: usize = 16;

/// Writes what came of each NIC, those that are alike together; nothing where no GPU was meant.
pub(super) fn gpu_memory_text(
    ledger: &Ledger,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let found = gpu_memory(ledger);
    if found.is_empty() {
        return Ok(());
    }
    let mut alike: BTreeMap<String, Vec<(&NicId, &GpuMemory)>> = BTreeMap::new();
    for (nic, seen) in &found {
        alike.entry(words(seen)).or_default().push((*nic, seen));
    }
    writeln!(out, "\nGPU memory, by what was tried:")?;
    for (words, nics) in alike.iter().take(MOST_LINES) {
        let text = format!("{}: {words}{}", names(nics), slowest(nics));
        paragraph(out, style, "  - ", "    ", &visible(&text))?;
    }
    match alike.len().saturating_sub(MOST_LINES) {
        0 => Ok(()),
        more => writeln!(out, "  - and {more} more (all in --format json)"),
    }
}

fn names(nics: &[(&NicId, &GpuMemory)]) -> String {
    let name = |(nic, seen): &(&NicId, &GpuMemory)| match (&seen.gpu, &seen.verdict) {
        // The reason names it.
        (Some(gpu), GpuVerdict::Direct(_) | GpuVerdict::Staged) => format!("{nic} and GPU {gpu}"),
        _ => nic.to_string(),
    };
    let shown: Vec<String> = nics.iter().take(MOST_NAMED).map(name).collect();
    match nics.len().saturating_sub(MOST_NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn words(seen: &GpuMemory) -> String {
    let mut words = seen.verdict.to_string();
    if let Some(name) = &seen.name {
        words.push_str(&format!(" ({name})"));
    }
    for refused in &seen.tried {
        words.push_str(&format!("; {} was refused: {}", refused.way, refused.why));
    }
    words
}

/// The slowest copies of the GPUs of a line.
fn slowest(nics: &[(&NicId, &GpuMemory)]) -> String {
    let rates: Vec<&CopyRates> = nics
        .iter()
        .filter_map(|(_, seen)| seen.copies.value())
        .collect();
    let least = |rate: fn(&CopyRates) -> Gbps| {
        let rates = rates.iter().map(|rates| rate(rates));
        rates.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    match (least(|rates| rates.to_gpu), least(|rates| rates.from_gpu)) {
        (Some(to), Some(from)) => {
            let at_least = if rates.len() > 1 { "at least " } else { "" };
            format!("; copies between host and GPU: {at_least}{to} to it, {from} from it")
        }
        _ => String::new(),
    }
}

/// The same as a value, NIC by NIC.
pub(super) fn gpu_memory_json(ledger: &Ledger) -> Vec<Value> {
    let value = |(nic, seen): (&NicId, GpuMemory)| {
        let (way, why) = match &seen.verdict {
            GpuVerdict::Direct(way) => (Some(*way), None),
            GpuVerdict::Staged => (None, None),
            GpuVerdict::NotAvailable(why) | GpuVerdict::CannotTell(why) => (None, Some(why)),
        };
        json!({
            "node": nic.node,
            "nic": nic.device,
            "port": nic.port,
            "gpu": seen.gpu,
            "gpu_name": seen.name,
            "stand_in": seen.stand_in,
            "verdict": seen.verdict.name(),
            "way": way,
            "why": why,
            "tried": seen.tried,
            "copies": seen.copies,
        })
    };
    gpu_memory(ledger).into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::gpu_memory_testing::on_gpus;
    use crate::judge::judge;
    use crate::ledger::testing::{events, ledger};
    use crate::model::{Event, GPU_MEMORY_REFUSED, MemoryWay, Outcome, ProbeStage};
    use crate::report::text::text;

    const H100: &str = "NVIDIA H100 80GB HBM3";

    fn run(name: &str) -> Vec<Event> {
        on_gpus(
            events(3, 2, &|_, _, _| Some(391.0)),
            MemoryWay::PeerMemory,
            name,
        )
    }

    fn shown(events: &[Event]) -> String {
        let ledger = ledger(events);
        let mut out = Vec::new();
        let style = Style {
            color: false,
            width: 100,
        };
        text(&ledger, &judge(&ledger), style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nics_that_are_alike_are_a_line() {
        let shown = shown(&run(H100));
        let (_, part) = shown.split_once("GPU memory, by what was tried:").unwrap();
        insta::assert_snapshot!(part);
    }

    #[test]
    fn a_stand_in_is_said_to_be_one_before_all_else() {
        let events = run("Stand-in GPU in host memory");
        assert!(shown(&events).starts_with("STAND-IN: "));
        assert!(!shown(&run(H100)).contains("STAND-IN"));
        let ledger = ledger(&events);
        let mut out = Vec::new();
        crate::report::json(&ledger, &judge(&ledger), &mut out).unwrap();
        let report: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(report["stand_in_gpu"], true);
        assert_eq!(report["gpu_memory"][0]["stand_in"], true);
        assert_eq!(report["gpu_memory"][0]["way"], "peer_memory");
        assert_eq!(report["gpu_memory"].as_array().unwrap().len(), 6);
    }

    #[test]
    fn what_was_refused_is_not_called_fast_or_slow() {
        let mut events = run(H100);
        for event in &mut events {
            if let Event::ProbeEnded { outcome, .. } = event {
                *outcome = Outcome::Failed {
                    stage: ProbeStage::Prepare,
                    node: Some("node02".into()),
                    why: format!(
                        "{GPU_MEMORY_REFUSED}, of GPU 0000:9a:00.0 with mlx5_0: peer memory: \u{1b}[2Jno"
                    ),
                };
            }
        }
        let shown = shown(&events);
        let (_, part) = shown.split_once("GPU memory, by what was tried:").unwrap();
        assert!(
            part.contains("of node02: not available: GPU memory is not registered"),
            "{part}"
        );
        assert!(
            !part.contains('\u{1b}') && !part.contains("copies between"),
            "{part}"
        );
    }

    #[test]
    fn without_gpus_nothing_is_said() {
        let shown = shown(&events(3, 2, &|_, _, _| Some(391.0)));
        assert!(!shown.contains("GPU memory"), "{shown}");
    }
}
