//! GPUDirect RDMA as it was tried, NIC by NIC: the ways, what was refused, and how fast GPUs are copied.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::findings::paragraph;
use super::text::Style;
use crate::judge::{GpuMemory, GpuVerdict, gpu_memory};
use crate::ledger::Ledger;
use crate::model::{
    CopyRates, Fact, Gbps, MemoryWay, NicId, NodeName, PciAddress, RefusedWay, visible,
};

/// The first line of a report on GPUs that are none.
pub(super) const STAND_IN: &str = "STAND-IN: a driver library for tests hands out host memory as a GPU's; what is \
                                   said of GPU memory was not seen on a GPU.";

/// NICs that a line names.
const MOST_NAMED: usize = 8;
/// Lines: what each NIC has of its own would fill pages.
const MOST_LINES: usize = 16;

/// NICs that came to the same: a line of a text, a row of a table.
pub(super) struct GpuLine {
    /// Their names, with those of their GPUs where the verdict has none.
    pub(super) nics: String,
    pub(super) verdict: String,
    /// What the driver calls the GPUs, where it answered.
    pub(super) model: String,
    /// Each way that was refused, with its reason.
    pub(super) refused: Vec<String>,
    /// The slowest copies from the host to one of the GPUs, and from one to the host.
    pub(super) copies: Option<[String; 2]>,
}

/// What came of each NIC, those that are alike together, and how many lines more there would be; no line
/// where no GPU was meant.
pub(super) fn gpu_lines(ledger: &Ledger) -> (Vec<GpuLine>, usize) {
    let found = gpu_memory(ledger);
    let mut alike: BTreeMap<_, Vec<(&NicId, &GpuMemory)>> = BTreeMap::new();
    for (nic, seen) in &found {
        let (name, refused) = (seen.name.as_deref(), refused(&seen.tried));
        let same = (seen.verdict.to_string(), name.unwrap_or_default(), refused);
        alike.entry(same).or_default().push((*nic, seen));
    }
    let more = alike.len().saturating_sub(MOST_LINES);
    let line = |((verdict, model, refused), nics): ((_, &str, _), Vec<_>)| GpuLine {
        nics: names(&nics),
        verdict,
        model: model.to_owned(),
        refused,
        copies: slowest(&nics),
    };
    (alike.into_iter().take(MOST_LINES).map(line).collect(), more)
}

fn refused(tried: &[RefusedWay]) -> Vec<String> {
    let words = |refused: &RefusedWay| format!("{} was refused: {}", refused.way, refused.why);
    tried.iter().map(words).collect()
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

/// Of several GPUs the others are copied no slower.
fn slowest(nics: &[(&NicId, &GpuMemory)]) -> Option<[String; 2]> {
    let rates = nics.iter().filter_map(|(_, seen)| seen.copies.value());
    let rates: Vec<&CopyRates> = rates.collect();
    let least = |rate: fn(&CopyRates) -> Gbps| {
        let least = rates.iter().map(|rates| rate(rates));
        let least = least.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let at_least = if rates.len() > 1 { "at least " } else { "" };
        Some(format!("{at_least}{least}"))
    };
    Some([least(|rates| rates.to_gpu)?, least(|rates| rates.from_gpu)?])
}

/// Writes what came of the NICs; nothing where no GPU was meant.
pub(super) fn gpu_memory_text(
    ledger: &Ledger,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (lines, more) = gpu_lines(ledger);
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nGPU memory, by what was tried:")?;
    for line in &lines {
        paragraph(out, style, "  - ", "    ", &visible(&words(line)))?;
    }
    match more {
        0 => Ok(()),
        more => writeln!(out, "  - and {more} more (all in --format json)"),
    }
}

fn words(line: &GpuLine) -> String {
    let mut words = format!("{}: {}", line.nics, line.verdict);
    if !line.model.is_empty() {
        words.push_str(&format!(" ({})", line.model));
    }
    for refused in &line.refused {
        words.push_str(&format!("; {refused}"));
    }
    if let Some([to, from]) = &line.copies {
        words.push_str(&format!(
            "; copies between host and GPU: {to} to it, {from} from it"
        ));
    }
    words
}

/// What came of a NIC, for programs.
#[derive(Debug, Clone, Serialize)]
pub(super) struct GpuFields<'a> {
    node: &'a NodeName,
    nic: &'a str,
    port: u8,
    pub(super) gpu: Option<PciAddress>,
    pub(super) gpu_name: Option<String>,
    stand_in: bool,
    pub(super) verdict: &'static str,
    pub(super) way: Option<MemoryWay>,
    pub(super) why: Option<String>,
    pub(super) tried: Vec<RefusedWay>,
    pub(super) copies: Fact<CopyRates>,
}

/// The same, NIC by NIC.
pub(super) fn gpu_fields(ledger: &Ledger) -> impl Iterator<Item = (&NicId, GpuFields<'_>)> {
    gpu_memory(ledger).into_iter().map(|(nic, seen)| {
        let verdict = seen.verdict.name();
        let (way, why) = match seen.verdict {
            GpuVerdict::Direct(way) => (Some(way), None),
            GpuVerdict::Staged => (None, None),
            GpuVerdict::NotAvailable(why) | GpuVerdict::CannotTell(why) => (None, Some(why)),
        };
        let fields = GpuFields {
            node: &nic.node,
            nic: &nic.device,
            port: nic.port,
            gpu: seen.gpu,
            gpu_name: seen.name,
            stand_in: seen.stand_in,
            verdict,
            way,
            why,
            tried: seen.tried,
            copies: seen.copies,
        };
        (nic, fields)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::judge::gpu_memory_testing::on_gpus;
    use crate::judge::judge;
    use crate::ledger::testing::{events, ledger};
    use crate::model::{Event, GPU_MEMORY_REFUSED, MemoryWay, Outcome, ProbeStage};
    use crate::report::text::text;
    use crate::report::{Run, csv_nodes, csv_pairs, html, markdown};

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

    type Form = fn(&Run<'_>, &mut dyn Write) -> io::Result<()>;

    fn formed(form: Form, events: &[Event]) -> String {
        let ledger = ledger(events);
        let run = Run {
            ledger: &ledger,
            judgement: &judge(&ledger),
            acceptance: None,
            span: None,
        };
        let mut out = Vec::new();
        form(&run, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The rows of a table, by the names of its columns.
    fn rows(form: Form, events: &[Event]) -> Vec<BTreeMap<String, String>> {
        let text = formed(form, events);
        let mut table = csv::Reader::from_reader(text.as_bytes());
        table.deserialize().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn tables_have_what_came_of_the_memory_of_gpus() {
        let direct = formed(markdown, &run(H100));
        let (_, part) = direct.split_once("### GPU memory").unwrap();
        insta::assert_snapshot!(part.split("\n###").next().unwrap());
        let page = formed(html, &run(H100));
        assert!(page.contains("href=\"#gpu\"") && page.contains("<td>direct, by peer memory</td>"));

        let rows = rows(csv_nodes, &run(H100));
        assert_eq!(rows.len(), 6);
        for (column, field) in [
            ("stand_in_gpu", "no"),
            ("gpu", "0000:9a:00.0"),
            ("gpu_name", H100),
            ("gpu_memory", "direct"),
            ("gpu_memory_way", "peer_memory"),
            (
                "gpu_memory_refused",
                "dma-buf: the CUDA driver exports no dma-buf",
            ),
            ("copy_to_gpu_gbps", "420.0"),
            ("copy_from_gpu_gbps", "410.0"),
        ] {
            assert_eq!(rows[0][column], field, "{column}");
        }
    }

    #[test]
    fn each_row_says_that_a_gpu_was_none() {
        let events = run("Stand-in GPU in host memory");
        for form in [csv_nodes, csv_pairs] {
            assert!(
                rows(form, &events)
                    .iter()
                    .all(|row| row["stand_in_gpu"] == "yes")
            );
        }
    }

    fn refused() -> Vec<Event> {
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
        events
    }

    #[test]
    fn what_was_refused_is_not_called_fast_or_slow() {
        let rows = rows(csv_nodes, &refused());
        let row = rows.iter().find(|row| row["node"] == "node02").unwrap();
        assert_eq!(
            (&*row["gpu_memory"], &*row["copy_to_gpu_gbps"]),
            ("not_available", "")
        );
        assert!(
            row["gpu_memory_why"].starts_with(GPU_MEMORY_REFUSED),
            "{row:?}"
        );
        let shown = shown(&refused());
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
        let events = events(3, 2, &|_, _, _| Some(391.0));
        for form in [markdown, html] {
            assert!(!formed(form, &events).contains("GPU memory"));
        }
        assert!(
            rows(csv_nodes, &events)
                .iter()
                .all(|row| row["gpu_memory"].is_empty())
        );
        let shown = shown(&events);
        assert!(!shown.contains("GPU memory"), "{shown}");
    }
}
